"""Runs sweeps: which runs of each point are missing, when a point has enough, and what was found."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support.parallel import held_back
from aqmlab.campaign import Account, Executor, Local, Task, execute
from aqmlab.scenario import Scenario
from aqmlab.sweep import warm_up as sweep_warm_up
from aqmlab.sweep.point import Point
from aqmlab.sweep.stopping import TOGETHER, Enough, counted
from aqmlab.sweep.sweep import Sweep
from aqmlab.sweep.warm_up import NoWarmUpError

if TYPE_CHECKING:
    from aqmlab.store import Store


class PointScenario:
    """The scenario of a point, made when its first run is, and forgotten when many others were."""

    def __init__(self, scenarios: Scenarios, point: Point, digest: str) -> None:
        self._scenarios, self._point, self.digest = scenarios, point, digest

    @property
    def made(self) -> Scenario:
        """The scenario."""
        return self._scenarios.of(self._point)

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario in full."""
        return self.made.effective

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Any:
        """Runs it."""
        return self.made.run(seed, watch=watch)

    def __reduce__(self) -> tuple[Any, ...]:
        # Other processes get the scenario itself.
        return _itself, (self.made,)


def _itself(scenario: Scenario) -> Scenario:
    return scenario


class Scenarios:
    """The scenarios of a sweep's points, the last ones used at hand."""

    def __init__(self, sweep: Sweep, warm_ups: Mapping[int, str] | None = None) -> None:
        self._sweep = sweep
        self._warm_ups = warm_ups or {}
        self._at_hand: OrderedDict[int, Scenario] = OrderedDict()
        self.left_out: dict[str, set[int]] = {}
        """The points, of those made so far, in which the value at a path has no effect and is left out."""

    def of(self, point: Point) -> Scenario:
        """That of a point."""
        found = self._at_hand.get(point.number)
        if found is None:
            found, left_out = self._sweep.scenario_and_left_out(point)
            for path in left_out:
                self.left_out.setdefault(path, set()).add(point.number)
            if point.number in self._warm_ups:
                found = found.with_({"warm_up": self._warm_ups[point.number]})
            self._at_hand[point.number] = found
            while len(self._at_hand) > 2 * TOGETHER:
                self._at_hand.popitem(last=False)
        return found


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The points of a sweep, each with the digest of its scenario."""

    sweep: Sweep
    points: Sequence[Point]
    digests: Sequence[str]
    scenarios: Scenarios

    def enough(self, store: Store) -> list[Enough]:
        """For each point how many replications it has and is to have."""
        sweep = self.sweep
        return counted(self.points, self.digests, store, sweep.wanted, sweep.replications, sweep.precision)

    def task(self, place: int, replication: int) -> Task:
        """A run of a point."""
        point = self.points[place]
        return Task(
            scenario=PointScenario(self.scenarios, point, self.digests[place]),
            seed=point.first_seed + replication,
            measures=self.sweep.wanted,
            name=f"{self.sweep.name}: {point.said}",
        )

    def tasks(self, counts: Sequence[int], before: Sequence[int]) -> Iterator[Task]:
        """The runs of points that are to have so many, beyond those that they had before."""
        for first in range(0, len(self.points), TOGETHER):
            block = range(first, min(first + TOGETHER, len(self.points)))
            for replication in range(max(counts[place] for place in block)):
                for place in block:
                    if before[place] <= replication < counts[place]:
                        yield self.task(place, replication)


def plan(
    sweep: Sweep,
    store: Store,
    *,
    executor: Executor | None = None,
    label: str | None = None,
    run_nothing: bool = False,
) -> Planned:
    """The points with their digests, which the store tells if it knows the sweep, and is told if not.

    Where MSER-5 tells the warm-up, the runs that it needs are made, with a bar if there is a `label`. With a
    `label` a line on standard error also names each value that is left out of some points, where it has no
    effect. Raises `NoWarmUpError` instead if the store is read-only, or with `run_nothing`, and `ValueError`,
    which names the point, if the core refuses one, or the path of a value that has no effect at any point.
    """
    points = list(sweep.points())
    warm_ups = {}
    if sweep.warm_up:
        pilots = sweep_warm_up.pilots(sweep, points)
        if (run_nothing or store.read_only) and not sweep_warm_up.made(pilots, store):
            raise NoWarmUpError(
                f"{sweep.name}: warm_up: the runs that tell it are not made: `aqmlab sweep run` makes them"
            )
        warm_ups = sweep_warm_up.warm_ups(points, pilots, store, executor or Local(), label)
    scenarios = Scenarios(sweep, warm_ups)
    known = {row["number"]: row["scenario"] for row in store.records("point", sweep=sweep.id)}
    digests = [known.get(point.number, "") for point in points]
    missing = [place for place, digest in enumerate(digests) if not digest]
    with held_back() as look:
        for place in missing:
            look()
            digests[place] = scenarios.of(points[place]).digest
    for path, without in scenarios.left_out.items():
        if len(without) == len(points):
            raise ValueError(f"{sweep.name}: {path}: has no effect at any point: leave it out")
        if label:
            count = f"{len(without)} of {len(points)}"
            print(f"aqmlab: {path}: is left out at {count} points, where it has no effect", file=sys.stderr)
    if missing:
        _tell(sweep, points, digests, known, store)
    return Planned(sweep=sweep, points=points, digests=digests, scenarios=scenarios)


def _tell(
    sweep: Sweep, points: Sequence[Point], digests: Sequence[str], known: Mapping[int, str], store: Store
) -> None:
    if store.read_only:
        return
    if not store.records("sweep", sweep=sweep.id):
        record = {"kind": "sweep", "sweep": sweep.id, "name": sweep.name, "definition": sweep.definition}
        store.add(record)
    for point, digest in zip(points, digests, strict=True):
        if point.number not in known:
            store.add(
                {
                    "kind": "point",
                    "sweep": sweep.id,
                    "scenario": digest,
                    "number": point.number,
                    "labels": dict(point.labels),
                    "first_seed": point.first_seed,
                }
            )


def run(
    sweep: Sweep,
    store: Store,
    *,
    executor: Executor | None = None,
    label: str | None = None,
    retry: bool = False,
    fail_fast: bool = False,
    shard: tuple[int, int] = (1, 1),
    account: Account | None = None,
) -> Account:
    """Makes the runs of a sweep that the store lacks.

    With `shard = (i, n)` only those of every n-th point, beginning with the i-th: n such calls on as many
    machines make all. Raises as `campaign.execute` does; Ctrl-C passes through, and what is finished is kept.
    """
    account = account or Account()
    executor = executor or Local()
    planned = plan(sweep, store, executor=executor, label=label)
    mine = [place % shard[1] == shard[0] - 1 for place in range(len(planned.points))]
    least = sweep.replications if sweep.precision is None else sweep.precision.rule.least
    before, counts = [0] * len(mine), [(least if one else 0) for one in mine]
    while True:
        wanted = sum(counts) - sum(before)
        if all_there(planned, store, counts):
            account.found += wanted
        else:
            execute(
                planned.tasks(counts, before),
                store,
                executor=executor,
                label=label,
                total=wanted,
                account=account,
                retry=retry,
                fail_fast=fail_fast,
            )
        if sweep.precision is None:
            break
        following = [
            enough.wanted if one else 0 for enough, one in zip(planned.enough(store), mine, strict=True)
        ]
        if following == counts:
            break
        before, counts = counts, following
    if shard == (1, 1):
        _finish(planned, store, counts, account)
    return account


def all_there(planned: Planned, store: Store, counts: Sequence[int]) -> bool:
    """Whether the store holds so many runs of each point, with all that is asked of them: answered at once,
    however many there are."""
    import polars as pl

    asked = pl.DataFrame(
        {
            "scenario": list(planned.digests),
            "first": [point.first_seed for point in planned.points],
            "count": list(counts),
        },
        schema={"scenario": pl.String, "first": pl.Int64, "count": pl.Int64},
    )
    held = store.holding([one.key for one in planned.sweep.wanted])
    there = asked.join(held, on="scenario").filter(
        (pl.col("seed") >= pl.col("first")) & (pl.col("seed") < pl.col("first") + pl.col("count"))
    )
    return there.height == sum(counts)


def _finish(planned: Planned, store: Store, counts: Sequence[int], account: Account) -> None:
    done = {
        "kind": "finished",
        "sweep": planned.sweep.id,
        "runs": sum(counts),
        "failed": len(account.failures),
    }
    if account.made or not store.records("finished", sweep=planned.sweep.id):
        store.add(done)
