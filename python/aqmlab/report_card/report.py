"""Report cards as one web page that works offline."""

from __future__ import annotations

import tempfile
from pathlib import Path

from aqmlab.charts.chart import save
from aqmlab.report_card import tables
from aqmlab.report_card.characterisation import Characterisation
from aqmlab.report_card.figures import ellipses
from aqmlab.report_card.properties import OVERVIEW
from aqmlab.study.report import data_uri

TEMPLATE = "report_card.html.jinja"


def render(found: Characterisation, failures: tuple[str, ...] = ()) -> str:
    """The page as text. It refers to no other file and to no network."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("aqmlab", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    page = environment.get_template(TEMPLATE).render(
        cards=found.cards,
        columns=OVERVIEW,
        failures=failures,
        main={one.queue: tables.main_room(one) for one in found.cards},
        pictures={one.queue: _picture(found, one.queue) for one in found.cards},
        tables=tables,
        values=found.values,
    )
    return str(page)


def _picture(found: Characterisation, queue: str) -> str | None:
    """The figure of a card as an address that holds the picture itself."""
    chart = ellipses(found, queue)
    if chart is None:
        return None
    with tempfile.TemporaryDirectory() as drawn:
        return data_uri(save(chart, Path(drawn), queue, pictures=("svg",))["svg"])
