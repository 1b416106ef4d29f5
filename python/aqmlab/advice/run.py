"""Runs the candidates to a stated precision."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aqmlab.advice import candidates, choice, constraints, uses
from aqmlab.advice.choice import GOODPUT, Advice
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.uses import Score
from aqmlab.measures import Measure
from aqmlab.scenario import Scenario
from aqmlab.scenario.queues import links_for
from aqmlab.stats.precision import Precision
from aqmlab.sweep import Changes, Stopping, Sweep

if TYPE_CHECKING:
    from aqmlab.measures import View
    from aqmlab.results.table import Results

PRECISION = 0.05
"""Default half-width of the interval of the difference from today's queue, relative to today's score."""

TOLERANCE = 0.05
"""Default relative difference that does not matter (aqmlab's choice)."""

LEAST, MOST = 5, 30
"""Number of runs of each candidate at the first look, and the default maximum (aqmlab's choice)."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A scenario with the uses of its line, the candidates and the constraints.

    `uses` contains names of `USES`; the score of the first one is optimised. Unless a constraint limits a
    use of several, its scores must not be worse than today's by more than `tolerance`. Raises `ValueError`,
    which names the option, for invalid fields.
    """

    scenario: Scenario
    uses: Sequence[str]
    queues: Sequence[str] = ()
    subject_to: Sequence[str] = ()
    at: Sequence[str] = ()
    precision: float = PRECISION
    tolerance: float = TOLERANCE
    most: int = MOST
    first_seed: int | None = None

    def __post_init__(self) -> None:
        if self.scenario.level != "packet":
            raise ValueError(
                f"{self.scenario.name}: advise needs a scenario of the level packet (got "
                f"{self.scenario.level})"
            )
        for name, value in (("--precision", self.precision), ("--tolerance", self.tolerance)):
            if not 0 < value < 1:
                raise ValueError(f"{name}: must be between 0 and 1, such as 0.05 (got {value:g})")
        if self.most < LEAST:
            raise ValueError(f"--most: must be at least {LEAST} (got {self.most})")
        _ = self.constraints, self.sweep

    @cached_property
    def recorded(self) -> Scenario:
        """The scenario with the histories that the scores need."""
        return uses.recorded(self.scenario)

    @cached_property
    def scores_of_uses(self) -> tuple[Score, ...]:
        """The scores of the uses, in the order of the uses."""
        return tuple(uses.scores(self.recorded, list(self.uses)))

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """The scores of the uses, and then the scores that only constraints limit."""
        found = list(self.scores_of_uses)
        for text in self.subject_to:
            name, sign = constraints.name_and_sign(text)
            if not any(name in one.names for one in found):
                try:
                    found += uses.score_of(self.recorded, name, more_is_better=sign == ">=")
                except ValueError as error:
                    raise ValueError(f"--subject-to {text}: {error}") from None
        return tuple(found)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the person, and those that protect each of several uses."""
        found = [one for text in self.subject_to for one in constraints.parsed(text, self.scores)]
        limited = {one.score.measure for one in found}
        several = self.scores_of_uses if len(self.scores_of_uses) > 1 else ()
        rest = [one for one in several if one.measure not in limited]
        return (*found, *(constraints.no_worse(one, self.tolerance) for one in rest))

    @cached_property
    def links(self) -> list[str]:
        """The links whose queues are replaced."""
        return links_for(self.scenario, self.at)

    @cached_property
    def names(self) -> list[str]:
        """The candidates, beginning with today's queue."""
        return [candidates.TODAY, *candidates.names_of(self.scenario, self.queues)]

    @cached_property
    def sweep(self) -> Sweep:
        """The runs of the candidates."""
        values = {name: candidates.changes(self.recorded, name, self.links) for name in self.names}
        measures = [one.measure for one in self.scores]
        return Sweep(
            self.recorded,
            axes={"queue": Changes(values)},
            measures=[*measures, goodput(list(self.recorded.workloads))],
            name="advise-" + re.sub(r"[^A-Za-z0-9._-]", "-", self.scenario.name),
            first_seed=self.first_seed,
            precision=Stopping(
                rule=Precision(relative=self.precision, least=LEAST, most=self.most),
                measures=measures,
                baseline={"queue": candidates.TODAY},
            ),
        )

    def judge(self, results: Results) -> Advice:
        """Chooses a candidate from the results of the sweep."""
        return choice.judge(results, self.scores, self.constraints, self.tolerance, len(self.scores_of_uses))


def goodput(workloads: Sequence[str]) -> Measure:
    """Returns the measure of the goodput of all workloads, in both directions."""
    return Measure(
        name=GOODPUT, title="goodput of all workloads", unit="Mbps", compute=partial(_goodput, workloads)
    )


def _goodput(workloads: Sequence[str], view: View) -> float:
    from aqmlab import metrics

    return sum(metrics.goodput_bps(view.flows(name)) for name in workloads) * 1e-6


def advise(question: Question, **options: Any) -> tuple[Advice | None, Results]:
    """Executes the missing runs of a question, and returns the advice with the table of runs. `options` are
    those of `run_sweep`. The precision determines the number of runs of each candidate, and then every
    candidate gets as many runs as the candidate with the most runs, so that all means are comparable. If
    Ctrl-C ends the runs, `interrupted` of the table is true, and the advice is `None`."""
    from aqmlab.store import Store
    from aqmlab.sweep.run_sweep import run_sweep

    store = options.pop("store", None) or Store.in_memory()
    found = run_sweep(question.sweep, store, **options)
    if not found.interrupted:
        count = max(len(found.seeds_at((name,))) for name in question.names)
        equal = replace(question.sweep, replications=max(count, LEAST), precision=None)
        found = replace(
            run_sweep(equal, store, **options),
            looks=found.looks,
            precise=found.precise,
            too_wide=found.too_wide,
        )
    return None if found.interrupted else question.judge(found), found


def settings(question: Question) -> Mapping[str, Any]:
    """Returns the settings of a question for JSON."""
    return {
        "scenario": question.scenario.name,
        "for": list(question.uses),
        "at": question.links,
        "precision": question.precision,
        "most": question.most,
    }


def note(question: Question) -> str | None:
    """Returns a sentence about the links whose queues were replaced, and about the direction that has no
    queue."""
    from aqmlab.scenario.queues import replacement

    if found := replacement(question.scenario, question.at):
        return found
    return (
        f"The scenario has a queue at {question.links[0]} only, so the advice is about this direction. To "
        "include the "
        "other direction, add a table with its rate and its queue (bottleneck.reverse)."
    )
