"""What the study `mice-elephants` decides where the paper is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab.studies.mice_elephants.experiments import LAWS
from aqmlab.studies.shared import queue_with, tcp_with
from aqmlab.study.publication import Decision, Variant
from aqmlab.sweep import Change


def _same_buffer(table: dict[str, Any]) -> dict[str, Any]:
    """Drop Tail with as large a buffer as the others: 2.5 bandwidth-delay products instead of 1.5."""
    queue = table["bottleneck"]["queue"]
    if queue["kind"] == "drop-tail":
        queue["limit"] = f"{int(queue['limit'][:-1]) * 5 // 3}p"
    return table


def _different_rtts(table: dict[str, Any]) -> dict[str, Any]:
    """Round trips between 40 and 120 ms instead of 80 ms for everybody."""
    table["bottleneck"]["delay"] = "18ms"
    table["traffic"]["web"]["extra_delay"] = ["0ms", "40ms"]
    for name in {"short", "long"} & set(table["traffic"]):
        table["traffic"][name]["extra_delay"] = "20ms"
    return table


def _of_june_2001(table: dict[str, Any]) -> dict[str, Any]:
    """What ns-2 of that month did, all at once, as far as the main reading does not."""
    queue = table["bottleneck"]["queue"]
    if queue["kind"] == "drop-tail":
        queue["limit"] = f"{int(queue['limit'][:-1]) - 1}p"
    return queue_with("rio-ps", total_average="in-arrivals")(table)


def _trying(name: str, what: str, change: Change) -> tuple[Variant]:
    """The one other answer that is tried."""
    return (Variant(name=name, what=what, change=change),)


DECISIONS = (
    Decision(
        question="Unit of file sizes",
        decision="Packets of 500 B: bounded Pareto of shape 1.2 from 4 to 200 000 packets.",
        reason="As bytes every file would be one packet; ns-2's Web traffic counts packets, the mean "
        "is then the usual 10 kB, and the published figures' axis goes to 10 000.",
    ),
    Decision(
        question="Line and round trip",
        decision="10 Mb/s and 80 ms (Exp 1), 6 Mb/s and 80 ms (Exp 2).",
        reason="They give the published bandwidth-delay products, 200 and 120 packets of 500 B. "
        "Neither is published itself; the goodput in Table IV as we remember it fits 10 Mb/s.",
    ),
    Decision(
        question="Round-trip times",
        decision="80 ms for everybody.",
        reason="The link delays between servers, routers and clients are not published. Round trips "
        "from 40 to 120 ms are among the sensitivity runs.",
        variants=_trying(
            "round trips differ",
            "Round trips of Web flows between 40 and 120 ms; of foreground flows 80 ms.",
            _different_rtts,
        ),
    ),
    Decision(
        question="Load",
        decision="As many users as make Web files need 90 % of the line; foreground flows come on top.",
        reason="The number of users is not published; the 90 % are from weak memory of the paper. All that "
        "is offered arrives in the end, whatever the queue, so that goodput (MI-10.2) can hardly differ "
        "unless users wait for their pages, as they do in a sensitivity run.",
    ),
    Decision(
        question="Think time and object gap",
        decision="Exponential, 9.5 s from the start of a page to the next and 50 ms between objects.",
        reason="Both means are from memory of the paper. ns-2 of 2001 counted from start to start; "
        "thinking from the end of a page on is among the sensitivity runs.",
        variants=_trying(
            "thinking after the page",
            "A user thinks from the end of a page on: congestion slows requests (closed loop).",
            {"traffic.web.think_from": "page-end"},
        ),
    ),
    Decision(
        question="Law of the threshold L_t",
        decision="20 packets at first; every 10 s half of it if more than three flows are short for each "
        "long one, or none is long, else five more; never below 1 or above 1000.",
        reason="Ratio and periods are published, steps and bounds are not. A fixed threshold and a quantile "
        "are among the sensitivity runs, and a table compares them where all traffic is of one class.",
        variants=(
            Variant(
                name="L_t = 20 for good",
                what="The edge's threshold is 20 packets and is not steered.",
                change=LAWS["static, 20 packets"],
            ),
            Variant(
                name="L_t by quantile",
                what="The edge's threshold is the quantile of the counts that gives the wanted ratio.",
                change=LAWS["quantile"],
            ),
        ),
    ),
    Decision(
        question="When the edge forgets a flow",
        decision="At scans every second (T_u): a flow unseen since the last scan is forgotten.",
        reason="The period is published, not how it is used. Forgetting a flow when it has been silent "
        "for a second is among the sensitivity runs.",
        variants=_trying(
            "flows forgotten at age",
            "The edge forgets a flow when it has been silent for 1 s, not at the scan after that.",
            LAWS["steered, flows forgotten at age"],
        ),
    ),
    Decision(
        question="RIO's average of all packets",
        decision="Moves with every arrival.",
        reason="That is the paper's law. In ns-2's rio.cc it moves with short packets only; whether "
        "the paper's runs had that is unknown, and it is among the sensitivity runs.",
        variants=_trying(
            "ns-2's average",
            "The average of all packets moves only when a short one arrives, as in ns-2's rio.cc.",
            queue_with("rio-ps", total_average="in-arrivals"),
        ),
    ),
    Decision(
        question="ECN",
        decision="All flows use it under RED and RIO-PS. A packet is marked instead of dropped while the "
        "average is below max_th; a SYN is dropped even then.",
        reason="Table III has ecn on; ns-2 of 2001 dropped above max_th and did not let SYNs be marked.",
    ),
    Decision(
        question="TCP",
        decision="NewReno as in ns-2 of June 2001, initial window 2, no delayed acknowledgements, window "
        "128, ticks of 100 ms, least time-out 1 s.",
        reason="Table III where it speaks; the rest is what ns-2 had.",
        variants=_trying("ITO 1 s", "An initial time-out of 1 s.", tcp_with({"rto.initial": "1s"})),
    ),
    Decision(
        question="Hosts",
        decision="Answer at once.",
        reason="ns-2's hosts did unless overhead_ was set, of which nothing is said. Users who come at "
        "random leave no room for phase effects; hosts that hesitate are among the sensitivity runs.",
        variants=_trying(
            "hosts hesitate",
            "Hosts look at a packet after a random time of up to 0.4 ms, one packet on the line.",
            {"host": None},
        ),
    ),
    Decision(
        question="Simulator",
        decision="The paper's laws, not what ns-2 made of them.",
        reason="The paper used ns-2, and was published in 2001; its own code is not to be had. Parameters of "
        "TCP, hosts without overhead_, think times from start to start and the rule of marks are those of "
        "ns-2 of June 2001 already. What else is known of it is tried together in a sensitivity run; the "
        "phase of its clocks and its order of simultaneous events are not known.",
        variants=_trying(
            "as ns-2 came in June 2001",
            "All at once: the average of all packets moves only when a short one arrives, and Drop "
            "Tail holds one packet less than its limit.",
            _of_june_2001,
        ),
    ),
    Decision(
        question="Buffers",
        decision="Drop Tail 1.5 bandwidth-delay products, RED and RIO-PS 2.5, as published.",
        reason="The same buffer for all is among the sensitivity runs.",
        variants=_trying("same buffer", "Drop Tail, too, has 2.5 bandwidth-delay products.", _same_buffer),
    ),
    Decision(
        question="Exp 2",
        decision="Two set-ups: files of 4 to 20 packets with the short foreground flows only, and files of "
        "at least 100 packets with the long ones only.",
        reason="The traffic is said to be unbalanced, so that a link sees almost only short or only long "
        "requests; by how much is from weak memory.",
    ),
    Decision(
        question="Length",
        decision="4000 s, of which the first 2000 s are warm-up.",
        reason="As published. The mean time of short files does not depend on which half of a run is "
        "measured, which a table shows.",
    ),
    Decision(
        question="Margins",
        decision="Not worse is at most 5 % slower (MI-6, MI-12.3), half a percent less goodput in Exp 1 "
        "(MI-10.2) and 2 % in Exp 2 (MI-12.3), 0.02 of Jain's index (MI-8), 2 % more drops and marks "
        "(MI-11.2).",
        reason="Nothing is published. Each is a fraction of what short flows gain.",
    ),
    Decision(
        question="Set-up of Table I",
        decision="Of a search, among patterns whose demand is fixed, the one whose goodput under Drop "
        "Tail is nearest to the published: every 10 s ten sources begin a flow of 100 packets "
        "each, but for those that have not finished their last one; RTT 160 ms; a buffer of "
        "half a bandwidth-delay product for Drop Tail and 5/3 of that for the others.",
        reason="Only link speeds, classes and goodput are published. If short flows came whatever the "
        "network does, Drop Tail could not keep them at 82 % of their demand; if they simply "
        "followed each other, RED and RIO-PS would not both end at 49 990. The search is in two "
        "tables of the report: distances, and our goodput beside the published.",
    ),
    Decision(
        question="Response time",
        decision="From sending the SYN to the last byte in order.",
        reason="A lost SYN is what the initial time-out is about. Requests are not simulated.",
    ),
    Decision(
        question="Jain's index",
        decision="Over the rates (size over time) of the ten flows of a batch; flows not finished count "
        "with their time so far.",
        reason="The index and the batches are published, what goes into it is not.",
    ),
    Decision(
        question="Drop and mark rate over time",
        decision="Packets dropped or marked per packet that came to the queue, in bins of 1 s, from the "
        "counters that the samples of the queue carry.",
        reason="The talk divides by arriving packets; the length of its bins is not known.",
    ),
)
