"""Measures of the study `helsinki`: of single runs, and of all runs of a queue together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from aqmlab import metrics, stats
from aqmlab.measures import Reduction, Run
from aqmlab.results.rule import Estimate, statistic
from aqmlab.results.variable import Variable, number


def _elapsed(row: Mapping[str, Any], otherwise: float = math.nan) -> float:
    """The time from the SYN to the acknowledgement of the last byte."""
    value = row["acknowledged_s"]
    return otherwise if value is None else float(value)


def arrivals(run: Run, flow: int) -> pl.DataFrame:
    """The packets that arrived at the bottleneck. The columns `data`, `dropped` and `its` state whether a
    packet contains data, was dropped, and belongs to the flow."""
    arrived = run.tables["packets"].filter(pl.col("event").is_in(["enqueue", "drop"]))
    marks = {"data": pl.col("payload_bytes") > 0, "dropped": pl.col("event") == "drop"}
    return arrived.with_columns(**marks, its=pl.col("flow") == flow)


def _shares(arrived: pl.DataFrame, since_s: float, until_s: float) -> tuple[list[float], list[float]]:
    """The share of data packets that were dropped, and the bytes that were accepted, for the flow and for all
    other flows during a period."""
    data = arrived.filter("data", pl.col("time_s").is_between(since_s, until_s))
    of_both = [data.filter(pl.col("its") == its) for its in (True, False)]
    taken = [float(one.filter(~pl.col("dropped"))["size_bytes"].sum()) for one in of_both]
    return [number(one["dropped"].mean()) for one in of_both], taken


def _share(part: float, other: float) -> float:
    return part / (part + other) if part + other else math.nan


def _jain(rates: Sequence[float]) -> float:
    squares = math.fsum(rate**2 for rate in rates)
    return float(metrics.jain_of(math.fsum(rates), squares, len(rates))) if squares else math.nan


def _three_flows(run: Run) -> Mapping[str, Any]:
    """Times and retransmissions of the fastest and slowest initial flows and of the third flow, and the drops
    and bytes of each of these flows at the bottleneck while the third flow was active."""
    *initial, third = sorted(run.tables["transfers"].to_dicts(), key=lambda row: row["traffic"] == "third")
    fastest, slowest = sorted(initial, key=lambda row: _elapsed(row, math.inf))
    flows = {"fastest": fastest, "slowest": slowest, "third": third}
    arrived = arrivals(run, third["flow"])
    dropped, taken = _shares(arrived, third["start_s"], third["start_s"] + _elapsed(third, math.inf))
    its = arrived.filter("its", "data")
    again = ~its["sequence_bytes"].is_first_distinct()
    return {
        "fastest_s": _elapsed(fastest),
        "slowest_s": _elapsed(slowest),
        "elapsed_s": _elapsed(third),
        "handshake_s": number(third["handshake_s"]),
        **{f"retransmitted_{name}": float(row["retransmitted"]) for name, row in flows.items()},
        "third_timeouts": number(third["timeouts"]),
        "jain": _jain([row["size_bytes"] / _elapsed(row) for row in flows.values()]),
        "third_dropped": dropped[0],
        "others_dropped": dropped[1],
        "third_bytes": _share(*taken),
        "lost_again": float((its["dropped"] & again).sum()),
        "syns_lost": float(arrived.filter("its", "dropped", ~pl.col("data")).height),
    }


_third = Reduction(prefix="helsinki.third", of=_three_flows).measure

ELAPSED = _third("elapsed_s", "third flow's elapsed time", "s")
HANDSHAKE = _third("handshake_s", "third flow's handshake", "s")
FASTEST = _third("fastest_s", "fastest initial flow's elapsed time", "s")
SLOWEST = _third("slowest_s", "slowest initial flow's elapsed time", "s")
FASTEST_AGAIN = _third("retransmitted_fastest", "packets retransmitted by the fastest initial flow")
SLOWEST_AGAIN = _third("retransmitted_slowest", "packets retransmitted by the slowest initial flow")
THIRD_AGAIN = _third("retransmitted_third", "packets retransmitted by the third flow")
THIRD_DROPPED = _third("third_dropped", "fraction of the third flow's data that is dropped")
OTHERS_DROPPED = _third("others_dropped", "fraction of the other flows' data that is dropped")
THIRD_BYTES = _third("third_bytes", "third flow's share of the bytes")

_FLOWS = ("fastest initial flow", "slowest initial flow", "third flow")
TIMES = dict(zip(_FLOWS, (FASTEST, SLOWEST, ELAPSED), strict=True))
SENT_AGAIN = dict(zip(_FLOWS, (FASTEST_AGAIN, SLOWEST_AGAIN, THIRD_AGAIN), strict=True))

RECORDED_OF_THREE = (ELAPSED, HANDSHAKE, FASTEST, SLOWEST, *SENT_AGAIN.values())
"""Measures that are also available for the kernel's replications."""

SHARES = (THIRD_DROPPED, OTHERS_DROPPED, THIRD_BYTES)
LOCK_OUT = (
    _third("lost_again", "retransmissions lost again"),
    _third("syns_lost", "SYNs lost"),
    _third("third_timeouts", "time-outs"),
    _third("jain", "Jain's index"),
)
OF_THREE = (*RECORDED_OF_THREE, *SHARES, *LOCK_OUT)


def _with_udp(run: Run) -> Mapping[str, Any]:
    """Results of both flows, and the flows' shares of the bottleneck while both flows were active."""
    (tcp,) = run.tables["transfers"].to_dicts()
    (udp,) = run.tables["flows"].filter(pl.col("traffic") == "voice").to_dicts()
    arrived = arrivals(run, udp["flow"])
    times = arrived.filter("its")["time_s"]
    last_s = min(tcp["start_s"] + _elapsed(tcp, math.inf), number(times.max()))
    dropped, taken = _shares(arrived, number(times.min()), last_s)
    return {
        "tcp_s": _elapsed(tcp),
        "retransmitted": float(tcp["retransmitted"]),
        "datagrams": float(udp["datagrams_received"]),
        "udp_arrived": 1 - dropped[0],
        "jain": _jain(taken),
        "udp_share": _share(*taken),
    }


_udp = Reduction(prefix="helsinki.udp", of=_with_udp).measure

DATAGRAMS = _udp("datagrams", "datagrams received")
TCP_TIME = _udp("tcp_s", "TCP's elapsed time", "s")
UDP_ARRIVED = _udp("udp_arrived", "share of datagrams that arrive")
TCP_AGAIN = _udp("retransmitted", "packets retransmitted by TCP")
UDP_SHARE = _udp("udp_share", "UDP's share of the bytes")
FAIRNESS = _udp("jain", "Jain's index")

RECORDED_WITH_UDP = (DATAGRAMS, TCP_TIME)
WITH_UDP = (*RECORDED_WITH_UDP, UDP_ARRIVED, TCP_AGAIN, UDP_SHARE, FAIRNESS)

_OF_PACKET = ("time_s", "event", "link", "flow", "backward", "sequence_bytes", "payload_bytes", "size_bytes")


def _history(run: Run) -> Mapping[str, Any]:
    """The packets of the only flow whose history was recorded."""
    packets = run.tables["packets"].select(_OF_PACKET).with_columns(pl.col("event", "link").cast(pl.String))
    (flow,) = packets["flow"].unique().to_list()
    (row,) = run.tables["transfers"].filter(pl.col("flow") == flow).to_dicts()
    datagrams = run.tables["flows"]["datagrams_received"].max()
    return {"packets": packets.to_dict(as_series=False), "elapsed_s": _elapsed(row), "datagrams": datagrams}


_of_history = Reduction(prefix="helsinki.history", of=_history).measure

HISTORY = (
    PACKETS := _of_history("packets", "its packets"),
    TRACED_TIME := _of_history("elapsed_s", "TCP's elapsed time", "s"),
    TRACED_DATAGRAMS := _of_history("datagrams", "datagrams received"),
)

# Replications are resampled for all starts together

Values = npt.NDArray[np.float64]


def _ratio_of(
    how: str, variable: Variable, queues: tuple[str, str], of: Callable[[Values, int], Values]
) -> Estimate:
    """The ratio of a statistic for two queues. The arguments of `of` are the values by starting time,
    resample and replication, and the multiple of the replications' noise that these values contain. `of`
    returns a value for each resample."""

    def finds(values: Sequence[Sequence[Any]], level: float) -> stats.Interval:
        both = np.array(values, dtype=float).swapaxes(1, 2)
        both = both[..., ~np.isnan(both).any(axis=(0, 1))]
        count = both.shape[-1]

        def ratios(picked: npt.NDArray[np.int64], noises: int = 2) -> Values:
            """A resample contains the noise twice: once from the sample, and once from the resampling."""
            above, below = (of(one[:, picked], noises) for one in both)
            return np.asarray(np.divide(above, below, out=np.full(above.shape, np.inf), where=below > 0))

        found = stats.bootstrap(ratios, count, level)
        return replace(found, value=float(ratios(np.arange(count)[np.newaxis], 1)[0])) if count else found

    first, second = (variable.at(queue=one).along("start") for one in queues)
    return statistic(
        f"{how} {variable.name}, {'/'.join(queues)}",
        finds,
        first,
        second,
        title=f"{variable.name}, {how.rstrip(',')}, ratio of {' to '.join(queues)}",
    )


def spread_ratio(variable: Variable, queues: tuple[str, str]) -> Estimate:
    """The ratio of the spreads over the starting times."""
    how = "spread over the starts, without the noise of the replications,"
    return _ratio_of(how, variable, queues, _spread)


def _spread(values: Values, noises: int) -> Values:
    """The standard deviation of the expected value over the starting times. The variance of the means also
    contains the noise of the replications, which is subtracted; the result is zero if nothing remains.

    Variation that replications share at all starting times is not part of the spread, and is subtracted
    first.
    """
    apart = values - values.mean(axis=0)
    noise = apart.var(axis=-1) / max(values.shape[-1] - 1, 1)
    return np.asarray(np.sqrt(np.maximum((apart.mean(axis=-1) ** 2 - noises * noise).mean(axis=0), 0)))


def range_ratio(
    how: str, variable: Variable, queues: tuple[str, str], ends: tuple[float, float], *, pooled: bool
) -> Estimate:
    """The ratio of the distances between two quantiles of the replications. The distance is averaged over the
    starting times or, if `pooled`, computed from the runs of all starting times together."""

    def distance(values: Values, _: int) -> Values:
        if pooled:
            values = values.transpose(1, 0, 2).reshape(1, values.shape[1], -1)
        least, most = np.quantile(values, ends, axis=-1)
        return np.asarray((most - least).mean(axis=0))

    return _ratio_of(how, variable, queues, distance)
