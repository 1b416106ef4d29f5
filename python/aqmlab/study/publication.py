"""The parts of a study (experiments, figures, tables and claims of a publication), and the results of a
study."""

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
    """Either a function that draws the chart (`line`), or a variable, estimate or query to plot."""
    caption: str = ""
    shows: tuple[Experiment, ...] = ()
    """Experiments whose runs the function plots; by default all experiments of the study."""

    @cached_property
    def draws(self) -> Callable[[ExperimentResults], Chart]:
        """Returns the function that draws the chart."""
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
    """Either a function that computes the table (`crossed`, `listed`, `overview`), or variables, estimates or
    queries with the same axes, each of which becomes a column."""
    caption: str = "Means over the seeds ± half of their 95 % interval."
    shows: tuple[Experiment, ...] = ()
    """Experiments whose runs the function tabulates; by default all experiments of the study."""

    @cached_property
    def tabulates(self) -> Callable[[ExperimentResults], pl.DataFrame]:
        """Returns the function that computes the table."""
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
"""Origin of a claim: a statement of the publication, aqmlab's interpretation of the publication, or an
addition of aqmlab."""


@dataclass(frozen=True)
class Claim:
    """A published conclusion, with the rule that judges the conclusion."""

    id: str
    statement: str
    """Sentence that is judged, which is either quoted from the source or as close to the source's words as
    possible."""
    rule: AnyRule
    source: str = ""
    """Location of the statement in the source, for example `slide 24`."""
    figures: tuple[str, ...] = ()
    """Figures and tables about the claim. The verdict links to the first of these. By default, these are the
    figures and tables that the source names, or that show the measures of the rule (`Study.figures_of`)."""
    origin: Origin = "paper"


def our_reading(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim that is aqmlab's interpretation of the publication, and is not stated in the publication."""
    return Claim(id, statement, rule, source, figures, "sheet")


def our_claim(
    id: str, statement: str, rule: AnyRule, source: str = "", figures: tuple[str, ...] = ()
) -> Claim:
    """A claim that aqmlab adds and that the publication does not contain."""
    return Claim(id, statement, rule, source, figures, "ours")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One of several systems for which a study's claims are judged. A reading selects values of the rules'
    free axes, or selects other runs. A claim is judged separately for each reading if the readings differ in
    something that the claim uses."""

    name: str
    labels: Mapping[str, Value] = field(default_factory=dict)
    suffix: str = ""
    """Suffix of the ID of a claim that is judged for this reading."""
    runs: Callable[[ExperimentResults], ExperimentResults] | None = None
    """Function that returns the runs of this reading, for example recorded runs. With `None`, the study's
    runs are used."""
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    """Claims that are not judged for this reading, by ID, with the reasons."""


@dataclass(frozen=True)
class Variant:
    """An alternative answer to a question that the source does not answer. Claims are judged again under this
    alternative."""

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
    """The answer that aqmlab selected for a question that the source does not answer, and alternative answers
    that are tested."""

    question: str
    decision: str
    reason: str
    variants: tuple[Variant, ...] = ()


Queues = Mapping[str, Mapping[str, Any]]
"""Tables of queues, by the names that figures show for the queues."""

Part = Experiment | Claim | Figure | Table | Decision | Variant
"""Types of the parts of a study."""


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The value that a claim's number has for a comparison of equal systems. This value is caused by chance
    alone."""

    claim: str
    band: Band
    """Range that the claim states for the number."""
    where: Labels
    measured: Interval
    equal: Interval
    """The same estimate for systems that differ only in their random numbers."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question with experiments, claims, figures and tables, which are often taken from a publication.

    `Study.of` accepts the parts in any order. Raises `ValueError` if a claim refers to a figure or table that
    does not exist, if a reading excludes a claim that does not exist, or if two parts of the same kind have
    the same ID.
    """

    name: str
    title: str
    paper: str = ""
    """Publication that the study reproduces, or empty for an original study."""
    question: str = ""
    experiments: tuple[Experiment, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    decisions: tuple[Decision, ...] = ()
    answer: Callable[[Verdicts], list[str]] = lambda _: []
    """Function that returns the short answer to the question as sentences. The argument is the evidence."""
    readings: tuple[Reading, ...] = ()
    """Readings. The first reading is the main reading."""
    checks: Callable[[ExperimentResults], list[str]] = lambda _: []
    """Function that returns warnings to print, for example that the warm-up is too short."""
    variants: tuple[Variant, ...] = ()
    """Variants that do not belong to a single decision, in addition to the variants of the decisions."""
    floors: Callable[[ExperimentResults, float], Iterable[Floor]] = lambda *_: ()
    """Function that returns, for claims about distances, the values for comparisons of equal systems, with
    intervals at a given confidence level."""
    with_queues: Callable[[Queues], Study] | None = None
    """Function that adds other queues to the queues of the publication (`aqmlab study run NAME --queues
    LIST`). The claims of the returned study are judged for each of the added queues."""
    with_senders: Callable[[str], Study] | None = None
    """Function that returns the form of the study with other senders (`aqmlab study run NAME --tcp LIST`),
    for a study whose axes set the senders."""
    attachments: Callable[[Path], Iterable[Path]] = lambda _: ()
    """Function that writes further files into the folder of a whole run, for example qlog files, and returns
    their paths."""

    @classmethod
    def of(cls, name: str, title: str, *parts: Part, **fields: Any) -> Study:
        """Creates a study from experiments, claims, figures, tables, decisions and variants. The parts can
        have any order, so that the parts about one experiment can be written together. `fields` are the other
        fields of the class. Raises the same `ValueError` as the class, and `TypeError` for a part of any
        other type."""
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
                raise ValueError(f"{self.name}, {reading.name}: excludes `{id}`, which is not a claim")
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
        """Returns the figures and tables that a claim names. If the claim names none, returns those whose IDs
        the claim's source contains (`figures 8a and 8b`). Otherwise, returns the queries that share the most
        measures with the claim's rule and show the fewest other measures."""
        if chosen := claim.figures or self._named(claim.source):
            return chosen
        about = {(one.experiment.name, one.measure.key) for one in _measured(claim.rule.variables)}
        shares = {id: len(about & shown) / len(about | shown) for id, shown in self._shown.items()}
        most = max(shares.values(), default=0.0)
        return tuple(id for id, share in shares.items() if share == most > 0)

    def _named(self, source: str) -> tuple[str, ...]:
        """Returns the figures and tables whose IDs follow the word `figure` or `figures` in a source."""
        ids = re.findall(r"\w+", " ".join(re.findall(r"\bfigures? (\w+(?:(?:, | and )\w+)*)", source)))
        return tuple(dict.fromkeys(id for id in ids if id in self._drawn))

    @cached_property
    def _shown(self) -> dict[str, set[tuple[str, str]]]:
        """Returns the measures that figures and tables with queries show. Each measure is given with its
        experiment."""
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
        """Returns the variants of the study and of all decisions of the study."""
        return (*self.variants, *(variant for one in self.decisions for variant in one.variants))

    def rule_of(self, claim: Claim) -> AnyRule:
        """Returns the rule of a claim in printed form, without the axes whose values are selected by
        readings."""
        return claim.rule.without(*(label for reading in self.readings for label in reading.labels))

    def readings_of(self, claim: Claim) -> tuple[Reading, ...]:
        """Returns the readings for which a claim is judged. If readings do not affect the claim, the result
        is a single reading without a name."""
        used = (self.reading_of(claim, reading) for reading in self.readings)
        distinct = {reading.name: reading for reading in used if reading is not None}
        return tuple(distinct.values()) or (Reading(name=""),)

    def reading_of(self, claim: Claim, reading: Reading) -> Reading | None:
        """Returns the reading whose verdict on a claim applies to `reading`. This is the first reading that
        does not differ from `reading` in anything that the claim uses, or a reading without a name if the
        claim uses nothing that readings select. Returns `None` if `reading` excludes the claim."""
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
    """A figure with its chart and files, or the reason why the figure could not be plotted."""

    figure: Figure
    chart: Chart | None
    paths: Mapping[str, Path] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with the evidence for a reading."""

    claim: Claim
    reading: Reading
    evidence: Evidence

    @property
    def id(self) -> str:
        """The ID of the claim, followed by the suffix of the reading."""
        return self.claim.id + self.reading.suffix


class Verdicts(tuple[Judged, ...]):
    """All claims of a study with their evidence, by ID."""

    __slots__ = ()

    def of(self, id: str) -> Evidence:
        """Returns the evidence for the claim with this ID, which includes the reading's suffix. Raises
        `KeyError` for an unknown ID."""
        for judged in self:
            if judged.id == id:
                return judged.evidence
        raise KeyError(f"no claim `{id}`; available: {', '.join(judged.id for judged in self)}")


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """All results of a study."""

    study: Study
    quick: bool
    judged: Verdicts
    drawn: tuple[Drawn, ...]
    tables: tuple[tuple[Table, pl.DataFrame | str], ...]
    sensitivity: tuple[tuple[Variant, Verdicts], ...]
    """The verdicts for each variant."""
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Mapping[str, Any]
    report: Path
    results: ExperimentResults
    """The main runs, as a table for each experiment, by the experiment's name."""
    floors: tuple[Floor, ...] = ()
    level: float = LEVEL
    """The confidence level of each interval, except for intervals whose confidence level is corrected for the
    number of parts."""
    source: str = ""
    """The command that runs the study, without `aqmlab` and without options, for example `study run
    shred`."""

    @property
    def verdicts(self) -> dict[str, str]:
        """Returns the verdict on each claim."""
        return {judged.id: judged.evidence.verdict for judged in self.judged}

    def _repr_html_(self) -> str:
        rows = [
            (one.id, one.evidence.verdict, one.claim.statement, one.evidence.measured) for one in self.judged
        ]
        claims = notebook.table(("claim", "verdict", "statement", "measured"), rows)
        return notebook.section(f"{self.study.title}: {self.report}", claims)
