"""Studies as TOML files. A study file has the keys of a sweep file, and additional keys for figures, tables
and a quick form."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aqmlab import _core
from aqmlab._support import names
from aqmlab._support.mistakes import Mistakes
from aqmlab.results.rule import Estimate, difference, ratio
from aqmlab.results.variable import Variable
from aqmlab.scenario import ScenarioFileError
from aqmlab.study.charts import line
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import Claim, Figure, Study, Table
from aqmlab.study.query import label_of
from aqmlab.sweep import claims as claim_tables
from aqmlab.sweep import file as sweep_file
from aqmlab.sweep.claims import Swept

STUDY_KEYS: Mapping[str, str] = {
    "title": "Title of the report; by default the name of the file.",
    "question": "Question that the study answers.",
    "paper": "Publication that the study reproduces, if there is one.",
    "quick": "Reductions of `--quick`: `replications` (by default 3), `set` with values at paths of the "
    "scenario, and `axes` with fewer values by the label of an axis.",
    "figures": "Tables `[[figures]]`, one per figure.",
    "tables": "Tables `[[tables]]`, one per table.",
}
"""Keys of a study file that sweep files do not have, with descriptions. `tables` has a different meaning in
sweep files."""

SWEEP_ONLY_KEYS: Mapping[str, str] = {
    "precision": "a study adds seeds where verdicts are undecided; use replications, the seeds of the first "
    "look",
    "warm_up": 'set the time in the scenario, or with set = { warm_up = "10s" }',
}
"""Keys of sweep files that study files do not have, with the replacement."""

CLAIM_KEYS: Mapping[str, str] = {
    "id": "ID of the claim; by default C-1, C-2 and so on.",
    "source": "Location of the statement in the publication.",
    "figures": "IDs of the figures and tables that show the claim's numbers.",
}
"""Keys of a claim in addition to those of sweep files."""

_QUERY: Mapping[str, str] = {
    "ratio": 'Ratio to show: the measure at two values of an axis, `{ queue = ["red", "drop-tail"] }`, '
    "paired by seed.",
    "difference": "Difference to show, with the syntax of `ratio`.",
    "at": "Values of axes at which the measure is shown: `{ load = 0.9 }`.",
}

FIGURE_KEYS: Mapping[str, str] = {
    "id": "ID of the figure and name of its files; by default the name of the measure.",
    "title": "Title of the figure; by default the measure with its unit.",
    "caption": "Text below the figure.",
    "measure": "Measure to plot, with its interval.",
    **_QUERY,
    "x": "Horizontal axis; by default the first axis of numbers, or the first axis if no axis has numbers.",
    "by": "Axis whose values become lines or bars; by default the next axis.",
    "panel": "Axis whose values become panels; by default the axis after `by`.",
    "kind": "Kind of chart: `line`, `bars` or `curve`; by default `bars` for an axis of names, and `line` "
    "for an axis of numbers.",
    "x_label": "Label of the horizontal axis.",
    "y_label": "Label of the vertical axis.",
    "log_x": "Whether the horizontal axis is logarithmic; by default true if its values span a factor of "
    "ten.",
    "log_y": "Whether the vertical axis is logarithmic; by default false.",
}
"""Keys of a figure."""

KINDS = ("line", "bars", "curve")
"""Kinds of charts for means with intervals."""

_OPTIONS = ("x_label", "y_label", "log_x", "log_y")

TABLE_KEYS: Mapping[str, str] = {
    "id": "ID of the table and name of its CSV file; by default table-1, table-2 and so on.",
    "title": "Title of the table; by default the measures of the columns.",
    "caption": "Text below the table.",
    "measures": "Measures of the columns. The table has one row per point.",
    "measure": "Measure of a table with a single column.",
    **_QUERY,
}
"""Keys of a table."""


def is_study(path: Path) -> bool:
    """Returns whether a TOML file defines a study. A study has a title, figures or `[[tables]]`."""
    try:
        table = sweep_file.read(path)
    except ScenarioFileError:
        return False
    return any(key in table for key in STUDY_KEYS if key != "tables") or _has_tables(table)


def load(path: Path) -> Study:
    """Reads a study from a TOML file. Raises `ScenarioFileError`, whose message contains the file, the field,
    the error and the allowed values."""
    try:
        return _study(sweep_file.read(path), path)
    except ScenarioFileError:
        raise
    except (ValueError, _core.ScenarioError) as error:
        raise ScenarioFileError.of(path, error) from None


def _study(table: Mapping[str, Any], path: Path) -> Study:
    mistakes = Mistakes()
    attempt = mistakes.attempt
    for key, cure in SWEEP_ONLY_KEYS.items():
        if key in table:
            mistakes.add(f"{key}: is only allowed in sweep files; {cure}")
    if "tables" in table and not _has_tables(table):
        mistakes.add("tables: must be [[tables]] in a study, and each table must have measures")
    known = (*(key for key in sweep_file.KEYS if key not in SWEEP_ONLY_KEYS), *STUDY_KEYS)
    attempt(
        lambda: names.check_keys("", {key: table[key] for key in table if key not in SWEEP_ONLY_KEYS}, known)
    )
    if "scenario" not in table:
        mistakes.add("scenario: is missing: add the path of a scenario file, or a table [scenario]")
    figures = attempt(lambda: _tables_of("figures", table), [])
    tables = attempt(lambda: _tables_of("tables", table), [])
    claims = attempt(lambda: _tables_of("claims", table), [])
    mistakes.finish()

    sweep_table = {key: value for key, value in table.items() if key in sweep_file.KEYS}
    sweep_table.pop("tables", None)
    sweep_table["claims"] = []
    needed = [
        *claim_tables.measures_of(claims),
        *(
            (f"{field}.{number}.measure", name)
            for field, several in (("figures", figures), ("tables", tables))
            for number, one in enumerate(several)
            for name in _measures(one)
        ),
    ]
    if "measures" not in table and needed:
        sweep_table["measures"] = []
    found = attempt(lambda: sweep_file.of_table(sweep_table, path, needed=needed))
    mistakes.finish()
    assert found is not None
    sweep = found.sweep
    quick = attempt(lambda: _quick(table.get("quick", {})), Form())
    title = attempt(lambda: _text("", table, "title", sweep.name), "")
    experiment = attempt(
        lambda: Experiment(
            sweep.name,
            title,
            sweep.scenario,
            sweep.axes,
            sweep.measures,
            seeds=sweep.replications,
            first_seed=sweep.first_seed if sweep.first_seed is not None else sweep.scenario.effective["seed"],
            quick=quick,
            zipped=sweep.zipped,
            where=sweep.where,
            own_seeds=sweep.own_seeds,
            own_measures=sweep.own_measures,
        )
    )
    mistakes.finish()
    assert experiment is not None
    swept = Swept(sweep=sweep, written={})
    parts: list[Experiment | Claim | Figure | Table | None] = [experiment]
    for field, several, read in (
        ("figures", figures, _figure),
        ("tables", tables, _table),
        ("claims", claims, _claim),
    ):
        for number, one in enumerate(several):
            name = f"{field}.{number}"
            parts.append(attempt(functools.partial(read, name, one, number, swept)))
    mistakes.finish()
    return Study.of(
        sweep.name,
        title,
        *(one for one in parts if one is not None),
        paper=_text("", table, "paper", ""),
        question=_text("", table, "question", ""),
    )


def _has_tables(table: Mapping[str, Any]) -> bool:
    tables = table.get("tables")
    return isinstance(tables, list) and any(isinstance(one, Mapping) for one in tables)


def _tables_of(key: str, table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        raise ValueError(f"{key}: must be tables [[{key}]] (got {found!r})")
    return found


def _text(field: str, table: Mapping[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{field}{key}: must be text (got {value!r})")
    return value


def _measures(table: Mapping[str, Any]) -> Sequence[str]:
    several = table.get("measures", [])
    found = [table.get("measure"), *(several if isinstance(several, list) else [])]
    return [one for one in found if isinstance(one, str)]


def _quick(table: Any) -> Form:
    names.check_keys("quick", table, ("replications", "set", "axes"))
    seeds = table.get("replications", 3)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise ValueError(f"quick.replications: must be a whole number of at least 1 (got {seeds!r})")
    for key in ("set", "axes"):
        if not isinstance(table.get(key, {}), Mapping):
            raise ValueError(f"quick.{key}: must be a table (got {table[key]!r})")
    return Form(seeds=seeds, axes=table.get("axes", {}), changes=table.get("set", {}))


def _claim(field: str, table: Mapping[str, Any], number: int, swept: Swept) -> Claim:
    names.check_keys(field, table, (*claim_tables.KEYS, *CLAIM_KEYS))
    rule = claim_tables.read(
        field, {key: value for key, value in table.items() if key not in CLAIM_KEYS}, swept
    )
    figures = table.get("figures", [])
    if not isinstance(figures, list) or not all(isinstance(one, str) for one in figures):
        raise ValueError(f"{field}.figures: must be a list of IDs of figures and tables (got {figures!r})")
    return Claim(
        _text(f"{field}.", table, "id", f"C-{number + 1}"),
        rule.says,
        rule.rule,
        _text(f"{field}.", table, "source", ""),
        tuple(figures),
        "ours",
    )


def _estimate(field: str, table: Mapping[str, Any], measure: str, swept: Swept) -> Variable | Estimate:
    """Returns a measure at some values of axes, or the ratio or difference of the measure at two values of an
    axis."""
    variable = claim_tables.variable(field, {**table, "measure": measure}, swept)
    compared = [key for key in ("ratio", "difference") if key in table]
    if not compared:
        return variable
    if len(compared) > 1:
        raise ValueError(f"{field}: must have either ratio or difference, but not both")
    label, pair = claim_tables.one_axis(f"{field}.{compared[0]}", table[compared[0]], swept, 2, 2)
    estimate: Callable[..., Estimate] = ratio if compared[0] == "ratio" else difference
    return estimate(*(variable.at(**{label: value}) for value in pair))


def _figure(field: str, table: Mapping[str, Any], number: int, swept: Swept) -> Figure:
    names.check_keys(field, table, FIGURE_KEYS)
    shown = _estimate(field, table, _the_measure(field, table), swept)
    for key in ("x", "by", "panel"):
        if key in table and table[key] not in shown.axes:
            raise ValueError(
                f"{field}.{key}: no axis is named `{table[key]}`: {names.hint(str(table[key]), shown.axes)}"
            )
    options = {key: table[key] for key in _OPTIONS if key in table}
    if "kind" in table and table["kind"] not in KINDS:
        raise ValueError(
            f"{field}.kind: no kind is named `{table['kind']}`: {names.hint(str(table['kind']), KINDS)}"
        )
    if "x" in table:
        options["by"] = table.get("by", [label for label in shown.axes if label not in _placed(table)][:1])
    elif "by" in table:
        options["by"] = table["by"]
    try:
        chart = line(shown, x=table.get("x"), panel=table.get("panel"), kind=table.get("kind"), **options)
    except ValueError as problem:
        raise ValueError(f"{field}: {problem}") from None
    title = _text(f"{field}.", table, "title", _heading([shown]))
    return Figure(
        _text(f"{field}.", table, "id", _id(table, f"figure-{number + 1}")),
        title,
        chart,
        _text(f"{field}.", table, "caption", ""),
    )


def _placed(table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(table[key] for key in ("x", "panel") if key in table)


def _table(field: str, table: Mapping[str, Any], number: int, swept: Swept) -> Table:
    names.check_keys(field, table, TABLE_KEYS)
    wanted = _measures(table)
    if not wanted:
        raise ValueError(f"{field}.measures: is missing: name the measures of the columns")
    columns = [_estimate(field, table, one, swept) for one in wanted]
    title = _text(f"{field}.", table, "title", _heading(columns))
    fields = {"caption": table["caption"]} if "caption" in table else {}
    return Table(_text(f"{field}.", table, "id", f"table-{number + 1}"), title, columns, **fields)


def _heading(shown: Sequence[Variable | Estimate]) -> str:
    """Returns a title that contains the quantities of a figure or table, with units."""
    text = "; ".join(map(label_of, shown))
    return text[:1].upper() + text[1:]


def _the_measure(field: str, table: Mapping[str, Any]) -> str:
    if not isinstance(table.get("measure"), str):
        raise ValueError(f"{field}.measure: must be the name of a measure (got {table.get('measure')!r})")
    return str(table["measure"])


def _id(table: Mapping[str, Any], default: str) -> str:
    measure = table.get("measure")
    return re.sub(r"[^A-Za-z0-9-]+", "-", measure) if isinstance(measure, str) else default
