"""Faults that `make check` must find: `make check-faults` seeds each in a copy of the project.

    python tests/seeded_faults.py [--only ROOM ...] [--python]

A fault is one changed line, such as somebody might write by mistake; no fault was chosen for a test.
`--python` tries those of Python only, without the commands of cargo. The exit status is 1 if a fault is not
found, or if the check takes longer than its limit.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPY = ROOT / "target" / "seeded-faults"
"""Kept between calls, so that its crates are compiled from nothing only once."""

LIMIT_S = 90.0
"""Longest time that the check may take, on 2 cores that do nothing else."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line that is changed."""

    room: str
    """The crate, or the package of `python/aqmlab`."""
    file: str
    """Below the sources of the room."""
    right: str
    """A part of the file that occurs once."""
    wrong: str
    effect: str

    @property
    def path(self) -> str:
        """Below the project."""
        crate = self.room.startswith("aqm-")
        return f"crates/{self.room}/src/{self.file}" if crate else f"python/aqmlab/{self.room}/{self.file}"


FAULTS = (
    Fault(
        room="aqm-net",
        file="rate.rs",
        right="u128::from(self.0) * u128::from(bytes) + half)",
        wrong="u128::from(self.0) * u128::from(bytes) + half / 2)",
        effect="times on a link are rounded up from three quarters only",
    ),
    Fault(
        room="aqm-queue",
        file="red/average.rs",
        right="libm::pow(factor, idle_packets as f64 + 1.0)",
        wrong="libm::pow(factor, idle_packets as f64)",
        effect="RED's average forgets one packet less while the link idles",
    ),
    Fault(
        room="aqm-link",
        file="link.rs",
        right="counters.drops += self.lost;",
        wrong="counters.drops += self.lost_bytes;",
        effect="lost packets are counted by their bytes",
    ),
    Fault(
        room="aqm-tcp",
        file="rtt/mod.rs",
        right="(self.backoff * 2).min(MAX_BACKOFF)",
        wrong="(self.backoff + 1).min(MAX_BACKOFF)",
        effect="repeated time-outs grow by steps and do not double",
    ),
    Fault(
        room="aqm-traffic",
        file="wire.rs",
        right="let before = (bytes.max(1) - 1) / self.payload;",
        wrong="let before = bytes.max(1) / self.payload;",
        effect="a transfer of whole packets counts one packet too many",
    ),
    Fault(
        room="aqm-sim",
        file="world/flows.rs",
        right="flow.row(self.scenario.duration - self.scenario.warm_up)",
        wrong="flow.row(self.scenario.duration)",
        effect="goodput is divided by the whole duration",
    ),
    Fault(
        room="aqm-flow",
        file="server/sharing.rs",
        right="peak.min(weight / weights * room)",
        wrong="peak.min(room / weights)",
        effect="shares of flows ignore their weights",
    ),
    Fault(
        room="aqm-live",
        file="router/ip.rs",
        right="let folded = (folded & 0xffff) + (folded >> 16);",
        wrong="let folded = folded & 0xffff;",
        effect="the checksum of some marked packets is wrong",
    ),
    Fault(
        room="tc",
        file="options.py",
        right="range(shown, shown + 3) if rounded(time) == shown",
        wrong="range(shown, shown + 1) if rounded(time) == shown",
        effect="a target of 5 ms that the kernel shows as 4999 us is read as 4999 us",
    ),
    Fault(
        room="stats",
        file="intervals.py",
        right="t_quantile(level, count - 1) * math.sqrt(_variance(values) / count)",
        wrong="t_quantile(level, count) * math.sqrt(_variance(values) / count)",
        effect="intervals have one degree of freedom too many",
    ),
    Fault(
        room="metrics",
        file="tables.py",
        right='(pl.col("end_s").is_null() | (pl.col("end_s") >= warm_up_s))',
        wrong='(pl.col("end_s").is_null() | (pl.col("end_s") < warm_up_s))',
        effect="flows that end in the warm-up are measured, and not those that end after it",
    ),
    Fault(
        room="scenario",
        file="scenario.py",
        right="    given = copy.deepcopy(given)\n    for path, value in changes.items():",
        wrong="    given = dict(given)\n    for path, value in changes.items():",
        effect="changing a scenario changes the one that it was made of",
    ),
    Fault(
        room="measures",
        file="measure.py",
        right="self._times[traffic] = metrics.completed_times(ours, self.window[0])",
        wrong="self._times[traffic] = metrics.completed_times(ours, 0.0)",
        effect="times of transfers include those of the warm-up",
    ),
    Fault(
        room="results",
        file="rule.py",
        right="modality.paired_difference(values[0], values[1], level)",
        wrong="modality.paired_difference(values[1], values[0], level)",
        effect="a difference has the other sign",
    ),
    Fault(
        room="store",
        file="record.py",
        right="if earlier.status == DONE and later.status != DONE:",
        wrong="if earlier.status == DONE:",
        effect="an older result wins over a newer one",
    ),
    Fault(
        room="campaign",
        file="campaign.py",
        right='return not retry and lacking <= set(record.facts.get("asked", ()))',
        wrong='return lacking <= set(record.facts.get("asked", ()))',
        effect="runs that failed are never made again",
    ),
    Fault(
        room="sweep",
        file="stopping.py",
        right="partners[partner] = max(partners.get(partner, 0), state.wanted)",
        wrong="partners[partner] = state.wanted",
        effect="a baseline has the replications of the last point compared with it",
    ),
    Fault(
        room="study",
        file="seeds.py",
        right="int(experiment.seeds * GROWTH ** (LOOKS - 1))",
        wrong="int(experiment.seeds * GROWTH**LOOKS)",
        effect="a study looks at its runs once more than the error is spent over",
    ),
)


def seeded(fault: Fault, text: str) -> str:
    """The text with the fault. Raises `ValueError` if its line is not there, or more than once."""
    found = text.count(fault.right)
    if found != 1:
        raise ValueError(f"{fault.path}: {fault.right!r} occurs {found} times, must occur once")
    return text.replace(fault.right, fault.wrong)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What the check did."""

    failed: str
    """The command that failed; empty if none did."""
    elapsed_s: float
    cpu_s: float
    output: str


def commands() -> list[str]:
    """The commands of `make check`."""
    dry = ["make", "--dry-run", "--no-print-directory", "--old-file=.venv/.checkers", "check"]
    told = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return told.replace("\\\n", " ").splitlines()


def check(folder: Path, wanted: Sequence[str]) -> Checked:
    """Runs the commands in a folder, up to the first that fails."""
    environment = os.environ | {
        "PYTHONPATH": str(folder / "python"),
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")),
        "PYO3_PYTHON": str(ROOT / ".venv/bin/python"),
    }
    begin, cpu = time.monotonic(), sum(os.times()[2:4])
    failed = output = ""
    for command in wanted:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            failed, output = command, done.stdout
            break
    return Checked(
        failed=failed,
        elapsed_s=time.monotonic() - begin,
        cpu_s=sum(os.times()[2:4]) - cpu,
        output=output,
    )


def finder(done: Checked) -> str:
    """The first test that failed, or else the command."""
    found = re.search(
        r"^FAILED (\S+)|^test (\S+) \.\.\. FAILED|^---- (\S+) stdout", done.output, re.MULTILINE
    )
    return next(filter(None, found.groups())) if found else f"`{done.failed[:60]}`"


def copied() -> Path:
    """A copy of the project as it is; files that are as before keep their times, for cargo."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    names |= {str(path.relative_to(ROOT)) for path in (ROOT / "python/aqmlab").glob("_core*.so")}
    for name in names:
        source, target = ROOT / name, COPY / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(os.readlink(source))
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    for path in [*COPY.glob("crates/**/*"), *COPY.glob("python/**/*"), *COPY.glob("tests/**/*")]:
        if path.suffix != ".pyc" and path.is_file() and str(path.relative_to(COPY)) not in names:
            path.unlink()
    if not (COPY / ".venv").is_symlink():
        (COPY / ".venv").symlink_to(ROOT / ".venv")
    return COPY


def main() -> int:
    """Tries the faults, and prints a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="ROOM", help="rooms whose faults are tried")
    parser.add_argument("--python", action="store_true", help="no faults of Rust, no cargo")
    given = parser.parse_args()
    chosen = [
        fault
        for fault in FAULTS
        if (not given.only or fault.room in given.only)
        and not (given.python and fault.room.startswith("aqm-"))
    ]
    if not chosen:
        parser.error(f"--only: available: {', '.join(fault.room for fault in FAULTS)}")
    wanted = [command for command in commands() if not given.python or not command.startswith("cargo")]
    folder = copied()
    check(folder, wanted)  # Compiles the copy.
    clean = check(folder, wanted)
    print(f"without a fault: {clean.elapsed_s:.0f} s, {clean.cpu_s:.0f} s of CPU time", flush=True)
    if clean.failed:
        print(f"{clean.output}\nthe check fails without a fault: {clean.failed}")
        return 1
    missed = 0
    for fault in chosen:
        path = folder / fault.path
        right = path.read_text(encoding="utf-8")
        path.write_text(seeded(fault, right), encoding="utf-8")
        try:
            done = check(folder, wanted)
        finally:
            path.write_text(right, encoding="utf-8")
            if path.suffix == ".rs":  # The next one shall not pay for compiling this one again.
                check(folder, [command for command in wanted if command.startswith("cargo test")])
        missed += not done.failed
        said = f"found by {finder(done)}" if done.failed else "NOT FOUND"
        print(f"{fault.room:<12}{done.elapsed_s:4.0f} s {done.cpu_s:4.0f} s CPU  {fault.effect}: {said}")
        sys.stdout.flush()
    print(f"{len(chosen) - missed} of {len(chosen)} faults found")
    return 1 if missed or clean.elapsed_s > LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
