"""Guests in other programs: transport implementations that run in virtual time at the two ends of a path. The
border in the Rust core checks each answer; this module starts the programs and exchanges frames with them."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import tempfile
import time
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
_PREFIX = 4
_LONGEST = 1 << 30
"""Maximum length of an answer in bytes."""
_STDERR = 2000
"""Number of bytes of a guest's standard error that a report contains."""


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
    files: Mapping[str, str] | None = None,
) -> GuestRun:
    """Runs two guests, each in a process of its own, at the ends of a path. `client` and `server` are
    commands. The client sends in the forward direction of `path`, which is the table of an `aqmlab.Path`.

    `seed` replaces the seed of the path, and determines the seeds of both guests. The guests are stopped at
    `until_s` seconds of virtual time, or as soon as no event can happen any more. A guest must answer each
    request within `time_limit_s` seconds of real time.

    Raises `GuestError` if a guest violates the contract, exits, or exceeds the time limit; `ScenarioError` if
    the path is invalid; and `FileNotFoundError` if a command does not exist.
    """
    seed = arguments.count("seed", seed, 0)
    text = json.dumps(plain(dict(path)), allow_nan=False)
    border = _core.Border(text, dict(files or {}), seed, configs, round(until_s * 1e9), HEADERS)
    programs: list[_Program] = []
    try:
        for command in (client, server):
            programs.append(_Program(command, time_limit_s))
        start, answers = time.perf_counter(), 0
        try:
            while (call := border.next()) is not None:
                end, request = call
                if answers == len(programs):
                    start = time.perf_counter()
                answers += 1
                try:
                    body = programs[end].exchange(request)
                except _NoAnswerError as error:
                    border.fail(str(error))
                else:
                    border.answer(body)
            report = json.loads(border.report())
        except _core.GuestFault as fault:
            raise GuestError(str(fault), _report(fault, border, programs, seed)) from None
        wall_s = time.perf_counter() - start
    finally:
        for program in programs:
            program.close()
    ends = [End(**end) for end in report["ends"]]
    return GuestRun(
        client=ends[0],
        server=ends[1],
        stopped_at=report["stopped_at"],
        digest=report["digest"],
        events=[tuple(event) for event in report["events"]],
        wall_s=wall_s,
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


class _NoAnswerError(Exception):
    """A program did not answer a request."""


class _Program:
    """A program that answers requests over its standard input and standard output."""

    def __init__(self, command: Sequence[str], time_limit_s: float) -> None:
        self.command = list(command)
        self._time_limit_s = time_limit_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes the file.
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        self._reading = select.poll()
        self._reading.register(self._output, select.POLLIN)
        self._both = select.poll()
        self._both.register(self._output, select.POLLIN)
        self._both.register(self._input, select.POLLOUT)

    def exchange(self, request: bytes) -> bytes:
        """Sends the frame of a request and returns the body of the answer. Raises `_NoAnswerError` if there
        is no answer."""
        deadline = time.monotonic() + self._time_limit_s
        answer = bytearray()
        while True:
            if request:
                request = request[self._write(request) :]
            ready = (self._both if request else self._reading).poll(
                1000 * max(0, deadline - time.monotonic())
            )
            if not ready:
                raise _NoAnswerError(
                    f"the guest did not answer within {self._time_limit_s:g} s and was ended"
                )
            if not any(
                event & (select.POLLIN | select.POLLHUP) and fd == self._output for fd, event in ready
            ):
                continue
            chunk = os.read(self._output, 1 << 16)
            if not chunk:
                raise _NoAnswerError(f"the guest ended before its answer ({self._status()})")
            answer += chunk
            if len(answer) < _PREFIX:
                continue
            length = int.from_bytes(answer[:_PREFIX], "little")
            if length > _LONGEST:
                raise _NoAnswerError(f"an answer must contain at most {_LONGEST} bytes (got {length})")
            if len(answer) > _PREFIX + length or (request and len(answer) == _PREFIX + length):
                raise _NoAnswerError("the guest sent more than one answer, or an answer without a request")
            if len(answer) == _PREFIX + length:
                return bytes(answer[_PREFIX:])

    def _write(self, request: bytes) -> int:
        try:
            return os.write(self._input, request)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            raise _NoAnswerError(f"the guest ended before the request ({self._status()})") from None

    def _status(self) -> str:
        try:
            return f"exit status {self._process.wait(timeout=1)}"
        except subprocess.TimeoutExpired:
            return "its standard output is closed"

    def errors(self) -> str:
        """Returns the end of the program's standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _STDERR))
        return self._errors.read().decode("utf-8", errors="replace")

    def close(self) -> None:
        """Ends the program."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def _report(fault: Exception, border: _core.Border, programs: Sequence[_Program], seed: int) -> str:
    """Returns the text that describes a fault."""
    lines = [f"fault: {fault}", f"seed: {seed}"]
    lines += [f"{end}: {shlex.join(one.command)}" for end, one in zip(_ENDS, programs, strict=True)]
    lines += ["", "last requests and answers:", *(f"  {line}" for line in border.last_exchanges())]
    for end, program in zip(_ENDS, programs, strict=True):
        if errors := program.errors():
            lines += ["", f"standard error of the {end}:", *(f"  {line}" for line in errors.splitlines())]
    return "\n".join(lines) + "\n"
