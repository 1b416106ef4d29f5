"""The records of runs in a store, and functions that merge several records of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OWN_SEEDS_APART = 1_000_003
"""Unit of the distance between the first seeds of points that do not share random numbers. The distance is
this unit multiplied by a 30-bit hash of the point's labels."""

DONE = "done"
STATUSES = (DONE, "failed", "crashed")
"""The possible status of a run: the run succeeded (`done`), raised an error (`failed`), or killed its
processes (`crashed`)."""

RUN = "run"
"""The `kind` of a record that describes a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One run: the digest of the run's scenario with seed 1, the seed, the status and the measured values."""

    scenario: str
    seed: int
    status: str
    """One of `STATUSES`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values by the key of the measure, `NAME@VERSION`. A value is a number, `None` or another JSON value."""
    frames: Mapping[str, Any] = field(default_factory=dict)
    """Stored tables by the key of the measure. The value has the keys `file`, `bytes` and `crc32`."""
    error: str | None = None
    cpu_s: float | None = None
    version: str = ""
    """Version of aqmlab that executed the run."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    live: Mapping[str, Any] | None = None
    """Information about a live run, for example the kernel's release."""

    @property
    def name(self) -> tuple[str, int]:
        """The identity of the run: the scenario's digest and the seed."""
        return self.scenario, self.seed


def read(record: Mapping[str, Any]) -> RunRecord:
    """Converts a record of the kind `run` to a run."""
    return RunRecord(
        scenario=record["scenario"],
        seed=record["seed"],
        status=record.get("status", DONE),
        values=record.get("values") or {},
        frames=record.get("frames") or {},
        error=record.get("error"),
        cpu_s=record.get("cpu_s"),
        version=record.get("version") or "",
        facts=record.get("facts") or {},
        live=record.get("live") or None,
    )


def written(run: RunRecord) -> dict[str, Any]:
    """Converts a run to a record."""
    record = {"kind": RUN, **{name: getattr(run, name) for name in RunRecord.__dataclass_fields__}}
    return {name: value for name, value in record.items() if name != "live" or value is not None}


def merged(earlier: RunRecord, later: RunRecord) -> RunRecord:
    """Merges two records of one run. The result has the values of both records. If both records have the same
    field, a record with the status `done` takes precedence, and otherwise the later record.

    Measures that failed attempts could not compute (`facts["asked"]`) are kept with the error until the
    measures have a value.
    """
    best, other = later, earlier
    if earlier.status == DONE and later.status != DONE:
        best, other = earlier, later
    had = {*earlier.values, *later.values, *earlier.frames, *later.frames}
    asked = sorted({*earlier.facts.get("asked", ()), *later.facts.get("asked", ())} - had)
    facts = {key: value for key, value in (best.facts or other.facts).items() if key != "asked"}
    return RunRecord(
        scenario=best.scenario,
        seed=best.seed,
        status=best.status,
        values={**other.values, **best.values},
        frames={**other.frames, **best.frames},
        error=(best.error or other.error) if asked or best.status != DONE else None,
        cpu_s=other.cpu_s if best.cpu_s is None else best.cpu_s,
        version=best.version or other.version,
        facts=facts | {"asked": asked} if asked else facts,
        live=other.live if best.live is None else best.live,
    )


def check(record: Mapping[str, Any]) -> None:
    """Raises `ValueError` if a store cannot read this record."""
    kind = record.get("kind")
    if not isinstance(kind, str):
        raise ValueError(f"kind: must be a string such as `run` (got `{kind}`)")
    if kind != RUN:
        return
    required: dict[str, tuple[type, ...]] = {"scenario": (str,), "seed": (int,), "values": (Mapping,)}
    for name, types in required.items():
        if not isinstance(record.get(name), types):
            raise ValueError(f"{name}: must be of the type {types[0].__name__} (got `{record.get(name)}`)")
    if not 0 <= record["seed"] < 2**63:
        raise ValueError(f"seed: must be from 0 to {2**63 - 1} (got {record['seed']})")
    if record.get("status", DONE) not in STATUSES:
        raise ValueError(
            f"status: must be {', '.join(STATUSES[:-1])} or {STATUSES[-1]} (got `{record.get('status')}`)"
        )
