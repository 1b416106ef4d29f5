"""The scenarios of RFC 7928 as experiments. The values of the axis `queue` are Drop Tail and the columns of a
card.

If the RFC does not specify a number, the number is taken from ns-3's suite of the same scenarios (round-trip
times of 100 ms, initial windows of 3 segments, a short flow of 100 packets). The link rate is 10 Mb/s."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqmlab.measures import Measure
from aqmlab.report_card import network, parameters, queues
from aqmlab.report_card.measures import several
from aqmlab.report_card.network import DOWN, LINES, UP, Table, scenario
from aqmlab.report_card.queues import EQUAL, REFERENCE, REFERENCE_TABLE, ROOMS, SHIPPED
from aqmlab.results.labels import Value
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep.sweep import Change, Changes, applied

SEEDS = 8
QUICK_SEEDS = 3

CUBIC = {"congestion_control": {"kind": "cubic"}}

LEDBAT = {"congestion_control": {"kind": "ledbat", "target": "5ms", "gain": 10}}
"""A LEDBAT sender, which has less-than-best-effort priority, with the target delay and the gain that section
5.4 recommends."""


def window(segments: int) -> Table:
    """Returns the setting for an initial window of this number of segments (`IW`)."""
    return {"cwnd": {"initial": segments}}


def long(flows: int = 1, **more: Any) -> Table:
    """Returns flows that always have data to send."""
    return {"kind": "ftp", "flows": flows, "stagger": "1s", **more}


SMALL, LARGE = 500, 1500
"""Packet sizes in bytes (section 4.4), including headers."""


def packets_of(size: int) -> Table:
    """Returns TCP settings for full packets of this size in bytes, with timestamps enabled as in Linux."""
    return {"connection": {"mss": f"{size - 52}B", "header": "52B"}}


ROUND_TRIPS_MS = (5, 20, 50, 100, 200, 560)
"""Round-trip times of the second flow in milliseconds (section 6.2)."""
NEAREST_MS = 4.0

SHARES = {"mild": 0.036, "medium": 0.081, "heavy": 0.114}
"""Number of flows for each packet that fits into the path and the path's buffer (sections 8.2.2 to 8.2.4)."""

PROJECTED_LOSS = {"8.2.2": 0.1, "8.2.3": 0.5, "8.2.4": 1.0}
"""Projected packet loss of these flows in percent (section 8.2.1), by section."""


def congesting(word: str, rate_mbps: float = network.RATE_MBPS) -> int:
    """Returns the number of flows that cause this kind of congestion."""
    path = rate_mbps * 1e3 * network.ROUND_TRIP_MS / 8 / network.PACKET
    return max(1, round(SHARES[word] * (path + math.ceil(path))))


def _two_flows() -> Table:
    """Returns a network with two flows. The first flow has a round-trip time of 100 ms (section 6.2)."""
    extra = (network.ROUND_TRIP_MS - NEAREST_MS) / 2
    return scenario(
        {"first": long(extra_delay=f"{extra:g}ms"), "second": long()},
        round_trip_ms=NEAREST_MS,
        longest_ms=max(ROUND_TRIPS_MS),
        duration_s=120.0,
        warm_up_s=20.0,
    )


def _second_round_trip(round_trip_ms: float) -> Table:
    extra = (round_trip_ms - NEAREST_MS) / 2
    return {"traffic.second.extra_delay": f"{extra:g}ms"}


def _in_series() -> Table:
    """Returns a network with two routers. Packets of senders A pass through both routers, and packets of
    senders B only through the second router (section 10.2)."""
    table = scenario({}, packets=("first", "second"))
    link = table["links"][DOWN]
    half = {**link, "delay": f"{network.ROUND_TRIP_MS / 4 - network.HOST_MS:g}ms"}
    table["links"] = {
        "first": {**half, "from": "a", "to": "b", "both_ways": True},
        "second": {**half, "from": "b", "to": "c", "both_ways": True},
    }
    flows = congesting("mild")
    table["traffic"] = {
        "a": long(flows // 2, **{"from": "a", "to": "c"}),
        "b": long(flows - flows // 2, **{"from": "b", "to": "c"}),
    }
    return table


def _with_ecn(table: Table) -> Table:
    for link in table["links"].values():
        link["queue"] = queues.with_ecn(link["queue"]) or link["queue"]
    table["tcp"]["ecn"] = {"mode": "on"}
    return table


WITHOUT_ECN, WITH_ECN = "without ECN", "with ECN"

ECN = Changes({WITHOUT_ECN: {}, WITH_ECN: _with_ecn})
"""Axis that states whether senders and the queue use ECN."""

PHASE_S = 20
"""Duration of a phase with constant congestion or capacity, in seconds (sections 8.2.5 and 8.2.6)."""


def _users(count: int, phase: int) -> dict[str, Table]:
    """Returns `count` users who fetch one file after another in every third phase, beginning with this
    phase."""
    file = {
        "kind": "sessions",
        "users": count,
        "objects": constant(1),
        "sizes": constant("250kB"),
        "think_time": constant("10ms"),
        "think_from": "page-end",
        "hosts": count,
    }
    begins = (phase * PHASE_S, (phase + 3) * PHASE_S)
    return {
        f"more-{begin}": {**file, "start": f"{begin}s", "stop": f"{begin + PHASE_S}s"} for begin in begins
    }


FAST_MBPS, SLOW_MBPS = 100.0, 10.0
"""The two capacities of the varying link in Mb/s (section 8.2.6)."""


def _varying(phase: str, period: str) -> Table:
    """Returns a network whose link alternates periodically between a fast phase and a slow phase of the same
    duration."""
    rates = (("0s", FAST_MBPS), (phase, SLOW_MBPS))
    return {
        f"links.{DOWN}.rate_steps": [{"at": at, "rate": f"{rate:g}Mbps"} for at, rate in rates],
        f"links.{DOWN}.rate_repeat": period,
    }


CAPACITY = Changes({"20 s": _varying(f"{PHASE_S}s", f"{2 * PHASE_S}s"), "100 ms": _varying("100ms", "200ms")})
"""Durations for which the link keeps each of its rates."""


def constant(value: Any) -> Table:
    """Returns a distribution with a single value."""
    return {"kind": "constant", "value": value}


def _pages(users: int) -> Table:
    """Returns users who load a page, look at the page for a second and then load the next page. A page has at
    least 50 objects of at least 1 kB, which are fetched over six connections with initial windows of ten
    packets (section 7.2)."""
    return {
        "kind": "sessions",
        "users": users,
        "hosts": users,
        "request": "300B",
        "connections": 6,
        "objects": constant(50),
        "object_gap": constant("0s"),
        "sizes": {"kind": "lomax", "shape": 1.2, "mean": "12kB", "minimum": "1kB", "maximum": "500kB"},
        "think_time": constant("1s"),
        "think_from": "page-end",
        "tcp": window(10),
    }


CBR: Table = {"kind": "udp", "rate": "500kbps"}
"""A workload that sends datagrams at a constant rate."""

FILM: Table = {"kind": "video", "tcp": window(10)}
"""A workload with one viewer of an adaptive video, who fetches segments of 4 s one after another."""

CASES = {
    "I": ("pages", "cbr"),
    "II": ("pages", "cbr", "long"),
    "III": ("film", "pages", "cbr"),
    "IV": ("film", "pages", "cbr", "long"),
}
"""The workloads of each case in section 7.2, figure 2."""


def _only(*workloads: str) -> Callable[[Table], Table]:
    def change(table: Table) -> Table:
        return {**table, "traffic": {name: table["traffic"][name] for name in workloads}}

    return change


def _mix() -> Table:
    """Returns a network with one call in both directions, six users who load pages, one CBR flow, one
    adaptive video and five bulk transfers (section 9.1)."""
    table = scenario(
        {
            "calls": {"kind": "call"},
            "pages": _pages(6),
            "cbr": CBR,
            "film": FILM,
            "long": long(5),
        }
    )
    table["record"]["histories"] = ["calls"]
    return table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of RFC 7928 and its scenario."""

    number: str
    """Number of the RFC's section, with a suffix if several scenarios belong to one section."""
    title: str
    scenario: Mapping[str, Any]
    measures: tuple[Measure | str, ...]
    axes: Mapping[str, Mapping[Value, Any]] = field(default_factory=dict)
    """Axes in addition to the axis of queues."""
    last: Mapping[str, Changes] = field(default_factory=dict)
    """Axes whose changes are applied after the queue is set."""
    quick: Mapping[str, Sequence[Value]] | None = None
    """Values of the axes in the quick form."""
    rooms: tuple[str, ...] = ROOMS
    """Columns of a card for which the scenario is measured."""
    only_marking: bool = False
    """Whether the scenario allows only queues that can mark packets."""

    def experiment(self, queue: Table, seeds: int = SEEDS) -> Experiment | None:
        """Returns the experiment of the section, or `None` if no column is possible for the queue. The values
        of the axis `queue` are Drop Tail and each column that the queue can have."""
        rooms = [room for room in self.rooms if self.refusal(queue, room) is None]
        if not rooms:
            return None
        there = [REFERENCE, *rooms] if self.refusal(REFERENCE_TABLE, EQUAL) is None else rooms
        missing = [f"'{one}'" for one in (REFERENCE, *ROOMS) if one not in there]
        tables = {REFERENCE: (REFERENCE_TABLE, EQUAL)} | {room: (queue, room) for room in ROOMS}
        systems = Changes({name: queues.at_every_link(*one) for name, one in tables.items()})
        return Experiment(
            name=f"rfc7928-{self.number}",
            title=self.title,
            scenario=self.scenario,
            axes={**self.axes, "queue": systems, **self.last},
            measures=self.measures,
            seeds=seeds,
            most_seeds=seeds,
            quick=Form(seeds=min(seeds, QUICK_SEEDS), axes=self.quick or {}),
            where=f"queue NOT IN ({', '.join(missing)})" if missing else None,
        )

    def labels_of(self, traffic: str) -> dict[str, list[Value]]:
        """Returns, for each axis that removes a workload at some of its values, the values of the axis at
        which the workload is present."""
        there = {
            label: [
                at for at, made in axis.items() if traffic in applied(dict(self.scenario), made)["traffic"]
            ]
            for label, axis in self.axes.items()
            if traffic in self.scenario["traffic"]
        }
        return {label: values for label, values in there.items() if len(values) < len(self.axes[label])}

    def refusal(self, queue: Table, room: str) -> str | None:
        """Returns the reason why a queue cannot be used in this scenario with the room of a column, or `None`
        if the queue can be used."""
        if self.only_marking and queues.with_ecn(queue) is None:
            return "the queue cannot mark packets, or needs an additional parameter to mark packets"
        try:
            found = (
                queues.refusal(queues.in_room(queue, room, packets), rate) for packets, rate in self._links
            )
            return next((why for why in found if why is not None), None)
        except ValueError as problem:
            return str(problem)

    @property
    def _links(self) -> set[tuple[int, str]]:
        """Returns the room and the rate of every managed link at every point."""
        changes: list[Change] = [{}, *(change for axis in self.axes.values() for change in axis.values())]
        tables = [applied(dict(self.scenario), change) for change in changes]
        return {
            (queues.packets_of(link["queue"]), link["rate"])
            for table in tables
            for link in table["links"].values()
        }

    @property
    def packet_ms(self) -> float:
        """Returns the transmission time of a full packet on the link, in milliseconds."""
        rate = next(iter(self.scenario["links"].values()))["rate"]
        return 8e-3 * network.PACKET / float(rate.removesuffix("Mbps"))


MEDIUM = "8.2.3"
"""The section on medium congestion. Its scenario is also used to vary parameters, and for the numbers in the
table of all queues."""

PARAMETERS = "8.3"
"""The section on the variation of parameters."""


def parameter_experiment(queue: Table, seeds: int = SEEDS) -> Experiment | None:
    """Returns the experiment of section 8.3: medium congestion on the symmetric link, with the queue as
    shipped, and with each main parameter set to half and to double its value. Returns `None` if the queue has
    no main parameter."""
    variants = parameters.variants(queues.shipped(queue), f"{network.RATE_MBPS:g}Mbps").tables
    if not variants:
        return None
    changes = {name: queues.at_every_link(table, SHIPPED) for name, table in variants.items()}
    return Experiment(
        name=f"rfc7928-{PARAMETERS}",
        title="Medium congestion with each main parameter at half and at double",
        scenario=section(MEDIUM).scenario,
        axes={"parameter": Changes(changes)},
        measures=several("long.delay", "long.goodput", "long.drops"),
        seeds=seeds,
        most_seeds=seeds,
        quick=Form(seeds=min(seeds, QUICK_SEEDS)),
    )


def section(number: str) -> Section:
    """Returns the section with this number."""
    return next(one for one in SECTIONS if one.number == number)


def _bulk(*more: str) -> tuple[Measure | str, ...]:
    return several("long.delay", "long.variation", "long.goodput", "long.drops", *more)


SECTIONS = (
    Section(
        number="4.4",
        title="Packets of 500 B and of 1500 B",
        scenario=scenario(
            {
                "small": long(3, tcp=packets_of(SMALL)),
                "large": long(3, tcp=packets_of(LARGE)),
            }
        ),
        axes={"line": LINES},
        measures=several("small.drops", "large.drops", "small.goodput", "large.goodput"),
    ),
    Section(
        number="4.5",
        title="Two flows of different round trips, without and with ECN",
        scenario=_two_flows(),
        axes={"round_trip": Changes({f"{one} ms": _second_round_trip(one) for one in (20, 200)})},
        last={"ecn": ECN},
        only_marking=True,
        measures=several("all.drops", "all.marks", "first.delay", "second.delay", "all.goodput"),
    ),
    Section(
        number="5.1.1",
        title="One NewReno flow",
        scenario=scenario({"long": long(tcp=window(3))}),
        axes={"line": LINES},
        measures=_bulk(),
    ),
    Section(
        number="5.1.2",
        title="A short flow and a long flow",
        scenario=scenario(
            {
                "long": long(tcp=window(3)),
                "short": {"kind": "probes", "flows": 1, "size": "100p", "every": "5s"},
            }
        ),
        axes={
            "line": LINES,
            "first_window": Changes({f"IW {one}": {"traffic.short.tcp": window(one)} for one in (3, 10)}),
        },
        measures=several("short.mean-time", "short.start-up"),
    ),
    Section(
        number="5.2",
        title="One CUBIC flow",
        scenario=scenario({"long": long(tcp=CUBIC)}),
        axes={"line": LINES},
        measures=_bulk(),
    ),
    Section(
        number="5.3a",
        title="Datagrams at 120 % of the link rate",
        scenario=scenario({"datagrams": {"kind": "udp", "rate": "12Mbps"}}),
        axes={"line": LINES},
        measures=several("datagrams.delay", "datagrams.goodput"),
    ),
    Section(
        number="5.3b",
        title="One NewReno flow and datagrams at 80 % of the link rate",
        scenario=scenario({"long": long(), "datagrams": {"kind": "udp", "rate": "8Mbps"}}),
        axes={"line": LINES},
        measures=several("long.goodput", "long.delay", "datagrams.goodput", "datagrams.delay"),
    ),
    Section(
        number="5.4",
        title="One NewReno flow and one LEDBAT flow",
        scenario=scenario({"long": long(), "background": long(tcp=LEDBAT)}),
        axes={"line": LINES},
        measures=several("long.delay", "long.goodput", "background.goodput"),
    ),
    Section(
        number="6",
        title="One NewReno flow and one CUBIC flow",
        scenario=scenario({"long": long(), "cubic": long(tcp=CUBIC)}),
        axes={"line": LINES},
        measures=several("long.goodput", "cubic.goodput", "all.parity"),
    ),
    Section(
        number="6.2",
        title="Two NewReno flows, one with a round-trip time of 100 ms",
        scenario=_two_flows(),
        axes={"round_trip": Changes({f"{one} ms": _second_round_trip(one) for one in ROUND_TRIPS_MS})},
        measures=several("all.parity"),
        quick={"round_trip": ("5 ms", "560 ms")},
    ),
    Section(
        number="7.2",
        title="Bursts: pages and datagrams, with and without video and a bulk transfer",
        scenario=scenario({"pages": _pages(1), "cbr": CBR, "film": FILM, "long": long()}),
        axes={
            "line": LINES,
            "case": Changes({f"case {case}": _only(*workloads) for case, workloads in CASES.items()}),
        },
        measures=several("pages.mean-page", "cbr.delay", "cbr.variation", "film.bit-rate", "film.stalled"),
        quick={"case": ("case I", "case IV")},
    ),
    *(
        Section(
            number=number,
            title=f"{word.capitalize()} congestion",
            scenario=scenario({"long": long(congesting(word))}),
            axes={"line": LINES},
            measures=_bulk("long.gap", "long.run", "long.synchronisation"),
        )
        for number, word in (("8.2.2", "mild"), ("8.2.3", "medium"), ("8.2.4", "heavy"))
    ),
    Section(
        number="8.2.5",
        title="Mild, medium and heavy congestion in turn",
        scenario=scenario(
            {
                "long": long(congesting("mild")),
                **_users(congesting("medium") - congesting("mild"), phase=1),
                **_users(congesting("heavy") - congesting("mild"), phase=2),
            },
            duration_s=6.0 * PHASE_S,
        ),
        axes={"line": LINES},
        measures=_bulk(),
    ),
    Section(
        number="8.2.6",
        title="A link that alternates between 100 Mb/s and 10 Mb/s",
        scenario=scenario(
            {"long": long(congesting("mild", SLOW_MBPS))}, rate_mbps=FAST_MBPS, duration_s=6.0 * PHASE_S
        ),
        axes={"phase": CAPACITY},
        measures=_bulk(),
    ),
    *(
        Section(
            number=f"3.2-{word}",
            title=f"Medium congestion with room for {amount}",
            scenario=scenario({"long": long(congesting("medium"))}, products=products),
            measures=_bulk(),
            rooms=(EQUAL,),
        )
        for word, amount, products in (("little", "1/4 of the product", 0.25), ("much", "4 products", 4.0))
    ),
    *(
        Section(
            number=f"12-{word}",
            title=f"Medium congestion at {rate:g} Mb/s",
            scenario=scenario({"long": long(congesting("medium", rate))}, rate_mbps=rate),
            measures=_bulk(),
            rooms=(EQUAL,),
        )
        for word, rate in (("slow", 1.0), ("fast", 100.0))
    ),
    Section(
        number="9.1",
        title="A mix: a call, pages, datagrams, adaptive video and bulk transfers",
        scenario=_mix(),
        axes={"line": LINES},
        measures=several(
            "calls.least-mos",
            "pages.mean-page",
            "cbr.delay",
            "cbr.variation",
            "film.bit-rate",
            "film.stalled",
            "all.goodput",
        ),
    ),
    Section(
        number="9.2",
        title="Mild congestion in both directions",
        scenario=scenario(
            {
                "down": long(congesting("mild")),
                "up": network.going_up(long(congesting("mild"))),
            },
            packets=(DOWN, UP),
        ),
        axes={"line": LINES},
        measures=several("down.delay", "up.delay", "down.goodput", "up.goodput"),
    ),
    Section(
        number="10.2",
        title="Two queues in series: flows a pass both, flows b only the second",
        scenario=_in_series(),
        measures=several("a.delay", "b.delay", "a.goodput", "b.goodput"),
    ),
)
