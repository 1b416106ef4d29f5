"""The network and the traffic of slide 17, the queues, and the details that the talk leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from aqmlab.scenario import changed
from aqmlab.studies.shared import queue_with
from aqmlab.study import Decision, Variant
from aqmlab.sweep import Changes

MSS = "934B"
"""Payload of a packet of 974 B, slide 17."""

WARM_UP_S = 20.0
DURATION_S = 160.0

RED: dict[str, Any] = {"min_th": "30p", "max_th": "90p", "max_p": 0.1, "weight": 0.0008, "limit": "225p"}
RED |= {"mean_packet": "974B", "gentle": True, "spacing": "no-wait"}
"""Slide 17; gentle: slide 12; spacing: slide 7."""

DISCIPLINES: dict[str, dict[str, Any]] = {
    "Drop Tail": {"kind": "drop-tail", "limit": "225p"},
    "RED": {"kind": "red", **RED},
    "SHRED": {"kind": "shred", "window_weight": 0.002, "floor": "zero", "red": RED},
}

PI = {"q_ref": "60p", "limit": "225p"}  # RED's target: midway between its thresholds
HINT_ON_PI: dict[str, dict[str, Any]] = {
    "PI": {"kind": "pi", **PI},
    "PISA": {"kind": "pisa", "window_weight": 0.002, "pi": PI},
    "PIMC": {"kind": "pimc", "pi": PI},
}

QUEUES = tuple(DISCIPLINES)
UNCONGESTED = "uncongested"


def uncongested(table: dict[str, Any]) -> dict[str, Any]:
    """The same Web arrivals without FTP, on a bottleneck ten times as fast."""
    table["bottleneck"] |= {"rate": "100Mbps", "queue": {"kind": "drop-tail", "limit": "100000p"}}
    table["traffic"].pop("ftp", None)
    # A load is a share of the bottleneck's rate, so on a link that is ten times as fast, the load is a tenth.
    table["traffic"]["web"]["load"] /= 10
    return table


QUEUE = Changes({name: {"bottleneck.queue": queue} for name, queue in DISCIPLINES.items()})
QUEUE_OR_NONE = Changes({**QUEUE, UNCONGESTED: uncongested})


def flows(*counts: int) -> Changes:
    """Permanent FTP flows; 0 removes them."""
    return Changes(
        {count: {"traffic.ftp.flows": count} if count else {"traffic.ftp": None} for count in counts}
    )


OBJECT_SIZES = {"kind": "lomax", "mean": "10kB", "shape": 1.2, "minimum": "12B", "maximum": "2MB"}
SIZES = {
    f"{cut}, {mean}": {**OBJECT_SIZES, "truncation": truncation, "calibration": calibration}
    for mean, calibration in (("mean 10 kB", "exact"), ("10 kB before the cut", "nominal"))
    for cut, truncation in (("cut", "clip"), ("redrawn", "redraw"))
}
"""Readings of "mean 10 KB, min 12 bytes, max 2 MB"; the first one is used."""

PAGES = {most: {"kind": "discrete-uniform", "minimum": 1, "maximum": most} for most in (8, 16, 32)}
"""Pages with a random number of objects, from 1 to the given number."""

FTP = {"kind": "ftp", "flows": 10, "stagger": "10s"}
ONE_OBJECT = {"kind": "constant", "value": 1}


def web(load: float, objects: Mapping[str, Any] = ONE_OBJECT) -> dict[str, Any]:
    """Pages with this load, as a share of the bottleneck's rate."""
    return {"kind": "web", "load": load, "objects": objects}


def beside_ftp(load: float, objects: Mapping[str, Any] = ONE_OBJECT) -> dict[str, Any]:
    """Pages and ten FTP flows."""
    return {"web": web(load, objects), "ftp": FTP}


def dumbbell(
    *, queue: str = "Drop Tail", drops: bool = False, queue_every: str = "0s", **traffic: dict[str, Any]
) -> dict[str, Any]:
    """The dumbbell of slide 17 with the given traffic."""
    return {
        "duration": f"{DURATION_S:g}s",
        "warm_up": f"{WARM_UP_S:g}s",
        "bottleneck": {"rate": "10Mbps", "delay": "60ms", "queue": DISCIPLINES[queue]},
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "tcp": {"profile": "ns-2.35", "connection": {"mss": MSS}, "receiver": {"window": 10_000}},
        "traffic": traffic,
        "record": {"drops": drops, "queue_every": queue_every},
    }


# Details that the talk leaves open


def _red(table: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Changes the RED parameters of the queue, including those of SHRED."""
    queue = table["bottleneck"]["queue"]
    if queue["kind"] in ("red", "shred"):
        queue.get("red", queue).update(changes)
    return table


def _packets_of_1000(table: dict[str, Any]) -> dict[str, Any]:
    return _red(changed(table, {"tcp.connection.mss": "1000B"}), mean_packet="1040B")


def _of_2003(table: dict[str, Any]) -> dict[str, Any]:
    """The defaults of ns-2 in 2003."""
    length = table["tcp"]["connection"]
    table["tcp"] = {"profile": "ns-2.2003", "connection": length, "receiver": {"window": 20}}
    table["host"] = {"jitter": "0s"}
    return _red(table, spacing="wait")


def _redrawn(table: dict[str, Any]) -> dict[str, Any]:
    redrawn = {"traffic.web.sizes": {**OBJECT_SIZES, "truncation": "redraw"}}
    return changed(table, redrawn) if "web" in table["traffic"] else table


_RTO_1_S = {"tcp.rto.min": "1s"}
_ZERO_RATIO = queue_with("shred", floor="zero-ratio")
_LINUX = {"profile": "linux-6", "connection": {"mss": MSS}}
_LINUX_ECN = _LINUX | {"ecn": {"mode": "on"}}

_red_only = Variant("RED not gentle", "RED drops all packets above max_th.", queue_with("red", gentle=False))
_both = Variant(
    "nobody gentle",
    "SHRED also drops all packets above max_th.",
    partial(_red, gentle=False),
    title="neither RED nor SHRED gentle",
)
_literal = Variant(
    "floor none",
    "SHRED's formulas without a floor.",
    queue_with("shred", floor="none"),
    title="SHRED without a floor",
)
_steeper = Variant(
    "floor zero-ratio",
    "SHRED's line becomes steeper and keeps max_p.",
    _ZERO_RATIO,
    title="SHRED with floor zero-ratio",
)
_wait = Variant(
    "wait",
    "As in ns-2: no drop until count times p reaches 1.",
    partial(_red, spacing="wait"),
    title="wait between two drops",
)
_larger = Variant("packets of 1040 B", "1000 B payload, 1040 B on the wire.", _packets_of_1000)
_tcp = (
    Variant(
        "as ns-2 came in 2003",
        "TCP and timers of 2003, RED with `wait`, hosts without jitter.",
        _of_2003,
        title="ns-2's defaults of 2003",
    ),
    Variant(
        "window 20",
        "Receiver window of ns-2's defaults.",
        {"tcp.receiver.window": 20},
        title="receiver window of 20 packets",
    ),
    Variant("RTO 1 s and 3 s", "Minimum RTO 1 s, initial RTO 3 s.", {**_RTO_1_S, "tcp.rto.initial": "3s"}),
    Variant(
        "RTO 1 s and 6 s", "ns-2's defaults at the time of the talk.", {**_RTO_1_S, "tcp.rto.initial": "6s"}
    ),
)
_sizes = Variant("sizes redrawn", "Sizes above 2 MB are drawn again with the same mean.", _redrawn)
_at_once = Variant(
    "hosts at once",
    "No jitter: ties decide which packet is lost.",
    {"host.jitter": "0s"},
    title="hosts without jitter",
)

DECISIONS = (
    Decision(
        "RED gentle or not",
        "Gentle for RED and SHRED.",
        "Slide 12 and ns-2's default of the time; slides 6 and 8 show RED without gentle mode.",
        (_red_only, _both),
    ),
    Decision(
        "Negative min_th of large windows",
        "The line begins at zero with its slope unchanged (`floor = zero`).",
        "Without a floor, a flow with twice the average window loses 5 % at an empty queue.",
        (_literal, _steeper),
    ),
    Decision("Count formula", "p_a = p_b / (1 - count p_b), without ns-2's `wait`.", "Slide 7.", (_wait,)),
    Decision("Packet size", "934 B payload, 974 B on the wire.", "The talk's average packet.", (_larger,)),
    Decision(
        "TCP",
        "Reno as in ns-2.35: initial window 2, no delayed acknowledgements, limited transmit, timer of 10 ms "
        "ticks, minimum RTO 0.2 s, initial RTO 3 s, a receiver window that never limits.",
        "The talk states ns-2 and Reno; versions differ.",
        _tcp,
    ),
    Decision(
        "Object sizes",
        "Pareto II with a mean of 10 kB after truncation.",
        "The load is then exact.",
        (_sizes,),
    ),
    Decision(
        "Equal timing",
        "Hosts process each packet after a random time of up to one packet's transmission time.",
        "Avoids phase effects of equal round-trip times.",
        (_at_once,),
    ),
)

SENDERS = Decision(
    "Senders",
    "Those of the study: Reno of ns-2.35, an initial window of 2, no SACK, no ECN.",
    "Other queues are thus compared with the paper's in the paper's own setting.",
    (
        Variant(
            "linux-6 senders",
            "TCP of Linux 6.1: CUBIC, SACK, RACK, initial window 10.",
            {"tcp": _LINUX},
            title="Linux 6 senders",
        ),
        Variant(
            "linux-6 senders with ECN",
            "Linux 6.1 with ECN, for queues that mark.",
            {"tcp": _LINUX_ECN},
            title="Linux 6 senders with ECN",
        ),
    ),
)
"""The decision for runs with other queues."""
