"""The table of what studies cost is taken from the stores of full runs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from small_study import STUDY

from aqmlab.studies.docs import costs as study_costs
from aqmlab.study import run as study

PAGE = Path(__file__).parent.parent / "docs/studies/repeating.md"


def test_a_row_is_of_a_full_run_and_counts_its_runs(tmp_path: Path) -> None:
    with study_costs.counted(tmp_path / "small"):
        study.run(STUDY, tmp_path / "small", quick=True, jobs=1)
    assert study_costs.row("small", tmp_path / "small", "a processor") is None, (
        "the quick form is no full run"
    )
    made = tmp_path / "small/claims.json"
    found = {**json.loads(made.read_text()), "quick": False}
    made.write_text(json.dumps(found))
    (tmp_path / "small/cost.json").write_text('{"cpu_s": 119.0}')
    row = study_costs.row("small-today", tmp_path / "small", "a processor")
    assert row is not None
    told = re.fullmatch(
        r"\| \[small-today\]\(small-today\.md\) \| `aqmlab study run small --queues today` "
        r"\| (\d+) \| 2 \| a processor \|",
        row,
    )
    assert told is not None
    assert int(told[1]) >= found["runs"] > 0
    assert study_costs.row("other", tmp_path / "other", "a processor") is None


def test_cpu_time_adds_up_over_the_commands_that_filled_a_folder(tmp_path: Path) -> None:
    def burn() -> None:
        before = time.process_time()
        while time.process_time() < before + 0.2:
            pass

    (tmp_path / "cost.json").write_text('{"cpu_s": 10.0}')
    with pytest.raises(KeyboardInterrupt), study_costs.counted(tmp_path):
        burn()
        raise KeyboardInterrupt
    assert json.loads((tmp_path / "cost.json").read_text())["cpu_s"] >= 10.1


def test_new_rows_replace_those_of_their_pages_only() -> None:
    text = (
        f"Before.\n{study_costs.BEGIN}\n| [b](b.md) | old |\n| [c](c.md) | kept |\n{study_costs.END}\nAfter."
    )
    found = study_costs.renewed(text, {"b": "| [b](b.md) | new |", "a": "| [a](a.md) | new |"})
    rows = [line for line in found.splitlines() if line.startswith("| [")]
    assert rows == ["| [a](a.md) | new |", "| [b](b.md) | new |", "| [c](c.md) | kept |"]
    assert (found[:7], found[-6:]) == ("Before.", "After.")
    assert study_costs.renewed(found, {}) == found
    with pytest.raises(ValueError, match="the marks"):
        study_costs.renewed("nothing", {})


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert study_costs.renewed(text, {}) == text
    assert "| [helsinki](helsinki.md) | `aqmlab study run helsinki` |" in text
