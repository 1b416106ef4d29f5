"""The stub of the compiled core says what the binary does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import aqmlab
from aqmlab import _core

STUB = Path(aqmlab.__file__).parent / "_core.pyi"


def compared(folder: Path, stub: str) -> subprocess.CompletedProcess[str]:
    """Compares a stub with the binary. Both are copied to a folder without the rest of the package, which
    mypy would otherwise analyse for half a minute."""
    (folder / "_core.pyi").write_text(stub, encoding="utf-8")
    shutil.copy(_core.__file__, folder)
    return subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "_core"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "MYPYPATH": str(folder)},
        timeout=300,
    )


def test_the_stub_equals_the_binary(tmp_path: Path) -> None:
    done = compared(tmp_path, STUB.read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_parameter_that_the_binary_lacks_is_found(tmp_path: Path) -> None:
    stub = STUB.read_text(encoding="utf-8").replace("def catalog()", "def catalog(more: int)")
    done = compared(tmp_path, stub)
    assert done.returncode == 1 and "more" in done.stdout, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(aqmlab.__file__).parent / "py.typed").exists()


def test_what_the_package_exports_is_there() -> None:
    for name in aqmlab.__all__:
        assert getattr(aqmlab, name) is not None
