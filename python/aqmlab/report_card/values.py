"""The values of report cards: a measured number for each run, in a table that one file holds.

Everything on a card is computed from this table, so a card can be drawn again without a run."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab import _core
from aqmlab._support.files import write_bytes
from aqmlab.campaign import Account, Executor, Local, execute, together, version
from aqmlab.report_card import parameters, queues
from aqmlab.report_card.experiments import SECTIONS, VARIANT, Section, parameter_experiment
from aqmlab.report_card.measures import PREFIX
from aqmlab.report_card.network import DROP_TAIL, RATE_MBPS, Table, room_of
from aqmlab.report_card.queues import EQUAL, SHIPPED
from aqmlab.results.table import Results
from aqmlab.scenario import flat
from aqmlab.store import Store
from aqmlab.study.experiment import Experiment, FormName

FILE = "values.parquet"

DIGITS = 4
"""Significant digits of a kept number: more than any interval of a few runs deserves."""

PARAMETERS = "8.3"
"""The section of parameters, whose points are variants of each queue."""

SCHEMA = {
    "queue": pl.Categorical,
    "room": pl.Categorical,
    "section": pl.Categorical,
    "point": pl.Categorical,
    "measure": pl.Categorical,
    "seed": pl.Int16,
    "value": pl.Float32,
}
"""`point` holds the values of the scenario's axes, or the variant of the queue; `measure` is a workload and
what is measured of it, in the units of `measures.TITLES`."""

REFERENCE: Table = {"kind": DROP_TAIL}

_ABOUT = "aqmlab"


@dataclass(frozen=True, kw_only=True)
class Values:
    """The table and how it came about."""

    frame: pl.DataFrame
    """See `SCHEMA`; numbers that do not exist, such as the gap between no losses, have no row."""
    queues: Mapping[str, Table]
    """The queues by name, as the user gave them, and Drop Tail."""
    cards: Sequence[str]
    """The names of the queues that get a card."""
    refused: Mapping[str, Mapping[str, str]]
    """By queue, the scenarios that were left out, and why: `SECTION ROOM`, or a variant of section 8.3."""
    replications: int
    runs: int
    quick: bool
    version: str
    results_version: int

    def given(self, queue: str) -> dict[str, dict[str, Any]]:
        """By column, the parameters of a queue on the main line that are no defaults, by path; without a
        column that the queue cannot have."""
        table = self.queues[queue]
        found = {EQUAL: flat(table), SHIPPED: flat(queues.shipped(table))}
        for given in found.values():
            del given["kind"]
        if self.refusal(queue, EQUAL) is None:
            found[EQUAL] |= queues.bounds(table, room_of())
        else:
            del found[EQUAL]
        return found

    def refusal(self, queue: str, room: str) -> str | None:
        """Why a queue cannot have the room of a column on the main line; `None` if it can."""
        return room_refusal(self.queues[queue], room)

    def write(self, path: Path) -> None:
        """Writes table and circumstances as one Parquet file."""
        about = {
            "queues": self.queues,
            "cards": self.cards,
            "refused": self.refused,
            "replications": self.replications,
            "runs": self.runs,
            "quick": self.quick,
            "version": self.version,
            "results_version": self.results_version,
        }
        file = io.BytesIO()
        self.frame.write_parquet(
            file,
            compression="zstd",
            compression_level=19,
            statistics=False,
            metadata={_ABOUT: json.dumps(about)},
        )
        write_bytes(path, file.getvalue())

    @staticmethod
    def read(path: Path) -> Values:
        """Reads what `write` wrote. Raises `ValueError` if the file is another one."""
        try:
            about: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)[_ABOUT])
        except (KeyError, OSError, pl.exceptions.PolarsError) as problem:
            raise ValueError(f"{path}: no values of report cards: {problem}") from None
        return Values(frame=pl.read_parquet(path), **about)


def room_refusal(queue: Table, room: str) -> str | None:
    """Why a queue cannot have the room of a column on the main line; `None` if it can."""
    try:
        return queues.refusal(queues.in_room(queue, room, room_of()), f"{RATE_MBPS:g}Mbps")
    except ValueError as problem:
        return str(problem)


def measure(
    tables: Mapping[str, Table],
    out: Path,
    *,
    replications: int,
    quick: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    sections: Sequence[Section] = SECTIONS,
) -> tuple[Values, tuple[str, ...]]:
    """Makes the runs of all scenarios with these queues and Drop Tail that the store in `out` lacks; returns
    their values, and the failures of runs.

    `KeyboardInterrupt` passes through; finished runs are kept. Raises `ValueError` before any run if a queue
    gets no card."""
    for name, queue in tables.items():
        queues.check(name, queue)
    if tables.get(DROP_TAIL, REFERENCE) != REFERENCE:
        raise ValueError(f"queues.{DROP_TAIL}: cards compare with the kind of this name: rename the table")
    everyone = {DROP_TAIL: REFERENCE, **tables}
    refused: dict[str, dict[str, str]] = {name: {} for name in everyone}
    experiments: list[tuple[str, str, Experiment]] = []
    for section in sections:
        for room in section.rooms:
            fits = {}
            for name, queue in (everyone if room == EQUAL else tables).items():
                why = section.refusal(queue, room)
                if why is None:
                    fits[name] = queue
                else:
                    refused[name][f"{section.number} {room}"] = why
            if fits:
                experiments.append((section.number, room, section.experiment(fits, room, replications)))
    varied = (
        parameter_experiment(tables, replications) if any(one.number == "8.2.3" for one in sections) else None
    )
    if varied is not None:
        experiments.append((PARAMETERS, SHIPPED, varied))
        for name, queue in tables.items():
            rate = f"{RATE_MBPS:g}Mbps"
            refused[name] |= parameters.variants(queues.shipped(queue), rate).refused
    form: FormName = "quick" if quick else "full"
    plans = [(number, room, one.plan(one.sweep(form))) for number, room, one in experiments]
    tasks = together([task for _, _, planned in plans for _, task in planned.tasks({})])
    account = Account()
    with Store(out / "store") as store:
        execute(
            tasks,
            store,
            executor=executor or Local(jobs=jobs),
            label="report-card",
            total=len(tasks),
            account=account,
            retry=True,
        )
        rows = [
            row for number, room, planned in plans for row in _rows(number, room, planned.collect(store, {}))
        ]
    values = Values(
        frame=pl.DataFrame(rows, schema=SCHEMA, orient="row"),
        queues=everyone,
        cards=sorted(tables),
        refused=refused,
        replications=max(planned.sweep.replications for _, _, planned in plans),
        runs=len(tasks),
        quick=quick,
        version=version(),
        results_version=_core.RESULTS_VERSION,
    )
    return values, tuple(map(str, account.failures))


def _rows(number: str, room: str, runs: Results) -> list[tuple[Any, ...]]:
    """Rows of the table."""
    found = []
    for row in runs.rows:
        labels = dict(row.labels)
        queue = str(labels.pop("queue"))
        point = ", ".join(str(value) for value in labels.values())
        if number == PARAMETERS:
            queue, point = queue.split(VARIANT, 1)
        for name, value in row.values.items():
            if value is not None and not math.isnan(value):
                kept = float(f"{value:.{DIGITS}g}")
                found.append((queue, room, number, point, name.removeprefix(PREFIX), row.seed, kept))
    return found
