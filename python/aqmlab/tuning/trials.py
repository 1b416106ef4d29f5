"""Settings of a scenario, each run with the same seeds: what sensitivity analysis and tuning stand on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqmlab.campaign import Account, Executor, Task, execute, settled
from aqmlab.measures import Measure
from aqmlab.results.labels import said
from aqmlab.scenario import Scenario
from aqmlab.tuning.factors import Factor, check

if TYPE_CHECKING:
    from aqmlab.store import Store

Values = Mapping[str, Any]
"""What is set, by dotted path."""

Outputs = Mapping[str, Sequence[float]]
"""By measure the value of each seed, NaN where there is none."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """What is measured of scenarios that are compared, and the seeds with which each is run."""

    name: str
    measures: tuple[Measure, ...]
    seeds: Sequence[int]

    def tasks(self, scenarios: Sequence[Scenario]) -> list[Task]:
        """The runs, seed by seed, so that a part of them says something of each scenario."""
        return [
            Task(scenario=one, seed=seed, measures=self.measures, name=f"{self.name} {number}")
            for seed in self.seeds
            for number, one in enumerate(scenarios)
        ]

    def held(self, scenarios: Sequence[Scenario], store: Store) -> int:
        """How many of the runs the store holds."""
        kept = store.runs_of([one.digest for one in scenarios])
        return sum(settled(kept.get(task.run), task.keys) for task in self.tasks(scenarios))

    def run(
        self,
        scenarios: Sequence[Scenario],
        store: Store,
        *,
        executor: Executor,
        label: str | None = None,
        account: Account | None = None,
    ) -> list[Outputs]:
        """Makes the runs that the store lacks, failed ones again, and tells what all of them gave."""
        tasks = self.tasks(scenarios)
        execute(tasks, store, executor=executor, label=label, total=len(tasks), account=account, retry=True)
        kept = store.runs_of([one.digest for one in scenarios])

        def value(scenario: Scenario, seed: int, measure: Measure) -> float:
            record = kept.get((scenario.digest, seed))
            found = record.values.get(measure.key) if record else None
            return math.nan if found is None else float(found)

        return [
            {one.name: [value(scenario, seed, one) for seed in self.seeds] for one in self.measures}
            for scenario in scenarios
        ]


def mean(values: Sequence[float]) -> float:
    """The mean over seeds; NaN if any of them has no value, as others would then be compared unfairly."""
    return math.fsum(values) / len(values)


def changed(scenario: Scenario, values: Values) -> Scenario:
    """The scenario with these values, and seed 1: seeds are those of its runs. Raises `ScenarioError`."""
    return scenario.with_({"seed": 1, **values})


def checked(scenario: Scenario, factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """The factors, each of which the scenario has.

    Raises `ValueError`, which names the path and what is wrong with it, also if the scenario is refused with
    all factors at their low ends, in the middle, or at their high ends.
    """
    found = check(factors)
    for factor in found:
        if factor.path == "seed":
            raise ValueError("seed: is chance, and no factor: say --seed and --replications")
        if factor.path.partition(".")[0] == "queues":
            raise ValueError(
                f"{factor.path}: no line has it: [queues] holds alternatives; vary that of a link, such as "
                "bottleneck.queue.max_p"
            )
    for share in (0.0, 0.5, 1.0):
        values = {factor.path: factor.at(share) for factor in found}
        try:
            changed(scenario, values)
        except ValueError as error:
            raise ValueError(f"{said(values)}: {error}") from None
    return found


def seeds_from(first: int, count: int) -> tuple[int, ...]:
    """So many seeds."""
    if first < 0:
        raise ValueError(f"seed: must be 0 or more, is {first}")
    if count < 1:
        raise ValueError(f"replications: must be 1 or more, is {count}")
    return tuple(range(first, first + count))


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """The last word of each path, or all of it where that is not enough."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: one if last.count(one) == 1 else path for path, one in zip(paths, last, strict=True)}
