"""What a study is made of: a publication as experiments, figures, tables and claims; and what it found."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from aqmlab._support import notebook
from aqmlab.campaign import Failure
from aqmlab.charts.chart import Chart
from aqmlab.results.labels import Labels, Value
from aqmlab.results.rule import AnyRule, Estimate
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Measured, Variable, measured
from aqmlab.stats import LEVEL, Band, Evidence, Interval
from aqmlab.study.charts import Line, line
from aqmlab.study.experiment import Experiment
from aqmlab.study.query import Shown, query
from aqmlab.study.tables import Crossed, listed
from aqmlab.sweep import Change


@dataclass(frozen=True)
class Figure:
    """A chart of a study."""

    id: str
    title: str
    chart: Callable[[ExperimentResults], Chart] | Shown
    """What draws it (`line`), or a variable, an estimate or a query, which is drawn against its axes."""
    caption: str = ""
    shows: tuple[Experiment, ...] = ()
    """The experiments whose runs a function draws; by default all of the study."""

    @cached_property
    def draws(self) -> Callable[[ExperimentResults], Chart]:
        """What draws it."""
        return self.chart if callable(self.chart) else line(self.chart)

    def __post_init__(self) -> None:
        if not callable(self.draws):
            raise ValueError(f"figure {self.id}: chart must be a query or a function, is {self.chart!r}")

    @property
    def file(self) -> str:
        """The name of its files, without ending."""
        return f"figure-{self.id}" if self.id[0].isdigit() else self.id


@dataclass(frozen=True)
class Table:
    """A table of a study, as text to be read."""

    id: str
    title: str
    table: Callable[[ExperimentResults], pl.DataFrame] | Shown | Sequence[Shown]
    """What makes it (`crossed`, `listed`, `overview`), or variables, estimates or queries of the same axes,
    which become columns."""
    caption: str = "Means over the seeds ± half of their 95 % interval."
    shows: tuple[Experiment, ...] = ()
    """The experiments whose runs a function tabulates; by default all of the study."""

    @cached_property
    def tabulates(self) -> Callable[[ExperimentResults], pl.DataFrame]:
        """What makes it."""
        if callable(self.table):
            return self.table
        columns = self.table if isinstance(self.table, Sequence) else (self.table,)
        return listed(columns, *columns[0].axes)

    def __post_init__(self) -> None:
        if not callable(self.tabulates):
            raise ValueError(f"table {self.id}: table must be queries or a function, is {self.table!r}")


def _measured(variables: Iterable[Variable]) -> Iterator[Measured]:
    return (leaf for variable in variables for leaf in measured(variable))


Origin = Literal["paper", "sheet", "ours"]
"""Whose a claim is: the publication's own words, our reading of it, or ours beyond it."""


@dataclass(frozen=True)
class Claim:
    """A published conclusion, and the rule by which it is judged here."""

    id: str
    statement: str
    """The sentence that is judged: the source's own, or as near to it as one sentence can be."""
    rule: AnyRule
    source: str = ""
    """Where the source says so: `slide 24`."""
    figures: tuple[str, ...] = ()
    """The figures and tables that it is about, the first of which its verdict opens; without any, those that
    its source names, or that show what it is about (`Study.figures_of`)."""
    origin: Origin = "paper"


def our_reading(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim that is our reading of the publication, and not its own words."""
    return Claim(id, statement, rule, source, figures, "sheet")


def our_claim(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim that the publication does not make."""
    return Claim(id, statement, rule, source, figures, "ours")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One of several systems that every claim is judged for where it makes a difference: values of axes which
    the rules leave open, or other runs."""

    name: str
    labels: Mapping[str, Value] = field(default_factory=dict)
    suffix: str = ""
    """What follows the id of a claim that is judged for it."""
    runs: Callable[[ExperimentResults], ExperimentResults] | None = None
    """In place of the runs of the study those that this finds, such as recorded ones."""
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    """Claims that are not judged for it, by id, and why."""


@dataclass(frozen=True)
class Variant:
    """Another answer to a question the source leaves open, under which claims are judged again."""

    name: str
    what: str
    change: Change


@dataclass(frozen=True)
class Decision:
    """What we decided where the source is silent, and the other answers that are tried."""

    question: str
    decision: str
    reason: str
    variants: tuple[Variant, ...] = ()


Queues = Mapping[str, Mapping[str, Any]]
"""Tables of queues by the names that figures show."""

Part = Experiment | Claim | Figure | Table | Decision | Variant
"""What a study is made of."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What equal systems show of a number that a claim is about: chance alone takes them so far apart."""

    claim: str
    band: Band
    """What is claimed of the number."""
    where: Labels
    measured: Interval
    equal: Interval
    """The same estimate of systems that differ in their draws only."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question as experiments, claims, figures and tables, often those of a publication.

    `Study.of` takes the parts in any order. Raises `ValueError` if a claim points to a figure or table that
    is not there, a reading leaves out a claim that is not, or two share an id.
    """

    name: str
    title: str
    paper: str = ""
    """The publication; empty for a study of one's own."""
    question: str = ""
    experiments: tuple[Experiment, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    decisions: tuple[Decision, ...] = ()
    answer: Callable[[Verdicts], list[str]] = lambda _: []
    """The short answer in words, from the evidence."""
    readings: tuple[Reading, ...] = ()
    """The first is the main one."""
    checks: Callable[[ExperimentResults], list[str]] = lambda _: []
    """Warnings worth printing, such as a warm-up that was too short."""
    variants: tuple[Variant, ...] = ()
    """Other answers that belong to no single decision, beside those of the decisions."""
    floors: Callable[[ExperimentResults, float], Iterable[Floor]] = lambda *_: ()
    """What equal systems show, by intervals of a level, for claims about distances."""
    with_queues: Callable[[Queues], Study] | None = None
    """The study in which other queues stand beside the publication's (`aqmlab study run NAME --queues LIST`);
    its claims are judged for each of these queues."""

    @classmethod
    def of(cls, name: str, title: str, *parts: Part, **fields: Any) -> Study:
        """A study of experiments, claims, figures, tables, decisions and variants in any order, so that an
        experiment, what is claimed of it and what shows it stand together. `fields` are those of the class.
        Raises `ValueError` as the class does, and `TypeError` for anything else among the parts."""
        kinds: Mapping[type, str] = {
            Experiment: "experiments",
            Claim: "claims",
            Figure: "figures",
            Table: "tables",
            Decision: "decisions",
            Variant: "variants",
        }
        sorted_parts: dict[str, Any] = dict.fromkeys(kinds.values(), ())
        for part in parts:
            if type(part) not in kinds:
                known = ", ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"{name}: {part!r} is no part of a study: parts are {known}")
            sorted_parts[kinds[type(part)]] += (part,)
        return cls(
            name=name,
            title=title,
            **sorted_parts,
            **fields,
        )

    def __post_init__(self) -> None:
        for what, ids in (
            ("claims", [one.id for one in self.claims]),
            ("experiments", [one.name for one in self.experiments]),
            ("figures and tables", self._drawn),
            ("variants", [one.name for one in self.all_variants]),
        ):
            twice = {one for one in ids if ids.count(one) > 1}
            if twice:
                raise ValueError(f"{self.name}: two {what} are called {', '.join(sorted(twice))}")
        claims = {one.id for one in self.claims}
        for reading in self.readings:
            for id in reading.leaves_out.keys() - claims:
                raise ValueError(f"{self.name}, {reading.name}: leaves out `{id}`, which is no claim of it")
        drawn = self._drawn
        known = {one.name for one in self.experiments}
        for claim in self.claims:
            for figure in claim.figures:
                if figure not in drawn:
                    raise ValueError(f"{self.name}, {claim.id}: there is no figure or table `{figure}`")
            for variable in claim.rule.variables:
                for one in variable.experiments:
                    if one.name not in known:
                        raise ValueError(f"{self.name}, {claim.id}: `{one.name}` is no experiment of it")

    @property
    def _drawn(self) -> list[str]:
        return [*(one.id for one in self.figures), *(one.id for one in self.tables)]

    def figures_of(self, claim: Claim) -> tuple[str, ...]:
        """The figures and tables that a claim names, or else those whose ids its source names (`figures 8a
        and 8b`), or else those of queries that show the measures of its rule, and the least beside them."""
        if chosen := claim.figures or self._named(claim.source):
            return chosen
        about = {(one.experiment.name, one.measure.key) for one in _measured(claim.rule.variables)}
        shares = {id: len(about & shown) / len(about | shown) for id, shown in self._shown.items()}
        most = max(shares.values(), default=0.0)
        return tuple(id for id, share in shares.items() if share == most > 0)

    def _named(self, source: str) -> tuple[str, ...]:
        """The figures and tables whose ids follow the word figure or figures."""
        ids = re.findall(r"\w+", " ".join(re.findall(r"\bfigures? (\w+(?:(?:, | and )\w+)*)", source)))
        return tuple(dict.fromkeys(id for id in ids if id in self._drawn))

    @cached_property
    def _shown(self) -> dict[str, set[tuple[str, str]]]:
        """The measures, each with its experiment, that figures and tables of queries show."""
        drawn = {one.id: one.draws for one in self.figures} | {one.id: one.tabulates for one in self.tables}
        estimates = {
            id: [one for one in query(of.shown).of if isinstance(one, Estimate)]
            for id, of in drawn.items()
            if isinstance(of, Line | Crossed)
        }
        return {
            id: {(leaf.experiment.name, leaf.measure.key) for one in several for leaf in _measured(one.of)}
            for id, several in estimates.items()
        }

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """The variants of all decisions, and the others."""
        return (*self.variants, *(variant for one in self.decisions for variant in one.variants))

    def rule_of(self, claim: Claim) -> AnyRule:
        """The rule of a claim as a reader is told it: without the axes whose values readings choose."""
        return claim.rule.without(*(label for reading in self.readings for label in reading.labels))

    def readings_of(self, claim: Claim) -> tuple[Reading, ...]:
        """For which systems a claim is judged; a single one, without name, where they make no difference."""
        told = (self.reading_of(claim, reading) for reading in self.readings)
        apart = {reading.name: reading for reading in told if reading is not None}
        return tuple(apart.values()) or (Reading(name=""),)

    def reading_of(self, claim: Claim, reading: Reading) -> Reading | None:
        """For which reading a claim is judged in place of one: the first that differs from it in nothing that
        the claim looks at, or one without name if none does; `None` if the reading leaves the claim out."""
        if claim.id in reading.leaves_out:
            return None
        open_axes = {label for variable in claim.rule.variables for label in variable.axes}

        def looked_at(one: Reading) -> tuple[Any, dict[str, Value]]:
            return one.runs, {label: value for label, value in one.labels.items() if label in open_axes}

        wanted = looked_at(reading)
        if wanted == (None, {}):
            return Reading(name="")
        return next(
            one for one in self.readings if claim.id not in one.leaves_out and looked_at(one) == wanted
        )

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
    """A claim with its evidence for a reading."""

    claim: Claim
    reading: Reading
    evidence: Evidence

    @property
    def id(self) -> str:
        """That of the claim, and what tells its reading."""
        return self.claim.id + self.reading.suffix


class Verdicts(tuple[Judged, ...]):
    """All claims of a study with their evidence, by id."""

    __slots__ = ()

    def of(self, id: str) -> Evidence:
        """The evidence for the claim of an id, suffix included. Raises `KeyError`."""
        for judged in self:
            if judged.id == id:
                return judged.evidence
        raise KeyError(f"no claim `{id}`: there is {', '.join(judged.id for judged in self)}")


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """Everything a study found."""

    study: Study
    quick: bool
    judged: Verdicts
    drawn: tuple[Drawn, ...]
    tables: tuple[tuple[Table, pl.DataFrame | str], ...]
    sensitivity: tuple[tuple[Variant, Verdicts], ...]
    """The verdicts under each variant."""
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]
    report: Path
    results: ExperimentResults
    """The main runs, a table for each experiment, by its name."""
    floors: tuple[Floor, ...] = ()
    level: float = LEVEL
    """The level of each interval, but of those that allow for the number of parts."""
    source: str = ""
    """The command by which a reader runs the study, without `aqmlab` and options: `study run shred`."""

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict by claim."""
        return {judged.id: judged.evidence.verdict for judged in self.judged}

    def _repr_html_(self) -> str:
        rows = [
            (one.id, one.evidence.verdict, one.claim.statement, one.evidence.measured) for one in self.judged
        ]
        claims = notebook.table(("claim", "verdict", "statement", "measured"), rows)
        return notebook.section(f"{self.study.title}: {self.report}", claims)
