"""What the study `unc-web` decides where the talk is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab.studies.shared import Alters, queue_with
from aqmlab.studies.unc_web.experiments import FULL_RATE, same_load
from aqmlab.study.publication import Decision, Variant


def _marking(**changes: Any) -> Alters:
    """Other parameters for the queues that mark."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for link in table["links"].values():
            if "ecn" in link["queue"]:
                link["queue"].update(changes)
        return table

    return change


def _full_tcp(table: dict[str, Any]) -> dict[str, Any]:
    """What was not published stays as decided: SACK or not, ECN or not, the receiver's window in bytes."""
    table = same_load("MSS 536")(table)
    table["tcp"] = {
        "profile": "ns-2.2003-full",
        "recovery": {"kind": table["tcp"]["recovery"]["kind"]},
        "receiver": {"window": table["tcp"]["receiver"]["window"], "delayed_ack": "heartbeat"},
        "ecn": table["tcp"]["ecn"],
    }
    return table


DECISIONS = (
    Decision(
        question="Offered load",
        decision="Bytes of the line in one direction, headers, acknowledgements and connection set-up "
        "included, as carried by a line so fast that nothing queues; a straight line through the origin "
        "turns it into connections a second.",
        reason="So the talk calibrates; its numbers are not known. With sizes of so heavy a tail the load "
        "of a single run is still off by a few percent, the same for all queues and TCPs.",
    ),
    Decision(
        question="Rates of the grid",
        decision=f"{FULL_RATE:g} connections/s in each direction for all of the line, and in "
        "proportion: constants, found by `aqmlab calibrate` over 20 replications of 250 000 connections "
        "(136.5 [135.5, 137.6]).",
        reason="The grid must not move with the seeds that calibrate it. The study measures the rate again, "
        "and warns if its interval leaves the constant out.",
    ),
    Decision(
        question="Loads",
        decision="50, 60, 70, 80, 85, 90, 95, 100 and 105 %.",
        reason="The range is published, the steps are not.",
    ),
    Decision(
        question="Length of a run",
        decision="120 s of warm-up, then as long as 125 000 requests in each direction take on average: "
        "250 000 in all.",
        reason="Their number is published; whether in each direction or in all is not. With twice as many "
        "there would be half as many seeds. Under overload nothing settles, and what is sent again hangs on "
        "the length.",
    ),
    Decision(
        question="Requests not finished at the end",
        decision="Counted in distributions as what is known of them (Kaplan-Meier); not in quantiles, but "
        "told.",
        reason="Leaving them out would flatter queues that make requests slow.",
    ),
    Decision(
        question="Directions",
        decision="Both are measured; judged and drawn are the requests served forward.",
        reason="They differ in their random numbers only.",
    ),
    Decision(
        question="Which TCP",
        decision="The queues are compared with Reno; figures and tables have SACK as well.",
        reason="The talk crosses all; which of them its figures of the queues show is not known.",
    ),
    Decision(
        question="TCP",
        decision="Both ends real: three-way handshake, request and response on the same connection; MSS "
        "1460 B, initial window 2, an acknowledgement for every second segment or after 100 ms, no limited "
        "transmit, initial RTO 3 s, minimum RTO 1 s, window 64 kB (44 segments), Nagle's algorithm, no time "
        "stamps.",
        reason="The talk says Reno and SACK only; these are the standards and stacks of the time. ns-2's "
        "two-way TCP has Nagle's algorithm on, and began with 536 B and an initial RTO of 6 s: both are "
        "among the sensitivity runs.",
        variants=(
            Variant(
                name="as ns-2 came in 2003",
                what="Its two-way TCP, FullTcp, with its own recovery, heartbeat and timers (minimum RTO 1 "
                "s, initial 6 s) and 536 B, at the same load.",
                change=_full_tcp,
            ),
            Variant(
                name="MSS 536",
                what="ns-2's segment of FullTcp, at the same load.",
                change=same_load("MSS 536"),
            ),
            Variant(name="minimum RTO 0.2 s", what="ns-2's of 2004.", change={"tcp.rto.min": "200ms"}),
            Variant(name="initial RTO 1 s", what="Today's (RFC 6298).", change={"tcp.rto.initial": "1s"}),
            Variant(name="initial RTO 6 s", what="ns-2's until 2006.", change={"tcp.rto.initial": "6s"}),
            Variant(name="initial window 10", what="Today's (RFC 6928).", change={"tcp.cwnd.initial": 10}),
        ),
    ),
    Decision(
        question="Round trips",
        decision="Each connection has delays of its own on the client's and the server's side (PackMime's "
        "laws); the line itself adds 1 ms each way.",
        reason="The talk gives the range, 1 ms to 3.5 s, and a delay for each connection. No losses or slow "
        "access lines besides: unknown.",
    ),
    Decision(
        question="HTTP",
        decision="1.0, one request on each connection; a response time counts from the client's first SYN "
        "to the last byte.",
        reason="The default of PackMime. HTTP/1.1 is among the sensitivity runs.",
        variants=(
            Variant(
                name="HTTP/1.1",
                what="Some connections persist over several pages, at the same load.",
                change=same_load("HTTP/1.1"),
            ),
        ),
    ),
    Decision(
        question="Largest response",
        decision="61.6 MB, where the fitted law ends; larger ones become that.",
        reason="The law's Pareto tail (index 1.23) would go on for ever, and single responses would decide a "
        "run.",
    ),
    Decision(
        question="Drop Tail's buffer",
        decision="111 packets.",
        reason="Not published; as full packets these are 1.2 bandwidth-delay products of the mean round "
        "trip, 110 ms. Twice that is among the sensitivity runs.",
        variants=(
            Variant(
                name="twice the buffer",
                what="Drop Tail's is 222 packets.",
                change=queue_with("drop-tail", limit="222p"),
            ),
        ),
    ),
    Decision(
        question="Adaptive RED",
        decision="ns-2's of 2003: target 5 ms, packets taken for 500 B, automatic thresholds and weight, "
        "gentle with a line that does not follow max_p, `wait`; a buffer of 555 packets.",
        reason="Defaults of the time; the tuning of the talk is not known. A target of 60 ms is in the grid "
        "(thresholds of 75 and 225 packets: more than Drop Tail's buffer holds), packets of 1000 B are "
        "among the sensitivity runs.",
        variants=(
            Variant(
                name="target 60 ms",
                what="Adaptive RED aims at 60 ms in the queue.",
                change=queue_with("adaptive-red", target_delay="60ms"),
            ),
            Variant(
                name="mean packet 1000 B",
                what="Adaptive RED takes packets to be twice as large as ns-2's default.",
                change=queue_with("adaptive-red", mean_packet="1000B"),
            ),
        ),
    ),
    Decision(
        question="Packets or bytes",
        decision="Both, as claims of their own (`b` is bytes; there, as in ns-2, big packets are dropped "
        "more often than small ones).",
        reason="Packets was ns-2's default until October 2004. It drops 40-byte packets, which ECN cannot "
        "mark, as readily as full ones, and so decides how much ECN can reach.",
    ),
    Decision(
        question="ECN",
        decision="Marks while p_b is at most 0.1 and drops above, as ns-2 since April 2002; SYNs, bare "
        "acknowledgements and segments sent again are not capable.",
        reason="Before, ns-2 marked at any probability up to twice max_th; that, and never dropping, are "
        "among the sensitivity runs.",
        variants=(
            Variant(
                name="marks up to twice max_th",
                what="Adaptive RED marks at any probability up to twice max_th, as ns-2 before April 2002.",
                change=_marking(mark_p=1.0),
            ),
            Variant(
                name="never drops what it may mark",
                what="Adaptive RED marks at any average, as Linux.",
                change=_marking(mark_p=1.0, ecn="always"),
            ),
        ),
    ),
    Decision(
        question="Distance of two distributions",
        decision="Of systems that are to be alike (W1, W2), the largest over time of each seed. Of one that "
        "is to lead, that of each seed at the time where the mean of all other seeds is largest, with "
        "Student's t over seeds. A lag is judged by a band that holds at all times at once.",
        reason="The first is never too small: the table of equal systems shows how large it is by chance. A "
        "seed that chose its own time would find a lead where there is none.",
    ),
    Decision(
        question="Equal systems",
        decision="The same queue several times on the same traffic, with other random numbers for routers "
        "and hosts. Drop Tail draws none: there hosts take up to 1.2 ms, a packet's time, for each packet.",
        reason="The largest distance of two distributions is above zero however alike their systems are.",
    ),
    Decision(
        question="ECN beats dropping",
        decision="At 80 and 105 %, the loads of the slide: nowhere behind by more than half a response in a "
        "hundred, and somewhere ahead by more than one.",
        reason="The mean lag of equal systems is less than half of that, as their table shows. The intervals "
        "of equal systems reach beyond it, so chance alone can leave the claim undecided.",
    ),
    Decision(
        question="Several losses of one window",
        decision="Connections without a time-out that sent more segments again than they had fast "
        "retransmits.",
        reason="That takes a recovery that repaired several.",
    ),
)
