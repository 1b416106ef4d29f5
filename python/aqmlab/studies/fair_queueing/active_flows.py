"""Tests how many flows a fair queue must handle, with rate-limited flows, larger links, a trace and fluid
flows."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import polars as pl

from aqmlab import metrics
from aqmlab.flow_level import regime, throughput_law
from aqmlab.measures import Measure
from aqmlab.results.rule import Estimate, Rule, anywhere, every, mean_of, ratio, statistic, unpaired_ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Measured, Variable, per_seed
from aqmlab.stats.quantiles import tail_quantile
from aqmlab.studies.fair_queueing import laws
from aqmlab.studies.fair_queueing import measures as m
from aqmlab.studies.fair_queueing import network as net
from aqmlab.studies.fair_queueing.bottlenecked import SHORT
from aqmlab.study import Claim, Experiment, Figure, Form, Table
from aqmlab.study.charts import line
from aqmlab.study.publication import Part, our_claim, our_reading
from aqmlab.study.query import Shown, formula, joined, means, query, scaled, stacked
from aqmlab.study.tables import crossed, listed
from aqmlab.sweep import Changes


def _half_streaming(table: dict[str, Any]) -> dict[str, Any]:
    """Replaces half of the load with streaming flows at a codec's rate. Each flow sends a packet every
    25 ms, for 30 s on average. The warm-up must be long enough that, at its end, these long flows end as
    often as they start."""
    table["warm_up"] = f"{min(120, metrics.seconds(table['duration']) / 2):g}s"
    traffic = table["traffic"]
    traffic["background"]["load"] /= 2
    codec = {"rate": "64kbps", "packet": "200B", "sizes": {"kind": "exponential", "mean": "240kB"}}
    traffic["streaming"] = traffic["background"] | codec
    return table


alone = Experiment(
    "alone",
    "Rate-limited flows alone",
    net.link(net.POISSON_FLOWS),
    {
        "traffic.background.load": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        "bottleneck.queue": net.queues(100),
        "mix": Changes({"1 Mb/s flows": {}, "half of them streaming": _half_streaming}),
    },
    m.ALONE,
    seeds=4,
    most_seeds=20,
    quick=Form(seeds=3, axes={"load": (0.5, 0.6, 0.9)}, changes=SHORT),
)


def _with_tcp(table: dict[str, Any]) -> dict[str, Any]:
    """Replaces all load above 0.5 by transfers with a mean size of 1 MB that are limited only by the
    network."""
    traffic = table["traffic"]
    traffic["elastic"] = {
        "kind": "web",
        "load": traffic["background"]["load"] - 0.5,
        "sizes": {"kind": "lomax", "mean": "1MB", "shape": 1.5, "minimum": "1kB", "maximum": "100MB"},
        "access": net.BEHIND_A_FAST_LINE,
    }
    traffic["background"]["load"] = 0.5
    return table


def _scaled(times: int) -> dict[str, Any]:
    rate, queue = f"{laws.RATE_MBPS * times:g}Mbps", net.queues(625 * times)["FQ"]
    return {"bottleneck.rate": rate, "bottleneck.queue": queue, "tcp.recovery.kind": "sack"}


scale = Experiment(
    "scale",
    "Link and traffic scaled together, FQ",
    net.link(net.POISSON_FLOWS, duration="120s", queue_every="0.01s")
    | {"access": {"rate": "10Gbps", "delay": "1ms"}},
    {
        "traffic.background.load": (0.85, 0.9),
        "scale": Changes({times: _scaled(times) for times in (1, 4, 16)}),
        "mix": Changes({"1 Mb/s flows": {}, "and TCP flows": _with_tcp}),
    },
    m.SCALE,
    seeds=6,
    most_seeds=24,
    quick=Form(seeds=3, axes={"scale": (1, 4)}, changes={"duration": "40s"}),
)

TRACE_LOADS = (0.16, 0.5, 0.8, 0.85, 0.9)
"""Loads of the trace on links of different rates; the first load is that of the published trace."""

trace = Experiment(
    "trace",
    "Made-up trace with the published properties of an OC-48 trace",
    {"level": "trace", "queue": {"kind": "drr"}, "source": {"kind": "generated", "duration": "60s"}},
    {"load": Changes({load: {"rate": f"{2488.32 * TRACE_LOADS[0] / load:.2f}Mbps"} for load in TRACE_LOADS})},
    (*m.TRACE_SUMMARY, m.TRACE_TAIL),
    seeds=5,
    quick=Form(seeds=3, axes={"load": (0.16, 0.85)}, changes={"source.duration": "10s"}),
)


def fluid(duration_s: int, load: float = 0.5, **record: Any) -> dict[str, Any]:
    """Flows on the talk's link, simulated without packets."""
    return {
        "level": "flow",
        "duration": f"{duration_s}s",
        "warm_up": f"{net.WARM_UP_S}s",
        "link": {"capacity": net.RATE},
        "traffic": {"flows": {"load": load}},
        "record": {"flows": False, "every": "0s", **record},
    }


NUMBER_LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Claims about loads below 90 % omit the last of these loads, and the last of `TRACE_LOADS`."""

number = Experiment(
    "number",
    "Fluid link",
    fluid(200000),
    {"traffic.flows.load": NUMBER_LOADS, "traffic.flows.sizes": net.SIZES},
    m.NUMBER,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "20000s"}),
)

_ELASTIC = {"load": 0.5, "peak_rate": "1Mbps"}
_STREAMING = {**_ELASTIC, "service": "streaming"}
_SLOW = {**_STREAMING, "peak_rate": "10kbps", "sizes": {"kind": "exponential", "mean": "10kB"}}
_BEHIND = {"streaming, 1 Mb/s": _STREAMING, "elastic, at most 1 Mb/s": _ELASTIC, "streaming, 10 kb/s": _SLOW}

example = Experiment(
    "example",
    "Fluid link, background load 0.5, total load 0.6",
    fluid(20000, load=0.1),
    {"traffic.background": _BEHIND},
    m.NUMBER,
    quick=Form(seeds=3, changes={"duration": "5000s"}),
)

PEAKS_MBPS = {"at most 1 Mb/s": 1, "at most 10 Mb/s": 10, "no peak rate": math.inf}
_PEAK = {
    name: {"traffic.flows.peak_rate": f"{rate}Mbps" if rate < math.inf else None}
    for name, rate in PEAKS_MBPS.items()
}
_REGIME_LOADS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2)

regimes = Experiment(
    "regimes",
    "Fluid link",
    fluid(1000),
    {"peak": Changes(_PEAK), "traffic.flows.load": _REGIME_LOADS},
    m.REGIME,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "200s"}),
)

PATH_S, PATH_STEP_S = 30, 0.05
"""Duration and time step of plotted sample paths. At load 0.9, the autocorrelation of the number of flows
decays within 1 s."""

_shown = fluid(net.WARM_UP_S + PATH_S, every=f"{PATH_STEP_S:g}s")
_transparent = {**_PEAK["at most 1 Mb/s"], "traffic.flows.load": 0.5}
_elastic, _overload = ({**_PEAK["no peak rate"], "traffic.flows.load": load} for load in (0.8, 1.1))
_regimes = Changes({"transparent": _transparent, "elastic": _elastic, "overload": _overload})

flow_paths = Experiment(
    "flow-paths", "Sample paths", _shown, {"traffic.flows.load": NUMBER_LOADS}, m.FLOW_PATH, seeds=1
)
regime_paths = Experiment("regime-paths", "Three regimes", _shown, {"regime": _regimes}, m.FLOW_PATH, seeds=1)

EXPERIMENTS = (alone, scale, trace, number, example, regimes, flow_paths, regime_paths)


def limited(measure: Measure) -> Variable:
    """A measure of rate-limited flows at loads at which the flows could hardly ever fill the link."""
    loads = [load for load in alone.values("load") if laws.full_share(float(load)) < laws.TRANSPARENT]
    return alone[measure].among(load=loads)


def grown(mix: str) -> Estimate:
    """The number of active flows divided by the number of active flows on the unscaled link. The ratio is
    unpaired, because the arrivals differ."""
    active = scale[m.ACTIVE].at(mix=mix, load=0.85)
    return unpaired_ratio(active.among(scale=(4, 16)), active.at(scale=1))


def most(what: str, tail: Variable) -> Estimate:
    """The number that is not exceeded during 99.9 % of the total time of all runs.

    The quantile of a single run has such a heavy tail that a t interval of its mean extends below zero, and
    its mean is not the claimed number. The claimed number is the quantile of all runs together. With the
    bootstrap over runs, the ends of the interval are counts.
    """
    return statistic(
        f"most {what} in 99.9 % of the time",
        lambda values, level: tail_quantile([one for one in values[0] if one], 0.999, level),
        tail,
        title=f"number of {what} that is not exceeded during 99.9 % of the time",
    )


def _likely(of: Variable, chance: float) -> Rule:
    """The rule that a variable differs from a probability by at most 20 %."""
    return mean_of(of).within(0.8 * chance, 1.2 * chance)


five = example[m.FIVE]
_ABOUT_1_MBPS = ("streaming, 1 Mb/s", "elastic, at most 1 Mb/s")
_OF_EXAMPLE = ("example", "five-flows")

CLAIMS = (
    our_claim(
        "R14",
        "The number of bottlenecked flows is geometric for any distribution of flow sizes.",
        every(
            mean_of(number[m.MEAN_OVER_LAW]).within(0.98, 1.02),
            mean_of(number[m.FIVE_OVER_LAW]).within(0.95, 1.05),
        ),
        "flow level; the statement is a theorem, so the claim tests the simulator",
    ),
    Claim(
        "R15.3",
        "Scalable since number does not increase with link rate.",
        grown(mix="1 Mb/s flows") <= 1.2,
        "slide 16; a ratio above 1.2 counts as an increase, which is aqmlab's choice",
    ),
    our_claim(
        "R15t.2",
        "The number of active flows also does not increase with the link rate if some TCP flows are limited"
        " only by the network.",
        grown(mix="and TCP flows") <= 1.2,
        "the statement of the talk on scalability",
    ),
    Claim(
        "R16.4",
        "At loads below 90 %: fewer than 100 bottlenecked flows, O(100) packets of others, at most about 500 "
        "active flows.",
        every(
            most("bottlenecked flows", number[m.TAIL].among(load=NUMBER_LOADS[:-1])) < 100,
            most("packets waiting", scale[m.WAITING_TAIL].at(mix="1 Mb/s flows", load=0.85)) <= 500,
            most("active flows", scale[m.ACTIVE_TAIL].at(load=0.85)) <= 500,
        ),
        "slide 16; it is aqmlab's choice to judge 99.9 % of the time, and to read O(100) as 500",
        ("active-flows", "scale", "number"),
    ),
    our_claim(
        "R16t.2",
        "A made-up trace with the published properties of an OC-48 trace has at most 500 active flows at "
        "the rates of slower links.",
        most("active flows", trace[m.TRACE_TAIL].among(load=TRACE_LOADS[:-1])) <= 500,
        "the trace of the talk was not available, so aqmlab made up a trace",
    ),
    our_reading(
        "R20",
        "If all flows are rate-limited, FIFO suffices.",
        every(
            mean_of(limited(m.LOSS).at(queue="FIFO")) <= 1e-4,
            mean_of(limited(m.SERVICES).at(queue="FIFO")) <= 1.5,
            ratio(limited(m.ALONE_WAIT), queue=("FIFO", "FQ")).within(0.9, 1.1),
        ),
        "aqmlab's reading of the transparent regime",
    ),
    our_claim(
        "R20b",
        "If all flows are rate-limited, the delay equals that of a modulated M/G/1 queue.",
        mean_of(limited(m.WAIT_OVER_LAW).at(mix="1 Mb/s flows", queue="FIFO")).within(0.8, 1.25),
        "the three regimes of the talk",
        ("alone", "rate-limited"),
    ),
    Claim(
        "R21.2",
        "Background 0.5, total load 0.6: five bottlenecked flows or more with probability 0.003.",
        anywhere(_likely(five, laws.PRINTED)),
        "the example, as printed; a deviation of a fifth is allowed",
        _OF_EXAMPLE,
    ),
    our_reading(
        "R21b",
        "If the background hardly varies, the probability equals the result of the talk's own formula, "
        "0.2^5 = 0.00032.",
        _likely(five.at(background="streaming, 10 kb/s"), laws.FORMULA),
        "the example",
        _OF_EXAMPLE,
    ),
    our_claim(
        "R21c",
        "The formula also holds if the background consists of flows of 1 Mb/s.",
        _likely(five.among(background=_ABOUT_1_MBPS), laws.FORMULA),
        "the example",
        _OF_EXAMPLE,
    ),
)

# Loads at which 1 Mb/s flows leave enough capacity for the formulas of the waiting time to apply.
_with_room = query(alone[m.ALONE_WAIT].at(mix="1 Mb/s flows", queue="FIFO")).where(
    lambda load: laws.full_share(load) < 0.1, "load"
)
_wait_laws = stacked(
    "queue",
    {
        name: _with_room.formula(partial(laws.modulated_wait_ms, periodic=periodic), "load")
        for name, periodic in (("modulated M/G/1", False), ("modulated periodic sources", True))
    },
).tagged(mix="1 Mb/s flows")
_lost = scaled(alone[m.LOSS], 100, "%")
_lost_and_waits = stacked("measure", {"wait (ms)": alone[m.ALONE_WAIT], "lost (%)": _lost})

NAMED_LOAD = "load {:g}".format

_geometric = formula(laws.bottlenecked_law, flows=range(31), load=NUMBER_LOADS).tagged(sizes="law")
_number = joined(number[m.TAIL].unrolled("flows", range(31)), _geometric).relabelled(load=NAMED_LOAD)
_example_law = formula(lambda flows: laws.bottlenecked_law(flows, 0.6, 0.5), flows=range(8))
_example = joined(example[m.TAIL].unrolled("flows", range(8)), _example_law.tagged(background="law"))
_one_to_six = _example.where(lambda flows: 1 <= flows <= 6, "flows").relabelled(
    flows="i = {}".format, background=lambda name: "formula" if name == "law" else name
)
_most_active = most("active flows", scale[m.ACTIVE_TAIL])
_active = stacked("measure", {"mean": scale[m.ACTIVE], "99.9 %": _most_active}).relabelled(load=NAMED_LOAD)

TRACE_SHOWN = 500
"""Maximum number of active flows in the figure."""

_more = per_seed(
    "share of the time with more",
    lambda at_least: [*at_least[1:], *[0.0] * TRACE_SHOWN],
    trace[m.TRACE_TAIL],
).unrolled("flows", range(TRACE_SHOWN))

_curve = partial(line, kind="curve")


def _over_time(measured: Measured) -> Variable:
    """A sample path of the flow level."""
    steps = range(round(PATH_S / PATH_STEP_S) + 1)
    return measured.unrolled("time_s", [step * PATH_STEP_S for step in steps])


def _table_of_regimes(results: ExperimentResults) -> pl.DataFrame:
    def throughput_mbps(peak: str, load: float) -> float:
        return throughput_law(load, PEAKS_MBPS[peak] / laws.RATE_MBPS) * laws.RATE_MBPS

    full, throughput = regimes["link.saturated"], regimes[m.THROUGHPUT]
    of_law = query(throughput).formula(throughput_mbps, "peak", "load")
    columns: dict[str, Shown] = {"time full (%)": full, "throughput (Mb/s)": throughput, "law (Mb/s)": of_law}
    table = listed(columns, "peak", "load", heads={"peak": "peak rate"})(results)
    shares = means(full, results, "peak", "load").select("load", pl.col("value") / 100)
    return table.insert_column(2, pl.Series("regime", [regime(*one) for one in shares.iter_rows()]))


_path = partial(_curve, x="time_s", x_limits=(0.0, float(PATH_S)))
_in_progress = query(_over_time(flow_paths[m.IN_PROGRESS])).relabelled(load=NAMED_LOAD)
_by_load = {"by": "load", "panel": "load", "y_label": "flows in progress", "y_limits": (0.0, 30.0)}
_log: dict[str, Any] = {"log_y": True, "y_limits": (0.2, 500.0)}
_by_regime = {"by": "regime", "panel": "regime", "y_label": "sum of peak rates / capacity", **_log}
_by_mix: dict[str, Any] = {"by": ("measure", "load"), "panel": "mix", "y_limits": (1.0, 1000.0)}

FIGURES = (
    Figure(
        "flows-in-progress",
        "Flows in progress on a link with fair sharing",
        _path(_in_progress, **_by_load),
        "Sample paths at flow level: Poisson arrivals, exponential sizes, mean 100 kB, 50 Mb/s.",
    ),
    Figure(
        "number-of-flows",
        "Share of the time with at least the given number of flows in progress",
        _curve(_number, x="flows", by="sizes", panel="load", log_y=True, y_limits=(1e-5, 1.0)),
        "Simulated with three distributions of sizes, and the geometric law; bands are 95 % intervals.",
    ),
    Figure(
        "example",
        "Background 0.5, total load 0.6: share of the time with at least i bottlenecked flows",
        line(_example, log_y=True, y_limits=(1e-6, 2.0), levels={"printed for i = 5": laws.PRINTED}),
        "Three readings of the background, and ((0.6 - 0.5) / (1 - 0.5))^i.",
    ),
    Figure(
        "regimes",
        "Throughput of a flow against the load",
        line(regimes[m.THROUGHPUT_SHARE], y_limits=(0.0, 1.05), guides={"overload": 1.0}),
        "Relative to its peak rate, or to the rate of the link if it has none.",
    ),
    Figure(
        "regime-paths",
        "Three regimes",
        _path(_over_time(regime_paths[m.DEMAND]), levels={"capacity": 1.0}, **_by_regime),
        "Demand of the flows in progress: transparent (1 Mb/s flows, load 0.5), elastic "
        "(no peak rate, 0.8), overload (no peak rate, 1.1).",
    ),
    Figure(
        "alone",
        "Rate-limited flows alone, a buffer of 100 packets",
        line(joined(alone[m.ALONE_WAIT], _wait_laws), log_y=True),
        "Streaming flows send packets of 200 B at 64 kb/s. The formulas hold while peak rates leave room.",
    ),
    Figure(
        "active-flows",
        "Flows with queued packets as link and traffic grow together",
        line(_active, log_y=True, levels={"500": 500.0}, **_by_mix),
        "Fair queueing with a buffer of 625 packets times the scale; the mean, and the maximum in 99.9 % of "
        "the time of all runs.",
    ),
    Figure(
        "trace",
        "Active flows of a synthetic trace like that of an OC-48 link, on links of different rates",
        _curve(query(_more).relabelled(load=NAMED_LOAD), log_y=True, y_limits=(1e-6, 1.0)),
        "Synthetic trace with the published properties: 16 % of 2.5 Gb/s, flows from 10 kb/s to 10 Mb/s, "
        "about 7000 in progress; replayed through deficit round robin.",
    ),
)

TABLES = (
    Table(
        "number",
        "Flows in progress on a fluid link, also relative to the geometric distribution",
        [
            *(number[m.MEAN], number[m.MEAN_OVER_LAW]),
            per_seed("P(N = 0)", lambda tail: 1 - tail[1], number[m.TAIL]),
            *(number[m.FIVE], number[m.FIVE_OVER_LAW]),
            per_seed("P(N >= 100)", lambda tail: tail[100], number[m.TAIL]),
        ],
    ),
    Table(
        "five-flows",
        "P(N >= i) with background 0.5 and total load 0.6",
        crossed(_one_to_six, rows="background", columns="flows"),
        "The formula is ((0.6 - 0.5) / (1 - 0.5))^i; for i = 5 the talk prints 0.003.",
    ),
    Table(
        "regime",
        "Regimes; transparent: peak rates add up to the capacity in less than 1 % of the time",
        _table_of_regimes,
    ),
    Table(
        "rate-limited",
        "Rate-limited flows alone, buffer of 100 packets: mean wait, and formulas for 1 Mb/s flows",
        crossed(
            joined(_lost_and_waits, _wait_laws.tagged(measure="(ms)")),
            rows=("mix", "load"),
            columns=("queue", "measure"),
        ),
    ),
    Table(
        "scale",
        "Active flows, as link and traffic grow together",
        listed([scale[one] for one in m.SCALE[:-2]], "mix", "load", "scale"),
        "Sampled every 10 ms under fair queueing; a buffer of 625 packets times the scale. The 99.9 % and "
        "the maximum are means over seeds of those of single runs.",
    ),
    Table(
        "trace-loads",
        "Active flows of a synthetic trace like that of an OC-48 link, on links with these loads",
        [trace[one] for one in m.TRACE_SUMMARY],
        "60 s through deficit round robin. The maximum and the 99.9 % (p999) are means over seeds.",
    ),
)

PARTS: tuple[Part, ...] = (*EXPERIMENTS, *CLAIMS, *FIGURES, *TABLES)
