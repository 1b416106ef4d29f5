"""Report cards as pages: a card for each queue, and a table over all of them. Written by
`aqmlab report-card --pages FOLDER`, and never by hand.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from aqmlab.campaign import version
from aqmlab.experiment import Experiment
from aqmlab.files import write_bytes, write_text
from aqmlab.plot import Chart, save
from aqmlab.publication import Judged, StudyResult
from aqmlab.report_card.network import DROP_TAIL, LINES
from aqmlab.report_claims import interval
from aqmlab.sweep import said

WIDTH = 118

SIGNS = {"holds": "✓", "fails": "✗", "undecided": "·"}
"""What a table says of a verdict."""


PICTURED = ("5.1.1", "5.2", "8.2.3")
"""The sections whose ellipses, on the first line, stand on a card."""


def write(result: StudyResult, folder: Path) -> list[Path]:
    """Writes `index.md` and, for each queue, a page and a picture; returns the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"index": overview(result)}
    for queue in _queues(result):
        chart = ellipses(result, queue)
        if chart is not None:
            with tempfile.TemporaryDirectory() as drawn:
                picture = save(chart, Path(drawn), queue, pictures=("svg",))["svg"]
                write_bytes(folder / picture.name, picture.read_bytes())
        texts[queue] = card(result, queue, pictured=chart is not None)
    paths = [folder / f"{name}.md" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def ellipses(result: StudyResult, queue: str) -> Chart | None:
    """A queue's ellipses beside those of Drop Tail, a panel for each scenario; nothing if none was run."""
    line = str(next(iter(LINES)))
    charts = {one.figure.id: one.chart for one in result.drawn if one.figure.id in PICTURED}
    titles = {section: one.title for section, one in _experiments(result).items()}
    found = {section: chart for section, chart in charts.items() if chart is not None}
    if not found:
        return None
    ours = pl.col("queue").is_in([DROP_TAIL, queue]) & (pl.col("panel") == line)
    tables = [
        chart.table.filter(ours).with_columns(panel=pl.lit(titles[section]))
        for section, chart in found.items()
    ]
    return dataclasses.replace(next(iter(found.values())), table=pl.concat(tables))


def _experiments(result: StudyResult) -> dict[str, Experiment]:
    """By section."""
    return {one.name.removeprefix("rfc7928-"): one for one in result.study.experiments}


def _replications(result: StudyResult) -> str:
    """How many there are of each scenario, and where more might decide."""
    least = min(one.seeds for one in result.study.experiments)
    most = max(len(seeds) for seeds in result.provenance["seeds"].values())
    more = f", up to {most} where more might decide" if most > least and not result.quick else ""
    return f"{min(least, most)} replications of each scenario{more}"


def _queues(result: StudyResult) -> list[str]:
    return [one.name for one in result.study.readings]


def _judged(result: StudyResult, queue: str) -> list[Judged]:
    return [one for one in result.judged if one.reading.name == queue]


def overview(result: StudyResult) -> str:
    """The table over all queues: a line for each, a column for each requirement."""
    queues = _queues(result)
    ids = [claim.id for claim in result.study.claims]
    found = {
        queue: {one.claim.id: SIGNS[one.evidence.verdict] for one in _judged(result, queue)}
        for queue in queues
    }
    ranked = sorted(queues, key=lambda queue: (-list(found[queue].values()).count("✓"), queue))
    lines = [
        "# Report cards of all queues",
        "",
        _wrapped(
            "Every queue discipline as it comes, in the scenarios of RFC 7928, beside Drop Tail with the "
            f"same room: made by `aqmlab report-card all`, aqmlab {version()}, "
            f"{_replications(result)}{', quick' if result.quick else ''}, "
            f"{result.provenance['runs']:,} runs. ✓ the requirement is met, ✗ it is not, · the 95 % "
            "interval does not decide, which more replications would change. [What is "
            "asked](../guides/report-card.md) is told in words there; each queue's card has the numbers. "
            "Queues come in the order of how many requirements they meet, which says nothing of what each is "
            "good for."
        ),
        "",
        f"| Queue | ✓ | ✗ | {' | '.join(ids)} |",
        f"| --- | --- | --- | {' | '.join('---' for _ in ids)} |",
    ]
    for queue in ranked:
        signs = [found[queue].get(id, "") for id in ids]
        counts = f"{signs.count('✓')} | {signs.count('✗')}"
        lines.append(f"| [{queue}]({queue}.md) | {counts} | {' | '.join(signs)} |")
    lines += ["", "```{toctree}", ":hidden:", "", *ranked, "```", ""]
    return "\n".join(lines)


def card(result: StudyResult, queue: str, *, pictured: bool = False) -> str:
    """The card of a queue: a line for each requirement, and what was measured beside Drop Tail."""
    judged = _judged(result, queue)
    counts = [one.evidence.verdict for one in judged]
    lines = [
        f"# {queue}",
        "",
        _wrapped(
            f"The report card of `{queue}` as it comes: it meets {counts.count('holds')} of {len(counts)} "
            f"requirements, fails {counts.count('fails')}, and {counts.count('undecided')} stay undecided, "
            f"of {_replications(result)}. A number is that of the part that "
            "decides, with its 95 % interval; *over Drop Tail* is a ratio, seed by seed."
        ),
        "",
        *([f"![Goodput against delay, {queue} beside Drop Tail]({queue}.svg)", ""] if pictured else []),
        "| Requirement | | Found | Where |",
        "| --- | --- | --- | --- |",
    ]
    for one in judged:
        found = one.evidence
        number = interval(found) if not math.isnan(found.value) else ""
        lines.append(
            f"| **{one.claim.id}** {one.claim.statement} | {SIGNS[found.verdict]} | {number} | "
            f"{said(found.where)} |"
        )
    lines += ["", "## What was measured", ""]
    for table, frame in result.tables:
        if isinstance(frame, pl.DataFrame) and queue in frame.columns:
            lines += [f"### {table.title}", "", *_table(frame, queue), ""]
    return "\n".join(lines)


def _table(frame: pl.DataFrame, queue: str) -> Iterator[str]:
    queues = [DROP_TAIL, queue]
    first = frame.columns.index(DROP_TAIL)
    columns = [*frame.columns[:first], *queues]
    yield f"| {' | '.join(columns)} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in frame.select(columns).iter_rows():
        yield f"| {' | '.join(_cell(value) for value in row)} |"


def _cell(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))
