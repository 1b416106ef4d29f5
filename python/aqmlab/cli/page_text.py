"""Output of the command `aqmlab page`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aqmlab._support import toml_writer
from aqmlab._support.files import write_csv, write_text
from aqmlab.charts.style import shown_of
from aqmlab.cli.table_text import Form, print_table
from aqmlab.metrics import finite
from aqmlab.scenario import settings_of

if TYPE_CHECKING:
    from aqmlab.charts.style import Look
    from aqmlab.pages import Page
    from aqmlab.pages.loads import Loads
    from aqmlab.pages.waterfall import Fit
    from aqmlab.scenario import Scenario

NAMES = {"load-time": "load time", "render-time": "last render-blocking object"}
STATISTICS = {"mean": "mean", "q50": "median", "q95": "95 %"}


def changed(scenario: Scenario, settings: Sequence[str] | None) -> Scenario:
    """Returns the scenario with the values of `--set`."""
    return scenario.with_(settings_of(settings)) if settings else scenario


def write_scenario(scenario: Scenario, out: Path) -> list[Path]:
    """Writes the scenario and the tables of the pages, so that any command can use them."""
    out.mkdir(parents=True, exist_ok=True)
    for name, content in scenario.files.items():
        file = Path(name)
        # The scenario finds other files at their own paths.
        if not file.is_absolute() and ".." not in file.parts:
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            write_text(out / file, content)
    path = out / "page.toml"
    write_text(path, toml_writer.written(scenario.given))
    return [path]


def write_waterfalls(
    pages: Sequence[Page], fits: Sequence[Fit], out: Path, *, pictures: Sequence[str], look: Look
) -> list[Path]:
    """Draws the waterfall of each page."""
    from aqmlab.charts import chart as plot
    from aqmlab.pages import waterfall

    written = []
    for number, (page, fit) in enumerate(zip(pages, fits, strict=True), start=1):
        name = "waterfall" if len(pages) == 1 else f"waterfall-{number}"
        chart = waterfall.chart(page, fit)
        written.append(plot.save(chart, out, name, pictures=pictures, look=look)[shown_of(pictures)])
        write_csv(out / f"{name}-objects.csv", waterfall.table(page, fit))
    return written


def write_loads(found: Loads, out: Path, *, pictures: Sequence[str], look: Look) -> list[Path]:
    """Draws the distributions, and writes the values of all runs."""
    from aqmlab.charts import drawing

    path = out / "loads.csv"
    write_csv(path, found.results.frame)
    orders = [
        drawing.Order(chart, out, name, tuple(pictures), look) for name, chart in found.charts().items()
    ]
    saved = drawing.save_each(orders)
    for one in saved:
        if isinstance(one, str):
            raise ValueError(one)
    return [path, *(one[shown_of(pictures)] for one in saved if not isinstance(one, str))]


def as_table(pages: Sequence[Page], fits: Sequence[Fit], found: Loads | None) -> dict[str, Any]:
    """Returns the JSON object of the command."""
    table: dict[str, Any] = {"pages": [_page(page, fit) for page, fit in zip(pages, fits, strict=True)]}
    if found is not None:
        table["executed"] = found.executed
        table["loads"] = finite(found.rows())
        table["failures"] = [str(one) for one in found.results.failures]
    return table


def _page(page: Page, fit: Fit) -> dict[str, Any]:
    return {
        "objects": len(page.objects),
        "hosts": len(page.extra_rtt_s),
        "bytes": page.bytes,
        "http": page.http,
        "tls": page.tls,
        "rtt_s": page.rtt_s,
        "lead_s": page.lead_s,
        "least_rate_bps": page.least_rate_bps,
        "fitted_rate_bps": fit.link.rate_bps,
        "recorded": {"load_s": page.load_s, "render_s": page.render_s, "load_event_s": page.load_event_s},
        "simulated": {"load_s": fit.load_s, "render_s": fit.render_s, "mean_difference_s": fit.error_s},
        "skipped": dict(page.skipped),
        "notes": list(page.notes),
    }


def show(
    files: Sequence[Path],
    pages: Sequence[Page],
    fits: Sequence[Fit],
    found: Loads | None,
    *,
    form: Form = Form.TEXT,
) -> None:
    """Prints each page, its fit, and the table of loads."""
    for number, (file, page, fit) in enumerate(zip(files, pages, fits, strict=True), start=1):
        name = "page" if len(pages) == 1 else f"page-{number}"
        hosts = f"{len(page.extra_rtt_s)} host" + ("s" if len(page.extra_rtt_s) > 1 else "")
        tls = "with" if page.tls else "without"
        print(
            f"{name} ({file}): {len(page.objects)} objects from {hosts}, {page.bytes / 1000:.0f} kB, "
            f"HTTP/{page.http} {tls} TLS"
        )
        rate, least = fit.link.rate_bps / 1e6, page.least_rate_bps / 1e6
        print(
            f"  fitted link: {rate:.3g} Mbps, round-trip time {1000 * fit.link.rtt_s:.3g} ms (recorded rate: "
            f"at least {least:.3g} Mbps)"
        )
        print(f"  {'':28}{'recorded':>10}{'simulated':>11}{'difference':>12}")
        for title, recorded, simulated in (
            ("load time", page.load_s, fit.load_s),
            ("last render-blocking object", page.render_s, fit.render_s),
        ):
            if recorded is not None and simulated is not None:
                share = 100 * (simulated / recorded - 1)
                print(f"  {title:28}{recorded:8.3f} s{simulated:9.3f} s{share:+10.1f} %")
        print(f"  objects: the ends differ by {1000 * fit.error_s:.0f} ms on average")
        for note in page.notes:
            print(f"  {note}")
    if found is None:
        return
    print()
    axes = list(found.results.axes)
    rows = []
    for row in found.rows():
        cells = [str(row[label]) for label in axes] + ([row["page"]] if len(pages) > 1 else [])
        cells += [_interval(row, f"load-time.{one}") for one in STATISTICS]
        rows.append([*cells, _interval(row, "render-time.mean"), f"{row.get('unfinished', 0):.0f}"])
    heads = [*axes, *(["page"] if len(pages) > 1 else [])]
    left = len(heads)
    heads += [f"load time (s)\n{word}" for word in STATISTICS.values()]
    heads += ["last render-blocking\nobject (s), mean", "unfinished"]
    counts = {row.get("runs") for row in found.rows()}
    over = f"{next(iter(counts))} runs" if len(counts) == 1 else "the finished runs"
    print_table(f"Load time over {over}, with 95 % intervals", heads, rows, left=left, form=form)
    if form is Form.TEXT:
        total = found.results.frame.height
        print(f"{found.executed} runs executed, {total - found.executed} found in the store")


def _interval(row: dict[str, Any], name: str) -> str:
    value, low, high = (row.get(key) for key in (name, f"{name}.low", f"{name}.high"))
    if value is None or math.isnan(value):
        return "-"
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return f"{value:.3f}"
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
