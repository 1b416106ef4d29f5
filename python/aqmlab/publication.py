"""What a study is made of: a publication as sweeps, figures, tables and claims; and what it found."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import notebook
from aqmlab.campaign import Failure
from aqmlab.grid import Grid, Results
from aqmlab.plot import Chart
from aqmlab.stats import Evidence


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart of a study."""

    id: str
    title: str
    caption: str
    chart: Callable[[Results], Chart]

    @property
    def file(self) -> str:
        """The name of its files, without ending."""
        return f"figure-{self.id}" if self.id[0].isdigit() else self.id


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a study, as text to be read."""

    id: str
    title: str
    caption: str
    table: Callable[[Results], pl.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published conclusion, and how it is judged here."""

    id: str
    statement: str
    rule: str
    """What exactly is compared, with bands; fixed before results are looked at."""
    judge: Callable[[Results], Evidence]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another answer to a question the source leaves open, under which claims are judged again."""

    name: str
    what: str
    change: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What we decided where the source is silent."""

    question: str
    decision: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """A publication as sweeps, figures and claims."""

    name: str
    title: str
    paper: str
    question: str
    sweeps: tuple[Grid, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...]
    decisions: tuple[Decision, ...]
    answer: Callable[[Mapping[str, Evidence]], list[str]]
    """The short answer in words, from the evidence by claim."""
    checks: Callable[[Results], list[str]] = lambda _: []
    """Warnings worth printing, such as a warm-up that was too short."""
    sensitivity: tuple[Variant, ...] = ()
    sensitivity_sweeps: tuple[Grid, ...] = ()
    sensitivity_claims: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        claims = notebook.table(("claim", "statement"), [(one.id, one.statement) for one in self.claims])
        about = (f"<p>{html.escape(text)}</p>" for text in (self.paper, self.question))
        return notebook.section(self.title, *about, claims)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure with its chart and files, or the reason why it could not be drawn."""

    figure: Figure
    chart: Chart | None
    paths: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with its evidence."""

    claim: Claim
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Everything a study found."""

    study: Study
    quick: bool
    judged: tuple[Judged, ...]
    drawn: tuple[Drawn, ...]
    tables: tuple[tuple[Table, pl.DataFrame | str], ...]
    sensitivity: tuple[tuple[Variant | None, Mapping[str, Evidence]], ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]
    report: Path

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict by claim."""
        return {judged.claim.id: judged.evidence.verdict for judged in self.judged}

    def _repr_html_(self) -> str:
        rows = [
            (one.claim.id, one.evidence.verdict, one.claim.statement, one.evidence.measured)
            for one in self.judged
        ]
        claims = notebook.table(("claim", "verdict", "statement", "measured"), rows)
        return notebook.section(f"{self.study.title}: {self.report}", claims)
