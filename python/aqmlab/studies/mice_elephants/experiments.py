"""The experiments of the study `mice-elephants`: scenarios, axes, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aqmlab import _core
from aqmlab.scenario import changed
from aqmlab.studies.mice_elephants import measures
from aqmlab.studies.mice_elephants.measures import PACKET
from aqmlab.studies.shared import Alters, constant
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep import Changes

WEIGHT = 1 / 512
RIO_PS = "RIO-PS"

# The queues and the edge of Table III


def disciplines(bdp: int) -> dict[str, dict[str, Any]]:
    """The queues for a bandwidth-delay product in packets."""
    limit = bdp * 5 // 2
    return {
        "Drop Tail": {"kind": "drop-tail", "limit": f"{bdp * 3 // 2}p"},
        "RED": {
            "kind": "red",
            "min_th": f"{0.15 * limit:.0f}p",
            "max_th": f"{0.5 * limit:.0f}p",
            "max_p": 0.1,
            "weight": WEIGHT,
            "limit": f"{limit}p",
            "mean_packet": f"{PACKET}B",
            "gentle": True,
            "spacing": "wait",
            "ecn": "below-max-th",
        },
        RIO_PS: {"kind": "rio-ps", "limit": f"{limit}p"},
    }


QUEUES = tuple(disciplines(6))

EDGE = {
    "kind": "short-flows",
    "threshold_rule": "steered",
    "threshold": 20,
    "short_to_long": 3.0,
    "expiry": "1s",
    "update": "10s",
}


def queues(bdp: int, links: Sequence[str] = ("bottleneck",), nodes: Sequence[str] = ("left",)) -> Changes:
    """The queue at these links, with what belongs to it: senders that use ECN, nodes whose edges mark."""
    return Changes(
        {
            name: {
                **{f"{link}.queue": queue for link in links},
                "tcp.ecn.mode": "off" if name == "Drop Tail" else "on",
                **{f"edges.{node}": EDGE for node in nodes if name == RIO_PS},
            }
            for name, queue in disciplines(bdp).items()
        }
    )


def _edge(**changes: Any) -> Alters:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for edge in table.get("edges", {}).values():
            edge.update(changes)
        return table

    return change


LAWS: Mapping[str, Alters] = {
    "steered": _edge(),
    "static, 20 packets": _edge(threshold_rule="static"),
    "quantile": _edge(threshold_rule="quantile"),
    "steered, flows forgotten at age": _edge(purge="at-age"),
}
"""Readings of the edge that decide how long a flow counts as short; the first is ours."""

# NewReno of the ns-2 of 2001 with the windows and timers of Table III
TCP: dict[str, Any] = {
    "profile": "ns-2.2001",
    "connection": {"mss": f"{PACKET}B"},
    "recovery": {"kind": "newreno"},
    "rto": {"initial": "3s", "tick": "100ms"},
    "receiver": {"window": 128},
    "ecn": {"mode": "off"},
}

# Web sessions at 90 % of the line, and batches of foreground flows (Figs 6 to 9, Table IV)

FULL_S = 4000
QUICK_S = 600


def lasting(seconds: int) -> dict[str, str]:
    """A run of this length, the first half of which is not measured."""
    return {"duration": f"{seconds}s", "warm_up": f"{seconds // 2}s"}


def _sizes(least: int, most: int) -> dict[str, Any]:
    return {"kind": "bounded-pareto", "shape": 1.2, "minimum": f"{least}p", "maximum": f"{most}p"}


SESSIONS = {
    "kind": "sessions",
    "load": 0.9,
    "think_time": {"kind": "exponential", "mean": "9.5s"},
    "object_gap": {"kind": "exponential", "mean": "50ms"},
    "objects": {"kind": "discrete-uniform", "minimum": 2, "maximum": 7},
    "think_from": "page-start",
    "sizes": _sizes(4, 200_000),
    "hosts": 40,
}

ONE_CLASS = Changes(
    {
        "short files": {"traffic.web.sizes": _sizes(4, 20), "traffic.long": None},
        # Few users load the line with long files, so fewer hosts serve them.
        "long files": {
            "traffic.web.sizes": _sizes(100, 200_000),
            "traffic.web.hosts": 4,
            "traffic.short": None,
        },
    }
)
"""The unbalanced traffic of Exp 2: files of one class only, and foreground flows of the same class."""

BDP_1, BDP_2 = 200, 120
"""Bandwidth-delay products of Exp 1 and Exp 2 in packets: 10 and 6 Mb/s, 80 ms."""


def _dumbbell(bdp: int) -> dict[str, Any]:
    return {
        **lasting(FULL_S),
        "bottleneck": {"rate": f"{bdp // 20}Mbps", "delay": "38ms", "queue": disciplines(bdp)["Drop Tail"]},
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "host": {"jitter": "0s"},
        "tcp": TCP,
        "traffic": {
            "web": SESSIONS,
            "short": {"kind": "probes", "flows": 10, "size": "10p", "every": f"{measures.SHORT_EVERY_S:g}s"},
            "long": {"kind": "probes", "flows": 10, "size": "1000p", "every": f"{measures.LONG_EVERY_S:g}s"},
        },
        "record": {"drops": False, "queue_every": f"{measures.QUEUE_STEP_S:g}s"},
    }


def _both_ways(table: dict[str, Any]) -> dict[str, Any]:
    """As much Web traffic the other way, so that acknowledgements queue behind data."""
    line = table.pop("bottleneck")
    ways = {"bottleneck": {"from": "left", "to": "right"}, "back": {"from": "right", "to": "left"}}
    traffic = {name: workload | ways["bottleneck"] for name, workload in table["traffic"].items()}
    return {
        **table,
        "links": {name: {**way, **line} for name, way in ways.items()},
        "traffic": {**traffic, "web-back": SESSIONS | ways["back"]},
    }


ITO = {"3 s": "3s", "1 s": "1s"}
_QUICK = lasting(QUICK_S)

exp_1 = Experiment(
    name="exp-1",
    title="Exp 1",
    scenario=_dumbbell(BDP_1),
    axes={
        "queue": queues(BDP_1),
        "ITO": Changes({said: {"tcp.rto.initial": time} for said, time in ITO.items()}),
    },
    measures=measures.WEB,
    quick=Form(seeds=3, changes=_QUICK),
    varied=Form(axes={"ITO": ("3 s",)}),
    varied_quick=Form(seeds=3, changes=_QUICK),
)

exp_2 = Experiment(
    name="exp-2",
    title="Exp 2",
    scenario=_dumbbell(BDP_2),
    axes={"queue": queues(BDP_2), "mix": ONE_CLASS},
    measures=measures.WEB,
    quick=Form(seeds=3, changes=_QUICK),
    varied=Form(axes={"queue": ("RED", RIO_PS)}),
    varied_quick=Form(seeds=2, changes=_QUICK),
)

# These are runs of the variants, too, so they are made once for both.
exp_2_laws = Experiment(
    name="exp-2-laws",
    title="Exp 2 by the law of L_t",
    scenario=_dumbbell(BDP_2),
    axes={
        "queue": Changes({name: queues(BDP_2)[name] for name in ("RED", RIO_PS)}),
        "mix": ONE_CLASS,
        "law": Changes(LAWS),
    },
    measures=measures.WEB,
    quick=Form(seeds=2, changes=_QUICK),
)

two_way = Experiment(
    name="two-way",
    title="Exp 1 both ways",
    scenario=_both_ways(_dumbbell(BDP_1)),
    axes={"queue": queues(BDP_1, links=("links.bottleneck", "links.back"), nodes=("left", "right"))},
    measures=measures.WEB,
    seeds=5,
    most_seeds=20,
    quick=Form(seeds=3, changes=_QUICK),
)

# Loss and transmission time (Fig 1)

LOSSES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15)

# Transfers of three sizes that never meet.
random_loss = Experiment(
    name="random-loss",
    title="Random loss",
    scenario={
        "duration": "3000s",
        "warm_up": "0s",
        "bottleneck": {
            "rate": "1Gbps",
            "delay": "48ms",
            "queue": {"kind": "drop-random", "probability": LOSSES[0], "limit": "1000000p"},
        },
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": TCP,
        "traffic": {
            str(size): {"kind": "ftp", "flows": 200, "sizes": constant(size * PACKET), "stagger": "10s"}
            for size in measures.TRANSFER_SIZES
        },
        "record": {"drops": False, "queue_every": "0s"},
    },
    axes={"loss": Changes({loss: {"bottleneck.queue.probability": loss} for loss in LOSSES})},
    measures=measures.LOSS,
)

# Preferential treatment (Table I, Fig 2)

_BATCH: dict[str, Any] = {"kind": "probes", "flows": 10, "size": "100p", "every": "10s"}

PATTERNS: Mapping[str, dict[str, Any]] = {
    "10 every 10 s, whatever is under way": _BATCH,
    "10 every 10 s, those still at it sit out": {**_BATCH, "late": "sits-out"},
    "10 users, each 6 s after its last": {
        "kind": "sessions",
        "users": 10,
        "hosts": 10,
        "think_time": {"kind": "exponential", "mean": "6s"},
        "think_from": "page-end",
        "objects": {"kind": "constant", "value": 1},
        "sizes": {"kind": "constant", "value": "100p"},
    },
}
"""How short flows may have been repeated; the second has the published limit of 50 000 packets, and
falls short of it where flows are slow."""

SPEEDS = {"1.25 Mb/s": "1250kbps", "1.5 Mb/s": "1500kbps"}
RTTS_MS = (20, 40, 80, 160, 320)
BUFFERS = (0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0)
"""Drop Tail's buffers of the search, in bandwidth-delay products; RED and RIO-PS have 5/3 of it."""

CHOSEN_PATTERN = "10 every 10 s, those still at it sit out"
CHOSEN_RTT_MS = 160
CHOSEN_BUFFER = 0.5
"""The set-up of the search nearest to the published Drop Tail rows, among patterns that cannot offer more
than the published 50 000 packets."""


def _delay(rtt_ms: int) -> str:
    """Of the bottleneck; the lines of the hosts have 1 ms at each end."""
    return f"{rtt_ms / 2 - 2:g}ms"


def _sized(buffer: float) -> Alters:
    """The queue that stands at the bottleneck, for a buffer of Drop Tail of so many bandwidth-delay products
    of the path that stands there."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        line = table["bottleneck"]
        rate_bps, delay_s = (_core.quantity(line[name])[0] for name in ("rate", "delay"))
        bdp = rate_bps * 2 * (delay_s + 0.002) / (8 * PACKET)
        # Thresholds of Table III are shares of RED's buffer, which is 2.5 products for Drop Tail's 1.5.
        sized = disciplines(max(6, round(bdp * buffer / 1.5))).values()
        line["queue"] = next(queue for queue in sized if queue["kind"] == line["queue"]["kind"])
        return table

    return change


def _at_speed(rate: str) -> Alters:
    """The chosen set-up at a speed."""
    return lambda table: _sized(CHOSEN_BUFFER)(changed(table, {"bottleneck.rate": rate}))


_PERSISTENT = {
    "duration": "500s",
    "warm_up": "0s",
    "bottleneck": {"rate": "1250kbps", "delay": _delay(CHOSEN_RTT_MS), "queue": disciplines(6)["Drop Tail"]},
    "access": {"rate": "100Mbps", "delay": "1ms"},
    "tcp": TCP,
    "traffic": {"short": PATTERNS[CHOSEN_PATTERN], "long": {"kind": "ftp", "flows": 10, "stagger": "10s"}},
    "record": {"drops": False, "queue_every": "0s"},
}
"""Ten persistent flows beside short ones of 100 packets."""

table_1 = Experiment(
    name="table-1",
    title="Table I",
    scenario=_PERSISTENT | {"record": {"drops": False, "queue_every": "0s", "packets": ["bottleneck"]}},
    axes={"queue": queues(6), "speed": Changes({said: _at_speed(rate) for said, rate in SPEEDS.items()})},
    measures=(*measures.CLASSES, *measures.PACKETS),
)

table_1_search = Experiment(
    name="table-1-search",
    title="the search for Table I's set-up",
    scenario=_PERSISTENT,
    axes={
        "queue": queues(6),
        "speed": Changes({said: {"bottleneck.rate": rate} for said, rate in SPEEDS.items()}),
        "pattern": Changes({name: {"traffic.short": pattern} for name, pattern in PATTERNS.items()}),
        "rtt_ms": Changes({rtt: {"bottleneck.delay": _delay(rtt)} for rtt in RTTS_MS}),
        "buffer": Changes({buffer: _sized(buffer) for buffer in BUFFERS}),
    },
    measures=measures.CLASSES,
    seeds=3,
    quick=Form(seeds=3, axes={"rtt_ms": (160,), "buffer": (0.5, 1.5, 5.0)}),
)

EXPERIMENTS = (exp_1, exp_2, exp_2_laws, two_way, random_loss, table_1, table_1_search)
