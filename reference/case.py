"""A case of the comparison: the runs that it needs, and the rows computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from judge import Row, Verdict, left_out

Measured = Any
"""The values that a case keeps of a run."""

Changes = Mapping[str, Any]
"""Values by dotted path, for `Scenario.with_`."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, reduced immediately to the values that its case needs."""

    scenario: Scenario
    seed: int
    measure: Callable[[Run], Measured]

    def __call__(self) -> Measured:
        return self.measure(self.scenario.run(seed=self.seed))


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A possible cause of misses of a case. It counts only if the experiment `again` removes the misses
    and causes no others."""

    why: str
    switch: str
    """Short description of the experiment's change."""
    again: Case
    """The case with a switch set in aqmlab, or compared with reference runs with a switch set."""
    same_runs: bool = False
    """Whether aqmlab's runs stay the same, so that none needs to be repeated."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Runs of aqmlab that are compared with runs of the reference."""

    name: str
    jobs: Callable[[], Sequence[Job]]
    judge: Callable[[Sequence[Measured]], Sequence[Row]]
    causes: tuple[Cause, ...] = ()


def left_out_case(name: str, verdict: Verdict, why: str) -> Case:
    """A recorded case that is not compared: no runs, and one row with the reason."""
    return Case(name=name, jobs=list, judge=lambda _: [left_out(name, verdict, why)])
