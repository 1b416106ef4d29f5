"""What the queues of a run look like in a terminal."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

import aqmlab as al
from aqmlab import _core
from aqmlab._support.parallel import watched
from aqmlab.cli.watching import Watching, sparkline


def link(**changes: Any) -> dict[str, Any]:
    return {
        "name": "bottleneck",
        "rate_bps": 10e6,
        "length_packets": 20,
        "length_bytes": 20_000,
        "arrivals": 200,
        "departures": 100,
        "departed_bytes": 125_000,
        "marks": 0,
        "drops": [["overflow", 0], ["early", 10], ["forced", 0]],
        "gauges": [["average", 12.25, "packets"], ["probability", 0.05, None]],
    } | changes


def text(watching: Watching) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(watching.drawn("3.0 of 6 s simulated"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_bars_stand_for_shares_of_the_highest() -> None:
    assert sparkline([0, 5, 10], 10) == " ▄█"
    assert sparkline([3, 30, -1], 10) == "▂█ ", "what lies beyond is cut off"
    assert sparkline([0, 0], 0) == "  "


def test_a_view_shows_queue_throughput_gauges_and_drops_by_reason() -> None:
    watching = Watching()
    watching.see({"time_s": 1.0, "links": [link(departed_bytes=0)], "lateness_us": []})
    watching.see({"time_s": 1.5, "links": [link()], "lateness_us": [["p50", 31.0], ["p99", 90.0]]})
    shown = text(watching)
    # 125 kB in half a second.
    for words in ("20 packets, 20.0 kB", "2.000 Mbps", "12.25 packets", "10 of 200 (5.00%) 10 early"):
        assert words in shown
    assert "3.0 of 6 s simulated" in shown and "p50 31 us   p99 90 us" in shown
    assert "marked" not in shown


def test_a_run_shows_a_view_at_each_sample_and_goes_no_further_than_it_is_allowed() -> None:
    scenario = al.Scenario.from_dict(
        {
            "duration": "20s",
            "bottleneck": {"queue": {"kind": "red"}},
            "traffic": {"ftp": {"kind": "ftp", "flows": 5}},
        }
    )
    watch, views = _core.Watch(), []
    watch.hold(0.0)
    watch.view()

    def show() -> None:
        watch.hold(0.5 + len(views))
        view = watch.view()
        if view:
            views.append(json.loads(view))
            if len(views) == 3:
                watch.hold(100.0)

    run = watched(lambda seen: scenario.run(watch=seen), watch, None, show)
    assert [link["name"] for link in views[0]["links"]] == ["bottleneck"]
    times = [view["time_s"] for view in views]
    assert times == sorted(times) and times[0] <= 0.6 and times[1] <= 1.7
    assert run.tables_digest == scenario.run().tables_digest, "to be watched changes nothing"


def test_only_packets_can_be_watched(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from aqmlab.cli import main

    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["aqmlab", "run", "scenarios/flow-level/elastic.toml", "--watch"])
        main()
    assert ended.value.code == 2
    assert "--watch: needs a packet-level scenario" in capsys.readouterr().err
