"""The experiments of the study `fair-queueing` on the talk's link: scenarios, axes, what is measured."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from aqmlab import metrics
from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.blocks import CASES, FLOWS, PACKETS, PLOTS, Plot
from aqmlab.studies.fair_queueing.laws import PACKET, RATE_MBPS
from aqmlab.studies.fair_queueing.measures import PAYLOAD, SHOWN_S, UNRESPONSIVE, USE_STEP_S
from aqmlab.studies.shared import constant
from aqmlab.study.experiment import Experiment, Form
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
PAIRS = tuple(itertools.combinations(RIVALS, 2))

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

BACKGROUNDS = {FLOWS: POISSON_FLOWS, PACKETS: POISSON_PACKETS}

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


def _beside(**counts: int) -> dict[str, Any]:
    """So many bottlenecked flows of each congestion control beside the background."""
    return {f"traffic.{law}": bottlenecked(law, count) for law, count in counts.items()}


BOTTLENECKED = {
    "1 Reno": _beside(reno=1),
    "1 HighSpeed": _beside(highspeed=1),
    "2 Reno": _beside(reno=2),
    "2 HighSpeed": _beside(highspeed=2),
    "HighSpeed + Reno": _beside(highspeed=1, reno=1),
    "4 Reno": _beside(reno=4),
    "4 HighSpeed": _beside(highspeed=4),
}

# Axes


def flows(*names: str) -> Changes:
    """Some bottlenecked flows beside the background."""
    return Changes({name: BOTTLENECKED[name] for name in names})


def queues(packets: int) -> dict[str, dict[str, Any]]:
    """The queues with so much room."""
    return {name: {**queue, "limit": f"{packets}p"} for name, queue in QUEUES.items()}


def buffer(*packets: int) -> Changes:
    """The room of the queue, which is chosen before."""
    return Changes({count: {"bottleneck.queue.limit": f"{count}p"} for count in packets})


RECOVERY = Changes({name: {"tcp.recovery.kind": name.lower()} for name in ("NewReno", "Reno", "SACK")})
"""How the bottlenecked flows repair losses; the first is ours, the talk does not say."""


def of_plot(plot: Plot) -> dict[str, Any]:
    """One of the talk's plots, but for its queue, which is chosen before."""
    return {
        "traffic.background": BACKGROUNDS[plot.background],
        "bottleneck.queue.limit": f"{plot.buffer}p",
        **BOTTLENECKED[plot.flows],
    }


NEWRENO = {"recovery": ("NewReno",)}
SHORT = {"duration": "100s"}

COMPARED: dict[str, Any] = {
    "measures": measures.LINK,
    "seeds": 4,
    "most_seeds": 20,
    "quick": Form(seeds=3, axes=NEWRENO, changes=SHORT),
}
"""What long runs with several recoveries have in common."""

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
    **COMPARED,
    varied=Form(axes={**NEWRENO, "background": (FLOWS,)}),
    varied_quick=Form(seeds=2, axes={"buffer": (20,)}, changes=SHORT),
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
    **COMPARED,
    varied=Form(axes={**NEWRENO, "flows": ("HighSpeed + Reno",)}),
    varied_quick=Form(seeds=2, axes={"buffer": (625,)}, changes=SHORT),
)

baseline = Experiment(
    name="baseline",
    title="The background alone",
    scenario=link(POISSON_FLOWS),
    axes={"traffic.background": BACKGROUNDS, "bottleneck.queue": QUEUES, "buffer": buffer(*BUFFERS)},
    measures=measures.LINK,
    seeds=4,
    quick=Form(seeds=3, changes=SHORT),
)

windows = Experiment(
    name="windows",
    title="One flow or four, 625 packets, from 20 s to 100 s",
    scenario=link(POISSON_PACKETS, duration=f"{SHOWN_S}s"),
    axes={
        "flows": flows("1 HighSpeed", "4 Reno", "4 HighSpeed"),
        "bottleneck.queue": queues(625),
        "recovery": RECOVERY,
    },
    measures=measures.LINK,
    seeds=20,
    quick=Form(seeds=3, axes=NEWRENO),
)

_PLOTS = {name: {"bottleneck.queue": QUEUES[plot.queue], **of_plot(plot)} for name, plot in PLOTS.items()}


def _senders(plot: Plot) -> list[str]:
    return [path.removeprefix("traffic.") for path in BOTTLENECKED[plot.flows]]


paths = Experiment(
    name="paths",
    title="The talk's plots",
    scenario=link(POISSON_PACKETS, duration=f"{SHOWN_S}s", queue_every=f"{USE_STEP_S:g}s"),
    axes={
        "plot": Changes(
            {name: {**_PLOTS[name], "record.senders": _senders(plot)} for name, plot in PLOTS.items()}
        )
    },
    measures=measures.PATH,
    seeds=1,
)

steady = Experiment(
    name="steady",
    title="The talk's plots, over 1000 s",
    scenario=link(POISSON_PACKETS, duration=f"{WARM_UP_S + 1000}s"),
    axes={"plot": Changes(_PLOTS)},
    measures=measures.LINK,
    seeds=2,
    quick=Form(seeds=1, changes=SHORT),
)

orders = Experiment(
    name="orders",
    title="Blocks with fair queueing",
    scenario=link(POISSON_PACKETS),
    axes={
        "bottleneck.queue": ORDERS,
        "case": Changes({name: of_plot(plot) for name, plot in CASES.items()}),
        "recovery": RECOVERY,
    },
    **COMPARED,
)


def pair_name(pair: tuple[str, str]) -> str:
    """Two flows by the names of their laws."""
    return " / ".join(measures.LAW_NAMES[law] for law in pair)


def _pairs(name: str, queue: str, recovery: Changes, **options: Any) -> Experiment:
    scenario = link(POISSON_PACKETS)
    scenario["bottleneck"]["queue"] = queues(625)[queue]
    return Experiment(
        name=name,
        title=f"Two flows, {queue}, 625 packets",
        scenario=scenario,
        axes={
            "pair": Changes({pair_name(pair): _beside(**dict.fromkeys(pair, 1)) for pair in PAIRS}),
            "recovery": recovery,
        },
        **{**COMPARED, **options},
    )


pairs = _pairs("pairs", "FQ", RECOVERY)
pairs_fifo = _pairs(
    "pairs-fifo", "FIFO", Changes({"NewReno": RECOVERY["NewReno"]}), quick=Form(seeds=1, changes=SHORT)
)

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
    most_seeds=20,
    quick=Form(seeds=3, axes={**NEWRENO, "background": (FLOWS,)}, changes={"duration": "40s"}),
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
    most_seeds=20,
    quick=Form(seeds=3, axes={"load": (0.5, 0.6, 0.9)}, changes=SHORT),
)

# Flows with a packet in the queue


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
    scenario=link(POISSON_FLOWS, duration="120s", queue_every="0.01s")
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

EXPERIMENTS = (
    *(one, several, baseline, windows, paths, steady, orders, pairs, pairs_fifo, delay),
    *(alone, scale),
)
