"""Scenarios that load recorded pages, over an ordinary access link or over the network of any scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aqmlab.pages.page import Page
from aqmlab.scenario import Scenario
from aqmlab.sweep import Changes

VERSIONS = ("1.1", "2", "3")
"""Versions of HTTP."""

SETTLED_S = 5.0
"""Time between the start of the downloads and the first load; aqmlab's choice."""

STAGGER_S = 1.0
"""Interval from which the start of each user's load is drawn. The interval is longer than a cycle of the
congestion window of a download on an ordinary access link; aqmlab's choice."""

LONGEST_LOAD_S = 60.0
"""Time after the last start of a load at which a run ends; aqmlab's choice: users do not wait longer."""

BUFFER_S = 0.25
"""Default size of the buffer, as time at the rate of the link; aqmlab's choice: a quarter of a second, as
many access routers have."""


@dataclass(frozen=True, kw_only=True)
class AccessLink:
    """An access link with a Drop Tail queue in both directions."""

    rate_bps: float
    """Rate to the client."""
    rtt_s: float
    """Round-trip time without queueing."""
    up_bps: float | None = None
    """Rate from the client; by default the rate to the client."""
    buffer_s: float = BUFFER_S
    """Size of the buffer of Drop Tail, as time at the rate to the client."""

    def tables(self) -> dict[str, Any]:
        """Returns the tables of a scenario with this link."""
        up = self.up_bps or self.rate_bps
        queues = [_drop_tail(rate, self.buffer_s) for rate in (self.rate_bps, up)]
        delay = f"{round(1e9 * self.rtt_s / 2)}ns"
        return {
            "bottleneck": {
                "rate": f"{round(self.rate_bps)}bps",
                "delay": delay,
                "queue": queues[0],
                "reverse": {"rate": f"{round(up)}bps", "delay": delay, "queue": queues[1]},
            },
            "queues": {"drop-tail": queues[0]},
            # The access links of the hosts have no effect.
            "access": {"rate": f"{max(10**9, round(10 * self.rate_bps))}bps", "delay": "0ms"},
            "tcp": {"profile": "linux-6"},
        }


def _drop_tail(rate_bps: float, buffer_s: float) -> dict[str, Any]:
    packets = max(10, round(rate_bps * buffer_s / 8 / 1500))
    return {"kind": "drop-tail", "limit": f"{packets}p"}


def workload_names(pages: Sequence[Page]) -> list[str]:
    """Returns the name of each page's workload: `page`, or `page-1`, `page-2` and so on."""
    return ["page"] if len(pages) == 1 else [f"page-{number}" for number in range(1, len(pages) + 1)]


def on_link(
    link: AccessLink, pages: Sequence[Page], *, http: str, users: int = 1, downloads: int = 0
) -> Scenario:
    """Returns a scenario in which each user loads each page once. The loads compete with long downloads."""
    start = SETTLED_S if downloads else 0.0
    stagger = STAGGER_S if downloads or users > 1 or len(pages) > 1 else 0.0
    table = link.tables()
    table["duration"] = f"{start + stagger + LONGEST_LOAD_S:g}s"
    if start:
        table["warm_up"] = f"{start:g}s"
    if downloads:
        table["traffic"] = {"downloads": {"kind": "ftp", "flows": downloads, "stagger": "2s"}}
    timing = _Timing(start_s=start, stagger_s=stagger)
    return _with_pages(table, {}, "page", pages, timing, users=users, http=http)


def on_scenario(
    scenario: Scenario,
    pages: Sequence[Page],
    *,
    http: str,
    users: int = 1,
    ends: tuple[str, str] | None = None,
) -> Scenario:
    """Returns a scenario with another traffic: each user loads each page once, after the warm-up. `ends` are
    the nodes of the servers and of the users, which a scenario with a table `links` needs."""
    names = workload_names(pages)
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name} has the level `{scenario.level}`, but pages need the level `packet`"
        )
    known = scenario.effective["traffic"]
    for name in names:
        if name in known:
            raise ValueError(
                f"{scenario.name}: traffic.{name}: is the name of a page's workload: rename the workload"
            )
    if "bottleneck" not in scenario.effective and ends is None:
        raise ValueError(
            f"{scenario.name} has a table `links`: name the nodes of the servers and of the users with --ends"
        )
    if "bottleneck" in scenario.effective and ends is not None:
        raise ValueError("--ends: is only used with a scenario that has a table `links`")
    from aqmlab.metrics.tables import seconds

    timing = _Timing(start_s=seconds(scenario.effective["warm_up"]), stagger_s=STAGGER_S)
    return _with_pages(
        scenario.given, scenario.files, scenario.name, pages, timing, users=users, http=http, ends=ends
    )


@dataclass(frozen=True, kw_only=True)
class _Timing:
    start_s: float
    stagger_s: float


def _with_pages(
    given: Mapping[str, Any],
    files: Mapping[str, str],
    scenario_name: str,
    pages: Sequence[Page],
    timing: _Timing,
    *,
    users: int,
    http: str,
    ends: tuple[str, str] | None = None,
) -> Scenario:
    traffic, files = dict(given.get("traffic", {})), dict(files)
    for name, page in zip(workload_names(pages), pages, strict=True):
        table: dict[str, Any] = {
            "kind": "recorded-page",
            "file": f"{name}.csv",
            "users": users,
            "loads": 1,
            "start": f"{timing.start_s:g}s",
            "stagger": f"{timing.stagger_s:g}s",
        }
        if ends is not None:
            table |= {"from": ends[0], "to": ends[1]}
        traffic[name] = over(table, page, http)
        files[f"{name}.csv"] = page.to_csv()
    return Scenario.from_dict({**given, "traffic": traffic}, files=files, name=scenario_name)


def over(table: Mapping[str, Any], page: Page, http: str) -> dict[str, Any]:
    """Returns the table of a page's workload over a version of HTTP. HTTP/1.1 includes TLS if the recording
    does; browsers use HTTP/2 and HTTP/3 only with TLS."""
    changed = {name: value for name, value in table.items() if name != "tcp"}
    changed |= {"http": http, "tls": page.tls or http != "1.1"}
    return changed | ({"tcp": {"profile": "quic"}} if http == "3" else {})


def versions(pages: Sequence[Page], http: Sequence[str]) -> Changes:
    """Returns the values of an axis of versions of HTTP."""

    def change(version: str, table: dict[str, Any]) -> dict[str, Any]:
        for name, page in zip(workload_names(pages), pages, strict=True):
            table["traffic"][name] = over(table["traffic"][name], page, version)
        return table

    return Changes({f"HTTP/{version}": partial(change, version) for version in http})
