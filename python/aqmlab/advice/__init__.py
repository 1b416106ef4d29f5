"""Advice: the queue that serves given uses of a line best, and the evidence for this advice.

`uses.py` maps uses of a line to measures of a scenario's workloads, `candidates.py` lists the queues, and
`constraints.py` reads constraints. `run.py` runs the candidates as sweeps, `choice.py` judges the results by
the law of verdict, and `links.py` chooses the queue of each link. `commands.py` creates the commands for
Linux, `sentences.py` describes the choice, and `picture.py` draws the trade-off.
"""

from aqmlab.advice.candidates import DEFAULT_QUEUES, TODAY
from aqmlab.advice.choice import Advice, Assessment, judge
from aqmlab.advice.commands import check_device, commands
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.links import LinkChoice, Recommendation
from aqmlab.advice.picture import chart
from aqmlab.advice.run import Question, advise, note, settings
from aqmlab.advice.sentences import (
    label_of,
    of_first_step,
    of_link,
    of_recommendation,
    place_of,
    rows,
    rows_of_link,
    sentences,
)
from aqmlab.advice.uses import USES, Score, scores

__all__ = [
    "DEFAULT_QUEUES",
    "TODAY",
    "USES",
    "Advice",
    "Assessment",
    "Constraint",
    "LinkChoice",
    "Question",
    "Recommendation",
    "Score",
    "advise",
    "chart",
    "check_device",
    "commands",
    "judge",
    "label_of",
    "note",
    "of_first_step",
    "of_link",
    "of_recommendation",
    "place_of",
    "rows",
    "rows_of_link",
    "scores",
    "sentences",
    "settings",
]
