"""The experiments of the study `helsinki`: scenarios, axes, and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from aqmlab.results.labels import Labels
from aqmlab.studies.helsinki import measures
from aqmlab.studies.shared import Alters, constant
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep import Changes

# The path of the testbed

RATE_KBPS = 140
DELAY_MS = 100
LINK = "last"
"""The link with the queue, from the last-hop router to the destination."""

SEGMENT = 1514
"""Bytes of a full segment, as the kernel counts it: with 14 bytes of Ethernet."""

_LENGTHS: Mapping[str, Any] = {"mss": "1460B", "header": "54B", "syn_size": "66B", "ack_size": "54B"}

KERNEL: dict[str, Any] = {
    "profile": "linux-6",
    "connection": {**_LENGTHS, "close": "none"},
    "congestion_control": {"kind": "reno"},
    "cwnd": {"initial": 2, "initial_after_syn_loss": 2},
    "recovery": {"undo": "dsack"},
    "rto": {"tick": "10ms"},
    "receiver": {"first_window": 44},
}
"""How the kernel of the runs beside ours was set: Reno, no timestamps (so its window first grows after
64 kB), a clock of 100 Hz; its programs left connections open."""

OLD: dict[str, Any] = {"profile": "linux-2.4", "connection": {**_LENGTHS, "close": "none"}}
"""The talk's own system."""

SYSTEMS = {"linux-2.4": OLD, "linux-6": KERNEL}
"""The `[tcp]` table of each system; the second is today's Linux with Reno and without timestamps."""

SYSTEM = Changes({name: {"tcp": tcp} for name, tcp in SYSTEMS.items()})

TAIL_DROP, RED = "Tail Drop", "RED"
BYTES, PACKETS = "bytes", "packets"

QUEUES: Mapping[str, Labels] = {
    "Tail Drop, bytes": {"queue": TAIL_DROP, "unit": BYTES},
    "Tail Drop, packets": {"queue": TAIL_DROP, "unit": PACKETS},
    "RED": {"queue": RED, "unit": BYTES},
}
"""Tail Drop with either unit; RED has none, and is the same run with either."""


def is_old(table: dict[str, Any]) -> bool:
    """Whether a scenario is of the talk's own system."""
    return bool(table["tcp"]["profile"] == "linux-2.4")


def each_class(change: Callable[[dict[str, Any]], Any]) -> Alters:
    """A change of each class of the bottleneck that has a queue."""

    def changes(table: dict[str, Any]) -> dict[str, Any]:
        for one in table["links"][LINK]["queue"]["classes"].values():
            if "queue" in one:
                change(one)
        return table

    return changes


def _tail_drop(table: dict[str, Any]) -> dict[str, Any]:
    """Kernels since 2.6 refuse a packet that does not fit; Linux 2.4 went on until more than the limit
    waited, and then took none."""
    admits = each_class(lambda one: one["queue"].update(admits="until-beyond"))
    return admits(table) if is_old(table) else table


def _red(table: dict[str, Any]) -> dict[str, Any]:
    """Linux's own RED, of the kernel of the system."""
    thresholds = {"min": "5000B", "max": "18000B", "probability": 0.1, "limit": "20000B"}
    red = {"kind": "linux-red", "kernel": "2.4" if is_old(table) else "6.1", **thresholds}
    return each_class(lambda one: one.update(queue={**red, "avpkt": "1500B", "burst": 6}))(table)


UNIT = Changes({BYTES: {}, PACKETS: each_class(lambda one: one["queue"].update(limit="13p"))})
"""Of Tail Drop's limit: 13 packets of 1514 bytes fit into 20 kB."""

QUEUE = Changes({TAIL_DROP: _tail_drop, RED: _red})
"""Each as the kernel of the system has it."""


def only(axis: Changes, value: str) -> Changes:
    """An axis with one of its values."""
    return Changes({value: axis[value]})


_BURSTS = {"burst": "1600B", "cburst": "1600B"}


def _class(rate: int, ceil: int, **more: Any) -> dict[str, Any]:
    rates = {"rate": f"{rate}kbps", "ceil": f"{ceil}kbps", "quantum": f"{SEGMENT}B", **_BURSTS}
    return {**rates, "queue": {"kind": "drop-tail", "limit": "20000B"}, **more}


ONE_CLASS, TWO_CLASSES = "one class", "two classes"

_ONE_CLASS = {"kind": "htb", "classes": {"all": _class(RATE_KBPS, RATE_KBPS)}}
_TWO_CLASSES = {
    "kind": "htb",
    "default": "tcp",
    "classes": {
        "link": {"rate": f"{RATE_KBPS}kbps", **_BURSTS},
        "tcp": _class(70, RATE_KBPS, parent="link", priority=1),
        "udp": _class(70, 100, parent="link", priority=0, match={"protocol": "udp"}),
    },
}

SERVICE = Changes({ONE_CLASS: {}, TWO_CLASSES: {f"links.{LINK}.queue": _TWO_CLASSES}})


def _link(start: str, end: str, rate: str, delay_ms: int) -> dict[str, Any]:
    return {"from": start, "to": end, "rate": rate, "delay": f"{delay_ms}ms"}


def _path(duration: str, **traffic: dict[str, Any]) -> dict[str, Any]:
    """Source, intermediate router, last-hop router, destination, and an idle way back."""
    ends = {"from": "source", "to": "destination"}
    return {
        "duration": duration,
        "warm_up": "0s",
        "access": {"rate": "1Gbps", "delay": "0s"},
        "host": {"jitter": "1ms"},
        "tcp": KERNEL,
        "links": {
            "wired": _link("source", "middle", "100Mbps", 1),
            "trunk": _link("middle", "last-hop", "10Mbps", 1),
            LINK: {**_link("last-hop", "destination", "1Gbps", DELAY_MS), "queue": _ONE_CLASS},
            "back": _link("destination", "source", "1Gbps", DELAY_MS),
        },
        "traffic": {name: {**ends, "stagger": "100ms", **workload} for name, workload in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": [LINK]},
    }


def starts(*times_s: float) -> dict[float, str]:
    """Times at which a flow starts, in seconds."""
    return {time_s: f"{time_s:g}s" for time_s in times_s}


# Test case 1: three TCP flows

PLOTTED_STARTS = (0, 2, 4, 5, 5.5)
"""The starts of the third flow that the talk shows, in seconds."""

INITIAL_BYTES = 292_000
THIRD_BYTES = 46_720

THREE_FLOWS = _path(
    "400s",
    initial={"kind": "ftp", "flows": 2, "sizes": constant(INITIAL_BYTES)},
    third={"kind": "ftp", "sizes": constant(THIRD_BYTES)},
)
"""Two transfers, and a smaller one that starts later."""

# Test case 2: a TCP flow and a UDP flow

TCP_BYTES = 350_400
GAP_S = 0.02
DATAGRAM = 264
BURST_S = 5
DATAGRAMS = round(BURST_S / GAP_S)


def datagrams(size: int, gap_s: float = GAP_S) -> dict[str, Any]:
    """A UDP flow that sends a datagram of so many bytes so often."""
    rate = f"{8 * size / gap_s / 1000:g}kbps"
    return {"kind": "udp", "rate": rate, "sizes": constant(size), "phase": "zero"}


_FILE = {"kind": "ftp", "sizes": constant(TCP_BYTES)}

WITH_BURST = _path("300s", file=_FILE, voice={**datagrams(DATAGRAM), "lasts": f"{BURST_S}s"})
"""A transfer, and datagrams for five seconds."""

WITH_UDP = _path("120s", file=_FILE, voice=datagrams(DATAGRAM))
"""A transfer, and datagrams until it is done."""


def remembering(scenario: dict[str, Any], traffic: str) -> dict[str, Any]:
    """The scenario with the history of a workload's flow in place of the bottleneck's packets."""
    return scenario | {"record": {**scenario["record"], "packets": [], "histories": [traffic]}}


# The experiments

_experiment = partial(Experiment, seeds=20, first_seed=1001)
"""The buffer of Linux 2.4 was first tried with the seeds from 1 on; these runs are others."""

third = _experiment(
    name="third",
    title="First test case",
    scenario=THREE_FLOWS,
    axes={
        "system": SYSTEM,
        "unit": UNIT,
        "queue": QUEUE,
        "traffic.third.start": starts(0, 1, 2, 3, 4, 5, 5.5, 6, 7),
    },
    measures=measures.OF_THREE,
    quick=Form(seeds=8, axes={"start": PLOTTED_STARTS}),
    varied=Form(),
    varied_quick=Form(seeds=4, axes={"start": (2, 5.5)}),
)

_AXES_WITH_UDP = {"system": SYSTEM, "service": SERVICE, "unit": UNIT, "queue": QUEUE}

burst = _experiment(
    name="burst",
    title="Second test case",
    scenario=WITH_BURST,
    axes={**_AXES_WITH_UDP, "traffic.voice.start": starts(0, 2, 7, 12, 16, 18)},
    measures=measures.WITH_UDP,
    quick=Form(seeds=5, axes={"start": (0, 2, 7, 18)}),
    varied=Form(),
    varied_quick=Form(seeds=4, axes={"start": (0, 7)}),
)

throughout = _experiment(
    name="throughout",
    title="UDP until TCP is done",
    scenario=WITH_UDP,
    axes={**_AXES_WITH_UDP, "traffic.voice.start": starts(0, 2, 7, 12)},
    measures=measures.WITH_UDP,
    quick=Form(seeds=3, axes={"start": (0, 7)}),
)

traces = _experiment(
    name="traces",
    title="First test case, single runs",
    scenario=remembering(THREE_FLOWS, "third") | {"tcp": OLD},
    axes={"unit": UNIT, "queue": QUEUE, "traffic.third.start": starts(2, 4, 5)},
    measures=measures.HISTORY,
    seeds=1,
)

burst_traces = _experiment(
    name="burst-traces",
    title="Second test case, single runs",
    scenario=remembering(WITH_BURST, "file") | {"tcp": OLD},
    axes={
        "unit": only(UNIT, BYTES),
        "queue": only(QUEUE, TAIL_DROP),
        "traffic.voice.start": starts(2, 7, 16),
    },
    measures=measures.HISTORY,
    seeds=1,
)

EXPERIMENTS = (third, burst, throughout, traces, burst_traces)
