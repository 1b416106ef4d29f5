"""Active Queue Management for Web Traffic (Claypool, Kinicki and Hartling, IPCCC 2004, and its talk).

The talk reports that SHRED shortens transmission times compared with RED and Drop Tail, and does not harm
FTP. The claims follow the order of the talk's sentences. The talk's curves are not available as numbers.
`network.py` contains the alternative readings of details that the talk leaves open; the study's page
describes the other decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aqmlab import metrics
from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.table import Row
from aqmlab.results.variable import Measured, Variable
from aqmlab.studies.drop_curves import drop_functions
from aqmlab.studies.shared import constant, forms, less, warm_up_warning
from aqmlab.studies.shred import measures as m
from aqmlab.studies.shred import network as net
from aqmlab.studies.shred.network import PAGES, QUEUES, UNCONGESTED, beside_ftp, dumbbell, web
from aqmlab.study import (
    Claim,
    Experiment,
    Figure,
    Study,
    Table,
    crossed,
    difference,
    every,
    joined,
    line,
    mean_of,
    of_runs,
    overview,
    per_seed,
    query,
    ratio,
    stacked,
)
from aqmlab.study.charts import Draws
from aqmlab.study.publication import Queues
from aqmlab.study.query import Query
from aqmlab.study.queues import at, counted, readings
from aqmlab.study.tables import Tabulates
from aqmlab.sweep import Changes

TITLE = "Active Queue Management for Web Traffic"
PAPER = f"M. Claypool, R. Kinicki, M. Hartling: {TITLE}. IPCCC 2004, and the talk."

TO_RED, TO_DROP_TAIL = ("SHRED", "RED"), ("RED", "Drop Tail")

OVERVIEW: tuple[Measure | str, ...] = (
    *(m.MEAN_TIME, m.MEDIAN, m.P90, "web.p99-time", m.SLOWDOWN, m.DROP_PERCENT, m.SHORT_TIMEOUTS),
    *(m.MEAN_ACTIVE, "web.unfinished", "bottleneck.utilisation", "bottleneck.mean-queueing-delay"),
)

SHRED: Any = {"queue": "SHRED", "than": ("RED", "Drop Tail")}
"""Arguments of `less` for most claims."""

ours = partial(Claim, origin="ours")
_bars = partial(line, kind="bars")


def web_traffic(
    name: str, title: str, traffic: dict[str, Any], axes: Mapping[str, Any], **values: Any
) -> Experiment:
    """Web traffic under each queue and on the uncongested link; `values` are those of `forms`."""
    measures = [*m.WEB, "ftp.goodput"] if "ftp" in traffic else m.WEB
    axes = {**axes, "queue": net.QUEUE_OR_NONE}
    return Experiment(name, title, dumbbell(**traffic), axes, measures, **forms(**values))


def normalised(time: Variable) -> Variable:
    """A time divided by the time for the same arrivals without congestion."""
    name = f"{time.name} over uncongested"
    return per_seed(name, metrics.normalised_time, time, time.at(queue=UNCONGESTED))


def share_beyond(experiment: Experiment) -> Variable:
    """The share of objects that take longer than each time of the grid, as a list."""
    return per_seed("share beyond each time", metrics.survival, experiment[m.ENDED], experiment[m.CENSORED])


def _over_time(shares: Variable, low_s: float, high_s: float, **options: Any) -> Draws:
    times = [float(at) for at in m.GRID]
    drawn = shares.unrolled("time_s", times).among(time_s=[at for at in times if low_s <= at <= high_s])
    x: dict[str, Any] = {"x_label": "object time (s)", "log_x": True, "x_limits": (low_s, high_s)}
    return line(drawn, x="time_s", by="queue", **x, **options)


def cdf(experiment: Experiment, **labels: float) -> Draws:
    """The distribution of object times."""
    beyond = share_beyond(experiment).at(**labels)
    done = per_seed("cumulative fraction of objects", lambda shares: 1 - shares, beyond)
    return _over_time(done, 0.15, 10.0, kind="cdf", clip=(0.0, 1.0))


def tail(experiment: Experiment, **labels: float) -> Draws:
    """The complementary distribution: the share of objects that take longer."""
    y = {"log_y": True, "y_limits": (1e-4, 1.0), "y_label": "fraction of objects that take longer"}
    beyond, guides = share_beyond(experiment).at(**labels), {"initial RTO": 3.0}
    return _over_time(beyond, 0.5, 60.0, kind="tail", clip=(1e-5, 1.0), guides=guides, **y)


def _by_load(id: str, title: str, variable: Variable) -> Figure:
    by_percent = query(variable.among(queue=QUEUES)).relabelled(load=lambda load: 100 * load)
    label = "Web load (% of the bottleneck), beside 10 FTP flows"
    return Figure(id, title, line(by_percent, x="load", by="queue", x_label=label))


def _overview(experiment: Experiment, *more: Measure | str, **labels: float) -> Tabulates:
    return overview([experiment[one].at(**labels) for one in (*OVERVIEW, *more)], by="queue")


def compared(only: Experiment, mixed: Experiment) -> tuple[Sequence[Variable], ...]:
    """Variables that claims require to be smaller: times of Web traffic only, tails of mixed traffic, and
    time-outs of short flows in both cases."""
    times = [only[one] for one in (m.MEDIAN, m.P90, m.MEAN_TIME)]
    tails = [mixed[share].at(load=0.7) for share in m.BEYOND]
    return times, tails, [only[m.SHORT_TIMEOUTS], mixed[m.SHORT_TIMEOUTS].at(load=0.7)]


# Web traffic alone, and with FTP flows

LOADS = {"traffic.web.load": (0.4, 0.5, 0.6, 0.7, 0.8)}
web_only = web_traffic("web-only", "Web only, 100 %", {"web": web(1.0)}, {}, variants={"queue": QUEUES})
web_mixed = web_traffic(
    "web-mixed", "Web beside 10 FTP flows", beside_ftp(0.7), LOADS, variants={"load": (0.5, 0.7)}
)
mixed, beyond = web_mixed[m.MEAN_TIME], share_beyond(web_mixed)
_times, _tails, _timeouts = compared(web_only, web_mixed)
_near = m.GRID <= 10.0
_distance = per_seed(
    "area to the uncongested distribution",
    lambda ours, theirs: metrics.area_between(ours[_near], theirs[_near], m.GRID[_near]),
    beyond,
    beyond.at(queue=UNCONGESTED),
    unit="s",
)
_closer = less(_distance.at(load=0.7), **SHRED)
_bands = every(
    ratio(normalised(mixed), queue=TO_RED).within(0.90, 0.99),
    ratio(normalised(mixed), queue=TO_DROP_TAIL).within(0.85, 0.99),
)


def _compared(one: Variable) -> Query:
    return stacked("pair", {"/".join(pair): ratio(one, queue=pair) for pair in (TO_RED, TO_DROP_TAIL)})


_ideal = "all loads: mean of each object's time over its ideal time"
_readings = joined(
    _compared(mixed).relabelled(load=lambda load: f"{100 * load:.0f} % Web load").renamed(load="reading"),
    _compared(web_mixed[m.MEDIAN].averaged("load")).tagged(reading="all loads: medians"),
    _compared(web_mixed[m.SLOWDOWN].averaged("load")).tagged(reading=_ideal),
)

WEB = (
    *(web_only, web_mixed),
    Claim("SH-1.2", "Web-only SHRED has best performance.", less(*_times, **SHRED), "slide 27"),
    Claim("SH-2", "Web-mixed SHRED closer to uncongested performance.", _closer, "slide 27"),
    Claim(
        "SH-3",
        "SHRED is better than RED and Drop Tail in heavy-tail of CDF due to RTO issues.",
        less(*_tails, **SHRED),
        "slide 27",
        ("4b",),
    ),
    Claim(
        "SH-4.2",
        "With normalized transmission time, SHRED 4 [%] better than RED which is 8 [%] better than Drop "
        "Tail.",
        _bands,
        "slide 27; the bands are aqmlab's choice",
    ),
    Figure("3a", "Object transmission time, Web only, 100 % load", cdf(web_only)),
    Figure("3b", "Object transmission time, Web only, 100 % load: tail", tail(web_only)),
    Figure("4a", "Object transmission time, Web 70 % beside 10 FTP flows", cdf(web_mixed, load=0.7)),
    Figure("4b", "Object transmission time, Web 70 % beside 10 FTP flows: tail", tail(web_mixed, load=0.7)),
    _by_load("5", "Normalised transmission time, Web-mixed", normalised(mixed)),
    Table("overview-web-only", "Web only, 100 % load; short flows have up to 10 kB", _overview(web_only)),
    Table("overview-web-mixed", "Web 70 % + 10 FTP flows", _overview(web_mixed, "ftp.goodput", load=0.7)),
    Table(
        "readings",
        "SH-4, load by load and under other readings",
        crossed(_readings, rows="reading", columns="pair", format=str),
        "The talk reports 0.96 and 0.92. The ideal time of an object is the time of slow start alone.",
    ),
)

# Increasing numbers of FTP flows

_flows: Any = {"axes": {"flows": net.flows(0, 5, 10, 20, 30, 40)}, "quick": {"flows": (0, 10, 20, 40)}}
ftp_mixed = web_traffic(
    "ftp-mixed", "FTP flows beside Web 50 %", beside_ftp(0.5), **_flows, variants={"flows": (10, 40)}
)
response = normalised(ftp_mixed[m.RESPONSE])


def _pair(variable: Variable) -> Iterator[Variable]:
    """The variable under SHRED and under RED."""
    return (variable.at(queue=queue) for queue in TO_RED)


def _advantage(experiment: Experiment) -> Variable:
    """The difference in dropped packets, RED minus SHRED."""
    return per_seed(
        "packets dropped per Web flow, RED minus SHRED",
        lambda a, b: b - a,
        *_pair(experiment[m.DROP_PERCENT]),
        unit="points",
        key="RED - SHRED in packets dropped per Web flow",
    )


_by_flows = line(response.among(queue=QUEUES), x="flows", by="queue", x_label="FTP flows")

FTP_MIXED = (
    ftp_mixed,
    Claim(
        "SH-5",
        "As number of flows increase, the SHRED benefit in packet drops widens.",
        every(
            mean_of(_advantage(web_mixed).slope("load", 0.1)) > 0,
            mean_of(_advantage(ftp_mixed).slope("flows", 10.0)) > 0,
        ),
        "slide 27",
    ),
    Claim(
        "SH-6.2",
        "SHRED produces lower object transmission times than either RED or Drop Tail in [...] mixed traffic "
        "simulations.",
        less(response, **SHRED),
        "slide 33, about figure 7",
    ),
    _by_load("6", "Percent drops, Web-mixed", web_mixed[m.DROP_PERCENT]),
    Figure("7", "Normalised Web response time beside 50 % Web load, FTP-mixed", _by_flows),
)

# Several objects per page

_pages: Any = {"axes": {"traffic.web.objects": PAGES}, "quick": {"objects": (8, 32)}}
_only = web_traffic("web-only-pages", "Web only, 100 %, pages", {"web": web(1.0)}, **_pages)
_beside = web_traffic("web-mixed-pages", "Web 70 % beside 10 FTP flows, pages", beside_ftp(0.7), **_pages)
_by_loads = web_traffic(
    "web-mixed-pages-by-load",
    "Pages of 1 to 8 objects beside 10 FTP flows",
    beside_ftp(0.7, PAGES[8]),
    LOADS,
    quick={"load": (0.4, 0.7)},
)


def _gain(time: Variable) -> Variable:
    """The share of RED's time that SHRED saves."""

    def gain(ours: float, theirs: float) -> float | None:
        return 100 * (1 - ours / theirs) if theirs > 0 else None

    return per_seed(f"gain of SHRED over RED in {time.name}", gain, *_pair(time), unit="%")


def _page_times(one: Measured, several: Experiment) -> Query:
    """Times of pages with one object and with several objects, divided by the times of the same pages without
    congestion."""
    single, more = (query(normalised(time).among(queue=QUEUES)) for time in (one, several[m.RESPONSE]))
    return joined(single.tagged(objects="1"), more.relabelled(objects=lambda most: f"1-{most}"))


_one_object = web_mixed[m.RESPONSE].at(load=0.7)
_objects = {
    "Web only, 100 %": _page_times(web_only[m.RESPONSE], _only),
    "Web 70 % + 10 FTP": _page_times(_one_object, _beside),
}
_by_objects = _bars(stacked("traffic", _objects), x="objects", by="queue", panel="traffic")
_larger = difference(_gain(_beside[m.RESPONSE]), _gain(_one_object)) > 0

SEVERAL_OBJECTS = (
    *(_only, _beside, _by_loads),
    Claim(
        "SH-7.2",
        "SHRED yields significant response time improvement when there are multiple objects per page.",
        every(*(mean_of(_gain(one[m.RESPONSE])) > 0 for one in (_beside, _only))),
        "slide 33",
    ),
    _by_load("8", "Normalised time of Web pages of 1 to 8 objects", normalised(_by_loads[m.RESPONSE])),
    Figure("pages", "Objects per page (slide 29)", _by_objects),
)

# FTP alone, and the network as a whole

ftp_only = Experiment(
    "ftp-only",
    "FTP only",
    dumbbell(ftp=net.FTP, drops=True, queue_every="20ms"),
    {"traffic.ftp.flows": tuple(range(10, 101, 10)), "queue": net.QUEUE},
    m.FTP,
    **forms(quick={"flows": (10, 40, 70, 100)}, variants={"flows": (10, 40)}),
)


def _ftp_alone(id: str, title: str, measure: Measure) -> Figure:
    return Figure(id, title, line(ftp_only[measure], x="flows", by="queue", x_label="FTP flows"))


def _ftp_table(id: str, title: str, measure: Measure) -> Table:
    heads = {"flows": "FTP flows"}
    return Table(id, title, crossed(ftp_only[measure], rows="flows", columns="queue", heads=heads))


_no_harm = every(
    ratio(ftp_only[m.FTP_ALONE], queue=TO_RED) >= 0.98, difference(ftp_only[m.JAIN], queue=TO_RED) >= -0.05
)

HARM = (
    ftp_only,
    Claim(
        "SH-8.2",
        "SHRED improvements do not negatively impact FTP traffic.",
        _no_harm,
        "slide 33; it is aqmlab's choice that a goodput lower by up to 2 % and a Jain's index lower by up to "
        "0.05 count as no harm",
    ),
    Claim(
        "SH-9.2",
        "[SHRED improves response times] while not degrading overall network performance.",
        every(*(ratio(web_mixed[m.GOODPUT], queue=("SHRED", one)) >= 0.98 for one in ("RED", "Drop Tail"))),
        "the paper's abstract, not the talk; it is aqmlab's choice to compare goodput, and to allow a loss "
        "of up to 2 %",
    ),
    Claim(
        "SH-10",
        "SHRED protects short-lived flows from unnecessary timeouts.",
        less(*_timeouts, queue="SHRED", than=["RED"]),
        "the paper's abstract, not the talk; the comparison with RED is aqmlab's choice",
    ),
    _ftp_alone("table-1", "FTP-only goodput of all flows together (Table 1)", m.FTP_ALONE),
    _ftp_alone("table-2", "FTP-only fairness (Table 2)", m.JAIN),
    _ftp_table("table-1-goodput", "Table 1. FTP-only goodput (Mb/s)", m.FTP_ALONE),
    _ftp_table("table-2-jain", "Table 2. FTP-only Jain's fairness index", m.JAIN),
    _by_load("goodput", "Goodput of all flows, Web-mixed", web_mixed[m.GOODPUT]),
)

# The hint on another AQM: PI, which adapts its probability slowly by design

hint_on_pi = Experiment(
    "hint-on-pi",
    "Web 70 % beside 10 FTP flows",
    dumbbell(**beside_ftp(0.7)) | {"duration": "240s", "warm_up": "100s"},
    {"bottleneck.queue": {name: net.DISCIPLINES[name] for name in ("RED", "SHRED")} | net.HINT_ON_PI},
    [*m.WEB, "ftp.goodput"],
)
_hint = "PISA weights PI's probability by the hint; PIMC spares packets of flows with windows below four."
_of_hint = _overview(hint_on_pi, "ftp.goodput")

HINT = (
    hint_on_pi,
    ours(
        "SH-11",
        "Basic SH scheme can be applied to other AQMs (e.g., research on PISA).",
        every(*(ratio(hint_on_pi[m.MEAN_TIME], queue=(hinted, "PI")) < 1 for hinted in ("PISA", "PIMC"))),
        "slide 33; aqmlab adds that Web objects are then served faster",
    ),
    Figure("hint-on-pi", "The hint on another AQM", cdf(hint_on_pi), _hint),
    Table("hint-on-pi-overview", "The hint on PI: Web 70 % + 10 FTP flows, over 140 s after 100 s", _of_hint),
    Claim(
        "SH-12",
        "The improvement is larger with several objects per page than with one.",
        _larger,
        "aqmlab's reading of figure 8",
        origin="sheet",
    ),
)

# The offered load

sizes = Experiment(
    "sizes", "Web only, 100 %", dumbbell(queue="RED", web=web(1.0)), {"traffic.web.sizes": net.SIZES}, m.WEB
)

_with_ftp = {"traffic.web.load": 0.7, "traffic.ftp": net.FTP}
long = Experiment(
    "long",
    "1000 s",
    dumbbell(web=web(1.0)) | {"duration": "1000s"},
    {"mix": Changes({"Web 100 %": {}, "Web 70 % + 10 FTP": _with_ftp}), "queue": net.QUEUE},
    [m.BINS],
    seeds=1,
)


def _since_warm_up(row: Row) -> Iterator[tuple[Labels, float]]:
    """The mean time of all objects that began before a time."""
    count = total = 0.0
    bins = row[m.BINS]
    for number, some, seconds in zip(bins["bin"], bins["count"], bins["sum_s"], strict=True):
        if number * m.LONG_BIN_S >= net.WARM_UP_S:
            count, total = count + some, total + seconds
            yield {"until_s": (number + 1) * m.LONG_BIN_S}, total / count


_stable = line(
    of_runs(long, _since_warm_up, "until_s"),
    kind="curve",
    x="until_s",
    by="queue",
    panel="mix",
    y_label="mean time of all objects begun so far (s)",
    guides={"runs of the talk end": 160.0},
)
_wandering = "The mean of one run fluctuates long after 160 s; the study therefore uses many paired seeds."
_alone, _mixed = (
    stacked("column", [one[load].at(queue="RED") for load in m.OFFERED]) for one in (web_only, web_mixed)
)
_loads = joined(
    _alone.tagged(load=100.0, runs="web-only"),
    _mixed.relabelled(load=lambda load: 100 * load).tagged(runs="web-mixed"),
)
_load_table = crossed(_loads, rows=("runs", "load"), columns="column", heads={"load": "nominal load (%)"})
_of_sizes = [sizes[one] for one in (*m.OFFERED, m.MEAN_ACTIVE)]
_active = web_only[m.MEAN_ACTIVE]
_open = _bars(_active, x="queue", by="queue", overlaid=True, levels={"the talk: 140": 140.0})

OFFERED = (
    *(sizes, long),
    Claim(
        "SH-13",
        "100 load, 140 active flows.",
        mean_of(_active.among(queue=QUEUES)).within(0.8 * 140, 1.2 * 140),
        "slides 21 and 22; it is aqmlab's choice to count flows that are open at the same time, and to "
        "allow a deviation of one fifth",
    ),
    Figure("active-transfers", "Open transfers at 100 % Web load, beside the talk's 140 active flows", _open),
    Figure("stable", "When the means are stable (slide 18)", _stable, _wandering),
    Table("loads", "Offered load", _load_table),
    Table("sizes", "Readings of the law of sizes, at 100 % Web load under RED", _of_sizes),
)

# A single loss. These runs have no random numbers, which the second seed verifies.

_lost = {
    name: {"bottleneck.queue": {"kind": "drop-nth", "packets": [packet]}}
    for packet, name in enumerate(("SYN", *map(str, range(1, 11))), start=1)
}
_object = {"kind": "ftp", "flows": 1, "stagger": "0s", "sizes": constant(9340)}
lost_packet = Experiment(
    "lost-packet",
    "One object of ten segments alone on the link",
    dumbbell(drops=True, object=_object) | {"duration": "60s", "warm_up": "0s", "host": {"jitter": "0s"}},
    {"lost": Changes({"none": {}, **_lost})},
    ["object.mean-time", m.LOST_TIMEOUTS],
    seeds=2,
)

_time = lost_packet["object.mean-time"].measure


def _recovered(row: Row) -> Iterator[tuple[Labels, float]]:
    if row[_time] is not None:
        without = row[m.LOST_TIMEOUTS] == 0
        yield {"recovery": "fast retransmit or none" if without else "time-out"}, row[_time]


_costs = of_runs(lost_packet, _recovered, "recovery")
# If packet 1 or 2 is lost, the window is smaller than four packets. If packet 8, 9 or 10 is lost, fewer than
# three later packets can be acknowledged.
_lost_in_vain = lost_packet[m.LOST_TIMEOUTS].among(lost=("1", "2", "8", "9", "10"))

LOST_PACKET = (
    lost_packet,
    Claim(
        "SH-14",
        "Fast Retransmit is ineffective when cwnd is less than four and for last three packets of a flow.",
        mean_of(_lost_in_vain) >= 1,
        "slide 4; aqmlab tests an object of ten segments, the first two of which are sent with a window "
        "below four",
        ("lost-packet",),
    ),
    Figure(
        "lost-packet",
        "Cost of losing the SYN, or the k-th of ten segments, for an object alone (slide 4)",
        _bars(_costs, x="lost", by="recovery", overlaid=True, y_label="object transmission time (s)"),
    ),
)

# RED's design goals, and the drop functions


def _drop_functions(id: str, title: str, up_to: int, most: float) -> Figure:
    lines: dict[str, Any] = {"RED": (net.DISCIPLINES["RED"], (1.0,))}
    for r in (0.25, 0.5, 1.0, 1.5, 2.0):
        lines[f"SHRED, r = {r:g}"] = (net.DISCIPLINES["SHRED"], (r,))
    labels = {"x_label": "average queue (packets)", "y_label": "drop probability p_b"}
    return Figure(id, title, drop_functions(lines, up_to, **labels, y_limits=(0.0, most)))


RED_ITSELF = (
    ours(
        "AQM-1.2",
        "RED attempts to avoid global synchronization and bursty packet drops.",
        less(ftp_only[m.SYNCHRONISATION], ftp_only[m.DROP_RUN], queue="RED", than=["Drop Tail"]),
        "slide 5; aqmlab adds that RED succeeds",
    ),
    _ftp_alone("synchronisation", "Loss synchronisation, FTP only", m.SYNCHRONISATION),
    _ftp_alone("drop-runs", "Consecutive arrivals refused, FTP only", m.DROP_RUN),
    _ftp_alone("largest-burst", "Largest rise of the queue in a round trip without a drop", m.LARGEST_BURST),
    _drop_functions("drop-functions", "Drop functions (slides 8 and 12), r = window / average", 200, 1.02),
    _drop_functions("drop-functions-near", "Drop functions below max_th (slides 8 and 12)", 90, 0.16),
)

# Other queues: do they serve Web objects faster than Drop Tail, RED and SHRED, or harm other traffic?


def with_queues(queues: Queues) -> Study:
    """The study with these queues in addition to the paper's."""
    paper = Changes({**net.QUEUE, **at(queues, "bottleneck")})
    or_none = Changes({**paper, UNCONGESTED: net.uncongested})

    def again(
        one: Experiment, axes: dict[str, Any], quick: dict[str, Any], queue: Changes = or_none
    ) -> Experiment:
        options: Any = {"axes": {**axes, "queue": queue}, **forms(quick, variants={}, seeds=2)}
        return replace(one, name=f"today-{one.name}", **options)

    only = again(web_only, {}, {})
    mixed = again(web_mixed, {"traffic.web.load": (0.5, 0.7)}, {"load": (0.7,)})
    by_flows = again(ftp_mixed, {"flows": net.flows(10, 40)}, {"flows": (10,)})
    ftp = again(ftp_only, {"traffic.ftp.flows": (10, 40)}, {"flows": (10,)}, paper)

    older = ("Drop Tail", "RED")
    times, tails, timeouts = compared(only, mixed)
    than_older, than_shred = (less(*times, than=others) for others in (older, ["SHRED"]))
    on_time = less(*timeouts, than=["RED"])
    response, goodput, jain = normalised(by_flows[m.RESPONSE]), ftp[m.FTP_ALONE], ftp[m.JAIN]
    no_harm = every(
        ratio(goodput, goodput.at(queue="RED")) >= 0.98, difference(jain, jain.at(queue="RED")) >= -0.05
    )
    of_all = mixed[m.GOODPUT]
    bars = _bars(response.among(queue=tuple(paper)), x="flows", by="queue")
    of_ftp = overview([ftp[one].at(flows=10) for one in m.FTP], by="queue")
    of_mixed = _overview(mixed, m.GOODPUT, load=0.7)
    return Study.of(
        "shred-today",
        f"{TITLE}, with the queues of today",
        *(only, mixed, by_flows, ftp),
        ours(
            "T-SH-1",
            "With Web traffic only, the queue performs better than Drop Tail and RED.",
            than_older,
            "slide 27, about SHRED",
        ),
        ours(
            "T-SH-1s",
            "With Web traffic only, the queue performs better than SHRED.",
            than_shred,
            "aqmlab's own claim, beyond slide 27",
        ),
        ours(
            "T-SH-3",
            "If FTP flows share the link, fewer Web objects take a very long time than with RED and Drop "
            "Tail.",
            less(*tails, than=older),
            "slide 27, about SHRED",
            ("tail-mixed",),
        ),
        ours(
            "T-SH-6",
            "With 10 and with 40 competing FTP flows, transmission times are shorter than with RED and Drop "
            "Tail.",
            less(response, than=older),
            "slide 33, about SHRED",
        ),
        ours(
            "T-SH-6s",
            "With 10 and with 40 competing FTP flows, transmission times are shorter than with SHRED.",
            less(response, than=["SHRED"]),
            "aqmlab's own claim, beyond slide 33",
        ),
        ours(
            "T-SH-8",
            "FTP traffic is not harmed: its goodput and fairness are as high as with RED.",
            no_harm,
            "slide 33, about SHRED; it is aqmlab's choice that a goodput lower by up to 2 % and a Jain's "
            "index lower by up to 0.05 count as no harm",
        ),
        ours(
            "T-SH-9",
            "The network as a whole does not lose goodput.",
            ratio(of_all, of_all.at(queue="RED")) >= 0.98,
            "the project's page, about SHRED; a loss of up to 2 % is allowed, which is aqmlab's choice",
        ),
        ours(
            "T-SH-10",
            "Short Web flows have fewer time-outs than with RED.",
            on_time,
            "the abstract, about SHRED",
        ),
        net.SENDERS,
        Figure("cdf-alone", "Object transmission time, Web only, 100 %", cdf(only)),
        Figure("tail-mixed", "Web 70 % beside 10 FTP flows: tail", tail(mixed, load=0.7)),
        Figure("by-flows", "Normalised Web response time, Web 50 % beside FTP flows", bars),
        Table("overview-alone", "Web only, 100 %", _overview(only, m.GOODPUT)),
        Table("overview-mixed", "Web 70 % beside 10 FTP flows", of_mixed),
        Table("overview-ftp", "10 FTP flows alone", of_ftp),
        paper=PAPER,
        question="Do other queues help Web transfers as SHRED does, without information on their senders?",
        answer=lambda found: counted(found, "of what SHRED was claimed to do"),
        readings=readings(queues),
    )


_open_transfers = [one[m.ACTIVE].among(queue=QUEUES) for one in (web_only, web_mixed, ftp_mixed)]

STUDY = Study.of(
    "shred",
    TITLE,
    *(*WEB, *FTP_MIXED, *SEVERAL_OBJECTS, *HARM, *HINT, *OFFERED, *LOST_PACKET, *RED_ITSELF),
    *net.DECISIONS,
    paper=PAPER,
    question="Can a router treat short Web transfers better by looking at their senders' congestion windows?",
    checks=lambda results: warm_up_warning(
        _open_transfers, results, m.SERIES_STEP_S, "the talk's 20 s", net.WARM_UP_S
    ),
    with_queues=with_queues,
)
