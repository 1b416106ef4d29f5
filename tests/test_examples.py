"""Every example runs, prints something, and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_S

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def test_there_are_examples_and_their_names_order_them() -> None:
    assert [path.name[:3] for path in EXAMPLES] == [f"{number:02}_" for number in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_answer(example: Path, tmp_path: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg"},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) >= 2
    for line in done.stdout.splitlines():
        if line.startswith("out/"):
            assert (tmp_path / line).stat().st_size > 0
