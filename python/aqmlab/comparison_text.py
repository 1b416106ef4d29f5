"""A comparison on a terminal, and in a folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import notebook
from aqmlab.compare import Metric
from aqmlab.files import write_csv
from aqmlab.scenario import flat

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.compare import Comparison, Variant


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
    runs = f"{result.replications} replications with common random numbers"
    title = f"Mean and 95 % interval over {runs}" if several else "One run of each"
    _print_estimates(result, title, result.intervals(), result.variants, parameters(result))
    first, *others = result.variants
    if several and others:
        title = f"Difference from {', '.join(first)}, seed by seed, and its 95 % interval"
        _print_estimates(result, title, result.differences(), others, {})
    if result.metric is Metric.RESPONSE_TIME:
        for traffic in result.workloads:
            _print_crossings(result, traffic)
    for variant, nodes in result.edges.items():
        why = "short-flows, added because the queue wants packets told short or long"
        print(f"{variant}: edges at {', '.join(nodes)} ({why})")


def html(result: Comparison) -> str:
    """A comparison in a notebook: the means, the differences from the first variant, and the parameters."""
    columns = ["/".join(names) for names in result.variants]
    means = notebook.table(["quantity", *columns], _rows(result, result.intervals(), result.variants))
    apart = notebook.table(
        ["quantity", *columns[1:]], _rows(result, result.differences(), result.variants[1:])
    )
    differing = parameters(result)
    listed = notebook.table(
        ["parameter", *columns],
        [[key, *map(_parameter, values.values())] for key, values in differing.items()],
    )
    return notebook.section(
        f"Mean and 95 % interval over {result.replications} replications",
        means,
        notebook.folded(f"Difference from {columns[0]}", apart) if columns[1:] else "",
        notebook.folded("Parameters that differ", listed) if differing else "",
    )


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
    differing: Mapping[str, Mapping[Variant, Any]],
) -> None:
    """A column for each variant, a row for each quantity, and below them the parameters."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    table.add_column("quantity")
    for names in variants:
        table.add_column("\n".join(names), justify="right")
    for row in _rows(result, estimates, variants):
        table.add_row(*row)
    table.add_section()
    for name, values in differing.items():
        table.add_row(name, *(_parameter(values.get(names)) for names in variants))
    width = None if sys.stdout.isatty() else 48 + 26 * len(variants)
    Console(width=width, highlight=False).print(table)


def _rows(result: Comparison, estimates: pl.DataFrame, variants: Sequence[Variant]) -> Iterator[list[str]]:
    """A row for each quantity: its name and unit, and its estimate for each variant."""
    for (quantity, unit), group in estimates.group_by("quantity", "unit", maintain_order=True):
        rows = group.iter_rows(named=True)
        cells = {tuple(row[factor] for factor in result.factors): _estimate(row) for row in rows}
        label = f"{quantity} ({unit})" if unit else str(quantity)
        yield [label, *(cells.get(names, "-") for names in variants)]


def parameters(result: Comparison) -> dict[str, dict[Variant, Any]]:
    """The parameters in which the variants differ, each by variant; `None` where a variant has none."""
    found: dict[str, dict[Variant, Any]] = {}
    for tables, place, prefix in ((result.queues, 0, ""), (result.tcps, -1, "tcp.")):
        flattened = {name: flat(table, prefix) for name, table in tables.items()}
        for key in sorted({key for table in flattened.values() for key in table}):
            values = {names: flattened[names[place]].get(key) for names in result.variants}
            if any(value != next(iter(values.values())) for value in values.values()):
                found[key] = values
    return found


def _estimate(row: dict[str, Any]) -> str:
    """A mean with half its interval; alone if there is no interval."""
    from aqmlab import stats

    half = (row["high"] - row["low"]) / 2
    if not half > 0:
        return f"{row['mean']:.4g}" if half != half else f"{row['mean']:.4g} ± 0"
    places = stats.decimals(half)
    mean = round(row["mean"], places) + 0.0  # Never -0.
    return f"{mean:.{places}f} ± {half:.{places}f}"


def _parameter(value: Any) -> str:
    """A parameter as a scenario file writes it; a dash where there is none."""
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
