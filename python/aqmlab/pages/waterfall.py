"""The waterfall of a page: the times of its objects in the recording and in one simulated load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aqmlab.charts.chart import Chart, Mark
from aqmlab.pages.network import AccessLink, on_link
from aqmlab.pages.page import Page

if TYPE_CHECKING:
    import polars as pl

RECORDED, SIMULATED = "recorded", "simulated"

STAGES = ("waits for the browser", "waits for the response", "arrives")
"""The stages of an object: from the discovery to the request, from the request to the first byte, and from
the first to the last byte."""

MARKS: Mapping[str, Mark] = {
    stage: Mark(colour=colour, shape="span", width=4.0)
    for stage, colour in zip(STAGES, ("#BBBBBB", "#E69F00", "#0072B2"), strict=True)
}

STEP, MOST_FACTOR = 1.1, 16.0
"""The compared rates are multiples of the lower bound by powers of 1.1, up to 16 times the bound; aqmlab's
choice."""

TIE = 1.02
"""A lower rate is preferred if its error is at most 2 % larger, because a page that does not fill the link
does not determine the rate; aqmlab's choice."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A link that fits a recorded page, and the page's load over this link."""

    link: AccessLink
    objects: pl.DataFrame
    """Table `page_objects` of the simulated load."""
    error_s: float
    """Mean absolute difference between the simulated and the recorded ends of the objects, in seconds."""

    load_s: float | None
    """Simulated time of the last object for which the load event waits."""
    render_s: float | None
    """Simulated time of the last render-blocking object."""


def fitted(page: Page, *, rate_bps: float | None = None, rtt_s: float | None = None) -> Fit:
    """Returns a link that fits a recorded page. The round-trip time is that of the handshakes. The rate is
    the rate at which a simulated load over the recorded version of HTTP differs least from the recording, on
    average over the ends of the objects. The search begins at the lower bound that follows from the
    recording. `rate_bps` and `rtt_s` replace the fitted values."""
    rtt = page.rtt_s if rtt_s is None else rtt_s
    if rate_bps is not None:
        return _load(page, AccessLink(rate_bps=rate_bps, rtt_s=rtt))
    rates, factor = [], 1.0
    while factor <= MOST_FACTOR:
        rates.append(page.least_rate_bps * factor)
        factor *= STEP
    loads = [_load(page, AccessLink(rate_bps=rate, rtt_s=rtt)) for rate in rates]
    least = min(one.error_s for one in loads)
    return next(one for one in loads if one.error_s <= TIE * least)


RECORDED_BUFFER_S = 2.0
"""Buffer of the fitted link, as time at the link's rate. The buffer does not drop packets of an ordinary
page; aqmlab's choice, because a HAR file contains no losses."""


def _load(page: Page, link: AccessLink) -> Fit:
    import polars as pl

    link = replace(link, buffer_s=RECORDED_BUFFER_S)
    tables = on_link(link, [page], http=page.http).run(1).tables
    objects = tables["page_objects"].with_columns(pl.col("object").cast(pl.Int64))
    ends = dict(objects.select("object", "end_s").iter_rows())
    # An object that did not arrive ended after the run.
    horizon = max(one.recorded.end_s for one in page.objects) * 10
    differences = [
        abs((ends.get(number) or horizon) - one.recorded.end_s)
        for number, one in enumerate(page.objects, start=1)
    ]
    load = tables["page_loads"].row(0, named=True)
    return Fit(
        link=link,
        objects=objects,
        error_s=sum(differences) / len(differences),
        load_s=load["load_s"],
        render_s=load["render_s"],
    )


def table(page: Page, fit: Fit) -> pl.DataFrame:
    """Returns a row for each object with its recorded and simulated times in seconds from the start of the
    page."""
    import polars as pl

    recorded = pl.DataFrame(
        {
            "object": range(1, len(page.objects) + 1),
            "label": [one.label for one in page.objects],
            "size_bytes": [one.response_bytes for one in page.objects],
            "recorded_discovered_s": [one.recorded.discovered_s for one in page.objects],
            "recorded_requested_s": [one.recorded.requested_s for one in page.objects],
            "recorded_first_byte_s": [one.recorded.first_byte_s for one in page.objects],
            "recorded_end_s": [one.recorded.end_s for one in page.objects],
        },
        schema_overrides={"object": pl.Int64},
    )
    names = ("discovered_s", "requested_s", "first_byte_s", "end_s")
    simulated = fit.objects.select("object", *(pl.col(name).alias(f"simulated_{name}") for name in names))
    return recorded.join(simulated, on="object", how="left")


def chart(page: Page, fit: Fit) -> Chart:
    """Returns the recorded waterfall above the simulated waterfall."""
    import polars as pl

    rows = []
    for row in table(page, fit).iter_rows(named=True):
        for source in (RECORDED, SIMULATED):
            times = [row[f"{source}_{name}_s"] for name in ("discovered", "requested", "first_byte", "end")]
            for stage, begin, end in zip(STAGES, times, times[1:], strict=False):
                if begin is not None and end is not None:
                    rows.append((source, row["object"], row["label"], stage, begin, end))
    columns = {
        "source": pl.String,
        "object": pl.Int64,
        "label": pl.String,
        "stage": pl.String,
        "begin_s": pl.Float64,
        "end": pl.Float64,
    }
    rows.sort(key=lambda one: one[0])
    last = max(one[5] for one in rows)
    return Chart(
        kind="marks",
        table=pl.DataFrame(rows, schema=columns, orient="row"),
        x="begin_s",
        y="object",
        by="stage",
        x_label="time (s)",
        y_label="object",
        panel="source",
        marks=MARKS,
        beneath={RECORDED: "object, recorded", SIMULATED: "object, simulated"},
        x_limits=(0.0, 1.02 * last),
        y_limits=(len(page.objects) + 0.7, 0.3),
    )
