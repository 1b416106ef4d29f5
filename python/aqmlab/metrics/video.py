"""Computes the quality of adaptive video from the rows in the table `transfers` that belong to a workload of
the kind `video`.

Each row is a segment. The segment is requested at `start_s` and is complete `duration_s` later. The bit rate
of a segment is its size divided by its play time. The segments of a viewer belong to one flow. The play-out
is computed from the segments' arrival times by the rules of the workload's client: the video starts when
`start_up_s` of video is buffered, stalls when the buffer is empty, and resumes when `resume_s` is buffered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from aqmlab.metrics.tables import Floats

if TYPE_CHECKING:
    import numpy.typing as npt

COLUMNS = {
    "transfers": frozenset({"traffic", "flow", "start_s", "duration_s", "size_bytes"}),
    "flows": frozenset({"flow", "end_s"}),
}
"""Columns that a run must record, by table."""


@dataclass(frozen=True, kw_only=True)
class Player:
    """The play-out rules of a client. Times are in seconds."""

    segment_s: float
    start_up_s: float
    resume_s: float
    segments: float = math.inf
    """Number of segments of the video."""
    stop_s: float = math.inf
    """Time at which the viewers stop watching."""


@dataclass(frozen=True)
class Playback:
    """The play-out of one viewer."""

    came_s: float
    """Time of the first request."""
    start_up_s: float
    """Time from the first request to the first picture, or NaN if no picture was shown."""
    stalls: list[tuple[float, float]]
    """Start and end of each stall after the first picture."""

    def stalled_s(self, from_s: float, to_s: float) -> float:
        """Returns the total stalled time between two times."""
        return math.fsum(max(0.0, min(end, to_s) - max(begin, from_s)) for begin, end in self.stalls)


def playback(came_s: float, arrivals: Floats, player: Player, end_s: float) -> Playback:
    """Returns the play-out until `end_s` for a viewer whose first request was sent at `came_s` and whose
    segments arrived at `arrivals`."""
    start_up_s, stalls = math.nan, list[tuple[float, float]]()
    # The play time that is buffered at the time `at`.
    buffered, at, plays = 0.0, came_s, False
    for count, arrival in enumerate(arrivals.tolist(), start=1):
        if arrival > end_s:
            break
        if plays:
            if arrival - at > buffered:
                plays = False
                stalls.append((at + buffered, math.inf))
                buffered = 0.0
            else:
                buffered -= arrival - at
        at = arrival
        buffered += player.segment_s
        needed = player.start_up_s if math.isnan(start_up_s) else player.resume_s
        # Sums of play times may differ in the last bit because of rounding.
        if not plays and (buffered >= needed - 1e-9 or count >= player.segments):
            plays = True
            if math.isnan(start_up_s):
                start_up_s = arrival - came_s
            else:
                stalls[-1] = (stalls[-1][0], arrival)
    if plays and len(arrivals) < player.segments and end_s - at > buffered:
        stalls.append((at + buffered, math.inf))
    return Playback(came_s, start_up_s, [(begin, min(end, end_s)) for begin, end in stalls])


def viewers(
    transfers: pl.DataFrame, flows: pl.DataFrame, player: Player, end_s: float
) -> list[tuple[pl.DataFrame, Playback]]:
    """Returns, for each viewer of one workload, the segments in the order of the requests, and the play-out.
    The play-out ends at the end of the run, or when the viewer stops watching: at `stop_s`, or when the
    connection was closed during a segment."""
    ends: dict[int, float] = dict(flows.select("flow", "end_s").drop_nulls().iter_rows())
    found = []
    for (flow,), segments in transfers.sort("start_s").group_by("flow", maintain_order=True):
        durations = segments["duration_s"]
        arrivals = (segments["start_s"] + durations).drop_nulls().to_numpy().astype(np.float64)
        left_s = min(end_s, player.stop_s)
        if durations.null_count():
            left_s = min(left_s, ends.get(flow, math.inf))
        found.append((segments, playback(segments["start_s"][0], arrivals, player, left_s)))
    return found


def _bit_rates(segments: pl.DataFrame, segment_s: float, from_s: float) -> npt.NDArray[Any]:
    requested = segments.filter(pl.col("start_s") >= from_s)
    return requested["size_bytes"].to_numpy() * 8 / segment_s


def video_bitrate_bps(transfers: pl.DataFrame, player: Player, from_s: float) -> float:
    """Returns the mean bit rate of the segments that were requested at `from_s` or later. All segments have
    equal weights. Returns NaN if there are no such segments."""
    rates = _bit_rates(transfers, player.segment_s, from_s)
    return float(rates.mean()) if rates.size else math.nan


def video_switches(seen: list[tuple[pl.DataFrame, Playback]], from_s: float) -> float:
    """Returns the number of changes of the bit rate between consecutive segments, as a mean over viewers, or
    NaN if there are no viewers.

    Only segments that were requested at `from_s` or later are considered.
    """
    counts = [np.count_nonzero(np.diff(_bit_rates(segments, 1.0, from_s))) for segments, _ in seen]
    return float(np.mean(counts)) if counts else math.nan


def video_start_up_s(seen: list[tuple[pl.DataFrame, Playback]], from_s: float) -> float:
    """Returns the mean time from the first request to the first picture, over the viewers who started at
    `from_s` or later and saw a picture."""
    times = [one.start_up_s for _, one in seen if one.came_s >= from_s and not math.isnan(one.start_up_s)]
    return math.fsum(times) / len(times) if times else math.nan


def video_stall_s(seen: list[tuple[pl.DataFrame, Playback]], from_s: float, to_s: float) -> float:
    """Returns the mean over viewers of the stalled time after the first picture, within the period between
    two times, or NaN if there are no viewers."""
    times = [one.stalled_s(from_s, to_s) for _, one in seen]
    return math.fsum(times) / len(times) if times else math.nan
