"""Does it help the Web? (Weigle, Jeffay and Smith 2003: its paper and its talk).

The talk contains no numbers and no curves, so the bands are aqmlab's. The study's page contains the question
and the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.comparison.calibrate import ROOM, UNCONGESTED
from aqmlab.measures import Measure
from aqmlab.results.labels import format_labels
from aqmlab.results.rule import AnyRule, Estimate, Finds, anywhere, every, mean_of, ratio, statistic
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Along, Variable, per_seed
from aqmlab.scenario import Scenario
from aqmlab.studies.shared import frame, less, warm_up_warning
from aqmlab.studies.unc_web import distributions as dist
from aqmlab.studies.unc_web import measures as m
from aqmlab.studies.unc_web import network as net
from aqmlab.studies.unc_web.distributions import LEAST, cdf, lags, leads
from aqmlab.studies.unc_web.network import FULL_RATE, PLOTTED, adaptive_red, drop_tail, lasting, tuning
from aqmlab.study import Claim, Experiment, Figure, Floor, Form, Reading, Study, Table
from aqmlab.study.charts import line
from aqmlab.study.publication import Queues, our_reading
from aqmlab.study.query import Query, Shown, formula, joined, query, scaled, stacked
from aqmlab.study.queues import at, counted, readings
from aqmlab.study.tables import Tabulates, crossed, listed, overview
from aqmlab.sweep import Changes

TITLE = "Does It Help the Web?"
PAPER = (
    "M. C. Weigle, K. Jeffay, F. D. Smith: Quantifying the Effects of Recent Protocol Improvements to "
    "Standards-Track TCP. MASCOTS 2003, and the talk."
)

LOW = tuple(load for load in net.LOADS if load < 80)
HIGHEST = tuple(load for load in net.LOADS if load >= 90)

NEAR = 0.002
"""Half the width of the interval of a distance at which the distance is precise enough for the comparison
with equal systems."""

NO_LAG = 0.005
"""Largest negligible lag. This limit is above the lag of equal systems, whose largest mean lag in the full
study is 0.0016."""

# The offered load

calibration = Experiment(
    "calibration",
    "A link without queueing",
    net.both_ways({"kind": "drop-tail", "limit": ROOM}, f"{UNCONGESTED * net.RATE_MBPS}Mbps")
    | {"record": {"drops": False, "queue_every": "0s"}, "duration": lasting(net.PAIRS // 2)},
    {"traffic": Changes(net.TRAFFIC), "rate": Changes({rate: net.offering(rate) for rate in (60, 100, 140)})},
    [m.OFFERED],
    quick=Form(seeds=2, changes={"duration": lasting(net.QUICK_PAIRS // 2)}),
)

full_load = statistic(
    "connections a second that offer all of the line",
    lambda values, level: stats.inverse(stats.mean_interval(values[0], level)),
    Along(of=calibration[m.OFFERED], label="rate", how="through the origin", reduce=stats.through_origin),
)
"""Estimated by the line through the origin for each seed."""


def calibrated(results: ExperimentResults) -> Iterator[tuple[str, float, stats.Interval, bool]]:
    """A table of the traffic, its rate in the grid, the measured rate, and whether the interval of the
    measured rate contains the rate of the grid."""
    for traffic, rate in net.FULL_LOAD.items():
        found = full_load.interval(results, {"traffic": traffic})
        yield traffic, rate, found, found.low <= rate <= found.high


def _rates(results: ExperimentResults) -> pl.DataFrame:
    rows = (
        (name, f"{rate:g}", str(now), "yes" if unchanged else "no")
        for name, rate, now, unchanged in calibrated(results)
    )
    return frame(rows, "traffic", "of the grid (1/s)", "measured here (1/s)", "within the interval")


_offered: dict[str, Shown] = {
    "measured": scaled(calibration[m.OFFERED].at(traffic="as decided"), 100, "%"),
    "rates of the grid": formula(lambda rate: 100 * rate / FULL_RATE, rate=(0, 150)),
}

_pairs = query(drop_tail[m.COUNT].at(tcp="Reno"))
_realised: dict[str, Shown] = {
    "connections (1/s)": _pairs.formula(lambda load: FULL_RATE * load / 100, "load"),
    "pairs measured": _pairs,
    "mean response (B)": drop_tail[m.MEAN_RESPONSE].at(tcp="Reno"),
    "mean response, reverse (B)": drop_tail[m.MEAN_RESPONSE_REVERSE].at(tcp="Reno"),
}

_requests = crossed(
    stacked("column", _realised).relabelled(load="{} %".format), rows="load", columns="column"
)
_against_rate = line(
    stacked("load", _offered),
    x="rate",
    by="load",
    x_label="new requests per second in each direction",
    y_label="offered load (% of 10 Mb/s)",
    y_limits=(0.0, 130.0),
    guides={f"{FULL_RATE:g}/s for 100 %": FULL_RATE},
)

LOAD = (
    calibration,
    Figure("a", "Offered load against new requests per second, without queueing", _against_rate),
    Table("calibration", "Connections per second that offer 100 % of the link rate", _rates, ""),
    Table("realised", "Offered traffic, by load", _requests),
)

# Estimates of claims

BY_OTHERS = "at the response time that the other seeds select"
"""Note on an estimate whose response time is selected from the other seeds."""


def _reno(variable: Variable, loads: Sequence[int] = PLOTTED) -> Variable:
    return variable.at(tcp="Reno").among(load=loads)


def _of_reno(how: str, finds: Finds, *queues: str, title: str = "") -> Estimate:
    """A statistic of the distributions for some queues, at the loads that the talk plots."""
    return statistic(how, finds, *(_reno(cdf[queue]) for queue in queues), title=title)


def _others_choose(what: str, finds: Finds, ours: str, theirs: str, title: str = "") -> Estimate:
    """A lead of one queue at the response time at which the lead is largest for the other seeds."""
    how, title = f"{what} (time chosen by the other seeds)", f"{title or what} ({BY_OTHERS})"
    return _of_reno(how, finds, ours, theirs, title=title).to_within(NEAR)


def _trade_off(ours: str) -> AnyRule:
    """The rule that a queue is ahead of Drop Tail for quick requests and behind Drop Tail for slow requests,
    with one crossing."""
    return every(
        _others_choose(f"lead of {ours}", leads, ours, "Drop Tail") >= LEAST,
        _others_choose(
            "lead of Drop Tail beyond it",
            dist.lags_beyond,
            ours,
            "Drop Tail",
            f"lead of Drop Tail at longer response times than that of {ours}'s lead",
        )
        >= LEAST,
        _of_reno(
            "certain crossings",
            dist.crosses,
            ours,
            "Drop Tail",
            title="number of crossings of the distributions that are certain",
        )
        <= 1,
    )


def _one_changes_sign(measure: Measure) -> Iterator[AnyRule]:
    """The rules that ARED+ECN is below Drop Tail with one of the two targets, 5 ms and 60 ms, and above Drop
    Tail with the other target."""
    tuned = (adaptive_red[measure].at(queue="ARED+ECN"), tuning[measure].at(queue="ARED+ECN 60 ms"))
    short, long = (ratio(_reno(one, HIGHEST), _reno(drop_tail[measure], HIGHEST)) for one in tuned)
    yield every(short < 1, long > 1)
    yield every(short > 1, long < 1)


def _furthest(name: str, *several: Variable, title: str = "") -> Estimate:
    key, title = f"largest distance of {name}", title or f"largest distance between {name}"
    return mean_of(per_seed(title, dist.apart, *several, key=key)).to_within(NEAR)


def _of_equals(experiment: Experiment) -> Estimate:
    several = (experiment[m.CDF].at(draws=draws) for draws in experiment.values("draws"))
    return _furthest("any two of equal systems", *several)


_six = [one.at(tcp=tcp).among(load=LOW) for one in cdf.values() for tcp in ("Reno", "SACK")]
_tcps = [cdf["Drop Tail"].at(tcp=tcp).among(load=PLOTTED) for tcp in ("SACK", "Reno")]

_alike_below_80 = (
    _furthest(
        "any two of {Reno, SACK} x {Drop Tail, ARED, ARED+ECN}",
        *_six,
        title="largest distance between the distributions of any two of the six combinations of Reno or SACK "
        "with Drop Tail, ARED or ARED+ECN",
    )
    <= 0.05
)
_tcps_alike = (
    _furthest("SACK and Reno", *_tcps, title="largest distance between the distributions of SACK and Reno")
    <= 0.02
)
_lag = _of_reno("largest lag of ARED+ECN behind ARED", lags, "ARED+ECN", "ARED").to_within(NEAR)
_ecn_no_slower = _lag <= NO_LAG

_two_areds = [net.two_areds[m.CDF].at(draws=draws) for draws in (1, 0)]

_FLOORS = (
    ("W1", _alike_below_80, _of_equals(net.six_areds)),
    ("W2", _tcps_alike, _of_equals(net.drop_tails)),
    ("W6.4", _ecn_no_slower, statistic("largest lag", lags, *_two_areds)),
)
"""Rules about distances, with the distance of equal systems, which differ by chance alone."""


def floors(results: ExperimentResults, level: float = stats.LEVEL) -> Iterator[Floor]:
    """The values for comparisons of equal systems, at all points at which the equal systems and the systems
    of the claim were run."""
    for claim, rule, alike in _FLOORS:
        equal = list(alike.points(results))
        for labels in rule.estimate.points(results):
            same = {label: labels[label] for label in alike.axes}
            if same in equal:
                both = (rule.estimate.interval(results, labels, level), alike.interval(results, same, level))
                yield Floor(claim=claim, band=rule.band, where=labels, measured=both[0], equal=both[1])


def _within_claim(one: Floor) -> str:
    met = {"holds": "within the claim", "fails": "outside the claim", "undecided": "undecided"}
    return met[stats.verdict(one.equal, one.band)]


def _floor(results: ExperimentResults) -> pl.DataFrame:
    rows = (
        (
            one.claim,
            format_labels(one.where),
            *map(str, (one.measured, one.equal, one.band)),
            _within_claim(one),
        )
        for one in floors(results)
    )
    return frame(
        rows, "claim", "at", "measured", "equal systems", "claimed", "equal systems compared with the claim"
    )


_of_the_largest = per_seed(
    "median response time of responses above 100 kB",
    lambda medians: medians[-1],
    drop_tail[m.CLASS_MEDIANS],
    unit="s",
).among(load=HIGHEST)

_holes = drop_tail[m.SEVERAL_HOLES].at(tcp="SACK").among(load=PLOTTED)
_again = adaptive_red[m.AGAIN].at(tcp="Reno", load=90)
_queue_5_ms, _queue_60_ms = adaptive_red[m.QUEUE].at(queue="ARED"), tuning[m.QUEUE].at(queue="ARED 60 ms")
_by_length = [_reno(one, HIGHEST) for one in (_queue_5_ms, _queue_60_ms, drop_tail[m.QUEUE])]
_WHEN = "when ARED+ECN crosses Drop Tail over when ARED does"
_CROSSING_TIMES = "response time at which ARED+ECN crosses Drop Tail, divided by that at which ARED does"

CLAIMS = (
    Claim(
        "W1",
        "No major differences below 80 % load.",
        _alike_below_80,
        "slide 6",
        ("all-loads-packets-reno", "all-loads-bytes-reno", "floor"),
    ),
    Claim(
        "W2",
        "No difference between Reno and SACK (over Drop Tail, at 80 % and 105 % load).",
        every(
            _tcps_alike,
            ratio(drop_tail[m.MEDIAN].among(load=PLOTTED), tcp=("SACK", "Reno")).within(0.97, 1.03),
        ),
        "slide 7",
        ("b", "b-tail", "floor"),
    ),
    Claim(
        "W3.2",
        "Not enough flows can take advantage of SACK.",
        mean_of(_holes) < 0.05,
        "slide 11",
        ("several-holes", "few-segments"),
    ),
    Claim(
        "W4",
        "SACK does help transfers larger than the typical.",
        ratio(_of_the_largest, tcp=("SACK", "Reno")) < 0.95,
        "abstract of the paper of 2006",
    ),
    Claim(
        "W5.2",
        "Tradeoffs between Drop Tail and ARED: at 80 % and at 105 % load the distributions cross; ARED is "
        "better for the quick requests.",
        _trade_off("ARED"),
        "slide 8",
        ("c-packets", "c-bytes", "difference-packets", "difference-bytes"),
    ),
    Claim(
        "W6.4",
        "ECN beats dropping: ARED with ECN performs better than ARED with dropping.",
        every(
            _ecn_no_slower, _others_choose("lead of ARED+ECN over ARED", leads, "ARED+ECN", "ARED") > LEAST
        ),
        "slides 9 and 11, at the loads of slide 9",
        ("d-packets", "d-bytes", "difference-packets", "difference-bytes", "floor"),
    ),
    Claim(
        "W7",
        "Why: drops cause retransmissions, which only increase response times.",
        ratio(_again, queue=("ARED+ECN", "ARED")) <= 0.8,
        "slide 11",
        ("retransmitted",),
    ),
    Claim(
        "W8.2",
        "Tradeoffs between Drop Tail and ARED+ECN: at 80 % and at 105 % load the distributions cross.",
        _trade_off("ARED+ECN"),
        "slide 10",
        ("e-packets", "e-bytes", "difference-packets", "difference-bytes"),
    ),
    Claim(
        "W9.2",
        "There is no uniform winner; how Adaptive RED is tuned decides.",
        anywhere(*_one_changes_sign(m.MEDIAN), *_one_changes_sign(m.P95)),
        "abstract of the paper of 2003",
    ),
    our_reading(
        "W10",
        "The mean queue is shortest with ARED and a target of 5 ms, longer with a target of 60 ms, and "
        "longest with Drop Tail.",
        every(*(ratio(*two) < 1 for two in itertools.pairwise(_by_length))),
        "no source; this is the order of the target delays",
    ),
    our_reading(
        "W11",
        "The distributions of Drop Tail and ARED+ECN cross at a longer response time than those of Drop "
        "Tail and ARED.",
        _of_reno(_WHEN, dist.later, "ARED+ECN", "ARED", "Drop Tail", title=_CROSSING_TIMES) > 1,
        "no source; ECN should shorten slow requests",
        ("e-packets", "e-bytes"),
    ),
    Claim(
        "W12",
        "Explicit Congestion Notification helps avoid timeouts.",
        ratio(_reno(adaptive_red[m.TIMEOUTS]), queue=("ARED+ECN", "ARED")) < 1,
        "slide 4, at the loads that the talk plots",
    ),
    Claim(
        "W13",
        "Adaptive RED lowers queue size.",
        ratio(_reno(_queue_5_ms), _reno(drop_tail[m.QUEUE])) < 1,
        "slide 4, in comparison with Drop Tail, at the loads that the talk plots",
    ),
)


def _by_load(id: str, title: str, measure: Measure | str, **options: Any) -> Figure:
    """A measure against the load, with a panel for each unit in which Adaptive RED counts."""
    plain, red = (one[measure].at(tcp="Reno") for one in (drop_tail, adaptive_red))
    both = joined(*(query(plain).tagged(queue="Drop Tail", unit=unit) for unit in net.UNITS), red)
    panels = both.relabelled(unit=lambda unit: f"ARED in {unit}")
    return Figure(id, title, line(panels, x="load", by="queue", panel="unit", **options))


_SIZES = ["≤ 1.5 kB", "≤ 10 kB", "≤ 100 kB", "> 100 kB"]
_sack_over_reno = line(
    ratio(drop_tail[m.CLASS_MEDIANS].unrolled("size", _SIZES), tcp=("SACK", "Reno")),
    x="load",
    by="size",
    x_label="offered load (%)",
    y_label="median response time, SACK over Reno",
    levels={"": 1.0},
)

BY_LOAD = (
    _by_load("median-by-load", "Median response time, Reno", m.MEDIAN),
    _by_load("p95-by-load", "95th percentile of the response time, Reno", m.P95, log_y=True),
    _by_load("queue-by-load", "Mean wait in the queue, Reno", m.WAIT),
    Figure("sack-by-size", "Benefit of SACK under Drop Tail, by size of the response", _sack_over_reno),
)

# Tables


def _configurations(of: Callable[[Experiment], Variable], *others: Experiment) -> Query:
    """A variable with Drop Tail and in other experiments, by queue, unit and further axes."""
    plain = query(of(drop_tail)).tagged(queue="Drop Tail", unit="")
    return joined(plain, *map(of, others)).relabelled(load="{} %".format)


def _in_all(measure: Measure | str, factor: float) -> Tabulates:
    """A measure of every configuration, with a column for each load."""
    several = _configurations(lambda one: scaled(one[measure], factor, ""), adaptive_red, tuning)
    heads = {"unit": "counts in", "tcp": "TCP"}
    return crossed(several, rows=("queue", "unit", "tcp"), columns="load", heads=heads)


def _chosen(scenario: Scenario) -> Iterator[str]:
    """The parameters that Adaptive RED derives on the 10 Mb/s link."""
    queue, chosen = scenario.given["links"]["forward"]["queue"], scenario.derived["forward"]
    yield queue["limit"]
    for end in (chosen["min_th"], chosen["max_th"]):
        yield f"{end['value']:.0f} B" if end["unit"] == "bytes" else f"{end['value']:g} packets"
    yield f"{chosen['weight']['value']:.2e}"
    yield "up to p_b = 0.1" if "ecn" in queue else "never"


def _parameters(_: ExperimentResults) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = [("Drop Tail", "", net.DROP_TAIL["limit"], None, None, None, None)]
    for sweep in (adaptive_red.sweep("quick"), tuning.sweep("quick")):
        for point in sweep.points():
            queue, unit, *others = point.labels.values()
            if others == ["Reno", 105]:
                rows.append((queue, unit, *_chosen(sweep.scenario_of(point))))
    return frame(rows, "queue", "counts in", "buffer", "min_th", "max_th", "weight", "marks")


def _each_way(forward: Measure | str, reverse: Measure | str, factor: float) -> Query:
    def of(measure: Measure | str) -> Query:
        return _configurations(lambda one: scaled(_reno(one[measure]), factor, ""), adaptive_red)

    return stacked("direction", {"forward": of(forward), "reverse": of(reverse)})


_directions = {
    "median (ms)": _each_way(m.MEDIAN, "reverse.median-time", 1000.0),
    "p95 (ms)": _each_way(m.P95, m.P95_REVERSE, 1000.0),
    "dropped (%)": _each_way(m.DROPPED, m.DROPPED_REVERSE, 100.0),
    "line busy (%)": _each_way(m.UTILISATION, "reverse.utilisation", 1.0),
}

_BY_LOAD: tuple[tuple[str, str, Measure | str, float], ...] = (
    ("median", "Median response time (ms)", m.MEDIAN, 1000.0),
    ("mean", "Mean response time (ms)", m.MEAN, 1000.0),
    ("p95", "95th percentile of the response time (ms)", m.P95, 1000.0),
    ("p99", "99th percentile of the response time (ms)", m.P99, 1000.0),
    ("queue", "Mean queue (packets)", m.QUEUE, 1.0),
    ("wait", "Mean wait in the queue of the packets sent (ms)", m.WAIT, 1.0),
    ("dropped", "Packets dropped (% of those that arrived)", m.DROPPED, 100.0),
    ("small-drops", "Dropped packets without data (%)", m.SMALL_DROPS, 100.0),
    ("marked", "Packets marked (% of those that arrived)", m.MARKED, 1.0),
    ("utilisation", "Utilisation of the link (%)", m.UTILISATION, 1.0),
    ("retransmitted", "Retransmitted data segments per 1000 responses", m.AGAIN_PER_1000, 1.0),
    ("timeouts", "Timeouts of the servers per 1000 responses", m.TIMEOUTS, 1.0),
    ("unfinished", "Requests not finished at the end", m.UNFINISHED, 1.0),
    ("several-holes", "Connections on which SACK can make a difference (%)", m.SEVERAL_HOLES, 100.0),
    ("few-segments", f"Responses of fewer than {m.FEW_SEGMENTS} segments (%)", m.FEW, 100.0),
)

_both = listed(_directions, "load", "queue", "unit", "direction", heads={"unit": "counts in"})

TABLES = (
    Table("parameters", "Adaptive RED's values at 10 Mb/s with a mean packet of 500 B", _parameters, ""),
    Table("floor", "Distances of equal systems: the same queue with other random numbers", _floor, ""),
    *(Table(id, f"{title}, forward", _in_all(measure, factor)) for id, title, measure, factor in _BY_LOAD),
    Table("both-ways", "Both directions, Reno", _both),
)

# Other queues: which of them help the Web, and which transfers do they slow down?


def with_queues(queues: Queues) -> Study:
    """The study with these queues, and with senders that use ECN, so that queues can mark."""
    links = tuple(f"links.{way}" for way in m.WAYS)
    paper = {"Drop Tail": net.DROP_TAIL, "ARED": net.ADAPTIVE_RED}
    marking = {"ARED+ECN": {**net.ADAPTIVE_RED, **net.MARKS}, **queues}
    queue = {**at(paper, *links, **{"tcp.ecn.mode": "off"}), **at(marking, *links, **{"tcp.ecn.mode": "on"})}
    several = (80, 90, 105)
    web = replace(
        drop_tail,
        name="today",
        title="Web traffic both ways",
        scenario={**net.both_ways(net.DROP_TAIL), "duration": lasting(net.PAIRS // 5)},
        axes={"queue": Changes(queue), "load": net.loads(*several)},
        seeds=10,
        quick=Form(seeds=3, axes={"load": (105,)}, changes=net.QUICK),
        varied=None,
    )
    both = (web[m.CDF], web[m.CDF].at(queue="Drop Tail"))
    lead = statistic(
        "lead over Drop Tail (time chosen by the other seeds)",
        leads,
        *both,
        title=f"lead over Drop Tail ({BY_OTHERS})",
    )
    lag = statistic("largest lag behind Drop Tail", lags, *both)
    old = ("Drop Tail", "ARED", "ARED+ECN")
    shown = (
        *(m.MEDIAN, m.P95, m.P99, m.MEAN, m.AGAIN_PER_1000, m.TIMEOUTS),
        *(m.DROPPED, m.MARKED, m.UTILISATION, m.WAIT),
    )
    by_load = {load: overview(web.variables(*shown, load=load), by="queue") for load in several}
    ours, question = partial(Claim, origin="ours"), "the question of the paper of 2003"
    return Study.of(
        "unc-web-today",
        f"{TITLE} With the queues of today",
        web,
        ours(
            "T-W5",
            "More requests are answered quickly than with Drop Tail: at some response time, the share of "
            "completed requests is higher by at least one in a hundred.",
            lead >= LEAST,
            "slide 8, about Adaptive RED",
            ("load-80", "load-105"),
        ),
        ours(
            "T-W5s.2",
            "In return, slow requests do not become slower: at no response time is the share of completed "
            "requests lower than with Drop Tail by one in a hundred or more.",
            lag < LEAST,
            "slide 8, which found that slow requests become slower",
            ("load-80", "load-105"),
        ),
        ours(
            "T-W9",
            "At every load, the median response time is shorter than with Drop Tail, ARED and ARED+ECN.",
            less(web[m.MEDIAN], than=old),
            question,
        ),
        ours(
            "T-W9t",
            "At every load, the 95th percentile of the response time is shorter than with Drop "
            "Tail, ARED and ARED+ECN.",
            less(web[m.P95], than=old),
            question,
        ),
        ours(
            "T-W7",
            "Fewer segments are retransmitted than with Drop Tail.",
            less(web[m.AGAIN], than=["Drop Tail"]),
            "slide 11: drops cause retransmissions, which only increase response times",
            ("load-90", "load-105"),
        ),
        *(
            Table(f"load-{load}", f"{load} % of the link rate offered in each direction", table)
            for load, table in by_load.items()
        ),
        paper=PAPER,
        question="Which of these queues help the Web as Adaptive RED was meant to?",
        answer=lambda found: counted(found, "of what a queue that helps the Web would do"),
        readings=readings(queues),
    )


def _checks(results: ExperimentResults) -> list[str]:
    """Warnings if the rates no longer produce the loads, if equal systems could not satisfy claims, or if the
    warm-up is too short."""
    found = [
        f"Calibration, {traffic}: the grid uses {rate:g} connections/s for 100 % load; measured: {now}."
        for traffic, rate, now, unchanged in calibrated(results)
        if not unchanged
    ]
    found += [
        f"Noise floor, {one.claim}, {format_labels(one.where)}: the distance of equal systems is "
        f"{one.equal}, but the claim is {one.band}: chance alone exceeds it."
        for one in floors(results)
        if one.equal.value > one.band.high
    ]
    active = [drop_tail[m.ACTIVE].at(tcp="Reno")]
    return found + warm_up_warning(active, results, m.SERIES_STEP_S, f"{net.WARM_UP_S:g} s", net.WARM_UP_S)


STUDY = Study.of(
    "unc-web",
    TITLE,
    *(*LOAD, *net.GRID, *CLAIMS),
    *dist.DISTRIBUTIONS,
    *BY_LOAD,
    *TABLES,
    *net.DECISIONS,
    paper=PAPER,
    question="Do SACK, Adaptive RED and ECN make Web transfers faster than Reno over Drop Tail?",
    readings=(
        Reading(name="packets", labels={"unit": "packets"}),
        Reading(name="bytes", labels={"unit": "bytes"}, suffix="b"),
    ),
    checks=_checks,
    floors=floors,
    with_queues=with_queues,
)
