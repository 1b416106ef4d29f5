"""Time-sequence graphs, which show the sent, acknowledged and lost data of a flow over time.

The design of the graph is that of S. Ostermann's tcptrace (after V. Jacobson). Each segment is a vertical bar
at the segment's sending time, from the first to the last byte of the segment. The stepped line below the
segments shows the acknowledged data. The vertical distance between the segments and the line is the amount of
data in flight, and the horizontal distance is the round-trip time. Retransmissions have a different colour.

aqmlab adds crosses: a cross marks the time at which a queue dropped a segment, and the bytes of the segment.
End hosts cannot observe such drops. SACK blocks are drawn at the time when the sender received them. For
datagrams, which are not acknowledged, the graph shows the datagrams' numbers and arrival times.
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
"""The style of each kind of event."""

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
    "the run has no histories of flows: add the workload's name to record.histories in the scenario, or "
    "run the scenario with --set 'record.histories=[\"NAME\"]'"
)

MOST_NAMED = 12
"""Maximum number of flows or ranges of flows that an error message lists."""


def time_sequence(
    packets: pl.DataFrame, flow: int, *, name: str | None = None, link: str | None = None
) -> Chart:
    """Returns the time-sequence graph of a flow, from the table `packets` of a run with `record.histories`.

    In the title, `name` replaces the flow's number. With `link`, only the drops at this link are shown.
    Raises `LookupError` if the table has no history of the flow.
    """
    events = packets.with_columns(pl.col("event").cast(pl.String), pl.col("link").cast(pl.String))
    known = events.filter(pl.col("event").is_in(_AT_THE_ENDS))["flow"].unique().sort().to_list()
    if not known:
        raise LookupError(HOW_TO_RECORD)
    if flow not in known:
        raise LookupError(f"flow {flow} has no history; available: {_ranges(known)}")
    acknowledgement = pl.col("event").is_in(["acknowledge", "sack"])
    rows = events.filter((pl.col("flow") == flow) & (acknowledgement | ~pl.col("backward")))
    rows = rows.filter(pl.col("event").is_in(list(_EVENTS)))
    if link is not None:
        rows = rows.filter((pl.col("event") != "drop") | (pl.col("link") == link))
    # Only datagrams have no header in the simulation, so a datagram's size equals its payload.
    datagrams = not rows.filter(acknowledgement | (pl.col("payload_bytes") != pl.col("size_bytes"))).height
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
    """Returns the graph of a run's flow. The title contains the name of the flow's workload. Raises
    `LookupError` if the flow has no history, or if the link is unknown."""
    links = tables["links"]["link"].cast(pl.String).to_list()
    if link is not None and link not in links:
        raise LookupError(f"no managed link is named `{link}`; available: {', '.join(links)}")
    flows = tables["flows"]
    traffic = flows.filter(pl.col("flow") == flow)["traffic"].cast(pl.String).to_list()
    name = f"flow {flow} of {traffic[0]}" if traffic else None
    return time_sequence(tables["packets"], flow, name=name, link=link)


def recorded(scenario: Scenario) -> Scenario:
    """Returns the scenario with the histories of all workloads recorded."""
    return scenario.with_({"record.histories": list(scenario.effective["traffic"])})


def load(folder: Path) -> dict[str, pl.DataFrame]:
    """Reads the tables for the graph from a folder that `aqmlab run --out` wrote. Raises `ValueError` if a
    file is missing."""
    tables = {}
    for name in ("packets", "flows", "links"):
        path = folder / f"{name}.parquet"
        if not path.is_file():
            raise ValueError(f"{folder}: contains no {path.name}: use a folder that `aqmlab run --out` wrote")
        tables[name] = pl.read_parquet(path)
    return tables


def _ranges(numbers: Iterable[int]) -> str:
    """Returns ascending numbers as text, in which consecutive numbers are written as ranges."""
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    named = [f"{one[0]}" if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ends]
    return ", ".join(named[:MOST_NAMED] + ["..."] * (len(named) > MOST_NAMED))
