"""Explanations of single transfers: which packets were lost or marked, why, and what each loss cost.

`runs.py` runs a scenario, finds the slowest transfers and records the history of one flow. `packets.py`
reconstructs the fate of each packet of the flow, `losses.py` computes the cost of each loss, `sender.py`
finds the sender's reactions, and `marks.py` combines the marked packets with these reactions. `story.py`
combines these parts, `sentences.py` describes them, and `picture.py` draws them.
"""

from aqmlab.explain.losses import Loss
from aqmlab.explain.marks import Mark
from aqmlab.explain.picture import chart
from aqmlab.explain.runs import recorded, slowest
from aqmlab.explain.sender import Reaction
from aqmlab.explain.sentences import sentences
from aqmlab.explain.story import Story, explain, of_run

__all__ = [
    "Loss",
    "Mark",
    "Reaction",
    "Story",
    "chart",
    "explain",
    "of_run",
    "recorded",
    "sentences",
    "slowest",
]
