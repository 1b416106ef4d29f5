"""The home line of the study `which-queue`: senders, queues, and the orthogonal array of the other factors.

A line has a queue before its link in each direction, and both directions have the same queue discipline.
Three Web users fetch pages from servers at a distance of 10, 30 and 100 ms (round trip), somebody makes a
call, and the household adds a load. The servers and the members of the household use one congestion control
and one setting of ECN.

The array is Bush's orthogonal array with 16 rows, 5 columns, 4 levels and strength 2: any two columns contain
each pair of levels exactly once. A factor with fewer than four values occupies the four levels by repetition,
so that the values of any two factors occur together in proportion to their frequencies. The design is a
product: each sender with each queue runs in every row. Therefore, the effects of sender, ECN and queue, their
interactions, and the interactions of each of them with a single factor of the array are not aliased with each
other. The effect of a factor of the array is aliased with interactions of two other factors of the array, and
its interaction with the queue is aliased with interactions of the queue and two other factors of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aqmlab.study import Decision, Variant
from aqmlab.sweep import Changes

Table = dict[str, Any]

PACKET_BYTES = 1514
"""A full packet in the queue, as the kernel's disciplines count it."""
LONGEST_RTT_S = 0.1
"""The longest round trip without queues. A room of one bandwidth-delay product (BDP) has the size of this
round trip times the rate of the link."""

SECONDS, WARM_UP_S, LAST_PAGE_S = 30, 5, 25
"""Duration of a run, the time after which pages are counted, and the time after which no page begins."""

LINE_RTT_MS = 10
"""Round trip of the line without queues: twice 4 ms of the line and 1 ms of both access links."""
NEAR, MIDDLE, FAR = "near", "middle", "far"
DISTANCES_MS: Mapping[str, int] = {NEAR: 10, MIDDLE: 30, FAR: 100}
"""Round trips of the Web users without queues, by workload."""
USERS = tuple(DISTANCES_MS)

DOWNLINK, UPLINK = LINKS = "downlink", "uplink"
NODES = {DOWNLINK: "internet", UPLINK: "home"}
"""The links, and the node where each begins."""

DOWN, UP, BURSTS, CALL, VIDEO = "down", "up", "bursts", "call", "video"
"""Workloads of the household: a long download, a long upload, repeated transfers, a call and, in one
experiment, a video call."""

CODEC = "g711-plc"
"""G.711, whose receiver conceals losses, as the programs of today do."""

# Senders

CUBIC, CUBIC_ECN, BBR, BBR_ECN, PRAGUE = "CUBIC", "CUBIC+ECN", "BBRv3", "BBRv3+ECN", "Prague"
_KINDS = {
    CUBIC: ("cubic", "off"),
    CUBIC_ECN: ("cubic", "on"),
    BBR: ("bbr3", "off"),
    BBR_ECN: ("bbr3", "on"),
    PRAGUE: ("prague", "on"),
}
SENDERS = tuple(_KINDS)


def transport(sender: str, *, quic: bool = False) -> Table:
    """The transport of a sender: Linux's TCP with pacing, or QUIC."""
    kind, ecn = _KINDS[sender]
    table: Table = {
        "profile": "quic" if quic else "linux-6",
        "congestion_control": {"kind": kind},
        "ecn": {"mode": ecn},
    }
    return table if quic else {**table, "pacing": {"mode": "on"}}


# Queues

DROP_TAIL = "Drop Tail"
CODEL, PIE, RED = "CoDel", "PIE", "RED"
FQ_CODEL, FQ_PIE, CAKE, DUALPI2 = "FQ-CoDel", "FQ-PIE", "CAKE", "DualPI2"

_QUEUES: Mapping[str, Table] = {
    RED: {"kind": "adaptive-red", "ecn": "unless-forced"},
    CODEL: {"kind": "codel", "ecn": True},
    PIE: {"kind": "pie", "ecn": True},
    DUALPI2: {"kind": "dualpi2"},
    FQ_CODEL: {"kind": "fq-codel"},
    FQ_PIE: {"kind": "fq-pie", "ecn": True},
    CAKE: {"kind": "cake"},
}
MANAGED = tuple(_QUEUES)
"""The queues with active management."""
SINGLE, PER_FLOW = MANAGED[:4], MANAGED[4:]
"""Queues with active management that all flows share, and queues with a queue for each flow."""

SHIPPED = "as shipped"
ROOMS: Mapping[str, float | None] = {
    "1/4 BDP": 0.25,
    "1 BDP": 1.0,
    "4 BDP": 4.0,
    "16 BDP": 16.0,
    SHIPPED: None,
}
"""The rooms of the queues in BDPs of the link. `None` is each discipline's own default."""

TAIL = {name: f"{DROP_TAIL} {name}" for name in ROOMS}
"""Drop Tail with each room."""
REFERENCE = TAIL["1 BDP"]
"""The queue to which all other queues are compared."""
QUEUES = (*TAIL.values(), *MANAGED)

LINUX_PACKETS = 1000
"""Linux's default length of an interface's queue (`DEFAULT_TX_QUEUE_LEN`), which is the limit of Drop Tail as
shipped. Adaptive RED, whose limit has no default in `tc`, has the same limit."""

RED_PACKETS = 16
"""Least room of Adaptive RED, whose `min_th` is at least 5 packets and whose `max_th` is three times
`min_th`."""

LEAST_PACKETS = 2
"""Least room in packets: on the slowest uplink, a quarter of a BDP is 2.06 packets."""


def room(rate_bps: float, bdp: float) -> int:
    """The packets that a room of some BDPs has."""
    return max(LEAST_PACKETS, round(bdp * rate_bps * LONGEST_RTT_S / 8 / PACKET_BYTES))


def drop_tail(rate_bps: float, bdp: float | None) -> Table:
    """Drop Tail with a room, or as shipped."""
    return {"kind": "drop-tail", "limit": f"{LINUX_PACKETS if bdp is None else room(rate_bps, bdp)}p"}


def managed(name: str, packets: int | None = None) -> Table:
    """A queue with active management, as shipped or with a limit in packets. CAKE counts memory, of which a
    full packet takes 2304 bytes."""
    table = _QUEUES[name]
    if name == RED:
        return {**table, "limit": f"{LINUX_PACKETS if packets is None else max(packets, RED_PACKETS)}p"}
    if packets is None:
        return dict(table)
    return {**table, "memlimit": f"{2304 * packets}B"} if name == CAKE else {**table, "limit": f"{packets}p"}


# The other factors

RATES_BPS: Mapping[str, tuple[float, float]] = {
    "20/1": (20e6, 1e6),
    "100/10": (100e6, 10e6),
    "1000/50": (1000e6, 50e6),
}
"""The rates of the lines, downstream and upstream."""
FACTORS: Mapping[str, tuple[Any, ...]] = {
    "load": ("nothing", "download", "download and upload", "bursts"),
    "http": ("2", "3", "1.1", "3"),
    "line": ("20/1", "100/10", "1000/50", "100/10"),
    "rtt": (20, 100, 20, 100),
    "room": ("1/4 BDP", "1 BDP", "4 BDP", "16 BDP"),
}
"""The values of the factors at the four levels of the array. HTTP/3 and the line of 100/10 Mb/s have two
levels, because a browser prefers HTTP/3 if the server has it, and because 100 Mb/s is the middle of the three
rates. `rtt` is the round trip (ms) of the household's transfers. `room` is used only by the experiment with
equal limits."""

Row = Mapping[str, Any]
"""The value of each factor in a row of the array."""

_TIMES = ((0, 0, 0, 0), (0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2))
"""Products in the field of four elements, in which the sum is the exclusive or."""


def array() -> list[tuple[int, ...]]:
    """The rows of Bush's array, as levels of the factors: the row of `a` and `b` has the levels `a`, `b` and
    `a + k b` for the three elements k other than zero, in the field of four elements."""
    return [(a, b, *(a ^ _TIMES[k][b] for k in range(1, 4))) for a in range(4) for b in range(4)]


def row_of(levels: Sequence[int]) -> Row:
    """The values of the factors at these levels."""
    return {name: values[level] for (name, values), level in zip(FACTORS.items(), levels, strict=True)}


ROWS: Mapping[str, Row] = {f"row {number}": row_of(levels) for number, levels in enumerate(array(), start=1)}


def rows_with(**values: Any) -> tuple[str, ...]:
    """The rows in which each of these factors has one of these values."""
    return tuple(name for name, row in ROWS.items() if all(row[one] in some for one, some in values.items()))


SLOW_ROWS = tuple(name for name, levels in zip(ROWS, array(), strict=True) if levels[2] < 2)
"""Rows with two of the four levels of the line, which are slower than 1 Gb/s."""

DOWN_ROWS = rows_with(load=("download", "download and upload"))
UP_ROWS = rows_with(load=("download and upload",))
"""Rows with a long download, and with a long upload."""


def user(rtt_ms: int, http: str) -> Table:
    """A Web user who opens a page about every two seconds, at times that do not depend on the network, so
    that all queues get the same pages."""
    return {
        **_from_internet(rtt_ms),
        "kind": "sessions",
        "users": 1,
        "think_time": {"kind": "exponential", "mean": "2s"},
        "think_from": "page-start",
        "objects": {"kind": "discrete-uniform", "minimum": 10, "maximum": 30},
        "object_gap": {"kind": "constant", "value": "0s"},
        "sizes": {"kind": "lognormal", "mean": "25kB", "sigma": 1.318},
        "request": "400B",
        "http": http,
        "tls": True,
        "stop": f"{LAST_PAGE_S}s",
    }


def _from_internet(rtt_ms: int) -> Table:
    """The route of data to the home, with this round trip."""
    return {"from": "internet", "to": "home", "extra_delay": f"{(rtt_ms - LINE_RTT_MS) / 2:g}ms"}


def _household(load: str, rtt_ms: int) -> Table:
    path = _from_internet(rtt_ms)
    long = {"kind": "ftp", "flows": 1, "stagger": "1s"}
    found: Table = {}
    if load.startswith("download"):
        found[DOWN] = {**path, **long}
    if load.endswith("upload"):
        found[UP] = {**path, **long, "from": "home", "to": "internet"}
    if load == "bursts":
        found[BURSTS] = {
            **path,
            "kind": "sessions",
            "users": 1,
            "think_time": {"kind": "exponential", "mean": "1s"},
            "think_from": "page-end",
            "objects": {"kind": "constant", "value": 1},
            "object_gap": {"kind": "constant", "value": "0s"},
            "sizes": {"kind": "uniform", "minimum": "2MB", "maximum": "10MB"},
            "request": "400B",
        }
    return found


def base(row: Row, room_name: str = "1 BDP") -> Table:
    """The line, the pages and the household of a row, with CUBIC, and with Drop Tail of a room in both
    directions."""
    table: Table = {
        "duration": f"{SECONDS}s",
        "warm_up": f"{WARM_UP_S}s",
        "links": {
            name: {
                "from": NODES[name],
                "to": NODES[other],
                "rate": f"{rate_bps / 1e6:g}Mbps",
                "delay": "4ms",
                "queue": drop_tail(rate_bps, ROOMS[room_name]),
            }
            for name, other, rate_bps in zip(LINKS, reversed(LINKS), RATES_BPS[row["line"]], strict=True)
        },
        "access": {"rate": "10Gbps", "delay": "500us"},
        "host": {"jitter": "100us"},
        "tcp": transport(CUBIC),
        "traffic": {
            **{name: user(rtt_ms, row["http"]) for name, rtt_ms in DISTANCES_MS.items()},
            **_household(row["load"], row["rtt"]),
            CALL: {**_from_internet(30), "kind": "call", "calls": 1, "codec": CODEC},
        },
        "record": {"drops": False, "queue_every": "0s", "histories": [CALL]},
    }
    return pages_by(CUBIC)(table)


# Changes

TableChange = Callable[[Table], Table]


def of_row(row: Row) -> TableChange:
    """The change after which the scenario is that of a row."""
    return lambda _: base(row)


def in_room(row: Row) -> TableChange:
    """The change after which the scenario is that of a row, and Drop Tail has the room of the row."""
    return lambda _: base(row, row["room"])


def household_by(sender: str) -> TableChange:
    """The change after which all connections over TCP have a sender."""

    def change(table: Table) -> Table:
        table["tcp"] = transport(sender)
        return table

    return change


def pages_by(sender: str) -> TableChange:
    """The change after which the pages have a sender. Pages over HTTP/3 have the congestion control and the
    setting of ECN over QUIC."""

    def change(table: Table) -> Table:
        for name in USERS:
            workload = table["traffic"][name]
            workload["tcp"] = transport(sender, quic=workload["http"] == "3")
        return table

    return change


def sent_by(sender: str) -> TableChange:
    """The change after which the household and the pages have a sender."""
    return lambda table: pages_by(sender)(household_by(sender)(table))


def queued(name: str, where: Sequence[str] = LINKS) -> TableChange:
    """The change after which some links have a queue: Drop Tail with the room in its name, or a queue with
    active management as shipped."""

    def change(table: Table) -> Table:
        for link in where:
            if name in MANAGED:
                queue = managed(name)
            else:
                rate_bps = 1e6 * float(table["links"][link]["rate"].removesuffix("Mbps"))
                queue = drop_tail(rate_bps, ROOMS[name.removeprefix(f"{DROP_TAIL} ")])
            table["links"][link]["queue"] = queue
        return table

    return change


def limited(name: str) -> TableChange:
    """The change after which a queue with active management replaces Drop Tail, with the same limit."""

    def change(table: Table) -> Table:
        for link in LINKS:
            limit = table["links"][link]["queue"]["limit"]
            table["links"][link]["queue"] = managed(name, int(limit.removesuffix("p")))
        return table

    return change


VARYING_MBPS = (60, 25, 80, 10, 40, 5, 50, 20)
"""Rates of the downlink that varies, in successive seconds. The mean is 36 Mb/s. The sequence is aqmlab's
choice: the rates are those of a Wi-Fi station that moves, and change by a factor of up to 8 at once."""


def varying(row: Row) -> TableChange:
    """The change after which the scenario is that of a row, with a downlink whose rate varies. Rooms are
    those of the constant rate, which is the highest: the router does not know the rate."""

    def change(_: Table) -> Table:
        table = base(row)
        table["links"][DOWNLINK] |= {
            "rate_repeat": f"{len(VARYING_MBPS)}s",
            "rate_steps": [{"at": f"{at}s", "rate": f"{mbps}Mbps"} for at, mbps in enumerate(VARYING_MBPS)],
        }
        return table

    return change


def with_video(row: Row) -> TableChange:
    """The change after which the scenario is that of a row, with a video call. Runs take longer, because the
    rate of the video starts at 300 kb/s."""

    def change(_: Table) -> Table:
        table = base(row)
        table["traffic"][VIDEO] = {**_from_internet(30), "kind": "video-call", "calls": 1}
        return {**table, "duration": "50s", "warm_up": "20s"}

    return change


ROW_AXIS = Changes({name: of_row(row) for name, row in ROWS.items()})
SENDER_AXIS = Changes({name: sent_by(name) for name in SENDERS})
QUEUE_AXIS = Changes({name: queued(name) for name in QUEUES})


# Decisions


def _of_pages(**fields: Any) -> TableChange:
    """A change of the Web users' parameters."""

    def change(table: Table) -> Table:
        for name in USERS:
            table["traffic"][name] |= fields
        return table

    return change


def _of_transports(section: str, **fields: Any) -> TableChange:
    """A change of a section of the transport of all connections."""

    def change(table: Table) -> Table:
        for tcp in (table["tcp"], *(table["traffic"][name]["tcp"] for name in USERS)):
            tcp[section] = {**tcp.get(section, {}), **fields}
        return table

    return change


DECISIONS = (
    Decision(
        "Pages",
        "A page has 10 to 30 objects from one server, 25 kB each in the mean (lognormal), and a user opens a "
        "page every two seconds in the mean.",
        "The median page has 71 requests and 2.65 MB (HTTP Archive, Web Almanac 2024), which come from "
        "several servers. The page of the study is the part that comes from one server. The spread of the "
        "sizes is that of Barford and Crovella (1998).",
        (
            Variant(
                "large pages",
                "A page has 71 objects, 37 kB each in the mean, from one server.",
                _of_pages(
                    objects={"kind": "constant", "value": 71},
                    sizes={"kind": "lognormal", "mean": "37kB", "sigma": 1.318},
                    think_time={"kind": "exponential", "mean": "10s"},
                ),
            ),
            Variant(
                "objects in turn",
                "With HTTP/2 and HTTP/3, the server sends one packet of each object in turn.",
                lambda table: (
                    table
                    if table["traffic"][NEAR]["http"] == "1.1"
                    else _of_pages(priority="round-robin")(table)
                ),
            ),
        ),
    ),
    Decision(
        "TLS",
        "Each connection begins with a TLS 1.3 handshake.",
        "Browsers use HTTP/2 and HTTP/3 only with TLS.",
        (Variant("no TLS", "TCP connections have no TLS handshake.", _of_pages(tls=False)),),
    ),
    Decision(
        "First window",
        "Ten segments, which a sender does not pace.",
        "Linux paces a connection only after ten segments, and RFC 9002, section 7.7, permits a burst of the "
        "initial window.",
        (
            Variant(
                "paced first window",
                "The first window is paced too.",
                _of_transports("pacing", mode="on", unpaced_segments=0),
            ),
            Variant("window of 32", "The first window has 32 segments.", _of_transports("cwnd", initial=32)),
        ),
    ),
    Decision(
        "Hosts",
        "A host needs up to 0.1 ms for a packet.",
        "aqmlab's choice: wired hosts. The jitter prevents phase effects.",
        (Variant("jitter 1 ms", "A host needs up to 1 ms for a packet.", {"host.jitter": "1ms"}),),
    ),
    Decision(
        "BBRv3",
        "The version of the Internet draft, for which a marked byte counts as a lost byte.",
        "Linux's version ignores marks if the round trip is longer than 5 ms, so that queues could not slow "
        "BBRv3+ECN down.",
    ),
    Decision(
        "CAKE",
        "The shaper is off, and hosts share the link first (`triple-isolate`).",
        "The queue is at the link itself. Each Web user, the household's transfers and the call have hosts "
        "of their own.",
    ),
)
