"""Computes the quality of video calls from the tables `calls` and `frames`.

A freeze is counted as WebRTC counts freezes (`freezeCount` of W3C, "Identifiers for WebRTC's Statistics
API"): the simulator compares each gap between two rendered frames with the mean of the last 30 gaps. WebRTC
does not count a freeze that has not ended. This module also counts the gap between the last rendered frame
and the last second in which the sender was active, if this gap is at least three times, and at least 150 ms
longer than, the interval of the frame rate. Otherwise, a call whose video stops forever would have no freeze.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from aqmlab.metrics.tables import Tables

TABLES = frozenset({"calls", "frames"})
"""Tables that only runs with video calls have."""


def freeze_threshold_s(frame_rate: float) -> float:
    """Returns the minimum gap between two frames that is a freeze, if frames usually arrive at `frame_rate`
    (per second)."""
    return max(3 / frame_rate, 1 / frame_rate + 0.15)


@dataclass(frozen=True)
class VideoCalls:
    """The directions of a workload's calls in a period. A direction counts in the seconds in which its sender
    was active."""

    seconds: pl.DataFrame
    """Rows of the table `calls`."""
    frames: pl.DataFrame
    """Rows of the table `frames`."""
    frame_rate: float
    """Frames per second."""

    @classmethod
    def of(cls, tables: Tables, traffic: str, window: tuple[float, float], frame_rate: float) -> VideoCalls:
        """Selects a workload and a period `(start, end)`, in seconds. A second that begins before the start
        is left out."""
        start_s, end_s = window
        ours = pl.col("traffic").cast(pl.String) == traffic
        timed = ours & (pl.col("time_s") >= start_s) & (pl.col("time_s") < end_s)
        seconds = tables["calls"].filter(timed & (pl.col("packets_sent") > 0))
        return cls(seconds, tables["frames"].filter(timed), frame_rate)

    def received_bps(self) -> float | None:
        """Returns the mean received rate of a direction, including headers."""
        return self._mean("received_bps")

    def target_bps(self) -> float | None:
        """Returns the mean target rate of a direction, including headers."""
        return self._mean("target_bps")

    def _mean(self, column: str) -> float | None:
        return float(self.seconds[column].to_numpy().mean()) if self.seconds.height else None

    def freezes_per_minute(self) -> float | None:
        """Returns the number of freezes per minute of a direction."""
        if not self.seconds.height:
            return None
        count = int((self.frames["freeze_s"] > 0).sum()) + sum(1 for _ in self._unfinished_s())
        return 60 * count / self.seconds.height

    def frozen_share(self) -> float | None:
        """Returns the share of time in which the video was frozen."""
        if not self.seconds.height:
            return None
        frozen_s = float(self.frames["freeze_s"].sum()) + sum(self._unfinished_s())
        return min(1.0, frozen_s / self.seconds.height)

    def _unfinished_s(self) -> Iterator[float]:
        """Yields the lengths of the freezes that have not ended when the sender stops."""
        for (flow,), rows in self.seconds.group_by("flow", maintain_order=True):
            frames = self.frames.filter(pl.col("flow") == flow)
            rendered = (frames["time_s"] + frames["delay_s"]).drop_nulls()
            first_s, end_s = (
                float(rows["time_s"].to_numpy().min()),
                float(rows["time_s"].to_numpy().max()) + 1,
            )
            last_s = float(rendered.to_numpy().max()) if rendered.len() else first_s
            # The last second may have only begun when the sender stopped.
            if end_s - last_s >= 1 + freeze_threshold_s(self.frame_rate):
                yield end_s - last_s

    def rendered_share(self) -> float | None:
        """Returns the share of sent frames that were rendered."""
        frames = self.frames
        return 1 - frames["delay_s"].null_count() / frames.height if frames.height else None

    def frame_delay_s(self, q: float) -> float | None:
        """Returns a quantile of the time from the capture of a frame to its rendering."""
        found = self.frames["delay_s"].drop_nulls().quantile(q, interpolation="linear")
        return None if found is None else float(found)
