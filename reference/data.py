"""The reference data next to this file: compressed recorded runs of ns-2, ns-3 and the Linux kernel."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
NS2 = HERE / "ns2"
NS3 = HERE / "ns3"
LINUX = HERE / "linux"
SCENARIOS = HERE.parent / "scenarios" / "reference"


@lru_cache(maxsize=32)
def rows(name: str, where: Path = NS2) -> list[dict[str, str]]:
    """The rows of `NAME.csv.gz` by column; lines that begin with `#` are skipped."""
    with gzip.open(where / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@lru_cache(maxsize=1)
def ns3_runs() -> list[dict[str, Any]]:
    """The output of each ns-3 run, with its seed and its condition."""
    with gzip.open(NS3 / "runs.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@lru_cache
def ns3_reruns(name: str) -> dict[str, list[dict[str, Any]]]:
    """ns-3 runs made to find a cause, by the condition that they repeat: `exact` without single faults of
    ns-3's TCP (`src/variants.cc`), `more` with additional seeds, `jitter` with hosts that need time, `rtt`
    without an RTT sample from a retransmitted SYN, `loss-state` with a window that grows after a timeout
    (`src/switches.cc`)."""
    runs: dict[str, list[dict[str, Any]]] = {}
    with gzip.open(NS3 / f"{name}-runs.jsonl.gz", "rt", encoding="utf-8") as file:
        for run in map(json.loads, file):
            runs.setdefault(run["condition"], []).append(run)
    return runs


def linux_text(name: str) -> list[str]:
    """The lines that a job of the Linux kernel printed."""
    with gzip.open(LINUX / "results" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
        return file.read().splitlines()


@lru_cache
def _generator(name: str) -> ModuleType:
    path = NS2 / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache(maxsize=64)
def schedule(load: float, seed: int) -> str:
    """The Web objects of the reference at `load` with `seed`: a start and a size on each line."""
    return "".join(f"{start:.6f} {size}\n" for start, size, _ in objects(load, seed))


def objects(load: float, seed: int) -> list[tuple[float, int, int]]:
    """The Web objects as start, size in bytes and number of packets."""
    made: list[tuple[float, int, int]] = _generator("gen_web").schedule(load, seed)
    return made


@lru_cache(maxsize=16)
def background(seed: int, segment: int) -> str:
    """The background of scenario C with `seed`: a start and a size in full segments of `segment` bytes."""
    made: list[tuple[float, int]] = _generator("gen_background").background(seed)
    return "".join(f"{start:.9f} {segment * packets}\n" for start, packets in made)


def conversations(
    direction: int, seed: int, *, arrivals: Sequence[int] | None = None, servers: Sequence[int] | None = None
) -> str:
    """The connections of scenario D at load 0.9 in one direction, in the format of `replay`.

    ns-2 draws the think times of servers again in each run; here they are drawn with `seed` from the
    distribution of PackMime-HTTP. DelayBox has one list of delays on the servers' side, and assigns the next
    delay to each connection whose first SYN arrives. The SYNs that the queue drops therefore determine the
    delay of each connection. `arrivals` are the times at which the first SYN of each connection gets through;
    by default none is dropped. `servers` are other delays. Both are in microseconds, in the order in which
    the connections start.
    """
    chance = np.random.default_rng([direction, seed])
    starts, requests, responses, clients, recorded = connections(direction)
    if servers is None:
        undropped = starts + clients
        dealt = np.empty_like(recorded)
        dealt[np.argsort(undropped if arrivals is None else arrivals, kind="stable")] = recorded[
            np.argsort(undropped, kind="stable")
        ]
        servers = dealt.tolist()
    thinks = 1 / np.maximum(10.0, 305 * chance.weibull(0.63, starts.size))
    columns = zip(starts, responses, requests, thinks, clients, servers, strict=True)
    return "".join(
        f"{start / 1e6:.6f},{response},{request},{think:.6f},{client / 1e6:.6f},{server / 1e6:.6f}\n"
        for start, response, request, think, client, server in columns
    )


@lru_cache(maxsize=2)
def connections(direction: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Start, bytes of request and of response, and delays of client and server; times in microseconds."""
    start = 0
    found = []
    for row in rows("d_packmime_schedule_load90"):
        start += int(row["gap_us"])
        if int(row["direction"]) == direction:
            sizes = int(row["request_bytes"]), int(row["response_bytes"])
            found.append((start, *sizes, int(row["client_us"]), int(row["server_us"])))
    return tuple(np.array(found).T)
