"""The contents of a store as columns, and the index file. The index file contains these columns and the read
position in each log.

The index is derived from the logs. If the index is missing, damaged or inconsistent with the logs, the logs
are read instead.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from aqmlab._support.files import replace
from aqmlab.store.record import RUN, RunRecord, merged, read

FORMAT = 1
"""Version of the index format. An index with another version is rebuilt."""

NEW_RECORDS = 20_000
"""Number of new records that are stored as objects before they are converted to columns."""

_MAGIC = b"aqmlab store index"

_RUNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "scenario": pl.String,
    "seed": pl.Int64,
    "status": pl.String,
    "error": pl.String,
    "cpu_s": pl.Float64,
    "version": pl.String,
    "shape": pl.UInt32,
    "numbers": pl.List(pl.Float64),
    "structured": pl.String,
    "frames": pl.String,
    "facts": pl.String,
    "live": pl.String,
}
_OTHERS = pl.Schema({"kind": pl.String, "sweep": pl.String, "scenario": pl.String, "text": pl.String})

Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The keys of a run's values, and the kind of each value: `float`, `int`, or `json` for values that are not
numbers."""

_KINDS = {float: "float", type(None): "float", int: "int"}

_EXACT = 2**53
"""Largest number up to which a float represents every whole number exactly."""


class Contents:
    """All runs, each with its records merged, and all other records without duplicates.

    Most runs of a sweep have the same measures. Therefore, the keys of the measures are stored once, as a
    shape, and only a list of numbers is stored for each run. The newest records, at most `NEW_RECORDS`, are
    stored as objects.
    """

    def __init__(self) -> None:
        self._runs = pl.DataFrame(schema=_RUNS)
        self._others = pl.DataFrame(schema=_OTHERS)
        self._shapes: dict[Shape, int] = {}
        self._new_runs: dict[tuple[str, int], RunRecord] = {}
        self._new_others: dict[str, tuple[str, str | None, str | None]] = {}

    # Adding records

    def add(self, record: Mapping[str, Any]) -> None:
        """Adds a record of any kind."""
        kind = record["kind"]
        if kind == RUN:
            run = read(record)
            before = self._new_runs.get(run.name)
            self._new_runs[run.name] = run if before is None else merged(before, run)
        if kind != "run":
            self._new_others[_text(record)] = (kind, record.get("sweep"), record.get("scenario"))
        if len(self._new_runs) + len(self._new_others) >= NEW_RECORDS:
            self._settle()

    def _settle(self) -> None:
        """Converts the newest records to columns."""
        if self._new_runs:
            news = pl.DataFrame(list(self._new_runs), schema=["scenario", "seed"], orient="row")
            known = self._runs.join(news, on=["scenario", "seed"], how="semi")
            if known.height:
                for run in self._records(known):
                    self._new_runs[run.name] = merged(run, self._new_runs[run.name])
                self._runs = self._runs.join(news, on=["scenario", "seed"], how="anti")
            self._runs = pl.concat([self._runs, *self._columns(self._new_runs.values())])
            self._new_runs = {}
        if self._new_others:
            others = [(*columns, text) for text, columns in self._new_others.items()]
            more = pl.DataFrame(others, schema=_OTHERS, orient="row")
            self._others = pl.concat([self._others, more]).unique(maintain_order=True)
            self._new_others = {}

    def _columns(self, runs: Iterable[RunRecord]) -> Iterator[pl.DataFrame]:
        """Yields the runs as columns, with one frame for each shape."""
        by_shape: dict[Shape, list[RunRecord]] = {}
        for run in runs:
            by_shape.setdefault(_shape(run.values), []).append(run)
        for shape, alike in by_shape.items():
            texts = [_texts(run, shape) for run in alike]
            columns = {
                **{name: [getattr(run, name) for run in alike] for name in list(_RUNS)[:6]},
                "shape": [self._shapes.setdefault(shape, len(self._shapes))] * len(alike),
                "numbers": _numbers(alike, shape),
                **{name: [one[index] for one in texts] for index, name in enumerate(list(_RUNS)[8:])},
            }
            yield pl.DataFrame(columns, schema=_RUNS)

    # Queries

    def runs_of(self, scenarios: Sequence[str]) -> Iterator[RunRecord]:
        """Returns the runs of these scenarios."""
        digests = set(scenarios)
        newer = {name: run for name, run in self._new_runs.items() if run.scenario in digests}
        selected = pl.DataFrame({"scenario": list(digests)}, schema={"scenario": pl.String})
        for run in self._records(self._runs.join(selected, on="scenario", how="semi")):
            new = newer.pop(run.name, None)
            yield run if new is None else merged(run, new)
        yield from newer.values()

    def every_run(self) -> Iterator[RunRecord]:
        """All runs."""
        return self._records(self.runs())

    def with_frames(self) -> Iterator[RunRecord]:
        """Returns the runs that have stored tables."""
        return self._records(self.runs().filter(pl.col("frames").is_not_null()))

    def frame_bytes(self) -> int:
        """Returns the total size of all stored tables in bytes."""
        sizes = self.runs()["frames"].drop_nulls().str.extract_all(r'"bytes":\d+').explode()
        return int(sizes.str.strip_prefix('"bytes":').cast(pl.Int64).sum())

    def every_other(self) -> Iterator[dict[str, Any]]:
        """Returns all records that are not runs."""
        self._settle()
        return (json.loads(text) for text in self._others["text"])

    def _records(self, rows: pl.DataFrame) -> Iterator[RunRecord]:
        shapes = [(keys, kinds, set(kinds) == {"float"}) for keys, kinds in self._shapes]
        for row in rows.iter_rows():
            scenario, seed, status, error, cpu_s, version, shape, numbers, structured, *texts = row
            frames, facts, live = [json.loads(text) if text else {} for text in texts]
            keys, kinds, plain = shapes[shape]
            yield RunRecord(
                scenario=scenario,
                seed=seed,
                status=status,
                values=dict(zip(keys, numbers, strict=True))
                if plain
                else _values(keys, kinds, numbers, json.loads(structured) if structured else {}),
                frames=frames,
                error=error,
                cpu_s=cpu_s,
                version=version,
                facts=facts,
                live=live or None,
            )

    def others(self, kind: str, equal: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the records of this kind (not `run`) whose fields have the values in `equal`, in the order
        in which the records were added."""
        self._settle()
        rows = self._others.filter(pl.col("kind") == kind)
        for name in ("sweep", "scenario"):
            if isinstance(equal.get(name), str):
                rows = rows.filter(pl.col(name) == equal[name])
        records = (json.loads(text) for text in rows["text"])
        return [one for one in records if all(one.get(name) == value for name, value in equal.items())]

    def runs(self) -> pl.DataFrame:
        """Returns all runs, with one row per run and the columns of the index."""
        self._settle()
        return self._runs

    def shapes(self) -> pl.DataFrame:
        """Returns the shapes, with one row per shape. A row contains lists of keys, measures, versions and
        kinds (`float`, `int`, `json`), in the order of a run's numbers."""
        keys = [list(of_shape) for of_shape, _ in self._shapes]
        names = [[_split(key) for key in one] for one in keys]
        return pl.DataFrame(
            {
                "shape": list(range(len(keys))),
                "key": keys,
                "measure": [[name for name, _ in one] for one in names],
                "version": [[version for _, version in one] for one in names],
                "kind": [list(kinds) for _, kinds in self._shapes],
            },
            schema={
                "shape": pl.UInt32,
                "key": pl.List(pl.String),
                "measure": pl.List(pl.String),
                "version": pl.List(pl.Int64),
                "kind": pl.List(pl.String),
            },
        )

    # The index file

    def save(self, path: Path, logs: Mapping[str, int]) -> None:
        """Writes the index file. `logs` contains the read position (in bytes) in each log. Raises
        `OSError`."""
        self._settle()
        self._runs, self._others = self._runs.rechunk(), self._others.rechunk()
        parts = [_parquet(self._runs), _parquet(self._others)]
        about = {
            "logs": dict(logs),
            "shapes": list(self._shapes),
            "parts": [len(part) for part in parts],
        }
        body = [json.dumps(about).encode() + b"\n", *parts]
        head = b"%b %d %08x %d\n" % (_MAGIC, FORMAT, _checksum(body), sum(map(len, body)))
        replace(path, [head, *body])

    @classmethod
    def load(cls, path: Path) -> tuple[Contents, dict[str, int]] | None:
        """Returns the contents of an index file and the read position in each log, or `None` if the file is
        missing or damaged."""
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head, _, _ = data[:100].partition(b"\n")
        body = memoryview(data)[len(head) + 1 :]
        if head != b"%b %d %08x %d" % (_MAGIC, FORMAT, zlib.crc32(body), len(body)):
            return None
        end = data.index(b"\n", len(head) + 1) - len(head)
        about = json.loads(bytes(body[:end]))
        runs, others = (io.BytesIO(part) for part in _cut(body[end:], about["parts"]))
        found = cls()
        found._runs, found._others = pl.read_parquet(runs), pl.read_parquet(others)
        for number, (keys, kinds) in enumerate(about["shapes"]):
            found._shapes[tuple(keys), tuple(kinds)] = number
        return found, about["logs"]


def _cut(data: memoryview, lengths: Iterable[int]) -> Iterator[memoryview]:
    start = 0
    for length in lengths:
        yield data[start : start + length]
        start += length


def _checksum(parts: Iterable[bytes]) -> int:
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, compression="lz4")
    return file.getvalue()


_text = json.JSONEncoder(separators=(",", ":")).encode


def _shape(values: Mapping[str, Any]) -> Shape:
    kinds = [_KINDS.get(type(value), "json") for value in values.values()]
    if "int" in kinds:
        kinds = [
            "json" if kind == "int" and abs(value) > _EXACT else kind
            for kind, value in zip(kinds, values.values(), strict=True)
        ]
    return tuple(values), tuple(kinds)


def _values(
    keys: Sequence[str], kinds: Sequence[str], numbers: Sequence[float | None], structured: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values of a run with their original types."""
    found: dict[str, Any] = {}
    for key, kind, number in zip(keys, kinds, numbers, strict=True):
        if kind == "json":
            found[key] = structured[key]
        else:
            found[key] = int(number) if kind == "int" and number is not None else number
    return found


def _numbers(runs: Sequence[RunRecord], shape: Shape) -> pl.Series:
    """Returns the numbers of runs that have the same shape, with one list per run."""
    _, kinds = shape
    if not kinds:
        return pl.Series([[] for _ in runs], dtype=pl.List(pl.Float64))
    flat = [
        None if kind == "json" or value is None else float(value)
        for run in runs
        for kind, value in zip(kinds, run.values.values(), strict=True)
    ]
    return pl.Series(flat, dtype=pl.Float64).reshape((len(runs), len(kinds))).arr.to_list()


def _texts(run: RunRecord, shape: Shape) -> tuple[str | None, ...]:
    """Returns the data of a run that are not numbers, as JSON: structured values, tables, other information,
    and data of live runs."""
    structured = {key: run.values[key] for key, kind in zip(*shape, strict=True) if kind == "json"}
    return tuple(_text(one) if one else None for one in (structured, run.frames, run.facts, run.live))


def _split(key: str) -> tuple[str, int | None]:
    """Returns the name and the version that a measure's key contains."""
    name, _, version = key.rpartition("@")
    return (name, int(version)) if name and version.isdecimal() else (key, None)
