"""Report cards as pages: a card for each queue, and a table over all of them. Written by
`aqmlab report-card --pages FOLDER`, and never by hand.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from aqmlab.campaign import version
from aqmlab.files import write_text
from aqmlab.publication import Judged, StudyResult
from aqmlab.report_card.network import DROP_TAIL
from aqmlab.report_claims import interval
from aqmlab.sweep import said

WIDTH = 118

SIGNS = {"holds": "✓", "fails": "✗", "undecided": "·"}
"""What a table says of a verdict."""


def write(result: StudyResult, folder: Path) -> list[Path]:
    """Writes `index.md` and a page for each queue; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"index": overview(result), **{name: card(result, name) for name in _queues(result)}}
    paths = [folder / f"{name}.md" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


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
            "same "
            f"room: made by `aqmlab report-card all`, aqmlab {version()}, "
            f"{result.provenance['runs']:,} runs. ✓ the requirement is met, ✗ it is not, · the 95 % "
            "interval does "
            "not decide. [What is asked](../guides/report-card.md) is told in words there; each queue's "
            "card has "
            f"the numbers."
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


def card(result: StudyResult, queue: str) -> str:
    """The card of a queue: a line for each requirement, and what was measured beside Drop Tail."""
    judged = _judged(result, queue)
    counts = [one.evidence.verdict for one in judged]
    lines = [
        f"# {queue}",
        "",
        _wrapped(
            f"The report card of `{queue}` as it comes: it meets {counts.count('holds')} of {len(counts)} "
            f"requirements, fails {counts.count('fails')}, and {counts.count('undecided')} stay undecided. "
            "A number "
            "is that of the part that decides, with its 95 % interval; *over Drop Tail* is a ratio, seed "
            "by seed."
        ),
        "",
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
