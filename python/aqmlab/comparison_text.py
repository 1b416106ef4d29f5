"""A comparison on a terminal, and in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab.comparison import Comparison, Metric, Variant
from aqmlab.files import write_csv

if TYPE_CHECKING:
    import polars as pl

WIDEST = 30
"""Characters of a column. Numbers need less; a parameter that holds tables goes on in the next line."""


def write(result: Comparison, out: Path) -> list[Path]:
    """Writes the tables and charts into `out`, and returns the files worth opening."""
    from aqmlab import plot

    out.mkdir(parents=True, exist_ok=True)
    tables = {"intervals": result.intervals(), "differences": result.differences(), "values": result.values}
    written = [out / f"{name}.csv" for name in tables]
    for path, table in zip(written, tables.values(), strict=True):
        write_csv(path, table)
    for traffic in result.workloads:
        for name, chart in result.charts(traffic).items():
            written.append(plot.save(chart, out, name)["png"])
    return written


def show(result: Comparison) -> None:
    """Prints the means, the parameters that differ, and the differences from the first variant."""
    several = result.replications > 1
    _print_estimates(result, result.title, result.intervals(), result.variants, result.parameter_rows())
    first, *others = result.variants
    if several and others:
        title = f"Difference from {', '.join(first)}, seed by seed, and its 95 % interval"
        _print_estimates(result, title, result.differences(), others, ())
    if result.metric is Metric.RESPONSE_TIME:
        for traffic in result.workloads:
            _print_crossings(result, traffic)
    for variant, nodes in result.edges.items():
        why = "short-flows, added because the queue wants packets told short or long"
        print(f"{variant}: edges at {', '.join(nodes)} ({why})")


def crossings(result: Comparison) -> list[dict[str, Any]]:
    """A row for each crossing with the first variant; none unless response times are compared."""
    if result.metric is not Metric.RESPONSE_TIME:
        return []
    return [
        {"traffic": traffic, **dict(zip(result.factors, names, strict=True)), **asdict(crossing)}
        for traffic in result.workloads
        for names, found in result.crossings[traffic].items()
        for crossing in found
    ]


def _print_crossings(result: Comparison, traffic: str) -> None:
    """A line for each variant: where its distribution of times crosses that of the first one."""
    from aqmlab import response_times

    first = ", ".join(result.variants[0])
    for names, found in result.crossings[traffic].items():
        other = ", ".join(names)
        for crossing in found:
            print(f"{traffic}: {response_times.sentence(crossing, first, other)}")
        if not found:
            print(f"{traffic}: the distributions of {first} and {other} do not cross for certain")


def _print_estimates(
    result: Comparison,
    title: str,
    estimates: pl.DataFrame,
    variants: Sequence[Variant],
    differing: Iterable[Sequence[str]],
) -> None:
    """A column for each variant, a row for each quantity, and below them the parameters."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    table.add_column("quantity")
    for names in variants:
        table.add_column("\n".join(names), justify="right", max_width=WIDEST)
    for row in result.estimate_rows(estimates, variants):
        table.add_row(*row)
    table.add_section()
    for parameter in differing:
        table.add_row(*parameter)
    width = None if sys.stdout.isatty() else 48 + 26 * len(variants)
    Console(width=width, highlight=False).print(table)
