"""A sweep as one interactive web page that works offline: choose axes, measures and a baseline; click a
point for its runs.

The page draws its own SVG, in three files of plain script beside this one's template. A library was weighed:
plotly's script alone makes each page 5 MB, which is too much to mail, and its points cannot be reached with
the keyboard, which this page promises.

Intervals are computed in the page, as any selection may be asked for, by the formulas of `aqmlab.stats`; the
quantiles of Student's t come from there.
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
"""In the order in which the page runs them."""

Label = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What is varied, and how.

    `values` are the labels of points, in order; `numbers`, where given, the same as numbers in the unit that
    `label` tells, so that the axis can be drawn to scale (`log`: on a logarithmic one, to begin with).
    """

    name: str
    label: str
    values: tuple[Label, ...]
    numbers: tuple[float, ...] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        if not self.values or len(set(map(_text, self.values))) < len(self.values):
            raise ValueError(f"axis {self.name}: values: must be given, and differ, are {list(self.values)}")
        if self.numbers is not None and len(self.numbers) != len(self.values):
            raise ValueError(f"axis {self.name}: numbers: must be as many as the values, {len(self.values)}")

    @classmethod
    def of(cls, name: str, values: Sequence[Label], *, title: str | None = None) -> Axis:
        """The axis of these labels: to scale if all are numbers, or quantities of one unit (`10Mbps`).

        It begins logarithmic where the numbers are positive and span a factor of ten at least.
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
    """One scenario and its runs.

    `seeds` are those of all its runs, in the order of replications, and `values` has one value for each of
    them, by measure; `None` where the run has none. `failures` tells by seed what went wrong. `scenario` is
    the digest, `given` what its author wrote, `command` what makes the runs again in a shell.
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
    """A sweep and its runs. `provenance` are lines of what and when, such as version and store; `level` is
    that of each interval, above 95 % where precision decided how many runs there are."""

    title: str
    axes: tuple[Axis, ...]
    measures: tuple[Quantity, ...]
    points: tuple[PointData, ...]
    provenance: Mapping[str, str] = field(default_factory=dict)
    level: float = stats.LEVEL

    def __post_init__(self) -> None:
        for what, found in (("axis", self.axes), ("measure", self.measures), ("point", self.points)):
            if not found:
                raise ValueError(f"{self.title}: there is no {what} to explore")
        for what, names in (
            ("axes", [axis.name for axis in self.axes]),
            ("measures", [measure.name for measure in self.measures]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"{self.title}: {what}: must have different names, have {names}")
        known = {measure.name for measure in self.measures}
        places = {axis.name: set(map(_text, axis.values)) for axis in self.axes}
        for point in self.points:
            self._check(point, known, places)
        labels = [tuple(_text(point.labels[axis]) for axis in places) for point in self.points]
        if len(set(labels)) < len(labels):
            twice = next(one for one in labels if labels.count(one) > 1)
            raise ValueError(f"{self.title}: points: must differ in their labels, two have {list(twice)}")

    def _check(self, point: PointData, known: set[str], places: Mapping[str, set[str]]) -> None:
        where = f"{self.title}: point {dict(point.labels)}"
        if point.labels.keys() != places.keys():
            raise ValueError(f"{where}: must have one label for each axis: {', '.join(places)}")
        for axis, label in point.labels.items():
            if _text(label) not in places[axis]:
                raise ValueError(f"{where}: `{_text(label)}` is no value of the axis {axis}")
        if len(set(point.seeds)) < len(point.seeds):
            raise ValueError(f"{where}: seeds: must differ, are {list(point.seeds)}")
        if strange := point.values.keys() - known:
            raise ValueError(f"{where}: {', '.join(sorted(strange))}: no such measure")
        if strange_seeds := point.failures.keys() - set(point.seeds):
            raise ValueError(f"{where}: failures: seeds {sorted(strange_seeds)} are none of the point's")
        for name, values in point.values.items():
            if len(values) != len(point.seeds):
                raise ValueError(
                    f"{where}: {name}: must have a value for each of {len(point.seeds)} seeds, "
                    f"has {len(values)}"
                )


def page(*explorations: Exploration) -> str:
    """The page as text; of several sweeps it offers a choice. It refers to no other file and to no network.

    Raises `ValueError` if there is no sweep, or two have the same title.
    """
    from importlib.resources import files

    from jinja2 import Environment, PackageLoader, StrictUndefined

    titles = [one.title for one in explorations]
    if not titles or len(set(titles)) < len(titles):
        raise ValueError(f"sweeps: must be given, and have different titles, have {titles}")
    environment = Environment(
        loader=PackageLoader("aqmlab", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    beside = files("aqmlab") / "templates"
    rendered = environment.get_template(TEMPLATE).render(
        title=titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more",
        style=(beside / STYLE).read_text(encoding="utf-8"),
        script="\n".join((beside / name).read_text(encoding="utf-8") for name in SCRIPTS),
        data=packed(explorations),
    )
    return str(rendered)


def packed(explorations: Sequence[Exploration]) -> str:
    """What the page knows: JSON, gzipped, in base64. The same for the same runs."""
    data = {"sweeps": [_columns(one) for one in explorations]}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode("ascii")


def _columns(one: Exploration) -> dict[str, Any]:
    """A sweep by columns, each as long as there are points; what repeats stands once, and is numbered."""
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
    places = {text: place for place, text in enumerate(texts)}
    tints = colours(texts)
    return {
        "name": axis.name,
        "label": axis.label,
        "values": texts,
        "numbers": axis.numbers,
        "log": axis.log,
        "colours": [tints[text] for text in texts],
        "of": [places[_text(point.labels[axis.name])] for point in points],
    }


def _values(point: PointData, measure: str) -> list[float | None] | None:
    """The values of a point; nothing at all where no run has one."""
    values = [
        None if value is None or not math.isfinite(value) else value
        for value in point.values.get(measure, ())
    ]
    return values if any(value is not None for value in values) else None


def _text(label: Label) -> str:
    """A label as people write it."""
    return label if isinstance(label, str) else json.dumps(label)
