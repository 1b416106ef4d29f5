"""What a start loads: no package that what was asked for does without. Clocks are `benches/startup.py`'s."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_S

ROOT = Path(__file__).parent.parent

TABLES = {"numpy", "polars"}
DRAWS = {"aqmlab.charts.chart", "matplotlib"}
REST = {"jinja2", "rich", "scipy"}

LOADED = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
"""


def loaded(code: str, *arguments: str | Path) -> set[str]:
    """The modules that a program has loaded when it ends."""
    command = [sys.executable, "-c", LOADED + code, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return set(ended.stderr.splitlines()[-1].split())


def loaded_by(*arguments: str | Path) -> set[str]:
    """The modules that the command line has loaded when it ends."""
    return loaded("from aqmlab.cli import main; main()", *arguments)


def test_importing_aqmlab_loads_nothing_but_the_core_and_the_standard_library() -> None:
    standard = sys.stdlib_module_names | {"aqmlab", "__main__"}
    before = {name.partition(".")[0] for name in loaded("")}
    assert {name.partition(".")[0] for name in loaded("import aqmlab")} - before - standard == set()


@pytest.mark.parametrize("words", ["--help", "--version", "run --help", "list queues", "show red"])
def test_what_asks_for_no_run_loads_neither_tables_nor_pictures(words: str) -> None:
    assert loaded_by(*words.split()) & (TABLES | DRAWS | REST) == set()


def test_a_scenario_is_checked_without_tables(small: Path) -> None:
    assert loaded_by("check", small) & (TABLES | DRAWS | REST) == set()


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_run_of_packets_is_told_without_what_draws(small: Path, form: str) -> None:
    modules = loaded_by("run", small, *form.split())
    assert modules & (DRAWS | REST) == set()
    assert modules >= TABLES, "a run is summarised from its tables"


def test_the_benchmark_of_the_start_measures_every_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benches")
    startup = importlib.import_module("startup")
    starts = startup.measure(times=1)
    assert [one.case for one in starts] == list(startup.CASES)
    assert all(one.cpu_s > 0 and one.wall_s > 0 for one in starts)
    startup.print_table(starts)
    assert capsys.readouterr().out.count("\n") == len(starts) + 1
