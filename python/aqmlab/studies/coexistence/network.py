"""The testbed of the study `coexistence`: the path, the queues, the senders, and their alternatives.

The set-up is that of the runs on FABRIC: the notebooks `single_flow_experiments.ipynb` and
`multiple_flow_experiments.ipynb` of github:fatihsarpkaya/L4S-PAM2025, commit 60114fc6. Half of the round trip
is before the router, and half is in the path of the acknowledgements, which meets no queue. HTB limits the
router's egress to 100 Mb/s, and the queue is HTB's leaf. The notebooks do not state the frequency of the
router's clock (here 250 Hz, Ubuntu's default) and the time that the machines need for a packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqmlab.study import Decision, Variant
from aqmlab.sweep import Changes

Table = dict[str, Any]

PRAGUE, OTHER = "prague", "other"
"""The two groups of flows, which are also the names of their workloads."""

SECONDS = 60
"""Duration of a recorded run."""
RATE_BPS = 100_000_000
BUFFER_BDP = 2
"""Size of the buffer, in bandwidth-delay products."""
PACKET_BYTES = 1500
"""Size of a packet in the authors' limits in packets."""
TARGET_MS = {10: 5, 2: 1}
"""Target or step threshold of the queues, by the round-trip time in ms."""

FIFO, STEP, PIE, CODEL, CODEL_ECN = "FIFO", "step", "PIE", "CoDel", "CoDel+ECN"
FQ_STEP, FQ_CODEL, FQ_CODEL_L4S, DUALPI2 = "FQ+step", "FQ-CoDel", "FQ-CoDel L4S", "DualPI2"


def buffer_bytes(rtt_ms: int, buffer_bdp: float = BUFFER_BDP) -> int:
    """The size of a buffer of `buffer_bdp` bandwidth-delay products."""
    return int(buffer_bdp * RATE_BPS / 8 * rtt_ms / 1000)


def queues(rtt_ms: int, buffer_bdp: float = BUFFER_BDP) -> dict[str, Table]:
    """The nine queues, each from the `tc` line of the notebooks (cell "AQM")."""
    size = buffer_bytes(rtt_ms, buffer_bdp)
    packets = f"{size // PACKET_BYTES + 1}p"
    target = f"{TARGET_MS[rtt_ms]}ms"
    codel = {"kind": "codel", "limit": packets, "target": target}
    fq = {"kind": "fq", "limit": packets, "flow_limit": packets, "orphans": True, "ce_threshold": target}
    fq_codel = {"kind": "fq-codel", "limit": packets, "target": target, "start": "fresh"}
    l4s = {"ce_threshold": "1ms", "ce_threshold_selector": 1, "ce_threshold_mask": 1}
    return {
        FIFO: {"kind": "drop-tail", "limit": f"{size}B"},
        STEP: fq | {"orphan_mask": 0},
        PIE: {"kind": "pie", "limit": packets, "target": target, "hz": 250, "start": "fresh"},
        CODEL: codel,
        CODEL_ECN: codel | {"ecn": True},
        FQ_STEP: fq,
        FQ_CODEL: fq_codel,
        FQ_CODEL_L4S: fq_codel | l4s,
        # In the L4S team's kernels until 2024, the step threshold applies only to a packet that arrives while
        # at least two packets are in the L4S queue (sch_dualpi2.c, `apply_step`).
        DUALPI2: {"kind": "dualpi2", "target": target, "min_qlen_step": 2, "start": "fresh"},
    }


_CUBIC = {"congestion_control": {"kind": "cubic"}}
_BBR1 = {"congestion_control": {"kind": "bbr1"}}
_BBR3 = {"congestion_control": {"kind": "bbr3", "profile": "linux"}}
_CLASSIC = {"ecn": {"mode": "on", "feedback": "classic"}}
_LOW = {
    "congestion_control": {**_BBR3["congestion_control"], "ecn": "low"},
    "ecn": {"mode": "on", "feedback": "dctcp"},
}
"""BBRv3 with the route feature `ecn_low`, whose receiver echoes marks as DCTCP's receiver does."""

CUBIC, CUBIC_ECN, FALLBACK = "CUBIC", "CUBIC+ECN", "CUBIC+ECN, fallback"
BBR1, BBR3, BBR3_ECN, BBR3_LOW = "BBRv1", "BBRv3", "BBRv3+ECN", "BBRv3+ECN low"

_TCP: Mapping[str, Table] = {
    CUBIC: _CUBIC,
    CUBIC_ECN: _CUBIC | _CLASSIC,
    FALLBACK: _CUBIC | _CLASSIC,
    BBR1: _BBR1,
    BBR3: _BBR3,
    BBR3_ECN: _BBR3 | _CLASSIC,
    BBR3_LOW: _LOW,
}

OTHERS: Mapping[str, Mapping[str, Any]] = {
    name: {
        f"traffic.{OTHER}.tcp": tcp,
        **({f"traffic.{PRAGUE}.tcp.congestion_control.fallback": "on"} if name == FALLBACK else {}),
    }
    for name, tcp in _TCP.items()
}
"""Changes of the scenario for each of the other senders. With `fallback`, Prague detects classic queues."""

GROUPS = ("2:2", "1:10", "10:1", "10:10")
"""Numbers of Prague flows and of other flows."""

FLOWS = Changes(
    {
        name: {
            f"traffic.{PRAGUE}.flows": int(name.split(":")[0]),
            f"traffic.{OTHER}.flows": int(name.split(":")[1]),
        }
        for name in GROUPS
    }
)

QUEUE = "links.bottleneck.queue.classes.all.queue"
"""Path of the queue in the scenario."""


def scenario(rtt_ms: int) -> Table:
    """One Prague flow and one CUBIC flow with ECN behind a FIFO."""
    ends = {"from": "senders", "to": "receivers"}
    half = {"rate": "10Gbps", "delay": f"{500 * rtt_ms}us"}
    return {
        "duration": f"{SECONDS}s",
        "links": {
            "forth": {"from": "senders", "to": "router", **half},
            "bottleneck": {
                "from": "router",
                "to": "receivers",
                "rate": "10Gbps",
                "delay": "0s",
                "queue": {
                    "kind": "htb",
                    "classes": {
                        "all": {
                            "rate": "100Mbps",
                            "burst": "1600B",
                            "cburst": "1600B",
                            "queue": queues(rtt_ms)[FIFO],
                        }
                    },
                },
            },
            "back": {"from": "receivers", "to": "senders", **half},
        },
        "access": {"rate": "10Gbps", "delay": "0s"},
        # The transmission time of a full packet at the bottleneck, as by default behind such a link.
        "host": {"jitter": "121us"},
        "tcp": {
            "profile": "linux-6",
            # Lengths with 14 bytes of Ethernet, which HTB counts, and 12 bytes of timestamps.
            "connection": {"mss": "1448B", "header": "66B", "syn_size": "74B", "ack_size": "66B"},
            # The maximum of the window is half of tcp_rmem's maximum of 6 MB.
            "receiver": {"window": 2172},
        },
        "traffic": {
            PRAGUE: {
                "kind": "ftp",
                "flows": 1,
                "stagger": "0s",
                **ends,
                "tcp": {
                    "congestion_control": {"kind": "prague"},
                    "ecn": {"mode": "on", "feedback": "accurate"},
                },
            },
            OTHER: {"kind": "ftp", "flows": 1, "stagger": "50ms", **ends, "tcp": _TCP[CUBIC_ECN]},
        },
        "record": {"drops": False, "queue_every": "0s", "senders": [PRAGUE, OTHER]},
    }


DECISIONS = (
    Decision(
        "Start of the other flows",
        "Each of the other flows starts at a random time in the first 50 ms; the Prague flows start at 0 s.",
        "The notebooks start both clients after `sleep 1`; the offset is not recorded. The sums of the "
        "recorded rates show that the offset is less than 1 s in each run with two flows.",
    ),
    Decision(
        "Machines",
        "Each host needs up to 121 µs for a packet (uniform), the router's clock has 250 Hz.",
        "Not recorded. The processing time is the transmission time of a full packet at 100 Mb/s, and the "
        "frequency is Ubuntu's default.",
    ),
    Decision(
        "TCP",
        "The profile `linux-6`, with the congestion controls `prague`, `cubic`, `bbr1` and `bbr3` (profile "
        "`linux`), and without other settings.",
        "The notebooks set the congestion control and ECN, and leave all other settings at the defaults of "
        "their kernels: L4STeam's testing build for Prague, 5.13 for CUBIC and BBRv1, and 6.4 for BBRv3.",
    ),
    Decision(
        "Acknowledgements of Prague's receiver",
        "Delayed, as with the profile `linux-6`.",
        "The version of the L4S team's kernel is not recorded.",
        (
            Variant(
                "an ACK for each segment",
                "The receivers of Prague flows acknowledge every segment at once.",
                {f"traffic.{PRAGUE}.tcp.receiver.delayed_ack": "off"},
            ),
        ),
    ),
)
