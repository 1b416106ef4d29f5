"""The simulator without Python: the program `events` of the crate aqm-sim, which runs a scenario."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import aqmlab as al
from samples import ROOT, US, Sample, sample


@dataclass(frozen=True)
class Program:
    """The compiled program, in a separate folder with its scenarios."""

    folder: Path

    @property
    def path(self) -> Path:
        """The path of the program."""
        return self.folder / "events"

    @classmethod
    def build(cls, folder: Path) -> Program:
        """Compiles the program and copies it into the folder."""
        build_bench("aqm-sim", "events", folder)
        return cls(folder)

    def write(self, name: str, scenario: al.Scenario) -> str:
        """Writes a scenario and its files into the folder of the program; returns the file name."""
        file = re.sub(r"[^\w.-]", "-", name) + ".json"
        (self.folder / file).write_text(json.dumps(scenario.effective), encoding="utf-8")
        for beside, content in scenario.files.items():
            (self.folder / beside).write_text(content, encoding="utf-8")
        return file

    def run(
        self, scenario: al.Scenario, *, group: str, case: str, subject: str = US, turn: int = 0
    ) -> Sample:
        """Runs a scenario once, in a separate process."""
        file = self.write(f"{group}-{case}-{subject}", scenario)
        return sample(
            ["./events", file], group=group, case=case, subject=subject, turn=turn, folder=self.folder
        )


def build_bench(crate: str, name: str, folder: Path) -> None:
    """Compiles a program of a crate's benches and copies it into a folder, so that the length of its path
    does not affect the counts."""
    command = ["cargo", "bench", "--locked", "-p", crate, "--bench", name, "--no-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = re.search(rf"\((.*/{name}-[0-9a-f]+)\)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(done.stderr[-2000:])
    shutil.copy(ROOT / found.group(1), folder / name)
