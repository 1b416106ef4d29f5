"""What the study `helsinki` decides where the talk is silent, and the other answers that it tries."""

from __future__ import annotations

from typing import Any

from aqmlab import metrics
from aqmlab.scenario import changed
from aqmlab.studies.helsinki.experiments import (
    DATAGRAM,
    GAP_S,
    KERNEL,
    LINK,
    datagrams,
    each_class,
    is_old,
)
from aqmlab.studies.shared import Alters
from aqmlab.study.publication import Decision, Variant
from aqmlab.sweep import Change


def _tried(*several: tuple[str, str, Change]) -> tuple[Variant, ...]:
    """Variants by their names, what they are, and their changes."""
    return tuple(Variant(name=name, what=what, change=change) for name, what, change in several)


def _delay(milliseconds: int) -> tuple[str, str, Change]:
    delay = {f"links.{name}.delay": f"{milliseconds}ms" for name in (LINK, "back")}
    return f"delay {milliseconds} ms", "One-way propagation delay.", delay


def _red_with(**changes: Any) -> Alters:
    def change(one: dict[str, Any]) -> None:
        if one["queue"]["kind"] == "linux-red":
            one["queue"].update(changes)

    return each_class(change)


_of_2_6 = each_class(lambda one: one["queue"].pop("admits", None))
"""Tail Drop of kernels since 2.6."""

_fixed_shares = each_class(lambda one: one.update(ceil=one["rate"]) if "parent" in one else None)


@each_class
def _larger_kilobytes(one: dict[str, Any]) -> None:
    for field, value in (("limit", "20480B"), ("min", "5120B"), ("max", "18432B")):
        if field in one["queue"] and metrics.in_bytes(one["queue"][field]):
            one["queue"][field] = value


def _other_initial_rto(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {"tcp.rto.initial": "1s" if is_old(table) else "3s"})


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


def _late_starts(table: dict[str, Any]) -> dict[str, Any]:
    return changed(table, {f"traffic.{name}.stagger": "500ms" for name in table["traffic"]})


def _kernels_old(table: dict[str, Any]) -> dict[str, Any]:
    if not is_old(table):
        return table
    old = {"rto.initial": "3s", "recovery.kind": "sack", "recovery.frto": "off"}
    return _red_with(kernel="6.1")(_of_2_6(table | {"tcp": changed(KERNEL, old)}))


def _of_today(table: dict[str, Any]) -> dict[str, Any]:
    return table if is_old(table) else table | {"tcp": {"profile": "linux-6"}}


DECISIONS = (
    Decision(
        question="Propagation delay",
        decision="100 ms one way on the last hop, 1 ms on each link before it, the same on the way back.",
        reason="Not said. The queue of 1.14 s counts for more.",
        variants=_tried(*map(_delay, (10, 50, 200, 300))),
    ),
    Decision(
        question="20, 5 and 18 kB",
        decision="Thousands of bytes.",
        reason="A kB of 1024 bytes also halves max_p with RED of Linux 2.4, which keeps powers of two.",
        variants=_tried(
            (
                "kB of 1024 bytes",
                "5120, 18432 and 20480 B; RED of Linux 2.4 then drops with half the probability.",
                _larger_kilobytes,
            )
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
        variants=_tried(
            (
                "Tail Drop of Linux 2.6",
                "With linux-2.4, too, a queue that admits what fits in, as of kernels since 2.6.",
                _of_2_6,
            )
        ),
    ),
    Decision(
        question="Weight of RED's average",
        decision="1/8: what tc of Linux derives from a burst of 6 packets of 1500 B.",
        reason="Not said. 0.002 would remember 43 s at this rate.",
        variants=_tried(
            ("weight 1/16", "RED's average moves half as fast: burst 8.", _red_with(burst=8)),
            ("weight 1/4", "RED's average moves twice as fast: burst 5.", _red_with(burst=5)),
        ),
    ),
    Decision(
        question="RED",
        decision="Linux's own: of 2.4 with linux-2.4, of 6.1 with linux-6.",
        reason="Thresholds in bytes are those of Linux.",
        variants=_tried(("max_p 0.05", "RED drops half as often.", _red_with(probability=0.05))),
    ),
    Decision(
        question="TCP",
        decision="Linux 2.4.17 with SACK, without timestamps, initial time-out 3 s; and Linux 6.1 with Reno, "
        "initial window 2 and without timestamps.",
        reason="The first is the talk's; the second is what the kernel's runs were made with.",
        variants=_tried(
            ("initial RTO swapped", "1 s with linux-2.4, 3 s with linux-6.", _other_initial_rto),
            (
                "the kernel's `old`",
                "In place of linux-2.4 what the kernel's runs beside it were: 6.1 without RACK, probes, "
                "F-RTO, and with its queues.",
                _kernels_old,
            ),
            ("linux-6 as it is", "CUBIC, initial window 10, timestamps; linux-2.4 as decided.", _of_today),
        ),
    ),
    Decision(
        question="Bytes of a packet",
        decision="1514, 66 and 54 for full segments, SYNs and acknowledgements; 264 for datagrams.",
        reason="As the kernel counts on an Ethernet line.",
        variants=_tried(("IP lengths", "Packets without 14 bytes of Ethernet.", _without_ethernet)),
    ),
    Decision(
        question="Replications",
        decision="20, and up to 40 where a verdict hangs on them; flows start within 100 ms at random, hosts "
        "take up to 1 ms over each packet.",
        reason="The talk has 20 replications; Tail Drop itself knows no chance.",
        variants=_tried(
            ("starts in 0.5 s", "Starts at random within 0.5 s.", _late_starts),
            ("hosts at once", "Hosts answer at once.", {"host.jitter": "0s"}),
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
        variants=_tried(
            ("UDP 70 kb/s", "Datagrams of 175 B without Ethernet.", _voice(189)),
            ("UDP of 500 B", "25 datagrams a second of 500 B, at the same 100 kb/s.", _voice(514, 2 * GAP_S)),
        ),
    ),
    Decision(
        question="70/140 and 70/100 kbit/s",
        decision="HTB: rate 70, ceil 140 for TCP and 100 for UDP, which goes first; 20 kB or 13 packets in "
        "each class.",
        reason="What the pairs of numbers mean is not said.",
        variants=_tried(
            ("HTB reading B", "Two classes of 70 kb/s that lend each other nothing.", _fixed_shares)
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
