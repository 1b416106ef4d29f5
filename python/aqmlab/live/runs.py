"""Live runs on Linux, in which a scenario's queues carry the traffic of the kernel's TCP and of real
programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aqmlab import _core
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run

SHELL = "shell"
"""Name of the workload that is a user's command."""

LONGEST = "1440min"
"""Maximum duration of a command."""


class NotLive(RuntimeError):
    """Live runs are not possible on this machine."""


def run(
    scenario: Scenario,
    seed: int | None = None,
    *,
    nearest_tcp: bool = False,
    until_done: bool = False,
    pcap: Path | None = None,
    congestion_control: str | None = None,
    watch: _core.Watch | None = None,
) -> Run:
    """Runs a scenario live, in real time. The tables have the format of a simulation's tables.

    `manifest["live"]` contains the validity of the run and the effective settings. If the kernel's TCP does
    not support a setting in `[tcp]`, the scenario is rejected; with `nearest_tcp` the nearest supported
    behaviour is used. With `until_done` the run ends early when all client programs have exited or, without
    programs, when all transfers are complete and acknowledged. `pcap` is a pcapng file for the packets,
    including dropped packets with the reasons.

    `congestion_control` is a congestion control of the kernel, such as `bbr`, which replaces the one in
    `[tcp]` for all connections; programs may select another one for their sockets.

    Raises `ScenarioError` if the scenario cannot be run live or the kernel lacks the congestion control,
    `LiveError` if the system denies an operation, and `OSError` if `pcap` cannot be written.
    """
    from aqmlab._support.parallel import interruptible

    _need_linux()

    def work(watch: _core.Watch) -> Run:
        return Run.of(
            lambda: _core.run_live(
                scenario.plan,
                watch,
                seed=seed,
                nearest_tcp=nearest_tcp,
                until_done=until_done,
                pcap=pcap,
                congestion_control=congestion_control,
            )
        )

    return interruptible(work, watch)


def check(scenario: Scenario, *, nearest_tcp: bool = False) -> None:
    """Raises the errors that `run` raises before the run starts. Takes at most 0.2 s."""
    from aqmlab._support.parallel import attempted

    _need_linux()
    attempted(lambda watch: _core.run_live(scenario.plan, watch, nearest_tcp=nearest_tcp))


def with_command(
    scenario: Scenario | None,
    command: Sequence[str],
    server: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Scenario:
    """A scenario with a command as the client, and a `server` command, in addition to the workloads of
    `scenario`. Without `scenario` the network is a single link with a queue in each direction and the
    kernel's TCP settings."""
    table: dict[str, Any] = (
        dict(scenario.given)
        if scenario
        else {
            "bottleneck": {"queue": {"kind": "drop-tail"}, "reverse": {"queue": {"kind": "drop-tail"}}},
            "access": {"rate": "100Gbps", "delay": "0s"},
            "tcp": {"profile": "linux-6"},
        }
    )
    traffic = dict(table.get("traffic", {}))
    if SHELL in traffic:
        raise ValueError(f"traffic.{SHELL}: the name is reserved for the command: rename the workload")
    traffic[SHELL] = {"kind": "program", "client": list(command), "server": list(server)}
    # The measurement covers the whole run of the command.
    whole = {**table, "traffic": traffic, "duration": LONGEST, "warm_up": "0s"}
    created = Scenario.from_dict(whole, files=scenario.files if scenario else None, name=SHELL)
    return created.with_(changes) if changes else created


def status(run: Run) -> int:
    """The exit status of the user's command; 1 if unknown."""
    found = run.manifest["live"]["statuses"].get(SHELL)
    return 1 if found is None else int(found)


def privileges() -> dict[str, str | None]:
    """The privileges of live runs on this machine by feature: `None` if granted, otherwise the reason for the
    denial."""
    _need_linux()
    found = json.loads(_core.live_privileges())
    return {name: None if grant["granted"] == "yes" else grant["why"] for name, grant in found.items()}


def _need_linux() -> None:
    if not hasattr(_core, "run_live"):
        raise NotLive(f"live runs need Linux (got {sys.platform})")
