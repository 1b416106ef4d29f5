"""Parts of a study: experiments, figures, tables and claims of a publication; and the results of a study."""

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
    """Function that draws the chart (`line`), or a variable, estimate or query that is plotted."""
    caption: str = ""
    shows: tuple[Experiment, ...] = ()
    """Experiments whose runs a function plots; by default all experiments of the study."""

    @cached_property
    def draws(self) -> Callable[[ExperimentResults], Chart]:
        """The function that draws the chart."""
        return self.chart if callable(self.chart) else line(self.chart)

    def __post_init__(self) -> None:
        if not callable(self.draws):
            raise ValueError(f"figure {self.id}: chart must be a query or a function (got {self.chart!r})")

    @property
    def file(self) -> str:
        """The name of the figure's files, without extension."""
        return f"figure-{self.id}" if self.id[0].isdigit() else self.id


@dataclass(frozen=True)
class Table:
    """A table of a study."""

    id: str
    title: str
    table: Callable[[ExperimentResults], pl.DataFrame] | Shown | Sequence[Shown]
    """Function that computes the table (`crossed`, `listed`, `overview`), or variables, estimates or queries
    with the same axes, which become columns."""
    caption: str = "Means over the seeds ± half of their 95 % interval."
    shows: tuple[Experiment, ...] = ()
    """Experiments whose runs a function tabulates; by default all experiments of the study."""

    @cached_property
    def tabulates(self) -> Callable[[ExperimentResults], pl.DataFrame]:
        """The function that computes the table."""
        if callable(self.table):
            return self.table
        columns = self.table if isinstance(self.table, Sequence) else (self.table,)
        return listed(columns, *columns[0].axes)

    def __post_init__(self) -> None:
        if not callable(self.tabulates):
            raise ValueError(f"table {self.id}: table must be queries or a function (got {self.table!r})")


def _measured(variables: Iterable[Variable]) -> Iterator[Measured]:
    return (leaf for variable in variables for leaf in measured(variable))


Origin = Literal["paper", "sheet", "ours"]
"""Origin of a claim: the publication's words, aqmlab's reading of them, or an addition of aqmlab."""


@dataclass(frozen=True)
class Claim:
    """A published conclusion with the rule by which it is judged."""

    id: str
    statement: str
    """Sentence that is judged: the source's own words, or one sentence as close to them as possible."""
    rule: AnyRule
    source: str = ""
    """Place of the statement in the source: `slide 24`."""
    figures: tuple[str, ...] = ()
    """Figures and tables about the claim; the verdict links to the first of them. By default those that the
    source names, or those that show the measures of the rule (`Study.figures_of`)."""
    origin: Origin = "paper"


def our_reading(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim that is aqmlab's reading of the publication instead of its own words."""
    return Claim(id, statement, rule, source, figures, "sheet")


def our_claim(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim of aqmlab that the publication does not make."""
    return Claim(id, statement, rule, source, figures, "ours")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One of several systems for each of which a claim is judged, if they differ in what the claim uses. A
    reading selects values of axes that the rules leave open, or other runs."""

    name: str
    labels: Mapping[str, Value] = field(default_factory=dict)
    suffix: str = ""
    """Suffix of the id of a claim that is judged for this reading."""
    runs: Callable[[ExperimentResults], ExperimentResults] | None = None
    """Function that returns the runs of this reading, for example recorded runs; `None`: the study's runs."""
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    """Claims that are not judged for this reading, by id, with the reason."""


@dataclass(frozen=True)
class Variant:
    """An alternative answer to a question that the source leaves open; claims are judged again under it."""

    name: str
    """Key of the variant in results."""
    what: str
    """Description, in a sentence."""
    change: Change
    title: str = ""
    """Name in texts, by default `name`."""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)


@dataclass(frozen=True)
class Decision:
    """The answer chosen where the source is silent, with the alternatives that are tried."""

    question: str
    decision: str
    reason: str
    variants: tuple[Variant, ...] = ()


Queues = Mapping[str, Mapping[str, Any]]
"""Tables of queues, by the names that figures show."""

Part = Experiment | Claim | Figure | Table | Decision | Variant
"""Parts of a study."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The value that a claim's number takes between equal systems, that is, by chance alone."""

    claim: str
    band: Band
    """Claimed range of the number."""
    where: Labels
    measured: Interval
    equal: Interval
    """The same estimate between systems that differ only in their random numbers."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question with experiments, claims, figures and tables, often those of a publication.

    `Study.of` takes the parts in any order. Raises `ValueError` if a claim refers to a figure or table that
    does not exist, a reading leaves out a claim that does not exist, or two parts of one kind share an id.
    """

    name: str
    title: str
    paper: str = ""
    """Publication; empty for an original study."""
    question: str = ""
    experiments: tuple[Experiment, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    decisions: tuple[Decision, ...] = ()
    answer: Callable[[Verdicts], list[str]] = lambda _: []
    """Function that returns the short answer, in sentences, from the evidence."""
    readings: tuple[Reading, ...] = ()
    """Readings; the first one is the main reading."""
    checks: Callable[[ExperimentResults], list[str]] = lambda _: []
    """Function that returns warnings to print, for example about a short warm-up."""
    variants: tuple[Variant, ...] = ()
    """Variants that belong to no single decision, in addition to those of the decisions."""
    floors: Callable[[ExperimentResults, float], Iterable[Floor]] = lambda *_: ()
    """Function that returns, for claims about distances, the values between equal systems, with intervals of
    a level."""
    with_queues: Callable[[Queues], Study] | None = None
    """Function that adds other queues to those of the publication (`aqmlab study run NAME --queues LIST`);
    the claims of the returned study are judged for each of these queues."""
    attachments: Callable[[Path], Iterable[Path]] = lambda _: ()
    """Function that writes further files into the folder of a whole run, for example qlog files, and returns
    their paths."""

    @classmethod
    def of(cls, name: str, title: str, *parts: Part, **fields: Any) -> Study:
        """Creates a study from experiments, claims, figures, tables, decisions and variants in any order, so
        that the parts about one experiment can be written together. `fields` are those of the class. Raises
        `ValueError` as the class does, and `TypeError` for a part of any other type."""
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
                raise TypeError(f"{name}: {part!r} is not a part of a study; allowed parts: {known}")
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
                raise ValueError(f"{self.name}: two {what} are named {', '.join(sorted(twice))}")
        claims = {one.id for one in self.claims}
        for reading in self.readings:
            for id in reading.leaves_out.keys() - claims:
                raise ValueError(f"{self.name}, {reading.name}: leaves out `{id}`, which is not a claim")
        drawn = self._drawn
        known = {one.name for one in self.experiments}
        for claim in self.claims:
            for figure in claim.figures:
                if figure not in drawn:
                    raise ValueError(f"{self.name}, {claim.id}: the study has no figure or table `{figure}`")
            for variable in claim.rule.variables:
                for one in variable.experiments:
                    if one.name not in known:
                        raise ValueError(f"{self.name}, {claim.id}: the study has no experiment `{one.name}`")

    @property
    def _drawn(self) -> list[str]:
        return [*(one.id for one in self.figures), *(one.id for one in self.tables)]

    def figures_of(self, claim: Claim) -> tuple[str, ...]:
        """The figures and tables that a claim names. Without any, those whose ids its source names (`figures
        8a and 8b`), or else the queries that share most measures with its rule and show the fewest others."""
        if chosen := claim.figures or self._named(claim.source):
            return chosen
        about = {(one.experiment.name, one.measure.key) for one in _measured(claim.rule.variables)}
        shares = {id: len(about & shown) / len(about | shown) for id, shown in self._shown.items()}
        most = max(shares.values(), default=0.0)
        return tuple(id for id, share in shares.items() if share == most > 0)

    def _named(self, source: str) -> tuple[str, ...]:
        """The figures and tables whose ids follow the word `figure` or `figures` in a source."""
        ids = re.findall(r"\w+", " ".join(re.findall(r"\bfigures? (\w+(?:(?:, | and )\w+)*)", source)))
        return tuple(dict.fromkeys(id for id in ids if id in self._drawn))

    @cached_property
    def _shown(self) -> dict[str, set[tuple[str, str]]]:
        """The measures, each with its experiment, that figures and tables made of queries show."""
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
        """The variants of the study and of all its decisions."""
        return (*self.variants, *(variant for one in self.decisions for variant in one.variants))

    def rule_of(self, claim: Claim) -> AnyRule:
        """The rule of a claim in the form that is printed: without the axes whose values readings select."""
        return claim.rule.without(*(label for reading in self.readings for label in reading.labels))

    def readings_of(self, claim: Claim) -> tuple[Reading, ...]:
        """The readings for which a claim is judged; a single reading without name if they make no
        difference to the claim."""
        used = (self.reading_of(claim, reading) for reading in self.readings)
        distinct = {reading.name: reading for reading in used if reading is not None}
        return tuple(distinct.values()) or (Reading(name=""),)

    def reading_of(self, claim: Claim, reading: Reading) -> Reading | None:
        """The reading whose verdict on a claim applies to `reading`: the first one that does not differ in
        anything that the claim uses, or a reading without name if the claim uses nothing that readings
        select. `None` if `reading` leaves the claim out."""
        if claim.id in reading.leaves_out:
            return None
        open_axes = {label for variable in claim.rule.variables for label in variable.axes}

        def used_by_claim(one: Reading) -> tuple[Any, dict[str, Value]]:
            return one.runs, {label: value for label, value in one.labels.items() if label in open_axes}

        wanted = used_by_claim(reading)
        if wanted == (None, {}):
            return Reading(name="")
        return next(
            one for one in self.readings if claim.id not in one.leaves_out and used_by_claim(one) == wanted
        )

    def _repr_html_(self) -> str:
        claims = notebook.table(("claim", "statement"), [(one.id, one.statement) for one in self.claims])
        about = (f"<p>{html.escape(text)}</p>" for text in (self.paper, self.question))
        return notebook.section(self.title, *about, claims)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure with its chart and files, or the reason why it could not be plotted."""

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
