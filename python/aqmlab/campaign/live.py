"""Live runs in campaigns. Many live runs are executed in parallel, and invalid runs are repeated."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from aqmlab import _core, kernel, live
from aqmlab._support.mistakes import Mistakes
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run

ATTEMPTS = 4
"""Maximum number of attempts to get a valid run."""

AT_ONCE_ON_A_CORE = 16
"""Number of parallel live runs per core, for slow links. In a test on 2 busy cores, all of 48 runs at 140
kbit/s were valid."""

APART_S = 0.25
"""Minimum interval between the starting times of live runs. The interval is needed because creating the hosts
of a run can delay the routers of other runs. In a test with 32 runs that started together, 5 runs were not
valid."""


_CLOCK_MONOTONIC_COARSE = 6
"""The number of a clock whose resolution is one tick (Linux, include/uapi/linux/time.h)."""


class NotValidError(RuntimeError):
    """The error that is raised if every attempt at a live run was invalid."""


class ValidRuns:
    """A scenario that is run live. An invalid run is not a result, so it is repeated. The scenario is run at
    most `ATTEMPTS` times."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    @property
    def digest(self) -> str:
        """The digest of the scenario combined with the kernel release."""
        return f"live-{platform.release()}-{self._scenario.digest}"

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario with all defaults."""
        return self._scenario.effective

    def check(self) -> None:
        """Raises `ValueError` if the scenario cannot be run live. The message contains the scenario's name
        and the field."""
        try:
            live.check(self._scenario, nearest_tcp=True)
        except ValueError as error:
            raise ValueError(f"{self._scenario.name} cannot be run live: {error}") from None

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs the scenario live until its transfers are complete, and repeats the run until it is valid. Of
        the TCP settings that the kernel supports, the run uses those that are closest to the scenario's
        settings.

        In the run's manifest, `live.repeated` lists the reasons why each earlier attempt was invalid. Raises
        `NotValidError` if every attempt is invalid.
        """
        repeated: list[list[str]] = []
        while len(repeated) < ATTEMPTS:
            run = live.run(self._scenario, seed, nearest_tcp=True, until_done=True, watch=watch)
            if run.manifest["live"]["valid"]:
                run.manifest["live"]["repeated"] = repeated
                return run
            repeated.append(run.manifest["live"]["objections"])
        raise NotValidError(
            f"all {ATTEMPTS} live runs were invalid; the last run was invalid because: "
            f"{'; '.join(repeated[-1])}"
        )


class VirtualRuns:
    """A scenario that is run live in virtual time, where every run is valid."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    @property
    def digest(self) -> str:
        """The digest of the scenario combined with the release, the tick and the digest of the kernel."""
        used = _virtual_kernel()
        return f"virtual-{used.release}-hz{used.hz}-{used.digest[:12]}-{self._scenario.digest}"

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario with all defaults."""
        return self._scenario.effective

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Run:
        """Runs the scenario live in virtual time until its transfers are complete. Of the TCP settings that
        the kernel supports, the run uses those that are closest to the scenario's settings."""
        run = kernel.run(
            self._scenario,
            seed,
            kernel=_virtual_kernel(),
            nearest_tcp=True,
            until_done=True,
            limit_s=VIRTUAL_LIMIT_S,
            watch=watch,
        )
        run.manifest["live"]["repeated"] = []
        return run


VIRTUAL_LIMIT_S = 3600.0
"""Time limit of a run in virtual time, in seconds of real time, as of `aqmlab live run --virtual`."""


@cache
def _virtual_kernel() -> kernel.Kernel:
    """The kernel for virtual time, which remains the same for all runs of this process."""
    return kernel.find()


def at_once() -> int:
    """Returns the number of live runs with slow links that this machine executes in parallel."""
    return AT_ONCE_ON_A_CORE * (os.cpu_count() or 1)


def need(scenarios: Iterable[object] = ()) -> None:
    """Checks that these scenarios (`ValidRuns`) can be run live. Raises `NotLive`, with the reason, if live
    runs are impossible on this machine. Raises `ValueError`, with a line for each error, if a scenario cannot
    be run live. Raises `KernelError` if there are scenarios in virtual time (`VirtualRuns`), but no
    kernel."""
    scenarios = list(scenarios)
    if any(isinstance(one, VirtualRuns) for one in scenarios):
        _virtual_kernel()
    if scenarios and all(isinstance(one, VirtualRuns) for one in scenarios):
        return
    granted = live.privileges()
    reasons = [f"{name}: {granted[name]}" for name in ("namespaces", "tun") if granted[name]]
    if reasons:
        raise live.NotLive("live runs are not possible on this machine: " + "; ".join(reasons))
    mistakes = Mistakes()
    for one in scenarios:
        if isinstance(one, ValidRuns):
            mistakes.attempt(one.check)
    mistakes.finish()


def facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the information that is stored about a live run: the scenario, the kernel and the quality of
    the run, as recorded in its manifest."""
    found = manifest["live"]
    virtual = found.get("virtual")
    shortfalls = [one for of_workload in found["tcp_shortfalls"].values() for one in of_workload]
    return {
        "scenario": manifest["scenario"],
        "kernel": virtual["kernel"] if virtual else platform.release(),
        "tick_s": virtual["tick_s"] if virtual else tick_s(),
        "virtual": virtual is not None,
        "ended_s": found["ended_s"],
        "late_p99_us": found["lateness"]["p99_us"],
        "late_max_us": found["lateness"]["max_us"],
        "repeated": found["repeated"],
        "shortfalls": list(dict.fromkeys(shortfalls)),
    }


def tick_s() -> float:
    """Returns the duration in seconds of a tick of this machine's kernel."""
    return time.clock_getres(_CLOCK_MONOTONIC_COARSE)


def merged_facts(runs: Iterable[Mapping[str, Any]], *, virtual: bool = False) -> dict[str, Any] | None:
    """Returns merged information about all live runs of a study, either in real time or in virtual time, or
    `None` if the study has no such runs."""
    # A record without `virtual` is of a run in real time.
    found = [one for one in runs if one.get("virtual", False) == virtual]
    if not found:
        return None
    return {
        "kernels": sorted({one["kernel"] for one in found}),
        "ticks_s": sorted({one["tick_s"] for one in found if "tick_s" in one}),
        "runs": len(found),
        "ended_s": sum(one["ended_s"] for one in found),
        "late_p99_us": max(one["late_p99_us"] for one in found),
        "late_max_us": max(one["late_max_us"] for one in found),
        "repeated": sum(len(one["repeated"]) for one in found),
        "objections": list(dict.fromkeys(why for one in found for again in one["repeated"] for why in again)),
        "shortfalls": list(dict.fromkeys(why for one in found for why in one["shortfalls"])),
    }
