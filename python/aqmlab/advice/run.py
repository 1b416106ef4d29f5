"""Runs the candidates to a stated precision."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aqmlab import stats
from aqmlab._support.words import joined
from aqmlab.advice import candidates, choice, constraints, links, uses
from aqmlab.advice.candidates import TODAY
from aqmlab.advice.choice import GOODPUT, Advice
from aqmlab.advice.constraints import Constraint
from aqmlab.advice.links import LEVEL_OF_STEP, Queues, Recommendation
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
    same: bool = False
    """Whether all links get the same queue."""
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
        _ = self.constraints, self.sweep(self.same_at_all_links)

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
    def same_at_all_links(self) -> Mapping[str, Queues]:
        """The combinations with the same queue at all links, by name."""
        return {name: dict.fromkeys(self.links, name) for name in self.names}

    @property
    def is_separate(self) -> bool:
        """Whether the queue of each link is searched."""
        return len(self.links) > 1 and not self.same

    def sweep(self, combinations: Mapping[str, Queues], step: int = 0) -> Sweep:
        """Returns the runs of the combinations of queues in a step, which begins with 0. Each step has other
        seeds."""
        values = {name: candidates.changes(self.recorded, queues) for name, queues in combinations.items()}
        measures = [one.measure for one in self.scores]
        first = self.recorded.effective["seed"] if self.first_seed is None else self.first_seed
        return Sweep(
            self.recorded,
            axes={"queue": Changes(values)},
            measures=[*measures, goodput(list(self.recorded.workloads))],
            name="advise-" + re.sub(r"[^A-Za-z0-9._-]", "-", self.scenario.name),
            first_seed=first + step * self.most,
            precision=Stopping(
                rule=Precision(relative=self.precision, least=LEAST, most=self.most),
                measures=measures,
                baseline={"queue": TODAY},
            ),
        )

    @property
    def criteria(self) -> tuple[Sequence[Score], Sequence[Constraint], float, int]:
        """The scores, the constraints, the tolerance, and the number of scores of uses."""
        return self.scores, self.constraints, self.tolerance, len(self.scores_of_uses)

    def judge(self, results: Results) -> Advice:
        """Chooses a candidate from the results of the first step."""
        level = LEVEL_OF_STEP if self.is_separate else stats.LEVEL
        return choice.judge(results, *self.criteria, level)


def goodput(workloads: Sequence[str]) -> Measure:
    """Returns the measure of the goodput of all workloads, in both directions."""
    return Measure(
        name=GOODPUT, title="goodput of all workloads", unit="Mbps", compute=partial(_goodput, workloads)
    )


def _goodput(workloads: Sequence[str], view: View) -> float:
    from aqmlab import metrics

    return sum(metrics.goodput_bps(view.flows(name)) for name in workloads) * 1e-6


@dataclass(kw_only=True)
class Progress:
    """The results of the steps of an advice."""

    question: Question
    options: Mapping[str, Any]
    results: list[Results] = field(default_factory=list)
    """The runs of each step."""
    tried: dict[str, Queues] = field(default_factory=dict)
    """The tried combinations by name."""

    def run(self, combinations: Mapping[str, Queues]) -> Results:
        """Executes the missing runs of the next step. The precision determines the number of runs of each
        combination, and then every combination gets as many runs as the one with the most runs, so that all
        means are comparable. Raises `KeyboardInterrupt` after Ctrl-C."""
        from aqmlab.sweep.run_sweep import run_sweep

        sweep = self.question.sweep(combinations, len(self.results))
        options = dict(self.options)
        if self.results and options.get("label"):
            options["label"] = f"{options['label']}, step {len(self.results) + 1}"
        found = run_sweep(sweep, **options)
        if not found.interrupted:
            count = max(len(found.seeds_at((name,))) for name in combinations)
            equal = replace(sweep, replications=max(count, LEAST), precision=None)
            found = replace(
                run_sweep(equal, **options),
                looks=found.looks,
                precise=found.precise,
                too_wide=found.too_wide,
            )
        self.results.append(found)
        self.tried |= combinations
        if found.interrupted:
            raise KeyboardInterrupt
        return found


def advise(question: Question, **options: Any) -> tuple[Recommendation | None, list[Results]]:
    """Executes the missing runs of a question, and returns the recommendation with the table of runs of each
    step. `options` are those of `run_sweep`. If Ctrl-C ends the runs, the recommendation is `None`."""
    from aqmlab.store import Store

    options["store"] = options.get("store") or Store.in_memory()
    progress = Progress(question=question, options=options)
    try:
        return _advise(question, progress), progress.results
    except KeyboardInterrupt:
        return None, progress.results


def _advise(question: Question, progress: Progress) -> Recommendation:
    same = question.judge(progress.run(question.same_at_all_links))
    possible = len(question.names) ** len(question.links)
    if not question.is_separate:
        queues = question.same_at_all_links[same.best or TODAY]
        return Recommendation(
            same=same, queues=queues, final=same, tried=len(question.names), possible=len(question.names)
        )
    base = question.same_at_all_links[same.best or _best_mean(same)]
    second = progress.run(links.neighbours(base, question.names))
    found = links.choices(second, base, question.names, *question.criteria)
    if same.outcome == "change":
        found = links.without_return(found)
    best: Queues = {one.link: one.best for one in found}
    results, rejected = second, None
    if sum(best[link] != base[link] for link in base) > 1:
        combinations = {links.label(one): one for one in (links.today(question.links), base, best)}
        third = progress.run(combinations)
        if links.is_as_good(third, best, base, *question.criteria):
            results = third
        else:
            best, rejected = base, best
    return Recommendation(
        same=same,
        links=found,
        queues=best,
        final=_final(question, same, found, best, results),
        tried=len(progress.tried),
        possible=possible,
        rejected=rejected,
    )


def _best_mean(advice: Advice) -> str:
    """Returns the candidate with the best mean of the most important score, regardless of constraints."""
    score = advice.scores[0]
    sign = 1 if score.more_is_better else -1

    def rank(one: choice.Assessment) -> float:
        mean = sign * one.means[score.measure].value
        return -math.inf if math.isnan(mean) else mean

    return max(advice.assessments, key=rank).name


def _final(
    question: Question, same: Advice, found: Sequence[links.LinkChoice], best: Queues, results: Results
) -> Advice:
    """Returns the comparison of the recommended queues with today's queues."""
    if set(best.values()) != {TODAY}:
        return links.judged(results, best, *question.criteria)
    if same.outcome == "undecided" or (same.outcome == "keep" and any(one.is_undecided for one in found)):
        return replace(same, outcome="undecided", best=TODAY, rivals={})
    return same


def settings(question: Question) -> Mapping[str, Any]:
    """Returns the settings of a question for JSON."""
    return {
        "scenario": question.scenario.name,
        "for": list(question.uses),
        "at": question.links,
        "precision": question.precision,
        "most": question.most,
        "same": question.same,
    }


def note(question: Question) -> str | None:
    """Returns a sentence about the links whose queues were replaced, and about the direction that has no
    queue."""
    from aqmlab.scenario.queues import replacement

    if question.is_separate:
        return (
            f"The search covered the links {joined(question.links)}; --at LINK selects links, and --same "
            "gives all links the same queue."
        )
    if found := replacement(question.scenario, question.at):
        return found
    return (
        f"The scenario has a queue at {question.links[0]} only, so the advice is about this direction. To "
        "include the "
        "other direction, add a table with its rate and its queue (bottleneck.reverse)."
    )
