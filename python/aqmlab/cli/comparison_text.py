"""Output of comparisons: tables for the terminal, and files in a folder."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab._support.files import write_csv
from aqmlab.charts.style import shown_of
from aqmlab.cli import table_text
from aqmlab.cli.table_text import Form
from aqmlab.comparison.comparison import Comparison, Metric, Variant

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.charts.style import Look

WIDEST = 30
"""Width in characters of a column of parameter values. Longer values are wrapped."""

HEAD = 16
"""Width in characters of a heading that names a quantity. Longer headings are wrapped."""


def write(
    result: Comparison,
    out: Path,
    charts: Mapping[str, Chart],
    *,
    pictures: Sequence[str],
    look: Look,
) -> list[Path]:
    """Writes the tables, the distributions of response times and `charts` (by quantity) into `out`, and
    returns the paths to report to the user."""
    from aqmlab.charts import chart as plot

    out.mkdir(parents=True, exist_ok=True)
    tables = {"intervals": result.intervals(), "differences": result.differences(), "values": result.values}
    written = [out / f"{name}.csv" for name in tables]
    for path, table in zip(written, tables.values(), strict=True):
        write_csv(path, table)
    named = {
        f"intervals-{re.sub(r'[^a-z0-9]+', '-', quantity.lower()).strip('-')}": chart
        for quantity, chart in charts.items()
    }
    for traffic in result.workloads:
        named |= result.charts(traffic)
    for name, chart in named.items():
        written.append(plot.save(chart, out, name, pictures=pictures, look=look)[shown_of(pictures)])
    return written


def show(result: Comparison, *, form: Form = Form.TEXT, parameters: bool = False) -> None:
    """Prints the means, the differences from the first variant, and the links whose queues were replaced.
    With `parameters`, also prints the parameters whose values differ between the variants."""
    several = result.replications > 1
    _print_estimates(result, result.title, result.intervals(), result.variants, form)
    if parameters:
        _print_parameters(result, form)
    first, *others = result.variants
    if several and others:
        title = f"Paired differences from {', '.join(first)}, with 95 % intervals"
        _print_estimates(result, title, result.differences(), others, form)
    if form is not Form.TEXT:
        return
    if result.metric is Metric.RESPONSE_TIME:
        for traffic in result.workloads:
            _print_crossings(result, traffic)
    for variant, nodes in result.edges.items():
        reason = "short-flows, added because the queue needs packets classified as short or long"
        print(f"{variant}: edges at {', '.join(nodes)} ({reason})")
    if result.replaced:
        print(result.replaced)


def crossings(result: Comparison) -> list[dict[str, Any]]:
    """Returns a table with one row for each crossing with the distribution of the first variant. The table is
    empty unless response times are compared."""
    if result.metric is not Metric.RESPONSE_TIME:
        return []
    return [
        {"traffic": traffic, **dict(zip(result.factors, names, strict=True)), **asdict(crossing)}
        for traffic in result.workloads
        for names, found in result.crossings[traffic].items()
        for crossing in found
    ]


def _print_crossings(result: Comparison, traffic: str) -> None:
    """Prints, for each variant, the response times at which its distribution crosses the distribution of the
    first variant."""
    from aqmlab.metrics import response_times

    first = ", ".join(result.variants[0])
    for names, found in result.crossings[traffic].items():
        other = ", ".join(names)
        for crossing in found:
            print(f"{traffic}: {response_times.sentence(crossing, first, other)}")
        if not found:
            print(f"{traffic}: the distributions of {first} and {other} do not cross with certainty")


def _print_estimates(
    result: Comparison, title: str, estimates: pl.DataFrame, variants: Sequence[Variant], form: Form
) -> None:
    """Prints a table with a column for each variant and a row for each quantity. If this table is wider than
    the terminal, it is transposed, so that all values of a quantity are in one column."""
    rows = list(result.estimate_rows(estimates, variants))
    heads = ["quantity", *("\n".join(names) for names in variants)]
    room = table_text.room() if form is Form.TEXT else None
    left = 1
    if room is not None and table_text.width_of(heads, rows) > room:
        quantities, *cells = zip(*rows, strict=True)
        heads = [*result.factors, *("\n".join(textwrap.wrap(one, HEAD)) for one in quantities)]
        rows = [[*names, *of_variant] for names, of_variant in zip(variants, cells, strict=True)]
        left = len(result.factors)
    table_text.print_table(title, heads, rows, left=left, form=form)


def _print_parameters(result: Comparison, form: Form) -> None:
    """Prints a row for each parameter whose values differ between the variants."""
    rows = [
        [name, *("\n".join(textwrap.wrap(value, WIDEST)) for value in values)]
        for name, *values in result.parameter_rows()
    ]
    if rows:
        heads = ["parameter", *("\n".join(names) for names in result.variants)]
        table_text.print_table("Parameters with different values", heads, rows, left=1, form=form)
