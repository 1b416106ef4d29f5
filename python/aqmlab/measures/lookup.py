"""The measures that scenarios have, and those that a user writes.

A measure is named after what it is about and what it tells: `bottleneck.utilisation` of a link,
`web.p90-time` of a workload. `of_scenario` lists those that exist for a scenario, so that a name that does
not is refused before anything runs.
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

# Those of the flow level and of traces


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
        said = column.removesuffix(ending)
        found.append(
            Measure(
                name=f"trace.{said.replace('_', '-')}",
                title=said.replace("_", " "),
                unit=unit,
                compute=_row("summary", column, factor),
            )
        )
    return found


_UNITS = {"_bps": ("Mbps", 1e-6), "_packets": ("packets", 1.0), "_bytes": ("B", 1.0), "_s": ("ms", 1e3)}
"""What columns of traces end in, and the unit and the factor of their measures."""


# Looked up by name


def of_scenario(scenario: Scenario) -> dict[str, Measure]:
    """The measures that exist for a scenario, by name, in the order in which a summary tells them."""
    levels = {"packet": packet_level, "flow": _flow_level, "trace": _trace_level}
    return {one.name: one for one in levels[scenario.level](scenario)}


def tables(names: Iterable[str]) -> list[Measure]:
    """Measures that are whole tables of a run, kept as Parquet."""

    def whole(name: str) -> Callable[[View], pl.DataFrame]:
        return lambda view: view.run.tables[name]

    return [Measure(name=f"tables/{name}", title=name, compute=whole(name)) for name in names]


STANDARD_ERROR, CORRELATION = "/standard-error", "/correlation"
"""What follows the name of a measure whose one long run is cut into batches."""


def batched(measure: Measure) -> list[Measure]:
    """Measures of one long run by batch means, of a measure that is a mean over time: the standard error of
    the mean, and the correlation of neighbouring batches; none of any other measure."""
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
    """A measure that is one number of a query over the run's tables (`flows`, `transfers` and so on, whole,
    and `warm_up_s` and `end_s` in the table `run`), in the SQL of polars.

    Its version follows from the text, so that another query is another measure.
    """
    said = hashlib.sha256(" ".join(sql.split()).encode()).hexdigest()

    def compute(view: View) -> Any:
        import polars as pl

        warm_up_s, end_s = view.window
        frames: dict[str, pl.DataFrame] = {"run": pl.DataFrame({"warm_up_s": [warm_up_s], "end_s": [end_s]})}
        frames |= {table: view.run.tables[table] for table in view.run.tables if table in sql}
        try:
            found = pl.SQLContext(frames).execute(sql, eager=True)
        except pl.exceptions.PolarsError as error:
            # Its plan of the query follows below the first line.
            problem = str(error).partition("\n")[0]
            raise ValueError(f"measure.{name}.sql: {problem}") from None
        if found.shape != (1, 1):
            raise ValueError(f"measure.{name}.sql: must give one number, gives {found.shape} of a table")
        value = found.item()
        return None if value is None else float(value)

    return Measure(
        name=name,
        title=title,
        unit=unit,
        digits=digits,
        compute=compute,
        version=int(said[:7], 16) + 1,
    )


def named(
    scenario: Scenario, names: Sequence[str], own: Mapping[str, Measure] | None = None
) -> tuple[Measure, ...]:
    """The measures of these names; `*` at the end stands for all that begin so.

    Raises `ValueError`, which suggests the nearest names, if one does not exist for the scenario, or if the
    scenario does not record what it needs.
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
                f"{measure.name} needs {', '.join(missing)} of {table}: add it to "
                f"record.{table.removesuffix('s')}_columns of the scenario"
            )
