"""A case of the comparison: the runs it needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqmlab.run import Run
from aqmlab.scenario import Scenario
from judge import Row

Measured = Any
"""What a case keeps of a run."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, reduced at once to what its case needs."""

    scenario: Scenario
    seed: int
    measure: Callable[[Run], Measured]

    def __call__(self) -> Measured:
        return self.measure(self.scenario.run(seed=self.seed))


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why a quantity may miss: shown only if it agrees once `changes` are made to the scenario."""

    quantity: str
    why: str
    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Some runs of ours beside some of the reference.

    `jobs` makes the runs for given changes to the scenario (none, or those of a cause).
    """

    name: str
    jobs: Callable[[Mapping[str, Any]], Sequence[Job]]
    judge: Callable[[Sequence[Measured]], Sequence[Row]]
    causes: tuple[Cause, ...] = ()
