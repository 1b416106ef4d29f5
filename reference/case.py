"""A case of the comparison: the runs it needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from judge import Row, Verdict, left_out

Measured = Any
"""What a case keeps of a run."""

Changes = Mapping[str, Any]
"""Values by dotted path, as `Scenario.with_` takes them."""


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
    """Why quantities of a case may miss. It counts only if the experiment `again` removes the misses
    and brings no others."""

    why: str
    switch: str
    """What the experiment changes, in few words."""
    again: Case
    """The same case with a switch set on our side, or beside runs of theirs with one set on their side."""
    same_runs: bool = False
    """Whether ours stay as they are, so that none need be made again."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Some runs of ours beside some of the reference."""

    name: str
    jobs: Callable[[], Sequence[Job]]
    judge: Callable[[Sequence[Measured]], Sequence[Row]]
    causes: tuple[Cause, ...] = ()


def left_out_case(name: str, verdict: Verdict, why: str) -> Case:
    """A recorded case that is not compared: no runs, one row that says so."""
    return Case(name=name, jobs=list, judge=lambda _: [left_out(name, verdict, why)])
