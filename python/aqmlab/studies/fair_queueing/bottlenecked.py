"""Bottlenecked flows with a background, as in the talk's blocks A to K: FIFO and fair queueing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from aqmlab.measures import Measure
from aqmlab.results.labels import Labels
from aqmlab.results.rule import Estimate, difference, every, mean_of, ratio
from aqmlab.results.table import Row
from aqmlab.results.variable import per_seed
from aqmlab.studies.fair_queueing import measures as m
from aqmlab.studies.fair_queueing import network as net
from aqmlab.studies.fair_queueing.blocks import BLOCKS, CASES, FLOWS, PLOTS, Plot
from aqmlab.study import Claim, Experiment, Figure, Form, Table
from aqmlab.study.charts import line
from aqmlab.study.publication import Part, our_reading
from aqmlab.study.query import Query, Shown, joined, of_runs, query, scaled, stacked
from aqmlab.study.tables import Crossed, crossed, listed
from aqmlab.sweep import Changes

NEWRENO = {"recovery": ("NewReno",)}
SHORT = {"duration": "100s"}
_BACKGROUND: net.Axes = {"traffic.background": net.BACKGROUNDS}
_RECOVERY: net.Axes = {"recovery": net.RECOVERY}
_BUFFERS = net.buffers(20, 100, 625)
_FLOWS, _PACKETS = net.link(net.POISSON_FLOWS), net.link(net.POISSON_PACKETS)
_ONCE = Form(seeds=1, changes=SHORT)


def _long(name: str, title: str, scenario: dict[str, Any], axes: net.Axes, **fields: Any) -> Experiment:
    """Runs of 500 s, unless `fields` set another duration."""
    quick = Form(seeds=3, axes=NEWRENO, changes=SHORT)
    common = {"measures": m.LINK, "seeds": 4, "most_seeds": 20, "quick": quick}
    return Experiment(name, title, scenario, axes, **{**common, **fields})


one = _long(
    "one",
    "One flow",
    _FLOWS,
    net.flows("1 Reno", "1 HighSpeed") | _BACKGROUND | _BUFFERS | _RECOVERY,
    varied=Form(axes={**NEWRENO, "background": (FLOWS,)}),
    varied_quick=Form(seeds=2, axes={"buffer": (20,)}, changes=SHORT),
)
several = _long(
    "several",
    "Several flows competing with Poisson packets",
    _PACKETS,
    net.flows("2 Reno", "2 HighSpeed", "HighSpeed + Reno", "4 Reno", "4 HighSpeed")
    | net.buffers(20, 625)
    | _RECOVERY,
    varied=Form(axes={**NEWRENO, "flows": ("HighSpeed + Reno",)}),
    varied_quick=Form(seeds=2, axes={"buffer": (625,)}, changes=SHORT),
)
baseline = _long(
    "baseline", "The background alone", _FLOWS, _BACKGROUND | _BUFFERS, quick=Form(seeds=3, changes=SHORT)
)
windows = _long(
    "windows",
    "One or four flows, buffer of 625 packets, from 20 s to 100 s",
    net.link(net.POISSON_PACKETS, duration=f"{m.SHOWN_S}s"),
    net.flows("1 HighSpeed", "4 Reno", "4 HighSpeed") | {"bottleneck.queue": net.queues(625)} | _RECOVERY,
    seeds=20,
    most_seeds=40,
    quick=Form(seeds=3, axes=NEWRENO),
)


def _of_plot(plot: Plot) -> dict[str, Any]:
    """The changes for one of the talk's plots, except for the change of the queue, which is applied
    earlier."""
    background = {"traffic.background": net.BACKGROUNDS[plot.background]}
    return {**background, "bottleneck.queue.limit": f"{plot.buffer}p", **net.BOTTLENECKED[plot.flows]}


_PLOTS = {
    name: {"bottleneck.queue": net.QUEUES[plot.queue], **_of_plot(plot)} for name, plot in PLOTS.items()
}
_SENDERS = {
    name: {"record.senders": [path.removeprefix("traffic.") for path in net.BOTTLENECKED[plot.flows]]}
    for name, plot in PLOTS.items()
}

paths = Experiment(
    "paths",
    "The talk's plots",
    net.link(net.POISSON_PACKETS, duration=f"{m.SHOWN_S}s", queue_every=f"{m.USE_STEP_S:g}s"),
    {"plot": Changes({name: {**change, **_SENDERS[name]} for name, change in _PLOTS.items()})},
    m.PATH,
    seeds=1,
)
steady = _long(
    "steady",
    "The talk's plots, over 1000 s",
    net.link(net.POISSON_PACKETS, duration=f"{net.WARM_UP_S + 1000}s"),
    {"plot": Changes(_PLOTS)},
    seeds=2,
    quick=_ONCE,
)
_cases = Changes({name: _of_plot(plot) for name, plot in CASES.items()})
_ordered: net.Axes = {"bottleneck.queue": net.ORDERS, "case": _cases, **_RECOVERY}
orders = _long("orders", "Blocks with fair queueing", _PACKETS, _ordered)

RIVALS = (*net.CONTROLS, m.UNRESPONSIVE)
PAIRS = tuple(itertools.combinations(RIVALS, 2))


def pair_name(pair: tuple[str, str]) -> str:
    """The name of a pair of flows, from the titles of their congestion controls."""
    return " / ".join(m.LAW_NAMES[law] for law in pair)


_two = Changes({pair_name(pair): net.beside(**dict.fromkeys(pair, 1)) for pair in PAIRS})
_newreno = Changes({"NewReno": net.RECOVERY["NewReno"]})

_fair = net.link(net.POISSON_PACKETS, queue="FQ")
pairs = _long("pairs", "Two flows, FQ, 625 packets", _fair, {"pair": _two, **_RECOVERY})
pairs_fifo = _long(
    "pairs-fifo", "Two flows, FIFO, 625 packets", _PACKETS, {"pair": _two, "recovery": _newreno}, quick=_ONCE
)

# Without a bottlenecked flow, loss recovery has no effect, so one run is used for all loss recoveries.
_flow_or_none = {"flows": Changes({"none": net.RECOVERY["NewReno"], **net.flows("1 Reno")["flows"]})}
delay = _long(
    "delay",
    "The background's packets",
    net.link(net.POISSON_FLOWS, duration="80s", packets=["bottleneck"]),
    _BACKGROUND | _BUFFERS | _RECOVERY | _flow_or_none,
    measures=m.DELAY,
    quick=Form(seeds=3, axes={**NEWRENO, "background": (FLOWS,)}, changes={"duration": "40s"}),
)

EXPERIMENTS = (one, several, baseline, windows, paths, steady, orders, pairs, pairs_fifo, delay)


def over_reno(runs: Experiment) -> Estimate:
    """The rate of a HighSpeed flow divided by the rate of the competing Reno flow."""
    highspeed, reno = (runs[rate].at(flows="HighSpeed + Reno") for rate in (m.HIGHSPEED, m.RENO))
    return ratio(highspeed, reno)


rate = one[m.AVAILABLE].at(background=FLOWS)
lost = one[m.BACKGROUND_LOSS].at(background=FLOWS)
reno_in_fifo = rate.at(flows="1 Reno", queue="FIFO")
beside_packets = one[m.AVAILABLE].at(flows="1 Reno", background="Poisson packets", queue="FIFO", buffer=20)
rate_gained = difference(rate.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno"))
loss_grown = ratio(lost.at(queue="FIFO", buffer=100), flows=("1 HighSpeed", "1 Reno"))
highspeed_over_reno = over_reno(several)
four_to_one = ratio(several[m.AVAILABLE].at(flows="4 Reno", queue="FIFO", buffer=20), beside_packets)
waits = delay[m.MEAN_DELAY].at(background=FLOWS)
added_wait = per_seed(
    "increase in the mean waiting time that the flow causes",
    lambda ours, alone: ours - alone,
    waits.at(flows="1 Reno"),
    waits.at(flows="none"),
    unit="ms",
    key="mean wait beyond that without the flow",
)
others = tuple(order for order in net.ORDERS if order != "DRR")
by_order = orders[m.AVAILABLE]
fairness = orders[m.JAIN].among(
    case=[name for name, plot in CASES.items() if not plot.flows.startswith("1 ")]
)

VERY_UNFAIR = 1.6

CLAIMS = (
    Claim(
        "R1.2",
        "A severe loss of throughput with a small buffer: only 40 % of the available capacity.",
        mean_of(reno_in_fifo.at(buffer=20)).within(0.35, 0.45),
        "block A; the band of 35 to 45 % is aqmlab's choice",
    ),
    our_reading(
        "R1p.2",
        "With a background of Poisson packets, one flow also gets only 40 % of the available capacity.",
        mean_of(beside_packets).within(0.35, 0.45),
        "aqmlab's reading of block H",
    ),
    our_reading(
        "R2",
        "The larger the buffer, the higher the flow's rate.",
        every(
            *(difference(reno_in_fifo, buffer=two) > 0 for two in ((100, 20), (625, 100))),
            mean_of(reno_in_fifo.at(buffer=625)) >= 0.9,
        ),
        "aqmlab's reading of block A",
    ),
    Claim(
        "R3.2",
        "HighSpeed TCP gains utilisation, more loss for the background.",
        every(rate_gained > 0, loss_grown > 1),
        "block B",
    ),
    our_reading(
        "R3b",
        "With HighSpeed TCP instead of Reno, the flow gains a twentieth of the available capacity, and the "
        "background loses twice as many packets.",
        every(rate_gained >= 0.05, loss_grown >= 2),
        "block B; both numbers are aqmlab's choice",
    ),
    Claim(
        "R4",
        "Fair queueing removes the background's loss, with little effect on the bottlenecked flow.",
        every(
            mean_of(lost.at(flows="1 Reno", queue="FQ", buffer=20)) < 1e-5,
            ratio(lost.at(flows="1 Reno", buffer=20), queue=("FQ", "FIFO")) <= 0.01,
            ratio(rate.at(flows="1 Reno", buffer=20), queue=("FQ", "FIFO")).within(0.8, 1.2),
        ),
        "block C; the limits for “removes” and “little” are aqmlab's choice",
    ),
    Claim(
        "R5",
        "Reno flows share FIFO approximately fairly.",
        every(*(mean_of(several[m.JAIN].at(flows=n, queue="FIFO")) >= 0.95 for n in ("2 Reno", "4 Reno"))),
        "blocks D, H and I; the limit of 0.95 for Jain's index is aqmlab's choice",
    ),
    Claim(
        "R6",
        "HighSpeed is very unfair to Reno, 625 packets.",
        highspeed_over_reno.at(queue="FIFO", buffer=625) >= VERY_UNFAIR,
        "block F; “very unfair” means a ratio of at least 1.6, which is aqmlab's choice",
    ),
    our_reading(
        "R7",
        "With a buffer of 20 packets, HighSpeed TCP also gets a higher rate than Reno.",
        highspeed_over_reno.at(queue="FIFO", buffer=20) >= 1.2,
        "aqmlab's lenient reading of block F; the slide says “very unfair”",
    ),
    Claim(
        "R7b",
        "HighSpeed is very unfair to Reno, 20 packets.",
        highspeed_over_reno.at(queue="FIFO", buffer=20) >= VERY_UNFAIR,
        "block F; the limit is that of R6, because the slide uses the same words",
    ),
    our_reading(
        "R8",
        "With a buffer of 625 packets, fair queueing gives HighSpeed TCP and Reno equal rates.",
        highspeed_over_reno.at(queue="FQ", buffer=625).within(0.97, 1.03),
        "aqmlab's reading of block G, which says that fair queueing is effective",
    ),
    Claim(
        "R8b.2",
        "Fair queueing is effective, though HighSpeed TCP still gains more throughput.",
        highspeed_over_reno.at(queue="FQ") > 1,
        "block G",
    ),
    our_reading(
        "R9",
        "With fair queueing and a buffer of 20 packets, the rate of HighSpeed TCP is a twentieth higher "
        "than the rate of Reno.",
        highspeed_over_reno.at(queue="FQ", buffer=20) >= 1.05,
        "block G; the number is aqmlab's choice",
    ),
    Claim(
        "R10.2", "Better utilisation with four flows than with one, 20 packets.", four_to_one > 1, "block H"
    ),
    our_reading(
        "R10b",
        "With a buffer of 20 packets, four flows together get 1.4 times the rate of one flow.",
        four_to_one >= 1.4,
        "block H; the number is aqmlab's choice",
    ),
    Claim(
        "R11",
        "Four HighSpeed flows share FIFO poorly.",
        difference(windows[m.JAIN].at(queue="FIFO"), flows=("4 HighSpeed", "4 Reno")) < 0,
        "block J",
    ),
    Claim(
        "R12.2",
        "All HSTCP, 625 packet buffer, 1 flow and 4 flows: [...] loss of throughput.",
        ratio(windows[m.AVAILABLE].at(queue="FIFO"), flows=("4 HighSpeed", "1 HighSpeed")) < 1,
        "block J, slide 33",
        ("j-utilisation",),
    ),
    Claim(
        "R13",
        "Fair queueing restores fairness and preserves throughput.",
        every(
            *(
                mean_of(windows[measure].at(flows="4 HighSpeed", queue="FQ")) >= least
                for measure, least in ((m.JAIN, 0.99), (m.AVAILABLE, 0.97))
            )
        ),
        "block K; the limits of 0.99 and 0.97 are aqmlab's choice",
    ),
    our_reading(
        "R17",
        "DRR, SCFQ, STFQ and RR give the same result in blocks C, G and K.",
        every(
            ratio(by_order.among(queue=others), by_order.at(queue="DRR")).to_within(0.03).within(0.97, 1.03),
            mean_of(orders[m.BACKGROUND_LOSS].among(queue=others)) < 1e-5,
            difference(fairness.among(queue=others), fairness.at(queue="DRR")).within(-0.01, 0.01),
        ),
        "aqmlab's reading of the slide, which allows DRR, self-clocked fair queueing or plain round robin",
    ),
    *(
        Claim(
            id,
            f"FQ avoids [...] delay for background packets: {packets} packets of buffer.",
            ratio(added_wait.at(buffer=packets), queue=("FQ", "FIFO")) <= 0.1,
            "slide 35; a delay of at most a tenth of FIFO's delay counts as no delay, which is aqmlab's "
            "choice",
        )
        for id, packets in (("R18.2", 20), ("R18b.2", 625))
    ),
    Claim(
        "R19.2",
        "FQ ensures fairness for any transport protocol.",
        ratio(pairs[m.FIRST], pairs[m.SECOND]).within(0.95, 1.05),
        "slide 35; aqmlab tests whether any two of Reno, HighSpeed, CUBIC, Scalable and an unresponsive "
        "flow get rates within 5 % of each other",
    ),
)


def _windows(row: Row) -> Iterator[tuple[Labels, float]]:
    """The windows of bottlenecked flows, named by their congestion controls if these differ."""
    found = row[m.WINDOWS]
    alike = len({name for name, _ in found}) == 1
    for number, (name, window) in enumerate(found, 1):
        for step, packets in enumerate(window, 1):
            flow = f"flow {number}" if alike else m.LAW_NAMES[name]
            yield {"flow": flow, "time_s": step * m.WINDOW_STEP_S}, packets


_seconds = [step * m.USE_STEP_S for step in range(1, round(m.SHOWN_S / m.USE_STEP_S) + 1)]
_used = paths[m.USE].unrolled("time_s", _seconds)
_PLOTTED: Mapping[str, tuple[Callable[[str], Shown], Mapping[str, Any]]] = {
    "windows": (
        lambda plot: of_runs(paths, _windows, "flow", "time_s", plot=plot),
        {"by": "flow", "y_label": "congestion window (packets)", "y_limits": (0.0, 1000.0)},
    ),
    "utilisation": (
        lambda plot: _used.at(plot=plot),
        {"by": "plot", "y_label": "utilisation", "y_limits": (0.0, 1.02)},
    ),
}
"""Quantities plotted for each run of a block, in adjacent panels."""


def _waits(measure: Measure) -> Query:
    """Waiting times of the background's packets, with and without one Reno flow."""
    wait = delay[measure].at(recovery="NewReno", background=FLOWS)
    undisturbed = query(wait.at(flows="none", queue="FIFO"))
    return joined(wait.at(flows="1 Reno"), undisturbed.tagged(queue="no bottlenecked flow"))


def _second_over_first(experiment: Experiment) -> Query:
    found = query(ratio(experiment[m.SECOND], experiment[m.FIRST]).at(recovery="NewReno"))
    return found.relabelled(pair=lambda names: "/".join(name[0].upper() for name in names.split(" / ")))


_over_time = partial(line, kind="curve", x="time_s", panel="plot", x_limits=(0.0, float(m.SHOWN_S)))
_of_one_flow = partial(line, by=("flows", "queue"), panel="background")
_each_wait = {"mean": _waits(m.MEAN_DELAY), "99th percentile": _waits(m.P99_DELAY)}
_bars = partial(line, kind="bars", by="queue", levels={"": 1.0})
_pairs_by_queue = {"FIFO": _second_over_first(pairs_fifo), "FQ": _second_over_first(pairs)}

FIGURES = (
    *(
        Figure(
            f"{name.lower()}-{what}",
            f"{name}. {block.title}: {what}",
            _over_time(stacked("plot", {plot.short: of(plot.name) for plot in block.plots}), **options),
            f"Background: {block.background} with 25 Mb/s; NewReno, one run, from its start.",
        )
        for name, block in BLOCKS.items()
        for what, (of, options) in _PLOTTED.items()
    ),
    Figure(
        "available",
        "Share of the available capacity that one flow gets, by buffer (packets)",
        _of_one_flow(one[m.AVAILABLE].at(recovery="NewReno"), y_limits=(0.0, 1.05)),
        "Rate on the wire over 25 Mb/s, NewReno.",
    ),
    Figure(
        "background-loss",
        "Loss of the background with one flow, by buffer (packets)",
        _of_one_flow(one[m.BACKGROUND_LOSS].at(recovery="NewReno"), log_y=True),
        "NewReno. Where fair queueing has no line, no packet of the background was dropped.",
    ),
    Figure(
        "background-wait",
        "Waits of the background's packets, by buffer (packets)",
        line(stacked("measure", _each_wait), by="queue", panel="measure", log_y=True),
        "One Reno flow with NewReno recovery, or none; Poisson flows.",
    ),
    Figure(
        "highspeed-over-reno",
        "HighSpeed competing with Reno, by buffer (packets)",
        _bars(highspeed_over_reno, x="buffer", panel="recovery"),
        "Ratio of the rates over long runs, both flows with the same recovery.",
    ),
    Figure(
        "pairs",
        "Any two flows: rate of the second divided by that of the first",
        _bars(stacked("queue", _pairs_by_queue), x="pair", log_y=True, y_limits=(0.3, 1000.0)),
        "NewReno, 625 packets. R Reno, H HighSpeed, C CUBIC, S Scalable, U unresponsive at 40 Mb/s. In FIFO, "
        "U leaves the others almost nothing: those bars end at the edge of the figure or have no end.",
    ),
    Figure(
        "fairness",
        "Jain's index of four flows in the runs that the talk plots, from 20 s to 100 s",
        line(windows[m.JAIN].among(flows=("4 Reno", "4 HighSpeed")), y_limits=(0.5, 1.02)),
    ),
)


def _everywhere(measure: Measure | str, factor: float = 1.0) -> Crossed:
    """A measure of every case, with a column for each queue and buffer."""
    alone, with_one, with_several = (
        query(scaled(runs[measure], factor, "")) for runs in (baseline, one, several)
    )
    cases = joined(
        alone.tagged(flows="none", recovery=""), with_one, with_several.tagged(background="Poisson packets")
    )
    return crossed(cases, rows=("flows", "background", "recovery"), columns=("queue", "buffer"))


def _rates(experiment: Experiment) -> Query:
    return stacked("flow", {"first": experiment[m.FIRST], "second": experiment[m.SECOND]})


_gained = (m.AVAILABLE, m.JAIN, m.BACKGROUND_LOSS)
_together: dict[str, Shown] = {
    "HighSpeed (Mb/s)": several[m.HIGHSPEED].at(flows="HighSpeed + Reno"),
    "Reno (Mb/s)": several[m.RENO].at(flows="HighSpeed + Reno"),
    "ratio": highspeed_over_reno,
}
# Without a bottlenecked flow, loss recovery has no effect.
_delays = stacked("measure", {"mean (ms)": delay[m.MEAN_DELAY], "99 % (ms)": delay[m.P99_DELAY]}).where(
    lambda flows, recovery: flows != "none" or recovery == "NewReno", "flows", "recovery"
)
_by_case = ("background", "flows", "recovery", "buffer")
_any_two = stacked("queue", {"FIFO": _rates(pairs_fifo), "FQ": _rates(pairs)})

TABLES = (
    *(
        Table(id, f"{title}; a column for each queue and buffer (packets)", _everywhere(measure, factor))
        for id, title, measure, factor in (
            ("available-capacity", "Rate of bottlenecked flows over the available 25 Mb/s", m.AVAILABLE, 1),
            ("jain", "Jain's index of the bottlenecked flows", m.JAIN, 1),
            ("lost", "Packets of the background lost (%)", m.BACKGROUND_LOSS, 100),
            ("utilisation", "Utilisation of the link (%)", "bottleneck.utilisation", 1),
            ("timeouts", "Timeouts of the bottlenecked flows in 500 s (quick: 80 s)", m.TIMEOUTS, 1),
        )
    ),
    Table(
        "highspeed-and-reno",
        "HighSpeed competing with Reno: rates on the wire, and their ratio",
        listed(_together, "recovery", "buffer", "queue"),
    ),
    Table(
        "steady",
        "The talk's plots, over 1000 s from 20 s on, NewReno",
        [steady[measure] for measure in (*_gained, "bottleneck.utilisation")],
    ),
    Table(
        "background-delay",
        "Waits of the background's packets in the queue; `none` is the baseline",
        crossed(_delays, rows=_by_case, columns=("queue", "measure")),
    ),
    Table(
        "schedulers",
        "Four schedulers in the blocks with fair queueing, NewReno",
        listed([orders[measure].at(recovery="NewReno") for measure in (*_gained, m.WAIT)], "case", "queue"),
    ),
    Table(
        "any-two",
        "Any two flows, 625 packets: rates on the wire (Mb/s); an equal share is 12.5",
        crossed(_any_two, rows="pair", columns=("queue", "recovery", "flow")),
    ),
)

PARTS: tuple[Part, ...] = (*EXPERIMENTS, *CLAIMS, *FIGURES, *TABLES)
