"""Runs sweeps: which runs of each point are missing, when a point has enough, and what was found."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab._support.parallel import held_back
from aqmlab.campaign import Account, Executor, Local, Task, execute
from aqmlab.scenario import Scenario
from aqmlab.sweep import warm_up as sweep_warm_up
from aqmlab.sweep.sweep import Point, Stopping, Sweep
from aqmlab.sweep.warm_up import NoWarmUpError

if TYPE_CHECKING:
    from aqmlab.stats.precision import Look, Precision
    from aqmlab.store.store import RunRecord, Store

TOGETHER = 64
"""Of so many points the scenarios are at hand at once, and their runs are made seed by seed."""


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


def plan_so_far(sweep: Sweep, store: Store) -> Planned:
    """As `plan`, without running anything: no points where a warm-up is not known."""
    try:
        return plan(sweep, store, run_nothing=True)
    except NoWarmUpError:
        return Planned(sweep=sweep, points=(), digests=(), scenarios=Scenarios(sweep))


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
            enough.wanted if one else 0 for enough, one in zip(counted(planned, store), mine, strict=True)
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


@dataclass(frozen=True, kw_only=True)
class Enough:
    """Whether a point has enough replications."""

    wanted: int
    """How many it is to have; as many as it has when nothing is left to be done."""
    have: int
    exhausted: bool = False
    """Whether it has as many as it may, and intervals are still wider than asked."""


def counted(planned: Planned, store: Store) -> list[Enough]:
    """For each point how many replications it has and is to have.

    What precision asks for is judged at its looks, one after the other, on the first replications, so that
    the answer is the same whatever else the store holds.
    """
    sweep = planned.sweep
    if sweep.precision is None:
        return [Enough(wanted=sweep.replications, have=sweep.replications)] * len(planned.points)
    stopping = sweep.precision
    values = _values(planned, store, stopping)
    places = {_named(point.labels): place for place, point in enumerate(planned.points)}
    found: list[Enough] = []
    partners: dict[int, int] = {}
    for place, point in enumerate(planned.points):
        partner = places.get(_named({**point.labels, **stopping.baseline})) if stopping.baseline else None
        theirs = None if partner is None else values[partner]
        enough = _enough(stopping, values[place], theirs, itself=partner == place)
        found.append(enough)
        if partner is not None:
            partners[partner] = max(partners.get(partner, 0), enough.wanted)
    return [replace(one, wanted=max(one.wanted, partners.get(place, 0))) for place, one in enumerate(found)]


def _named(labels: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(labels.items()))


Values = Mapping[str, Sequence[float]]
"""By measure, the values of the first replications, in the order of seeds; NaN where a run has none."""


def _values(planned: Planned, store: Store, stopping: Stopping) -> list[Values]:
    keys = {one.name: one.key for one in planned.sweep.wanted if one.name in stopping.measures}
    found: list[Values] = []
    for first in range(0, len(planned.points), TOGETHER):
        block = range(first, min(first + TOGETHER, len(planned.points)))
        kept = store.runs_of([planned.digests[place] for place in block])
        for place in block:
            first_seed = planned.points[place].first_seed
            records: list[RunRecord] = []
            for seed in range(first_seed, first_seed + stopping.rule.most):
                record = kept.get((planned.digests[place], seed))
                if record is None:
                    break
                records.append(record)
            found.append(
                {name: [_number(record.values.get(key)) for record in records] for name, key in keys.items()}
            )
    return found


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _enough(stopping: Stopping, ours: Values, theirs: Values | None, *, itself: bool) -> Enough:
    """Judged at one look after the other, until the values are enough or no more are there."""
    rule = stopping.rule.for_measures(len(ours))
    counts = [ours, theirs] if theirs is not None else [ours]
    have = min(len(values) for one in counts for values in one.values())
    if itself:
        return Enough(wanted=rule.least, have=have)
    for count in rule.looks():
        if count > have:
            return Enough(wanted=count, have=have)
        looks = [_look(rule, name, ours, theirs, count) for name in ours]
        if all(look.enough for look in looks):
            return Enough(wanted=count, have=have)
    return Enough(wanted=rule.most, have=have, exhausted=True)


def _look(rule: Precision, name: str, ours: Values, theirs: Values | None, count: int) -> Look:
    values = list(ours[name][:count])
    if theirs is None:
        return rule.judge(values)
    base = list(theirs[name][:count])
    if rule.relative is not None:
        known = [value for value in base if not math.isnan(value)]
        mean = abs(math.fsum(known) / len(known)) if known else math.nan
        if not mean > 0:
            return rule.judge([math.nan] * count)
        rule = replace(rule, relative=None, absolute=rule.relative * mean)
    return rule.judge([a - b for a, b in zip(values, base, strict=True)])
