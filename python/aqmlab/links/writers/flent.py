"""Writes a run as a Flent data file, which flent and flent-gui open.

Source: Flent 2.3, flent/resultset.py (version 4 of the format) and flent/tests: the names of the tests and
of their series. Each flow of an endless TCP workload is one stream of the test. A dumbbell's data from left
to right are a download; in a graph, the data of the first such workload are. Pings are computed from two
datagrams, one in each direction, which the workload `flent-ping` sends every 200 ms.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aqmlab._core import __version__
from aqmlab._support import files
from aqmlab.metrics.tables import seconds
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run

if TYPE_CHECKING:
    import polars as pl

SUFFIX = ".flent.gz"
VERSION = 4
STEP_S = 0.2
"""Interval between the samples: Flent's default."""

PING = "flent-ping"
"""Name of the workload that measures round-trip times."""
PING_BYTES = 84
"""Length of the packets of `ping`, which Flent starts without a size: 56 bytes of data, 8 of ICMP, 20 of
IPv4."""

DELAY_S = 5
"""Time before the streams of a Flent test start, and time after their end. Flent's plots leave these times
out."""

TIME = "2000-01-01T00:00:00.000000Z"
EPOCH_S = 946_684_800.0
"""Time of the run in the file, which is always the same, so that equal runs produce equal files. aqmlab's
choice."""

Floats = npt.NDArray[np.float64]
Values = list[float | None]


@dataclass(frozen=True, kw_only=True)
class _Stream:
    flow: int
    is_upload: bool


def recorded(scenario: Scenario) -> Scenario:
    """The scenario, changed to record the data of a Flent file: the histories and the senders of the endless
    TCP workloads, and a workload that measures round-trip times with 3.4 kb/s in each direction.

    Raises `ValueError` if the scenario has no endless TCP workload, or is not at packet level."""
    if scenario.level != "packet":
        raise ValueError(f"flent: needs a scenario of the level packet (got {scenario.name})")
    chosen = _streams_of(scenario)
    if not chosen:
        found = ", ".join(scenario.workloads) or "none"
        raise ValueError(
            "flent: needs a TCP workload that sends until the end of the run, such as ftp, but the "
            f"workloads of {scenario.name} are: {found}"
        )
    changes: dict[str, Any] = {}
    if PING not in scenario.workloads:
        nodes = {key: scenario.effective["traffic"][chosen[0]].get(key) for key in ("from", "to")}
        changes[f"traffic.{PING}"] = {
            "kind": "call",
            "every": f"{round(1000 * STEP_S)}ms",
            "packet": f"{PING_BYTES}B",
            **{key: node for key, node in nodes.items() if node is not None},
        }
    record = scenario.effective["record"]
    changes["record.histories"] = list(dict.fromkeys([*record["histories"], *chosen, PING]))
    changes["record.senders"] = list(dict.fromkeys([*record["senders"], *chosen]))
    return scenario.with_(changes)


def _streams_of(scenario: Scenario) -> list[str]:
    return [
        name
        for name, workload in scenario.workloads.items()
        if workload.is_endless and not workload.sends_datagrams
    ]


def write(run: Run, target: Path, title: str) -> Path:
    """Writes a run of a scenario from `recorded` and returns the path. If `target` does not end with
    `.flent.gz`, it is a folder, in which the file gets a name as Flent's own files. An existing file is
    replaced.

    Raises `ValueError` if the run has no flow of an endless TCP workload."""
    table = _document(run, title)
    path = target
    if not target.name.endswith(SUFFIX):
        target.mkdir(parents=True, exist_ok=True)
        time = TIME[: TIME.index(".")].replace(":", "")
        path = target / f"{table['metadata']['NAME']}-{time}.{re.sub('[^A-Za-z0-9-]', '_', title)}{SUFFIX}"
    text = json.dumps(table, indent=2, allow_nan=False).encode()
    files.write_bytes(path, gzip.compress(text, mtime=0))
    return path


def _document(run: Run, title: str) -> dict[str, Any]:
    scenario = run.manifest["scenario"]
    duration_s = seconds(scenario["duration"])
    steps = max(math.floor(duration_s / STEP_S + 1e-9), 1)
    times = [round(STEP_S * number, 6) for number in range(1, steps + 1)]
    streams = _streams(run)
    if not streams:
        raise ValueError("flent: the run has no flow of a TCP workload that sends until the end of the run")
    name, parameters, names = _test(streams)
    results: dict[str, Values] = {}
    raw: dict[str, list[dict[str, float]]] = {}
    units: dict[str, str] = {}
    received = _received(run.tables["packets"], times)
    states = _states(run.tables["senders"], times)
    for stream, series in zip(streams, names, strict=True):
        results[series] = received.get(stream.flow, [None] * len(times))
        units[series] = "Mbits/s"
        extra = states.get(stream.flow, {})
        raw[series] = _raw(times, results[series], extra)
        for key, (values, unit) in extra.items():
            results[f"{series}::{key}"], units[f"{series}::{key}"] = values, unit
    for series, values, unit in _sums(name, names, results):
        results[series], units[series] = values, unit
    pings = _pings(run, times)
    ping_names = ["Ping (ms) ICMP"]
    if name == "rrul_be_nflows":
        ping_names += ["Ping (ms) UDP BE", "Ping (ms) avg"]
    for series in ping_names:
        results[series], units[series] = pings, "ms"
        raw[series] = _raw(times, pings, {})
    meta = {
        series: {"UNITS": units[series], "MEAN_VALUE": _mean(values)} for series, values in results.items()
    }
    metadata = {
        "NAME": name,
        "TITLE": title,
        "TIME": TIME,
        "T0": TIME,
        "HOST": "aqmlab",
        "LOCAL_HOST": "aqmlab",
        "LENGTH": max(round(duration_s) - 2 * DELAY_S, 1),
        "TOTAL_LENGTH": round(duration_s),
        "STEP_SIZE": STEP_S,
        "TEST_PARAMETERS": parameters,
        "IP_VERSION": 4,
        "NOTE": f"Simulated by aqmlab {__version__}, scenario {run.manifest['digest']}, "
        f"seed {run.manifest['seed']}",
        "SERIES_META": meta,
    }
    return {
        "metadata": metadata,
        "version": VERSION,
        "x_values": times,
        "results": results,
        "raw_values": raw,
    }


def _streams(run: Run) -> list[_Stream]:
    """Returns the streams of the test, downloads last, in the order of their flows."""
    from aqmlab.scenario.workloads import workloads

    traffic = run.manifest["scenario"]["traffic"]
    known = workloads(run.manifest["scenario"])
    chosen = [name for name, one in known.items() if one.is_endless and not one.sends_datagrams]
    if not chosen:
        return []
    first_node = "left" if "bottleneck" in run.manifest["scenario"] else traffic[chosen[0]].get("from")
    rows = run.tables["flows"].select("flow", "traffic").cast({"traffic": str}).iter_rows()
    found = [
        _Stream(flow=flow, is_upload=traffic[name].get("from", first_node) != first_node)
        for flow, name in rows
        if name in chosen
    ]
    return sorted(found, key=lambda one: (not one.is_upload, one.flow))


def _test(streams: Sequence[_Stream]) -> tuple[str, dict[str, str], list[str]]:
    """Returns the name of Flent's test with these streams, its parameters, and the names of the streams'
    series."""
    ups = sum(one.is_upload for one in streams)
    downs = len(streams) - ups
    if ups and downs:
        if (ups, downs) == (1, 1):
            return "tcp_bidirectional", {}, ["TCP upload", "TCP download"]
        names = [f"TCP upload BE::{number}" for number in range(1, ups + 1)]
        names += [f"TCP download BE::{number}" for number in range(1, downs + 1)]
        return "rrul_be_nflows", {"upload_streams": str(ups), "download_streams": str(downs)}, names
    way, short = ("upload", "up") if ups else ("download", "down")
    if len(streams) == 1:
        return f"tcp_1{short}", {}, [f"TCP {way}"]
    names = [f"TCP {way}::{number}" for number in range(1, len(streams) + 1)]
    return f"tcp_n{short}", {f"{way}_streams": str(len(streams))}, names


def _sums(test: str, names: Sequence[str], results: Mapping[str, Values]) -> list[tuple[str, Values, str]]:
    """Returns the series that Flent derives from the streams: sums, means and fairness."""
    found = []
    for way in ("upload", "download"):
        own = [results[name] for name in names if name.startswith(f"TCP {way}")]
        if not own or names in ([f"TCP {way}"], ["TCP upload", "TCP download"]):
            continue
        rows = [[value for value in row if value is not None] for row in zip(*own, strict=True)]
        found.append((f"TCP {way} sum", [sum(row) if row else None for row in rows], "Mbits/s"))
        found.append((f"TCP {way} avg", [sum(row) / len(row) if row else None for row in rows], "Mbits/s"))
        if test in ("tcp_nup", "tcp_ndown"):
            found.append((f"TCP {way} fairness", [_fairness(row) for row in rows], "Idx"))
    if test == "rrul_be_nflows":
        totals = zip(*(results[name] for name in names), strict=True)
        values = [[value for value in row if value is not None] for row in totals]
        found.append(("TCP totals", [sum(row) if row else None for row in values], "Mbits/s"))
    return found


def _fairness(row: Sequence[float]) -> float | None:
    squares = sum(value * value for value in row)
    return sum(row) ** 2 / (len(row) * squares) if squares else None


def _raw(
    times: Sequence[float], values: Values, extra: Mapping[str, tuple[Values, str]]
) -> list[dict[str, float]]:
    points = []
    for place, (time, value) in enumerate(zip(times, values, strict=True)):
        if value is None:
            continue
        point = {"t": EPOCH_S + time, "val": value}
        more = {key: series[place] for key, (series, _) in extra.items()}
        points.append(point | {key: one for key, one in more.items() if one is not None})
    return points


def _mean(values: Values) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _received(packets: pl.DataFrame, times: Sequence[float]) -> dict[int, Values]:
    """Returns, by flow, the received payload in Mbit/s in each interval; `None` before the first and after
    the last payload."""
    import polars as pl

    rows = packets.filter(
        pl.col("event").cast(pl.String) == "receive", ~pl.col("backward"), pl.col("payload_bytes") > 0
    ).select("flow", "time_s", "payload_bytes")
    edges = np.array([0.0, *times])
    found: dict[int, Values] = {}
    for (flow,), part in rows.group_by("flow", maintain_order=True):
        weights = part["payload_bytes"].to_numpy().astype(np.float64)
        sums, _ = np.histogram(part["time_s"].to_numpy(), edges, weights=weights)
        busy = np.flatnonzero(sums)
        if not busy.size:
            continue
        found[int(flow)] = [
            round(8e-6 * value / STEP_S, 6) if busy[0] <= place <= busy[-1] else None
            for place, value in enumerate(sums.tolist())
        ]
    return found


_STATES = {
    "tcp_cwnd": ("cwnd_segments", 1.0, "segments"),
    "tcp_rtt": ("srtt_s", 1e3, "ms"),
    "tcp_pacing_rate": ("pacing_rate_bps", 1e-6, "Mbits/s"),
}
"""Flent's names of socket statistics: the column of the table `senders`, the factor and the unit."""


def _states(senders: pl.DataFrame, times: Sequence[float]) -> dict[int, dict[str, tuple[Values, str]]]:
    """Returns, by flow, the last state of the sender at each time."""
    found: dict[int, dict[str, tuple[Values, str]]] = {}
    for (flow,), part in senders.group_by("flow", maintain_order=True):
        at = part["time_s"].to_numpy()
        places = np.searchsorted(at, np.array(times), side="right") - 1
        series: dict[str, tuple[Values, str]] = {}
        for key, (column, factor, unit) in _STATES.items():
            values = part[column].to_list()
            if any(value is not None for value in values):
                at_times = [values[place] if place >= 0 else None for place in places.tolist()]
                series[key] = (
                    [None if value is None else round(factor * value, 6) for value in at_times],
                    unit,
                )
        found[int(flow)] = series
    return found


def _pings(run: Run, times: Sequence[float]) -> Values:
    """Returns the round-trip time in ms at each time: the delay of a datagram that the home sends, and the
    delay of an answer at the moment at which the datagram arrives, interpolated between two datagrams."""
    import polars as pl

    packets, flows = run.tables["packets"], run.tables["flows"]
    own = flows.filter(pl.col("traffic").cast(pl.String) == PING)["flow"].to_list()
    if len(own) != 2:
        return [None] * len(times)
    there, back = (_datagrams(packets, flow) for flow in reversed(own))
    known = ~np.isnan(back[1])
    if not known.any():
        return [None] * len(times)
    found: Values = [None] * len(times)
    for sent_s, delay_s in zip(there[0].tolist(), there[1].tolist(), strict=True):
        place = math.ceil(sent_s / STEP_S - 1e-9) - 1
        if 0 <= place < len(times) and not math.isnan(delay_s):
            answer = np.interp(sent_s + delay_s, back[0][known], back[1][known])
            found[place] = round(1e3 * (delay_s + float(answer)), 6)
    return found


def _datagrams(packets: pl.DataFrame, flow: int) -> tuple[Floats, Floats]:
    """Returns the times at which the datagrams of a flow were sent, and their delays; NaN for lost
    datagrams."""
    import polars as pl

    rows = packets.filter(pl.col("flow") == flow).with_columns(pl.col("event").cast(pl.String))
    key = "sequence_bytes"
    sent = rows.filter(pl.col("event") == "send").select(key, sent_s="time_s")
    received = rows.filter(pl.col("event") == "receive").select(key, received_s="time_s")
    both = sent.join(received, on=key, how="left").sort("sent_s")
    times = both["sent_s"].to_numpy().astype(np.float64)
    arrivals = both["received_s"].cast(pl.Float64).fill_null(math.nan).to_numpy()
    return times, arrivals - times
