"""What the study `fair-queueing` decides where the talk is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab.studies.fair_queueing.experiments import CONTROLS
from aqmlab.studies.fair_queueing.flow_experiments import SIZES
from aqmlab.studies.shared import Alters
from aqmlab.study.publication import Decision, Variant


def _sizes(name: str) -> Alters:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        background = table["traffic"]["background"]
        if background["kind"] == "streaming":
            background["sizes"] = SIZES[name]
        return table

    return change


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    old = table["tcp"]
    kept = {key: old[key] for key in ("connection", "receiver")}
    table["tcp"] = {**kept, "recovery": {"kind": old["recovery"]["kind"]}}
    return table


def _limited_slow_start(table: dict[str, Any]) -> dict[str, Any]:
    for law in CONTROLS.keys() & table["traffic"].keys():
        table["traffic"][law]["tcp"]["congestion_control"]["max_ssthresh"] = 100
    return table


DECISIONS = (
    Decision(
        question="Available capacity",
        decision="25 Mb/s, what the background leaves on average; the flow's rate counts unique bytes with "
        "their headers.",
        reason="The only meaning under which 40 % is near what one Reno flow gets with 20 packets.",
    ),
    Decision(
        question="Size of packets",
        decision="1000 B on the wire, of which 960 B are payload.",
        reason="625 packets are said to be the product of 50 Mb/s and 100 ms.",
    ),
    Decision(
        question="Buffer",
        decision="So many packets may wait; the one on the line is not counted.",
        reason="Whether it counts is not said; one packet in twenty is immaterial.",
    ),
    Decision(
        question="Poisson flows",
        decision="They come as a Poisson process and send at 1 Mb/s, whatever becomes of their packets; "
        "sizes are exponential with a mean of 100 kB.",
        reason="The peak rate is told, sizes and transport are not.",
        variants=(
            Variant(
                name="Pareto", what="Background flows have Pareto sizes, shape 1.5.", change=_sizes("Pareto")
            ),
            Variant(name="fixed", what="All background flows have 100 kB.", change=_sizes("fixed")),
        ),
    ),
    Decision(
        question="Poisson packets",
        decision="2500 flows of datagrams that together are a Poisson process.",
        reason="Under fair queueing each packet must be a flow of its own; of 2500 flows hardly any has two "
        "packets waiting.",
    ),
    Decision(
        question="Fair queueing",
        decision="Deficit round robin, a queue for each flow, a quantum of one packet, and the oldest packet "
        "of the longest queue goes when the buffer is full.",
        reason="The talk allows DRR, self-clocked fair queueing or just round robin; ns-2 has DRR. R17 "
        "compares four orders of service.",
    ),
    Decision(
        question="TCP",
        decision="ns-2 as it was in September 2005: an acknowledgement per packet, least time-out 0.2 s, "
        "initial window 2, windows cut to whole packets, first threshold unlimited.",
        reason="The talk says Reno and HSTCP. Its plots have windows of up to 1000 packets, so that ns-2's "
        "default of 20 was raised.",
        variants=(
            Variant(
                name="as ns-2 came in September 2005",
                what="Hosts that answer at once, senders without overhead, and the receiver's window of 20: "
                "what the main reading changes of ns-2's defaults, all together.",
                change={"host.jitter": "0s", "tcp.receiver.window": 20},
            ),
            Variant(
                name="TCP of today",
                what="The RFCs' TCP: delayed acknowledgements, windows by flight size, initial window 10, "
                "least time-out 1 s.",
                change=_of_today,
            ),
            Variant(
                name="limited slow start",
                what="Slow start limited above 100 segments (RFC 3742).",
                change=_limited_slow_start,
            ),
            Variant(name="least RTO 1 s", what="The least time-out is 1 s.", change={"tcp.rto.min": "1s"}),
        ),
    ),
    Decision(
        question="Recovery",
        decision="NewReno; every claim on bottlenecked flows is judged with Reno and SACK, too, the same "
        "recovery for all flows.",
        reason="Not said. With SACK for HighSpeed only, as ns-2's own tests have it, a comparison with Reno "
        "would be one of recoveries.",
    ),
    Decision(
        question="HighSpeed",
        decision="RFC 3649 evaluated continuously, from p = 1.5/38² on.",
        reason="That is ns-2's code; the RFC suggests a table.",
    ),
    Decision(
        question="Start",
        decision="At random within the first second.",
        reason="Not said; flows must not begin in step.",
    ),
    Decision(
        question="What is measured",
        decision="Claims: 500 s after 20 s. Where the talk's plots are meant (R11 to R13): from 20 s to "
        "100 s. The plots show the first 100 s; a table tells what they come to over 1000 s.",
        reason="The talk plots 100 s. A single run of 100 s says little about fairness.",
    ),
    Decision(
        question="Hosts",
        decision="Take up to a packet's time over each packet.",
        reason="Equal round trips make packets arrive at the moment of a departure; whoever is let in first "
        "then is let in always.",
        variants=(
            Variant(
                name="hosts at once",
                what="Hosts answer at once; ties are possible.",
                change={"host.jitter": "0s"},
            ),
        ),
    ),
    Decision(
        question="Utilisation",
        decision="Packets sent in bins of 1 s, over what the line can send.",
        reason="The talk's bins are not known.",
    ),
    Decision(
        question="Bottlenecked flows in the example",
        decision="Elastic flows without a peak rate at load 0.1 beside a background at 0.5: streaming flows "
        "of 1 Mb/s, elastic flows of at most 1 Mb/s, and streaming flows of 10 kb/s.",
        reason="The formula takes what the background leaves for constant; how nearly it is depends on the "
        "background.",
    ),
    Decision(
        question="Growing links",
        decision="Rate, buffer, number of flows and TCP transfers times 1, 4 and 16; peak rates stay.",
        reason="The talk says only that the number of active flows does not increase with the rate of the "
        "link.",
    ),
    Decision(
        question="O(100) packets, and 500 flows",
        decision="At most 500, in 99.9 % of the time.",
        reason="The talk gives orders of magnitude.",
    ),
)
