"""The stub of the compiled core says what the binary does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aqmlab


def test_the_stub_equals_the_binary(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "aqmlab._core"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(aqmlab.__file__).parent / "py.typed").exists()


def test_what_the_package_exports_is_there() -> None:
    for name in aqmlab.__all__:
        assert getattr(aqmlab, name) is not None
