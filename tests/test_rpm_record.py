"""The comparison with a real test of responsiveness: its links, its record and its simulated runs, without a
network."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reference"))

import record_file
from rpm import compare, links, simulated
from rpm.links import CELLS, COLUMNS, Cell

ROOT = Path(__file__).resolve().parent.parent
CELL = Cell(5, 80, "drop-tail")


def row(cell: Cell, repetition: int, rpm: float) -> dict[str, object]:
    """A row of the record."""
    of_cell = dict(zip(links.KEY, cell.key, strict=True))
    rest = dict.fromkeys(COLUMNS, 1) | {"download_rpm": rpm, "upload_rpm": 2 * rpm}
    return {
        **rest,
        **of_cell,
        "buffer_packets": cell.buffer_packets,
        "repetition": repetition,
    }


def test_there_are_five_links_with_two_queues() -> None:
    assert len(CELLS) == 10 and len({cell.key for cell in CELLS}) == 10
    # 5 Mb/s * 80 ms = 50 kB, or 34 packets of 1500 B.
    assert (CELL.buffer_packets, Cell(2, 40, "drop-tail").buffer_packets) == (67, 50)
    assert Cell(2, 40, "fq-codel").buffer_packets is None


def test_a_record_is_read_as_written(tmp_path: Path) -> None:
    path, other = tmp_path / "mach.csv.gz", Cell(5, 20, "fq-codel")
    links.write(path, [row(CELL, 1, 300.0), row(other, 1, 900.0)], ["Linux 6", "mach 0.4.0"])
    assert record_file.origin(path) == ["Linux 6", "mach 0.4.0"]
    found = links.read(path)
    assert links.of_cell(found, CELL)[0]["download_rpm"] == 300.0
    assert links.of_cell(found, other)[0]["buffer_packets"] is None


def test_the_simulated_test_has_the_connections_of_mach_in_its_last_seconds() -> None:
    run = simulated.scenario(CELL).run(seed=1)
    intervals = run.tables["test_intervals"].with_columns(pl.col("phase").cast(pl.String))
    for direction in links.DIRECTIONS:
        rows = intervals.filter(pl.col("phase") == direction)
        assert rows["connections"].to_list() == [1, 2, 3, 4, 5, 6, 7]
        assert not rows["rpm_stable"].any()


def test_a_comparison_has_the_means_of_both(tmp_path: Path) -> None:
    path = tmp_path / "mach.csv.gz"
    links.write(path, [row(CELL, 1, 290.0), row(CELL, 2, 310.0)], [])
    found = compare.compare(replications=1, record=path)
    assert [one.direction for one in found] == ["download", "upload"]
    (download, upload) = found
    assert download.difference == pytest.approx(download.simulated[0] / 300 - 1)
    assert upload.recorded == (580.0, 620.0)
    assert "of 2 differ by at most 10 %" in compare.text(found)


def test_the_table_of_the_documentation_is_that_of_the_record() -> None:
    page = (ROOT / "docs" / "guides" / "scores.md").read_text(encoding="utf-8")
    shown = [line for line in page.splitlines() if " Mb/s, " in line and line.startswith("| ")]
    found = compare.compare()
    assert shown == compare.markdown(found)
    agreeing = sum(one.agrees for one in found)
    assert f"{agreeing} of the {len(found)} means differ by at most 10 %" in " ".join(page.split())
