"""The testbed of the study `helsinki`: the path, the systems, the queues and the classes of service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aqmlab.results.labels import Labels
from aqmlab.scenario import changed
from aqmlab.studies.shared import TableChange, constant
from aqmlab.study import Decision, Reading, Variant
from aqmlab.sweep import Changes

LINK = "last"
"""The link with the queue, from the last-hop router to the destination."""

_LENGTHS = {"mss": "1460B", "header": "54B", "syn_size": "66B", "ack_size": "54B"}
"""Lengths as the kernel counts them, including 14 bytes of Ethernet header."""

OLD: dict[str, Any] = {"profile": "linux-2.4", "connection": {**_LENGTHS, "close": "none"}}
"""The operating system that was used in the talk."""

KERNEL: dict[str, Any] = {
    "profile": "linux-6",
    "connection": {**_LENGTHS, "close": "none"},
    "congestion_control": {"kind": "reno"},
    "cwnd": {"initial": 2, "initial_after_syn_loss": 2},
    "recovery": {"undo": "dsack"},
    "rto": {"tick": "10ms"},
    "receiver": {"first_window": 44},
}
"""The configuration of the recorded kernel: Reno, no timestamps (so the receive window does not grow before
64 kB), a clock of 100 Hz; its programs left connections open."""

SYSTEM = Changes({"linux-2.4": {"tcp": OLD}, "linux-6": {"tcp": KERNEL}})

TAIL_DROP, RED = "Tail Drop", "RED"
BYTES, PACKETS = "bytes", "packets"
ONE_CLASS, TWO_CLASSES = "one class", "two classes"

QUEUES: Mapping[str, Labels] = {
    "Tail Drop, bytes": {"queue": TAIL_DROP, "unit": BYTES},
    "Tail Drop, packets": {"queue": TAIL_DROP, "unit": PACKETS},
    "RED": {"queue": RED, "unit": BYTES},
}
"""Tail Drop with either unit. RED does not depend on the unit; its runs are the same."""


def is_old(table: dict[str, Any]) -> bool:
    """Whether a scenario uses the operating system that was used in the talk."""
    return bool(table["tcp"]["profile"] == "linux-2.4")


def each_class(change: Callable[[dict[str, Any]], Any]) -> TableChange:
    """A change that applies to each class of the bottleneck that has a queue."""

    def changes(table: dict[str, Any]) -> dict[str, Any]:
        for one in table["links"][LINK]["queue"]["classes"].values():
            if "queue" in one:
                change(one)
        return table

    return changes


def _tail_drop(table: dict[str, Any]) -> dict[str, Any]:
    """Kernels since 2.6 reject a packet that does not fit. Linux 2.4 accepted packets until the backlog
    exceeded the limit, and then rejected all packets."""
    admits = each_class(lambda one: one["queue"].update(admits="until-beyond"))
    return admits(table) if is_old(table) else table


def _red(table: dict[str, Any]) -> dict[str, Any]:
    """Linux's own RED, in the version of the system's kernel."""
    red = {"kind": "linux-red", "kernel": "2.4" if is_old(table) else "6.1", "probability": 0.1}
    bounds = {"min": "5000B", "max": "18000B", "limit": "20000B", "avpkt": "1500B", "burst": 6}
    return with_queue({**red, **bounds})(table)


def with_queue(table: Mapping[str, Any]) -> TableChange:
    """A queue in each class."""
    return each_class(lambda one: one.update(queue=dict(table)))


UNIT = Changes({BYTES: {}, PACKETS: each_class(lambda one: one["queue"].update(limit="13p"))})
"""Units of Tail Drop's limit: 13 packets of 1514 bytes fit into 20 kB."""

QUEUE = Changes({TAIL_DROP: _tail_drop, RED: _red})
"""Queues as in the kernel of the system."""

ONLY_TAIL_DROP = {"unit": Changes({BYTES: {}}), "queue": Changes({TAIL_DROP: _tail_drop})}
"""Axes of one value each: Tail Drop with a limit in bytes."""

_BURSTS = {"burst": "1600B", "cburst": "1600B"}


def _class(rate: int, ceil: int, **more: Any) -> dict[str, Any]:
    rates = {"rate": f"{rate}kbps", "ceil": f"{ceil}kbps", "quantum": "1514B", **_BURSTS}
    return {**rates, "queue": {"kind": "drop-tail", "limit": "20000B"}, **more}


_TWO_CLASSES = {
    "kind": "htb",
    "default": "tcp",
    "classes": {
        "link": {"rate": "140kbps", **_BURSTS},
        "tcp": _class(70, 140, parent="link", priority=1),
        "udp": _class(70, 100, parent="link", priority=0, match={"protocol": "udp"}),
    },
}
SERVICE = Changes({ONE_CLASS: {}, TWO_CLASSES: {f"links.{LINK}.queue": _TWO_CLASSES}})


def _link(start: str, end: str, rate: str, delay_ms: int, **more: Any) -> dict[str, Any]:
    return {"from": start, "to": end, "rate": rate, "delay": f"{delay_ms}ms", **more}


def path(duration: str, **traffic: dict[str, Any]) -> dict[str, Any]:
    """Source, intermediate router, last-hop router, destination, and an idle reverse path."""
    ends = {"from": "source", "to": "destination", "stagger": "100ms"}
    one_class = {"kind": "htb", "classes": {"all": _class(140, 140)}}
    return {
        "duration": duration,
        "warm_up": "0s",
        "access": {"rate": "1Gbps", "delay": "0s"},
        "host": {"jitter": "1ms"},
        "tcp": KERNEL,
        "links": {
            "wired": _link("source", "middle", "100Mbps", 1),
            "trunk": _link("middle", "last-hop", "10Mbps", 1),
            LINK: _link("last-hop", "destination", "1Gbps", 100, queue=one_class),
            "back": _link("destination", "source", "1Gbps", 100),
        },
        "traffic": {name: {**ends, **workload} for name, workload in traffic.items()},
        "record": {"drops": False, "queue_every": "0s", "packets": [LINK]},
    }


def remembering(scenario: dict[str, Any], traffic: str) -> dict[str, Any]:
    """The operating system that was used in the talk, recording the history of a workload's flow instead of
    the bottleneck's packets."""
    record = {**scenario["record"], "packets": [], "histories": [traffic]}
    return scenario | {"record": record, "tcp": OLD}


def starts(*times_s: float) -> dict[float, str]:
    """Start times of a flow, in seconds."""
    return {time_s: f"{time_s:g}s" for time_s in times_s}


def readings(name: str, suffix: str, labels: Labels, **fields: Any) -> tuple[Reading, ...]:
    """Two readings of a system or source, one with Tail Drop's limit in bytes, and one with the limit in
    packets."""
    return tuple(
        Reading(name=f"{name}, {unit}", labels={**labels, "unit": unit}, suffix=letter + suffix, **fields)
        for unit, letter in ((BYTES, ""), (PACKETS, "p"))
    )


GAP_S, DATAGRAM = 0.02, 264


def datagrams(size: int = DATAGRAM, gap_s: float = GAP_S) -> dict[str, Any]:
    """A UDP flow that sends a datagram of `size` bytes every `gap_s` seconds."""
    rate = f"{8 * size / gap_s / 1000:g}kbps"
    return {"kind": "udp", "rate": rate, "sizes": constant(size), "phase": "zero"}


# Details that the talk leaves open, and the alternatives that are tested


def _red_with(**changes: Any) -> TableChange:
    """Changes parameters of RED."""
    return each_class(lambda one: one["queue"].update(changes if one["queue"]["kind"] == "linux-red" else {}))


@each_class
def _larger_kilobytes(one: dict[str, Any]) -> None:
    for field, value in (("limit", "20480B"), ("min", "5120B"), ("max", "18432B")):
        if one["queue"].get(field, "").endswith("B"):
            one["queue"][field] = value


def _voice(size: int, gap_s: float = GAP_S) -> TableChange:
    paths = {f"traffic.voice.{key}": value for key, value in datagrams(size, gap_s).items()}
    return lambda table: changed(table, paths) if "voice" in table["traffic"] else table


def _without_ethernet(table: dict[str, Any]) -> dict[str, Any]:
    table["tcp"]["connection"] |= {"header": "40B", "syn_size": "52B", "ack_size": "40B"}
    return _voice(DATAGRAM - 14)(table)


def _swapped(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {"tcp.rto.initial": "1s" if is_old(table) else "3s"})


def _kernels_old(table: dict[str, Any]) -> dict[str, Any]:
    old = {"rto.initial": "3s", "recovery.kind": "sack", "recovery.frto": "off"}
    by_kernel = _red_with(kernel="6.1")
    return by_kernel(_of_2_6(table | {"tcp": changed(KERNEL, old)})) if is_old(table) else table


def _as_it_is(table: dict[str, Any]) -> dict[str, Any]:
    return table if is_old(table) else table | {"tcp": {"profile": "linux-6"}}


def _half_a_second(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {f"traffic.{one}.stagger": "500ms" for one in table["traffic"]})


_of_2_6 = each_class(lambda one: one["queue"].pop("admits", None))
_lending_nothing = each_class(lambda one: one.update(ceil=one["rate"]) if "parent" in one else None)
_delays = {
    f"delay {delay} ms": {f"links.{name}.delay": f"{delay}ms" for name in (LINK, "back")}
    for delay in (10, 50, 200, 300)
}

DECISIONS = (
    Decision(
        "Propagation delay",
        "100 ms one way on the last hop, 1 ms on each link before it, the same on the reverse path.",
        "Not stated. The queue of 1.14 s has a larger effect.",
        tuple(Variant(name, "One-way propagation delay.", delay) for name, delay in _delays.items()),
    ),
    Decision(
        "20, 5 and 18 kB",
        "Thousands of bytes.",
        "With a kB of 1024 bytes, RED of Linux 2.4, which uses powers of two, also halves max_p.",
        (Variant("kB of 1024 bytes", "5120, 18432 and 20480 B.", _larger_kilobytes),),
    ),
    Decision(
        "Tail Drop's limit",
        "Every claim is judged with 20,000 bytes and with 13 packets. With linux-2.4 the queue accepts every "
        "packet until more than its limit is queued, and then none; with linux-6 it accepts packets that "
        "fit.",
        "The unit is not stated, but it matters: of 20,000 bytes, 318 remain when no more full packet fits, "
        "enough for a SYN or a datagram; of 13 packets, none remain. The acceptance rule is aqmlab's reading "
        "of the source code.",
        (
            Variant(
                "Tail Drop of Linux 2.6",
                "The queue accepts packets that fit, with both systems.",
                _of_2_6,
                title="Tail Drop as in Linux 2.6",
            ),
        ),
    ),
    Decision(
        "Weight of RED's average",
        "1/8, which Linux's tc derives from a burst of 6 packets of 1500 B.",
        "Not stated. A weight of 0.002 would average over 43 s at this rate.",
        (
            Variant("weight 1/16", "RED's average changes half as fast: burst 8.", _red_with(burst=8)),
            Variant("weight 1/4", "RED's average changes twice as fast: burst 5.", _red_with(burst=5)),
        ),
    ),
    Decision(
        "RED",
        "Linux's RED: of kernel 2.4 with linux-2.4, of kernel 6.1 with linux-6.",
        "Thresholds in bytes are a property of Linux's RED.",
        (Variant("max_p 0.05", "RED drops half as often.", _red_with(probability=0.05)),),
    ),
    Decision(
        "TCP",
        "Linux 2.4.17 with SACK, without timestamps, initial RTO 3 s; and Linux 6.1 with Reno, initial "
        "window 2 and without timestamps.",
        "The first is the talk's system; the second is that of the recorded kernel runs.",
        (
            Variant(
                "initial RTO swapped",
                "1 s with linux-2.4, 3 s with linux-6.",
                _swapped,
                title="initial RTOs exchanged",
            ),
            Variant(
                "the kernel's `old`",
                "Replaces linux-2.4 by the system of the recorded kernel runs: 6.1 without RACK, probes and "
                "F-RTO, and with its queues.",
                _kernels_old,
                title="system of the recorded kernel runs",
            ),
            Variant(
                "linux-6 as it is",
                "CUBIC, initial window 10, timestamps; linux-2.4 unchanged.",
                _as_it_is,
                title="Linux 6 with its defaults",
            ),
        ),
    ),
    Decision(
        "Packet lengths",
        "1514, 66 and 54 bytes for full segments, SYNs and acknowledgements; 264 bytes for datagrams.",
        "As counted by the kernel on an Ethernet link.",
        (
            Variant(
                "IP lengths",
                "Packets without 14 bytes of Ethernet.",
                _without_ethernet,
                title="IP packet lengths",
            ),
        ),
    ),
    Decision(
        "Replications",
        "20, and up to 40 if a verdict is undecided; flows start at random within 100 ms, and hosts need up "
        "to 1 ms for each packet.",
        "The talk has 20 replications; Tail Drop itself is not random.",
        (
            Variant(
                "starts in 0.5 s",
                "Starts at random within 0.5 s.",
                _half_a_second,
                title="starts within 0.5 s",
            ),
            Variant(
                "hosts at once", "Hosts without jitter.", {"host.jitter": "0s"}, title="hosts without jitter"
            ),
        ),
    ),
    Decision(
        "UDP",
        "250 datagrams of 250 B, one every 20 ms: 100 kb/s.",
        "Only the numbers of arrived datagrams are stated: 127 to 224 in 5 s. 100 kb/s is the class's limit.",
        (
            Variant(
                "UDP 70 kb/s", "Datagrams of 175 B without Ethernet.", _voice(189), title="UDP at 70 kb/s"
            ),
            Variant(
                "UDP of 500 B",
                "25 datagrams per second of 500 B, 100 kb/s.",
                _voice(514, 2 * GAP_S),
                title="UDP datagrams of 500 B",
            ),
        ),
    ),
    Decision(
        "70/140 and 70/100 kbit/s",
        "HTB: rate 70, ceil 140 for TCP and 100 for UDP, which has priority; each class has its own queue.",
        "The meaning of the pairs of numbers is not stated.",
        (
            Variant(
                "HTB reading B",
                "Two classes of 70 kb/s that do not borrow.",
                _lending_nothing,
                title="two HTB classes that do not borrow",
            ),
        ),
    ),
)
