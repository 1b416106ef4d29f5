"""The flow level from Python and from the command line: what theory says, what is printed and written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab import campaign, flow_level
from aqmlab.charts.chart import save
from aqmlab.flow_level import replications
from aqmlab.measures import Measure, View
from aqmlab.metrics.flow_level import throughput_bps
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.study.experiment import Experiment

SMALL = """\
level = "flow"
duration = "300s"
warm_up = "20s"

[link]
capacity = "8Mbps"

[traffic.web]
load = 0.7
sizes = { kind = "lomax", mean = "100kB", shape = 1.5, minimum = "12B", maximum = "10MB" }
"""

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios" / "flow-level").glob("*.toml"))


@pytest.fixture
def link(tmp_path: Path) -> Path:
    path = tmp_path / "link.toml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def test_a_run_is_a_function_of_scenario_and_seed(link: Path) -> None:
    scenario = Scenario.load(link)
    first, again, other = scenario.run(1), scenario.run(1), scenario.run(2)
    assert first.tables.digest() == again.tables.digest() != other.tables.digest()
    assert first.manifest["digest"] == scenario.with_({"seed": 1}).digest
    assert Scenario.from_dict(first.manifest["scenario"]).run().tables.digest() == first.tables.digest()


def test_tables_are_those_of_the_catalogue(link: Path) -> None:
    run = Scenario.load(link).run()
    described = {
        one.name: one
        for one in al.catalog()
        if one.name.startswith("flow-level.") and one.family.name == "tables"
    }
    assert {f"flow-level.{name}" for name in run.tables} == set(described)
    for name, table in run.tables.items():
        assert table.columns == [row["name"] for row in described[f"flow-level.{name}"].parameters]


def test_throughput_is_mean_size_over_mean_time_by_littles_law(link: Path) -> None:
    run = Scenario.load(link).with_({"warm_up": "0s", "traffic.web.load": 0.3}).run()
    done = run.flows.drop_nulls("duration_s")
    by_hand = 8 * float(done["size_bytes"].sum()) / float(done["duration_s"].sum())
    assert throughput_bps(run) == pytest.approx(by_hand, rel=0.01)
    assert throughput_bps(run) == pytest.approx(run.tables["classes"]["mean_throughput_bps"][0])
    assert run.summary["link"]["utilisation"] == pytest.approx(run.summary["link"]["busy"])


def test_the_geometric_law_is_the_one_without_peak_rates() -> None:
    law = flow_level.number_law(0.9, 500)
    assert law[3] == pytest.approx(0.1 * 0.9**3)
    assert math.fsum(n * p for n, p in enumerate(law)) == pytest.approx(9.0)
    assert flow_level.throughput_law(0.9) == pytest.approx(0.1)
    assert flow_level.number_law(0.9, 10, 1.0) == pytest.approx(law[:10])
    assert math.isnan(flow_level.number_law(1.0, 2)[1])
    assert flow_level.throughput_law(1.2) == 0.0


@pytest.mark.parametrize(("ratio", "load", "factor"), [(10, 0.8, 1.2046), (50, 0.9, 1.0728)])
def test_the_law_of_equal_peak_rates_is_erlangs(ratio: int, load: float, factor: float) -> None:
    # A flow takes so many times as long as at its peak rate (computed elsewhere from Erlang's C formula).
    assert 1 / (ratio * flow_level.throughput_law(load, 1 / ratio)) == pytest.approx(factor, abs=1e-4)
    law = flow_level.number_law(load, 2000, 1 / ratio)
    assert math.fsum(law) == pytest.approx(1.0)
    mean = math.fsum(n * p for n, p in enumerate(law))
    assert load / mean == pytest.approx(flow_level.throughput_law(load, 1 / ratio))


def test_replications_meet_the_laws_at_any_sizes(link: Path) -> None:
    scenario = Scenario.load(link).with_({"duration": "4000s", "record.every": "0s"})
    for peak in (None, "1Mbps"):
        for sizes in (
            {"kind": "constant", "value": "100kB"},
            {"kind": "hyperexponential", "mean": "100kB", "scv": 4.0},
        ):
            changes = {"traffic.web.peak_rate": peak, "traffic.web.sizes": sizes}
            found = replications.replicate(scenario.with_(changes), 10)
            assert found.peaked == (peak is not None)
            throughput = found.throughput_bps()
            law = found.throughput_law(peaked=True)
            assert abs(throughput.value - law) < max(2 * throughput.half_width, 0.0) < 0.1 * law
            for row in found.distribution(5).iter_rows(named=True):
                assert row["share"] == pytest.approx(row["law"], abs=2 * (row["high"] - row["low"]))


def test_streaming_leaves_less_to_the_others(link: Path) -> None:
    phone = {
        "load": 0.4,
        "service": "streaming",
        "peak_rate": "80kbps",
        "sizes": {"kind": "constant", "value": "2kB"},
    }
    changes = {
        "duration": "4000s",
        "traffic.phone": phone,
        "traffic.web": {"load": 0.3, "sizes": {"kind": "exponential", "mean": "100kB"}},
    }
    found = replications.replicate(Scenario.load(link).with_(changes), 5)
    assert found.relative_load == pytest.approx(0.5)
    assert found.throughput_law() == pytest.approx(0.6 * 8e6 * 0.5)
    assert found.throughput_bps().value == pytest.approx(2.4e6, rel=0.05)


def test_three_regimes_follow_from_load_and_peak_rate(link: Path, tmp_path: Path) -> None:
    scenario = Scenario.load(link).with_({"traffic.web.peak_rate": "200kbps", "duration": "600s"})
    table = replications.regimes(scenario, (0.3, 0.9, 1.3), replications=3)
    assert table["regime"].to_list() == ["transparent", "elastic", "overload"]
    assert table["throughput"][0] == pytest.approx(1.0, abs=0.01)
    assert table["throughput"][1] == pytest.approx(table["law"][1], abs=0.15)
    assert table["throughput"][2] < 0.5
    assert table["saturated"].is_sorted()
    paths = save(replications.regimes_chart(table), tmp_path, "regimes")
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    runs = {row["regime"]: flow_level.at_load(scenario, row["load"]).run() for row in table.to_dicts()}
    chart = flow_level.demand_chart(runs)
    most = chart.table.group_by("regime", maintain_order=True).agg(pl.col("demand").max())
    assert most["demand"][0] < 1 < most["demand"][2]
    save(chart, tmp_path, "demand")


def test_a_study_can_vary_it(link: Path) -> None:
    mean = Measure(name="mean", compute=mean_in_progress)
    loads = Experiment(
        name="loads",
        title="Loads",
        scenario=Scenario.load(link).given,
        axes={"traffic.web.load": (0.3, 0.6)},
        measures=[mean],
        seeds=2,
    )
    planned = loads.plan(loads.sweep("full"))
    with Store(link.parent / "store") as store:
        tasks = [task for _, task in planned.tasks({})]
        assert campaign.execute(tasks, store, executor=campaign.Local(jobs=1), total=4).made == 4
        found = planned.collect(store, {})
    few, many = ([row[mean] for row in found.rows_at(load=load)] for load in (0.3, 0.6))
    assert max(few) < min(many)


def mean_in_progress(view: View) -> float:
    return float(view.run.tables["links"]["mean_in_progress"][0])


def test_the_command_prints_the_number_beside_the_law(cli: Cli, link: Path, tmp_path: Path) -> None:
    done = cli("flow-level", link, "--replications", "4", "--out", "here")
    assert done.returncode == 0, done.stderr
    for part in (
        "link: 300s of which 20s warm-up, 4 replications from seed 1",
        "geometric distribution 2.333",
        "C(1 - load) = 2.4 Mbps",
        "regime: elastic",
        "million flow events per CPU s",
    ):
        assert part in done.stdout, part
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {"distribution.png", "distribution.csv", "in-progress.svg", "link-runs.csv"} <= names
    drawn = pl.read_csv(tmp_path / "here" / "distribution.csv")
    law = drawn.filter(pl.col("series") == "geometric law", pl.col("flows") == 1)
    assert law["share"][0] == pytest.approx(0.21)


def test_the_command_prints_json_when_asked(cli: Cli, link: Path) -> None:
    settings = ["--set", "traffic.web.load=1.1", "--set", "traffic.web.peak_rate=1Mbps"]
    done = cli("flow-level", link, "--json", "--replications", "1", "--seed", "7", *settings)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seeds"] == [7]
    assert found["scenario"]["traffic"]["web"]["load"] == 1.1
    assert found["mean_in_progress"]["low"] is None
    assert found["distribution"][0]["law"] is None


def test_bad_input_is_refused_with_its_place(cli: Cli, link: Path) -> None:
    for setting, parts in [
        ("link.discipline=lifo", ["link.discipline", "`processor-sharing`"]),
        ("traffic.web.load=-1", ["traffic.web.load", "above 0 and at most 10"]),
        ("traffic.web.sizes.shape=0.1", ["traffic.web.sizes.shape", "above 0.5"]),
        ("traffic.web.lod=1", ["traffic.web", "unknown key `lod`; did you mean `load`?"]),
    ]:
        done = cli("flow-level", link, "--set", setting)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert all(part in done.stderr for part in [str(link), *parts]), done.stderr


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_worth_starting_from_runs_quickly(path: Path) -> None:
    run = Scenario.load(path).run()
    assert run.performance["events"] > 1000
    assert run.performance["cpu_s"] < 5


def test_a_scenario_of_another_level_is_refused_with_the_command_that_runs_it(cli: Cli) -> None:
    done = cli("flow-level", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "aqmlab: hello: must have the level `flow` (got `packet`); use `aqmlab run`\n"
