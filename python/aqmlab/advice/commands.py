"""The commands for Linux that install a recommended queue (`aqmlab.tc`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aqmlab import tc
from aqmlab.advice import candidates
from aqmlab.advice.candidates import TODAY
from aqmlab.tc.link import checked_device

if TYPE_CHECKING:
    from aqmlab.advice.run import Question
    from aqmlab.tc import Commands

BOTTLENECK, BACK = DIRECTIONS = "bottleneck", "bottleneck-back"
"""The two directions of a dumbbell, of which the second leads away from the home (as in scenarios of `link
new`)."""


def check_device(device: str) -> None:
    """Raises `ValueError` if `device` is not a valid name of a network device."""
    checked_device("--device", device)


def commands(question: Question, queues: Mapping[str, str], device: str) -> dict[str, Commands]:
    """Returns the commands that install a candidate at each of these links, by link, without links that keep
    today's queue. `device` is the network device that sends into the link. If a candidate is installed in
    both directions of a dumbbell, one set of commands configures both directions at the home's router, whose
    `device` leads to the line. The commands do not delay packets, because a real line has its own delay.

    Raises `ValueError` if Linux does not have a queue."""
    scenario = candidates.with_candidates(question.scenario, queues)
    links = [link for link in question.links if queues[link] != TODAY]
    if set(links) == set(DIRECTIONS):
        both = tc.write(scenario, link=BACK, device=device, download=BOTTLENECK, netem=False)
        return {f"{BACK} and {BOTTLENECK}": both}
    return {link: tc.write(scenario, link=link, device=device, netem=False) for link in links}
