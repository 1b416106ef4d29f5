"""The commands for Linux that install the advised queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aqmlab import tc
from aqmlab.advice.candidates import with_candidate

if TYPE_CHECKING:
    from aqmlab.advice.choice import Advice
    from aqmlab.advice.run import Question

DEVICE = "eth0"
"""Default name of the device that sends into the link."""


def commands(question: Question, advice: Advice, device: str = DEVICE) -> dict[str, tc.Commands]:
    """Returns the commands of `tc` for each link whose queue the advice replaces, by the name of the link.
    The commands configure the rate and the queue, because a real line has its own delay. Empty unless the
    outcome is `change`. Raises `ValueError` if `device` is not the name of a network device."""
    if advice.outcome != "change" or advice.best is None:
        return {}
    changed = with_candidate(question.scenario, advice.best, question.links)
    return {link: tc.write(changed, link, device, netem=False) for link in question.links}
