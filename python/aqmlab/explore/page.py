"""An interactive web page that shows the results of sweeps and works offline. The reader selects axes,
measures and a baseline, and clicks a point to see the point's runs.

The page draws SVG with three script files, which are in the same folder as the page's template. The page uses
no library. Plotly was rejected because its script adds 5 MB to each page, which makes pages too large for
e-mail, and because Plotly's points are not accessible with the keyboard.

For any selection, the page computes intervals with the formulas of `aqmlab.stats`. The quantiles of Student's
t that the page needs are also computed by `aqmlab.stats`.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aqmlab import stats
from aqmlab._support import quantities, toml_writer
from aqmlab.measures import Quantity

TEMPLATE = "explore.html.jinja"
STYLE = "explore.css"
SCRIPTS = ("explore_data.js", "explore_figure.js", "explore.js")
"""The script files, in the order of their execution."""

Label = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a sweep.

    `values` are the labels of points, in order. `numbers` are these values as numbers, in the unit that
    `label` contains, so that the axis can be drawn to scale. `log` states whether the axis is initially
    logarithmic.
    """

    name: str
    label: str
    values: tuple[Label, ...]
    numbers: tuple[float, ...] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(map(_text, self.values))) < len(self.values):
            raise ValueError(
                f"axis {self.name}: values: must contain one or more different values (got "
                f"{list(self.values)})"
            )
        if self.numbers is not None and len(self.numbers) != len(self.values):
            raise ValueError(
                f"axis {self.name}: numbers: must contain one number for each of the {len(self.values)} "
                f"values (got {len(self.numbers)})"
            )

    @classmethod
    def of(cls, name: str, values: Sequence[Label], *, title: str | None = None) -> Axis:
        """Returns the axis with these labels. The axis is drawn to scale if all labels are numbers, or
        quantities with a common unit (`10Mbps`).

        The axis is initially logarithmic if the numbers are positive and span at least a factor of 10.
        """
        found = quantities.numbers_of(values)
        if found is None:
            return cls(name=name, label=title or name, values=tuple(values))
        numbers, unit = quantities.readable(*found)
        return cls(
            name=name,
            label=f"{title or name} ({unit})" if unit else title or name,
            values=tuple(values),
            numbers=tuple(numbers),
            log=quantities.spread(numbers),
        )


@dataclass(frozen=True, kw_only=True)
class PointData:
    """A point of a sweep with its runs.

    `seeds` are the seeds of all runs in the order of replications. `values` maps each measure to its values
    for these seeds, with `None` for missing values. `failures` maps seeds to error messages. `scenario` is
    the digest of the scenario, `given` is the scenario table as its author wrote it, and `command` contains
    the shell commands that repeat a run.
    """

    labels: Mapping[str, Label]
    scenario: str
    given: Mapping[str, Any]
    seeds: Sequence[int]
    values: Mapping[str, Sequence[float | None]]
    failures: Mapping[int, str] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """A sweep with its runs. `provenance` describes the origin of the data, such as the version and the
    store. `level` is the confidence level of the intervals. The confidence level is above 95 % if the number
    of runs was determined by `precision`."""

    title: str
    axes: tuple[Axis, ...]
    measures: tuple[Quantity, ...]
    points: tuple[PointData, ...]
    provenance: Mapping[str, str] = field(default_factory=dict)
    level: float = stats.LEVEL

    def __post_init__(self) -> None:
        for kind, found in (("axis", self.axes), ("measure", self.measures), ("point", self.points)):
            if not found:
                raise ValueError(f"{self.title}: has no {kind} to explore")
        for kind, names in (
            ("axes", [axis.name for axis in self.axes]),
            ("measures", [measure.name for measure in self.measures]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{self.title}: {kind}: must have different names (got {names})")
        known = {measure.name for measure in self.measures}
        labels_by_axis = {axis.name: set(map(_text, axis.values)) for axis in self.axes}
        for point in self.points:
            self._check(point, known, labels_by_axis)
        labels = [tuple(_text(point.labels[axis]) for axis in labels_by_axis) for point in self.points]
        if len(set(labels)) < len(labels):
            twice = next(one for one in labels if labels.count(one) > 1)
            raise ValueError(f"{self.title}: points: must have different labels ({list(twice)} occurs twice)")

    def _check(self, point: PointData, known: set[str], axes: Mapping[str, set[str]]) -> None:
        where = f"{self.title}: point {dict(point.labels)}"
        if point.labels.keys() != axes.keys():
            raise ValueError(f"{where}: must have a label for each of the axes {', '.join(axes)}")
        for axis, label in point.labels.items():
            if _text(label) not in axes[axis]:
                raise ValueError(f"{where}: `{_text(label)}` is not a value of the axis {axis}")
        if len(set(point.seeds)) < len(point.seeds):
            raise ValueError(f"{where}: seeds: must be different (got {list(point.seeds)})")
        if strange := point.values.keys() - known:
            raise ValueError(f"{where}: values: unknown measures {', '.join(sorted(strange))}")
        if strange_seeds := point.failures.keys() - set(point.seeds):
            raise ValueError(f"{where}: failures: these are not seeds of the point: {sorted(strange_seeds)}")
        for name, values in point.values.items():
            if len(values) != len(point.seeds):
                raise ValueError(
                    f"{where}: {name}: must have a value for each of the {len(point.seeds)} seeds (got "
                    f"{len(values)})"
                )


def page(*explorations: Exploration) -> str:
    """Returns the page as HTML text. If there are several sweeps, the page has a selector. The page needs no
    other files and no network.

    Raises `ValueError` if there are no sweeps, or if two sweeps have the same title.
    """
    from importlib.resources import files

    from jinja2 import Environment, PackageLoader, StrictUndefined

    titles = [one.title for one in explorations]
    if not titles or len(set(titles)) < len(titles):
        raise ValueError(f"sweeps: must be one or more sweeps with different titles (got {titles})")
    environment = Environment(
        loader=PackageLoader("aqmlab", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    folder = files("aqmlab") / "templates"
    rendered = environment.get_template(TEMPLATE).render(
        title=titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more",
        style=(folder / STYLE).read_text(encoding="utf-8"),
        script="\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS),
        data=packed(explorations),
    )
    return str(rendered)


def packed(explorations: Sequence[Exploration]) -> str:
    """Returns the page's data as JSON that is compressed with gzip and encoded in base64. Equal runs produce
    equal data."""
    data = {"sweeps": [_columns(one) for one in explorations]}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")


def _columns(one: Exploration) -> dict[str, Any]:
    """Returns a sweep as columns with one element for each point. A list of seeds that occurs repeatedly is
    stored once and referenced by its index."""
    seeds: dict[tuple[int, ...], int] = {}
    most = max(len(point.seeds) for point in one.points)
    return {
        "title": one.title,
        "level": one.level,
        "t": [stats.t_quantile(one.level, freedom) for freedom in range(1, most)],
        "provenance": dict(one.provenance),
        "axes": [_axis(axis, one.points) for axis in one.axes],
        "measures": [
            {
                "name": measure.name,
                "title": measure.title or measure.name,
                "label": measure.label,
                "unit": measure.unit,
                "digits": measure.digits,
                "values": [_values(point, measure.name) for point in one.points],
            }
            for measure in one.measures
        ],
        "scenario": [point.scenario for point in one.points],
        "seeds": [seeds.setdefault(tuple(point.seeds), len(seeds)) for point in one.points],
        "seed_lists": list(seeds),
        "failures": [
            {str(seed): text for seed, text in point.failures.items()} or None for point in one.points
        ],
        "commands": [point.command for point in one.points],
        "given": [toml_writer.written(point.given) for point in one.points],
    }


def _axis(axis: Axis, points: Sequence[PointData]) -> dict[str, Any]:
    from aqmlab.charts.style import colours

    texts = [_text(value) for value in axis.values]
    indices = {text: index for index, text in enumerate(texts)}
    tints = colours(texts)
    return {
        "name": axis.name,
        "label": axis.label,
        "values": texts,
        "numbers": axis.numbers,
        "log": axis.log,
        "colours": [tints[text] for text in texts],
        "of": [indices[_text(point.labels[axis.name])] for point in points],
    }


def _values(point: PointData, measure: str) -> list[float | None] | None:
    """Returns the values of a point, or `None` if no run has a value."""
    values = [
        None if value is None or not math.isfinite(value) else value
        for value in point.values.get(measure, ())
    ]
    return values if any(value is not None for value in values) else None


def _text(label: Label) -> str:
    """Returns a label as text."""
    return label if isinstance(label, str) else json.dumps(label)
