"""The experiments of the study `helsinki`: scenarios, axes, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqmlab.experiment import Experiment, Form
from aqmlab.studies.helsinki import measures
from aqmlab.studies.shared import constant
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

_TAIL_DROP = {"kind": "drop-tail", "limit": "20000B"}


def leaves(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The classes of the bottleneck that have a queue."""
    classes = table["links"][LINK]["queue"]["classes"].values()
    return [one for one in classes if "queue" in one]


def _in_packets(table: dict[str, Any]) -> dict[str, Any]:
    """The 13 packets of 1514 bytes that fit into 20 kB."""
    for leaf in leaves(table):
        leaf["queue"]["limit"] = "13p"
    return table


def _tail_drop(table: dict[str, Any]) -> dict[str, Any]:
    """Kernels since 2.6 refuse a packet that does not fit; Linux 2.4 went on until more than the limit
    waited, and then took none."""
    if table["tcp"]["profile"] == "linux-2.4":
        for leaf in leaves(table):
            leaf["queue"]["admits"] = "until-beyond"
    return table


def _red(table: dict[str, Any]) -> dict[str, Any]:
    """Linux's own RED, of the kernel of the system."""
    for leaf in leaves(table):
        leaf["queue"] = {
            "kind": "linux-red",
            "kernel": "2.4" if table["tcp"]["profile"] == "linux-2.4" else "6.1",
            "min": "5000B",
            "max": "18000B",
            "probability": 0.1,
            "limit": "20000B",
            "avpkt": "1500B",
            "burst": 6,
        }
    return table


UNIT = Changes({BYTES: {}, PACKETS: _in_packets})
"""Of Tail Drop's limit. RED is the same run with either."""

QUEUE = Changes({TAIL_DROP: _tail_drop, RED: _red})
"""Each as the kernel of the system has it."""


def _class(rate: int, ceil: int, **more: Any) -> dict[str, Any]:
    bursts = {"burst": "1600B", "cburst": "1600B", "quantum": f"{SEGMENT}B"}
    return {"rate": f"{rate}kbps", "ceil": f"{ceil}kbps", **bursts, "queue": dict(_TAIL_DROP), **more}


ONE_CLASS, TWO_CLASSES = "one class", "two classes"

_ONE_CLASS = {"kind": "htb", "classes": {"all": _class(RATE_KBPS, RATE_KBPS)}}
_TWO_CLASSES = {
    "kind": "htb",
    "default": "tcp",
    "classes": {
        "link": {"rate": f"{RATE_KBPS}kbps", "burst": "1600B", "cburst": "1600B"},
        "tcp": _class(70, RATE_KBPS, parent="link", priority=1),
        "udp": _class(70, 100, parent="link", priority=0, match={"protocol": "udp"}),
    },
}

SERVICE = Changes({ONE_CLASS: {}, TWO_CLASSES: {f"links.{LINK}.queue": _TWO_CLASSES}})


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
            "wired": {"from": "source", "to": "middle", "rate": "100Mbps", "delay": "1ms"},
            "trunk": {"from": "middle", "to": "last-hop", "rate": "10Mbps", "delay": "1ms"},
            LINK: {
                "from": "last-hop",
                "to": "destination",
                "rate": "1Gbps",
                "delay": f"{DELAY_MS}ms",
                "queue": _ONE_CLASS,
            },
            "back": {"from": "destination", "to": "source", "rate": "1Gbps", "delay": f"{DELAY_MS}ms"},
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

SEEDS = 20
FIRST_SEED = 1001
"""The buffer of Linux 2.4 was first tried with the seeds from 1 on; these runs are others."""

third = Experiment(
    name="third",
    title="First test case",
    scenario=THREE_FLOWS,
    axes={
        "system": SYSTEM,
        "unit": UNIT,
        "queue": QUEUE,
        "traffic.third.start": starts(0, 1, 2, 3, 4, 5, 5.5, 6, 7),
    },
    measures=(*measures.RECORDED_OF_THREE, *measures.WHILE_ACTIVE),
    seeds=SEEDS,
    first_seed=FIRST_SEED,
    quick=Form(seeds=8, axes={"start": PLOTTED_STARTS}),
    varied=Form(seeds=10, axes={"start": PLOTTED_STARTS}),
    varied_quick=Form(seeds=4, axes={"start": (2, 5.5)}),
)

burst = Experiment(
    name="burst",
    title="Second test case",
    scenario=WITH_BURST,
    axes={
        "system": SYSTEM,
        "service": SERVICE,
        "unit": UNIT,
        "queue": QUEUE,
        "traffic.voice.start": starts(0, 2, 7, 12, 16, 18),
    },
    measures=(*measures.RECORDED_WITH_UDP, *measures.SHARING),
    seeds=SEEDS,
    first_seed=FIRST_SEED,
    quick=Form(seeds=5, axes={"start": (0, 2, 7, 18)}),
    varied=Form(seeds=10, axes={"start": (0, 2, 7, 18)}),
    varied_quick=Form(seeds=4, axes={"start": (0, 7)}),
)

throughout = Experiment(
    name="throughout",
    title="UDP until TCP is done",
    scenario=WITH_UDP,
    axes={
        "system": SYSTEM,
        "service": SERVICE,
        "unit": UNIT,
        "queue": QUEUE,
        "traffic.voice.start": starts(0, 2, 7, 12),
    },
    measures=(*measures.RECORDED_WITH_UDP, *measures.SHARING),
    seeds=SEEDS,
    first_seed=FIRST_SEED,
    quick=Form(seeds=3, axes={"start": (0, 7)}),
)

traces = Experiment(
    name="traces",
    title="First test case, single runs",
    scenario=remembering(THREE_FLOWS, "third") | {"tcp": OLD},
    axes={"unit": UNIT, "queue": QUEUE, "traffic.third.start": starts(2, 4, 5)},
    measures=measures.HISTORY,
    seeds=1,
    first_seed=FIRST_SEED,
)

burst_traces = Experiment(
    name="burst-traces",
    title="Second test case, single runs",
    scenario=remembering(WITH_BURST, "file") | {"tcp": OLD},
    axes={
        "unit": Changes({PACKETS: UNIT[PACKETS]}),
        "queue": Changes({TAIL_DROP: QUEUE[TAIL_DROP]}),
        "traffic.voice.start": starts(2, 7, 16),
    },
    measures=measures.HISTORY,
    seeds=1,
    first_seed=FIRST_SEED,
)

EXPERIMENTS = (third, burst, throughout, traces, burst_traces)
