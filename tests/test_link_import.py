"""Recorded links become lines: what is read of a recording, what is refused, and what a run makes of it."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path

import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.links import formats
from aqmlab.links.content import LinkFileError
from aqmlab.links.format import Columns, Options
from aqmlab.links.measured import Direction, RateKind
from aqmlab.links.rate_steps import Recording, steps

LOAD_HEADER = (
    "LOAD_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; "
    "CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS"
)
SUMMARY_HEADER = (
    "SUMMARY_HEADER; LOG_DATETIME; LOG_TIMESTAMP; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; "
    "DL_SUM_DELAYS; UL_SUM_DELAYS; DL_AVG_OWD_DELTA_US; UL_AVG_OWD_DELTA_US; DL_LOAD_CONDITION; "
    "UL_LOAD_CONDITION; CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS"
)
BEGAN = 1700000000.25


def load(since: float, achieved: int, shaper: int) -> str:
    """A record of a log: the upload is a tenth of the download."""
    at = f"{BEGAN + since:.6f}"
    rates = f"{achieved}; {achieved // 10}; {shaper}; {shaper // 10}"
    return f"LOAD; 2023-11-14-22:13:20; {at}; {at}; {rates}"


LOG = [
    "SYSLOG; 2023-11-14-22:13:19; 1699999999.900000; Starting cake-autorate with PID: 1866",
    LOAD_HEADER,
    SUMMARY_HEADER,
    load(0.0, 900, 20_000),
    "SHAPER; 2023-11-14-22:13:20; 1700000000.260000; tc qdisc change root dev ifb cake bandwidth 20000Kbit",
    load(0.2, 19_000, 20_000),
    load(0.4, 19_500, 24_000),
    load(0.6, 2000, 8000),
    load(0.8, 2000, 8000),
]


def written(folder: Path, *lines: str, name: str = "recorded.log") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def recording(
    path: Path,
    direction: Direction = Direction.DOWNLOAD,
    rate: RateKind = RateKind.SHAPER,
    columns: Columns | None = None,
) -> Recording:
    """The rates over time that a file contains of one direction."""
    found = formats.read(path, Options(direction=direction, rate=rate, columns=columns or Columns()))
    way = found.way(direction).recording
    assert way is not None
    return way


def pairs(recording: Recording) -> list[tuple[float, float]]:
    return [(round(at, 6), bps) for at, bps in zip(recording.times_s, recording.bps, strict=True)]


def test_a_log_of_cake_autorate_has_both_ways_and_two_kinds_of_rates(tmp_path: Path) -> None:
    path = written(tmp_path, *LOG)
    down = recording(path)
    assert pairs(down) == [(0, 20e6), (0.2, 20e6), (0.4, 24e6), (0.6, 8e6), (0.8, 8e6)]
    assert down.duration_s == pytest.approx(1.0)
    assert down.source == "cake-autorate log, LOAD records, download, configured shaper rate"
    up = recording(path, Direction.UPLOAD, RateKind.ACHIEVED)
    assert [bps for _, bps in pairs(up)] == [90e3, 1.9e6, 1.95e6, 200e3, 200e3]
    found = steps(down)
    assert list(zip(found.times_s, found.bps, strict=True)) == [
        (0, 20_000_000),
        (0.4, 24_000_000),
        (0.6, 8_000_000),
    ]
    assert found.mean_bps == pytest.approx(0.4 * 20e6 + 0.2 * 24e6 + 0.4 * 8e6)


def test_records_of_other_kinds_are_read_where_there_is_no_load(tmp_path: Path) -> None:
    def summary(stamp: str, rate: int) -> str:
        return f"SUMMARY; 2023-11-14-22:13:20; {stamp}; 1; 1; 0; 0; 0; 0; dl_idle; ul_idle; {rate}; 5000"

    # A shell writes the decimal point of its locale.
    path = written(tmp_path, SUMMARY_HEADER, summary("1700000000,5", 7000), summary("1700000002,0", 9000))
    found = recording(path)
    assert pairs(found) == [(0, 7e6), (1.5, 9e6)]
    assert "SUMMARY" in found.source


def test_a_packed_log_and_one_that_is_cut_off_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress("\n".join([*LOG, "LOAD; 2023-11-14-22:"]).encode()))
    found = recording(path)
    assert len(found.bps) == 5
    assert list(found.notes) == ["line 10, the last line, is truncated and therefore ignored"]


def test_times_without_records_are_told(tmp_path: Path) -> None:
    found = recording(written(tmp_path, *LOG, load(60.8, 100, 5000)))
    assert list(found.notes) == ["no record for 60 s after 0.8 s: the previous rate is kept"]


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        (["time_s,rate_mbps", "0,8", "0.5,2.5", "1,0"], Columns()),
        (["Time (ms);Bandwidth (Mbit/s)", "3000;8", "3500;2.5", "4000;0"], Columns()),
        (["# by hand", "0 8Mbps", "", "500ms 2500kbps", "1 0bps"], Columns()),
        (["0\t8", "0.5\t2.5", "1\t0"], Columns(rate_unit="Mbps")),
        (["0,1000", "0.5,312.5", "1,0"], Columns(rate_unit="kB/s")),
        (
            ["timestamp,rsrp,dl_rate_kbps,ul_rate_kbps", "7,-90,8000,1", "7.5,-90,2500,1", "8,-91,0,1"],
            Columns(rate="dl_rate_kbps"),
        ),
        (
            ["a,b,c", "8,x,0", "2.5,x,500", "0,x,1000"],
            Columns(time="3", rate="1", time_unit="ms", rate_unit="Mbps"),
        ),
        (
            [
                "time,rate_kbps",
                "2024-05-01T10:00:00.5,8000",
                "2024-05-01 10:00:01,2500",
                "2024-05-01T10:00:01.5,0",
            ],
            Columns(),
        ),
    ],
)
def test_a_csv_file_is_read_with_its_units(lines: list[str], columns: Columns, tmp_path: Path) -> None:
    assert pairs(recording(written(tmp_path, *lines), columns=columns)) == [
        (0, 8e6),
        (0.5, 2.5e6),
        (1, 0),
    ]


REFUSED = {
    "empty": ([], {}, "is empty"),
    "one moment": (["0,8Mbps"], {}, "must contain records with at least two different times"),
    "rates without a unit": (["0,8", "1,9"], {}, "line 1: the rate `8` has no unit"),
    "rates that are times": (["0,8ms", "1,9ms"], {}, "line 1: must be a rate, such as `10Mbps` (got `8ms`)"),
    "an unknown unit": (["0,8Mb", "1,9Mb"], {}, "line 1: must be a rate, such as `10Mbps` (got `8Mb`)"),
    "an unknown option": (["0,8", "1,9"], {"rate_unit": "Mb"}, "--rate-unit: must be one of"),
    "what is no number": (
        ["time,rate_bps", "0,fast", "1,9"],
        {},
        "line 2: the rate must be a number (got `fast`)",
    ),
    "a negative rate": (["time,rate_bps", "0,-8000", "1,9"], {}, "line 2: the rate must be a finite"),
    "no number at all": (["time,rate_bps", "0,nan", "1,9"], {}, "line 2: "),
    "times that go back": (
        ["time_s,rate_mbps", "0,8", "5,9", "4.5,9"],
        {},
        "line 4: the time is 0.5 s before the time of",
    ),
    "a short line": (
        ["0,8Mbps", "1"],
        {},
        "line 2: must have 2 columns, the same number as the first line (got 1)",
    ),
    "no header": (
        ["0,8Mbps,1", "1,8Mbps,1"],
        {},
        "has 3 columns and no header: select a column with --time-column",
    ),
    "two rates": (
        ["time,up_rate,down_rate", "0,1,1"],
        {},
        "several column names show that the column contains rates",
    ),
    "no rates": (["time,level", "0,1"], {}, "no column name shows that the column contains rates"),
    "an unknown column": (["time,rate", "0,1"], {"rate": "speed"}, "has no column `speed` (--rate-column)"),
    "the same column": (["time,rate", "0,1"], {"rate": "time"}, "in the same column"),
    "a unit that is wrong": (
        ["0,8e9", "1,9e9"],
        {"rate_unit": "Mbps"},
        "line 1: the rate must be at most 10Tbps (got 8e+15 bps)",
    ),
    "options of another form": (LOG, {"rate": "2"}, "select the rate with --direction and --take"),
    "a log without its head": (LOG[3:], {}, "line 1: the LOAD record is not preceded by a LOAD_HEADER"),
    "a log without rates": (LOG[:3], {}, "set output_load_stats=1"),
    "a broken record": (
        [*LOG[:3], "LOAD; 1; 2", load(1.0, 1, 1)],
        {},
        "line 4: the LOAD record must have 8 fields, the same number as its header (got 3)",
    ),
    "a clock that was set": ([*LOG, load(0.1, 1, 1)], {}, "line 10: the time is 0.7 s before"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_recording_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    lines, columns, message = REFUSED[case]
    path = written(tmp_path, *lines)
    with pytest.raises(LinkFileError) as caught:
        recording(path, columns=Columns(**columns))
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for name, data, message in [
        ("cut.gz", gzip.compress(b"0,8Mbps\n1,9Mbps\n" * 99)[:-20], "truncated"),
        ("damaged.gz", b"\x1f\x8b\x08\x00nothing of it", "damaged"),
        ("latin.csv", b"0,8Mbps # caf\xe9\n", "is not text"),
    ]:
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(LinkFileError, match=message):
            recording(path)
    with pytest.raises(LinkFileError, match=r"missing\.csv: cannot be read: No such file"):
        recording(tmp_path / "missing.csv")


RAMP = Recording(source="a ramp", times_s=[0.0, 1.0, 2.0, 3.0], bps=[1e6, 2e6, 3e6, 3e6])


def test_a_part_and_means_are_taken() -> None:
    part = steps(RAMP, start_s=0.5, until_s=2.25)
    assert (part.times_s, part.bps, part.duration_s) == (
        [0, 0.5, 1.5],
        [1_000_000, 2_000_000, 3_000_000],
        1.75,
    )
    means = steps(RAMP, every_s=1.5)
    assert (means.times_s, means.bps) == ([0, 1.5, 3], [1_333_333, 2_666_667, 3_000_000])
    assert means.duration_s == 4.0
    for bad, message in [
        ({"start_s": 4.0}, "--from: must be before the end"),
        ({"until_s": 5.0}, "--until: must be at most 4s, which is the end of the recording"),
        ({"every_s": 0.0}, "--every: must be greater than 0s"),
    ]:
        with pytest.raises(ValueError, match=message):
            steps(RAMP, **bad)


def test_what_no_line_can_send_at_is_nothing() -> None:
    slow = Recording(source="slow", times_s=[0.0, 1.0, 2.0], bps=[3.0, 1e6, 15.4])
    assert steps(slow).bps == [0, 1_000_000, 0]
    with pytest.raises(LinkFileError, match="so the link would never send"):
        steps(slow, until_s=0.9)


def test_the_command_writes_a_line_that_runs(cli: Cli, tmp_path: Path) -> None:
    path = written(tmp_path, *LOG)
    done = cli("link", "import", path, "--out", "rates.csv", "--link", "bottleneck")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 steps in 1 s; least 8 Mbps, mean 16 Mbps, most 24 Mbps" in done.stdout
    fragment = done.stdout[done.stdout.index("[bottleneck]") :]
    table = tomllib.loads(fragment)["bottleneck"]
    assert table == {"rate_file": "rates.csv", "rate_repeat": "1s"}
    files = {"rates.csv": (tmp_path / "rates.csv").read_text(encoding="utf-8")}
    assert files["rates.csv"] == "time_s,rate_bps\n0,20000000\n0.4,24000000\n0.6,8000000\n"
    scenario = {
        "duration": "4s",
        "bottleneck": {**table, "delay": "5ms", "queue": {"kind": "codel"}},
        "traffic": {"udp": {"kind": "udp", "rate": "50Mbps"}},
    }
    links = al.Scenario.from_dict(scenario, files=files).run().tables["links"]
    assert links["rate_bps"][0] == pytest.approx(16e6)
    assert links["utilisation"][0] == pytest.approx(1, abs=0.01)


def test_the_command_tells_what_is_doubtful_and_wrong(cli: Cli, tmp_path: Path) -> None:
    path = written(tmp_path, *LOG, load(60.8, 100, 5000), name="router.log")
    done = cli("link", "import", path, "--json", "--from", "200ms", "--every", "400ms")
    assert done.stderr == f"aqmlab: {path}: no record for 60 s after 0.8 s: the previous rate is kept\n"
    found = json.loads(done.stdout)
    assert (found["file"], found["records"], found["most_bps"]) == ("router.rates.csv", 6, 22_000_000)
    assert (tmp_path / "router.rates.csv").is_file()
    for arguments, message in [
        (["--from", "2"], "--from"),
        (["--every", "2Mbps"], "--every: must be a time, such as 90s (got 2Mbps)"),
        (["--rate-unit", "kbps"], "select the rate with --direction"),
        (["--take", "nothing"], "shaper"),
    ]:
        done = cli("link", "import", path, "--out", "none.csv", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "none.csv").exists()


def test_a_rate_without_a_unit_is_refused_with_an_example(cli: Cli) -> None:
    done = cli("link", "generate", "--rate", "6", "--out", "none.csv")
    assert done.returncode == 2
    assert "--rate: must be a rate, such as 6Mbps (got 6)" in done.stderr
