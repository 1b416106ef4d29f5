"""The experiments of the study `fair-queueing`: scenarios, axes, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqmlab import metrics
from aqmlab.experiment import Experiment, Form
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.laws import PACKET, RATE_MBPS
from aqmlab.studies.fair_queueing.measures import PAYLOAD, SHOWN_S, UNRESPONSIVE, USE_STEP_S
from aqmlab.studies.shared import constant
from aqmlab.sweep import Changes

WARM_UP_S = 20
BUFFERS = (20, 100, 625)

# The link of the talk

CONTROLS: Mapping[str, dict[str, Any]] = {
    "reno": {"kind": "reno"},
    # ns-2 evaluates the response function where RFC 3649 suggests a table.
    "highspeed": {"kind": "highspeed", "loss_rate": "continuous"},
    "cubic": {"kind": "cubic"},
    "scalable": {"kind": "scalable"},
}
RIVALS = (*CONTROLS, UNRESPONSIVE)
PAIRS = tuple((a, b) for place, a in enumerate(RIVALS) for b in RIVALS[place + 1 :])

DRR = {"kind": "drr", "quantum": f"{PACKET}B"}
QUEUES = {"FIFO": {"kind": "drop-tail"}, "FQ": DRR}
ORDERS = {"DRR": DRR, "SCFQ": {"kind": "scfq"}, "STFQ": {"kind": "stfq"}, "RR": {"kind": "rr"}}
"""Queues by the names they have in figures, without their buffers."""

BEHIND_A_FAST_LINE = {"rate": "100Gbps", "delay": "1ms"}
"""Access of what shares a host: it must not queue before the bottleneck."""

POISSON_FLOWS: dict[str, Any] = {
    "kind": "streaming",
    "load": 0.5,
    "rate": "1Mbps",
    "packet": f"{PACKET}B",
    "sizes": {"kind": "exponential", "mean": "100kB"},
    "access": BEHIND_A_FAST_LINE,
}
POISSON_PACKETS: dict[str, Any] = {
    "kind": "udp",
    "flows": 2500,
    "load": 0.5,
    "sizes": constant(PACKET),
    "gaps": {"kind": "exponential"},
    "hosts": "shared",
    "access": BEHIND_A_FAST_LINE,
}
"""Packets of flows that hardly ever have two waiting."""

BACKGROUNDS = {"Poisson flows": POISSON_FLOWS, "Poisson packets": POISSON_PACKETS}

TCP: dict[str, Any] = {
    "profile": "ns-2.2003",
    "connection": {"mss": f"{PAYLOAD}B"},
    "recovery": {"kind": "newreno", "exit_window": "deflated", "partial_ack_timer": "first"},
    "rto": {"min": "200ms"},
    "receiver": {"window": 100_000},
}
"""That of ns-2 as it was in September 2005, without a limit by the receiver."""


def link(background: Mapping[str, Any], *, duration: str = "520s", **record: Any) -> dict[str, Any]:
    """The link of the talk with nothing but the background on it."""
    return {
        "duration": duration,
        "warm_up": f"{WARM_UP_S}s",
        "bottleneck": {
            "rate": f"{RATE_MBPS:g}Mbps",
            "delay": "48ms",
            "queue": {"kind": "drop-tail", "limit": "625p"},
        },
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": TCP,
        "traffic": {"background": background},
        "record": {"drops": False, "queue_every": "0s", **record},
    }


def bottlenecked(law: str, flows: int) -> dict[str, Any]:
    """Permanent flows of one congestion control, begun at random within the first second."""
    if law == UNRESPONSIVE:
        return {"kind": "udp", "flows": flows, "rate": "40Mbps", "sizes": constant(PACKET)}
    return {"kind": "ftp", "flows": flows, "stagger": "1s", "tcp": {"congestion_control": CONTROLS[law]}}


COUNTS: Mapping[str, Mapping[str, int]] = {
    "none": {},
    "1 Reno": {"reno": 1},
    "1 HighSpeed": {"highspeed": 1},
    "2 Reno": {"reno": 2},
    "2 HighSpeed": {"highspeed": 2},
    "HighSpeed + Reno": {"highspeed": 1, "reno": 1},
    "4 Reno": {"reno": 4},
    "4 HighSpeed": {"highspeed": 4},
}
"""Bottlenecked flows: how many of each congestion control."""

# Axes


def flows(*names: str) -> Changes:
    """Some bottlenecked flows beside the background."""
    return Changes({name: _with(COUNTS[name]) for name in names})


def _with(counts: Mapping[str, int]) -> dict[str, Any]:
    return {f"traffic.{law}": bottlenecked(law, count) for law, count in counts.items()}


def queues(packets: int) -> dict[str, dict[str, Any]]:
    """The queues with so much room."""
    return {name: {**queue, "limit": f"{packets}p"} for name, queue in QUEUES.items()}


def buffer(*packets: int) -> Changes:
    """The room of the queue, which is chosen before."""
    return Changes({count: {"bottleneck.queue.limit": f"{count}p"} for count in packets})


RECOVERY = Changes(
    {
        name: {"tcp.recovery.kind": kind}
        for name, kind in {"NewReno": "newreno", "Reno": "reno", "SACK": "sack"}.items()
    }
)
"""How the bottlenecked flows repair losses; the first is ours, the talk does not say."""

NEWRENO = {"recovery": ("NewReno",)}
QUICK = Form(seeds=3, axes=NEWRENO, changes={"duration": "100s"})


def case(flows: str, background: str, buffer: int) -> dict[str, Any]:
    """One of the talk's plots, but for its queue, which is chosen before."""
    return {
        "traffic.background": BACKGROUNDS[background],
        "bottleneck.queue.limit": f"{buffer}p",
        **_with(COUNTS[flows]),
    }


# Bottlenecked flows beside a background

one = Experiment(
    name="one",
    title="One flow",
    scenario=link(POISSON_FLOWS),
    axes={
        "flows": flows("1 Reno", "1 HighSpeed"),
        "traffic.background": BACKGROUNDS,
        "bottleneck.queue": QUEUES,
        "buffer": buffer(*BUFFERS),
        "recovery": RECOVERY,
    },
    measures=measures.LINK,
    seeds=4,
    most_seeds=16,
    quick=QUICK,
    varied=Form(seeds=4, axes={**NEWRENO, "background": ("Poisson flows",)}, changes={"duration": "320s"}),
    varied_quick=Form(seeds=2, axes={"buffer": (20,)}, changes={"duration": "100s"}),
)

several = Experiment(
    name="several",
    title="Several flows beside Poisson packets",
    scenario=link(POISSON_PACKETS),
    axes={
        "flows": flows("2 Reno", "2 HighSpeed", "HighSpeed + Reno", "4 Reno", "4 HighSpeed"),
        "bottleneck.queue": QUEUES,
        "buffer": buffer(20, 625),
        "recovery": RECOVERY,
    },
    measures=measures.LINK,
    seeds=4,
    most_seeds=16,
    quick=QUICK,
    varied=Form(
        seeds=4,
        axes={**NEWRENO, "flows": ("HighSpeed + Reno",)},
        changes={"duration": "320s"},
    ),
    varied_quick=Form(
        seeds=2,
        axes={"buffer": (625,)},
        changes={"duration": "100s"},
    ),
)

baseline = Experiment(
    name="baseline",
    title="The background alone",
    scenario=link(POISSON_FLOWS),
    axes={
        "traffic.background": BACKGROUNDS,
        "bottleneck.queue": QUEUES,
        "buffer": buffer(*BUFFERS),
    },
    measures=measures.LINK,
    seeds=4,
    quick=Form(seeds=3, changes={"duration": "100s"}),
)

windows = Experiment(
    name="windows",
    title="Four flows, 625 packets, from 20 s to 100 s",
    scenario=link(POISSON_PACKETS, duration=f"{SHOWN_S}s"),
    axes={
        "flows": flows("4 Reno", "4 HighSpeed"),
        "bottleneck.queue": queues(625),
        "recovery": RECOVERY,
    },
    measures=measures.LINK,
    seeds=20,
    quick=Form(seeds=3, axes=NEWRENO),
)

BLOCKS: Mapping[str, tuple[str, tuple[tuple[str, str, int], ...]]] = {
    "A": ("Poisson flows", tuple(("1 Reno", "FIFO", size) for size in BUFFERS)),
    "B": ("Poisson flows", (("1 Reno", "FIFO", 100), ("1 HighSpeed", "FIFO", 100))),
    "C": ("Poisson flows", (("1 Reno", "FIFO", 20), ("1 Reno", "FQ", 20))),
    "D": ("Poisson packets", (("2 Reno", "FIFO", 20), ("2 Reno", "FIFO", 625))),
    "E": ("Poisson packets", (("2 HighSpeed", "FIFO", 20), ("2 HighSpeed", "FIFO", 625))),
    "F": ("Poisson packets", (("HighSpeed + Reno", "FIFO", 20), ("HighSpeed + Reno", "FIFO", 625))),
    "G": (
        "Poisson packets",
        tuple(("HighSpeed + Reno", queue, size) for size in (20, 625) for queue in QUEUES),
    ),
    "H": ("Poisson packets", (("4 Reno", "FIFO", 20), ("1 Reno", "FIFO", 20))),
    "I": ("Poisson packets", (("4 Reno", "FIFO", 625), ("1 Reno", "FIFO", 625))),
    "J": ("Poisson packets", (("4 HighSpeed", "FIFO", 625), ("1 HighSpeed", "FIFO", 625))),
    "K": ("Poisson packets", (("4 HighSpeed", "FIFO", 625), ("4 HighSpeed", "FQ", 625))),
}
"""Blocks of slides: the background, and of each of its plots the bottlenecked flows, queue and buffer."""


def plot_name(plot: tuple[str, str, int]) -> str:
    """What a plot of a block is called, as far as its block does not say."""
    return "{}, {} {}".format(*plot)


PLOTS = {
    f"{plot_name(plot)}, {background}": (background, *plot)
    for background, plots in BLOCKS.values()
    for plot in plots
}


def _plot(background: str, flows: str, queue: str, buffer: int) -> dict[str, Any]:
    return {"bottleneck.queue": QUEUES[queue], **case(flows, background, buffer)}


paths = Experiment(
    name="paths",
    title="The talk's plots",
    scenario=link(POISSON_PACKETS, duration=f"{SHOWN_S}s", queue_every=f"{USE_STEP_S:g}s"),
    axes={
        "plot": Changes(
            {name: {**_plot(*plot), "record.senders": list(COUNTS[plot[1]])} for name, plot in PLOTS.items()}
        )
    },
    measures=measures.PATH,
    seeds=1,
)

steady = Experiment(
    name="steady",
    title="The talk's plots, over 1000 s",
    scenario=link(POISSON_PACKETS, duration=f"{WARM_UP_S + 1000}s"),
    axes={"plot": Changes({name: _plot(*plot) for name, plot in PLOTS.items()})},
    measures=measures.LINK,
    seeds=2,
    quick=Form(seeds=1, changes={"duration": "100s"}),
)

CASES: Mapping[str, tuple[str, str, int]] = {
    "C": ("1 Reno", "Poisson flows", 20),
    "G, 20 packets": ("HighSpeed + Reno", "Poisson packets", 20),
    "G, 625 packets": ("HighSpeed + Reno", "Poisson packets", 625),
    "K": ("4 HighSpeed", "Poisson packets", 625),
}
"""The blocks with fair queueing: bottlenecked flows, background and buffer."""

orders = Experiment(
    name="orders",
    title="Blocks with fair queueing",
    scenario=link(POISSON_PACKETS),
    axes={
        "bottleneck.queue": ORDERS,
        "case": Changes({name: case(*said) for name, said in CASES.items()}),
        "recovery": RECOVERY,
    },
    measures=measures.LINK,
    seeds=4,
    most_seeds=16,
    quick=QUICK,
)


def pair_name(pair: tuple[str, str]) -> str:
    """Two flows by the names of their laws."""
    return " / ".join(measures.LAW_NAMES[law] for law in pair)


def _pairs(name: str, queue: str, *recoveries: str, quick: Form) -> Experiment:
    scenario = link(POISSON_PACKETS)
    scenario["bottleneck"]["queue"] = queues(625)[queue]
    return Experiment(
        name=name,
        title=f"Two flows, {queue}, 625 packets",
        scenario=scenario,
        axes={
            "pair": Changes({pair_name(pair): _with(dict.fromkeys(pair, 1)) for pair in PAIRS}),
            "recovery": Changes({recovery: RECOVERY[recovery] for recovery in recoveries}),
        },
        measures=measures.LINK,
        seeds=4,
        most_seeds=16,
        quick=quick,
    )


pairs = _pairs("pairs", "FQ", *map(str, RECOVERY), quick=QUICK)
pairs_fifo = _pairs("pairs-fifo", "FIFO", "NewReno", quick=Form(seeds=1, changes={"duration": "100s"}))

delay = Experiment(
    name="delay",
    title="The background's packets",
    scenario=link(POISSON_FLOWS, duration="80s", packets=["bottleneck"]),
    axes={
        "traffic.background": BACKGROUNDS,
        "bottleneck.queue": QUEUES,
        "buffer": buffer(*BUFFERS),
        "recovery": RECOVERY,
        # Without a bottlenecked flow nobody recovers: one run for all recoveries.
        "flows": Changes({"none": RECOVERY["NewReno"], **flows("1 Reno")}),
    },
    measures=measures.DELAY,
    seeds=4,
    most_seeds=16,
    quick=Form(seeds=3, axes={**NEWRENO, "background": ("Poisson flows",)}, changes={"duration": "40s"}),
)

# Rate-limited flows alone

CODEC = {"rate": "64kbps", "packet": "200B", "sizes": {"kind": "exponential", "mean": "240kB"}}
"""Streaming flows at the rate of a codec: packets of 25 ms, half a minute of it."""


def _half_streaming(table: dict[str, Any]) -> dict[str, Any]:
    """Half of the load in streaming flows. These last: the warm-up must see as many end as begin."""
    table["warm_up"] = f"{min(120, metrics.seconds(table['duration']) / 2):g}s"
    traffic = table["traffic"]
    traffic["background"]["load"] /= 2
    traffic["streaming"] = traffic["background"] | CODEC
    return table


alone = Experiment(
    name="alone",
    title="Rate-limited flows alone",
    scenario=link(POISSON_FLOWS),
    axes={
        "traffic.background.load": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        "bottleneck.queue": queues(100),
        "mix": Changes({"1 Mb/s flows": {}, "half of them streaming": _half_streaming}),
    },
    measures=measures.ALONE,
    seeds=4,
    most_seeds=16,
    quick=Form(seeds=3, axes={"load": (0.5, 0.6, 0.9)}, changes={"duration": "100s"}),
)

# Flows with a packet in the queue

SAMPLE_S = 0.01


def _with_tcp(table: dict[str, Any]) -> dict[str, Any]:
    """All load above a half in transfers of 1 MB on average that only the network limits."""
    traffic = table["traffic"]
    traffic["elastic"] = {
        "kind": "web",
        "load": traffic["background"]["load"] - 0.5,
        "sizes": {"kind": "lomax", "mean": "1MB", "shape": 1.5, "minimum": "1kB", "maximum": "100MB"},
        "access": BEHIND_A_FAST_LINE,
    }
    traffic["background"]["load"] = 0.5
    return table


scale = Experiment(
    name="scale",
    title="Link and traffic so many times as large, FQ",
    scenario=link(POISSON_FLOWS, duration="120s", queue_every=f"{SAMPLE_S:g}s")
    | {"access": {"rate": "10Gbps", "delay": "1ms"}},
    axes={
        "traffic.background.load": (0.85, 0.9),
        "scale": Changes(
            {
                times: {
                    "bottleneck.rate": f"{RATE_MBPS * times:g}Mbps",
                    "bottleneck.queue": {**DRR, "limit": f"{625 * times}p"},
                    "tcp.recovery.kind": "sack",
                }
                for times in (1, 4, 16)
            }
        ),
        "mix": Changes({"1 Mb/s flows": {}, "and TCP flows": _with_tcp}),
    },
    measures=measures.SCALE,
    seeds=6,
    most_seeds=24,
    quick=Form(seeds=3, axes={"scale": (1, 4)}, changes={"duration": "40s"}),
)

# A trace at the rates of slower and slower lines

TRACE_LOADS = (0.16, 0.5, 0.8, 0.85, 0.9)
"""The first is that of the published trace."""

trace = Experiment(
    name="trace",
    title="Made-up trace with the published properties of one of an OC-48 link",
    scenario={
        "level": "trace",
        "queue": {"kind": "drr"},
        "source": {"kind": "generated", "duration": "60s"},
    },
    axes={
        "load": Changes(
            {load: {"rate": f"{2488.32 * TRACE_LOADS[0] / load:.2f}Mbps"} for load in TRACE_LOADS}
        )
    },
    measures=measures.TRACE,
    seeds=5,
    quick=Form(seeds=3, axes={"load": (0.16, 0.85)}, changes={"source.duration": "10s"}),
)

# The flow level

SIZES: Mapping[str, dict[str, Any]] = {
    "exponential": {"kind": "exponential", "mean": "100kB"},
    "Pareto": {"kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "1kB", "maximum": "10MB"},
    "fixed": {"kind": "constant", "value": "100kB"},
}
PATH_STEP_S = 0.05
PATH_S = 30
"""How much of a sample path is drawn: at a load of 0.9 the number of flows forgets within a second."""


def fluid(duration: str, *, every: str = "0s", **traffic: dict[str, Any]) -> dict[str, Any]:
    """Traffic without packets on the link of the talk."""
    return {
        "level": "flow",
        "duration": duration,
        "warm_up": f"{WARM_UP_S}s",
        "link": {"capacity": f"{RATE_MBPS:g}Mbps"},
        "traffic": traffic,
        "record": {"flows": False, "every": every},
    }


NUMBER_LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)

number = Experiment(
    name="number",
    title="Fluid link",
    scenario=fluid("200000s", flows={"load": 0.5}),
    axes={"traffic.flows.load": NUMBER_LOADS, "traffic.flows.sizes": SIZES},
    measures=measures.NUMBER,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "20000s"}),
)

example = Experiment(
    name="example",
    title="Fluid link, background 0.5, in all 0.6",
    scenario=fluid("20000s", flows={"load": 0.1}),
    axes={
        "traffic.background": {
            "streaming, 1 Mb/s": {"load": 0.5, "peak_rate": "1Mbps", "service": "streaming"},
            "elastic, at most 1 Mb/s": {"load": 0.5, "peak_rate": "1Mbps"},
            "streaming, 10 kb/s": {
                "load": 0.5,
                "peak_rate": "10kbps",
                "service": "streaming",
                "sizes": {"kind": "exponential", "mean": "10kB"},
            },
        }
    },
    measures=measures.NUMBER,
    quick=Form(seeds=3, changes={"duration": "5000s"}),
)

PEAKS = {"at most 1 Mb/s": "1Mbps", "at most 10 Mb/s": "10Mbps", "no peak rate": None}
_PEAK = {name: {"traffic.flows.peak_rate": rate} for name, rate in PEAKS.items()}

regimes = Experiment(
    name="regimes",
    title="Fluid link",
    scenario=fluid("1000s", flows={"load": 0.5}),
    axes={
        "peak": Changes(_PEAK),
        "traffic.flows.load": (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2),
    },
    measures=measures.REGIME,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "200s"}),
)


_SHOWN = fluid(f"{WARM_UP_S + PATH_S}s", every=f"{PATH_STEP_S:g}s", flows={"load": 0.5})

flow_paths = Experiment(
    name="flow-paths",
    title="Sample paths",
    scenario=_SHOWN,
    axes={"traffic.flows.load": NUMBER_LOADS},
    measures=measures.FLOW_PATH,
    seeds=1,
)

regime_paths = Experiment(
    name="regime-paths",
    title="Three regimes",
    scenario=_SHOWN,
    axes={
        "regime": Changes(
            {
                "transparent": {**_PEAK["at most 1 Mb/s"], "traffic.flows.load": 0.5},
                "elastic": {**_PEAK["no peak rate"], "traffic.flows.load": 0.8},
                "overload": {**_PEAK["no peak rate"], "traffic.flows.load": 1.1},
            }
        )
    },
    measures=measures.FLOW_PATH,
    seeds=1,
)

EXPERIMENTS = (
    *(one, several, baseline, windows, paths, steady, orders, pairs, pairs_fifo, delay),
    *(alone, scale, trace, number, example, regimes, flow_paths, regime_paths),
)
