"""The cases and the form of the claims, which the study and its form for senders that are seen from outside
(`outside.py`) have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aqmlab.results.labels import Labels
from aqmlab.results.rule import AnyRule
from aqmlab.studies.bbr_cases import network as net
from aqmlab.study import Claim, every, mean_of

SEEDS = 5

OfSeed = Callable[[dict[str, Any], Labels, int], dict[str, Any]]
"""Changes the scenario of a case for a seed."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("Base set-up", net.NORMAL),
    "limited-loss": ("Application-limited, 10 % loss", net.LIMITED_LOSS),
    "limited": ("Application-limited, no loss", net.LIMITED),
    "slower-in-drain": ("Rate -10 % in Drain", net.SLOWER_IN_DRAIN),
    "half-in-drain": ("Rate -55 % in Drain", net.HALF_IN_DRAIN),
    "slower-in-down": ("Rate -10 % in DOWN", net.SLOWER_IN_DOWN),
    "idle": ("Pauses of the application", net.IDLE),
    "aggregated": ("Aggregated acknowledgements", net.AGGREGATED),
    "sub-packet": ("64 kb/s, 1 ms", net.SUB_PACKET),
    "ten-times": ("10 to 100 Mb/s", net.TEN_TIMES),
    "ten-times-with-loss": ("10 to 100 Mb/s, buffer 1 BDP", net.TEN_TIMES_WITH_LOSS),
    "tenth": ("100 to 10 Mb/s", net.TENTH),
    "policed": ("Policer", net.POLICED),
    "reordered": ("Reordering", net.REORDERED),
    "delayed": ("Delay spike", net.DELAYED),
    "long-path": ("Round trip 1 s", net.LONG_PATH),
    "lossy": ("3 % loss", net.LOSSY),
    "paused": ("Pause in REFILL", net.PAUSED),
}
"""The titles and scenarios of the cases by name."""


def claim(number: int, statement: str, *rules: AnyRule, source: str = "") -> Claim:
    """The draft's expectation of a case, as far as the rules can judge the expectation."""
    text = f"case {number}"
    return Claim(f"BBR-{number}", statement, every(*rules), f"{text}; {source}" if source else text)


def always(variable: Any) -> AnyRule:
    """The rule that a share is 1."""
    return mean_of(variable) >= 1
