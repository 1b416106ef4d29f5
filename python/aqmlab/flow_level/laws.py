"""The flow level: a link shared by flows that come and go, without packets, and what theory says of it.

With processor sharing and Poisson arrivals of sessions the number of flows in progress is geometric,
`P(N = n) = (1 - load) load^n`, and a flow's throughput is the capacity times `1 - load`, whatever the
sizes (Bonald and Roberts, "Congestion at Flow Level and the Impact of User Behaviour", 2003). With equal
peak rates it is the law of M/G/R processor sharing (Lindberger 1999). Three regimes follow: Kortebi,
Oueslati and Roberts, "Cross-protect: Implicit Service Differentiation and Admission Control", 2004.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from aqmlab._support.run import Run
    from aqmlab.charts.chart import Chart
    from aqmlab.scenario import Scenario

Regime = Literal["transparent", "elastic", "overload"]


# What theory says


def relative_load(load: float, streaming_load: float) -> float:
    """The elastic load, as a share of what streaming leaves of the capacity."""
    return (load - streaming_load) / (1 - streaming_load) if streaming_load < 1 else math.inf


def number_law(load: float, count: int, peak_share: float = math.inf) -> list[float]:
    """P(N = 0), ..., P(N = count - 1) with processor sharing: the geometric law, or that of flows with
    equal peak rates which are this share of the capacity. All NaN from a load of one on."""
    if not load < 1:
        return [math.nan] * count
    # From here on the flows fill the link, and each step is a factor of the load.
    full = max(1, math.ceil(1 / peak_share))
    steps = max(full, count)
    terms = [1.0]
    for number in range(1, steps + 1):
        terms.append(terms[-1] * load / min(number * peak_share, 1.0))
    total = math.fsum(terms[:full]) + terms[full] / (1 - load)
    return [term / total for term in terms[:count]]


def throughput_law(load: float, peak_share: float = math.inf) -> float:
    """A flow's throughput as a share of the capacity: `1 - load` without peak rates, 0 in overload."""
    if not load < 1:
        return 0.0
    full = max(1, math.ceil(1 / peak_share))
    law = number_law(load, full + 1, peak_share)
    below = math.fsum(number * law[number] for number in range(full))
    beyond = law[full] * (full / (1 - load) + load / (1 - load) ** 2)
    return load / (below + beyond)


# What a scenario and a run say


def peak_share(scenario: Scenario) -> float:
    """The peak rate of elastic flows over the capacity; infinite if there is none, or not one for all."""
    from aqmlab.metrics import bits_per_second

    tables = scenario.effective["traffic"].values()
    peaks = {one["peak_rate"] for one in tables if one["service"] == "elastic"}
    peak = peaks.pop() if len(peaks) == 1 else None
    if peak is None:
        return math.inf
    return bits_per_second(peak) / bits_per_second(scenario.effective["link"]["capacity"])


def at_load(scenario: Scenario, load: float) -> Scenario:
    """The scenario with the load of all traffic together changed, in proportion."""
    given = {name: one["load"] for name, one in scenario.effective["traffic"].items()}
    if None in given.values():
        raise ValueError("loads can be changed where every traffic has a `load`")
    total = math.fsum(given.values())
    return scenario.with_({f"traffic.{name}.load": load * part / total for name, part in given.items()})


# Three regimes


def regime(load: float, saturated: float) -> Regime:
    """Which regime a link is in: `saturated` is the share of the time in which peak rates fill it.

    *Transparent*: hardly ever (less than 1 % of the time, our number), so that flows do not notice each
    other. *Elastic*: they do, and sharing matters. *Overload*: more comes than the link can carry.
    """
    if load >= 1:
        return "overload"
    return "elastic" if saturated >= 0.01 else "transparent"


def demand_chart(runs: Mapping[str, Run]) -> Chart:
    """What flows in progress could take of the link, a panel for each run: `{"transparent": run, ...}`."""
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.metrics.flow_level import demand

    parts = [demand(run).with_columns(regime=pl.lit(name)) for name, run in runs.items()]
    return Chart(
        kind="curve",
        table=pl.concat(parts),
        x="time_s",
        y="demand",
        by="regime",
        x_label="Time (s)",
        y_label="Sum of peak rates / capacity",
        panel="regime",
        levels={"capacity": 1.0},
    )
