"""Draws the shares of implementations beside each other, simulated and in the kernel in virtual time.

    python examples/guests/shares.py out/shares.png out/coexist/coexist.csv --kernel out/kernel-pairs

The files are results of `aqmlab coexist`, and the folder contains results of `kernel_pairs.py`. A pair of a
simulated flow and the kernel has no cell, because simulated flows do not exist in a kernel.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import polars as pl

from aqmlab import stats
from aqmlab.charts.matrix import Cells, Matrix
from aqmlab.charts.style import AS_ON_A_PAGE

KERNEL = "linux"
NAMES = {"kernel": KERNEL, "aioquic-sockets": "aioquic:cubic"} | {
    name: f"{name}:cubic" for name in ("quinn", "noq", "s2n-quic", "smoltcp", "gvisor", "quiche")
}
"""The names of the implementations of `kernel_pairs.py` in the picture."""

Cell = tuple[str, str, str, stats.Interval]
"""Queue, implementation, other implementation and the share of the first in percent."""


def rest(share: stats.Interval) -> stats.Interval:
    """Returns the share of the other implementation."""
    return stats.Interval(
        value=100 - share.value, low=100 - share.high, high=100 - share.low, count=share.count
    )


def simulated(file: Path) -> Iterator[Cell]:
    shares = pl.read_csv(file, null_values="").filter(pl.col("quantity") == "share")
    for row in shares.iter_rows(named=True):
        low, high = (row[end] if row[end] is not None else float("nan") for end in ("low", "high"))
        share = stats.Interval(value=row["value"], low=low, high=high, count=row["seeds"])
        yield row["queue"], row["first"], row["second"], share


def in_kernel(folder: Path) -> Iterator[Cell]:
    pairs: dict[tuple[str, str, str], list[float]] = {}
    for file in sorted(folder.glob("*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        if all(name in NAMES for name in run["names"]) and "kernel" in run["names"]:
            first, second = (NAMES[name] for name in run["names"])
            pairs.setdefault((run["queue"], first, second), []).append(run["share"])
    for (queue, first, second), shares in pairs.items():
        yield queue, first, second, stats.mean_interval(shares)


def text(share: stats.Interval) -> str:
    if not share.decided:
        return f"{share.value:.0f}"
    return stats.plus_minus(share.value, share.half_width).replace(" ± ", "\n± ")


def table(cells: list[Cell]) -> pl.DataFrame:
    """Returns a row for each queue and each ordered pair, also for pairs without a share."""
    found: dict[tuple[str, str, str], stats.Interval] = {}
    for queue, first, second, share in cells:
        found.setdefault((queue, first, second), share)
        found.setdefault((queue, second, first), rest(share))
    queues = list(dict.fromkeys(queue for queue, *_ in found))
    names = list(dict.fromkeys(name for _, name, _ in found))
    rows = []
    for queue, row, column in itertools.product(queues, names, names):
        cell = found.get((queue, row, column))
        value, shown = (None, "") if cell is None else (cell.value, text(cell))
        rows.append((queue, row, column, value, shown))
    return pl.DataFrame(rows, schema=["queue", "row", "column", "value", "text"], orient="row")


def draw(found: pl.DataFrame, target: Path) -> None:
    """Draws a panel for each queue, one below the other."""
    cells = Cells(label="share (%)", limits=(0.0, 100.0), middle=50.0)
    matrix = Matrix(table=found, x="column", y="row", by="value", cells=cells)
    queues = found["queue"].unique(maintain_order=True).to_list()
    width, height = matrix.size(len(queues), 1)
    style: Any = AS_ON_A_PAGE.settings(width)
    with plt.rc_context(style):
        figure, axes = plt.subplots(
            len(queues), 1, figsize=(width, height), layout="constrained", squeeze=False
        )
        for queue, axis in zip(queues, axes[:, 0], strict=True):
            matrix.draw(axis, found.filter(pl.col("queue") == queue))
            axis.set(title=queue, xlabel="other implementation", ylabel="implementation")
        matrix.add_colour_bar(figure, axes[:, 0])
        figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--kernel", type=Path)
    given = parser.parse_args()
    cells = [cell for file in given.files for cell in simulated(file)]
    if given.kernel:
        cells += in_kernel(given.kernel)
    given.target.parent.mkdir(parents=True, exist_ok=True)
    draw(table(cells), given.target)


if __name__ == "__main__":
    main()
