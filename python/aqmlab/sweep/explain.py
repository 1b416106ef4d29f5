"""Determines why a sweep would execute runs, for `aqmlab sweep explain`."""

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
    """A run that `aqmlab sweep run` would execute."""

    point: Point
    seed: int
    reason: str


def missing(planned: Planned, store: Store) -> Iterator[Missing]:
    """Yields every run that `aqmlab sweep run` would execute, with the reason."""
    sweep = planned.sweep
    states = planned.stopping_states(store)
    kept = store.runs_of(planned.digests)
    older = _older(sweep, store)
    keys = tuple(one.key for one in sweep.wanted)
    for point, digest, one in zip(planned.points, planned.digests, states, strict=True):
        earlier = older.get(_label_key(point.labels), [])
        ancestors = store.runs_of([row["scenario"] for row in earlier]) if earlier else {}
        for seed in range(point.first_seed, point.first_seed + one.wanted):
            record = kept.get((digest, seed))
            if settled(record, keys):
                continue
            if record is not None:
                yield Missing(point=point, seed=seed, reason=_incomplete(record, keys))
                continue
            before = next(
                (
                    row["scenario"]
                    for row in earlier
                    if row["scenario"] != digest and (row["scenario"], seed) in ancestors
                ),
                None,
            )
            reason = "the run does not exist" if before is None else _changed(planned, point, before, store)
            yield Missing(point=point, seed=seed, reason=reason)


def _label_key(labels: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted(labels.items()))


def _older(sweep: Sweep, store: Store) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Returns the points of earlier sweeps with the same name, by labels, beginning with the newest sweep."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    ids = [row["sweep"] for row in store.records("sweep", name=sweep.name)]
    for one in reversed(ids):
        for row in store.records("point", sweep=one):
            found.setdefault(_label_key(row["labels"]), []).append(row)
    return found


def _incomplete(record: RunRecord, keys: Sequence[str]) -> str:
    if record.status != "done":
        return f"the previous run {record.status}: {record.error}"
    kept = {name_of(key)[0]: name_of(key)[1] for key in (*record.values, *record.frames)}
    reasons = []
    for key in keys:
        if key in record.values or key in record.frames:
            continue
        name, now = name_of(key)
        before = kept.get(name)
        reasons.append(
            f"{name} has version {now}, but version {before} is stored"
            if before
            else f"{name} was not measured"
        )
    return "; ".join(reasons)


def _changed(planned: Planned, point: Point, before: str, store: Store) -> str:
    """Returns the differences between a point's scenario and the earlier scenario with the digest
    `before`."""
    rows = store.records("scenario", scenario=before)
    if not rows:
        return "the scenario changed"
    then, now = flat(rows[0]["given"]), flat(planned.scenarios.of(point).given)
    changes = [
        f"{path} changed from {_value(then, path)} to {_value(now, path)}"
        for path in sorted({*then, *now})
        if then.get(path) != now.get(path) and path != "seed"
    ]
    if rows[0]["results_version"] != _core.RESULTS_VERSION:
        changes.append(
            f"the results version changed from {rows[0]['results_version']} to {_core.RESULTS_VERSION}"
        )
    return "; ".join(changes) or "a default value or a file that the scenario uses has changed"


def _value(table: Mapping[str, Any], path: str) -> str:
    return str(table[path]) if path in table else "left out"
