"""Guests in other programs: transport implementations that run in virtual time at the two ends of a path. The
Rust core starts the programs, exchanges frames with them and checks each answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqmlab import _core
from aqmlab._support import arguments
from aqmlab.scenario import plain

PATH: Mapping[str, Any] = {
    "forward": [
        {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "codel"}, "loss": {"probability": 0.01}}
    ],
    "reverse": [
        {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "codel"}, "loss": {"probability": 0.01}}
    ],
}
"""The path of the admission test, which is aqmlab's choice: a bottleneck with CoDel and random losses, so
that a guest must handle losses."""

HEADERS = 28
"""Bytes of the IPv4 and UDP headers that the path adds to each datagram."""

_ENDS = ("client", "server")


class GuestError(RuntimeError):
    """A guest violated the contract or did not answer. The message contains the end of the path, the time and
    the violation."""

    def __init__(self, message: str, report: str) -> None:
        super().__init__(message)
        self.report = report
        """A text with the commands, the seed, the fault, the last requests with their answers, and the end of
        the programs' standard error."""


@dataclass(frozen=True, kw_only=True)
class End:
    """The counts of one end of the path."""

    calls: int
    """Requests to run that the guest answered."""
    sent: int
    """Datagrams that the guest sent."""
    sent_bytes: int
    """Bytes of these datagrams, including headers."""
    delivered: int
    """Datagrams of this guest that were delivered to the other guest."""
    dropped: int
    """Datagrams of this guest that the path dropped."""
    in_transit: int
    """Datagrams of this guest that were on the path at the end of the run."""


@dataclass(frozen=True, kw_only=True)
class GuestRun:
    """The result of a run of two guests."""

    client: End
    server: End
    stopped_at: int
    """Time at which the guests were stopped, in nanoseconds."""
    digest: str
    """Digest (SHA-256) of time, end, length and fate of all datagrams."""
    events: list[tuple[int, str, str, float]]
    """Values that the guests reported: the time in nanoseconds, the end (`client` or `server`), the name and
    the value."""
    wall_s: float
    """Real time of all requests after the requests to start, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The result of the admission test."""

    reasons: list[str]
    """Reasons for which the guest is not admitted; empty if the guest is admitted."""
    notes: list[str]
    """Observations that do not prevent the admission."""
    run: GuestRun | None
    """The first run, if it was completed."""
    report: str
    """The report of the fault that ended a run; empty if there was none."""

    @property
    def admitted(self) -> bool:
        """Whether the guest is admitted."""
        return not self.reasons


def run_guests(
    client: Sequence[str],
    server: Sequence[str],
    path: Mapping[str, Any] = PATH,
    *,
    seed: int = 1,
    until_s: float = 10.0,
    configs: tuple[str, str] = ("{}", "{}"),
    time_limit_s: float = 10.0,
    isolation: bool = True,
    files: Mapping[str, str] | None = None,
) -> GuestRun:
    """Runs two guests, each in a process of its own, at the ends of a path. `client` and `server` are
    commands. The client sends in the forward direction of `path`, which is the table of an `aqmlab.Path`.

    `seed` replaces the seed of the path, and determines the seeds of both guests. The guests are stopped at
    `until_s` seconds of virtual time, or as soon as no event can happen any more. A guest must answer each
    request within `time_limit_s` seconds of real time.

    With `isolation`, the processes have no network and a read-only file system, which requires Linux 6.2 or
    newer. Ctrl-C in the main thread ends the run and both processes.

    Raises `GuestError` if a guest violates the contract, exits, or exceeds the time limit; `ScenarioError` if
    the path is invalid; `FileNotFoundError` if a command does not exist; and `IsolationError` if the system
    cannot isolate processes.
    """
    from aqmlab._support.parallel import interruptible

    seed = arguments.count("seed", seed, 0)
    table = json.dumps(plain(dict(path)), allow_nan=False)
    commands = list(client), list(server)

    def work(watch: _core.Watch) -> str:
        return _core.run_guests(
            *commands,
            table,
            dict(files or {}),
            seed,
            configs,
            round(until_s * 1e9),
            HEADERS,
            time_limit_s,
            isolation,
            watch,
        )

    try:
        report = json.loads(interruptible(work))
    except _core.GuestFault as fault:
        raise GuestError(fault.args[0], _report(fault, commands, seed)) from None
    ends = [End(**end) for end in report["ends"]]
    return GuestRun(
        client=ends[0],
        server=ends[1],
        stopped_at=report["stopped_at"],
        digest=report["digest"],
        events=[tuple(event) for event in report["events"]],
        wall_s=report["wall_s"],
    )


def check_guest(
    client: Sequence[str], server: Sequence[str] | None = None, path: Mapping[str, Any] = PATH, **options: Any
) -> Admission:
    """Tests whether a guest may be admitted: runs the guest twice with the same seed, each time in new
    processes, and a third time with another seed. `server` is the command at the other end of the path, by
    default the same command. The keyword arguments are those of `run_guests`.

    A guest is not admitted if a run fails, if no datagram is delivered in one of the directions, or if the
    digests of the first two runs differ.
    """
    seed = options.pop("seed", 1)
    reasons: list[str] = []
    notes: list[str] = []
    runs: list[GuestRun] = []
    for run_seed in (seed, seed, seed + 1):
        try:
            runs.append(run_guests(client, server or client, path, seed=run_seed, **options))
        except GuestError as error:
            reasons.append(f"seed {run_seed}: {error}")
            return Admission(reasons=reasons, notes=notes, run=runs[0] if runs else None, report=error.report)
    first, second, other = runs
    for name, end in zip(_ENDS, (first.client, first.server), strict=True):
        if end.delivered == 0:
            reasons.append(f"no datagram of the {name} was delivered")
    if first.digest != second.digest:
        digests = f"{first.digest[:12]} and {second.digest[:12]}"
        reasons.append(
            f"two runs with seed {seed} have different digests ({digests}): the guest's random numbers or "
            "times do not depend only on the seed and on the requests"
        )
    if first.digest == other.digest:
        notes.append(f"the digest does not depend on the seed ({seed} and {seed + 1})")
    return Admission(reasons=reasons, notes=notes, run=first, report="")


def _report(fault: _core.GuestFault, commands: Sequence[Sequence[str]], seed: int) -> str:
    """Returns the text that describes a fault."""
    message, exchanges, errors = fault.args
    lines = [f"fault: {message}", f"seed: {seed}"]
    lines += [f"{end}: {shlex.join(command)}" for end, command in zip(_ENDS, commands, strict=True)]
    lines += ["", "last requests and answers:", *(f"  {line}" for line in exchanges)]
    for end, text in zip(_ENDS, errors, strict=True):
        if text:
            lines += ["", f"standard error of the {end}:", *(f"  {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"
