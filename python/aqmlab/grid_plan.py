"""The runs that grids of studies ask for, as tasks of a campaign, and what the store holds of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aqmlab import live_runs
from aqmlab.campaign import Refused, Runnable, Task
from aqmlab.grid import Grid, Prepare, Row, Runs

if TYPE_CHECKING:
    from aqmlab.store import Store

Plan = list[tuple[Grid, dict[str, Any], Task]]
"""Grid, labels and run."""


def plan_of(grids: Iterable[Grid], prepare: Prepare, quick: bool) -> Plan:
    """Every run that the grids ask for; the same run may stand in several of them.

    `prepare` makes the scenarios that are simulated.
    """
    plan: Plan = []
    for grid in grids:
        chosen = live_runs.prepare if grid.live else prepare
        measures = (grid.measure,)
        for labels in grid.points(quick=quick):
            shared = None if grid.by_seed else _made(chosen, grid.scenario(**labels))
            name = ", ".join([grid.name, *(f"{key} {value}" for key, value in labels.items())])
            for seed in range(1, grid.replications(quick=quick) + 1):
                scenario = shared or _made(chosen, grid.scenario(**labels, seed=seed))
                plan.append((grid, labels, Task(scenario=scenario, seed=seed, measures=measures, name=name)))
    return plan


def _made(prepare: Prepare, table: Mapping[str, Any]) -> Runnable:
    try:
        return prepare(table)
    except Exception as problem:
        text = json.dumps(table, sort_keys=True, default=str)
        return Refused(problem=problem, digest=f"refused-{hashlib.sha256(text.encode()).hexdigest()}")


def collect(plan: Plan, store: Store) -> dict[str, Runs]:
    """The finished runs of a plan, by grid."""
    kept = store.runs_of(list({task.scenario.digest for _, _, task in plan}))
    rows: dict[str, list[Row]] = {}
    for grid, labels, task in plan:
        found = rows.setdefault(grid.name, [])
        record = kept.get(task.run)
        if record is not None and task.keys[0] in record.values:
            found.append(Row(labels=labels, seed=task.seed, values=record.values[task.keys[0]]))
    return {name: Runs(rows=tuple(found)) for name, found in rows.items()}


def tasks_of(plans: Iterable[Plan]) -> list[Task]:
    """The runs of some plans, each once, with all that is asked of it."""
    found: dict[tuple[str, int], Task] = {}
    for plan in plans:
        for _, _, task in plan:
            before = found.get(task.run)
            if before is None:
                found[task.run] = task
            elif task.keys[0] not in before.keys:
                found[task.run] = replace(before, measures=(*before.measures, *task.measures))
    return list(found.values())
