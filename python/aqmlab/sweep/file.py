"""Reads sweep files in TOML, and applies changes from the command line.

A sweep file names a scenario, axes, measures and claims. A scenario file that is followed by an axis on the
command line is also a sweep.
"""

from __future__ import annotations

import functools
import math
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support import names
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.packaged import located
from aqmlab.results.labels import Value
from aqmlab.scenario import STANDARD_INPUT, Scenario, ScenarioFileError, parse_setting
from aqmlab.sweep import claims as claim_tables
from aqmlab.sweep.claims import Claim, Swept
from aqmlab.sweep.stopping import Stopping
from aqmlab.sweep.sweep import Sweep

if TYPE_CHECKING:
    from aqmlab.measures import Measure

KEYS = (
    "scenario",
    "name",
    "set",
    "axes",
    "zip",
    "where",
    "own_seeds",
    "replications",
    "first_seed",
    "measures",
    "measure",
    "tables",
    "warm_up",
    "precision",
    "claims",
)


@dataclass(frozen=True, kw_only=True)
class SweepFile:
    """The contents of a sweep file: the sweep, and the claims about its results."""

    sweep: Sweep
    claims: tuple[Claim, ...] = ()
    path: Path | None = None


def load(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    replications: int | None = None,
    measures: Sequence[str] = (),
    tables: Sequence[str] = (),
) -> SweepFile:
    """Reads a sweep file, or a scenario file with axes in `overrides`.

    An override has the form `path=value` or `path=value,value`. An override replaces the values of the axis
    with this path or label. For any other path, several values create an axis, and one value changes the
    scenario.

    Raises `ScenarioFileError`, whose message contains the file, the field, the value and the allowed values.
    """
    path = located(path)
    try:
        table = read(path)
        if "scenario" not in table:
            table = {"scenario": path.name}
        return of_table(table, path, overrides, replications, measures, tables)
    except ScenarioFileError:
        raise
    except (ValueError, _core.ScenarioError) as error:
        raise ScenarioFileError.of(path, error) from None


def is_sweep(path: Path) -> bool:
    """Returns whether a file contains a sweep. The result is false if the file is unreadable or is not
    TOML."""
    try:
        return str(path) != STANDARD_INPUT and "scenario" in read(located(path))
    except ScenarioFileError:
        return False


def read(path: Path) -> dict[str, Any]:
    """Returns the table that a TOML file contains. Raises `ScenarioFileError`."""
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ScenarioFileError(f"{path}: byte {error.start}: is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioFileError(f"{path}: is not TOML: {error}") from None
    except OSError as error:
        raise ScenarioFileError(f"{path}: cannot be read: {error.strerror}") from None


def of_table(
    table: Mapping[str, Any],
    path: Path,
    overrides: Sequence[str] = (),
    replications: int | None = None,
    measures: Sequence[str] = (),
    tables: Sequence[str] = (),
    needed: Sequence[tuple[str, str]] = (),
) -> SweepFile:
    """Reads the sweep in a table of the file `path`. The sweep measures the measures in `needed`, each given
    with the path of its field, in addition to the measures that the table names. Raises `ValueError`, which
    names the field."""
    mistakes = Mistakes()
    attempt = mistakes.attempt
    attempt(lambda: _check_keys(table))
    changes = dict(attempt(lambda: _of("set", table, dict, {}), {}))
    axes: dict[str, Any] = {}
    for one, given in attempt(lambda: _of("axes", table, dict, {}), {}).items():
        values = attempt(functools.partial(_values, f"axes.{one}", given))
        if values is not None:
            axes[one] = values
    written = {path: list(values) for path, values in axes.items()}
    attempt(lambda: _override(axes, changes, overrides))
    attempt(lambda: _check_replications(table, replications))
    scenario = attempt(lambda: _scenario(table, path, changes))
    own = attempt(lambda: _own_measures(_of("measure", table, dict, {})), {})
    beside = attempt(lambda: [*_needed(table), *needed], [])
    if scenario is not None:
        beside = [
            one for one in beside if attempt(functools.partial(_is_measure, scenario, own, *one), False)
        ]
    fields: dict[str, Any] = {
        "name": attempt(lambda: _of("name", table, str, path.stem), path.stem),
        "replications": attempt(lambda: replications or _of("replications", table, int, 10), 10),
        "first_seed": attempt(lambda: _of("first_seed", table, int, None), None),
        "measures": attempt(
            lambda: (*(measures or _texts("measures", table, ("*",))), *(name for _, name in beside)), ("*",)
        ),
        "zipped": attempt(lambda: _groups(_of("zip", table, list, [])), ()),
        "where": attempt(lambda: _of("where", table, str, None), None),
        "own_seeds": attempt(lambda: _texts("own_seeds", table, ()), ()),
        "tables": attempt(lambda: tuple(tables) or _texts("tables", table, ()), ()),
        "warm_up": attempt(lambda: _of("warm_up", table, str, None), None),
        "precision": attempt(lambda: _precision(_of("precision", table, dict, None)), None),
    }
    claims = attempt(lambda: _of("claims", table, list, []), [])
    for number, claim in enumerate(claims):
        attempt(functools.partial(names.check_keys, f"claims.{number}", claim, claim_tables.KEYS))
    sweep: Any = None
    if scenario is not None and (axes or not mistakes):
        sweep = attempt(lambda: Sweep(scenario=scenario, axes=axes, own_measures=own, **fields))
    mistakes.finish()
    return SweepFile(sweep=sweep, claims=_claims(sweep, written, claims), path=path)


def _scenario(table: Mapping[str, Any], path: Path, changes: Mapping[str, Any]) -> Scenario:
    if isinstance(table.get("scenario"), Mapping):
        return Scenario.from_dict(dict(table["scenario"]), name=path.stem).with_(_flattened(changes))
    base = Path(os.path.normpath(path.parent / _of("scenario", table, str, "")))
    try:
        return Scenario.load(base, _flattened(changes), changed_by="the sweep's settings")
    except ScenarioFileError as error:
        if base != path:
            raise
        # The file itself contains the scenario, and `load` will add the path to the error.
        text = str(error).removeprefix(str(path)).removeprefix(":").strip("\n")
        raise ValueError(textwrap.dedent(text)) from None


def _check_keys(table: Mapping[str, Any]) -> None:
    if any(key in table for key in ("title", "question", "figures", "quick")):
        raise ValueError("title, question, figures, quick: are keys of a study: use `aqmlab study run`")
    names.check_keys("", table, KEYS)


def _check_replications(table: Mapping[str, Any], replications: int | None) -> None:
    if replications is not None and "precision" in table:
        raise ValueError(
            "--replications: conflicts with precision, which determines the number of runs: "
            "change precision.least and precision.most"
        )


def _needed(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the measures in claims and in precision, each with the path of its field. `measures` need not
    repeat these measures."""
    found = list(claim_tables.measures_of(table.get("claims")))
    if isinstance(table.get("precision"), Mapping):
        names = _texts("measures", table["precision"], (), within="precision.")
        found += [("precision.measures", name) for name in names]
    return found


def _is_measure(scenario: Scenario, own: Mapping[str, Measure], path: str, name: str) -> bool:
    """Returns true if the scenario has the measure. Otherwise, raises `ValueError`, which names the field and
    suggests similar names."""
    from aqmlab import measures

    try:
        measures.named(scenario, [name], own)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None
    return True


def _override(axes: dict[str, Any], changes: dict[str, Any], overrides: Sequence[str]) -> None:
    for text in overrides:
        name, values = axis_of(text)
        ending = [axis for axis in axes if axis == name or axis.rsplit(".", 1)[-1] == name]
        if len(ending) > 1:
            raise ValueError(f"{name}: is ambiguous ({' or '.join(ending)}): write the whole path")
        if ending:
            axes[ending[0]] = _chosen(axes[ending[0]], values)
        elif len(values) > 1 or name in ("queue", "tcp"):
            axes[name] = values
        else:
            changes[name] = parse_setting(text)[1]


def axis_of(text: str) -> tuple[str, list[Any]]:
    """Splits `path=value,value` from the command line into the path and the values of an axis. Raises
    `ValueError`."""
    path, value = parse_setting(text)
    return path, value if isinstance(value, list) else _listed(text.partition("=")[2])


def _listed(text: str) -> list[Any]:
    """Returns the comma-separated values, each of which is parsed as a value of a scenario."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [parse_setting(f"x={part}")[1] for part in parts]


def _chosen(known: Any, values: list[Any]) -> Any:
    """Returns the selected tables if all values are names of the axis's named tables. Otherwise returns the
    values, which replace the values of the axis."""
    if isinstance(known, Mapping) and all(isinstance(one, str) and one in known for one in values):
        return {one: known[one] for one in values}
    return values


def _flattened(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes in `[set]` by path. `[set]` may contain quoted dotted paths or tables. Both forms
    change individual values."""
    found: dict[str, Any] = {}
    for path, value in changes.items():
        if isinstance(value, Mapping) and "kind" not in value:
            found |= {f"{path}.{inner}": one for inner, one in _flattened(value).items()}
        else:
            found[path] = value
    return found


# The values of axes


def _values(field: str, given: Any) -> Sequence[Value] | Mapping[str, Any]:
    if isinstance(given, list):
        return given
    if isinstance(given, Mapping):
        if "from" in given or "to" in given:
            return _range(field, given)
        return given
    return [given]


def _range(field: str, given: Mapping[str, Any]) -> list[Value]:
    names.check_keys(field, given, ("from", "to", "step", "steps", "scale"))
    for key in ("from", "to"):
        if key not in given:
            raise ValueError(f"{field}.{key}: is missing: a range needs from, to, and either steps or step")
    if ("steps" in given) == ("step" in given):
        raise ValueError(
            f"{field}: a range needs either steps (number of values) or step (distance between values)"
        )
    scale = given.get("scale", "linear")
    if scale not in ("linear", "log"):
        raise ValueError(f'{field}.scale: must be "linear" or "log" (got {scale!r})')
    if "step" in given:
        if scale == "log":
            raise ValueError(f'{field}.step: needs scale = "linear": use steps with "log"')
        return by_step(given["from"], given["to"], given["step"], field)
    return between(given["from"], given["to"], given["steps"], scale == "log", field)


def between(low: Value, high: Value, steps: int, log: bool = False, field: str = "axis") -> list[Value]:
    """Returns `steps` values from `low` to `high`, including both ends. The values are evenly spaced or, with
    `log`, have equal ratios."""
    first, last, unit = _ends(field, low, high)
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 2:
        raise ValueError(f"{field}.steps: must be a whole number of at least 2 (got {steps!r})")
    if log and not first > 0:
        raise ValueError(f'{field}.from: must be greater than 0 with scale = "log" (got {low})')
    parts = [index / (steps - 1) for index in range(steps)]
    if log:
        values = [first * (last / first) ** part for part in parts]
    else:
        values = [first + (last - first) * part for part in parts]
    return [_written(value, unit) for value in values]


def by_step(low: Value, high: Value, step: Value, field: str = "axis") -> list[Value]:
    """Returns the values from `low` to at most `high` at intervals of `step`."""
    first, last, unit = _ends(field, low, high)
    apart, _, _ = _ends(f"{field}.step", step, step, unit)
    if not apart > 0:
        raise ValueError(f"{field}.step: must be greater than 0 (got {step})")
    count = math.floor((last - first) / apart * (1 + 1e-12) + 1e-9) + 1
    return [_written(first + index * apart, unit) for index in range(count)]


def _ends(field: str, low: Value, high: Value, unit: str | None = None) -> tuple[float, float, str]:
    """Returns the two ends as numbers, and their common unit. By default, the common unit is the unit of the
    first end."""
    first, first_unit = _number(field, low)
    last, last_unit = _number(field, high)
    common = first_unit if unit is None else unit
    factor_first, factor_last = (_factor(field, one, common) for one in (first_unit, last_unit))
    first, last = first * factor_first, last * factor_last
    if last < first:
        raise ValueError(f"{field}.to: must not be less than `from`, which is {low} (got {high})")
    return first, last, common


def _number(field: str, value: Value) -> tuple[float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value), "") if math.isfinite(value) else _refuse(field, value)
    match = re.fullmatch(r"\s*([-+0-9.eE_]+)\s*([A-Za-z%]+)\s*", value) if isinstance(value, str) else None
    try:
        return (float(match[1]), match[2]) if match else _refuse(field, value)
    except ValueError:
        return _refuse(field, value)


def _refuse(field: str, value: Any) -> tuple[float, str]:
    raise ValueError(f'{field}: must be a number, optionally with a unit such as "10Mbps" (got {value!r})')


def _factor(field: str, unit: str, target: str) -> float:
    """Returns the factor that converts a number in `unit` to `target`."""
    if unit == target:
        return 1.0
    try:
        (size, base), (target_size, target_base) = (_core.quantity(f"1{one}") for one in (unit, target))
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    if base != target_base:
        raise ValueError(f"{field}: the units `{unit}` and `{target}` measure different quantities")
    return size / target_size


def _written(value: float, unit: str) -> Value:
    """Returns a number in the syntax of scenario files. The number has at most six significant digits, and no
    decimals if it is whole. Numbers of packets and bytes are rounded to whole numbers."""
    rounded = float(f"{value:.6g}")
    count = rounded * _COUNTED.get(unit, 0)
    if abs(count - round(count)) > 1e-6:
        return f"{round(value * _COUNTED[unit])}{'p' if unit == 'p' else 'B'}"
    whole = rounded == int(rounded)
    if unit:
        return f"{int(rounded) if whole else rounded}{unit}"
    return int(rounded) if whole else rounded


_COUNTED = {"p": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
"""Units of countable quantities. The value is the factor that converts the unit to bytes or packets."""


# Other fields


def _groups(groups: Sequence[Any]) -> tuple[tuple[str, ...], ...]:
    for group in groups:
        if not isinstance(group, list) or not all(isinstance(one, str) for one in group):
            raise ValueError(
                f'zip: must be a list of lists of axes, such as [["load", "queue"]] (got {group!r})'
            )
    return tuple(tuple(group) for group in groups)


def _own_measures(tables: Mapping[str, Any]) -> dict[str, Measure]:
    from aqmlab import measures

    found = {}
    for name, table in tables.items():
        names.check_keys(f"measure.{name}", table, ("sql", "title", "unit", "digits"))
        if "sql" not in table:
            raise ValueError(
                f"measure.{name}.sql: is missing: write a query on the tables of a run that returns one "
                "number"
            )
        within = f"measure.{name}."
        digits = _of("digits", table, int, 4, within=within)
        if digits < 1:
            raise ValueError(f"{within}digits: must be at least 1 (got {digits})")
        texts = {key: _of(key, table, str, "", within=within) for key in ("sql", "title", "unit")}
        found[name] = measures.of_sql(name, **texts, digits=digits)
    return found


def _precision(table: Mapping[str, Any] | None) -> Stopping | None:
    from aqmlab.stats.precision import Precision

    if table is None:
        return None
    numbers, counts = ("relative", "absolute", "growth"), ("least", "most")
    names.check_keys("precision", table, (*numbers, *counts, "measures", "baseline"))
    rule = {key: _of(key, table, int | float, None, within="precision.") for key in numbers if key in table}
    rule |= {key: _of(key, table, int, None, within="precision.") for key in counts if key in table}
    return Stopping(
        rule=Precision(**rule),
        measures=_texts("measures", table, (), within="precision."),
        baseline=dict(_of("baseline", table, dict, {}, within="precision.")),
    )


def _claims(sweep: Sweep, written: Mapping[str, Sequence[Any]], tables: Sequence[Any]) -> tuple[Claim, ...]:
    """Reads the claims. Claims may use all values in the file, including values that the command line has
    excluded."""
    swept = Swept(sweep=sweep, written=written)
    mistakes = Mistakes()
    found = []
    for number, table in enumerate(tables):
        read = functools.partial(claim_tables.read, f"claims.{number}", table, swept)
        found.append(mistakes.attempt(read))
    mistakes.finish()
    return tuple(claim for claim in found if claim is not None)


_KINDS = {
    dict: "a table",
    list: "a list",
    str: "a string",
    int: "a whole number",
    int | float: "a number",
}


def _of(key: str, table: Mapping[str, Any], kind: Any, default: Any, *, within: str = "") -> Any:
    value = table.get(key, default)
    if value is default:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{within}{key}: must be {_KINDS[kind]} (got {value!r})")
    return value


def _texts(
    key: str, table: Mapping[str, Any], default: tuple[str, ...], *, within: str = ""
) -> tuple[str, ...]:
    values = _of(key, table, list, list(default), within=within)
    if not all(isinstance(one, str) for one in values):
        raise ValueError(f"{within}{key}: must be a list of strings (got {values!r})")
    return tuple(values)
