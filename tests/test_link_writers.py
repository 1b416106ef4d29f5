"""Files for other programs: Flent data files of runs, and Mahimahi traces of links."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import link_samples as samples
import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.links import formats
from aqmlab.links.measured import Direction
from aqmlab.links.writers import capacity, flent, mahimahi

BUFFER_BYTES = 100_000

LINE: dict[str, Any] = {
    "duration": "30s",
    "warm_up": "5s",
    "bottleneck": {
        "rate": "20Mbps",
        "delay": "10ms",
        "queue": {"kind": "drop-tail", "limit": "200kB"},
        "reverse": {"rate": "5Mbps", "queue": {"kind": "drop-tail", "limit": f"{BUFFER_BYTES}B"}},
    },
    "access": {"rate": "1Gbps", "delay": "0s"},
    "host": {"jitter": "600us"},
    "tcp": {"profile": "linux-6"},
    "record": {"drops": False},
}
"""A home line: the queue of the upload direction holds 160 ms."""


def line(up: int, down: int, **changes: Any) -> al.Scenario:
    traffic = {}
    if up:
        traffic["up"] = {"kind": "ftp", "flows": up, "from": "right"}
    if down:
        traffic["down"] = {"kind": "ftp", "flows": down}
    return al.Scenario.from_dict({**LINE, "traffic": traffic, **changes}, name="my line")


def written(scenario: al.Scenario, folder: Path) -> dict[str, Any]:
    path = flent.write(flent.recorded(scenario).run(), folder, scenario.name)
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def series(table: dict[str, Any], suffix: str = "") -> list[str]:
    return [name for name in table["results"] if "::tcp_" not in name and name.endswith(suffix)]


@pytest.mark.parametrize(
    ("up", "down", "test", "names"),
    [
        (1, 0, "tcp_1up", ["TCP upload", "Ping (ms) ICMP"]),
        (0, 1, "tcp_1down", ["TCP download", "Ping (ms) ICMP"]),
        (1, 1, "tcp_bidirectional", ["TCP upload", "TCP download", "Ping (ms) ICMP"]),
        (
            2,
            0,
            "tcp_nup",
            [
                *(
                    "TCP upload::1",
                    "TCP upload::2",
                    "TCP upload sum",
                    "TCP upload avg",
                    "TCP upload fairness",
                ),
                "Ping (ms) ICMP",
            ],
        ),
        (
            1,
            2,
            "rrul_be_nflows",
            [
                *("TCP upload BE::1", "TCP download BE::1", "TCP download BE::2"),
                *("TCP upload sum", "TCP upload avg", "TCP download sum", "TCP download avg", "TCP totals"),
                *("Ping (ms) ICMP", "Ping (ms) UDP BE", "Ping (ms) avg"),
            ],
        ),
    ],
)
def test_a_run_becomes_the_test_of_flent_with_its_streams(
    up: int, down: int, test: str, names: list[str], tmp_path: Path
) -> None:
    scenario = line(up, down, duration="8s", warm_up="2s")
    table = written(scenario, tmp_path)
    assert (table["version"], table["metadata"]["NAME"], table["metadata"]["TITLE"]) == (4, test, "my line")
    assert series(table) == names
    assert (tmp_path / f"{test}-2000-01-01T000000.my_line.flent.gz").is_file()
    assert all(len(values) == len(table["x_values"]) == 40 for values in table["results"].values())
    for name, points in table["raw_values"].items():
        assert {"t", "val"} <= points[0].keys(), name
        assert points[0]["t"] > flent.EPOCH_S


def test_the_values_are_those_of_the_run(tmp_path: Path) -> None:
    scenario = line(2, 0)
    run = flent.recorded(scenario).run()
    table = json.loads(gzip.decompress(flent.write(run, tmp_path / "a.flent.gz", "a").read_bytes()))
    flows = run.tables["flows"].filter(pl.col("traffic").cast(pl.String) == "up")
    late = [place for place, time in enumerate(table["x_values"]) if time > 5.0001]
    for number, goodput in enumerate(flows["goodput_bps"], start=1):
        values = table["results"][f"TCP upload::{number}"]
        mean = sum(values[place] or 0 for place in late) / len(late)
        assert mean == pytest.approx(goodput / 1e6, rel=0.02)
    sums = table["results"]["TCP upload sum"]
    assert sums[100] == pytest.approx(sum(table["results"][f"TCP upload::{n}"][100] for n in (1, 2)))
    # A ping waits in the queue: its time is the propagation and between none and all of the buffer.
    pings = [one for one in table["results"]["Ping (ms) ICMP"] if one is not None]
    assert min(pings) == pytest.approx(20, abs=2)
    assert max(pings) == pytest.approx(20 + 8e3 * BUFFER_BYTES / 5e6, rel=0.05)
    rtts = [one["tcp_rtt"] for one in table["raw_values"]["TCP upload::1"] if "tcp_rtt" in one]
    assert max(rtts) == pytest.approx(max(pings), rel=0.05)
    again = flent.write(flent.recorded(scenario).run(), tmp_path / "b.flent.gz", "a")
    assert again.read_bytes() == (tmp_path / "a.flent.gz").read_bytes()


@pytest.mark.parametrize("flows", [1, 4])
def test_a_line_is_found_again_in_its_flent_file(flows: int, tmp_path: Path) -> None:
    path = flent.write(flent.recorded(line(flows, 0)).run(), tmp_path / "up.flent.gz", "up")
    found = formats.read(path)
    assert found.idle_rtt_s == pytest.approx(0.020, abs=0.002)
    assert found.up.ip_bps == pytest.approx(5e6, rel=0.01)
    seconds = found.buffer_s(Direction.UPLOAD)
    assert seconds is not None
    assert seconds * 5e6 / 8 == pytest.approx(BUFFER_BYTES, rel=0.06)


def test_the_command_writes_a_file_that_flent_opens(cli: Cli, tmp_path: Path) -> None:
    link = '[bottleneck]\nrate = "2Mbps"\nqueue = { kind = "codel" }\n'
    scenario = f'duration = "8s"\n{link}[traffic.a]\nkind = "ftp"\n'
    (tmp_path / "line.toml").write_text(scenario, encoding="utf-8")
    done = cli("run", "line.toml", "--flent", "run.flent.gz")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Flent: run.flent.gz")
    if shutil.which("flent"):
        opened = subprocess.run(
            ["flent", "-i", str(tmp_path / "run.flent.gz"), "-f", "summary"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Summary of tcp_1down test run" in opened.stdout
        assert "TCP download" in opened.stdout


def test_a_run_without_long_flows_is_refused() -> None:
    web = al.Scenario.from_dict({**LINE, "traffic": {"pages": {"kind": "web"}}}, name="web")
    with pytest.raises(
        ValueError, match=r"flent: needs a TCP workload that sends until the end .* web are: pages"
    ):
        flent.recorded(web)


def steps(**link: Any) -> tuple[list[tuple[float, float]], float]:
    bottleneck = {"rate": "12Mbps", "queue": {"kind": "drop-tail"}, **link}
    scenario = al.Scenario.from_dict(
        {"duration": "10s", "bottleneck": bottleneck, "traffic": {"a": {"kind": "udp", "rate": "50Mbps"}}}
    )
    return capacity.of_link(scenario, "bottleneck", None)


def test_a_constant_rate_is_a_trace_of_a_second() -> None:
    assert steps() == ([(0.0, 12e6)], 1.0)
    # At 12 Mb/s, a packet of 1500 bytes takes a millisecond.
    assert list(mahimahi.opportunities(*steps())) == list(range(1, 1001))
    assert list(mahimahi.opportunities([(0.0, 24e6)], 0.003)) == [1, 1, 2, 2, 3, 3]
    assert list(mahimahi.opportunities([(0.0, 1.2e6), (0.02, 0.0)], 0.05)) == [10, 20, 50]


def test_rate_steps_and_their_period_are_kept() -> None:
    changes = [{"at": "1s", "rate": "1200kbps"}, {"at": "3s", "rate": "12Mbps"}]
    found, duration_s = steps(rate_steps=changes, rate_repeat="4s")
    assert (found, duration_s) == ([(0.0, 12e6), (1.0, 1.2e6), (3.0, 12e6)], 4.0)
    # Before the first step, the rate is that of the last one, except in the first period.
    assert steps(rate_steps=changes[:1], rate_repeat="4s") == ([(0.0, 1.2e6)], 4.0)
    times = list(mahimahi.opportunities(found, duration_s))
    assert times == [*range(1, 1001), *range(1010, 3001, 10), *range(3001, 4001)]


@pytest.mark.parametrize(
    "steps_of_link", [{}, {"rate_steps": [{"at": "500ms", "rate": "3Mbps"}], "rate_repeat": "1s"}]
)
def test_a_run_over_the_trace_carries_what_the_link_carries(steps_of_link: dict[str, Any]) -> None:
    found, duration_s = steps(**steps_of_link)
    trace = "".join(f"{time}\n" for time in mahimahi.opportunities(found, duration_s))

    def bits(**link: Any) -> int:
        scenario = {
            "duration": "9s",
            "warm_up": "1s",
            "bottleneck": {"delay": "5ms", "queue": {"kind": "drop-tail"}, **link},
            "traffic": {
                "a": {"kind": "udp", "rate": "50Mbps", "sizes": {"kind": "constant", "value": "1500B"}}
            },
        }
        files = {"out.trace": trace}
        return int(al.Scenario.from_dict(scenario, files=files).run().tables["links"]["departed_bytes"][0])

    assert bits(opportunities={"file": "out.trace"}) == pytest.approx(
        bits(rate="12Mbps", **steps_of_link), rel=0.002
    )


def test_what_a_trace_cannot_express_is_refused(cli: Cli, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"bottleneck\.aggregation: cannot be written .* remove the key"):
        steps(aggregation={"packets": 4})
    with pytest.raises(ValueError, match="must have at most 20000000"):
        list(mahimahi.opportunities([(0.0, 1e12)], 60))
    with pytest.raises(ValueError, match="must last at least 1 ms"):
        list(mahimahi.opportunities([(0.0, 1e6)], 0.0001))
    done = cli("link", "export", "rate-steps", "--mahimahi", "down.trace", "--duration", "45s")
    assert (done.returncode, done.stderr) == (0, "")
    assert "down.trace: 48333 opportunities in 45 s, mean 12.89 Mbps" in done.stdout
    done = cli("link", "export", "phone", "--mahimahi", "none.trace")
    assert done.returncode == 2
    assert "bottleneck.opportunities: cannot be written" in done.stderr
    assert not (tmp_path / "none.trace").exists()


def capture_at_home(run: al.Run, traffic: str) -> bytes:
    """What a capture at the sender of a workload's only flow contains."""
    rows = (
        run.tables["packets"].filter(pl.col("link").is_null()).with_columns(pl.col("event").cast(pl.String))
    )
    sent = rows.filter(~pl.col("backward"), pl.col("event").is_in(["send", "retransmit"]))
    back = rows.filter(pl.col("event") == "acknowledge")
    found = []
    for time, sequence, payload in sent.select("time_s", "sequence_bytes", "payload_bytes").iter_rows():
        flags = 0x10 if payload else 0x02
        found.append(
            (time, *samples.tcp(samples.HOME, samples.SERVER, (4000, 443), sequence, 0, payload, flags))
        )
    for time, sequence in back.select("time_s", "sequence_bytes").iter_rows():
        found.append((time, *samples.tcp(samples.SERVER, samples.HOME, (443, 4000), 0, sequence, 0)))
    return samples.pcap(sorted(found))


def test_a_line_is_found_again_in_a_capture_at_home(tmp_path: Path) -> None:
    run = line(1, 0, record={"drops": False, "histories": ["up"]}).run()
    path = tmp_path / "home.pcap"
    path.write_bytes(capture_at_home(run, "up"))
    found = formats.read(path)
    assert found.down.is_empty
    assert found.up.ip_bps == pytest.approx(5e6, rel=0.03)
    assert found.idle_rtt_s == pytest.approx(0.020, abs=0.004)
    seconds = found.buffer_s(Direction.UPLOAD)
    assert seconds is not None
    assert seconds * 5e6 / 8 == pytest.approx(BUFFER_BYTES, rel=0.1)
    assert struct.unpack("<I", path.read_bytes()[:4])[0] == 0xA1B23C4D
