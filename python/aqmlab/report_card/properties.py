"""The properties of a queue that a card describes, and the measures and scenarios that show each property.

Measures that show the same property in several scenarios are grouped, so that each property counts once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aqmlab.report_card.experiments import MEDIUM, PARAMETERS, SECTIONS, WITH_ECN, WITHOUT_ECN
from aqmlab.report_card.queues import REFERENCE
from aqmlab.results.labels import Labels

Better = Literal["less", "more", ""]
"""Direction that is better, or an empty string if the card only describes the measure."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Measures of a scenario that a property compares."""

    section: str
    measures: tuple[str, ...]
    """Names of measures, `WORKLOAD.MEASURE`."""
    better: Better
    against: str = ""
    """Measure of the same queue with which the property is compared, or an empty string for the same
    measure."""
    ends: tuple[Labels, Labels] | None = None
    """Labels of a point, and labels of the same queue's point with which this point is compared. `None` means
    a comparison with Drop Tail in the same scenario."""


@dataclass(frozen=True, kw_only=True)
class Property:
    """One property of a queue, which several scenarios show."""

    name: str
    about: str
    compared: tuple[Compared, ...]
    reference: str = REFERENCE
    """Name of the reference with which the property's values are compared."""

    @property
    def id(self) -> str:
        """The ID of the property's claim and table."""
        return self.name.replace(" ", "-")

    @property
    def title(self) -> str:
        """The name as a heading."""
        return f"{self.name[0].upper()}{self.name[1:]}"

    @property
    def beside_drop_tail(self) -> bool:
        """Whether the property compares queues with Drop Tail."""
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
        about="Mean wait of packets of bulk transfers in the queue (sections 2.6, 5.1.1, 5.2, 8.2, 9.2 "
        "and 10.2).",
        compared=(
            *_each(_BULK, ["long.delay"], "less"),
            *_each(["9.2"], ["down.delay", "up.delay"], "less"),
            *_each(["10.2"], ["a.delay", "b.delay"], "less"),
        ),
    ),
    Property(
        name="delay variation",
        about="Wait of packets of bulk transfers minus the minimum wait, 95th percentile (section "
        "2.6, and PDV of RFC 5481).",
        compared=_each(_BULK, ["long.variation"], "less"),
    ),
    Property(
        name="goodput",
        about="Goodput of bulk transfers (sections 2.5, 5.1.1, 5.2, 8.2, 9.2 and 10.2).",
        compared=(
            *_each(_BULK, ["long.goodput"], "more"),
            *_each(["9.2"], ["down.goodput", "up.goodput"], "more"),
            *_each(["10.2"], ["a.goodput", "b.goodput"], "more"),
        ),
    ),
    Property(
        name="losses",
        about="Share of packets that the queue drops (section 2.3). A shorter queue shortens the round-trip"
        " time, and TCP then needs more losses for the same rate.",
        compared=_each(_CONGESTED, ["long.drops"], "less"),
    ),
    Property(
        name="loss patterns",
        about="Number of consecutive packets that a flow loses, and share of the flows that lose packets "
        "within one round trip (sections 2.3 and 2.4).",
        compared=_each(_CONGESTED, ["long.run", "long.synchronisation"], "less"),
    ),
    Property(
        name="interval between losses",
        about="Median time between two losses at the queue (section 2.3). The card only describes this "
        "interval, because neither direction is better.",
        compared=_each(_CONGESTED, ["long.gap"], ""),
    ),
    Property(
        name="short flows",
        about="Start-up time and completion time of a flow of 100 packets that competes with a long flow "
        "(sections 2.1, 2.2 and 5.1.2).",
        compared=_each(["5.1.2"], ["short.start-up", "short.mean-time"], "less"),
    ),
    Property(
        name="pages",
        about="Time to load a page of 50 objects: alone, next to a bulk transfer, and in the mix "
        "(sections 7.2 and 9.1).",
        compared=_each(["7.2", "9.1"], ["pages.mean-page"], "less"),
    ),
    Property(
        name="datagrams",
        about="Wait of packets that are sent at a constant rate, and the variation of these waits (sections "
        "7.2 and 9.1).",
        compared=_each(["7.2", "9.1"], ["cbr.delay", "cbr.variation"], "less"),
    ),
    Property(
        name="calls",
        about="Opinion score (ITU-T G.107) at the worse end of a call (section 9.1).",
        compared=_each(["9.1"], ["calls.least-mos"], "more"),
    ),
    Property(
        name="video",
        about="Bit rate of an adaptive video, and its stalled time (sections 7.2 and 9.1).",
        compared=(
            *_each(["7.2", "9.1"], ["film.bit-rate"], "more"),
            *_each(["7.2", "9.1"], ["film.stalled"], "less"),
        ),
    ),
    Property(
        name="TCP beside a flood",
        about="Goodput of a NewReno flow that competes with unresponsive datagrams at 80 % of the link "
        "rate, and the wait of the flow's packets (section 5.3).",
        compared=(
            *_each(["5.3b"], ["long.goodput"], "more"),
            *_each(["5.3b"], ["long.delay"], "less"),
        ),
    ),
    Property(
        name="flood",
        about="Unresponsive datagrams, alone and together with the flow (section 5.3). The card only "
        "describes these values: a queue that isolates flows delays a flood, so neither direction is "
        "better.",
        compared=(
            *_each(["5.3a", "5.3b"], ["datagrams.delay"], ""),
            *_each(["5.3b"], ["datagrams.goodput"], ""),
        ),
    ),
    Property(
        name="less than best effort",
        about="A LEDBAT flow (target 5 ms, gain 10) next to a NewReno flow (section 5.4). The card only "
        "describes these values: the RFC reports that AQM can remove LEDBAT's lower priority, and"
        " sets no requirement.",
        compared=_each(["5.4"], ["background.goodput", "long.goodput", "long.delay"], ""),
    ),
    Property(
        name="fairness of round trips",
        about="Lower goodput divided by the higher one, of two flows with different round-trip times "
        "(section 6.2).",
        compared=_each(["6.2"], ["all.parity"], "more"),
    ),
    Property(
        name="fairness of controls",
        about="Lower goodput divided by the higher one, of a NewReno flow and a CUBIC flow (section 6).",
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
        about="Losses of packets of 500 B compared with losses of packets of 1500 B (section 4.4). Here a "
        "standard states a limit: network equipment should not take the size of a packet into account when "
        "it drops packets (RFC 7141, BCP 41). *Alike* complies with BCP 41. *Less* means that the queue "
        "drops fewer small packets, for example because the queue shares the link between flows by bytes.",
        compared=(Compared(section="4.4", measures=("small.drops",), better="", against="large.drops"),),
        reference="1500 B",
    ),
    Property(
        name="ECN",
        about="Two flows with ECN compared with the same flows without ECN (section 4.5): losses, delays and "
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
        "at double its value (section 8.3). *Alike* means that the parameter has little effect in this "
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
"""The properties in the table of all queues."""

NUMBERS = Compared(section=MEDIUM, measures=("long.goodput", "long.variation", "long.drops"), better="")
"""The numbers in the table of all queues, which are measured on the symmetric link."""

NOTES: Mapping[str, str] = {
    "cake": "A single flow can collapse with equal room; the runs of a scenario then fall into two groups."
    " A slow start that overflows the small `memlimit` raises BLUE's drop probability by 1/256, at most once "
    "per 5 ms. Nothing lowers this probability again, because CAKE only lowers it if the queue of a flow is "
    "empty while other flows wait. BLUE therefore drops packets of the single flow for the rest of the run. "
    "With its shipped defaults the queue has more room.",
    "cobalt": "Runs of a scenario can fall into two groups. A slow start that overflows the room raises "
    "BLUE's drop probability by 1/256, at most once per 5 ms, and nothing lowers this probability again, as "
    "with a single flow in CAKE. All flows share one queue, so BLUE drops packets of all flows for the rest "
    "of the run.",
    "dualpi2": "No sender of these scenarios sends ECT(1), so there is no L4S traffic. The card describes "
    "the Classic queue of DualPI2 only.",
    "fq": "The kernel's fq is designed for the link of a sender whose sockets set pacing rates. No "
    "sender in these scenarios sets a pacing rate.",
    "gred": "An edge router classifies packets by the number of bytes that their flow has sent. GRED has no "
    "common limit for all classes: each of the two virtual queues in use has the full room.",
    "rio": "An edge router classifies packets by the bytes that their flow has sent, short flows first.",
    "rio-ps": "An edge router classifies packets by the bytes that their flow has sent, short flows first.",
}
"""Notes that a reader needs to interpret the card, by kind of queue."""
