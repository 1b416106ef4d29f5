"""Traces from Python and from the command line: what is replayed, refused, printed and written."""

from __future__ import annotations

import _thread
import gzip
import json
import struct
import threading
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab import _core, campaign
from aqmlab import traces as trace
from aqmlab._support.parallel import watched
from aqmlab.charts.chart import save
from aqmlab.measures import Measure, View
from aqmlab.scenario import Scenario, ScenarioFileError
from aqmlab.store import Store
from aqmlab.study.experiment import Experiment

SIZES = {"kind": "power-law", "minimum": "4kB", "maximum": "1MB"}
SOURCE = {"kind": "generated", "duration": "6s", "line_rate": "100Mbps", "flows": 300.0, "sizes": SIZES}
SMALL = {"level": "trace", "rate": "20Mbps", "source": SOURCE}

HELLO = Path(__file__).parent.parent / "scenarios/hello.toml"
SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios" / "trace").glob("*.toml"))


def capture(path: Path, packets: list[tuple[float, int, int]]) -> Path:
    """Packets of raw IP, each its time in seconds, its bytes, and the port that tells its flow."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 64, 101)]
    for at, size, port in packets:
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 17, 0, b"\n\0\0\1", b"\n\0\0\2")
        udp = struct.pack(">HHHH", port, 53, size - 20, 0)
        parts += [struct.pack("<IIII", int(at), round(at % 1 * 1e6), 28, size), ip, udp]
    path.write_bytes(b"".join(parts))
    return path


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """Three packets at once of three flows, and ten seconds later one more."""
    return capture(
        tmp_path / "burst.pcap", [(100.0, 1000, 1), (100.0, 1000, 2), (100.0, 1000, 3), (110.0, 500, 1)]
    )


def test_active_flows_of_a_burst_are_those_that_wait(burst: Path) -> None:
    # A packet takes a second: two flows wait during the first, one during the next.
    run = trace.active_flows(burst, rate="8kbps", queue="drr")
    assert run.tables["distribution"]["active_share"].to_list() == pytest.approx([0.8, 0.1, 0.1])
    assert run.summary["mean_active"] == pytest.approx(0.3)
    assert (run.summary["packets"], run.summary["flows"], run.summary["most_active"]) == (4, 4, 2)
    assert run.summary["p99_sojourn_s"] == pytest.approx(3.0, rel=0.01)
    assert run.warnings == []
    limited = trace.active_flows(burst, rate="8kbps", queue={"kind": "drr", "limit": "1p"})
    assert limited.summary["dropped"] == 1


def test_a_run_is_a_function_of_scenario_and_seed() -> None:
    scenario = Scenario.from_dict(SMALL)
    first, again, other = scenario.run(1), scenario.run(1), scenario.run(2)
    assert first.tables.digest() == again.tables.digest() != other.tables.digest()
    assert first.manifest["digest"] == scenario.with_({"seed": 1}).digest
    assert Scenario.from_dict(first.manifest["scenario"]).run().tables.digest() == first.tables.digest()


def test_the_digest_covers_the_file(burst: Path, tmp_path: Path) -> None:
    before = trace.of_file(burst).digest
    assert trace.active_flows(burst).manifest["digest"] == before
    capture(burst, [(1.0, 1000, 1), (2.0, 1000, 2)])
    assert trace.of_file(burst).digest != before
    # A damaged file has the digest of all of it, though only a part is read.
    burst.write_bytes(burst.read_bytes()[:-3] + b"\xff" * 5000)
    damaged = trace.active_flows(burst)
    assert damaged.warnings
    assert damaged.manifest["digest"] == trace.of_file(burst).digest


def test_tables_are_those_of_the_catalogue(burst: Path) -> None:
    run = trace.active_flows(burst)
    described = {
        one.name: one for one in al.catalog() if one.name.startswith("trace.") and one.family.name == "tables"
    }
    assert {f"trace.{name}" for name in run.tables} == set(described)
    for name, table in run.tables.items():
        assert table.columns == [row["name"] for row in described[f"trace.{name}"].parameters]


def test_a_lower_rate_makes_more_flows_active() -> None:
    scenario = Scenario.from_dict(SMALL)
    found = [scenario.with_({"rate": rate}).run().summary for rate in ("100Mbps", "32Mbps", "20Mbps")]
    assert found[0]["load"] == pytest.approx(0.16, rel=0.25), "ten seconds of sizes with a heavy tail"
    assert [row["load"] / found[0]["load"] for row in found] == pytest.approx([1, 100 / 32, 5])
    means = [row["mean_active"] for row in found]
    assert means == sorted(means)
    assert means[0] < 0.05 < 0.5 < means[2]
    assert len({row["mean_in_progress"] for row in found}) == 1


def test_a_campaign_runs_traces_as_it_runs_scenarios(tmp_path: Path) -> None:
    active = Measure(name="active", compute=mean_active)
    rates = Experiment(
        name="rates",
        title="Rates",
        scenario=SMALL,
        axes={"rate": ("100Mbps", "20Mbps")},
        measures=[active],
        seeds=2,
    )
    planned = rates.plan(rates.sweep("full"))
    with Store(tmp_path / "store") as store:
        tasks = [task for _, task in planned.tasks({})]
        did = campaign.execute(tasks, store, executor=campaign.Local(jobs=2), total=4)
        found = planned.collect(store, {})
    assert (did.made, did.failures) == (4, [])
    fast, slow = ([row[active] for row in found.rows_at(rate=rate)] for rate in ("100Mbps", "20Mbps"))
    assert max(fast) < min(slow)


def mean_active(view: View) -> float:
    return float(view.run.tables["summary"]["mean_active"][0])


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_that_comes_with_us_is_right(path: Path) -> None:
    assert Scenario.load(path).effective["source"]["kind"] == "generated"


def test_a_scenario_names_a_file_beside_itself(burst: Path, tmp_path: Path) -> None:
    path = tmp_path / "replay.toml"
    source = '[source]\nkind = "file"\npath = "burst.pcap"\n'
    path.write_text('level = "trace"\nrate = "1Mbps"\n' + source, encoding="utf-8")
    assert Scenario.load(path).run().summary["packets"] == 4
    path.write_text('level = "trace"\n[source]\nkind = "file"\npath = "nowhere.pcap"\n', encoding="utf-8")
    with pytest.raises(_core.TraceError, match=r"nowhere\.pcap: cannot be read"):
        Scenario.load(path).run()
    path.write_text('level = "trace"\nrate = "1Mb"\n[source]\nkind = "tape"\n', encoding="utf-8")
    with pytest.raises(ScenarioFileError, match=r"(?s)replay\.toml:\n  source\.kind.*\n  rate: `1Mb`"):
        Scenario.load(path)


def test_charts_are_drawn(tmp_path: Path) -> None:
    charts = trace.charts(Scenario.from_dict(SMALL).run())
    assert set(charts) == {"active-tail", "active", "in-progress"}
    for name, chart in charts.items():
        assert save(chart, tmp_path, name)["png"].read_bytes().startswith(b"\x89PNG")
    more = charts["active-tail"].table["share"]
    assert more.is_sorted(descending=True)


def test_the_command_replays_and_writes(cli: Cli, burst: Path, tmp_path: Path) -> None:
    said = cli("trace", "active-flows", burst, "--rate", "8kbps", "--out", tmp_path / "out")
    assert said.returncode == 0, said.stderr
    assert "burst.pcap (capture): 10 s of which 10 s measured, 4 packets, 4 flows" in said.stdout
    assert "active flows: mean 0.3" in said.stdout
    shares = pl.read_csv(tmp_path / "out/distribution.csv")
    assert shares["flows"].to_list() == [0, 1, 2]
    told = json.loads(cli("trace", "active-flows", burst, "--queue", "drop-tail", "--json").stdout)
    assert told["manifest"]["scenario"]["queue"] == {
        "kind": "drop-tail",
        "admits": "what-fits",
        "limit": "100000p",
    }
    assert told["summary"]["packets"] == 4


def test_damage_is_warned_of_beside_the_result(cli: Cli, tmp_path: Path) -> None:
    cut = capture(tmp_path / "cut.pcap", [(1.0, 100, 1), (2.0, 100, 2), (3.0, 100, 3)])
    cut.write_bytes(cut.read_bytes()[:-1])
    said = cli("trace", "active-flows", cut, "--json", "--set", "queue.limit=9p")
    assert said.returncode == 0
    assert json.loads(said.stdout)["summary"]["packets"] == 2
    assert "cut.pcap: damaged at byte 112: the file ends within a packet" in said.stderr
    packed = tmp_path / "cut.pcap.gz"
    packed.write_bytes(gzip.compress(cut.read_bytes()))
    assert "damaged at byte 112 of the decompressed file" in cli("trace", "active-flows", packed).stderr


def test_what_is_no_trace_is_refused_in_a_line(cli: Cli, tmp_path: Path) -> None:
    strange = tmp_path / "strange.pcap"
    strange.write_bytes(b"MZ" + bytes(500))
    for arguments, expected in {
        ("active-flows", strange): "strange.pcap: is neither a capture",
        ("active-flows", tmp_path / "none.pcap"): "none.pcap: cannot be read",
        ("active-flows", strange, "--rate", "25"): "rate: `25` has no unit",
        (
            "active-flows",
            HELLO,
            "--rate",
            "5Mbps",
        ): "hello.toml: must be a scenario of the level `trace` (got the level `packet`)",
        ("active-flows", strange, "--queue", "lottery"): "queue.kind: unknown kind",
        ("generate", "--out", "a.txt"): "must end in .pcap or .csv",
        ("generate", "--out", "a.pcap", "--utilisation", "2"): "source.utilisation: must be above 0",
    }.items():
        said = cli("trace", *arguments)
        assert (said.returncode, said.stdout) == (2, "")
        assert expected in said.stderr
        assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["a.pcap", "a.pcap.gz", "a.csv", "a.csv.gz"])
def test_a_generated_trace_can_be_written_and_replayed(cli: Cli, tmp_path: Path, name: str) -> None:
    small = (
        "--duration",
        "6s",
        "--rate",
        "100Mbps",
        "--flows",
        "300",
        "--set",
        'source.sizes={kind="power-law", minimum="4kB", maximum="1MB"}',
    )
    said = cli("trace", "generate", "--out", name, *small, "--seed", "1")
    assert said.returncode == 0, said.stderr
    assert "flows" in said.stdout
    found = trace.active_flows(tmp_path / name, rate="20Mbps")
    assert found.tables.digest() == Scenario.from_dict(SMALL).run(1).tables.digest()


def test_an_interrupt_ends_a_replay_cleanly() -> None:
    # An hour of traffic of an OC-48 link, which takes a minute to replay.
    long = trace.generated({"source.duration": "3600s"})
    watch = _core.Watch()

    def interrupt() -> None:
        while watch.progress()[0] == 0:
            time.sleep(0.01)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        watched(lambda watch: long.run(watch=watch), watch, "test")
    done, total = watch.progress()
    assert 0 < done < total / 2


def test_whoever_watches_knows_how_far_it_is() -> None:
    watch = _core.Watch()
    assert watch.progress() == (0, 0)
    Scenario.from_dict(SMALL).run(watch=watch)
    done, total = watch.progress()
    assert 0.9 * total < done <= total == 6_000_000_000
    watch.stop()
    with pytest.raises(KeyboardInterrupt):
        Scenario.from_dict(SMALL).run(watch=watch)
