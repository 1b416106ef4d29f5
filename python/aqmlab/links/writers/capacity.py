"""The capacity of a link of a scenario over time."""

from __future__ import annotations

from typing import Any

from aqmlab import _core
from aqmlab._support.names import hint
from aqmlab.links.rate_steps import decimal
from aqmlab.scenario import Scenario

CONSTANT_S = 1.0
"""Duration of a trace of a constant rate, which repeats: with whole milliseconds, the error of the rate is
at most one packet per second. aqmlab's choice."""

MOST_STEPS = 10_000_000
"""Maximum number of rate steps that are read."""

UNREADABLE = ("opportunities", "aggregation", "random_outages", "outages")
"""Keys of a link that rate steps cannot express."""

Steps = list[tuple[float, float]]


def of_link(scenario: Scenario, name: str, duration_s: float | None) -> tuple[Steps, float]:
    """Returns the times in seconds and the rates in bit/s of a link's rate steps, beginning at time 0, and
    the duration after which they repeat.

    Raises `ValueError` if the link does not exist, or if its capacity is not a sequence of rates.
    """
    if scenario.level != "packet":
        raise ValueError(f"{scenario.name}: must have the level packet (got {scenario.level})")
    tables = scenario.links
    if name not in tables:
        raise ValueError(f"--link: no link with a queue is named `{name}`: {hint(name, tables)}")
    path, table = tables[name]
    for key in UNREADABLE:
        if table.get(key):
            remedy = (
                "the file is already a Mahimahi trace"
                if key == "opportunities"
                else "remove the key with --set"
            )
            raise ValueError(f"{path}.{key}: cannot be written as a Mahimahi trace from rate steps: {remedy}")
    begin_s = 0.0
    if duration_s is None:
        duration_s = _period(scenario, table)
        # In the first period, the rate before the first step is the link's `rate`; in all others, the last
        # step's rate.
        begin_s = duration_s if table.get("rate_repeat") is not None else 0.0
    if not duration_s > 0:
        raise ValueError(f"--duration: must be greater than 0s (got {duration_s:g}s)")
    whole = scenario.with_({"duration": f"{decimal(begin_s + duration_s)}s", "warm_up": "0s"})
    changes = [(at, _bps(rate)) for at, rate in whole.plan.rate_steps(name, MOST_STEPS)]
    before = [rate for at, rate in changes if at <= begin_s]
    first = before[-1] if before else _bps(table["rate"])
    later = [(round(at - begin_s, 9), rate) for at, rate in changes if at > begin_s]
    return [(0.0, first), *later], duration_s


def _period(scenario: Scenario, table: dict[str, Any]) -> float:
    if table.get("rate_repeat") is not None:
        return _core.quantity(table["rate_repeat"])[0]
    if table.get("rate_steps") or table.get("rate_file"):
        return _core.quantity(scenario.effective["duration"])[0]
    return CONSTANT_S


def _bps(rate: str) -> float:
    return _core.quantity(rate)[0]
