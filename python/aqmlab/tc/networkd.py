"""Sections of a systemd `.network` file (systemd.network(5); the keys of systemd 252, and `RTTSec=` and
`AckFilter=` of CAKE, which systemd 253 added)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aqmlab.scenario import Scenario
from aqmlab.tc.commands import Commands
from aqmlab.tc.link import Link, checked_device, chosen

Argument = Sequence[str]

_SECTIONS: Mapping[str, str] = {
    "pfifo": "PFIFO",
    "bfifo": "BFIFO",
    "codel": "ControlledDelay",
    "fq_codel": "FairQueueingControlledDelay",
    "fq": "FairQueueing",
    "pie": "PIE",
    "fq_pie": "FlowQueuePIE",
    "sfb": "StochasticFairBlue",
    "sfq": "StochasticFairnessQueueing",
    "cake": "CAKE",
    "htb": "HierarchyTokenBucket",
}
"""Section of each kind."""

_PACKETS = {"limit": "PacketLimit"}
_CODEL = {**_PACKETS, "target": "TargetSec", "interval": "IntervalSec", "ce_threshold": "CEThresholdSec"}
_KEYS: Mapping[str, Mapping[str, str]] = {
    "pfifo": _PACKETS,
    "bfifo": {"limit": "LimitBytes"},
    "codel": _CODEL,
    "fq_codel": {
        **_CODEL,
        "flows": "Flows",
        "quantum": "QuantumBytes",
        "memory_limit": "MemoryLimitBytes",
    },
    "fq": {
        **_PACKETS,
        "flow_limit": "FlowLimit",
        "quantum": "QuantumBytes",
        "initial_quantum": "InitialQuantumBytes",
        "maxrate": "MaximumRate",
        "buckets": "Buckets",
        "orphan_mask": "OrphanMask",
        "ce_threshold": "CEThresholdSec",
    },
    "pie": _PACKETS,
    "fq_pie": _PACKETS,
    "sfb": _PACKETS,
    "sfq": {"perturb": "PerturbPeriodSec"},
    "cake": {
        "bandwidth": "Bandwidth",
        "rtt": "RTTSec",
        "overhead": "OverheadBytes",
        "mpu": "MPUBytes",
    },
    "htb": {"default": "DefaultClass", "r2q": "RateToQuantum"},
}
"""Keys of arguments that have a value, by kind."""

_WORDS: Mapping[str, tuple[str, str]] = {
    "ecn": ("ECN", "yes"),
    "noecn": ("ECN", "no"),
    "pacing": ("Pacing", "yes"),
    "nopacing": ("Pacing", "no"),
    "autorate-ingress": ("AutoRateIngress", "yes"),
    "raw": ("UseRawPacketSize", "yes"),
    "noatm": ("CompensationMode", "none"),
    "atm": ("CompensationMode", "atm"),
    "ptm": ("CompensationMode", "ptm"),
    "nonat": ("NAT", "no"),
    "nowash": ("Wash", "no"),
    "split-gso": ("SplitGSO", "yes"),
    "no-ack-filter": ("AckFilter", "no"),
    "ack-filter": ("AckFilter", "yes"),
    "ack-filter-aggressive": ("AckFilter", "aggressive"),
    **{
        preset: ("PriorityQueueingPreset", preset)
        for preset in ("besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8")
    },
    **{
        word: ("FlowIsolationMode", mode)
        for word, mode in (
            ("flowblind", "none"),
            ("srchost", "src-host"),
            ("dsthost", "dst-host"),
            ("hosts", "hosts"),
            ("flows", "flows"),
            ("dual-srchost", "dual-src-host"),
            ("dual-dsthost", "dual-dst-host"),
            ("triple-isolate", "triple"),
        )
    },
}
"""Key and value of arguments that are a single word."""

_WORDS_OF: Mapping[str, tuple[str, ...]] = {
    "codel": ("ecn", "noecn"),
    "fq_codel": ("ecn", "noecn"),
    "fq": ("pacing", "nopacing"),
    "cake": tuple(word for word in _WORDS if word not in ("ecn", "noecn", "pacing", "nopacing")),
}
"""Single words that have a key, by kind."""

_SINCE_253 = ("rtt", "no-ack-filter", "ack-filter", "ack-filter-aggressive")
"""Arguments whose keys (`RTTSec=` and `AckFilter=`) systemd 252 does not know."""

_CLASS = {
    "rate": "Rate",
    "ceil": "CeilRate",
    "burst": "BufferBytes",
    "cburst": "CeilBufferBytes",
    "quantum": "QuantumBytes",
    "prio": "Priority",
}


def networkd(
    scenario: Scenario, link: str = "bottleneck", device: str = "eth0", *, direction: str = "forward"
) -> Commands:
    """Returns sections of a systemd `.network` file for a link into which a device sends. Raises `ValueError`
    if networkd cannot create the queue of the link."""
    checked_device("device", device)
    one = chosen(scenario, link, direction)
    found = one.qdisc(device)
    limits = list(one.limits(found["root"]))
    limits += [f"{one.path}.{key}: left out; the real line has its own" for key in one.left_to_netem]
    lines = ["[Match]", f"Name={device}", *_sections(one, found["root"], "root", [1], limits)]
    undo = [
        f"# Remove the sections from /etc/systemd/network/{device}.network before these commands.",
        "networkctl reload",
        f"tc qdisc del dev {device} root",
    ]
    notes = [
        f"Add these sections to the file that configures {device}, such as "
        f"/etc/systemd/network/{device}.network, and run networkctl reload."
    ]
    return Commands(tuple(lines), tuple(undo), tuple(dict.fromkeys(limits)), tuple(notes), "networkd")


def _sections(
    link: Link, qdisc: Mapping[str, Any], parent: str, numbers: list[int], limits: list[str]
) -> Iterator[str]:
    """Yields the sections of a discipline and of its classes. `numbers` contains the next free handle."""
    kind = qdisc["kind"]
    if kind not in _SECTIONS or (qdisc["classes"] and kind != "htb"):
        raise ValueError(
            f"{link.path}.queue.kind: cannot be configured with networkd, which has no complete section "
            f"for {kind}; available: {', '.join(name for name in _SECTIONS if name != 'htb')}"
        )
    if qdisc["size_table"]:
        limits.append(f"{link.path}.queue: networkd has no size table (stab)")
    number = numbers[0]
    numbers[0] += 1
    yield from ("", f"[{_SECTIONS[kind]}]", f"Parent={parent}", f"Handle={number:x}")
    yield from _settings(link, kind, qdisc["arguments"], limits)
    for one in qdisc["classes"]:
        if one["parent"]:
            raise ValueError(
                f"{link.path}.queue.classes: cannot be configured with networkd, which does not create "
                "classes inside classes; use --format tc"
            )
        identifier = f"{number:x}:{one['number']:x}"
        yield from ("", "[HierarchyTokenBucketClass]", "Parent=root", f"ClassId={identifier}")
        yield from (f"{_CLASS[name]}={_value(value)}" for name, value in one["arguments"])
        if one["filters"]:
            limits.append(
                f"{link.path}.queue.classes: networkd has no filters that select the packets of a class"
            )
        if one["queue"]:
            yield from _sections(link, one["queue"], identifier, numbers, limits)


def _settings(link: Link, kind: str, arguments: Sequence[Argument], limits: list[str]) -> Iterator[str]:
    defaults = _defaults(link, kind)
    missing = []
    for argument in arguments:
        name, *values = argument
        if name in _SINCE_253:
            # Older versions warn about these keys, so a key is written only if its value matters.
            if list(argument) in defaults:
                continue
            limits.append(f"{link.path}.queue: {' '.join(argument)} needs systemd 253 or later")
        if len(values) == 1 and name in _KEYS[kind]:
            yield f"{_KEYS[kind][name]}={_value(values[0])}"
        elif not values and name in _WORDS_OF.get(kind, ()):
            key, value = _WORDS[name]
            yield f"{key}={value}"
        elif list(argument) not in defaults and name not in ("unlimited", "egress"):
            missing.append(" ".join(argument))
    if missing:
        limits.append(f"{link.path}.queue: networkd has no key for {', '.join(missing)}")


def _defaults(link: Link, kind: str) -> list[list[str]]:
    """Returns the arguments that a discipline has by default, which need no key."""
    names = {"pfifo": "drop-tail", "bfifo": "drop-tail"}
    table = {"kind": names.get(kind, kind.replace("_", "-"))}
    plain = Link(link.name, link.path, {**link.table, "queue": table})
    return [list(argument) for argument in plain.qdisc("eth0", shape=False)["root"]["arguments"]]


def _value(word: str) -> str:
    """Returns a value of `tc` as networkd reads values: rates without `bit`, and numbers of classes without
    `0x`."""
    if word.startswith("0x"):
        return word[2:]
    return re.sub(r"^(\d+)([KMGT]?)bit$", r"\1\2", word)
