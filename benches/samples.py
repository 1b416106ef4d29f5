"""Measures processes by the resource usage that the operating system reports.

Each measurement is a `Sample`: one run of one program. Tables and figures are computed from samples, and the
history keeps all of them. Programs to compare run alternately, so that other load of the machine affects all
of them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
US = "aqmlab"

# A child inherits the peak memory of the process that starts it, so a small process starts the program.
LAUNCHER = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]), file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One run of one program."""

    group: str
    """The table to which the sample belongs."""

    case: str
    """The workload or its size."""

    subject: str
    """The simulator, or the variant of aqmlab."""

    turn: int
    """Samples of a case with the same turn ran one after another."""

    packets: int
    """Packets forwarded by the bottleneck."""

    events: int | None
    cpu_s: float
    """User and system CPU time of the whole process."""

    peak_bytes: int

    @property
    def ns_per_packet(self) -> float:
        """CPU time per packet forwarded by the bottleneck, in ns."""
        return self.cpu_s / self.packets * 1e9


def sample(
    command: Sequence[str | Path], *, group: str, case: str, subject: str, turn: int, folder: Path
) -> Sample:
    """Runs a program in a folder. The program must print how many packets its bottleneck forwarded."""
    words = [str(word) for word in command]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{done.stdout[-500:]}{done.stderr[-500:]}")
    cpu_s, peak_bytes = json.loads(done.stderr.splitlines()[-1])
    packets, events = counted(done.stdout)
    return Sample(
        group=group,
        case=case,
        subject=subject,
        turn=turn,
        packets=packets,
        events=events,
        cpu_s=cpu_s,
        peak_bytes=peak_bytes,
    )


def counted(printed: str) -> tuple[int, int | None]:
    """Packets and events in the output of aqmlab's programs, of ns-2's scripts or of those in `peers/`."""
    packets = re.search(r'(?:"packets"|"total_departures"): (\d+)|(\d+) packets', printed)
    events = re.search(r'(?:"events"|"events_scheduled"): (\d+)|(\d+) events', printed)
    if packets is None:
        raise RuntimeError(f"no number of packets in: {printed[-500:]}")
    number = int(packets.group(1) or packets.group(2))
    return number, int(events.group(1) or events.group(2)) if events else None


def cost(samples: Iterable[Sample], **which: str) -> float | None:
    """The median CPU time per packet in ns, of the samples with these attributes."""
    found = [one.ns_per_packet for one in samples if _is(one, which)]
    return median(found) if found else None


def ratio(samples: Sequence[Sample], over: str, under: str, **which: str) -> float | None:
    """The CPU time per packet of one subject relative to another: the median over runs of the same turn."""
    costs = {
        subject: {
            one.turn: one.ns_per_packet for one in samples if one.subject == subject and _is(one, which)
        }
        for subject in (over, under)
    }
    found = [costs[over][turn] / costs[under][turn] for turn in costs[over] if turn in costs[under]]
    return median(found) if found else None


def _is(one: Sample, which: dict[str, str]) -> bool:
    return all(getattr(one, name) == value for name, value in which.items())


def distinct(samples: Iterable[Sample], name: Callable[[Sample], str]) -> list[str]:
    """The distinct names of samples, in order of first occurrence."""
    return list(dict.fromkeys(name(one) for one in samples))


def shown(value: float | None, form: str, factor: float = 1) -> str:
    """The formatted number, or a dash if it is missing."""
    return "-" if value is None else format(value * factor, form)
