"""The time-sequence graph: what a flow sent, when it was acknowledged, and what was lost where.

The picture of S. Ostermann's tcptrace (after V. Jacobson): each segment is a bar at the time it was sent,
from its first byte to its last; the steps below are what the sender knows to have arrived, so the height
between them is what is under way, and the width the round-trip time. Retransmissions have a colour of their
own.

Ours: a segment that a queue drops is crossed out at the time and the bytes of the drop, which nobody at an
end can see; what SACK tells is drawn where it was heard. A stream of datagrams, which nobody acknowledges,
shows their numbers, and when they arrived.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from aqmlab.charts.chart import Chart, Mark

if TYPE_CHECKING:
    from aqmlab.scenario import Scenario

SENT, AGAIN, ACKNOWLEDGED, SACKED, RECEIVED = "sent", "sent again", "acknowledged", "SACK", "arrived"
DROPPED = "dropped"

MARKS: Mapping[str, Mark] = {
    SENT: Mark(colour="#0072B2", shape="bar"),
    AGAIN: Mark(colour="#F0A202", shape="bar", width=3.2, layer=5),
    DROPPED: Mark(colour="#C1121F", shape="cross", width=1.2, layer=4),
    ACKNOWLEDGED: Mark(colour="#009E73", shape="steps", width=1.3, layer=2),
    SACKED: Mark(colour="#D9A5C6", shape="bar", width=0.9, layer=2),
    RECEIVED: Mark(colour="#009E73", shape="dot", width=2.0, layer=2),
}
"""How each kind of event looks."""

_EVENTS = {
    "send": SENT,
    "retransmit": AGAIN,
    "acknowledge": ACKNOWLEDGED,
    "sack": SACKED,
    "receive": RECEIVED,
    "drop": DROPPED,
}

_AT_THE_ENDS = ("send", "retransmit", "receive", "acknowledge", "sack")

HOW_TO_RECORD = (
    "the run has no histories of flows: write the workload's name in record.histories of the scenario, or "
    "run it with --set 'record.histories=[\"NAME\"]'"
)

MOST_NAMED = 12
"""Flows, or ranges of them, that an error names."""


def time_sequence(
    packets: pl.DataFrame, flow: int, *, name: str | None = None, link: str | None = None
) -> Chart:
    """The time-sequence graph of a flow in the table `packets` of a run with `record.histories`.

    `name` stands above it, in place of the flow's number; `link` leaves out what other links dropped. Raises
    `LookupError` if the table has no history of the flow.
    """
    events = packets.with_columns(pl.col("event").cast(pl.String), pl.col("link").cast(pl.String))
    known = events.filter(pl.col("event").is_in(_AT_THE_ENDS))["flow"].unique().sort().to_list()
    if not known:
        raise LookupError(HOW_TO_RECORD)
    if flow not in known:
        raise LookupError(f"flow {flow} has no history; there is one of {_ranges(known)}")
    heard = pl.col("event").is_in(["acknowledge", "sack"])
    rows = events.filter((pl.col("flow") == flow) & (heard | ~pl.col("backward")))
    rows = rows.filter(pl.col("event").is_in(list(_EVENTS)))
    if link is not None:
        rows = rows.filter((pl.col("event") != "drop") | (pl.col("link") == link))
    # Only a datagram has no header of its own: its payload is all of it.
    datagrams = not rows.filter(heard | (pl.col("payload_bytes") != pl.col("size_bytes"))).height
    if not datagrams:
        rows = rows.filter(pl.col("event") != "receive")
    unit, length = (1.0, pl.lit(1)) if datagrams else (1e-3, pl.col("payload_bytes"))
    y = "datagram" if datagrams else "sequence_kB"
    title = name if name is not None else f"flow {flow}"
    table = rows.select(
        pl.lit(title).alias("flow"),
        pl.col("event").replace_strict(_EVENTS, return_dtype=pl.String),
        "time_s",
        (pl.col("sequence_bytes") * unit).alias(y),
        ((pl.col("sequence_bytes") + length) * unit).alias("end"),
        "link",
    )
    return Chart(
        kind="marks",
        table=table,
        x="time_s",
        y=y,
        by="event",
        x_label="time (s)",
        y_label="datagram number" if datagrams else "sequence (kB)",
        panel="flow",
        marks=MARKS,
    )


def of_tables(tables: Mapping[str, pl.DataFrame], flow: int, *, link: str | None = None) -> Chart:
    """The graph of a flow of a run, with the name of its workload; `LookupError` if there is none of it."""
    links = tables["links"]["link"].cast(pl.String).to_list()
    if link is not None and link not in links:
        raise LookupError(f"no managed link is named `{link}`; there is {', '.join(links)}")
    flows = tables["flows"]
    traffic = flows.filter(pl.col("flow") == flow)["traffic"].cast(pl.String).to_list()
    name = f"flow {flow} of {traffic[0]}" if traffic else None
    return time_sequence(tables["packets"], flow, name=name, link=link)


def recorded(scenario: Scenario) -> Scenario:
    """The scenario with the histories of all its workloads recorded."""
    return scenario.with_({"record.histories": list(scenario.effective["traffic"])})


def load(folder: Path) -> dict[str, pl.DataFrame]:
    """The tables that `aqmlab run --out` wrote and the graph needs; `ValueError` if they are not there."""
    tables = {}
    for name in ("packets", "flows", "links"):
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise ValueError(f"{folder}: holds no {path.name}: name a folder that `aqmlab run --out` wrote")
        tables[name] = pl.read_parquet(path)
    return tables


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers in rising order, those that follow one another as a range."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    named = [f"{one[0]}" if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ends]
    return ", ".join(named[:MOST_NAMED] + ["..."] * (len(named) > MOST_NAMED))
