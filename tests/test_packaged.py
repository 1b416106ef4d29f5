"""Scenarios come with the package, and are found by name; one is read from standard input."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import COMMAND, Cli
from typer.testing import CliRunner

import aqmlab as al
from aqmlab._support import packaged
from aqmlab.cli.app import app
from aqmlab.scenario import ScenarioFileError

ROOT = Path(__file__).parent.parent


def test_every_scenario_of_the_checkout_is_in_the_package_with_the_files_it_names() -> None:
    shown = {path.name for path in (ROOT / "scenarios").iterdir() if path.is_file()}
    assert {path.name for path in packaged.FOLDER.iterdir() if path.is_file()} == shown
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["maturin"]["include"]
    endings = {one.rpartition("*")[2] for one in included if one.startswith("python/aqmlab/scenarios/")}
    assert {Path(name).suffix for name in shown} == endings
    for name in packaged.names():
        assert al.Scenario.load(packaged.FOLDER / f"{name}.toml").effective["duration"]


def test_a_name_is_found_from_any_folder(cli: Cli, tmp_path: Path) -> None:
    assert cli("check", "replay").returncode == 0, "which names a file beside it"
    assert al.Scenario.load("hello").digest == al.Scenario.load(ROOT / "scenarios/hello.toml").digest
    done = cli("run", "helo")
    assert done.returncode == 2
    assert "helo: is neither a file nor a packaged scenario: did you mean hello?" in done.stderr
    done = cli("sweep", "run", "hello", "duration=1s,2s", "warm_up=0s", "--replications", "1", "--dry-run")
    assert done.returncode == 0, done.stderr
    # A file of the same name comes first.
    (tmp_path / "hello").write_text("duration = 3")
    assert cli("check", "hello").returncode == 2


def test_a_path_is_no_name(tmp_path: Path) -> None:
    for path in ("scenarios/hello", "hello.toml", str(tmp_path / "hello")):
        assert packaged.located(path) == Path(path)
    with pytest.raises(ScenarioFileError, match="cannot be read: No such file"):
        al.Scenario.load(tmp_path / "hello")


def test_scenarios_are_listed_with_a_sentence() -> None:
    result = CliRunner().invoke(app, ["list", "scenarios"])
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.output.splitlines() if not line.startswith(" ")]
    assert listed == packaged.names()
    assert all(packaged.summary(name) != name for name in packaged.names())


def test_a_scenario_is_read_from_standard_input(small: Path) -> None:
    def call(*words: str, text: bytes = small.read_bytes()) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", COMMAND, *words]
        return subprocess.run(command, input=text, capture_output=True, cwd=small.parent, timeout=120)

    done = call("check", "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout == call("check", str(small)).stdout
    assert call("run", "-", "--set", "duration=3s").stdout.startswith(b"standard input: 3s of which 2s")
    refused = call("check", "-", text=b"duration = ")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr.startswith(b"aqmlab: standard input: ")
    assert (
        b"standard input: byte 13: is not UTF-8 text" in call("check", "-", text=b'duration = "1\xe9').stderr
    )
