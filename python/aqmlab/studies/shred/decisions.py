"""What the study `shred` decides where the talk is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab.studies.shared import Alters, queue_with, tcp_with
from aqmlab.studies.shred.experiments import OBJECT_SIZES
from aqmlab.study.publication import Decision, Variant


def _red(**changes: Any) -> Alters:
    """Changes the RED of the queue, SHRED's own included."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        queue = table["bottleneck"]["queue"]
        if queue["kind"] == "red":
            queue.update(changes)
        elif queue["kind"] == "shred":
            queue["red"].update(changes)
        return table

    return change


def _packets_of_1000(table: dict[str, Any]) -> dict[str, Any]:
    return _red(mean_packet="1040B")(tcp_with({"connection.mss": "1000B"})(table))


def _of_2003(table: dict[str, Any]) -> dict[str, Any]:
    """What ns-2 did in 2003 unless told otherwise."""
    length = table["tcp"]["connection"]
    table["tcp"] = {"profile": "ns-2.2003", "connection": length, "receiver": {"window": 20}}
    table["host"] = {"jitter": "0s"}
    return _red(spacing="wait")(table)


def _redrawn(table: dict[str, Any]) -> dict[str, Any]:
    if "web" in table["traffic"]:
        table["traffic"]["web"]["sizes"] = {**OBJECT_SIZES, "truncation": "redraw"}
    return table


DECISIONS = (
    Decision(
        question="RED gentle or not",
        decision="Gentle for RED and SHRED.",
        reason="Slide 12 and ns-2's default of the time; slides 6 and 8 draw RED without. Both were run.",
        variants=(
            Variant(
                name="RED not gentle",
                what="RED drops everything above max_th.",
                change=queue_with("red", gentle=False),
            ),
            Variant(
                name="nobody gentle",
                what="SHRED, too, drops everything above max_th.",
                change=_red(gentle=False),
            ),
        ),
    ),
    Decision(
        question="Negative min_th of large windows",
        decision="The line begins at zero with its slope kept (`floor = zero`).",
        reason="Taken literally, a flow of twice the average window loses 5 % at an empty queue.",
        variants=(
            Variant(
                name="floor none",
                what="SHRED's formulas taken literally: large windows are dropped at an empty average queue.",
                change=queue_with("shred", floor="none"),
            ),
            Variant(
                name="floor zero-ratio",
                what="SHRED's line starts at zero but keeps its own max_p, so it gets steeper.",
                change=queue_with("shred", floor="zero-ratio"),
            ),
        ),
    ),
    Decision(
        question="Count law",
        decision="p_a = p_b / (1 - count p_b), without ns-2's `wait`.",
        reason="It is the one on slide 7; `wait` changes the drop rate threefold.",
        variants=(
            Variant(
                name="wait",
                what="The count law of ns-2's default: no drop until count times p reaches 1.",
                change=_red(spacing="wait"),
            ),
        ),
    ),
    Decision(
        question="Packet size",
        decision="934 B payload, 974 B on the wire.",
        reason="974 B is the talk's average packet.",
        variants=(
            Variant(
                name="packets of 1040 B",
                what="Payload 1000 B, on the wire 1040 B.",
                change=_packets_of_1000,
            ),
        ),
    ),
    Decision(
        question="TCP",
        decision="Reno as in ns-2.35: initial window 2, no delayed acknowledgements, limited transmit, timer "
        "of 10 ms ticks, minimum RTO 0.2 s, initial RTO 3 s, a receiver window that never limits.",
        reason="The talk says ns-2 and Reno. Versions differ.",
        variants=(
            Variant(
                name="as ns-2 came in 2003",
                what="Its TCP and timers (minimum RTO 1 s, initial 6 s), a receiver's window of 20, RED that "
                "waits, and hosts that answer at once, all together.",
                change=_of_2003,
            ),
            Variant(
                name="window 20",
                what="The receiver's window of ns-2's defaults.",
                change=tcp_with({"receiver.window": 20}),
            ),
            Variant(
                name="RTO 1 s and 3 s",
                what="Minimum time-out 1 s, initial 3 s.",
                change=tcp_with({"rto.min": "1s", "rto.initial": "3s"}),
            ),
            Variant(
                name="RTO 1 s and 6 s",
                what="Minimum time-out 1 s, initial 6 s: ns-2's defaults when the talk was given.",
                change=tcp_with({"rto.min": "1s", "rto.initial": "6s"}),
            ),
        ),
    ),
    Decision(
        question="Object sizes",
        decision="Pareto II, shape 1.2, scale set so that the mean of sizes cut to 12 B and 2 MB is 10 kB.",
        reason="Then load is what it says.",
        variants=(
            Variant(
                name="sizes redrawn",
                what="Object sizes above 2 MB are drawn again instead of cut, the mean kept.",
                change=_redrawn,
            ),
        ),
    ),
    Decision(
        question="Average window at the start",
        decision="The first window seen.",
        reason="Any other number would be invented.",
    ),
    Decision(
        question="The window told",
        decision="Congestion window, at most the receiver's, not inflated, rounded down; SYNs tell 1.",
        reason="What limits sending; ns-2 has cwnd 1 at the SYN.",
    ),
    Decision(
        question="Drop Tail's buffer",
        decision="225 packets, as RED's.",
        reason="The slide lists one buffer size.",
    ),
    Decision(
        question="Load",
        decision="First transmissions on the wire over the bottleneck's capacity.",
        reason="Retransmissions are a result, not a load.",
    ),
    Decision(
        question="Pages",
        decision="Start to start exponential, whatever the pages before are doing; objects in parallel, each "
        "on its own connection; responses only.",
        reason="Slide 13: congestion must not lower the load.",
    ),
    Decision(
        question="Pages of many objects",
        decision="Up to 8 objects at each load; up to 16 and 32 at 70 %, and with Web traffic only.",
        reason="What load does shows with 8; what the number of objects does shows at one load. Pages of 32 "
        "need long runs to be many.",
    ),
    Decision(
        question="Start of an object's time",
        decision="From sending the SYN to the last payload byte in order.",
        reason="A lost SYN is the dearest loss; leaving it out would hide the point of SHRED.",
    ),
    Decision(
        question="Normalised time",
        decision="Mean time over the mean time of the same arrivals, same seed, with the bottleneck at "
        "100 Mb/s and no FTP flows; delay kept.",
        reason="Only the numerator sees congestion. FTP flows without a window limit would fill any line.",
    ),
    Decision(
        question="FTP starts",
        decision="At random within the first 10 s.",
        reason="Avoids a common slow start.",
    ),
    Decision(
        question="Unfinished objects",
        decision="Counted in distributions as what is known of them (Kaplan-Meier); not in means and "
        "quantiles, but reported.",
        reason="Leaving them out would flatter slow queues.",
    ),
    Decision(
        question="Loss event",
        decision="A drop and all drops less than a base round trip (124 ms) after it.",
        reason="Losses so close are one signal to the senders.",
    ),
    Decision(
        question="Equal timing",
        decision="Hosts process each packet after a random time of up to one packet's transmission.",
        reason="Breaks phase effects of equal round-trip times.",
        variants=(
            Variant(
                name="hosts at once",
                what="Hosts answer at once, so that ties decide who loses.",
                change={"host.jitter": "0s"},
            ),
        ),
    ),
)
