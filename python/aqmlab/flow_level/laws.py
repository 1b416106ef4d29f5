"""Theory of the flow level: a link is shared by flows that arrive and depart, and packets are not modelled.

With processor sharing and Poisson arrivals of sessions, the number of flows in progress has a geometric
distribution, `P(N = n) = (1 - load) load^n`, and the throughput of a flow is the capacity times `1 - load`,
for any distribution of sizes (Bonald and Roberts, "Congestion at Flow Level and the Impact of User
Behaviour", 2003). If all flows have the same peak rate, the distribution is that of M/G/R processor sharing
(Lindberger 1999). From this theory, Kortebi, Oueslati and Roberts derive three regimes ("Cross-protect:
Implicit Service Differentiation and Admission Control", 2004).
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


# Formulas


def relative_load(load: float, streaming_load: float) -> float:
    """Returns the elastic load as a share of the capacity that streaming traffic does not use."""
    return (load - streaming_load) / (1 - streaming_load) if streaming_load < 1 else math.inf


def number_law(load: float, count: int, peak_share: float = math.inf) -> list[float]:
    """Returns P(N = 0), ..., P(N = count - 1) with processor sharing. The distribution is geometric, or, if
    all flows have a peak rate of `peak_share` of the capacity, the distribution for equal peak rates. All
    values are NaN for a load of 1 or more."""
    if not load < 1:
        return [math.nan] * count
    # This number of flows or more fills the link. From here on, each probability is `load` times the previous
    # one.
    full = max(1, math.ceil(1 / peak_share))
    steps = max(full, count)
    terms = [1.0]
    for number in range(1, steps + 1):
        terms.append(terms[-1] * load / min(number * peak_share, 1.0))
    total = math.fsum(terms[:full]) + terms[full] / (1 - load)
    return [term / total for term in terms[:count]]


def throughput_law(load: float, peak_share: float = math.inf) -> float:
    """Returns a flow's throughput as a share of the capacity. Without peak rates, the throughput is `1 -
    load`, or 0 in overload."""
    if not load < 1:
        return 0.0
    full = max(1, math.ceil(1 / peak_share))
    law = number_law(load, full + 1, peak_share)
    below = math.fsum(number * law[number] for number in range(full))
    beyond = law[full] * (full / (1 - load) + load / (1 - load) ** 2)
    return load / (below + beyond)


# Scenarios and runs


def peak_share(scenario: Scenario) -> float:
    """Returns the peak rate of elastic flows divided by the capacity, or infinity if the flows have no common
    peak rate."""
    from aqmlab.metrics import bits_per_second

    tables = scenario.effective["traffic"].values()
    peaks = {one["peak_rate"] for one in tables if one["service"] == "elastic"}
    peak = peaks.pop() if len(peaks) == 1 else None
    if peak is None:
        return math.inf
    return bits_per_second(peak) / bits_per_second(scenario.effective["link"]["capacity"])


def at_load(scenario: Scenario, load: float) -> Scenario:
    """Returns the scenario with another total load. The share of each traffic class in the total load does
    not change."""
    given = {name: one["load"] for name, one in scenario.effective["traffic"].items()}
    if None in given.values():
        raise ValueError("load: every traffic class of the scenario must have a `load`")
    total = math.fsum(given.values())
    return scenario.with_({f"traffic.{name}.load": load * part / total for name, part in given.items()})


# Three regimes


def regime(load: float, saturated: float) -> Regime:
    """Returns the regime of a link. `saturated` is the share of time during which the flows' peak rates fill
    the link.

    *Transparent*: `saturated` is less than 1 % (aqmlab's choice), so that flows do not affect each other.
    *Elastic*: flows share the capacity. *Overload*: the offered load exceeds the capacity.
    """
    if load >= 1:
        return "overload"
    return "elastic" if saturated >= 0.01 else "transparent"


def demand_chart(runs: Mapping[str, Run]) -> Chart:
    """Returns a chart of the demand of the flows in progress, with a panel for each run of `{"transparent":
    run, ...}`."""
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
