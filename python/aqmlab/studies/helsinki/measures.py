"""What the runs of the study `helsinki` are reduced to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aqmlab import metrics
from aqmlab.measures import Reduction, Run
from aqmlab.results.variable import number

_COLUMNS = ("flow", "start_s", "size_bytes", "handshake_s", "acknowledged_s", "retransmitted", "timeouts")


def _transfers(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The transfers of a run by workload; so few that a query for each would take longer."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in run.tables["transfers"].select("traffic", *_COLUMNS).to_dicts():
        found.setdefault(row["traffic"], []).append(row)
    return found


def _elapsed(row: Mapping[str, Any], otherwise: float = math.nan) -> float:
    """From the SYN to the last byte acknowledged."""
    value = row["acknowledged_s"]
    return otherwise if value is None else float(value)


class Arrivals:
    """The data that came to the bottleneck: when, of which flow, where in it, how much, and whether it
    was dropped."""

    def __init__(self, run: Run) -> None:
        came = run.tables["packets"].filter(pl.col("event").is_in(["enqueue", "drop"]))
        self.carries_data = (came["payload_bytes"] > 0).to_numpy()
        self.time_s = came["time_s"].to_numpy()
        self.flow = came["flow"].to_numpy()
        self.sequence = came["sequence_bytes"].to_numpy()
        self.size = came["size_bytes"].to_numpy()
        self.dropped = (came["event"] == "drop").to_numpy()

    def between(self, since_s: float, until_s: float) -> Any:
        """Which of the data came in a period."""
        return self.carries_data & (self.time_s >= since_s) & (self.time_s <= until_s)


def sent_again(sequence: Any) -> Any:
    """Which of the segments had come before."""
    first = np.zeros(sequence.size, dtype=bool)
    first[np.unique(sequence, return_index=True)[1]] = True
    return ~first


def _jain(rates: Sequence[float]) -> float:
    squares = math.fsum(rate**2 for rate in rates)
    return float(metrics.jain_of(math.fsum(rates), squares, len(rates))) if squares else math.nan


def _share(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else math.nan


# Test case 1: three TCP flows


def _three_flows(run: Run) -> Mapping[str, Any]:
    """Times and retransmissions of the fastest and slowest initial flow and of the third, and what the
    bottleneck did to each while the third was active."""
    transfers = _transfers(run)
    (third,) = transfers.pop("third")
    initial = [row for rows in transfers.values() for row in rows]
    fastest, slowest = sorted(initial, key=lambda row: _elapsed(row, math.inf))
    flows = {"fastest": fastest, "slowest": slowest, "third": third}
    return {
        "fastest_s": _elapsed(fastest),
        "slowest_s": _elapsed(slowest),
        "elapsed_s": _elapsed(third),
        "handshake_s": number(third["handshake_s"]),
        **{f"retransmitted_{name}": float(row["retransmitted"]) for name, row in flows.items()},
        "third_timeouts": number(third["timeouts"]),
        "jain": _jain([row["size_bytes"] / _elapsed(row) for row in flows.values()]),
        **_while_active(run, third),
    }


def _while_active(run: Run, third: Mapping[str, Any]) -> Mapping[str, float]:
    came = Arrivals(run)
    active = came.between(third["start_s"], third["start_s"] + _elapsed(third, math.inf))
    its = came.flow == third["flow"]
    lost = came.dropped
    bytes_in = np.where(active & ~lost, came.size, 0)
    again = sent_again(came.sequence[its & came.carries_data])
    return {
        "third_dropped": _share(lost[active & its].sum(), (active & its).sum()),
        "others_dropped": _share(lost[active & ~its].sum(), (active & ~its).sum()),
        "third_bytes": _share(bytes_in[its].sum(), bytes_in.sum()),
        "lost_again": float((again & lost[its & came.carries_data]).sum()),
        "syns_lost": float((its & lost & ~came.carries_data).sum()),
    }


_of_three = Reduction(prefix="helsinki.third", of=_three_flows).measure

TIMES = {
    "fastest initial flow": _of_three("fastest_s", "fastest initial flow's elapsed time", "s"),
    "slowest initial flow": _of_three("slowest_s", "slowest initial flow's elapsed time", "s"),
    "third flow": _of_three("elapsed_s", "third flow's elapsed time", "s"),
}
SENT_AGAIN = {
    "fastest initial flow": _of_three("retransmitted_fastest", "packets the fastest sends again"),
    "slowest initial flow": _of_three("retransmitted_slowest", "packets the slowest sends again"),
    "third flow": _of_three("retransmitted_third", "packets the third sends again"),
}
FASTEST, SLOWEST, ELAPSED = TIMES.values()

RECORDED_OF_THREE = (
    ELAPSED,
    HANDSHAKE := _of_three("handshake_s", "third flow's handshake", "s"),
    FASTEST,
    SLOWEST,
    *SENT_AGAIN.values(),
)
"""What the kernel's replications have, too."""

WHILE_ACTIVE = (
    THIRD_DROPPED := _of_three("third_dropped", "share of the third flow's data dropped"),
    OTHERS_DROPPED := _of_three("others_dropped", "share of the others' data dropped"),
    THIRD_BYTES := _of_three("third_bytes", "third flow's share of the bytes"),
    _of_three("lost_again", "retransmissions lost again"),
    _of_three("syns_lost", "SYNs lost"),
    _of_three("third_timeouts", "time-outs"),
    _of_three("jain", "Jain's index"),
)

OF_THREE = (*RECORDED_OF_THREE, *WHILE_ACTIVE)

# Test case 2: a TCP flow and a UDP flow


def _with_udp(run: Run) -> Mapping[str, Any]:
    """What became of both flows, and how they shared the bottleneck while both were active."""
    (tcp,) = _transfers(run)["file"]
    flows = run.tables["flows"].select("traffic", "flow", "datagrams_received").to_dicts()
    (udp,) = [row for row in flows if row["traffic"] == "voice"]
    came = Arrivals(run)
    of_udp = came.flow == udp["flow"]
    until_s = min(tcp["start_s"] + _elapsed(tcp, math.inf), float(came.time_s[of_udp].max()))
    both = came.between(float(came.time_s[of_udp].min()), until_s)
    accepted = np.where(both & ~came.dropped, came.size, 0)
    shares = [float(accepted[of_udp].sum()), float(accepted[~of_udp].sum())]
    return {
        "tcp_s": _elapsed(tcp),
        "retransmitted": float(tcp["retransmitted"]),
        "datagrams": float(udp["datagrams_received"]),
        "udp_arrived": 1 - _share(came.dropped[both & of_udp].sum(), (both & of_udp).sum()),
        "jain": _jain(shares),
        "udp_share": _share(shares[0], math.fsum(shares)),
    }


_of_udp = Reduction(prefix="helsinki.udp", of=_with_udp).measure

RECORDED_WITH_UDP = (
    DATAGRAMS := _of_udp("datagrams", "datagrams received"),
    TCP_TIME := _of_udp("tcp_s", "TCP's elapsed time", "s"),
)

SHARING = (
    UDP_ARRIVED := _of_udp("udp_arrived", "share of datagrams that arrive"),
    TCP_SENT_AGAIN := _of_udp("retransmitted", "packets TCP sends again"),
    UDP_SHARE := _of_udp("udp_share", "UDP's share of the bytes"),
    FAIRNESS := _of_udp("jain", "Jain's index"),
)

WITH_UDP = (*RECORDED_WITH_UDP, *SHARING)

# Sequences against the time, of single runs

_REMEMBERED = (
    *("time_s", "event", "link", "flow", "backward"),
    *("sequence_bytes", "payload_bytes", "size_bytes"),
)


def _history(run: Run) -> Mapping[str, Any]:
    """What happened to the segments of the only flow that was remembered."""
    packets = run.tables["packets"].select(_REMEMBERED)
    packets = packets.with_columns(pl.col("event", "link").cast(pl.String))
    (flow,) = packets["flow"].unique().to_list()
    (row,) = run.tables["transfers"].filter(pl.col("flow") == flow).select(_COLUMNS).to_dicts()
    return {
        "flow": flow,
        "packets": packets.to_dict(as_series=False),
        "elapsed_s": _elapsed(row),
        "datagrams": run.tables["flows"]["datagrams_received"].max(),
    }


_of_history = Reduction(prefix="helsinki.history", of=_history).measure

HISTORY = (
    FLOW := _of_history("flow", "the flow's number"),
    PACKETS := _of_history("packets", "its packets"),
    TRACED_TIME := _of_history("elapsed_s", "TCP's elapsed time", "s"),
    TRACED_DATAGRAMS := _of_history("datagrams", "datagrams received"),
)
