"""Sweeps of a store as a page: of a sweep file, of a whole store, from the command line."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, Cli

from aqmlab import campaign
from aqmlab.explore import of_store as explore_store
from aqmlab.explore import page as explore
from aqmlab.explore.page import Exploration
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.sweep import Sweep
from aqmlab.sweep import run as sweep_run

FILE = """\
scenario = "small.toml"
replications = 3
measures = ["bottleneck.utilisation", "web.mean-time"]

[axes]
"bottleneck.rate" = ["1Mbps", "2Mbps"]
"bottleneck.queue" = ["short", "red"]
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return Sweep(
        scenario=Scenario.load(path),
        axes={"bottleneck.rate": ["1Mbps", "2Mbps"], "bottleneck.queue": ["short", "red"]},
        measures=["bottleneck.utilisation", "web.mean-time"],
        name="lines",
        replications=3,
    )


@pytest.fixture(scope="module")
def store(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The runs of a sweep, of which one failed."""
    with Store(tmp_path_factory.mktemp("store") / "kept") as kept:
        planned = sweep_run.plan(sweep, kept)
        task = planned.task(3, 1)
        campaign.keep_scenario(kept, task.scenario)
        failed = {"status": "failed", "error": "a limit was reached", "facts": {"asked": list(task.keys)}}
        kept.add({"kind": "run", "scenario": task.scenario.digest, "seed": 4, "values": {}, **failed})
        sweep_run.run(sweep, kept)
        yield kept


def check(found: Exploration, sweep: Sweep, store: Store) -> None:
    results = store.results(sweep)
    points = results.points.with_row_index("point")
    runs = results.frame.join(points, on=["rate", "queue"])
    rows = {(row["point"], row["seed"]): row for row in runs.iter_rows(named=True)}
    assert [(axis.name, axis.values) for axis in found.axes] == [
        ("rate", ("1Mbps", "2Mbps")),
        ("queue", ("short", "red")),
    ]
    assert found.axes[0].numbers == (1.0, 2.0)
    assert [measure.label for measure in found.measures] == ["utilisation (%)", "web time, mean (s)"]
    assert [dict(point.labels) for point in found.points] == sweep.labels.drop("point").to_dicts()
    for number, point in enumerate(found.points):
        assert list(point.seeds) == [3, 4, 5]
        for name, values in point.values.items():
            for seed, value in zip(point.seeds, values, strict=True):
                assert value == rows[number, seed][name]
        assert point.given == sweep.scenario_of(list(sweep.points())[number]).given
    assert [point.failures for point in found.points] == [{}, {}, {}, {4: "failed: a limit was reached"}]
    assert all(
        not math.isnan(value or 0.0) for point in found.points for value in point.values["web.mean-time"]
    )


def test_a_sweep_is_shown_with_the_runs_that_the_store_holds_of_it(sweep: Sweep, store: Store) -> None:
    check(explore_store.of_sweep(sweep, store), sweep, store)


def test_a_store_tells_its_sweeps_by_itself(sweep: Sweep, store: Store) -> None:
    for name in (None, "lines", sweep.id):
        (found,) = explore_store.of_store(store, name)
        check(found, sweep, store)
        assert found.title == "lines" and found.provenance["sweep"] == sweep.id
    with pytest.raises(ValueError, match="no sweep is named `lanes`; available: lines"):
        explore_store.of_store(store, "lanes")


def test_sweeps_of_one_name_are_told_apart(sweep: Sweep, store: Store) -> None:
    with Store.in_memory() as both:
        for one in (sweep, Sweep(scenario=sweep.scenario, axes={"bottleneck.rate": ["1Mbps"]}, name="lines")):
            planned = sweep_run.plan(one, both)
            record = {
                "kind": "run",
                "scenario": planned.digests[0],
                "seed": 3,
                "values": {"x@2": 1.5, "x@1": 9.0},
            }
            both.add({**record, "version": "0.1.0"})
        found = explore_store.of_store(both)
    assert sorted(one.title for one in found) == sorted(
        f"lines ({one.provenance['sweep'][:12]})" for one in found
    )
    assert len(found) == 2
    assert explore.page(*found)
    assert [list(one.points[0].values["x"]) for one in found] == [[1.5], [1.5]]


def test_a_sweep_whose_runs_all_failed_shows_its_failures(sweep: Sweep) -> None:
    with Store.in_memory() as kept:
        task = sweep_run.plan(sweep, kept).task(0, 0)
        campaign.keep_scenario(kept, task.scenario)
        failed = {"status": "crashed", "error": "it killed three workers", "values": {}}
        kept.add({"kind": "run", "scenario": task.scenario.digest, "seed": 3, **failed})
        for found in (explore_store.of_sweep(sweep, kept), *explore_store.of_store(kept)):
            assert found.points[0].failures == {3: "crashed: it killed three workers"}
            assert "web.mean-time" in [measure.name for measure in found.measures]
            assert explore.page(found)


def test_a_measure_may_be_named_like_anything() -> None:
    with Store.in_memory() as kept:
        kept.add({"kind": "sweep", "sweep": "0" * 16, "name": "one", "definition": {}})
        point = {"scenario": "a" * 64, "number": 0, "labels": {"load": 1}, "first_seed": 1}
        kept.add({"kind": "point", "sweep": "0" * 16, **point})
        kept.add({"kind": "run", "scenario": "a" * 64, "seed": 1, "values": {"seed@1": 7, "status@1": 8}})
        (found,) = explore_store.of_store(kept)
    assert found.points[0].values == {"seed": [7.0], "status": [8.0]}


def test_a_program_may_tell_a_sweep_without_axes() -> None:
    with Store.in_memory() as kept:
        kept.add({"kind": "sweep", "sweep": "0" * 16, "name": "loads", "definition": {}})
        for number, load in enumerate((0.9, 0.3)):
            point = {
                "scenario": f"{number}" * 64,
                "number": number,
                "labels": {"load": load},
                "first_seed": 1,
            }
            kept.add({"kind": "point", "sweep": "0" * 16, **point})
            kept.add({"kind": "run", "scenario": f"{number}" * 64, "seed": 1, "values": {"x@1": load}})
        (found,) = explore_store.of_store(kept)
    assert [(axis.name, axis.values) for axis in found.axes] == [("load", (0.9, 0.3))]
    assert [list(point.values["x"]) for point in found.points] == [[0.9], [0.3]]
    assert explore.page(found)


def test_the_commands_of_a_point_make_its_run_again(
    sweep: Sweep, store: Store, cli: Cli, tmp_path: Path
) -> None:
    point = explore_store.of_sweep(sweep, store).points[2]
    show, run = point.command.splitlines()
    words, _, file = show.partition(" > ")
    shown = cli(*shlex.split(words)[1:])
    assert shown.returncode == 0, shown.stderr
    (tmp_path / file).write_text(shown.stdout, encoding="utf-8")
    again = json.loads(cli(*shlex.split(run)[1:], "--json").stdout)
    utilisation = again["summary"]["links"]["bottleneck"]["utilisation"]
    assert 100 * utilisation == point.values["bottleneck.utilisation"][0]


def test_a_store_without_runs_of_a_sweep_says_so(sweep: Sweep) -> None:
    with Store.in_memory() as empty:
        for call in (lambda: explore_store.of_store(empty), lambda: explore_store.of_sweep(sweep, empty)):
            with pytest.raises(ValueError, match="aqmlab sweep run"):
                call()


def test_the_command_writes_the_page(store: Store, cli: Cli, small: Path) -> None:
    done = cli("explore", str(store.folder), "-o", "page.html")
    assert (done.returncode, done.stdout) == (0, "page.html: 1 sweep, 4 points, 12 runs, 1 failed\n"), (
        done.stderr
    )
    assert "aqmlab sweep" in (small.parent / "page.html").read_text(encoding="utf-8")
    (small.parent / "lines.toml").write_text(FILE, encoding="utf-8")
    axes = ("bottleneck.rate=1Mbps", "bottleneck.queue=short,red", "--replications", "3")
    done = cli("explore", "small.toml", *axes, "--store", str(store.folder))
    assert (done.returncode, done.stdout) == (0, "explore.html: 1 sweep, 2 points, 6 runs\n"), done.stderr
    done = cli("explore", "lines.toml", "--store", str(store.folder), "-o", "file.html")
    assert (done.returncode, done.stdout) == (0, "file.html: 1 sweep, 4 points, 12 runs, 1 failed\n"), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "nowhere: cannot be read"),
        ((), "out/store: the store does not exist"),
        (("lines.toml", "--sweep", "lines"), "--sweep: can be used only with a store"),
        (("--replications", "3"), "sweeps in a store cannot be changed"),
        (("small.toml",), "axes: must contain an axis"),
        (("lines.toml",), "out/store: the store does not exist"),
        ((".",), "contains files, but is not a store"),
    ],
)
def test_what_cannot_be_explored_is_refused_in_a_line(
    arguments: tuple[str, ...], told: str, cli: Cli, small: Path
) -> None:
    (small.parent / "lines.toml").write_text(FILE, encoding="utf-8")
    done = cli("explore", *arguments)
    assert done.returncode == 2
    assert told in done.stderr and len(done.stderr.splitlines()) == 1
