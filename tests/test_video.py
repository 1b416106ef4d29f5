"""Adaptive video: what a viewer saw follows from when segments came, by hand and as the workload saw it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import aqmlab as al
from aqmlab import measures
from aqmlab.measures import View
from aqmlab.metrics import video

ROOT = Path(__file__).parent.parent
PLAYER = video.Player(segment_s=4.0, start_up_s=2.5, resume_s=5.0)


def seen(arrivals: list[float], end_s: float = 100.0, player: video.Player = PLAYER) -> video.Playback:
    return video.playback(1.0, np.asarray(arrivals), player, end_s)


def test_play_begins_with_the_first_segment_and_stands_still_when_the_buffer_is_dry() -> None:
    found = seen([2.0, 3.0, 11.0, 12.5], end_s=20.0)
    assert found.start_up_s == 1.0
    # 8 s from 2 s on; then two segments are needed, which last from 12.5 to 20.5.
    assert found.stalls == [(10.0, 12.5)]
    assert found.stalled_s(0, 20) == 2.5 and found.stalled_s(11, 12) == 1.0 and found.stalled_s(13, 20) == 0


def test_a_stall_that_lasts_ends_with_the_run_and_the_end_of_the_video_is_none() -> None:
    assert seen([2.0], end_s=20.0).stalls == [(6.0, 20.0)]
    assert seen([2.0, 30.0], end_s=50.0).stalls == [(6.0, 50.0)], "one segment is not enough to go on"
    of_two = video.Player(segment_s=4.0, start_up_s=2.5, resume_s=5.0, segments=2)
    assert seen([2.0, 30.0], player=of_two).stalls == [(6.0, 30.0)], "the last one is"
    assert math.isnan(seen([]).start_up_s) and seen([]).stalls == []
    assert math.isnan(seen([30.0], end_s=20.0).start_up_s)


def test_play_that_begins_later_needs_so_many_segments() -> None:
    patient = video.Player(segment_s=4.0, start_up_s=9.0, resume_s=5.0)
    assert seen([2.0, 3.0, 7.0], player=patient).start_up_s == 6.0


def test_what_a_table_tells_of_viewers() -> None:
    rate = 1_000_000 * 4 / 8
    transfers = pl.DataFrame(
        {
            "flow": [3, 3, 3, 5, 5],
            "start_s": [0.0, 2.0, 3.0, 12.0, 20.0],
            "duration_s": [2.0, 1.0, 20.0, 1.0, None],
            "size_bytes": [rate, 2 * rate, rate, rate, 3 * rate],
        }
    )
    flows = pl.DataFrame({"flow": [3, 5], "end_s": [None, 22.0]})
    found = video.viewers(transfers, flows, PLAYER, 40.0)
    assert [one.start_up_s for _, one in found] == [2.0, 1.0]
    # The second viewer's connection is gone at 22 s.
    assert [one.stalls for _, one in found] == [[(10.0, 40.0)], [(17.0, 22.0)]]
    assert video.video_bitrate_bps(transfers, PLAYER, 0.0) == pytest.approx(1.6e6)
    assert video.video_bitrate_bps(transfers, PLAYER, 12.0) == pytest.approx(2e6)
    assert math.isnan(video.video_bitrate_bps(transfers, PLAYER, 50.0))
    assert video.video_switches(found, 0.0) == 1.5 and video.video_switches(found, 3.0) == 0.5
    assert video.video_start_up_s(found, 0.0) == 1.5 and video.video_start_up_s(found, 5.0) == 1.0
    assert video.video_stall_s(found, 0.0, 40.0) == 17.5 and video.video_stall_s(found, 20.0, 30.0) == 6.0


@pytest.mark.parametrize("rate", ["300kbps", "1Mbps", "20Mbps"])
def test_the_tables_tell_what_the_clients_saw(rate: str) -> None:
    changes = {
        "bottleneck.rate": rate,
        "traffic.film.viewers": 3,
        "traffic.film.start": "0s",
        "warm_up": "0s",
    }
    changes |= {"traffic.bulk.flows": 1, "traffic.film.stop": "150s", "traffic.film.adaptation": "buffer"}
    scenario = al.Scenario.load(ROOT / "scenarios/video.toml", changes)
    run = scenario.run(2)
    view = View(run)
    found = {one.name: one.of(view) for one in measures.named(scenario, ["film.*"])}
    facts = run.manifest["facts"]["film"]
    assert found["film.bit-rate"] * 1e6 == pytest.approx(facts["mean_bit_rate_bps"])
    assert found["film.switches"] * 3 == pytest.approx(facts["switches"])
    # The client learns of the time that has passed when a segment comes, and of none after the last.
    player = video.Player(**scenario.workloads["film"].video)
    seen = video.viewers(view.transfers("film"), run.flows, player, view.window[1])
    last = [float((segments["start_s"] + segments["duration_s"]).max()) for segments, _ in seen]
    stalled = [one.stalled_s(0, min(end, 150)) for (_, one), end in zip(seen, last, strict=True)]
    assert sum(stalled) == pytest.approx(facts["stalled_s"], abs=1e-6)
    assert found["film.stalled"] * 3 >= facts["stalled_s"] - 1e-6
    assert (facts["stalled_s"] > 0) == (rate != "20Mbps")
    assert found["film.start-up"] > 0


def test_the_measures_need_their_columns() -> None:
    scenario = al.Scenario.load(
        ROOT / "scenarios/video.toml", {"record.transfer_columns": ["traffic", "start_s"]}
    )
    with pytest.raises(
        ValueError, match=r"film\.stalled needs duration_s, flow, size_bytes of the table transfers"
    ):
        measures.named(scenario, ["film.stalled"])
    assert not [one for one in measures.of_scenario(scenario) if one.startswith("bulk.s")]
