"""What the viewers of an adaptive video see, of the rows that the workload `video` leaves in `transfers`.

A row is a segment: asked for at `start_s`, there after `duration_s`, its bit rate the size over its play
time. The segments of a viewer are one flow. What plays when follows from when segments came, as the client of
the workload has it: play begins when `start_up_s` is buffered, stands still when the buffer runs dry, and
goes on when `resume_s` is.
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
"""What must be kept of a run, by table."""


@dataclass(frozen=True, kw_only=True)
class Player:
    """How a client plays; times in seconds."""

    segment_s: float
    start_up_s: float
    resume_s: float
    segments: float = math.inf
    """How many the video has."""
    stop_s: float = math.inf
    """When viewers turn away."""


@dataclass(frozen=True)
class Playback:
    """What one viewer saw."""

    came_s: float
    """When it came."""
    start_up_s: float
    """From then to the first picture; NaN if there was none."""
    stalls: list[tuple[float, float]]
    """From when to when play stood still afterwards."""

    def stalled_s(self, from_s: float, to_s: float) -> float:
        """For how long play stood still between two moments."""
        return math.fsum(max(0.0, min(end, to_s) - max(begin, from_s)) for begin, end in self.stalls)


def playback(came_s: float, arrivals: Floats, player: Player, end_s: float) -> Playback:
    """What a viewer saw until `end_s` who came at `came_s`, and whose segments came at `arrivals`."""
    start_up_s, stalls = math.nan, list[tuple[float, float]]()
    # Play time that has come; how much of it is not played yet, and when that was so.
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
        # A sum of play times may be off by the last bit.
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
    """The segments of each viewer of one workload, in the order of their requests, and what it saw until the
    end of the run, or until it turned away: at `stop_s`, or when its connection was gone with a segment under
    way."""
    ends: dict[int, float] = dict(flows.select("flow", "end_s").drop_nulls().iter_rows())
    found = []
    for (flow,), segments in transfers.sort("start_s").group_by("flow", maintain_order=True):
        durations = segments["duration_s"]
        arrivals = (segments["start_s"] + durations).drop_nulls().to_numpy().astype(np.float64)
        turned = min(end_s, player.stop_s)
        if durations.null_count():
            turned = min(turned, ends.get(flow, math.inf))
        found.append((segments, playback(segments["start_s"][0], arrivals, player, turned)))
    return found


def _bit_rates(segments: pl.DataFrame, segment_s: float, from_s: float) -> npt.NDArray[Any]:
    asked = segments.filter(pl.col("start_s") >= from_s)
    return asked["size_bytes"].to_numpy() * 8 / segment_s


def video_bitrate_bps(transfers: pl.DataFrame, player: Player, from_s: float) -> float:
    """Mean bit rate of the segments asked for from a moment on, each counted once; NaN without one."""
    rates = _bit_rates(transfers, player.segment_s, from_s)
    return float(rates.mean()) if rates.size else math.nan


def video_switches(seen: list[tuple[pl.DataFrame, Playback]], from_s: float) -> float:
    """How often the bit rate changed from one segment to the next, mean over viewers; NaN without one.

    Both segments were asked for from the moment `from_s` on.
    """
    counts = [np.count_nonzero(np.diff(_bit_rates(segments, 1.0, from_s))) for segments, _ in seen]
    return float(np.mean(counts)) if counts else math.nan


def video_start_up_s(seen: list[tuple[pl.DataFrame, Playback]], from_s: float) -> float:
    """From the first request to the first picture, mean over viewers who came after a moment and saw it."""
    times = [one.start_up_s for _, one in seen if one.came_s >= from_s and not math.isnan(one.start_up_s)]
    return math.fsum(times) / len(times) if times else math.nan


def video_stall_s(seen: list[tuple[pl.DataFrame, Playback]], from_s: float, to_s: float) -> float:
    """For how long play, once begun, stood still between two moments, mean over viewers; NaN without one."""
    times = [one.stalled_s(from_s, to_s) for _, one in seen]
    return math.fsum(times) / len(times) if times else math.nan
