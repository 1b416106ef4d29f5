"""Runs sweeps: determines the points, executes the missing runs, and adds replications until the required
precision is reached."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support.parallel import deferred_interrupt
from aqmlab.campaign import Account, Executor, Local, Task, execute
from aqmlab.scenario import Scenario
from aqmlab.sweep import warm_up as sweep_warm_up
from aqmlab.sweep.point import Point
from aqmlab.sweep.stopping import BLOCK_POINTS, StoppingState, stopping_states
from aqmlab.sweep.sweep import Sweep
from aqmlab.sweep.warm_up import NoWarmUpError

if TYPE_CHECKING:
    from aqmlab.store import Store


class PointScenario:
    """The scenario of a point, which is created on demand and cached by `Scenarios`."""

    def __init__(self, scenarios: Scenarios, point: Point, digest: str) -> None:
        self._scenarios, self._point, self.digest = scenarios, point, digest

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return self._scenarios.of(self._point)

    @property
    def effective(self) -> Mapping[str, Any]:
        """The scenario with all defaults."""
        return self.scenario.effective

    def run(self, seed: int | None = None, *, watch: _core.Watch | None = None) -> Any:
        """Runs the scenario."""
        return self.scenario.run(seed, watch=watch)

    def __reduce__(self) -> tuple[Any, ...]:
        # When this object is pickled, it is replaced by the scenario itself.
        return _itself, (self.scenario,)


def _itself(scenario: Scenario) -> Scenario:
    return scenario


class Scenarios:
    """The scenarios of a sweep's points, with a cache of the most recently used scenarios."""

    def __init__(self, sweep: Sweep, warm_ups: Mapping[int, str] | None = None) -> None:
        self._sweep = sweep
        self._warm_ups = warm_ups or {}
        self._cache: OrderedDict[int, Scenario] = OrderedDict()
        self.left_out: dict[str, set[int]] = {}
        """For each path, the numbers of the points at which the value has no effect and is omitted, among the
        points whose scenarios have been created."""

    def of(self, point: Point) -> Scenario:
        """Returns the scenario of a point."""
        found = self._cache.get(point.number)
        if found is None:
            found, left_out = self._sweep.scenario_and_left_out(point)
            for path in left_out:
                self.left_out.setdefault(path, set()).add(point.number)
            if point.number in self._warm_ups:
                found = found.with_({"warm_up": self._warm_ups[point.number]})
            self._cache[point.number] = found
            while len(self._cache) > 2 * BLOCK_POINTS:
                self._cache.popitem(last=False)
        return found


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The points of a sweep, each with the digest of the point's scenario."""

    sweep: Sweep
    points: Sequence[Point]
    digests: Sequence[str]
    scenarios: Scenarios

    def stopping_states(self, store: Store) -> list[StoppingState]:
        """Returns the stopping state of each point."""
        sweep = self.sweep
        return stopping_states(
            self.points, self.digests, store, sweep.wanted, sweep.replications, sweep.precision
        )

    def task(self, index: int, replication: int) -> Task:
        """Returns one run of the point with this index."""
        point = self.points[index]
        return Task(
            scenario=PointScenario(self.scenarios, point, self.digests[index]),
            seed=point.first_seed + replication,
            measures=self.sweep.wanted,
            name=f"{self.sweep.name}: {point.description}",
        )

    def tasks(self, counts: Sequence[int], before: Sequence[int]) -> Iterator[Task]:
        """Yields the runs that increase the number of replications of each point from `before` to
        `counts`."""
        for first in range(0, len(self.points), BLOCK_POINTS):
            block = range(first, min(first + BLOCK_POINTS, len(self.points)))
            for replication in range(max(counts[index] for index in block)):
                for index in block:
                    if before[index] <= replication < counts[index]:
                        yield self.task(index, replication)


def plan(
    sweep: Sweep,
    store: Store,
    *,
    executor: Executor | None = None,
    label: str | None = None,
    run_nothing: bool = False,
) -> Planned:
    """Returns the points of a sweep with the digests of their scenarios. If the store contains the sweep,
    digests are read from the store. Otherwise, the sweep and its points are added to the store.

    If MSER-5 determines the warm-up, the pilot runs for MSER-5 are executed, with a progress bar if `label`
    is given. With a `label`, values that have no effect at some points, and are omitted at these points, are
    also reported on standard error.

    Raises `NoWarmUpError` if pilot runs are missing and the store is read-only or `run_nothing` is true.
    Raises `ValueError` if the core rejects the scenario of a point (the message names the point), or if a
    value has no effect at any point (the message names the path).
    """
    points = list(sweep.points())
    warm_ups = {}
    if sweep.warm_up:
        pilots = sweep_warm_up.pilots(sweep, points)
        if (run_nothing or store.read_only) and not sweep_warm_up.all_stored(pilots, store):
            raise NoWarmUpError(
                f"{sweep.name}: warm_up: the runs that determine the warm-up are missing: run `aqmlab sweep "
                "run` first"
            )
        warm_ups = sweep_warm_up.warm_ups(points, pilots, store, executor or Local(), label)
    scenarios = Scenarios(sweep, warm_ups)
    known = {row["number"]: row["scenario"] for row in store.records("point", sweep=sweep.id)}
    digests = [known.get(point.number, "") for point in points]
    missing = [index for index, digest in enumerate(digests) if not digest]
    with deferred_interrupt() as look:
        for index in missing:
            look()
            digests[index] = scenarios.of(points[index]).digest
    for path, without in scenarios.left_out.items():
        if len(without) == len(points):
            raise ValueError(f"{sweep.name}: {path}: has no effect at any point: remove it")
        if label:
            count = f"{len(without)} of {len(points)}"
            print(
                f"aqmlab: {path}: has no effect at {count} points and is omitted at these points",
                file=sys.stderr,
            )
    if missing:
        _record(sweep, points, digests, known, store)
    return Planned(sweep=sweep, points=points, digests=digests, scenarios=scenarios)


def _record(
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
    """Executes the runs of a sweep that are missing from the store.

    With `shard = (i, n)`, only every n-th point is run, beginning with the i-th point, so that n machines can
    share a sweep. Raises the same errors as `campaign.execute`. `KeyboardInterrupt` is re-raised, and
    finished runs remain stored.
    """
    account = account or Account()
    executor = executor or Local()
    planned = plan(sweep, store, executor=executor, label=label)
    mine = [index % shard[1] == shard[0] - 1 for index in range(len(planned.points))]
    least = sweep.replications if sweep.precision is None else sweep.precision.rule.least
    before, counts = [0] * len(mine), [(least if one else 0) for one in mine]
    while True:
        total = sum(counts) - sum(before)
        if all_stored(planned, store, counts):
            account.found += total
        else:
            execute(
                planned.tasks(counts, before),
                store,
                executor=executor,
                label=label,
                total=total,
                account=account,
                retry=retry,
                fail_fast=fail_fast,
            )
        if sweep.precision is None:
            break
        following = [
            state.wanted if one else 0
            for state, one in zip(planned.stopping_states(store), mine, strict=True)
        ]
        if following == counts:
            break
        before, counts = counts, following
    if shard == (1, 1):
        _finish(planned, store, counts, account)
    return account


def all_stored(planned: Planned, store: Store, counts: Sequence[int]) -> bool:
    """Returns whether the store contains `counts` runs of each point with all measures. The check is a single
    query, so the check is fast for any number of runs."""
    import polars as pl

    required = pl.DataFrame(
        {
            "scenario": list(planned.digests),
            "first": [point.first_seed for point in planned.points],
            "count": list(counts),
        },
        schema={"scenario": pl.String, "first": pl.Int64, "count": pl.Int64},
    )
    stored = store.holding([one.key for one in planned.sweep.wanted])
    present = required.join(stored, on="scenario").filter(
        (pl.col("seed") >= pl.col("first")) & (pl.col("seed") < pl.col("first") + pl.col("count"))
    )
    return present.height == sum(counts)


def _finish(planned: Planned, store: Store, counts: Sequence[int], account: Account) -> None:
    done = {
        "kind": "finished",
        "sweep": planned.sweep.id,
        "runs": sum(counts),
        "failed": len(account.failures),
    }
    if account.made or not store.records("finished", sweep=planned.sweep.id):
        store.add(done)
