"""The queues and links whose commands `tc_kernel.py` runs in a real kernel."""

from __future__ import annotations

from typing import Any

HZ = 100
"""Ticks per second of a User-Mode-Linux kernel, to whole numbers of which the kernel rounds tupdate."""

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "drop-tail": [{}, {"limit": "90kB"}],
    "linux-red": [
        {"min": "30kB", "max": "90kB"},
        {"min": "30kB", "max": "90kB", "burst": 55, "ecn": True, "harddrop": True, "probability": 0.1},
        {"min": "7500B", "max": "22500B", "limit": "90kB", "burst": 243, "ecn": True, "nodrop": True},
        {"min": "30kB", "max": "90kB", "ecn": True, "adaptive": True, "bandwidth": "1Mbps", "avpkt": "500B"},
        {"limit": "100kB"},
    ],
    "choke": [
        {"min": "20p", "max": "60p", "burst": 30},
        {"ecn": True, "limit": "1000p", "bandwidth": "100Mbps"},
    ],
    "gred": [
        {},
        {
            "default": 1,
            "vqs": [{"min": "20kB", "max": "60kB", "limit": "100kB"}, {"ecn": True, "harddrop": True}],
        },
        {"grio": True, "vqs": [{"prio": 3}, {"prio": 1, "burst": 80}]},
        {"vqs": [{"probability": 0.1}]},
    ],
    "sfb": [
        {},
        {
            "limit": "200p",
            "target": "40p",
            "increment": 0.01,
            "decrement": 0.002,
            "rehash": "10s",
            "db": "1s",
        },
        {"queue": {"kind": "drop-tail", "limit": "60p"}},
    ],
    "pie": [
        {"hz": HZ},
        {"hz": HZ, "target": "1234us", "tupdate": "30ms", "alpha": 0.25, "beta": 1.5, "limit": "60p"},
        {"hz": HZ, "ecn": True, "bytemode": True, "dq_rate_estimator": True},
    ],
    "fq-pie": [{"hz": HZ}, {"hz": HZ, "flows": 64, "quantum": "300B", "ecn": True, "ecn_prob": 20}],
    "codel": [
        {},
        {"target": "20ms", "interval": "200ms", "ecn": True, "ce_threshold": "1500us", "limit": "60p"},
        {"target": "7us", "interval": "1234567us"},
    ],
    "fq-codel": [
        {},
        {
            "ecn": False,
            "flows": 8,
            "quantum": "300B",
            "memory_limit": "4MB",
            "drop_batch": 8,
            "limit": "600p",
        },
        {"ce_threshold": "1ms", "ce_threshold_selector": 1, "ce_threshold_mask": 3},
    ],
    "sfq": [
        {},
        {"limit": "60p", "perturb": "10s", "headdrop": True, "depth": 20, "divisor": 256, "quantum": "3028B"},
        {"redflowlimit": "96kB", "ecn": True, "harddrop": True, "burst": 20},
        {"flows": 16, "depth": 8},
    ],
    "fq": [
        {},
        {
            "maxrate": "3Mbps",
            "ce_threshold": "2ms",
            "refill_delay": "20ms",
            "timer_slack": "1500ns",
            "buckets": 64,
        },
        {
            "pacing": False,
            "limit": "600p",
            "flow_limit": "20p",
            "quantum": "1514B",
            "initial_quantum": "6056B",
        },
    ],
    "cake": [
        {},
        {"bandwidth": "9500kbps", "diffserv": "besteffort", "flows": "dual-dsthost", "ingress": True},
        {"overhead": 44, "atm": "atm", "mpu": "64B", "ack_filter": "aggressive", "diffserv": "diffserv8"},
        {"overhead": -14, "atm": "ptm", "rtt": "30ms", "memlimit": "100kB", "ack_filter": "conservative"},
        {"autorate_ingress": True, "bandwidth": "5Mbps", "flows": "flowblind", "diffserv": "precedence"},
        {"mpu": "64B", "flows": "hosts", "diffserv": "diffserv4", "rtt": "lan"},
        {"atm": "atm", "flows": "dual-srchost"},
    ],
    "dualpi2": [{}, {"step_thresh_packets": 5, "ecn_mask": "any-ect", "rtt_max": "60ms"}],
    "htb": [
        {
            "default": "bulk",
            "classes": {
                "bulk": {"rate": "6Mbps", "ceil": "8Mbps", "priority": 1, "quantum": "3028B"},
                "calls": {
                    "rate": "2Mbps",
                    "queue": {"kind": "codel"},
                    "match": {"protocol": "udp", "port": [5004], "dscp": [46]},
                },
            },
        },
        {
            "default": "web",
            "r2q": 5,
            "classes": {
                "calls": {"rate": "1Mbps", "parent": "top", "match": {"dscp": [46]}},
                "top": {"rate": "8Mbps"},
                "web": {"rate": "4Mbps", "ceil": "8Mbps", "parent": "top", "queue": {"kind": "fq-codel"}},
            },
        },
    ],
    "stab": [
        {"overhead": 32, "linklayer": "atm", "mpu": "64B", "queue": {"kind": "linux-red", "limit": "100kB"}},
        {"overhead": -4, "queue": {"kind": "codel"}},
    ],
}
"""Queues of each kind: parameters that differ from the defaults."""

RATES = ("10Mbps", "999999bps", "1Gbps")
"""Rates of links. One of the rates is not a whole number of bytes per second."""

LINKS: tuple[dict[str, Any], ...] = (
    {"delay": "20ms", "loss": {"probability": 0.01}},
    {"delay": "20500us", "loss": {"p": 0.01, "r": 0.2, "loss_in_good": 0.001, "loss_in_bad": 0.9}},
    {"delay": "20ms", "reordering": {"probability": 0.02, "delay": "5ms", "jitter": "2ms"}},
    {"delay": "0s", "reordering": {"probability": 0.5, "delay": "5ms"}},
)
"""Properties of links that netem imitates."""
