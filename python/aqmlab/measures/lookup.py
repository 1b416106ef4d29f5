"""Looks up the available measures of scenarios, and creates user-defined measures.

The name of a measure consists of an object and a quantity: `bottleneck.utilisation` for a link,
`web.p90-time` for a workload. `of_scenario` lists the measures of a scenario, so that unknown names are
rejected before any run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aqmlab._support.names import hint
from aqmlab.measures.measure import Measure, View, scaled
from aqmlab.measures.packet import packet_level, unrecorded

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.scenario import Scenario

# Flow level and traces


def _row(table: str, column: str, factor: float = 1) -> Callable[[View], float | None]:
    return lambda view: scaled(view.run.tables[table][column][0], factor)


def _flow_level(scenario: Scenario) -> list[Measure]:
    from aqmlab.metrics.flow_level import throughput_bps

    rows = (
        ("utilisation", "utilisation", "%", "utilisation", 100.0),
        ("saturated", "time saturated", "%", "saturated", 100.0),
        ("mean-in-progress", "elastic flows in progress, mean", "", "mean_in_progress", 1.0),
    )
    return [
        *(
            Measure(name=f"link.{name}", title=title, unit=unit, compute=_row("links", column, factor))
            for name, title, unit, column, factor in rows
        ),
        Measure(
            name="link.throughput",
            title="throughput of an elastic flow",
            unit="Mbps",
            compute=lambda view: throughput_bps(view.run) * 1e-6,
        ),
    ]


def _trace_level(scenario: Scenario) -> list[Measure]:
    from aqmlab.scenario.catalog import entry

    found = []
    for row in entry("trace.summary").parameters:
        column = row["name"]
        ending = next((one for one in _UNITS if column.endswith(one)), "")
        unit, factor = _UNITS.get(ending, ("", 1.0))
        quantity = column.removesuffix(ending)
        found.append(
            Measure(
                name=f"trace.{quantity.replace('_', '-')}",
                title=quantity.replace("_", " "),
                unit=unit,
                compute=_row("summary", column, factor),
            )
        )
    return found


_UNITS = {"_bps": ("Mbps", 1e-6), "_packets": ("packets", 1.0), "_bytes": ("B", 1.0), "_s": ("ms", 1e3)}
"""Suffixes of the columns of trace results. The value is the unit of the column's measure and the factor that
converts to this unit."""


# Look-up by name


def of_scenario(scenario: Scenario) -> dict[str, Measure]:
    """Returns the measures of a scenario by name, in the order of the run's summary."""
    levels = {"packet": packet_level, "flow": _flow_level, "trace": _trace_level}
    return {one.name: one for one in levels[scenario.level](scenario)}


def tables(names: Iterable[str]) -> list[Measure]:
    """Returns measures that are complete tables of a run, which are stored as Parquet."""

    def whole(name: str) -> Callable[[View], pl.DataFrame]:
        return lambda view: view.run.tables[name]

    return [Measure(name=f"tables/{name}", title=name, compute=whole(name)) for name in names]


STANDARD_ERROR, CORRELATION = "/standard-error", "/correlation"
"""Suffixes of the names of batch-means measures, for single long runs."""


def batched(measure: Measure) -> list[Measure]:
    """Returns batch-means measures for one long run, if `measure` is a mean over time: the standard error of
    the mean, and the correlation of neighbouring batches. For other measures, the result is empty."""
    series = measure.series
    if series is None:
        return []

    def of(view: View) -> Any:
        from aqmlab.stats.batch_means import batch_means

        return batch_means(series(view))

    def standard_error(view: View) -> float | None:
        from aqmlab.stats import t_quantile

        interval = of(view).interval
        return (
            interval.half_width / t_quantile(interval.level, interval.count - 1) if interval.count else None
        )

    return [
        Measure(
            name=f"{measure.name}{STANDARD_ERROR}",
            title=f"{measure.title}, standard error by batch means",
            unit=measure.unit,
            compute=standard_error,
            columns=measure.columns,
        ),
        Measure(
            name=f"{measure.name}{CORRELATION}",
            title=f"{measure.title}, correlation of neighbouring batches",
            compute=lambda view: of(view).correlation,
            columns=measure.columns,
        ),
    ]


def of_sql(name: str, sql: str, *, unit: str = "", title: str = "", digits: int = 4) -> Measure:
    """Returns a measure that is defined by an SQL query (Polars' dialect), which must return one number. The
    query can use all tables of the run (`flows`, `transfers` and others), which include the warm-up, and the
    table `run` with the columns `warm_up_s` and `end_s`.

    The version of the measure is a hash of the query, so that changing the query creates a new measure.
    """
    query_digest = hashlib.sha256(" ".join(sql.split()).encode()).hexdigest()

    def compute(view: View) -> Any:
        import polars as pl

        warm_up_s, end_s = view.window
        frames: dict[str, pl.DataFrame] = {"run": pl.DataFrame({"warm_up_s": [warm_up_s], "end_s": [end_s]})}
        frames |= {table: view.run.tables[table] for table in view.run.tables if table in sql}
        try:
            found = pl.SQLContext(frames).execute(sql, eager=True)
        except pl.exceptions.PolarsError as error:
            # The lines after the first line contain Polars' query plan.
            problem = str(error).partition("\n")[0]
            raise ValueError(f"measure.{name}.sql: {problem}") from None
        if found.shape != (1, 1):
            raise ValueError(
                f"measure.{name}.sql: must return one number (got a table of the shape {found.shape})"
            )
        value = found.item()
        return None if value is None else float(value)

    return Measure(
        name=name,
        title=title,
        unit=unit,
        digits=digits,
        compute=compute,
        version=int(query_digest[:7], 16) + 1,
    )


def named(
    scenario: Scenario, names: Sequence[str], own: Mapping[str, Measure] | None = None
) -> tuple[Measure, ...]:
    """Returns the measures with these names. `*` at the end of a name matches any suffix.

    Raises `ValueError` if the scenario does not have a measure, or does not record the data that a measure
    needs. The message suggests similar names.
    """
    known = of_scenario(scenario) | dict(own or {})
    found: dict[str, Measure] = {}
    for name in names:
        if name.endswith("*"):
            matching = [one for one in known if one.startswith(name[:-1])]
        else:
            matching = [name] if name in known else []
        if not matching:
            needed = unrecorded(scenario, name)
            if needed:
                raise ValueError(needed)
            raise ValueError(f"no measure is named `{name}`: {hint(name, known)}")
        found |= {one: known[one] for one in matching}
    for one in found.values():
        _check_recorded(scenario, one)
    return tuple(found.values())


def _check_recorded(scenario: Scenario, measure: Measure) -> None:
    record = scenario.effective.get("record", {})
    for table, needed in (measure.columns or {}).items():
        kept = record.get(f"{table.removesuffix('s')}_columns")
        missing = [] if kept is None else sorted(needed - set(kept))
        if missing:
            raise ValueError(
                f"{measure.name} needs {', '.join(missing)} of the table {table}: add {', '.join(missing)} "
                f"to record.{table.removesuffix('s')}_columns of the scenario"
            )
