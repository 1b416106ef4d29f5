"""The talk's link: backgrounds, queues, senders, and alternatives for details that the talk leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from aqmlab.studies.fair_queueing.blocks import FLOWS, PACKETS
from aqmlab.studies.fair_queueing.laws import PACKET, RATE_MBPS
from aqmlab.studies.fair_queueing.measures import PAYLOAD, UNRESPONSIVE
from aqmlab.studies.shared import constant
from aqmlab.study import Decision, Variant
from aqmlab.sweep import Changes

WARM_UP_S = 20
RATE = f"{RATE_MBPS:g}Mbps"

CONTROLS: Mapping[str, dict[str, Any]] = {
    "reno": {"kind": "reno"},
    # ns-2 evaluates the response function; RFC 3649 suggests a table.
    "highspeed": {"kind": "highspeed", "loss_rate": "continuous"},
    "cubic": {"kind": "cubic"},
    "scalable": {"kind": "scalable"},
}

DRR = {"kind": "drr", "quantum": f"{PACKET}B"}
QUEUES = {"FIFO": {"kind": "drop-tail"}, "FQ": DRR}
ORDERS = {"DRR": DRR, "SCFQ": {"kind": "scfq"}, "STFQ": {"kind": "stfq"}, "RR": {"kind": "rr"}}
"""Queues by the names that figures show, without their buffers."""

BEHIND_A_FAST_LINE = {"rate": "100Gbps", "delay": "1ms"}
"""Access link of workloads that share a host. No queue must form on this link before the bottleneck."""

SIZES: Mapping[str, dict[str, Any]] = {
    "exponential": {"kind": "exponential", "mean": "100kB"},
    "Pareto": {"kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "1kB", "maximum": "10MB"},
    "fixed": {"kind": "constant", "value": "100kB"},
}
POISSON_FLOWS: dict[str, Any] = {
    "kind": "streaming",
    "load": 0.5,
    "rate": "1Mbps",
    "packet": f"{PACKET}B",
    "sizes": SIZES["exponential"],
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
"""Packets of flows that hardly ever have two packets queued."""

Axes = dict[str, Any]

BACKGROUNDS = {FLOWS: POISSON_FLOWS, PACKETS: POISSON_PACKETS}

TCP: dict[str, Any] = {
    "profile": "ns-2.2003",
    "connection": {"mss": f"{PAYLOAD}B"},
    "recovery": {"kind": "newreno", "exit_window": "deflated", "partial_ack_timer": "first"},
    "rto": {"min": "200ms"},
    "receiver": {"window": 100_000},
}
"""ns-2's TCP as of September 2005, without a limit that is set by the receiver."""


def link(
    background: Mapping[str, Any], *, duration: str = "520s", queue: str = "FIFO", **record: Any
) -> dict[str, Any]:
    """The talk's link with only the background."""
    return {
        "duration": duration,
        "warm_up": f"{WARM_UP_S}s",
        "bottleneck": {"rate": RATE, "delay": "48ms", "queue": queues(625)[queue]},
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": TCP,
        "traffic": {"background": background},
        "record": {"drops": False, "queue_every": "0s", **record},
    }


def beside(**counts: int) -> dict[str, Any]:
    """A change that adds the given number of permanent flows of each congestion control to the background.
    The flows start at random within the first second."""

    def senders(law: str) -> dict[str, Any]:
        if law == UNRESPONSIVE:
            return {"kind": "udp", "rate": "40Mbps", "sizes": constant(PACKET)}
        return {"kind": "ftp", "stagger": "1s", "tcp": {"congestion_control": CONTROLS[law]}}

    return {f"traffic.{law}": {**senders(law), "flows": count} for law, count in counts.items()}


BOTTLENECKED = {
    "HighSpeed + Reno": beside(highspeed=1, reno=1),
    **{f"{count} Reno": beside(reno=count) for count in (1, 2, 4)},
    **{f"{count} HighSpeed": beside(highspeed=count) for count in (1, 2, 4)},
}


def flows(*names: str) -> Axes:
    """The axis of bottlenecked flows."""
    return {"flows": Changes({name: BOTTLENECKED[name] for name in names})}


def queues(packets: int) -> dict[str, dict[str, Any]]:
    """The queues with this limit."""
    return {name: {**queue, "limit": f"{packets}p"} for name, queue in QUEUES.items()}


def buffers(*packets: int) -> Axes:
    """The axes of queues and of their limits."""
    room = Changes({count: {"bottleneck.queue.limit": f"{count}p"} for count in packets})
    return {"bottleneck.queue": QUEUES, "buffer": room}


RECOVERY = Changes({name: {"tcp.recovery.kind": name.lower()} for name in ("NewReno", "Reno", "SACK")})
"""Loss recovery of the bottlenecked flows, which the talk does not state; the first is aqmlab's choice."""


def _sized(table: dict[str, Any], name: str) -> dict[str, Any]:
    background = table["traffic"]["background"]
    if background["kind"] == "streaming":
        background["sizes"] = SIZES[name]
    return table


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    old = table["tcp"]
    kept = {key: old[key] for key in ("connection", "receiver")}
    return {**table, "tcp": {**kept, "recovery": {"kind": old["recovery"]["kind"]}}}


def _slow_start(table: dict[str, Any]) -> dict[str, Any]:
    for law in CONTROLS.keys() & table["traffic"].keys():
        table["traffic"][law]["tcp"]["congestion_control"]["max_ssthresh"] = 100
    return table


_AT_ONCE = {"host.jitter": "0s"}

DECISIONS = (
    Decision(
        "Poisson flows",
        "They arrive as a Poisson process and send at 1 Mb/s without responding to losses; sizes are "
        "exponential with a mean of 100 kB.",
        "The talk states the peak rate, but neither sizes nor the transport protocol.",
        (
            Variant(
                "Pareto",
                "Background flows have Pareto sizes, shape 1.5.",
                partial(_sized, name="Pareto"),
                title="Pareto sizes",
            ),
            Variant(
                "fixed",
                "All background flows have 100 kB.",
                partial(_sized, name="fixed"),
                title="fixed sizes",
            ),
        ),
    ),
    Decision(
        "TCP",
        "ns-2 as of September 2005: one acknowledgement per packet, minimum RTO 0.2 s, initial window 2, "
        "windows rounded down to whole packets, initial slow-start threshold unlimited.",
        "The talk states Reno and HSTCP. Its windows of up to 1000 packets exclude ns-2's default of 20.",
        (
            Variant(
                "as ns-2 came in September 2005",
                "Hosts without jitter, senders without overhead, and a receiver window of 20: all changes of "
                "the main reading from ns-2's defaults are undone.",
                {**_AT_ONCE, "tcp.receiver.window": 20},
                title="ns-2's defaults of September 2005",
            ),
            Variant(
                "TCP of today",
                "Delayed ACKs, initial window 10, minimum RTO 1 s (RFCs).",
                _of_today,
                title="today's TCP defaults",
            ),
            Variant("limited slow start", "Slow start limited above 100 segments (RFC 3742).", _slow_start),
            Variant(
                "least RTO 1 s", "The minimum RTO is 1 s.", {"tcp.rto.min": "1s"}, title="minimum RTO 1 s"
            ),
        ),
    ),
    Decision(
        "Hosts",
        "Each host spends up to one packet's transmission time on each packet.",
        "With equal round trips, packets arrive as others depart, and one flow always gets the free place.",
        (
            Variant(
                "hosts at once",
                "Hosts without jitter; ties are possible.",
                _AT_ONCE,
                title="hosts without jitter",
            ),
        ),
    ),
)
