"""Renders a study as a single web page that works offline and contains figures with their numbers, claims and
provenance."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab.charts.chart import Chart
from aqmlab.results.rule import digest
from aqmlab.scenario import flat
from aqmlab.stats import SIGNS
from aqmlab.study import report_claims
from aqmlab.study.publication import Claim, StudyResult
from aqmlab.study.rules import listed, retired

TEMPLATE = "report.html.jinja"
_MOST_ROWS = 400
_LONG = 40
"""Minimum length, in characters, of a table cell's text for the text to be wrapped."""


def render(result: StudyResult) -> str:
    """Returns the page as HTML. The page does not refer to other files or to network addresses."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("aqmlab", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = number
    environment.filters["data_uri"] = data_uri
    environment.filters["rows"] = rows
    environment.filters["looks"] = looks
    environment.filters["is_wide"] = is_wide
    environment.filters["pretty"] = pretty
    environment.filters["groups"] = report_claims.groups
    environment.filters["deciding"] = report_claims.deciding
    environment.filters["tally"] = report_claims.tally
    environment.filters["digest"] = digest
    environment.globals["SIGNS"] = SIGNS
    environment.tests["one_is_enough"] = report_claims.one_is_enough
    study = result.study
    page = environment.get_template(TEMPLATE).render(
        result=result,
        study=study,
        answer=study.answer(result.judged),
        matrix=report_claims.VerdictMatrix(result),
        drawn=drawn(result),
        retired=retired(study.name),
        listed=study.name in listed(),
        most_rows=_MOST_ROWS,
        **shared_parameters(result.provenance["scenarios"]),
    )
    return str(page)


def shared_parameters(scenarios: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Splits effective scenarios into shared parameters and parameters that are specific to each scenario.

    Parameters are named by dotted path, so that the page prints each shared parameter only once.
    """
    flattened = {name: flat(entry["scenario"]) for name, entry in scenarios.items()}
    if not flattened:
        return {"shared": {}, "own": {}}
    first, *others = flattened.values()
    shared = {
        path: value for path, value in first.items() if all(path in o and o[path] == value for o in others)
    }
    own = {
        name: {
            "digest": scenarios[name]["digest"],
            "parameters": {path: value for path, value in entry.items() if path not in shared},
        }
        for name, entry in flattened.items()
    }
    return {"shared": shared, "own": own}


@dataclass(frozen=True, kw_only=True)
class PageItem:
    """A figure or table on the page."""

    anchor: str
    name: str
    claims: Sequence[Claim]
    """Claims about the figure or table."""


def drawn(result: StudyResult) -> dict[str, PageItem]:
    """Returns the figures and tables of a study on the page, by ID."""
    study = result.study
    named = {one.id: (f"figure-{one.id}", _name("Figure", one.id, one.title)) for one in study.figures}
    named |= {one.id: (one.id, one.title) for one in study.tables}
    return {
        id: PageItem(
            anchor=anchor, name=name, claims=[one for one in study.claims if id in study.figures_of(one)]
        )
        for id, (anchor, name) in named.items()
    }


def _name(kind: str, id: str, title: str) -> str:
    return f"{kind} {id}" if id[0].isdigit() else title


def number(value: Any, digits: int = 4) -> str:
    """Returns a number as readable text, with a dash for a missing value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def data_uri(path: Path) -> str:
    """Returns a `data:` URI that contains an SVG file."""
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def rows(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Returns the first rows of a table, up to the page's limit of 400 rows."""
    return table.head(_MOST_ROWS).rows()


def looks(table: pl.DataFrame) -> list[str]:
    """Returns the layout of each column of a table: `number` (numbers, also with a unit or an interval),
    `words`, or `prose` (texts of several lines)."""
    return [_look(column) for column in table.head(_MOST_ROWS)]


def _look(column: pl.Series) -> str:
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return "number"
    texts = [str(value) for value in column.drop_nulls()]
    if any(re.match(r"[-+]?\d", text) for text in texts):
        return "number"
    return "prose" if any(len(text) > _LONG for text in texts) else "words"


def is_wide(chart: Chart) -> bool:
    """Returns whether a chart needs the full width of the page, because the chart has more than two
    panels."""
    return chart.panel is not None and chart.table[chart.panel].n_unique() > 2


def pretty(value: Any) -> str:
    """Returns a parameter in the syntax of scenario files."""
    return json.dumps(value, ensure_ascii=False)
