"""Live runs, on Linux: a scenario's queues in front of the kernel's own TCP and of real programs."""

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
"""The name of the workload that is a command of the user's."""

LONGEST = "1440min"
"""How long a command may last."""


class NotLive(RuntimeError):
    """No live run is possible on this machine."""


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
    """Runs a scenario live, in as many seconds as it lasts; the tables are those of a simulation.

    `manifest["live"]` says whether the run is valid and what was in force. Where the kernel's TCP cannot do
    what `[tcp]` says the scenario is refused, or, with `nearest_tcp`, it does what comes nearest. With
    `until_done` the run ends before the scenario's duration if its work is done: the clients of its programs
    have ended; if it has none, nothing is left to ask for, and all was received and acknowledged. The packets
    go to the file `pcap` (pcapng), those that were dropped among them, with the reason beside. All
    connections use the kernel's `congestion_control`, such as `bbr`, in place of the one in `[tcp]`; programs
    may choose another one for their sockets.
    Raises `ScenarioError` if the scenario cannot be run live or the kernel lacks the congestion control,
    `LiveError` if the system refuses something, `OSError` if `pcap` cannot be written.
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
    """Raises what `run` refuses of a scenario before it begins, in a fifth of a second at most."""
    from aqmlab._support.parallel import attempted

    _need_linux()
    attempted(lambda watch: _core.run_live(scenario.plan, watch, nearest_tcp=nearest_tcp))


def with_command(
    scenario: Scenario | None,
    command: Sequence[str],
    server: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
) -> Scenario:
    """A scenario in which a command stands where data go, and a `server` where they come from; its other
    workloads are those of `scenario`. Without one there is the line, with a queue each way, and the kernel's
    own TCP, and no more."""
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
        raise ValueError(f"a workload of the scenario is named `{SHELL}`, as the command is: rename it")
    traffic[SHELL] = {"kind": "program", "client": list(command), "server": list(server)}
    # What is measured is what the command does, from its beginning.
    whole = {**table, "traffic": traffic, "duration": LONGEST, "warm_up": "0s"}
    made = Scenario.from_dict(whole, files=scenario.files if scenario else None, name=SHELL)
    return made.with_(changes) if changes else made


def status(run: Run) -> int:
    """The exit status of the command."""
    found = run.manifest["live"]["statuses"].get(SHELL)
    return 1 if found is None else int(found)


def privileges() -> dict[str, str | None]:
    """What a live run can have here, by feature: nothing if it is granted, or else why not."""
    _need_linux()
    found = json.loads(_core.live_privileges())
    return {name: None if grant["granted"] == "yes" else grant["why"] for name, grant in found.items()}


def _need_linux() -> None:
    if not hasattr(_core, "run_live"):
        raise NotLive(f"live runs need Linux, and this is {sys.platform}")
