"""Live runs on Linux, in which traffic of the kernel's TCP and of real programs passes through a scenario's
queues."""

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
"""Name of the workload that represents the user's command."""

LONGEST = "1440min"
"""Maximum duration of a user's command."""

LINK: Mapping[str, Any] = {
    "bottleneck": {"queue": {"kind": "drop-tail"}, "reverse": {"queue": {"kind": "drop-tail"}}},
    "access": {"rate": "100Gbps", "delay": "0s"},
    "tcp": {"profile": "linux-6"},
}
"""The tables of a single link with a queue in each direction."""


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
    """Runs a scenario live, in real time. The tables have the same format as those of a simulation.

    `manifest["live"]` states whether the run is valid, and contains the effective settings. If the kernel's
    TCP does not support a setting in `[tcp]`, the scenario is rejected; with `nearest_tcp`, the nearest
    supported setting is used instead. With `until_done`, the run ends early, as soon as all client programs
    have exited or, if there are no programs, as soon as all transfers are complete and acknowledged. `pcap`
    is the path of a pcapng file to which all packets are written, including dropped packets with the reasons
    for the drops.

    `congestion_control` is a congestion control of the kernel, such as `bbr`. For all connections, this
    congestion control replaces the one in `[tcp]`. Programs may select another congestion control for their
    sockets.

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
    """Raises the errors that `run` raises before the run starts. The check takes at most 0.2 s."""
    from aqmlab._support.parallel import attempted

    _need_linux()
    attempted(lambda watch: _core.run_live(scenario.plan, watch, nearest_tcp=nearest_tcp))


def with_command(
    scenario: Scenario | None,
    command: Sequence[str],
    server: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    *,
    network: Mapping[str, Any] = LINK,
    files: Mapping[str, str] | None = None,
) -> Scenario:
    """Returns a scenario with a client command and a `server` command, in addition to the workloads of
    `scenario`. Without `scenario`, the network consists of the tables `network`, which may refer to `files`:
    by default, a single link with a queue in each direction, and a TCP with the kernel's settings."""
    table: dict[str, Any] = dict(scenario.given if scenario else network)
    traffic = dict(table.get("traffic", {}))
    if SHELL in traffic:
        raise ValueError(f"traffic.{SHELL}: the name is reserved for the command: rename the workload")
    traffic[SHELL] = {"kind": "program", "client": list(command), "server": list(server)}
    # There is no warm-up, so the measurement covers the whole run of the command.
    whole = {**table, "traffic": traffic, "duration": LONGEST, "warm_up": "0s"}
    created = Scenario.from_dict(whole, files=scenario.files if scenario else files, name=SHELL)
    return created.with_(changes) if changes else created


def status(run: Run) -> int:
    """Returns the exit status of the user's command, or 1 if the status is unknown."""
    found = run.manifest["live"]["statuses"].get(SHELL)
    return 1 if found is None else int(found)


def privileges() -> dict[str, str | None]:
    """Returns, for each feature of live runs, whether this machine grants the required privilege: `None` if
    the privilege is granted, and otherwise the reason for the denial."""
    _need_linux()
    found = json.loads(_core.live_privileges())
    return {name: None if grant["granted"] == "yes" else grant["why"] for name, grant in found.items()}


def _need_linux() -> None:
    if not hasattr(_core, "run_live"):
        raise NotLive(f"live runs need Linux (got {sys.platform})")
