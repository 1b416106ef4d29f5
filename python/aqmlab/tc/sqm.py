"""A section of `/etc/config/sqm`, which configures sqm-scripts on OpenWrt.

The sources are the scripts of tohojo/sqm-scripts (`run-openwrt.sh`, `simplest.qos`, `piece_of_cake.qos`).
The scripts pass `eqdisc_opts` and `iqdisc_opts` to `tc` after their own arguments, and `tc` uses the last of
several values, so that every argument of the queue reaches the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aqmlab.scenario import Scenario
from aqmlab.tc.commands import Commands
from aqmlab.tc.link import Link, checked_device, chosen

_KINDS = ("pfifo", "bfifo", "codel", "fq_codel", "pie", "fq_pie", "sfq", "cake")
"""Disciplines that `simplest.qos` and the scripts for cake can create without further arguments."""

_OWN = ("limit", "target", "ecn", "noecn", "bandwidth", "unlimited")
"""Arguments for which sqm has options of its own."""


def sqm(
    scenario: Scenario,
    link: str | None = "bottleneck",
    device: str = "eth0",
    *,
    direction: str = "forward",
    download: str | None = None,
) -> Commands:
    """Returns a section of `/etc/config/sqm` for one or two links of a scenario. `link` is the upload and
    `download` the download; either of the two may be `None`. Raises `ValueError` if sqm cannot create the
    queue of a link."""
    checked_device("device", device)
    roles = [
        (role, chosen(scenario, name, way, argument="link" if role == "upload" else role))
        for role, name, way in (("upload", link, direction), ("download", download, "forward"))
        if name is not None
    ]
    if not roles:
        raise ValueError("link: is missing; name a link, or name the link of a download")
    limits: list[str] = []
    settings: dict[str, Any] = {"enabled": 1, "interface": device, "download": 0, "upload": 0}
    advanced: dict[str, Any] = {}
    kinds = {}
    for role, one in roles:
        found = one.qdisc(device, shape=False)
        kind = found["root"]["kind"]
        if kind not in _KINDS:
            raise ValueError(
                f"{one.path}.queue.kind: cannot be configured with sqm-scripts, which create "
                f"{', '.join(_KINDS)}"
            )
        kinds[role] = kind
        limits += one.limits(found["root"])
        limits += _unused(one)
        settings[role] = _kbps(one, found["root"], limits)
        advanced |= _options(role, found["root"])
    if len(set(kinds.values())) > 1:
        raise ValueError(
            f"{roles[1][1].path}.queue.kind: must be the same as {roles[0][1].path}.queue.kind, because "
            f"sqm has one qdisc for both directions (got {kinds['upload']} and {kinds['download']})"
        )
    settings |= {"qdisc": kind, "script": _script(kind, advanced), "qdisc_advanced": 1}
    settings |= {"squash_dscp": 0, "squash_ingress": 0, "qdisc_really_really_advanced": 1, **advanced}
    settings.setdefault("linklayer", "none")
    name = re.sub(r"[^A-Za-z0-9_]", "_", device)
    lines = [f"config queue '{name}'", *(f"\toption {key} '{value}'" for key, value in settings.items())]
    undo = [f"uci delete sqm.{name}", "uci commit sqm", "/etc/init.d/sqm restart"]
    notes = ["Add this section to /etc/config/sqm, and run /etc/init.d/sqm restart."]
    return Commands(tuple(lines), tuple(undo), tuple(dict.fromkeys(limits)), tuple(notes), "sqm")


def _unused(link: Link) -> list[str]:
    """Returns the properties of a link that a shaper in front of a real line does not imitate."""
    return [f"{link.path}.{key}: sqm has no netem; the real line has its own" for key in link.left_to_netem]


def _kbps(link: Link, root: Mapping[str, Any], limits: list[str]) -> int:
    """Returns the rate of the shaper in kbit/s."""
    own = dict(argument for argument in root["arguments"] if len(argument) == 2).get("bandwidth")
    bps = min(link.bps, _bps(own)) if own else link.bps
    if root["kind"] == "cake" and own is None:
        limits.append(f"{link.path}.queue.bandwidth: sqm sets cake's shaper to the rate of the link")
    if bps % 1000:
        limits.append(f"{link.path}.rate: sqm counts kbit/s, so {bps}bit becomes {bps // 1000}Kbit")
    if bps < 1000:
        raise ValueError(f"{link.path}.rate: must be at least 1kbps for sqm (got {link.rate})")
    return bps // 1000


def _bps(word: str) -> int:
    units = {"bit": 1, "Kbit": 10**3, "Mbit": 10**6, "Gbit": 10**9, "Tbit": 10**12}
    digits = word.rstrip("KMGTbit")
    return int(digits) * units[word[len(digits) :]]


def _options(role: str, root: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of one direction."""
    prefix, way = ("e", "egress") if role == "upload" else ("i", "ingress")
    arguments: Sequence[Sequence[str]] = root["arguments"]
    given = {argument[0]: argument[1:] for argument in arguments}
    options: dict[str, Any] = {f"{way}_ecn": "NOECN" if "noecn" in given else "ECN"}
    for name in ("limit", "target"):
        if name in given:
            options[f"{prefix}{name}"] = given[name][0]
    rest = [word for argument in arguments if argument[0] not in _OWN for word in argument]
    if root["kind"] == "cake":
        # The direction is part of the script.
        rest = [word for word in rest if word != "egress"]
    if rest:
        options[f"{prefix}qdisc_opts"] = " ".join(rest)
    table = {argument[0]: argument[1] for argument in root["size_table"]}
    if table:
        options |= {
            "linklayer": table["linklayer"],
            "overhead": table["overhead"],
            "linklayer_advanced": 1,
            "linklayer_adaptation_mechanism": "tc_stab",
            "tcMTU": table["mtu"],
            "tcTSIZE": table["tsize"],
            "tcMPU": table["mpu"],
        }
    return options


def _script(kind: str, options: Mapping[str, Any]) -> str:
    if kind != "cake":
        return "simplest.qos"
    words = " ".join(str(options.get(f"{way}qdisc_opts", "")) for way in "ei").split()
    return "piece_of_cake.qos" if "besteffort" in words else "layer_cake.qos"
