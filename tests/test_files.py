"""An error of the system names the file it is about."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from conftest import COMMAND, Cli

from aqmlab._support import files

TABLE = pl.DataFrame({"a": range(1000)})
WRITERS: dict[str, Callable[[Path], None]] = {
    "bytes": lambda path: files.write_bytes(path, b"x" * 1000),
    "text": lambda path: files.write_text(path, "x" * 1000),
    "csv": lambda path: files.write_csv(path, TABLE),
    "parquet": lambda path: files.write_parquet(path, TABLE),
}

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_is_told_with_the_name_of_the_file(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as told:
        write(path)
    assert told.value.filename == str(path)


@pytest.mark.parametrize("name", ["flows.parquet", "run.json"])
def test_run_names_the_file_that_could_not_be_written(
    cli: Cli, small: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to("/dev/full")
    done = cli("run", small, "--out", "out")
    assert done.returncode == 2
    assert done.stderr == f"aqmlab: out/{name}: cannot be written: No space left on device\n"


@pytest.mark.parametrize("name", ["intervals.csv", "cdf-web.png", "cdf-web.svg", "cdf-web.csv"])
def test_compare_names_the_file_that_could_not_be_written(
    cli: Cli, small: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to("/dev/full")
    done = cli("compare", small, "--queues", "short", "--replications", "1", "--out", "out")
    assert done.returncode == 2
    assert f"aqmlab: out/{name}: cannot be written: No space left on device" in done.stderr


def test_what_is_printed_to_a_full_disk_is_told_once(small: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "check", str(small)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == "aqmlab: standard output: cannot be written: No space left on device\n"
