"""The commands for Linux that install the advised queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aqmlab import tc
from aqmlab.advice.candidates import with_candidate

if TYPE_CHECKING:
    from aqmlab.advice.choice import Advice
    from aqmlab.advice.run import Question
    from aqmlab.scenario import Scenario

DEVICE = "eth0"
"""Default name of the device that sends into the link."""


def commands(question: Question, advice: Advice, device: str = DEVICE) -> dict[str, tc.Commands]:
    """Returns the commands of `tc` for each link whose queue the advice replaces, by the name of the link.
    The commands configure the rate and the queue, because a real line has its own delay. Empty unless the
    outcome is `change`. If `tc` has no counterpart of a queue, the commands consist of a limit with the
    reason. Raises `ValueError` if `device` is not the name of a network device."""
    tc.checked_device("device", device)
    if advice.outcome != "change" or advice.best is None:
        return {}
    changed = with_candidate(question.scenario, advice.best, question.links)
    return {link: _commands(changed, link, device) for link in question.links}


def _commands(scenario: Scenario, link: str, device: str) -> tc.Commands:
    try:
        return tc.write(scenario, link, device, netem=False)
    except ValueError as error:
        return tc.Commands(lines=(), undo=(), limits=(str(error),))
