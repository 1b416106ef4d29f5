"""The people who share a line: activities, each of which is one workload, and households, which are lists of
activities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqmlab._support.names import hint, listed


@dataclass(frozen=True, kw_only=True)
class Activity:
    """A workload of a household."""

    summary: str
    table: Mapping[str, Any]
    """The table `[traffic.NAME]`. The node `right` is the home."""
    comment: str
    has_voice: bool = False
    """Whether the histories of the workload must be recorded, so that the measures of calls can be
    computed."""


ACTIVITIES: Mapping[str, Activity] = {
    "web": Activity(
        summary="one person who reads Web pages",
        table={
            "kind": "sessions",
            "users": 1,
            "request": "300B",
            "http": "2",
            "tls": True,
            "objects": {"kind": "constant", "value": 50},
            "object_gap": {"kind": "constant", "value": "0s"},
            "sizes": {
                "kind": "lomax",
                "shape": 1.2,
                "mean": "12kB",
                "minimum": "1kB",
                "maximum": "500kB",
            },
            "think_time": {"kind": "exponential", "mean": "5s"},
            "think_from": "page-end",
        },
        comment="Pages of 50 objects of at least 1 kB (RFC 7928, section 7.2) over HTTP/2 and TLS. The "
        "sizes and the mean think time of 5 s are aqmlab's choice.",
    ),
    "call": Activity(
        summary="one telephone call",
        table={"kind": "call"},
        comment="A call with G.711, 80 kb/s in each direction (RFC 7928, section 9.1).",
        has_voice=True,
    ),
    "video-call": Activity(
        summary="one video call that adapts its rate",
        table={"kind": "video-call", "control": {"kind": "gcc"}},
        comment="A video call of at most 2.5 Mb/s in each direction, which adapts its rate as WebRTC does.",
    ),
    "video": Activity(
        summary="one person who watches a video",
        table={"kind": "video"},
        comment="A video in segments of 4 s, whose client chooses the bit rate (DASH).",
    ),
    "download": Activity(
        summary="one long download",
        table={"kind": "ftp", "flows": 1},
        comment="A download that lasts for the whole run, such as an update of a game.",
    ),
    "upload": Activity(
        summary="one long upload",
        table={"kind": "ftp", "flows": 1, "from": "right", "to": "left"},
        comment="An upload that lasts for the whole run, such as a backup.",
    ),
}
"""The activities, by name."""

HOUSEHOLDS: Mapping[str, Sequence[str]] = {
    "family": ("web", "call", "download", "upload"),
    "home-office": ("web", "video-call", "upload"),
    "streaming": ("web", "call", "video"),
}
"""Households: lists of activities. aqmlab's choice."""

DEFAULT = "family"


def activities_of(text: str) -> dict[str, Activity]:
    """Returns the activities of a household, or of a comma-separated list of activities. Raises
    `ValueError`."""
    names = HOUSEHOLDS.get(text.strip()) or listed(text)
    unknown = [name for name in names if name not in ACTIVITIES]
    if unknown:
        raise ValueError(
            f"no household or activity is named `{unknown[0]}`: "
            f"{hint(unknown[0], [*HOUSEHOLDS, *ACTIVITIES])}"
        )
    if not names:
        raise ValueError(f"must be a household ({', '.join(HOUSEHOLDS)}) or a list of activities")
    return {name: ACTIVITIES[name] for name in dict.fromkeys(names)}
