"""Sweeps: their points, their files, what is run of them and what is not run again."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from conftest import PATIENCE_S, Cli

import aqmlab as al
from aqmlab._support import progress
from aqmlab.campaign import Account, FirstFailureError, Local, Outcome, Task
from aqmlab.cli import sweep_text, table_text
from aqmlab.measures import Measure
from aqmlab.results.table import Results
from aqmlab.scenario import ScenarioFileError
from aqmlab.stats.precision import Precision
from aqmlab.store import Store
from aqmlab.sweep import Stopping, Sweep, stopping
from aqmlab.sweep import charts as sweep_charts
from aqmlab.sweep import claims as claim_tables
from aqmlab.sweep import explain as sweep_explain
from aqmlab.sweep import file as sweep_file
from aqmlab.sweep import run as sweep_run

FILE = """\
scenario = "small.toml"
replications = 3
measures = ["bottleneck.utilisation", "web.p90-time"]

[set]
duration = "6s"

[axes]
queue = ["red", "short"]
"traffic.web.load" = { from = 0.2, to = 0.4, steps = 2 }

[[claims]]
says = "A short queue carries less"
measure = "bottleneck.utilisation"
ratio = { queue = ["short", "red"] }
below = 1.0
"""

COME_WITH_US = sorted((Path(__file__).parent.parent / "scenarios" / "sweeps").glob("*.toml"))


@pytest.fixture
def file(small: Path) -> Path:
    path = small.parent / "sweep.toml"
    path.write_text(FILE)
    return path


def swept(sweep: Sweep, store: Store, **more: object) -> tuple[Results, Account]:
    account = sweep_run.run(sweep, store, executor=Local(jobs=2), **more)  # type: ignore[arg-type]
    return store.results(sweep), account


# Points


def test_what_python_says_wrong_is_told_when_the_sweep_is_made(small: Path) -> None:
    scenario = al.Scenario.load(small)
    for change, told in (
        ({"scenario": str(small)}, ": aqmlab.Scenario.load reads a file"),
        ({"axes": ["queue"]}, "axes: must be a dictionary such as {"),
        ({"axes": {"queue": "red"}}, "axes.queue: must be a list of values (got 'red')"),
        ({"measures": "bottleneck.drops"}, "measures: must be a list of measures"),
        ({"precision": {"relative": 0.1}}, "precision: must be a Stopping (got {"),
    ):
        with pytest.raises(ValueError) as error:
            Sweep(**{"scenario": scenario, "axes": {"queue": ["red"]}} | change)  # type: ignore[arg-type]
        assert told in str(error.value)
    with pytest.raises(ValueError, match=r"write aqmlab.Store\(folder\)"):
        al.run_sweep(Sweep(scenario=scenario, axes={"queue": ["red"]}), "out")  # type: ignore[arg-type]


def test_queues_by_name_are_refused_where_no_link_has_a_queue() -> None:
    root = Path(__file__).parent.parent
    scenario = al.Scenario.load(root / "scenarios" / "flow-level" / "elastic.toml")
    with pytest.raises(ValueError, match=r"axes\.queue: .* packet-level scenario .got the level flow"):
        Sweep(scenario=scenario, axes={"queue": ["red"]})


def test_numbers_of_numpy_are_values_of_an_axis(small: Path) -> None:
    scenario = al.Scenario.load(small)
    axes = {"traffic.web.load": np.linspace(0.1, 0.3, 3), "traffic.ftp.flows": np.arange(1, 3)}
    plain = {path: values.tolist() for path, values in axes.items()}
    assert Sweep(scenario=scenario, axes=axes).id == Sweep(scenario=scenario, axes=plain).id  # type: ignore[arg-type]


def test_points_are_the_product_of_the_axes_in_their_order(file: Path) -> None:
    sweep = sweep_file.load(file).sweep
    assert [dict(point.labels) for point in sweep.points()] == [
        {"queue": "red", "load": 0.2},
        {"queue": "red", "load": 0.4},
        {"queue": "short", "load": 0.2},
        {"queue": "short", "load": 0.4},
    ]
    assert {point.first_seed for point in sweep.points()} == {3}


def test_zipped_axes_go_together_and_a_filter_leaves_points_out(small: Path) -> None:
    sweep = Sweep(
        scenario=al.Scenario.load(small),
        axes={
            "bottleneck.rate": ["1Mbps", "2Mbps", "4Mbps"],
            "traffic.web.load": [0.2, 0.3],
            "bottleneck.delay": ["40ms", "20ms", "10ms"],
        },
        zipped=[["bottleneck.rate", "bottleneck.delay"]],
        where="load < 0.3 OR rate = '4Mbps'",
    )
    assert [tuple(point.labels.values()) for point in sweep.points()] == [
        ("1Mbps", 0.2, "40ms"),
        ("2Mbps", 0.2, "20ms"),
        ("4Mbps", 0.2, "10ms"),
        ("4Mbps", 0.3, "10ms"),
    ]
    assert len(sweep) == 4


def test_axes_with_the_same_last_word_are_called_by_their_paths(small: Path) -> None:
    axes = {"traffic.ftp.stagger": ["1s"], "bottleneck.queue.limit": ["9p"], "traffic.ftp.hosts": ["own"]}
    one = Sweep(scenario=al.Scenario.load(small), axes=axes)
    assert [axis.label for axis in one.all_axes] == ["stagger", "limit", "hosts"]
    both = {"bottleneck.queue.min_th": ["5p"], "queues.short.limit": ["5p"], "bottleneck.queue.limit": ["9p"]}
    two = Sweep(scenario=al.Scenario.load(small), axes=both)
    assert [axis.label for axis in two.all_axes] == ["min_th", "queues.short.limit", "bottleneck.queue.limit"]


ECN_GRID = {"bottleneck.queue.ecn": [False, True], "bottleneck.queue.mark_ecnth": [0.05, 0.2]}


def with_pie(small: Path) -> al.Scenario:
    return al.Scenario.load(small, {"bottleneck.queue": {"kind": "pie"}, "duration": "3s"})


def test_a_value_without_effect_is_left_out_at_the_points_that_do_not_use_it(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(
        scenario=with_pie(small), axes=ECN_GRID, measures=["bottleneck.utilisation"], replications=1
    )
    made = [sweep.scenario_and_left_out(point) for point in sweep.points()]
    path = "bottleneck.queue.mark_ecnth"
    assert [left_out for _, left_out in made] == [(path,), (path,), (), ()]
    without, again, low, high = (scenario for scenario, _ in made)
    assert without.digest == again.digest != low.digest != high.digest
    assert without.effective["bottleneck"]["queue"]["mark_ecnth"] == 0.1
    with Store(tmp_path / "store") as store:
        planned = sweep_run.plan(sweep, store, label="grid")
        assert capsys.readouterr().err == (
            f"aqmlab: {path}: has no effect at 2 of 4 points and is omitted at these points\n"
        )
        result, account = swept(sweep, store)
        sweep_run.plan(sweep, store, label="grid")
    assert capsys.readouterr().err == "", "a sweep that the store knows is not told of again"
    assert len(planned.digests) == 4
    assert (result.frame.height, account.made) == (4, 3), "both points without ECN share their run"


def test_a_value_without_effect_at_any_point_is_refused(small: Path) -> None:
    axes = {**ECN_GRID, "bottleneck.queue.ecn": [False]}
    sweep = Sweep(scenario=with_pie(small), axes=axes)
    with (
        Store.in_memory() as store,
        pytest.raises(ValueError, match="mark_ecnth: has no effect at any point"),
    ):
        sweep_run.plan(sweep, store)


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path, small: Path) -> None:
    written = tmp_path / "bad.toml"
    written.write_text(
        f"""scenario = "{small}"
colour = "red"
first_seed = "x"
measures = ["web.p90-tme", "web.mean-tme"]
[axes]
"traffic.web.load" = {{ from = 0.1 }}
"bottleneck.rate" = ["1Mbps"]
[[claims]]
measure = "web.p90-time"
belw = 1
"""
    )
    with pytest.raises(ScenarioFileError) as raised:
        sweep_file.load(written)
    lines = [line.strip() for line in str(raised.value).splitlines()[1:]]
    places = [line.partition(":")[0] for line in lines]
    measures = ["no measure is named `web.p90-tme`", "no measure is named `web.mean-tme`"]
    assert places == ["colour", "axes.traffic.web.load.to", "first_seed", "claims.0.belw", *measures]


def test_other_mistakes_at_a_point_are_told_beside_values_without_effect(small: Path) -> None:
    sweep = Sweep(scenario=with_pie(small), axes={**ECN_GRID, "bottleneck.queue.target": ["0s"]})
    with pytest.raises(ValueError, match=r"queue\.target: must be at least 1us"):
        sweep.scenario_of(next(sweep.points()))


def test_points_share_random_numbers_except_along_the_axes_that_have_their_own(small: Path) -> None:
    axes = {"traffic.web.load": [0.2, 0.3], "queue": ["red", "short"]}
    sweep = Sweep(scenario=al.Scenario.load(small), axes=axes, own_seeds=["traffic.web.load"])
    seeds = {tuple(point.labels.values()): point.first_seed for point in sweep.points()}
    assert seeds[0.2, "red"] == seeds[0.2, "short"] != seeds[0.3, "red"] == seeds[0.3, "short"]
    # They stay when a value or an axis comes later.
    more = Sweep(
        scenario=al.Scenario.load(small),
        axes={"bottleneck.rate": ["2Mbps"], "traffic.web.load": [0.1, 0.2], "queue": ["red"]},
        own_seeds=["traffic.web.load"],
    )
    assert {point.labels["load"]: point.first_seed for point in more.points()}[0.2] == seeds[0.2, "red"]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("{ from = 1, to = 4, steps = 4 }", [1, 2, 3, 4]),
        ('{ from = "1Mbps", to = "100Mbps", steps = 3, scale = "log" }', ["1Mbps", "10Mbps", "100Mbps"]),
        ('{ from = "10ms", to = "35ms", step = "10ms" }', ["10ms", "20ms", "30ms"]),
        ('{ from = "500kbps", to = "2Mbps", steps = 2 }', ["500kbps", "2000kbps"]),
        ("{ from = 0.1, to = 0.3, step = 0.1 }", [0.1, 0.2, 0.3]),
        (
            '{ from = "3kB", to = "300kB", steps = 5, scale = "log" }',
            ["3kB", "9487B", "30kB", "94868B", "300kB"],
        ),
        ('{ from = "10p", to = "25p", steps = 3 }', ["10p", "18p", "25p"]),
    ],
)
def test_a_range_has_the_values_that_a_person_would_write(
    given: str, values: list[object], file: Path
) -> None:
    text = FILE.replace('queue = ["red", "short"]', f'"bottleneck.delay" = {given}')
    assert sweep_file._values("axes.x", __import__("tomllib").loads(f"x = {given}")["x"]) == values
    assert text != FILE


def test_an_axis_of_named_tables_puts_them_whole(small: Path) -> None:
    queues = {"small": {"kind": "drop-tail", "limit": "4p"}, "large": {"kind": "drop-tail", "limit": "90p"}}
    sweep = Sweep(scenario=al.Scenario.load(small), axes={"bottleneck.queue": queues})
    limits = [sweep.scenario_of(point).effective["bottleneck"]["queue"]["limit"] for point in sweep.points()]
    assert limits == ["4p", "90p"]


def test_overrides_choose_replace_add_and_set(file: Path) -> None:
    asked = ["queue=short", "load=0.1,0.2,0.3", "bottleneck.delay=10ms", "bottleneck.rate=1Mbps,3Mbps"]
    sweep = sweep_file.load(file, asked).sweep
    assert {axis.label: list(axis.values) for axis in sweep.all_axes} == {
        "queue": ["short"],
        "load": [0.1, 0.2, 0.3],
        "rate": ["1Mbps", "3Mbps"],
    }
    assert sweep.scenario.effective["bottleneck"]["delay"] == "10ms"


def test_a_scenario_file_is_a_sweep_with_axes_behind_it(small: Path) -> None:
    sweep = sweep_file.load(small, ["traffic.ftp.flows=1,2"], replications=2).sweep
    assert [dict(point.labels) for point in sweep.points()] == [{"flows": 1}, {"flows": 2}]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('scenario = "small.toml"', 'scenario = "none.toml"'), "none.toml: cannot be read"),
        (
            ("replications = 3", "replications = 0"),
            "replications: must be a whole number of at least 1",
        ),
        (("replications = 3", 'replications = "3"'), "replications: must be a whole number"),
        (("replications", "replication"), "replication: is unknown: did you mean replications"),
        (('"web.p90-time"', '"web.p90-tme"'), "no measure is named `web.p90-tme`: did you mean web.p90-time"),
        (('"web.p90-time"', '"ftp.p90-time"'), "no measure is named `ftp.p90-time`"),
        (('short"', 'purple"'), "no queue is named `purple`"),
        (("traffic.web.load", "traffic.web.lod"), "did you mean `load`"),
        (("steps = 2", "steps = 1"), "axes.traffic.web.load.steps: must be a whole number of at least 2"),
        (("to = 0.4", 'to = "4ms"'), "axes.traffic.web.load: "),
        (("to = 0.4", "to = 0.1"), "axes.traffic.web.load.to: must not be less than"),
        (("replications = 3", 'where = "lod < 1"'), "where: "),
        (("replications = 3", 'where = "load > 1"'), "where: excludes all points"),
        (("replications = 3", 'zip = [["queue", "delay"]]'), "zipped: no axis is named `delay`"),
        (("replications = 3", 'tables = ["flow"]'), "tables: no table is named `flow`"),
        (("replications = 3", "[measure.x]\nunit = 's'"), "measure.x.sql: is missing"),
        (("below = 1.0", "belw = 1.0"), "claims.0.belw: is unknown: did you mean below?"),
        (
            ('["short", "red"]', '["short", "blue"]'),
            "claims.0.ratio: queue has no value 'blue': available: 'red', 'short'",
        ),
        (
            ("replications = 3", "[precision]\nrelative = 0.1\nabsolute = 1\nmeasures = ['web.p90-time']"),
            "must set the half-width, as either relative or absolute",
        ),
        (("replications = 3", "[precision]\nrelative = 0.1"), "precision.measures: must name a measure"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_place(
    change: tuple[str, str], told: str, file: Path, cli: Cli
) -> None:
    text = FILE.replace(*change)
    assert text != FILE
    if change[1].startswith(
        ("[measure", "[precision")
    ):  # A table goes behind the keys that belong to no table.
        text = FILE.replace(change[0], "") + change[1]
    file.write_text(text)
    with pytest.raises((ScenarioFileError, ValueError)) as error:
        sweep_run.plan(sweep_file.load(file).sweep, Store.in_memory())
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("replications = 3", "zip = [1]"), "zip: must be a list of lists of axes"),
        (("replications = 3", 'zip = ["queue", "load"]'), "zip: must be a list of lists of axes"),
        (("[set]", "[precision]\nmeasures = 5\n[set]"), "precision.measures: must be a list"),
        (("[set]", '[precision]\nrelative = "x"\n[set]'), "precision.relative: must be a number"),
        (("[set]", "[precision]\nleast = 5.5\n[set]"), "precision.least: must be a whole number"),
        (("[set]", "[measure.x]\nsql = 5\n[set]"), "measure.x.sql: must be a string"),
        (("[set]", '[measure.x]\nsql = ""\ndigits = 0\n[set]'), "measure.x.digits: must be at least 1"),
        (("to = 0.4, steps = 2", "to = inf, step = 1"), "axes.traffic.web.load: must be a number"),
        (("from = 0.2", "from = nan"), "axes.traffic.web.load: must be a number"),
        (("replications = 3", "first_seed = -1"), "first_seed: must be a whole number of at least 0"),
        (("below = 1.0", "below = 1.0\nwhere = 'lod < 1'"), "claims.0.where: "),
        (("below = 1.0", "below = 1.0\nwhere = 5"), "claims.0.where: must be a string"),
        (("below = 1.0", "below = nan"), "claims.0.below: must be a number"),
        (('["short", "red"] }', '["short", "short"] }'), "the value 'short' occurs twice"),
        (
            ("replications = 3", 'own_seeds = ["queue"]'),
            "claims.0.ratio: points along queue cannot be paired",
        ),
    ],
)
def test_what_would_only_show_after_all_runs_is_told_before_the_first(
    change: tuple[str, str], told: str, file: Path
) -> None:
    text = FILE.replace(*change)
    assert text != FILE
    file.write_text(text)
    with pytest.raises(ScenarioFileError) as raised:
        sweep_file.load(file)
    assert told in str(raised.value)


def test_the_message_of_a_scenario_with_axes_names_the_file_once(small: Path) -> None:
    for changes, lines in (
        (["bottlenck.rate=1Mbps"], ["with the sweep's settings: bottlenck: unknown key"]),
        (["a=1", "b=1"], ["with the sweep's settings:", "a: unknown key", "b: unknown key"]),
    ):
        with pytest.raises(ScenarioFileError) as raised:
            sweep_file.load(small, [*changes, "traffic.web.load=0.1,0.2"])
        said = str(raised.value)
        assert said.startswith(f"{small}:") and said.count(str(small)) == 1, said
        assert [line in said for line in lines] == [True] * len(lines), said


@pytest.mark.parametrize("name", ["seed", "load"])
def test_a_measure_is_not_called_as_an_axis_or_a_column_of_runs(name: str, small: Path) -> None:
    measure = Measure(name=name, compute=lambda view: 1.0)
    with pytest.raises(ValueError, match=f"measure.{name}: the name is already used by"):
        Sweep(scenario=al.Scenario.load(small), axes={"traffic.web.load": [0.1, 0.2]}, measures=[measure])


def test_an_axis_whose_last_word_is_a_column_of_results_is_called_by_its_path(small: Path) -> None:
    small.write_text(small.read_text().replace("traffic.web", "traffic.low"))
    scenario = al.Scenario.load(small)
    workload = scenario.given["traffic"]["low"]
    axes = {"traffic.low": {"half": workload | {"load": 0.1}, "full": workload}}
    sweep = Sweep(scenario=scenario, axes=axes, replications=2)
    intervals = al.run_sweep(sweep, jobs=2).intervals()
    assert intervals["traffic.low"].unique().sort().to_list() == ["full", "half"]
    assert intervals["low"].dtype == pl.Float64


def test_precision_asks_for_no_pairs_of_points_with_seeds_of_their_own(small: Path) -> None:
    with pytest.raises(ValueError, match=r"precision\.baseline: points along load cannot be paired"):
        Sweep(
            scenario=al.Scenario.load(small),
            axes={"traffic.web.load": [0.1, 0.2]},
            own_seeds=["traffic.web.load"],
            precision=Stopping(
                rule=Precision(relative=0.1), measures=["web.goodput"], baseline={"load": 0.1}
            ),
        )


@pytest.mark.parametrize("path", COME_WITH_US, ids=lambda path: path.stem)
def test_a_sweep_that_comes_with_us_is_right(path: Path) -> None:
    chosen = sweep_file.load(path)
    planned = sweep_run.plan(chosen.sweep, Store.in_memory())
    assert len(set(planned.digests)) == len(planned.points) > 1


def test_a_sweep_of_which_the_core_makes_other_results_is_another_one(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep(scenario=al.Scenario.load(small), axes={"traffic.web.load": [0.1]})
    before = sweep.id
    assert replace(sweep, replications=3, measures=["web.goodput"]).id == before
    monkeypatch.setattr(al.Scenario, "digest", property(lambda scenario: "of another version"))
    assert replace(sweep).id != before


# Runs


def test_a_second_call_makes_nothing_and_an_axis_with_the_old_value_keeps_what_there_is(
    file: Path, tmp_path: Path
) -> None:
    sweep = sweep_file.load(file).sweep
    with Store(tmp_path / "store") as store:
        first, did = swept(sweep, store)
        assert (did.made, did.found) == (12, 0)
        again, did = swept(sweep, store)
        assert (did.made, did.found) == (0, 12)
        assert again.frame.equals(first.frame)
        wider = sweep_file.load(file, ["traffic.ftp.flows=3,4"]).sweep
        _, did = swept(wider, store)
        assert (did.made, did.found) == (12, 12)
        more = sweep_file.load(file, replications=4).sweep
        _, did = swept(more, store)
        assert (did.made, did.found) == (4, 12)


def test_values_are_those_of_single_runs_and_differences_are_paired(file: Path, tmp_path: Path) -> None:
    chosen = sweep_file.load(file)
    with Store(tmp_path / "store") as store:
        result, _ = swept(chosen.sweep, store)
    changes = {"duration": "6s", "traffic.web.load": 0.4, "bottleneck.queue": {"kind": "red"}}
    run = al.Scenario.load(file.parent / "small.toml", changes).run(4)
    row = result.frame.filter(queue="red", load=0.4, seed=4).row(0, named=True)
    assert row["bottleneck.utilisation"] == run.summary["links"]["bottleneck"]["utilisation"] * 100
    assert row["web.p90-time"] == run.summary["transfers"]["web"]["p90_s"]
    differences = result.against({"queue": "red"}, wanted=["bottleneck.utilisation"])
    assert differences["queue"].to_list() == ["short", "short"]
    pair = {
        queue: result.frame.filter(queue=queue, load=0.2).sort("seed")["bottleneck.utilisation"]
        for queue in ("red", "short")
    }
    assert differences["mean"][0] == pytest.approx((pair["short"] - pair["red"]).mean())
    (judged,) = claim_tables.judge(chosen.claims, result)
    assert [(one.level, one.where) for one in judged.evidence.parts] == [
        (0.95, {"load": 0.2}),
        (0.95, {"load": 0.4}),
    ]
    assert judged.claim.rule.text == "sweep, at each load: utilisation, ratio of short to red must be below 1"


def test_a_measure_of_ones_own_is_made_by_python_or_sql_and_only_when_it_is_new(
    file: Path, tmp_path: Path
) -> None:
    file.write_text(
        FILE + '\n[measure.sent]\nsql = "select sum(packets_sent) from flows"\nunit = "packets"\n'
    )
    asked = ["sent", "bottleneck.drops"]
    sweep = sweep_file.load(file, measures=asked).sweep
    with Store(tmp_path / "store") as store:
        swept(sweep_file.load(file).sweep, store)
        result, did = swept(sweep, store)
        assert did.made == 12
        assert result.frame["sent"].min() > 100
        assert swept(sweep, store)[1].made == 0
        file.write_text(file.read_text().replace("sum(packets_sent)", "max(packets_sent)"))
        assert swept(sweep_file.load(file, measures=asked).sweep, store)[1].made == 12
    most = Measure(name="most", compute=lambda view: view.flows("ftp")["packets_sent"].max())
    chosen = sweep.__class__(
        scenario=sweep.scenario, axes={"queue": ["red"]}, measures=[most], replications=1
    )
    result, _ = swept(chosen, Store.in_memory())
    assert result.frame["most"][0] > 10


def test_a_query_that_is_wrong_fails_its_runs_with_one_line(file: Path) -> None:
    file.write_text(FILE + '\n[measure.bad]\nsql = "select max(nothing) from flows"\n')
    _, did = swept(sweep_file.load(file, measures=["bad"]).sweep, Store.in_memory())
    assert len(did.failures) == 12
    (problem,) = {one.problem for one in did.failures}
    assert "measure.bad.sql" in problem and "nothing" in problem
    assert "\n" not in problem


def test_a_raised_version_makes_runs_again_and_another_title_does_not(small: Path, tmp_path: Path) -> None:
    def sweep(version: int, title: str = "one") -> Sweep:
        one = Measure(name="one", title=title, version=version, compute=lambda view: float(version))
        axes = {"traffic.web.load": [0.1, 0.2]}
        scenario = al.Scenario.load(small, {"duration": "3s"})
        return Sweep(scenario=scenario, axes=axes, measures=[one], replications=2, name="versions")

    with Store(tmp_path / "store") as store:
        swept(sweep(1), store)
        assert swept(sweep(1, "another title"), store)[1].made == 0
        planned = sweep_run.plan(sweep(2), store)
        whys = {one.reason for one in sweep_explain.missing(planned, store)}
        assert whys == {"one has version 2, but version 1 is stored"}
        result, did = swept(sweep(2), store)
        assert did.made == 4
        assert result.frame["one"].to_list() == [2.0] * 4
        assert list(sweep_explain.missing(planned, store)) == []


def test_why_names_the_parameter_that_changed(file: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        swept(sweep_file.load(file).sweep, store)
        changed = sweep_file.load(file, ["bottleneck.delay=30ms", "load=0.2,0.5"]).sweep
        whys = [one.reason for one in sweep_explain.missing(sweep_run.plan(changed, store), store)]
        assert whys.count("bottleneck.delay changed from 20ms to 30ms") == 6
        assert whys.count("the run does not exist") == 6
        assert swept(changed, store)[1].made == 12


def test_shards_together_make_every_run_once(file: Path, tmp_path: Path) -> None:
    sweep = sweep_file.load(file).sweep
    made = []
    for part in (1, 2, 3):
        with Store(tmp_path / "store") as store:
            made.append(sweep_run.run(sweep, store, shard=(part, 3)).made)
    assert made == [6, 3, 3]
    with Store(tmp_path / "store") as store:
        assert not store.records("finished")
        assert swept(sweep, store)[1].made == 0
        assert len(store.records("finished")) == 1
        swept(sweep, store)
        assert len(store.records("finished")) == 1


def test_tables_are_kept_whole_on_request(file: Path, tmp_path: Path) -> None:
    sweep = sweep_file.load(file, ["queue=red", "load=0.2"], tables=["transfers"], replications=1).sweep
    with Store(tmp_path / "store") as store:
        swept(sweep, store)
        planned = sweep_run.plan(sweep, store)
        (record,) = store.runs_of(planned.digests).values()
        kept = store.frame(record, "tables/transfers@1")
    assert kept.equals(planned.scenarios.of(planned.points[0]).run(3).transfers)
    all_ = sweep_file.load(file, ["queue=red", "load=0.2"], tables=["tables"], replications=1).sweep
    names = {one.name for one in all_.wanted if one.name.startswith("tables/")}
    assert names == {f"tables/{name}" for name in planned.scenarios.of(planned.points[0]).run(3).tables}


# Failures


def failing(small: Path, *seeds: int) -> Sweep:
    def compute(view: object) -> float:
        seed = view.run.manifest["seed"]  # type: ignore[attr-defined]
        if seed in seeds:
            raise RuntimeError(f"seed {seed} is unlucky")
        return float(seed)

    return Sweep(
        scenario=al.Scenario.load(small, {"duration": "3s"}),
        axes={"traffic.web.load": [0.1, 0.2]},
        measures=[Measure(name="one", compute=compute)],
        replications=3,
        name="failing",
    )


def test_a_run_that_fails_is_kept_with_its_error_and_made_again_only_on_request(
    small: Path, tmp_path: Path
) -> None:
    with Store(tmp_path / "store") as store:
        account = sweep_run.run(failing(small, 4), store)
        assert (account.made, len(account.failures)) == (6, 2)
        assert str(account.failures[0]) == "failing: load = 0.1, seed 4: RuntimeError: seed 4 is unlucky"
        again = sweep_run.run(failing(small), store)
        assert (again.made, len(again.failures)) == (0, 2)
        result = store.results(failing(small))
        assert result.frame.filter(status="failed")["error"].to_list() == 2 * [
            "RuntimeError: seed 4 is unlucky"
        ]
        assert result.intervals()["replications"].to_list() == [2, 2]
        healed = sweep_run.run(failing(small), store, retry=True)
        assert (healed.made, healed.failures) == (2, [])


class Watched:
    """This machine, which tells what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.bars: list[tuple[str | None, int, int]] = []

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        self.bars.append((label, total, already))

        def noted() -> Iterator[Task]:
            for task in tasks:
                self.asked.append(task.run)
                yield task

        Local(jobs=2).each(noted(), done, total=total, already=already, label=None)


def test_a_retry_makes_a_run_that_fails_again_once_however_often_precision_looks(small: Path) -> None:
    sweep = replace(
        failing(small, 4),
        precision=Stopping(rule=Precision(absolute=1e-9, least=3, most=8), measures=["one"]),
    )
    store, watched = Store.in_memory(), Watched()
    sweep_run.run(sweep, store)
    account = sweep_run.run(sweep, store, executor=watched, retry=True)
    assert len(watched.asked) == len(set(watched.asked)) == account.made == 2
    assert (account.found, len(account.failures)) == (14, 2)


def test_each_look_of_precision_has_a_bar_of_its_own_runs(small: Path) -> None:
    rule = Precision(absolute=1e-9, least=3, most=8)
    sweep = replace(failing(small), precision=Stopping(rule=rule, measures=["one"]))
    watched = Watched()
    account = sweep_run.run(sweep, Store.in_memory(), executor=watched)
    assert watched.bars == [(None, 6, 0), (None, 4, 0), (None, 6, 0)]
    assert (account.made, account.found) == (16, 0)


def test_a_sweep_of_which_all_was_made_in_shards_is_finished(file: Path, tmp_path: Path) -> None:
    sweep = sweep_file.load(file).sweep
    with Store(tmp_path / "store") as store:
        for part in (1, 2):
            sweep_run.run(sweep, store, shard=(part, 2))
        assert store.records("finished") == []
        for _ in range(2):
            assert sweep_run.run(sweep, store).made == 0
        (finished,) = store.records("finished")
    assert (finished["sweep"], finished["runs"], finished["failed"]) == (sweep.id, 12, 0)


def test_a_measure_that_gives_what_no_store_keeps_fails_its_run_and_no_other(small: Path) -> None:
    odd = Measure(name="odd", compute=lambda view: object() if view.run.manifest["seed"] == 4 else 1.0)
    sweep = Sweep(
        scenario=al.Scenario.load(small, {"duration": "3s"}),
        axes={"traffic.web.load": [0.1]},
        measures=[odd],
        replications=3,
    )
    result = al.run_sweep(sweep)
    assert [failure.seed for failure in result.failures] == [4]
    assert "object" in result.failures[0].problem
    assert result.frame["odd"].to_list() == [1.0, None, 1.0]


def test_a_measure_that_fails_on_a_run_that_is_done_is_kept_as_a_failure_and_not_tried_again(
    small: Path, tmp_path: Path
) -> None:
    def sweep(*measures: str | Measure) -> Sweep:
        scenario = al.Scenario.load(small, {"duration": "3s"})
        axes = {"traffic.web.load": [0.1]}
        return Sweep(scenario=scenario, axes=axes, measures=measures, replications=2, name="later")

    wrong = Measure(name="wrong", compute=lambda view: 1 / 0)
    mended = Measure(name="wrong", version=2, compute=lambda view: 1.0)
    with Store(tmp_path / "store") as store:
        swept(sweep("bottleneck.drops"), store)
        first = sweep_run.run(sweep("bottleneck.drops", wrong), store)
        again = sweep_run.run(sweep("bottleneck.drops", wrong), store)
        assert (first.made, again.made) == (2, 0)
        assert [str(one) for one in again.failures] == [str(one) for one in first.failures]
        assert "ZeroDivisionError" in again.failures[0].problem
        assert sweep_run.run(sweep("bottleneck.drops", wrong), store, retry=True).made == 2
        result, did = swept(sweep("bottleneck.drops", mended), store)
        assert (did.made, did.failures) == (2, [])
        assert result.frame["wrong"].to_list() == [1.0, 1.0]
        assert swept(sweep("bottleneck.drops"), store)[1].failures == []


def test_the_first_failure_stops_a_sweep_if_asked(small: Path) -> None:
    store = Store.in_memory()
    with pytest.raises(FirstFailureError, match=r"load = 0\.[12], seed 3: RuntimeError"):
        sweep_run.run(failing(small, 3), store, executor=Local(jobs=1), fail_fast=True)
    assert store.runs().height < 6


# Precision


def test_each_point_is_replicated_until_its_interval_is_narrow(small: Path, tmp_path: Path) -> None:
    def compute(view: object) -> float:
        table = view.run.manifest  # type: ignore[attr-defined]
        wide = table["scenario"]["traffic"]["web"]["load"]
        return 10 + wide * ((table["seed"] * 7919) % 11 - 5)

    def sweep(most: int) -> Sweep:
        return Sweep(
            scenario=al.Scenario.load(small, {"duration": "1s", "warm_up": "0s"}),
            axes={"traffic.web.load": [0.01, 0.3, 0.9]},
            measures=[Measure(name="noisy", compute=compute)],
            precision=Stopping(rule=Precision(relative=0.1, least=5, most=most), measures=["noisy"]),
            name="precise",
        )

    with Store(tmp_path / "store") as store:
        result, _ = swept(sweep(200), store)
        enough = sweep_run.plan(sweep(200), store).stopping_states(store)
        counts = [one.wanted for one in enough]
        assert counts[0] == 5
        assert counts[0] <= counts[1] < counts[2] < 200
        assert set(counts) <= set(Precision(relative=0.1, least=5, most=200).looks())
        for row in result.intervals().iter_rows(named=True):
            assert (row["high"] - row["low"]) / 2 <= 0.1 * row["mean"]
        again = swept(sweep(200), store)[1]
        assert (again.made, again.found) == (0, sum(counts))
        assert result.level() == Precision(relative=0.1, least=5, most=200).look_level > 0.99
        short, _ = swept(sweep(7), store)
        assert short.too_wide == 1
        enough = sweep_run.plan(sweep(7), store).stopping_states(store)
        assert [one.exhausted for one in enough] == [False, False, True]


def test_precision_of_a_difference_asks_the_same_seeds_of_the_baseline(small: Path) -> None:
    sweep = Sweep(
        scenario=al.Scenario.load(small, {"duration": "6s"}),
        axes={"queue": ["red", "short"]},
        measures=["bottleneck.utilisation"],
        precision=Stopping(
            rule=Precision(absolute=4.0, least=4, most=40),
            measures=["bottleneck.utilisation"],
            baseline={"queue": "red"},
        ),
    )
    result, _ = swept(sweep, Store.in_memory())
    ours, theirs = (result.frame.filter(queue=queue).height for queue in ("short", "red"))
    assert ours == theirs >= 4


def test_the_baseline_has_as_many_seeds_as_the_point_that_needs_most(small: Path) -> None:
    def compute(view: object) -> float:
        table = view.run.manifest  # type: ignore[attr-defined]
        wide = {0.1: 0.0, 0.2: 5.0, 0.3: 0.1}[table["scenario"]["traffic"]["web"]["load"]]
        return 10 + wide * ((table["seed"] * 7919) % 11 - 5)

    sweep = Sweep(
        scenario=al.Scenario.load(small, {"duration": "1s", "warm_up": "0s"}),
        axes={"traffic.web.load": [0.1, 0.2, 0.3]},
        measures=[Measure(name="noisy", compute=compute)],
        precision=Stopping(
            rule=Precision(absolute=1.0, least=4, most=12), measures=["noisy"], baseline={"load": 0.1}
        ),
    )
    result, _ = swept(sweep, Store.in_memory())
    assert [result.frame.filter(load=load).height for load in (0.1, 0.2, 0.3)] == [12, 12, 4]


def test_a_warm_up_by_mser_5_is_taken_from_a_run_of_each_point(small: Path, tmp_path: Path) -> None:
    sweep = Sweep(
        scenario=al.Scenario.load(small, {"duration": "30s"}),
        axes={"traffic.web.load": [0.1, 0.3]},
        measures=["bottleneck.utilisation"],
        replications=2,
        warm_up="mser-5",
    )
    with Store(tmp_path / "store") as store:
        planned = sweep_run.plan(sweep, store)
        found = [planned.scenarios.of(point).effective["warm_up"] for point in planned.points]
        assert all(one.endswith("ms") and 0 <= int(one.removesuffix("ms")) < 15000 for one in found)
        before = store.runs().height
        assert [one.digest for one in map(planned.scenarios.of, planned.points)] == list(planned.digests)
        sweep_run.plan(sweep, store)
        assert store.runs().height == before == 2


class Pressed(Watched):
    """Ctrl-C before anything is made."""

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        self.bars.append((label, total, already))
        raise KeyboardInterrupt


def test_ctrl_c_in_the_runs_that_tell_the_warm_up_ends_them(small: Path) -> None:
    sweep = Sweep(scenario=al.Scenario.load(small), axes={"traffic.web.load": [0.1, 0.3]}, warm_up="mser-5")
    pressed = Pressed()
    result = al.run_sweep(sweep, executor=pressed)
    assert (result.interrupted, result.frame.height, result.intervals().height) == (True, 0, 0)
    assert pressed.bars == [(None, 2, 0)]


def test_one_long_run_has_intervals_by_batch_means_and_doubts_are_told(small: Path) -> None:
    scenario = al.Scenario.load(small, {"duration": "120s", "record.queue_every": "20ms"})
    sweep = Sweep(
        scenario=scenario,
        axes={"traffic.web.load": [0.3]},
        measures=["web.mean-time", "bottleneck.mean-queue", "bottleneck.utilisation"],
        replications=1,
    )
    result = al.run_sweep(sweep)
    rows = {row["measure"]: row for row in result.intervals().iter_rows(named=True)}
    assert set(rows) == {"web.mean-time", "bottleneck.mean-queue", "bottleneck.utilisation"}
    for name in ("web.mean-time", "bottleneck.mean-queue"):
        assert rows[name]["low"] < rows[name]["mean"] < rows[name]["high"]
    assert rows["bottleneck.utilisation"]["low"] != rows["bottleneck.utilisation"]["low"]
    short = Sweep(
        scenario=scenario.with_({"duration": "3s"}),
        axes=sweep.axes,
        measures=["web.mean-time"],
        replications=1,
    )
    assert "too few values" in " ".join(al.run_sweep(short).doubts)


def test_medians_and_distributions_over_replications_have_intervals_and_bands(file: Path) -> None:
    result = al.run_sweep(sweep_file.load(file, ["load=0.2"], replications=8).sweep)
    medians = result.intervals(quantile=0.5)
    values = result.frame.filter(queue="red")["web.p90-time"]
    assert medians["low"][1] in values.to_list()
    assert medians["low"][1] <= medians["mean"][1] <= medians["high"][1]
    band = result.distribution("web.p90-time").filter(queue="short")
    assert band["share"][-1] == 1.0
    assert band["low"][-1] == pytest.approx(1 - 0.4802, abs=1e-3)  # sqrt(ln(40) / 16)
    chart = sweep_charts.distribution(result, "web.p90-time")
    assert (chart.by, chart.y_label) == ("queue", "Share of runs")
    against = sweep_charts.against_axis(result, "web.p90-time", x="load")
    assert against.x_label == "web load", "an axis of a workload says of which"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.0, 2.0, "1.50 ± 0.50"),
        (1.0, math.inf, "1.500 [1.000, inf]"),
        (-math.inf, 2.0, "1.500 [-inf, 2.000]"),
    ],
)
def test_an_end_of_a_quantile_that_is_not_known_is_told_beside_the_other(
    low: float, high: float, said: str
) -> None:
    assert sweep_text._cell({"mean": 1.5, "low": low, "high": high}, 4) == said


# The command


def test_the_command_prints_intervals_claims_and_where_runs_are(cli: Cli, file: Path) -> None:
    done = cli("sweep", "run", file, "--baseline", "queue=red")
    assert done.returncode == 0, done.stderr
    for part in (
        "over 3 replications",
        "Paired differences from queue=red",
        "12 runs executed, 0 found",
        "below 1",
    ):
        assert part in done.stdout, part
    printed = cli("sweep", "run", file, "--json")
    found = json.loads(printed.stdout)
    assert len(found["intervals"]) == 8
    assert found["claims"][0]["verdict"] in ("holds", "undecided", "fails")
    rows = pl.read_csv(cli("sweep", "show", file, "--csv").stdout.encode())
    assert rows.shape == (12, 9)
    assert "Nothing to run" in cli("sweep", "explain", file).stdout
    assert "bottleneck.mean-queue" in cli("sweep", "measures", file).stdout


def test_a_dry_run_counts_and_estimates_and_writes_nothing(cli: Cli, file: Path) -> None:
    said = cli("sweep", "run", file, "--dry-run").stdout
    assert "4 points, 12 runs: 0 exist, 12 are missing" in said
    assert "Estimated time: " in said
    assert not (file.parent / "out").exists()


def test_show_draws_what_is_there_and_says_what_is_not(cli: Cli, file: Path) -> None:
    cli("sweep", "run", file, "load=0.2")
    done = cli("sweep", "show", file, "--measure", "web.p90-time", "--plot", "drawn")
    assert "6 of 12 runs are missing from the store" in done.stderr
    assert (file.parent / "drawn" / "web.p90-time.svg").exists()


def test_bad_words_on_the_command_line_are_refused(cli: Cli, file: Path) -> None:
    for words, told in (
        (["--baseline", "queue"], "must be AXIS=VALUE"),
        (["--baseline", "queue=blue"], "queue has no value 'blue'"),
        (["--shard", "3/2"], "--shard: must be I/N"),
        (["load"], "must have the form path=value"),
        (["--measure", "none"], "no measure is named `none`"),
        (["--ratio"], "--ratio: needs --baseline"),
    ):
        done = cli("sweep", "run", file, *words)
        assert (done.returncode, told in done.stderr) == (2, True), (words, done.stderr)
    assert not (file.parent / "out").exists()
    file.write_text(FILE + "\n[precision]\nrelative = 0.1\nmeasures = ['web.p90-time']\n")
    done = cli("sweep", "run", file, "--replications", "4")
    assert (done.returncode, "conflicts with precision" in done.stderr) == (2, True)
    done = cli("sweep", "show", file, "--by", "queue")
    assert (done.returncode, done.stderr) == (2, "aqmlab: --by: needs --plot FOLDER\n")


def test_measures_of_a_scenario_without_axes_are_listed(cli: Cli, small: Path) -> None:
    done = cli("sweep", "measures", small)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bottleneck.utilisation" in done.stdout


def test_a_sweep_is_shown_as_latex_and_drawn_as_pdf(file: Path, cli: Cli) -> None:
    assert cli("sweep", "run", file, "--replications", "2").returncode == 0
    words = ["sweep", "show", file, "--replications", "2"]
    shown = cli(*words, "--table", "latex", "--plot", "charts", "--pictures", "pdf", "--width", "88mm")
    assert shown.returncode == 0, shown.stderr
    assert r"\begin{tabular}{" in shown.stdout
    drawn = sorted(path.suffix for path in (file.parent / "charts").iterdir())
    assert set(drawn) == {".csv", ".pdf"}
    assert f"Plot: {Path('charts')}" in shown.stdout
    refused = cli(*words, "--width", "88mm")
    assert (refused.returncode, refused.stderr) == (2, "aqmlab: --width: needs --plot FOLDER\n")


def test_a_table_wider_than_the_terminal_becomes_several_that_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = ["queue", *(f"measure-{number}\n(ms)" for number in range(9))]
    rows = [["red", *["1.25 ± 0.10"] * 9], ["drop-tail", *["3.50 ± 0.20"] * 9]]
    table_text.print_table("means", heads, rows, left=1)
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    table_text.print_table("means", heads, rows, left=1)
    shown = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert len([line for line in piped.splitlines() if "drop-tail" in line]) == 1
    assert max(map(len, shown.splitlines())) <= 60
    assert len([line for line in shown.splitlines() if "drop-tail" in line]) == 3
    assert [shown.count(f"measure-{number}") for number in range(9)] == [1] * 9
    assert shown.count("3.50 ± 0.20") == 9


def test_a_title_longer_than_its_table_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    table_text.print_table(
        "A title that is longer than the table", ["queue", "drops"], [["red", "1"]], left=1
    )
    assert capsys.readouterr().out.splitlines()[0] == "A title that is longer than the table"


LONG = """\
import sys
from aqmlab.cli import main
sys.argv = ["aqmlab", "sweep", "run", sys.argv[1], "duration=20s", "--replications", "200", "--store", "kept"]
main()
"""


def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(file: Path, cli: Cli) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, str(file)],
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_runs(file.parent / "kept", 20)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130, said
    assert "the finished runs are in kept" in said
    kept = Store(file.parent / "kept", read_only=True).runs().height
    assert 20 <= kept < 800


def test_kill_9_loses_no_run_that_was_kept(file: Path) -> None:
    kept = file.parent / "kept"
    before = 0
    for round_ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", LONG, str(file)],
            cwd=file.parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_runs(kept, before + 5 + 7 * round_)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        now = Store(kept, read_only=True).runs().height
        assert now >= before + 5
        before = now


def wait_for_runs(folder: Path, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if folder.exists() and Store(folder, read_only=True).runs().height >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"no {count} runs in {folder}")


def test_the_bar_tells_how_many_runs_failed(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress.Bar, "_show", lambda self, completed, words: said.append(words))
    sweep_run.run(failing(small, 4), Store.in_memory(), label="failing")
    assert said[-1] == "6 of 6 runs, 2 failed"


def test_relative_to_a_baseline_of_zero_only_equal_differences_are_precise() -> None:
    rule = Precision(relative=0.05, least=5, most=10)
    zero = {"score": dict.fromkeys(range(5), 0.0)}
    equal = {"score": dict.fromkeys(range(5), 100.0)}
    spread = {"score": {seed: 100.0 + seed for seed in range(5)}}
    assert stopping._look(rule, "score", equal, zero, 5).enough
    assert not stopping._look(rule, "score", spread, zero, 5).enough
