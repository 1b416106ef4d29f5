"""What a store knows of a run, and how several records of one run are merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OWN_SEEDS_APART = 1_000_003
"""The distance between the first seeds of two points that do not share random numbers, to be multiplied by a
number of 30 bits that follows from the labels of the point."""

DONE = "done"
STATUSES = (DONE, "failed", "crashed")
"""A run was finished; raised an error; or killed the processes that tried it."""

RUN = "run"
"""The kind of the records of runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One run: the scenario's digest with seed 1, the seed, how it ended, and what was measured."""

    scenario: str
    seed: int
    status: str
    """One of `STATUSES`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """By key of the measure, `NAME@VERSION`: a number, `None`, or any JSON."""
    frames: Mapping[str, Any] = field(default_factory=dict)
    """Tables that are kept, by key: `file`, `bytes` and `crc32`."""
    error: str | None = None
    cpu_s: float | None = None
    version: str = ""
    """Of aqmlab."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    live: Mapping[str, Any] | None = None
    """Of a live run: where and with what."""

    @property
    def name(self) -> tuple[str, int]:
        """What names the run."""
        return self.scenario, self.seed


def read(record: Mapping[str, Any]) -> RunRecord:
    """The run of a record of the kind `run`."""
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
    """The record of a run."""
    record = {"kind": RUN, **{name: getattr(run, name) for name in RunRecord.__dataclass_fields__}}
    return {name: value for name, value in record.items() if name != "live" or value is not None}


def merged(earlier: RunRecord, later: RunRecord) -> RunRecord:
    """Two records of one run as one: values by key; `done` beats the others, and among equals the later.

    What failed attempts asked in vain (`facts["asked"]`) stays known, with the error, until it has a value.
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
    """Raises `ValueError` if a store could not read this record."""
    kind = record.get("kind")
    if not isinstance(kind, str):
        raise ValueError(f"kind: `{kind}` names no kind of record, such as `run`")
    if kind != RUN:
        return
    wanted: dict[str, tuple[type, ...]] = {"scenario": (str,), "seed": (int,), "values": (Mapping,)}
    for name, types in wanted.items():
        if not isinstance(record.get(name), types):
            raise ValueError(f"{name}: `{record.get(name)}` must be of the type {types[0].__name__}")
    if not 0 <= record["seed"] < 2**63:
        raise ValueError(f"seed: `{record['seed']}` must be 0 to {2**63 - 1}")
    if record.get("status", DONE) not in STATUSES:
        raise ValueError(f"status: `{record.get('status')}` is none of {', '.join(STATUSES)}")
