"""Measures of the study `rtc-cases`. All media flows of a run count, except where a workload is named."""

from __future__ import annotations

import polars as pl

from aqmlab import metrics
from aqmlab.measures import Measure, View
from aqmlab.metrics.video_calls import VideoCalls
from aqmlab.studies.shared import rows_of

FRAME_RATE = 30.0
"""Frames per second of all cases, which is the default."""


def _name(text: str) -> str:
    return f"rtc-cases.{text}"


def _seconds(view: View, first_s: float, last_s: float) -> pl.DataFrame:
    """The rows of the table `calls` between two times."""
    time = pl.col("time_s")
    return view.run.tables["calls"].filter((time >= first_s) & (time < last_s))


def rate(first_s: int, last_s: int, *, traffic: str | None = None, backward: bool = False) -> Measure:
    """The received rate of all media flows of a direction, or of a workload, between two times."""

    def compute(view: View) -> float:
        rows = _seconds(view, first_s, last_s).filter(pl.col("backward") == backward)
        if traffic is not None:
            rows = rows.filter(pl.col("traffic").cast(pl.String) == traffic)
        return float(rows["received_bps"].sum()) / (last_s - first_s) / 1e6

    which = traffic or ("backward" if backward else "")
    return Measure(
        name=_name("-".join(filter(None, ("rate", which, str(first_s), str(last_s))))),
        title=f"{f'{which} ' if which else ''}rate, {first_s}-{last_s} s",
        unit="Mb/s",
        compute=compute,
    )


def jain(first_s: int, last_s: int) -> Measure:
    """Jain's index of the received rates of the media flows between two times."""

    def compute(view: View) -> float | None:
        rows = _seconds(view, first_s, last_s).group_by("flow").agg(pl.col("received_bps").sum())
        rates = rows["received_bps"].to_numpy()
        squares = float((rates**2).sum())
        return float(metrics.jain_of(float(rates.sum()), squares, rates.size)) if squares > 0 else None

    name = _name(f"jain-{first_s}-{last_s}")
    return Measure(name=name, title=f"Jain's index, {first_s}-{last_s} s", unit="", compute=compute)


def goodput(traffic: str) -> Measure:
    """The goodput of a workload with TCP over the whole run."""
    return Measure(
        name=_name(f"goodput-{traffic}"),
        title=f"goodput of TCP ({traffic})",
        unit="Mb/s",
        compute=lambda view: float(rows_of(view.run, "flows", traffic)["goodput_bps"].sum()) / 1e6,
    )


def _all(view: View) -> VideoCalls:
    """The media flows of a run."""
    tables = view.run.tables
    active = tables["calls"].filter(pl.col("packets_sent") > 0)
    return VideoCalls(active, tables["frames"], FRAME_RATE)


def _delay_ms(view: View) -> float | None:
    found = _all(view).frame_delay_s(0.95)
    return None if found is None else 1e3 * found


def _lost(view: View) -> float | None:
    calls = view.run.tables["calls"]
    sent, received = (int(calls[column].sum()) for column in ("packets_sent", "packets_received"))
    return 100 * (1 - received / sent) if sent else None


DELAY = Measure(name=_name("p95-frame-delay"), title="frame delay, 95 %", unit="ms", compute=_delay_ms)
LOST = Measure(name=_name("lost"), title="media packets lost", unit="%", compute=_lost)
FREEZES = Measure(
    name=_name("freezes"),
    title="freezes per minute",
    unit="",
    compute=lambda view: _all(view).freezes_per_minute(),
)

QUALITY = (DELAY, LOST, FREEZES)
"""The measures of all cases."""
