"""Why a run of a sweep would be made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqmlab import _core
from aqmlab.campaign import settled
from aqmlab.measures import name_of
from aqmlab.scenario import flat

if TYPE_CHECKING:
    from aqmlab.store.store import RunRecord, Store
    from aqmlab.sweep.point import Point
    from aqmlab.sweep.run import Planned
    from aqmlab.sweep.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A run that would be made."""

    point: Point
    seed: int
    why: str


def missing(planned: Planned, store: Store) -> Iterator[Missing]:
    """Every run that would be made, with the reason."""
    sweep = planned.sweep
    enough = planned.enough(store)
    kept = store.runs_of(planned.digests)
    older = _older(sweep, store)
    keys = tuple(one.key for one in sweep.wanted)
    for point, digest, one in zip(planned.points, planned.digests, enough, strict=True):
        earlier = older.get(_place(point.labels), [])
        ancestors = store.runs_of([row["scenario"] for row in earlier]) if earlier else {}
        for seed in range(point.first_seed, point.first_seed + one.wanted):
            record = kept.get((digest, seed))
            if settled(record, keys):
                continue
            if record is not None:
                yield Missing(point=point, seed=seed, why=_lacking(record, keys))
                continue
            before = next(
                (
                    row["scenario"]
                    for row in earlier
                    if row["scenario"] != digest and (row["scenario"], seed) in ancestors
                ),
                None,
            )
            why = "it was never made" if before is None else _changed(planned, point, before, store)
            yield Missing(point=point, seed=seed, why=why)


def _place(labels: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(labels.items()))


def _older(sweep: Sweep, store: Store) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Points of sweeps of the same name, by labels, the last ones first."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    ids = [row["sweep"] for row in store.records("sweep", name=sweep.name)]
    for one in reversed(ids):
        for row in store.records("point", sweep=one):
            found.setdefault(_place(row["labels"]), []).append(row)
    return found


def _lacking(record: RunRecord, keys: Sequence[str]) -> str:
    if record.status != "done":
        return f"it {record.status} before: {record.error}"
    kept = {name_of(key)[0]: name_of(key)[1] for key in (*record.values, *record.frames)}
    said = []
    for key in keys:
        if key in record.values or key in record.frames:
            continue
        name, now = name_of(key)
        before = kept.get(name)
        said.append(
            f"{name} is of version {now}, and {before} is kept" if before else f"{name} was not measured"
        )
    return "; ".join(said)


def _changed(planned: Planned, point: Point, before: str, store: Store) -> str:
    """What is different in the scenario."""
    rows = store.records("scenario", scenario=before)
    if not rows:
        return "its scenario is another one"
    then, now = flat(rows[0]["given"]), flat(planned.scenarios.of(point).given)
    said = [
        f"{path} was {_value(then, path)}, is {_value(now, path)}"
        for path in sorted({*then, *now})
        if then.get(path) != now.get(path) and path != "seed"
    ]
    if rows[0]["results_version"] != _core.RESULTS_VERSION:
        said.append(f"results are of version {_core.RESULTS_VERSION}, were of {rows[0]['results_version']}")
    return "; ".join(said) or "a file that the scenario names, or a default, is another one"


def _value(table: Mapping[str, Any], path: str) -> str:
    return str(table[path]) if path in table else "left out"
