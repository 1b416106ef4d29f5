"""What the study `helsinki` decides where the talk is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab import metrics
from aqmlab.publication import Decision, Variant
from aqmlab.scenario import changed
from aqmlab.studies.helsinki.experiments import DATAGRAM, GAP_S, KERNEL, LINK, datagrams, leaves
from aqmlab.studies.shared import Alters


def _delay(milliseconds: int) -> Variant:
    delay = f"{milliseconds}ms"
    return Variant(
        name=f"delay {milliseconds} ms",
        what="One-way propagation delay.",
        change={f"links.{name}.delay": delay for name in (LINK, "back")},
    )


def _leaves_of(kind: str, **changes: Any) -> Alters:
    """Other parameters for the queues of a kind in all classes."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for leaf in leaves(table):
            if leaf["queue"]["kind"] == kind:
                leaf["queue"].update(changes)
        return table

    return change


def _fitting(table: dict[str, Any]) -> dict[str, Any]:
    """Tail Drop of kernels since 2.6."""
    for leaf in leaves(table):
        leaf["queue"].pop("admits", None)
    return table


def _larger_kilobytes(table: dict[str, Any]) -> dict[str, Any]:
    for leaf in leaves(table):
        for field, value in (("limit", "20480B"), ("min", "5120B"), ("max", "18432B")):
            if field in leaf["queue"] and metrics.in_bytes(leaf["queue"][field]):
                leaf["queue"][field] = value
    return table


def _other_initial_rto(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {"tcp.rto.initial": "1s" if table["tcp"]["profile"] == "linux-2.4" else "3s"})


def _voice(size: int, gap_s: float = GAP_S) -> Alters:
    def change(table: dict[str, Any]) -> dict[str, Any]:
        if "voice" in table["traffic"]:
            table["traffic"]["voice"].update(datagrams(size, gap_s))
        return table

    return change


def _without_ethernet(table: dict[str, Any]) -> dict[str, Any]:
    lengths = {"header": "40B", "syn_size": "52B", "ack_size": "40B"}
    table = changed(table, {f"tcp.connection.{name}": length for name, length in lengths.items()})
    return _voice(DATAGRAM - 14)(table)


def _fixed_shares(table: dict[str, Any]) -> dict[str, Any]:
    for leaf in leaves(table):
        if "parent" in leaf:
            leaf["ceil"] = leaf["rate"]
    return table


def _late_starts(table: dict[str, Any]) -> dict[str, Any]:
    for workload in table["traffic"].values():
        workload["stagger"] = "500ms"
    return table


def _kernels_old(table: dict[str, Any]) -> dict[str, Any]:
    if table["tcp"]["profile"] == "linux-2.4":
        old = {"rto.initial": "3s", "recovery.kind": "sack", "recovery.frto": "off"}
        table["tcp"] = changed(KERNEL, old)
        table = _leaves_of("linux-red", kernel="6.1")(_fitting(table))
    return table


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    if table["tcp"]["profile"] == "linux-6":
        table["tcp"] = {"profile": "linux-6"}
    return table


DECISIONS = (
    Decision(
        question="Propagation delay",
        decision="100 ms one way on the last hop, 1 ms on each link before it, the same on the way back.",
        reason="Not said. The queue of 1.14 s counts for more.",
        variants=tuple(_delay(one) for one in (10, 50, 200, 300)),
    ),
    Decision(
        question="20, 5 and 18 kB",
        decision="Thousands of bytes.",
        reason="A kB of 1024 bytes also halves max_p with RED of Linux 2.4, which keeps powers of two.",
        variants=(
            Variant(
                name="kB of 1024 bytes",
                what="5120, 18432 and 20480 B; RED of Linux 2.4 then drops with half the probability.",
                change=_larger_kilobytes,
            ),
        ),
    ),
    Decision(
        question="Tail Drop's limit",
        decision="Every claim is judged with 20,000 bytes and with 13 packets, as many as fit in; with "
        "linux-2.4 the queue admits every packet until more than its limit waits, and then none, with "
        "linux-6 those that fit in.",
        reason="The unit is not said, and it decides: of 20,000 bytes 318 are left where no full packet fits "
        "in, enough for a SYN or a datagram; of 13 packets none. What it admits is our reading of the source "
        "of kernel 2.4; once more than 20,000 bytes wait, it has room for nothing either.",
        variants=(
            Variant(
                name="Tail Drop of Linux 2.6",
                what="With linux-2.4, too, a queue that admits what fits in, as of kernels since 2.6.",
                change=_fitting,
            ),
        ),
    ),
    Decision(
        question="Weight of RED's average",
        decision="1/8: what tc of Linux derives from a burst of 6 packets of 1500 B.",
        reason="Not said. 0.002 would remember 43 s at this rate.",
        variants=(
            Variant(
                name="weight 1/16",
                what="RED's average moves half as fast: burst 8.",
                change=_leaves_of("linux-red", burst=8),
            ),
            Variant(
                name="weight 1/4",
                what="RED's average moves twice as fast: burst 5.",
                change=_leaves_of("linux-red", burst=5),
            ),
        ),
    ),
    Decision(
        question="RED",
        decision="Linux's own: of 2.4 with linux-2.4, of 6.1 with linux-6.",
        reason="Thresholds in bytes are those of Linux.",
        variants=(
            Variant(
                name="max_p 0.05",
                what="RED drops half as often.",
                change=_leaves_of("linux-red", probability=0.05),
            ),
        ),
    ),
    Decision(
        question="TCP",
        decision="Linux 2.4.17 with SACK, without timestamps, initial time-out 3 s; and Linux 6.1 with Reno, "
        "initial window 2 and without timestamps.",
        reason="The first is the talk's; the second is what the kernel's runs were made with.",
        variants=(
            Variant(
                name="initial RTO swapped",
                what="1 s with linux-2.4, 3 s with linux-6.",
                change=_other_initial_rto,
            ),
            Variant(
                name="the kernel's `old`",
                what="In place of linux-2.4 what the kernel's runs beside it were: 6.1 without RACK, probes, "
                "F-RTO, and with its queues.",
                change=_kernels_old,
            ),
            Variant(
                name="linux-6 as it is",
                what="CUBIC, initial window 10, timestamps; linux-2.4 as decided.",
                change=_of_today,
            ),
        ),
    ),
    Decision(
        question="Bytes of a packet",
        decision="1514, 66 and 54 for full segments, SYNs and acknowledgements; 264 for datagrams.",
        reason="As the kernel counts on an Ethernet line.",
        variants=(
            Variant(
                name="IP lengths", what="Packets without 14 bytes of Ethernet.", change=_without_ethernet
            ),
        ),
    ),
    Decision(
        question="Replications",
        decision="20; flows start within 100 ms at random, hosts take up to 1 ms over each packet.",
        reason="The talk has 20 replications; Tail Drop itself knows no chance.",
        variants=(
            Variant(name="starts in 0.5 s", what="Starts at random within 0.5 s.", change=_late_starts),
            Variant(name="hosts at once", what="Hosts answer at once.", change={"host.jitter": "0s"}),
        ),
    ),
    Decision(
        question="Sizes",
        decision="200 segments of 1460 B, and 32; in the second case 240.",
        reason="292 kB and 46.7 kB are told; of the second case only times are, which 240 segments fit.",
    ),
    Decision(
        question="UDP",
        decision="250 datagrams of 250 B, one every 20 ms: 100 kb/s.",
        reason="Only what arrived is told: 127 to 224 in 5 s. 100 kb/s is the limit of the class.",
        variants=(
            Variant(name="UDP 70 kb/s", what="Datagrams of 175 B without Ethernet.", change=_voice(189)),
            Variant(
                name="UDP of 500 B",
                what="25 datagrams a second of 500 B, at the same 100 kb/s.",
                change=_voice(514, 2 * GAP_S),
            ),
        ),
    ),
    Decision(
        question="70/140 and 70/100 kbit/s",
        decision="HTB: rate 70, ceil 140 for TCP and 100 for UDP, which goes first; 20 kB or 13 packets in "
        "each class.",
        reason="What the pairs of numbers mean is not said.",
        variants=(
            Variant(
                name="HTB reading B",
                what="Two classes of 70 kb/s that lend each other nothing.",
                change=_fixed_shares,
            ),
        ),
    ),
    Decision(
        question="Elapsed time",
        decision="From the SYN to the last byte acknowledged.",
        reason="Not said. It holds the handshake, which the talk also plots by itself.",
    ),
    Decision(
        question="Fairness",
        decision="Jain's index: of size over time in the first case; in the second of the bytes that the "
        "bottleneck took while both flows were active.",
        reason="The talk names fairness among its metrics, without a formula.",
    ),
)
