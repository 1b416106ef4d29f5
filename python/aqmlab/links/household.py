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

    table: Mapping[str, Any]
    """The table `[traffic.NAME]`. The node `right` is the home."""
    comment: str
    use: str
    """The use of the line, as `aqmlab advise --for` names it."""
    has_voice: bool = False
    """Whether the histories of the workload must be recorded, so that the measures of calls can be
    computed."""


ACTIVITIES: Mapping[str, Activity] = {
    "web": Activity(
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
        use="web",
        comment="Pages of 50 objects of at least 1 kB (RFC 7928, section 7.2) over HTTP/2 and TLS. The "
        "sizes and the mean think time of 5 s are aqmlab's choice.",
    ),
    "call": Activity(
        table={"kind": "call"},
        use="calls",
        comment="A call with G.711, 80 kb/s in each direction (RFC 7928, section 9.1).",
        has_voice=True,
    ),
    "video-call": Activity(
        table={"kind": "video-call", "control": {"kind": "gcc"}},
        use="calls",
        comment="A video call of at most 2.5 Mb/s in each direction, which adapts its rate as WebRTC does.",
    ),
    "video": Activity(
        table={"kind": "video"},
        use="video",
        comment="A video in segments of 4 s, whose client chooses the bit rate (DASH).",
    ),
    "download": Activity(
        table={"kind": "ftp", "flows": 1},
        use="downloads",
        comment="A download that lasts for the whole run, such as an update of a game.",
    ),
    "upload": Activity(
        table={"kind": "ftp", "flows": 1, "from": "right", "to": "left"},
        use="uploads",
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

INTERACTIVE = ("calls", "video", "web")
"""Uses whose users wait, in the order in which `aqmlab link new` suggests them for advice. aqmlab's
choice."""


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


def uses_of(activities: Mapping[str, Activity]) -> list[str]:
    """Returns the uses for which advice is useful: the interactive uses or, without these, all uses."""
    uses = list(dict.fromkeys(activity.use for activity in activities.values()))
    return [use for use in INTERACTIVE if use in uses] or uses
