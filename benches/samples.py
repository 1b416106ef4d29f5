"""What is measured, and how: processes, each with what it cost by the system's own account.

Everything that is measured is a `Sample`, one run of one program. Tables and figures are made of samples,
and the history keeps them all. What is compared is run in turn, so that what else the machine does meets
both.
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

# The system counts a program's memory from before it was started, so something small starts it.
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
    """The table it belongs to."""

    case: str
    """What was run."""

    subject: str
    """What ran it: a simulator, or a variant of ours."""

    turn: int
    """Samples of a case with the same turn were run one after another."""

    packets: int
    """Packets that the bottleneck forwarded."""

    events: int | None
    cpu_s: float
    """User and system time of the whole process."""

    peak_bytes: int

    @property
    def ns_per_packet(self) -> float:
        """CPU time for a packet of the bottleneck."""
        return self.cpu_s / self.packets * 1e9


def sample(
    command: Sequence[str | Path], *, group: str, case: str, subject: str, turn: int, folder: Path
) -> Sample:
    """Runs a program in a folder; it prints how many packets its bottleneck forwarded."""
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
    """Packets and events in what a program of ours, ns-2's scripts or those in `peers/` print."""
    packets = re.search(r'(?:"packets"|"total_departures"): (\d+)|(\d+) packets', printed)
    events = re.search(r'(?:"events"|"events_scheduled"): (\d+)|(\d+) events', printed)
    if packets is None:
        raise RuntimeError(f"no number of packets in: {printed[-500:]}")
    number = int(packets.group(1) or packets.group(2))
    return number, int(events.group(1) or events.group(2)) if events else None


def cost(samples: Iterable[Sample], **which: str) -> float | None:
    """The median CPU time for a packet in ns, of the samples with these attributes."""
    found = [one.ns_per_packet for one in samples if _is(one, which)]
    return median(found) if found else None


def ratio(samples: Sequence[Sample], over: str, under: str, **which: str) -> float | None:
    """What a packet costs one subject in times of another: the median of runs made in turn."""
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
    """Names of samples in the order in which they first came."""
    return list(dict.fromkeys(name(one) for one in samples))


def shown(value: float | None, form: str, factor: float = 1) -> str:
    """A number, or a dash where it is missing."""
    return "-" if value is None else format(value * factor, form)
