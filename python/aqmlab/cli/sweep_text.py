"""Output of the commands `aqmlab sweep`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aqmlab import stats
from aqmlab.cli.table_text import Form, print_table
from aqmlab.measures import Quantity
from aqmlab.metrics import finite

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.results.table import Results
    from aqmlab.stats import Evidence
    from aqmlab.sweep.claims import Judged
    from aqmlab.sweep.estimate import Estimate


def print_intervals(
    result: Results,
    measures: Sequence[str] = (),
    *,
    quantile: float | None = None,
    form: Form = Form.TEXT,
) -> None:
    """Prints a row for each point and a column for each measure. A cell contains either the mean and the
    half-width of its interval, or a quantile across replications and the ends of its interval."""
    wanted = [result.measure(name) for name in measures] if measures else list(result.measured)
    what = "Mean" if quantile is None else f"Quantile {quantile:g}"
    title = f"{what} and 95 % interval over {_counts(result)}"
    print_estimates(result, result.intervals(quantile=quantile), wanted, title, form)
    for doubt in result.doubts:
        print(f"aqmlab: {doubt}", file=sys.stderr)


def print_estimates(
    result: Results,
    estimates: pl.DataFrame,
    measures: Sequence[Quantity],
    title: str,
    form: Form = Form.TEXT,
) -> None:
    """Prints differences or ratios, with a row for each point and a column for each measure. Ratios have no
    unit."""
    cells: dict[tuple[Any, ...], dict[str, str]] = {}
    units: dict[str, str] = {}
    for row in estimates.iter_rows(named=True):
        labels = tuple(row[label] for label in result.axes)
        cells.setdefault(labels, {})[row["measure"]] = _cell(row, result.measure(row["measure"]).digits)
        units[row["measure"]] = row["unit"]
    names = [one.name for one in measures if one.name in units]
    heads = [f"{name}\n({units[name]})" if units[name] else name for name in names]
    rows = [
        [*map(_label, labels), *(found.get(name, "-") for name in names)] for labels, found in cells.items()
    ]
    more = "`aqmlab sweep show --csv` prints all runs"
    print_table(title, [*result.axes, *heads], rows, left=len(result.axes), form=form, more=more)


def print_judged(judged: Iterable[Judged]) -> None:
    """Prints a line for each claim, followed by a line for each part of the claim, in the format of
    studies."""
    from aqmlab.cli.study_text import decides

    for one in judged:
        print(f"{one.evidence.verdict:<10} {one.claim.says}")
        for part in one.evidence.parts or (one.evidence,):
            print(f"           {part.verdict:<10} {decides(part)}")


def print_failures(result: Results, most: int = 5) -> None:
    """Prints messages about the first failed runs on standard error."""
    for failure in result.failures[:most]:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if len(result.failures) > most:
        print(f"aqmlab: and {len(result.failures) - most} more", file=sys.stderr)


def table(result: Results, id: str, judged: Iterable[Judged] = (), differences: Any = None) -> dict[str, Any]:
    """Returns the JSON object of a sweep with this ID."""
    found = {
        "sweep": result.name,
        "id": id,
        "measures": [
            {"name": one.name, "title": one.title, "unit": one.unit, "version": one.version}
            for one in result.measured
        ],
        "intervals": finite(result.intervals().to_dicts()),
        "failures": [
            {"name": one.name, "seed": one.seed, "scenario": one.scenario, "problem": one.problem}
            for one in result.failures
        ],
        "claims": [
            {
                "says": one.claim.says,
                "rule": one.claim.rule.text,
                "verdict": one.evidence.verdict,
                "parts": [_part(part) for part in one.evidence.parts or (one.evidence,)],
            }
            for one in judged
        ],
    }
    return found if differences is None else found | {"differences": finite(differences.to_dicts())}


def _part(part: Evidence) -> dict[str, Any]:
    numbers = finite({key: getattr(part, key) for key in ("value", "low", "high")})
    about = {
        "what": part.what,
        "at": dict(part.where),
        "claimed": None if part.band is None else str(part.band),
        "verdict": part.verdict,
        "measured": part.measured,
    }
    return {**about, **numbers, "level": part.level, "replications": part.count, "median": part.median}


def estimate(found: Estimate) -> Iterator[str]:
    """Yields text that describes the estimate."""
    runs = f"{found.runs} runs" if found.most == found.runs else f"{found.runs} to {found.most} runs"
    yield f"{found.points} points, {runs}: {found.existing} exist, {found.missing} are missing"
    if not found.run_s:
        return
    low, high = min(found.run_s), max(found.run_s)
    yield f"A run takes {seconds(low)} to {seconds(high)} ({len(found.run_s)} probes, which are not stored)"
    time = seconds(found.time_s(found.missing))
    if found.most > found.runs:
        time += f" to {seconds(found.time_s(found.most - found.existing))}"
    yield f"Estimated time: {time} on {found.jobs} cores"


def seconds(time_s: float) -> str:
    """Returns a time in seconds as text in s, min or h."""
    if time_s < 90:
        return f"{time_s:.2g} s" if time_s < 10 else f"{time_s:.0f} s"
    if time_s < 5400:
        return f"{time_s / 60:.0f} min"
    return f"{time_s / 3600:.1f} h"


def _counts(result: Results) -> str:
    done = result.frame.filter(result.frame["status"] == "done")
    counts = done.group_by(*result.axes).len()["len"].to_list()
    if not counts:
        return "no replications"
    low, high = min(counts), max(counts)
    if high == 1:
        return "one run of each point (by batch means for means over time)"
    return f"{low} replications" if low == high else f"{low} to {high} replications"


def _cell(row: Mapping[str, Any], digits: int) -> str:
    mean, low, high = row["mean"], row["low"], row["high"]
    if mean is None or math.isnan(mean):
        return "-"
    if low is None or math.isnan(low) or high == low:
        return f"{mean:.{digits}g}"
    # An end of the interval is infinite if the sample is too small to determine this end.
    if math.isinf(high - low) or abs((high + low) / 2 - mean) > 1e-9 * (high - low):
        places = stats.decimals((high - low) / 2)
        return f"{mean:.{places}f} [{low:.{places}f}, {high:.{places}f}]"
    return stats.plus_minus(mean, (high - low) / 2)


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def reasons(lines: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yields the lines that `sweep explain` prints: each reason with the number of runs that have this
    reason."""
    for reason, count in lines:
        yield f"{count:>7} {'run ' if count == 1 else 'runs'}  {reason}"
