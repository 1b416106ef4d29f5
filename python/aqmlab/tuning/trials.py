"""Trials, which are variants of a scenario for sensitivity analysis and tuning. All trials are run with the
same seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqmlab.campaign import Account, Executor, Task, execute, settled
from aqmlab.measures import Measure
from aqmlab.results.labels import Value, format_labels
from aqmlab.scenario import Scenario
from aqmlab.store.selection import SelectedRuns, Selection
from aqmlab.tuning.factors import Factor, check

if TYPE_CHECKING:
    from aqmlab.results.table import Results
    from aqmlab.store import Store

Values = Mapping[str, Any]
"""Changed values by dotted path."""

AXIS = "trial"
"""Name of the axis of trials in the table of the trials' runs."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The measures by which scenarios are compared, and the seeds of the runs."""

    name: str
    measures: tuple[Measure, ...]
    seeds: Sequence[int]
    """Consecutive seeds."""

    def tasks(self, scenarios: Iterable[Scenario]) -> list[Task]:
        """Returns the runs sorted by seed, so that the first part of the runs already covers every
        scenario."""
        numbered = list(enumerate(scenarios))
        return [
            Task(scenario=one, seed=seed, measures=self.measures, name=f"{self.name} {number}")
            for seed in self.seeds
            for number, one in numbered
        ]

    def stored(self, scenarios: Sequence[Scenario], store: Store) -> int:
        """Returns the number of runs that are in the store."""
        kept = store.runs_of([one.digest for one in scenarios])
        return sum(settled(kept.get(task.run), task.keys) for task in self.tasks(scenarios))

    def run(
        self,
        scenarios: Mapping[Any, Scenario],
        store: Store,
        *,
        executor: Executor,
        label: str | None = None,
        account: Account | None = None,
    ) -> Results:
        """Executes the runs that are missing from the store, and repeats failed runs. Returns the table of
        all runs. The values of the table's axis are the names of the scenarios."""
        tasks = self.tasks(scenarios.values())
        execute(tasks, store, executor=executor, label=label, total=len(tasks), account=account, retry=True)
        return store.results(
            Selection(
                name=self.name,
                axes={AXIS: list(scenarios)},
                measures={one.key: one for one in self.measures},
                runs=[
                    SelectedRuns(
                        point=(name,), scenario=one.digest, first_seed=self.seeds[0], count=len(self.seeds)
                    )
                    for name, one in scenarios.items()
                ],
            )
        )

    def means(self, results: Results, name: Value) -> dict[str, float]:
        """Returns the mean of each measure of a scenario over the seeds, or NaN if a seed has no value."""
        return {one.name: mean(results.numbers(one.name, (name,), self.seeds)) for one in self.measures}


def mean(values: Sequence[float]) -> float:
    """Returns the mean over seeds, or NaN if a seed has no value, because a comparison that is based on only
    some of the seeds would be unfair."""
    return math.fsum(values) / len(values)


def changed(scenario: Scenario, values: Values) -> Scenario:
    """Returns the scenario with these values and with seed 1, because each run sets its own seed. Raises
    `ScenarioError`."""
    return scenario.with_({"seed": 1, **values})


def checked(scenario: Scenario, factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Returns the factors after checking that the scenario has each of them.

    Raises `ValueError` with the path and the error. The scenario is also checked with all factors at their
    low ends, in the middle, and at their high ends.
    """
    found = check(factors)
    for factor in found:
        if factor.path == "seed":
            raise ValueError("seed: is not a factor; use --seed and --replications")
        if factor.path.partition(".")[0] == "queues":
            raise ValueError(
                f"{factor.path}: belongs to no link, because [queues] only lists alternatives: vary the "
                "parameter of a link's queue, such as bottleneck.queue.max_p"
            )
    for share in (0.0, 0.5, 1.0):
        values = {factor.path: factor.at(share) for factor in found}
        try:
            changed(scenario, values)
        except ValueError as error:
            raise ValueError(f"{format_labels(values)}: {error}") from None
    return found


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """Returns consecutive seeds, beginning with `first`."""
    if first < 0:
        raise ValueError(f"seed: must be 0 or more (got {first})")
    if count < 1:
        raise ValueError(f"replications: must be 1 or more (got {count})")
    return tuple(range(first, first + count))


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Returns the last word of each path, or the whole path if the last word is ambiguous."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: one if last.count(one) == 1 else path for path, one in zip(paths, last, strict=True)}
