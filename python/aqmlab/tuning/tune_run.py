"""Tunes a scenario: executes the runs for the tuner's questions, and judges the best values with fresh seeds.

The result of the best of many trials is partly due to chance: with the seeds by which the trial was selected,
the trial appears better than it is. The reported values are therefore measured with seeds that no trial has
used.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from aqmlab import measures as known_measures
from aqmlab import stats
from aqmlab._support import arguments
from aqmlab.campaign import Account, Executor, Failure, Local
from aqmlab.measures import Measure
from aqmlab.results.labels import format_labels
from aqmlab.scenario import Scenario
from aqmlab.scenario.queues import with_queue
from aqmlab.stats import Band, Interval
from aqmlab.tuning.factors import Factor
from aqmlab.tuning.trials import Trials, Values, changed, checked, seeds_from
from aqmlab.tuning.tune import Answer, Goal, Tuner, beyond

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart
    from aqmlab.results.table import Results
    from aqmlab.store import Store

TRIALS, REPLICATIONS, FRESH, AT_ONCE = 40, 5, 10, 4
"""Default numbers of trials, replications, fresh seeds and concurrent questions."""

AS_IT_WAS = "as it was"
"""The name of the scenario before tuning."""

TUNED = "tuned"
"""The name of the scenario with the best values."""

Outcome = Literal["better", "worse", "not distinguishable"]

_LIMITS = {"<": stats.below, ">": stats.above, "<=": stats.at_most, ">=": stats.at_least}


def limit(text: str) -> tuple[str, Band]:
    """Returns the measure and the band of a limit such as `bottleneck.drops<1`. The limit is in the measure's
    unit."""
    found = re.fullmatch(r"\s*(\S+?)\s*(<=|>=|<|>)\s*(\S+)\s*", text)
    try:
        if found is None:
            raise ValueError
        return found[1], _LIMITS[found[2]](float(found[3]))
    except ValueError:
        raise ValueError(
            f"`{text}` is not a valid limit: write MEASURE, then <, <=, > or >=, then a number, such as "
            "bottleneck.drops<1"
        ) from None


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The parameters of a tuning run. Raises `ValueError`, which names the field, if a parameter is invalid.

    Each of the `trials` runs `scenario` with different values of the `factors`. All trials use the same
    `replications` seeds, so that trials are compared in pairs. The answer contains the means of `objective`
    and of the measures in `limits`. `at_once` questions are pending at the same time: a larger number keeps
    more cores busy, but each question is based on fewer answers. The best values are judged with `fresh`
    additional seeds. These values are compared with the unchanged scenario and with the queues in `against`,
    by the `objective`, the measures in `limits` and the measures in `also`. `seed` is the first seed (by
    default, the scenario's seed), and also determines the questions. Tuning runs with equal parameters have
    equal questions.
    """

    scenario: Scenario
    factors: Sequence[Factor]
    objective: str
    goal: Goal = "minimise"
    limits: Mapping[str, Band] = field(default_factory=dict)
    trials: int = TRIALS
    replications: int = REPLICATIONS
    fresh: int = FRESH
    seed: int | None = None
    at_once: int = AT_ONCE
    also: Sequence[str] = ()
    against: Sequence[str] = ()
    at: Sequence[str] = ()
    """Links at which the queues in `against` are set; by default all managed links."""
    own_measures: Mapping[str, Measure] = field(default_factory=dict)
    """Measures that can be named in addition to the scenario's measures."""

    def __post_init__(self) -> None:
        arguments.instance("scenario", self.scenario, Scenario, "aqmlab.Scenario.load reads a file")
        arguments.names("against", self.against)
        arguments.names("at", self.at)
        for name, least in (("trials", 1), ("replications", 1), ("at_once", 1), ("fresh", 2)):
            arguments.count(name, getattr(self, name), least)
        checked(self.scenario, self.factors)
        _ = self.seeds, self.measures, self.judged, self.rivals, self.tuner()

    @property
    def first(self) -> int:
        """The first seed."""
        return int(self.scenario.effective["seed"]) if self.seed is None else self.seed

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of trials."""
        return seeds_from(self.first, self.replications)

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """The fresh seeds for the verdict, which follow the seeds of the trials."""
        return seeds_from(self.first + self.replications, self.fresh)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of trials, beginning with the objective."""
        return self._named(self.objective, *self.limits)

    @cached_property
    def judged(self) -> tuple[Measure, ...]:
        """The measures that are computed with fresh seeds."""
        return self._named(self.objective, *self.limits, *self.also)

    def _named(self, *names: str) -> tuple[Measure, ...]:
        return known_measures.named(self.scenario, names, self.own_measures)

    @cached_property
    def rivals(self) -> Mapping[str, Scenario]:
        """Returns the unchanged scenario, and the scenario with each queue in `against`, by name."""
        base = changed(self.scenario, {})
        return {AS_IT_WAS: base} | {name: with_queue(base, name, self.at) for name in self.against}

    def tuner(self) -> Tuner:
        """Returns a tuner that has no answers yet."""
        return Tuner(self.factors, goal=self.goal, limits=self.limits, seed=self.first)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of the tuned scenario with another scenario in one measure, with fresh seeds, paired by
    seed."""

    measure: Measure
    rival: str
    tuned: Interval
    other: Interval
    difference: Interval
    """The value of the tuned scenario minus the value of the other scenario."""


@dataclass(frozen=True, kw_only=True)
class TuningResult:
    """The trials in order, the best trial, and its comparisons with fresh seeds."""

    tuning: Tuning
    answers: Sequence[Answer]
    problems: Mapping[int, str]
    """For each trial without a value, by number, the reason: invalid parameter values, failed runs or a
    missing measure."""
    before: Mapping[str, float]
    """The mean of each measure of the unchanged scenario, with the seeds of the trials."""
    best: Answer | None
    comparisons: Sequence[Comparison] = ()
    failures: Sequence[Failure] = ()

    @property
    def feasible(self) -> int:
        """The number of trials that met all limits."""
        return sum(answer.feasible for answer in self.answers)

    @property
    def nearest(self) -> Answer | None:
        """If no trial met all limits, the trial with the smallest sum of excesses, each as a share of its
        limit. The tuner ranks trials by this sum. `None` if a trial met all limits, or if no trial has
        values."""
        limits = self.tuning.limits
        known = [one for one in self.answers if all(math.isfinite(one.measured[name]) for name in limits)]
        if self.best is not None or not limits:
            return None

        def missed(one: Answer) -> float:
            return sum(max(0.0, beyond(one.measured[name], band)) for name, band in limits.items())

        return min(known, key=missed, default=None)

    @property
    def settings(self) -> Values:
        """The best values by path, or empty if no trial met all limits."""
        return self.best.question.values if self.best else {}

    @property
    def verdict(self) -> Comparison | None:
        """The comparison of the objective with the unchanged scenario."""
        return next(iter(self.comparisons), None)

    def outcome(self, compared: Comparison) -> Outcome:
        """Returns the outcome of a comparison of the objective. The comparison is decided if the interval of
        the difference is entirely on one side of zero."""
        band = stats.below(0) if self.tuning.goal == "minimise" else stats.above(0)
        found = stats.verdict(compared.difference, band)
        if found == "fails" and 0 not in (compared.difference.low, compared.difference.high):
            return "worse"
        return "better" if found == "holds" else "not distinguishable"

    def limit_verdict(self, measure: str, rival: str | None = None) -> stats.Verdict:
        """Returns whether the tuned scenario, or a rival, meets a limit with fresh seeds."""
        wanted = rival or AS_IT_WAS
        compared = next(one for one in self.comparisons if (one.measure.name, one.rival) == (measure, wanted))
        return stats.verdict(compared.other if rival else compared.tuned, self.tuning.limits[measure])

    def trials(self) -> pl.DataFrame:
        """Returns a table with a row for each trial. The columns are `trial`, the values by path, the mean of
        each measure, `feasible` and `problem`."""
        import polars as pl

        rows = [
            {
                "trial": answer.question.number + 1,
                **answer.question.values,
                **{one.name: answer.measured[one.name] for one in self.tuning.measures},
                "feasible": answer.feasible,
                "problem": self.problems.get(answer.question.number),
            }
            for answer in self.answers
        ]
        return pl.DataFrame(rows, schema_overrides={"problem": pl.String}, infer_schema_length=None)

    def chart(self) -> Chart:
        """Returns a chart of the objective by trial, which shows trials that met all limits, trials that
        violated a limit, and the best value so far."""
        import polars as pl

        from aqmlab.charts.chart import Chart, Mark
        from aqmlab.charts.style import BLUE, VERMILION

        better = operator.lt if self.tuning.goal == "minimise" else operator.gt
        best, rows = math.nan, []
        for answer in self.answers:
            number = answer.question.number + 1
            if math.isfinite(answer.value):
                group = "within limits" if answer.feasible else "beyond limits"
                rows.append({"trial": number, "value": answer.value, "group": group})
            if answer.feasible and not better(best, answer.value):
                best = answer.value
            if math.isfinite(best):
                rows.append({"trial": number, "value": best, "group": "best so far"})
        objective = self.tuning.measures[0]
        schema = {"trial": pl.Int64, "value": pl.Float64, "group": pl.String}
        before = self.before[objective.name]
        return Chart(
            kind="marks",
            table=pl.DataFrame(rows, schema=schema).with_columns(pl.col("value").alias("end")),
            x="trial",
            y="value",
            by="group",
            x_label="Trial",
            y_label=objective.label,
            levels={AS_IT_WAS: before} if math.isfinite(before) else {},
            marks={
                "within limits": Mark(colour=BLUE, shape="dot", width=5.5),
                "beyond limits": Mark(colour="#9A9A9A", shape="cross"),
                "best so far": Mark(colour=VERMILION, shape="steps", layer=2),
            },
        )


def run_tuning(
    tuning: Tuning,
    store: Store | None = None,
    *,
    executor: Executor | None = None,
    label: str | None = None,
) -> TuningResult:
    """Searches for the best values, and judges the best values with fresh seeds.

    Runs in the `store` are not repeated, so that the same call resumes an interrupted tuning. Without a
    store, no run is saved. A `label` enables a progress bar. After Ctrl-C, finished runs are saved and
    `KeyboardInterrupt` is raised.
    """
    from aqmlab.store import Store

    search = _Search(tuning, store or Store.in_memory(), executor or Local(), label)
    return search.result()


class _Search:
    """A tuning in progress."""

    def __init__(self, tuning: Tuning, store: Store, executor: Executor, label: str | None) -> None:
        self._tuning, self._store, self._executor, self._label = tuning, store, executor, label
        self._tuner = tuning.tuner()
        self._account = Account()
        self._problems: dict[int, str] = {}

    def result(self) -> TuningResult:
        tuning = self._tuning
        as_it_was = {AS_IT_WAS: tuning.rivals[AS_IT_WAS]}
        trials, results = self._run("as it was", tuning.measures, tuning.seeds, as_it_was)
        before = trials.means(results, AS_IT_WAS)
        while len(self._tuner.answers) < tuning.trials:
            self._ask(min(tuning.at_once, tuning.trials - len(self._tuner.answers)))
        best = self._tuner.best
        return TuningResult(
            tuning=tuning,
            answers=self._tuner.answers,
            problems=self._problems,
            before=before,
            best=best,
            comparisons=self._judge(best) if best else (),
            failures=tuple(self._account.failures),
        )

    def _ask(self, count: int) -> None:
        """Gets questions from the tuner, executes the runs of these questions together, and reports the
        answers in order."""
        tuning = self._tuning
        questions = [self._tuner.ask() for _ in range(count)]
        scenarios: dict[Any, Scenario] = {}
        for question in questions:
            try:
                scenarios[question.number] = changed(tuning.scenario, question.values)
            except ValueError as error:
                self._problems[question.number] = f"{format_labels(question.values)}: {error}"
        trials, results = self._run(self._progress(count), tuning.measures, tuning.seeds, scenarios)
        for question in questions:
            measured = {one.name: math.nan for one in tuning.measures}
            if question.number in scenarios:
                measured = trials.means(results, question.number)
                lacking = [name for name, value in measured.items() if not math.isfinite(value)]
                if lacking:
                    self._problems[question.number] = f"{lacking[0]} lacks a value for some seeds"
            self._tuner.tell(question, measured[tuning.objective], measured)

    def _progress(self, count: int) -> str:
        done, best = len(self._tuner.answers), self._tuner.best
        so_far = f", best {best.value:.4g} {self._tuning.measures[0].unit}".rstrip() if best else ""
        return f"trials {done + 1} to {done + count} of {self._tuning.trials}{so_far}"

    def _run(
        self,
        what: str,
        wanted: tuple[Measure, ...],
        seeds: Sequence[int],
        scenarios: Mapping[Any, Scenario],
    ) -> tuple[Trials, Results]:
        trials = Trials(name=what, measures=wanted, seeds=seeds)
        results = trials.run(
            scenarios,
            self._store,
            executor=self._executor,
            label=f"{self._label}: {what}" if self._label else None,
            account=self._account,
        )
        return trials, results

    def _judge(self, best: Answer) -> tuple[Comparison, ...]:
        tuning = self._tuning
        scenarios: dict[Any, Scenario] = {
            TUNED: changed(tuning.scenario, best.question.values),
            **tuning.rivals,
        }
        _, results = self._run("fresh seeds", tuning.judged, tuning.fresh_seeds, scenarios)

        def values(name: str, measure: Measure) -> list[float]:
            return results.numbers(measure.name, (name,), tuning.fresh_seeds)

        return tuple(
            Comparison(
                measure=one,
                rival=rival,
                tuned=stats.mean_interval(values(TUNED, one)),
                other=stats.mean_interval(values(rival, one)),
                difference=stats.paired_difference(values(TUNED, one), values(rival, one)),
            )
            for rival in tuning.rivals
            for one in tuning.judged
        )
