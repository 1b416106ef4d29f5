"""Live runs of a campaign: valid ones, many at once, each as seldom as it takes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from typing import Any

from aqmlab import _core, live
from aqmlab._support.mistakes import Mistakes
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run

ATTEMPTS = 4
"""So often is a run made before it is given up because none was valid."""

AT_ONCE_ON_A_CORE = 16
"""Live runs at once on each core, of slow lines. On 2 busy cores all of 48 runs of 140 kbit/s were valid."""

APART_S = 0.25
"""Live runs begin at least so far apart: while hosts are made the routers of other runs may stand still. Of
32 that began together 5 were not valid."""


class NotValidError(RuntimeError):
    """Every attempt at a live run was disturbed."""


class ValidRuns:
    """A scenario that is run live. An invalid run is never a result: it is made again, a few times."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    @property
    def digest(self) -> str:
        """That of the scenario, and the kernel."""
        return f"live-{platform.release()}-{self._scenario.digest}"

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario in full."""
        return self._scenario.effective

    def check(self) -> None:
        """Raises `ValueError`, which names the scenario and the field, if it cannot be run live."""
        try:
            live.check(self._scenario, nearest_tcp=True)
        except ValueError as error:
            raise ValueError(f"{self._scenario.name} cannot be run live: {error}") from None

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """A valid run, with the nearest TCP and until its work is done.

        In its manifest `live.repeated` tells of each attempt before it what there was against that. Raises
        `NotValidError` if no attempt is valid.
        """
        repeated: list[list[str]] = []
        while len(repeated) < ATTEMPTS:
            run = live.run(self._scenario, seed, nearest_tcp=True, until_done=True, watch=watch)
            if run.manifest["live"]["valid"]:
                run.manifest["live"]["repeated"] = repeated
                return run
            repeated.append(run.manifest["live"]["objections"])
        raise NotValidError(f"none of {ATTEMPTS} live runs was valid; the last: {'; '.join(repeated[-1])}")


def at_once() -> int:
    """How many live runs of slow lines this machine bears at once."""
    return AT_ONCE_ON_A_CORE * (os.cpu_count() or 1)


def need(scenarios: Iterable[object] = ()) -> None:
    """Raises `NotLive` if no live run is possible on this machine, with the reason, and `ValueError`, with a
    line for each mistake, if one of these scenarios (`ValidRuns`) cannot be run live."""
    granted = live.privileges()
    reasons = [f"{name}: {granted[name]}" for name in ("namespaces", "tun") if granted[name]]
    if reasons:
        raise live.NotLive("no live run is possible here: " + "; ".join(reasons))
    mistakes = Mistakes()
    for one in scenarios:
        if isinstance(one, ValidRuns):
            mistakes.attempt(one.check)
    mistakes.finish()


def facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a live run's manifest: what was run, how, and how much it may be believed."""
    found = manifest["live"]
    shortfalls = [one for of_workload in found["tcp_shortfalls"].values() for one in of_workload]
    return {
        "scenario": manifest["scenario"],
        "kernel": platform.release(),
        "ended_s": found["ended_s"],
        "late_p99_us": found["lateness"]["p99_us"],
        "late_max_us": found["lateness"]["max_us"],
        "repeated": found["repeated"],
        "shortfalls": list(dict.fromkeys(shortfalls)),
    }


def together(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The facts of all live runs of a study in one; `None` if it has none."""
    found = list(runs)
    if not found:
        return None
    return {
        "kernels": sorted({one["kernel"] for one in found}),
        "runs": len(found),
        "ended_s": sum(one["ended_s"] for one in found),
        "late_p99_us": max(one["late_p99_us"] for one in found),
        "late_max_us": max(one["late_max_us"] for one in found),
        "repeated": sum(len(one["repeated"]) for one in found),
        "objections": list(dict.fromkeys(why for one in found for again in one["repeated"] for why in again)),
        "shortfalls": list(dict.fromkeys(why for one in found for why in one["shortfalls"])),
    }
