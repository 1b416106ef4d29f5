"""The properties of a queue that a card describes, and the measures of which scenarios show each.

Measures that show one property in many scenarios stand together, so that a property counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aqmlab.report_card.experiments import MEDIUM, PARAMETERS, SECTIONS, WITH_ECN, WITHOUT_ECN
from aqmlab.report_card.queues import REFERENCE
from aqmlab.results.labels import Labels

Better = Literal["less", "more", ""]
"""Which direction is better; nothing where the card describes only."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Measures of a scenario that a property compares."""

    section: str
    measures: tuple[str, ...]
    """`WORKLOAD.WHAT`."""
    better: Better
    against: str = ""
    """The measure of the same queue to compare with; nothing for the same measure."""
    ends: tuple[Labels, Labels] | None = None
    """Labels, and those of the point of the same queue to compare with; nothing for Drop Tail in the same
    scenario."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """One property of a queue, which several scenarios show."""

    name: str
    about: str
    compared: tuple[Compared, ...]
    reference: str = REFERENCE
    """The other side of the comparison, in words."""

    @property
    def id(self) -> str:
        """The id of its claim and of its table."""
        return self.name.replace(" ", "-")

    @property
    def title(self) -> str:
        """Its name as a heading."""
        return f"{self.name[0].upper()}{self.name[1:]}"

    @property
    def beside_drop_tail(self) -> bool:
        """Whether queues are compared with Drop Tail."""
        return self.reference == REFERENCE


def _each(sections: Sequence[str], measures: Sequence[str], better: Better) -> tuple[Compared, ...]:
    return tuple(Compared(section=one, measures=tuple(measures), better=better) for one in sections)


_CONGESTED = ("8.2.2", "8.2.3", "8.2.4")
_BULK = ("5.1.1", "5.2", *_CONGESTED, "8.2.5", "8.2.6")
_OTHER = tuple(one.number for one in SECTIONS if one.number.startswith(("3.2-", "12-")))
_ECN = ({"ecn": WITH_ECN}, {"ecn": WITHOUT_ECN})

PROPERTIES = (
    Property(
        name="queueing delay",
        about="How long packets of bulk transfers wait on average (sections 2.6, 5.1.1, 5.2, 8.2, 9.2 "
        "and 10.2).",
        compared=(
            *_each(_BULK, ["long.delay"], "less"),
            *_each(["9.2"], ["down.delay", "up.delay"], "less"),
            *_each(["10.2"], ["a.delay", "b.delay"], "less"),
        ),
    ),
    Property(
        name="delay variation",
        about="The wait of packets of bulk transfers beyond the least wait, 95th percentile (section "
        "2.6, and PDV of RFC 5481).",
        compared=_each(_BULK, ["long.variation"], "less"),
    ),
    Property(
        name="goodput",
        about="The goodput of bulk transfers (sections 2.5, 5.1.1, 5.2, 8.2, 9.2 and 10.2).",
        compared=(
            *_each(_BULK, ["long.goodput"], "more"),
            *_each(["9.2"], ["down.goodput", "up.goodput"], "more"),
            *_each(["10.2"], ["a.goodput", "b.goodput"], "more"),
        ),
    ),
    Property(
        name="losses",
        about="The share of packets that the queue drops (section 2.3). A shorter queue makes the round"
        " trip shorter, and TCP then needs more losses for the same rate.",
        compared=_each(_CONGESTED, ["long.drops"], "less"),
    ),
    Property(
        name="loss patterns",
        about="How many packets a flow loses in a row, and which share of the flows lose within one "
        "round trip (sections 2.3 and 2.4).",
        compared=_each(_CONGESTED, ["long.run", "long.synchronisation"], "less"),
    ),
    Property(
        name="interval between losses",
        about="The median time between two losses at the queue (section 2.3). The card describes this "
        "interval: neither direction is better.",
        compared=_each(_CONGESTED, ["long.gap"], ""),
    ),
    Property(
        name="short flows",
        about="The start-up time and the completion time of a flow of 100 packets beside a long one "
        "(sections 2.1, 2.2 and 5.1.2).",
        compared=_each(["5.1.2"], ["short.start-up", "short.mean-time"], "less"),
    ),
    Property(
        name="pages",
        about="The time to load a page of 50 objects: alone, beside a bulk transfer, and in the mix "
        "(sections 7.2 and 9.1).",
        compared=_each(["7.2", "9.1"], ["pages.mean-page"], "less"),
    ),
    Property(
        name="datagrams",
        about="How long packets at a constant rate wait, and how much their waits vary (sections 7.2 "
        "and 9.1).",
        compared=_each(["7.2", "9.1"], ["cbr.delay", "cbr.variation"], "less"),
    ),
    Property(
        name="calls",
        about="The opinion score (ITU-T G.107) at the end of a call that hears worse (section 9.1).",
        compared=_each(["9.1"], ["calls.least-mos"], "more"),
    ),
    Property(
        name="video",
        about="The bit rate of an adaptive video, and how long the video stalls (sections 7.2 and 9.1).",
        compared=(
            *_each(["7.2", "9.1"], ["film.bit-rate"], "more"),
            *_each(["7.2", "9.1"], ["film.stalled"], "less"),
        ),
    ),
    Property(
        name="TCP beside a flood",
        about="The goodput of a NewReno flow beside datagrams at 80 % of the line, which do not "
        "respond, and how long the packets of the flow wait (section 5.3).",
        compared=(
            *_each(["5.3b"], ["long.goodput"], "more"),
            *_each(["5.3b"], ["long.delay"], "less"),
        ),
    ),
    Property(
        name="flood",
        about="The datagrams that do not respond, alone and beside the flow (section 5.3). The card "
        "describes them: a queue that isolates flows lets a flood wait, so neither direction is "
        "better.",
        compared=(
            *_each(["5.3a", "5.3b"], ["datagrams.delay"], ""),
            *_each(["5.3b"], ["datagrams.goodput"], ""),
        ),
    ),
    Property(
        name="less than best effort",
        about="A LEDBAT flow (target 5 ms, gain 10) beside a NewReno flow (section 5.4). The card "
        "describes them: the RFC reports that AQM can take the lower priority of LEDBAT away, and"
        " demands nothing.",
        compared=_each(["5.4"], ["background.goodput", "long.goodput", "long.delay"], ""),
    ),
    Property(
        name="fairness of round trips",
        about="The lower goodput over the higher one, of two flows with different round trips (section 6.2).",
        compared=_each(["6.2"], ["all.parity"], "more"),
    ),
    Property(
        name="fairness of controls",
        about="The lower goodput over the higher one, of a NewReno flow and a CUBIC flow (section 6).",
        compared=_each(["6"], ["all.parity"], "more"),
    ),
    Property(
        name="other rooms and rates",
        about="Medium congestion with room for a quarter of the bandwidth-delay product and for four "
        "products (section 3.2), and at 1 and 100 Mb/s without a change of parameters (section "
        "12).",
        compared=(
            *_each(_OTHER, ["long.delay"], "less"),
            *_each(_OTHER, ["long.goodput"], "more"),
        ),
    ),
    Property(
        name="bias by packet size",
        about="The losses of packets of 500 B beside those of 1500 B (section 4.4). Here a standard "
        "states a limit: network equipment should not take the size of a packet into account when"
        " it drops packets (RFC 7141, BCP 41). *Alike* meets BCP 41; *less* says that the queue "
        "spares small packets, as does one that shares the line between flows by bytes.",
        compared=(Compared(section="4.4", measures=("small.drops",), better="", against="large.drops"),),
        reference="1500 B",
    ),
    Property(
        name="ECN",
        about="Two flows with ECN beside the same flows without ECN (section 4.5): losses, delays and "
        "goodput.",
        compared=(
            Compared(
                section="4.5", measures=("all.drops", "first.delay", "second.delay"), better="less", ends=_ECN
            ),
            Compared(section="4.5", measures=("all.goodput",), better="more", ends=_ECN),
        ),
        reference="without ECN",
    ),
    Property(
        name="parameters",
        about="Delay, goodput and losses under medium congestion with each main parameter at half and "
        "at double (section 8.3). *Alike* says that the parameter hardly matters in this "
        "scenario.",
        compared=_each([PARAMETERS], ["long.delay", "long.goodput", "long.drops"], ""),
        reference="defaults",
    ),
)

OVERVIEW = (
    "queueing delay",
    "delay variation",
    "goodput",
    "losses",
    "short flows",
    "pages",
    "calls",
    "video",
    "TCP beside a flood",
    "fairness of round trips",
    "bias by packet size",
    "ECN",
)
"""The properties that the table over all queues shows."""

NUMBERS = Compared(section=MEDIUM, measures=("long.goodput", "long.variation", "long.drops"), better="")
"""What the table over all queues shows in numbers, on the symmetric line."""

NOTES: Mapping[str, str] = {
    "cake": "A lone flow can collapse with equal room, and then the runs of a scenario fall into two groups."
    " A slow start that overflows the small `memlimit` raises the probability of BLUE by 1/256, at most once "
    "in 5 ms, and nothing lowers this probability again: CAKE lowers it only where the queue of a flow is "
    "empty while other flows wait. So BLUE drops packets of the lone flow for the rest of the run. The "
    "column as shipped has more room.",
    "cobalt": "Runs of a scenario can fall into two groups. A slow start that overflows the room raises the "
    "probability of BLUE by 1/256, at most once in 5 ms, and nothing lowers this probability again, as in the"
    " only flow of a CAKE. All flows share the one queue, so BLUE drops packets of all of them for the rest "
    "of the run.",
    "dualpi2": "No L4S sender takes part: no sender of these scenarios sends ECT(1). The card describes "
    "the Classic queue of DualPI2, and says nothing of L4S traffic.",
    "fq": "The kernel's fq is made for the line of a sender whose sockets set pacing rates. No "
    "sender here does.",
    "gred": "An edge classifies packets by the length of their flow so far. GRED has no limit for all"
    " classes together: each of the two virtual queues in use has the room by itself.",
    "rio": "An edge classifies packets by the length of their flow so far, the short flows first.",
    "rio-ps": "An edge classifies packets by the length of their flow so far, the short flows first.",
}
"""By kind, what a reader must know of the scenarios."""
