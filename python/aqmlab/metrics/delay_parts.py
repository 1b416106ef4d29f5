"""Divides the one-way delay of each datagram into queueing, transmission and propagation.

The queueing delay of a datagram is the time between its arrival at a queue and the start of its transmission.
The transmission time is the datagram's size divided by the link's rate. The remaining delay is the
propagation delay, which includes the access links and the hosts.
"""

from __future__ import annotations

import polars as pl

from aqmlab.metrics.tables import Tables

PARTS = ("queueing", "transmission", "propagation")
"""Names of the parts."""


def of_datagrams(tables: Tables, traffic: str, from_s: float) -> pl.DataFrame:
    """Returns the parts of the delay (s) of each datagram of a workload that was sent at `from_s` or later
    and that arrived. The columns are those of `PARTS`.

    The workload must be in `record.histories`, and all managed links of its path in `record.packets`. The
    rate of a link whose rate varies is the link's mean rate.
    """
    key = ["flow", "sequence_bytes"]
    ours = tables["flows"].filter(pl.col("traffic").cast(pl.String) == traffic).select("flow")
    rows = tables["packets"].join(ours, on="flow", how="semi").with_columns(pl.col("event").cast(pl.String))
    ends = rows.filter(pl.col("link").is_null())
    sent = ends.filter(pl.col("event") == "send").select(*key, sent_s="time_s")
    received = ends.filter(pl.col("event") == "receive").select(*key, received_s="time_s")
    at_links = rows.filter(pl.col("link").is_not_null())
    arrived = at_links.filter(pl.col("event") == "enqueue").select(*key, "link", arrived_s="time_s")
    started = at_links.filter(pl.col("event") == "start").select(
        *key, "link", "size_bytes", started_s="time_s"
    )
    rates = tables["links"].select("link", "rate_bps")
    hops = (
        started.join(arrived, on=[*key, "link"])
        .join(rates, on="link")
        .group_by(key)
        .agg(
            queueing=(pl.col("started_s") - pl.col("arrived_s")).sum(),
            transmission=(8 * pl.col("size_bytes") / pl.col("rate_bps")).sum(),
        )
    )
    return (
        sent.filter(pl.col("sent_s") >= from_s)
        .join(received, on=key)
        .join(hops, on=key)
        .sort(key)
        .with_columns(
            propagation=pl.col("received_s") - pl.col("sent_s") - pl.col("queueing") - pl.col("transmission")
        )
        .select(PARTS)
    )
