"""Queues, edges and TCP of the study `mice-elephants`, with the alternative readings that the study tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aqmlab.studies.mice_elephants.measures import PACKET
from aqmlab.studies.shared import TableChange, queue_with, tcp_with
from aqmlab.study import Decision, Variant
from aqmlab.sweep import Changes

RIO_PS = "RIO-PS"
OTHERS = ("RED", "Drop Tail")


def disciplines(bdp: int) -> dict[str, dict[str, Any]]:
    """The queues of Table III for a bandwidth-delay product in packets."""
    limit = bdp * 5 // 2
    return {
        "Drop Tail": {"kind": "drop-tail", "limit": f"{bdp * 3 // 2}p"},
        "RED": {
            "kind": "red",
            "min_th": f"{0.15 * limit:.0f}p",
            "max_th": f"{0.5 * limit:.0f}p",
            "max_p": 0.1,
            "weight": 1 / 512,
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

TCP: dict[str, Any] = {
    "profile": "ns-2.2001",
    "connection": {"mss": f"{PACKET}B"},
    "recovery": {"kind": "newreno"},
    "rto": {"initial": "3s", "tick": "100ms"},
    "receiver": {"window": 128},
    "ecn": {"mode": "off"},
}
"""NewReno of ns-2 in 2001 with the windows and timers of Table III."""


def queues(bdp: int, links: Sequence[str] = ("bottleneck",), nodes: Sequence[str] = ("left",)) -> Changes:
    """The queue at these links, with the requirements of the queue: senders that use ECN, and nodes whose
    edges mark packets."""
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


def _edge(**changes: Any) -> TableChange:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        for edge in table.get("edges", {}).values():
            edge.update(changes)
        return table

    return change


LAWS: Mapping[str, TableChange] = {
    "steered": _edge(),
    "static, 20 packets": _edge(threshold_rule="static"),
    "quantile": _edge(threshold_rule="quantile"),
    "steered, flows forgotten at age": _edge(purge="at-age"),
}
"""Readings of the edge's rule for short flows; the first is aqmlab's choice."""


def _drop_tail(resized: Callable[[int], int]) -> TableChange:
    """Drop Tail with a different buffer (packets)."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        queue = table["bottleneck"]["queue"]
        if queue["kind"] == "drop-tail":
            queue["limit"] = f"{resized(int(queue['limit'][:-1]))}p"
        return table

    return change


def _rtts(table: dict[str, Any]) -> dict[str, Any]:
    table["bottleneck"]["delay"] = "18ms"
    table["traffic"]["web"]["extra_delay"] = ["0ms", "40ms"]
    for name in {"short", "long"} & set(table["traffic"]):
        table["traffic"][name]["extra_delay"] = "20ms"
    return table


_in_arrivals = queue_with("rio-ps", total_average="in-arrivals")
_one_packet_less = _drop_tail(lambda packets: packets - 1)
_as_the_others = _drop_tail(lambda packets: packets * 5 // 3)
_closed = {"traffic.web.think_from": "page-end"}
_RTTS = Variant(
    "round trips differ",
    "Web flows have 40 to 120 ms, others 80 ms.",
    _rtts,
    title="different round-trip times",
)
_THINKING = Variant(
    "thinking after the page",
    "Congestion delays requests (closed loop).",
    _closed,
    title="think time after the page",
)
_FOR_GOOD = Variant(
    "L_t = 20 for good", "The threshold is constant.", LAWS["static, 20 packets"], title="constant L_t = 20"
)
_QUANTILE = Variant(
    "L_t by quantile",
    "The quantile that yields the intended ratio.",
    LAWS["quantile"],
    title="L_t from a quantile",
)
_AT_AGE = Variant(
    "flows forgotten at age",
    "Flows that were silent for 1 s.",
    LAWS["steered, flows forgotten at age"],
    title="flows removed after 1 s of silence",
)
_AVERAGE = Variant(
    "ns-2's average",
    "It changes only when a short packet arrives.",
    _in_arrivals,
    title="ns-2's average of all packets",
)
_ITO = Variant("ITO 1 s", "Initial RTO of 1 s.", tcp_with({"rto.initial": "1s"}))
_HESITATE = Variant(
    "hosts hesitate",
    "Random delay of up to 0.4 ms, one packet on the link.",
    {"host": None},
    title="hosts with random delays",
)
_OF_2001 = Variant(
    "as ns-2 came in June 2001",
    "RIO's average of all packets is ns-2's, and Drop Tail has room for one packet less than its limit.",
    lambda table: _in_arrivals(_one_packet_less(table)),
    title="ns-2 of June 2001",
)
_SAME = Variant(
    "same buffer",
    "Drop Tail also has 2.5 bandwidth-delay products.",
    _as_the_others,
    title="the same buffer for all queues",
)

DECISIONS = (
    Decision("Round-trip times", "80 ms for all flows.", "Link delays are not published.", (_RTTS,)),
    Decision(
        "Think time and object gap",
        "Exponential, 9.5 s from the start of a page to the start of the next, and 50 ms between objects.",
        "Both means are quoted from memory of the paper. ns-2 of 2001 counted from start to start.",
        (_THINKING,),
    ),
    Decision(
        "Threshold L_t",
        "Initially 20 packets; every 10 s halved if more than three flows are short for each long flow or no "
        "flow is long, otherwise increased by five; never below 1 or above 1000.",
        "Ratio and periods are published; steps and bounds are not.",
        (_FOR_GOOD, _QUANTILE),
    ),
    Decision(
        "Expiry of flows at the edge",
        "At scans every second (T_u), a flow not seen since the last scan is removed.",
        "The period is published, but not its use.",
        (_AT_AGE,),
    ),
    Decision("RIO's average of all packets", "Updated by every arrival.", "As in the paper.", (_AVERAGE,)),
    Decision(
        "TCP",
        "NewReno as in ns-2 of June 2001, initial window 2, no delayed acknowledgements, window 128, ticks "
        "of 100 ms, minimum RTO 1 s.",
        "Table III where it states a value; otherwise the values of ns-2.",
        (_ITO,),
    ),
    Decision(
        "Hosts",
        "Process packets without delay.",
        "The default of ns-2's hosts without overhead_. Users arrive at random, which avoids phase effects.",
        (_HESITATE,),
    ),
    Decision(
        "Simulator",
        "The paper's formulas instead of ns-2's implementation of them.",
        "The paper used ns-2 and was published in 2001; its own code is not available. The phase of the "
        "clocks and the order of simultaneous events are not known.",
        (_OF_2001,),
    ),
    Decision("Buffers", "Drop Tail 1.5 bandwidth-delay products, others 2.5.", "Published.", (_SAME,)),
)
