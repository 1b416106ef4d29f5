"""The table of runs: what its verbs do to rows, that the store's pivot loses nothing, and pairs by seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

import aqmlab as al
from aqmlab import stats
from aqmlab.campaign import complete
from aqmlab.measures import Measure, Quantity
from aqmlab.results import pairs
from aqmlab.results.rule import difference, mean_of, ratio, unpaired_ratio
from aqmlab.results.table import Results, Row
from aqmlab.store import Store
from aqmlab.store.selection import SelectedRuns, Selection
from aqmlab.sweep import Sweep

AXES: Mapping[str, tuple[Any, ...]] = {
    "queue": ("red", "drop-tail", "codel"),
    "load": (0.9, 0.5),
    "ecn": (False, True),
}
MEASURES = {
    "web.time": Quantity(name="web.time", title="web time", unit="s"),
    "web.size": Quantity(name="web.size", unit="kB"),
    "drops": Quantity(name="drops"),
}


def table(seed: int = 1, *, seeds: int = 5) -> Results:
    """Runs with holes: some are missing, some failed, and some have no time."""
    chance = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for queue, load, ecn in itertools.product(*AXES.values()):
        for run in range(1, seeds + 1):
            if chance.random() < 0.1:
                continue
            failed = chance.random() < 0.1
            time, size, drops = chance.random(), chance.gauss(10, 2), chance.randrange(5)
            rows.append(
                {
                    "queue": queue,
                    "load": load,
                    "ecn": ecn,
                    "seed": run,
                    "status": "failed" if failed else "done",
                    "error": "out of luck" if failed else None,
                    "scenario": f"{queue}-{load}-{ecn}",
                    "web.time": None if failed or chance.random() < 0.1 else time,
                    "web.size": None if failed else size,
                    "drops": None if failed else float(drops),
                }
            )
    frame = pl.DataFrame(rows, schema_overrides={"error": pl.String})
    drops = [None if row["drops"] is None else int(row["drops"]) for row in rows]
    return Results(frame, axes=AXES, measures=MEASURES, name="tried", exact={"drops": tuple(drops)})


def consistent(found: Results) -> None:
    """What holds for every table, whatever verb made it."""
    assert found.frame.columns[: len(found.axes)] == list(found.axes)
    assert set(found.measures) <= set(found.frame.columns)
    assert all(len(values) == found.frame.height for values in found.exact.values())
    assert len(found.rows) == found.frame.height
    # A frame without columns has no rows: the one point of a table without axes is `()`.
    points = set(found.points.rows()) if found.axes else {()}
    for row, record in zip(found.rows, found.frame.iter_rows(named=True), strict=True):
        assert {**row.labels, "seed": row.seed} == {key: record[key] for key in (*found.axes, "seed")}
        assert tuple(row.labels.values()) in points
        assert all(value in found.axes[label] for label, value in row.labels.items())
        for name in found.measures:
            assert row.values[name] == record[name]
            place = found.rows_by_point[tuple(row.labels.values())][row.seed]
            assert found.column(name)[place] == row.values[name]
        assert record["drops"] is None or type(row.values["drops"]) is int
    for point, places in found.rows_by_point.items():
        assert list(places) == sorted(places)
        assert found.at_point("web.size", point, [0]) == [None]
    assert found.intervals()["measure"].unique().sort().to_list() == sorted(found.measures)


def values(found: Results, measure: str, **labels: Any) -> dict[int, Any]:
    """By seed, the way of somebody who only has the frame."""
    chosen = found.frame.filter(**labels)
    return dict(zip(chosen["seed"].to_list(), chosen[measure].to_list(), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_every_verb_keeps_rows_consistent(seed: int) -> None:
    found = table(seed)
    renamed = found.rename(load="offered", ecn="marks")
    for one in (
        found,
        found.among(queue=("codel", "red")),
        found.where("load > 0.6 OR queue = 'red'"),
        found.first_seeds(2),
        found.drop_failed(),
        renamed.rename(offered="load", marks="ecn"),
        found.relabel(load=lambda load: f"{100 * load:.0f} %", queue={"red": "RED"}),
        found.with_measure("double", 2 * pl.col("web.size"), unit="kB"),
        found.at(queue="red", load=0.5, ecn=True),
        found.at(ecn=True).concat(found.at(ecn=False), axis="marks", names=("yes", "no")),
        found.among(ecn=(True,)).concat(found.among(ecn=(False,))),
        found.where("ecn").among(load=(0.5,)).at(ecn=True).first_seeds(1),
    ):
        consistent(one)


@pytest.mark.parametrize("seed", range(8))
def test_verbs_choose_the_rows_that_they_say(seed: int) -> None:
    found = table(seed)
    fixed = found.at(queue="red", ecn=True)
    assert list(fixed.axes) == ["load"]
    for load in (0.5, 0.9):
        assert values(fixed, "web.time", load=load) == values(
            found, "web.time", queue="red", ecn=True, load=load
        )
    some = found.among(load=(0.5,), queue=("codel", "red"))
    assert some.axes["queue"] == ("red", "codel"), "in the order that was declared"
    assert some.frame.equals(found.frame.filter(pl.col("load") == 0.5, pl.col("queue") != "drop-tail"))
    where = found.where("load > 0.6 OR queue = 'red'")
    assert where.frame.equals(found.frame.filter((pl.col("load") > 0.6) | (pl.col("queue") == "red")))
    assert where.points.height == 3 * 2 + 1 * 2
    assert found.drop_failed().frame.equals(found.frame.filter(status="done"))
    few = found.first_seeds(2).frame
    for point in found.points.iter_rows(named=True):
        seeds = found.frame.filter(**point)["seed"].sort().to_list()
        assert few.filter(**point)["seed"].sort().to_list() == seeds[:2]


def test_measures_are_chosen_and_made() -> None:
    found = table()
    assert list(found.select("web.*").measures) == ["web.time", "web.size"]
    assert list(found.select("drops", "web.time").intervals()["measure"].unique(maintain_order=True)) == [
        "drops",
        "web.time",
    ]
    rate = found.with_measure("rate", pl.col("web.size") / pl.col("web.time"), unit="kB/s", title="rate")
    assert rate.measure("rate").label == "rate (kB/s)"
    by_hand = found.with_measure(
        "rate", lambda run: run["web.size"] / run["web.time"] if run["web.time"] is not None else None
    )
    assert by_hand.frame["rate"].equals(rate.frame["rate"])
    told: list[Mapping[str, Any]] = []
    found.with_measure("told", lambda run: told.append(run) or 0.0)  # type: ignore[func-returns-value]
    assert len(told) == found.drop_failed().frame.height
    assert all(type(run["drops"]) is int and type(run["ecn"]) is bool for run in told)


def test_values_of_axes_and_their_names_are_changed_everywhere() -> None:
    found = table().where("load > 0.6 OR queue = 'red'").relabel(queue={"red": "RED"}).rename(queue="kind")
    assert found.axes["kind"] == ("RED", "drop-tail", "codel")
    assert set(found.points["kind"]) == set(found.frame["kind"]) == {"RED", "drop-tail", "codel"}
    assert found.at(kind="RED").points.height == 4
    assert table().relabel(load=lambda load: 1 - load).axes["load"] == (1 - 0.9, 0.5)


def test_an_axis_of_several_types_is_text_in_the_frame_and_itself_elsewhere() -> None:
    rows = [Row(labels={"limit": limit}, seed=1, values={"x": 1.0}) for limit in ("none", 20)]
    found = Results.of_rows(rows, {"limit": ("none", 20)})
    assert found.frame["limit"].to_list() == ["none", "20"]
    assert [row.labels["limit"] for row in found.rows] == ["none", 20]
    assert found.numbers("x", (20,), [1, 2])[0] == 1.0
    assert found.at(limit=20).frame.height == 1


# Estimates


@pytest.mark.parametrize("seed", range(8))
def test_intervals_are_those_of_the_values_at_each_point(seed: int) -> None:
    found = table(seed)
    for row in found.intervals().iter_rows(named=True):
        labels = {label: row[label] for label in AXES}
        kept = [one for one in values(found, row["measure"], **labels).values() if one is not None]
        interval = stats.mean_interval(kept)
        assert (row["replications"], row["unit"]) == (len(kept), MEASURES[row["measure"]].unit)
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (interval.value, interval.low, interval.high), nan_ok=True
        )
    there = found.frame.select(*AXES).unique().height
    assert found.intervals().height == there * len(MEASURES)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("how", ["difference", "ratio"])
def test_points_are_compared_seed_by_seed(seed: int, how: Any) -> None:
    found = table(seed)
    estimate = stats.paired_difference if how == "difference" else stats.paired_ratio
    compared = found.against({"queue": "red"}, how)
    assert set(compared["queue"]) == {"drop-tail", "codel"}
    for row in compared.iter_rows(named=True):
        labels = {label: row[label] for label in AXES}
        ours, theirs = (values(found, row["measure"], **one) for one in (labels, {**labels, "queue": "red"}))
        both = [
            (ours[run], theirs[run])
            for run in range(1, 6)
            if ours.get(run) is not None and theirs.get(run) is not None
        ]
        wanted = estimate([a for a, _ in both], [b for _, b in both])
        assert row["replications"] == len(both)
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (wanted.value, wanted.low, wanted.high), nan_ok=True
        )
        assert row["unit"] == (MEASURES[row["measure"]].unit if how == "difference" else "")


def test_pairs_are_of_the_seeds_that_both_have() -> None:
    assert pairs.by_seed({3: "a", 1: "b", 7: "c"}, {1: "x", 7: "y", 2: "z"}) == (["b", "c"], ["x", "y"])
    assert pairs.by_seed({1: 1.0}, {2: 2.0}) == ([], [])


def test_the_level_allows_for_looks() -> None:
    found = table()
    assert found.level() == stats.LEVEL
    looked = Results(found.frame, axes=AXES, measures=MEASURES, looks=6)
    assert looked.level() == pytest.approx(1 - 0.05 / 6)
    for one, other in zip(
        *(table.select("web.size").intervals().iter_rows(named=True) for table in (looked, found)),
        strict=True,
    ):
        if one["replications"] > 1:
            assert one["high"] - one["low"] > other["high"] - other["low"]


# Rules


def shifted(first_seed: int = 1, *, by: float = 0.0, name: str = "tried") -> Results:
    rows = [
        Row(
            labels={"queue": queue},
            seed=first_seed + run,
            values={"time": (1.0 if queue == "red" else 2.0) + by + run / 100, "size": 3.0 + run},
        )
        for queue in ("red", "drop-tail")
        for run in range(4)
    ]
    found = Results.of_rows(rows, {"queue": ("red", "drop-tail")}, name=name)
    units = {"time": Quantity(name="time", unit="s"), "size": Quantity(name="size", unit="kB")}
    return Results(found.frame, axes=found.axes, measures=units, name=name)


def test_a_measure_is_a_variable_of_rules_and_the_table_judges_them() -> None:
    found = shifted()
    rule = ratio(found["time"], queue=("red", "drop-tail")) < 1
    evidence = found.judge(rule)
    assert (evidence.verdict, evidence.count) == ("holds", 4)
    assert rule.text == "tried: time, ratio of red to drop-tail must be below 1"
    assert found.judge(mean_of(found["time"]) < 1.5).verdict == "fails"
    slower = shifted(by=0.5, name="slower")
    assert found.judge(difference(slower["time"], found["time"]).within(0.4, 0.6)).verdict == "holds"


def test_two_tables_of_one_name_are_refused() -> None:
    found, other = shifted(), shifted(by=0.5)
    with pytest.raises(ValueError, match="two tables have the name tried: rename one"):
        found.judge(difference(other["time"], found["time"]) > 0)
    assert found.judge(difference(other.named("other")["time"], found["time"]) > 0).verdict == "holds"


@pytest.mark.parametrize("compared", [ratio, difference, unpaired_ratio])
def test_numbers_of_different_units_are_not_compared(compared: Any) -> None:
    found = shifted()
    with pytest.raises(ValueError, match="`time` is in s and `size` is in kB: combine the variables"):
        compared(found["time"], found["size"])


def test_points_that_share_no_seeds_are_told() -> None:
    found, later = shifted(), shifted(first_seed=11).among(queue=("drop-tail",))
    apart = found.among(queue=("red",)).concat(later)
    evidence = apart.judge(ratio(apart["time"], queue=("red", "drop-tail")) < 1)
    assert evidence.verdict == "undecided"
    assert "share no seed; available seeds: 1 to 4 and 11 to 14" in evidence.measured
    (row,) = apart.select("time").against({"queue": "red"}).rows(named=True)
    assert (row["replications"], math.isnan(row["mean"])) == (0, True)


# What cannot be


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda t: t["web.tmie"], "tried: no measure is named `web.tmie`: did you mean web.time"),
        (lambda t: t.measure("drop"), "no measure is named `drop`: did you mean drops"),
        (lambda t: t.at(queu="red"), "at: no axis is named `queu`: did you mean queue"),
        (lambda t: t.at(queue="redd"), "at: queue has no value 'redd'; available: red, drop-tail, codel"),
        (lambda t: t.among(queue="red"), "among: queue: must be a list of values .got 'red'."),
        (lambda t: t.among(load=[0.7]), "among: load has no value 0.7; available: 0.9, 0.5"),
        (lambda t: t.where("laod > 0.5"), "where: .*: must be a condition on queue, load, ecn"),
        (lambda t: t.select("web.tim"), "select: no measure is named `web.tim`: did you mean web.time"),
        (lambda t: t.select("call.*"), "select: no measure is named `call.*`: "),
        (lambda t: t.rename(queue="seed"), "rename: queue: the table already has a column `seed`"),
        (
            lambda t: t.relabel(load=lambda _: 1),
            "relabel: load: two values would have the same new name .got 1, 1.",
        ),
        (lambda t: t.relabel(queue={"rde": "RED"}), "relabel: queue has no value 'rde'"),
        (lambda t: t.first_seeds(0), "first_seeds: must be at least 1 .got 0."),
        (
            lambda t: t.with_measure("drops", pl.col("drops")),
            "with_measure: the table already has a column `drops`",
        ),
        (lambda t: t.with_measure("x", pl.col("dorps")), "with_measure: x: .*dorps"),
        (lambda t: t.against({"queue": "rde"}), "baseline: queue has no value 'rde'"),
        (lambda t: t.against({}), "baseline: must contain a label"),
        (lambda t: t.against({"queue": "red"}, "quotient"), "how: must be one of difference, ratio"),
        (lambda t: t.distribution("drop"), "no measure is named `drop`: did you mean drops"),
        (lambda t: t.concat(t), "concat: two tables contain the same run"),
        (lambda t: t.concat(t.at(queue="red")), "concat: axes must be equal .got load, ecn in"),
        (lambda t: t.concat(t, axis="when", names=("a",)), "concat: names: must be 2 different names"),
        (lambda t: Results(t.frame, axes={"rate": (1,)}), "frame: has no column `rate`"),
    ],
)
def test_mistakes_are_told_with_what_there_is(call: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace(".*:", ".*:").replace("`call.*`", r"`call\.\*`")):
        call(table())


def test_tables_of_different_units_are_not_put_together() -> None:
    found = shifted()
    other = Results(
        found.frame, axes=found.axes, measures={"time": Quantity(name="time", unit="ms")}, name="other"
    )
    with pytest.raises(
        ValueError, match="time has the unit `ms` and the version 1 in other, but the unit `s`"
    ):
        found.concat(other, axis="when")


def test_a_table_shows_itself() -> None:
    found = table()
    assert "tried: 12 points" in repr(found) and "queue: red, drop-tail, codel" in repr(found)
    html = found._repr_html_()
    assert "web time (s)" in html and html.count("<tr>") == 1 + found.frame.select(*AXES).unique().height


# The store's pivot


def kept(chance: random.Random) -> tuple[Store, Selection]:
    """A store of made-up runs with values of all kinds, and which of them are asked for."""
    store = Store.in_memory()
    keys = ["x@1", "x@2", "whole@1", "list@1", "mixed@1"]
    for scenario in "abc":
        for seed in range(1, 9):
            if chance.random() < 0.2:
                continue
            of_run: dict[str, Any] = {
                "x@1": chance.random(),
                "x@2": chance.choice([None, chance.random()]),
                "whole@1": chance.randrange(100),
                "list@1": [chance.random(), None],
                "mixed@1": chance.choice([1, 0.5, None, {"a": 1}, 2**60]),
            }
            record = {key: of_run[key] for key in keys if chance.random() < 0.9}
            status = chance.choice(["done", "done", "done", "failed"])
            store.add({"kind": "run", "scenario": scenario, "seed": seed, "status": status, "values": record})
    names = {"x@2": "x", "whole@1": "whole", "list@1": "list", "mixed@1": "mixed"}
    places = (("one", "b", 2, 3), ("two", "a", 1, 9), ("same", "b", 3, 5), ("none", "d", 1, 2))
    selection = Selection(
        name="kept",
        axes={"point": [place for place, *_ in places]},
        measures={key: Quantity(name=name, version=int(key[-1])) for key, name in names.items()},
        runs=[
            SelectedRuns(point=(point,), scenario=scenario, first_seed=first, count=count)
            for point, scenario, first, count in places
        ],
    )
    return store, selection


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("whole", [False, True])
def test_the_pivot_of_a_store_is_what_its_records_say(seed: int, whole: bool) -> None:
    store, selection = kept(random.Random(seed))
    selection = Selection(**{**vars(selection), "whole": whole})
    found = store.results(selection)
    records = store.runs_of(["a", "b", "c"])
    naive = [
        (runs.point[0], record)
        for runs in selection.runs
        for run in range(runs.first_seed, runs.first_seed + runs.count)
        if (record := records.get((runs.scenario, run))) is not None
        and (not whole or complete(record, list(selection.measures)))
    ]
    told = found.frame.select("point", "seed", "scenario", "status").rows()
    assert told == [(point, one.seed, one.scenario, one.status) for point, one in naive]
    for key, quantity in selection.measures.items():
        wanted = [one.values.get(key) for _, one in naive]
        assert list(found.column(quantity.name)) == wanted
        assert list(map(type, found.column(quantity.name))) == list(map(type, wanted))
        assert found.frame.schema[quantity.name] == pl.Float64
        numbers = [
            float(value) if isinstance(value, float) or (type(value) is int and value < 2**53) else None
            for value in wanted
        ]
        assert found.frame[quantity.name].to_list() == numbers


@pytest.mark.parametrize("whole", [False, True])
def test_a_store_without_runs_gives_a_table_without_rows(whole: bool) -> None:
    _, selection = kept(random.Random(1))
    found = Store.in_memory().results(Selection(**{**vars(selection), "whole": whole}))
    assert (found.frame.height, found.rows, found.seeds) == (0, (), ())
    assert found.intervals().is_empty() and found.points.height == 4
    assert found.frame.schema["x"] == pl.Float64


def test_a_table_of_rows_gives_the_rows_back() -> None:
    rows = [
        Row(
            labels={"queue": queue, "load": load},
            seed=seed,
            values={"x": chance.choice([None, math.inf, 0.1]), "n": seed, "list": [seed, None], "flag": True},
        )
        for chance in [random.Random(1)]
        for queue, load in itertools.product(("red", "codel"), (0.5, 0.9))
        for seed in (4, 2)
    ]
    found = Results.of_rows(rows, {"queue": ("red", "codel"), "load": (0.5, 0.9)})
    assert found.rows == tuple(rows)
    assert found.seeds == (2, 4)
    assert list(found.rows_by_point["red", 0.9]) == [2, 4]
    assert found.by_point["red", 0.9][4] == rows[2]
    assert found.rows_at(queue="red", load=0.9) == tuple(rows[2:4])


def test_run_sweep_returns_what_the_store_has(small: Any) -> None:
    structured = Measure(name="sizes", compute=lambda view: [1, 2.5])
    sweep = Sweep(
        al.Scenario.load(small, {"duration": "2s", "warm_up": "1s"}),
        axes={"queue": ["red", "drop-tail"]},
        measures=["bottleneck.utilisation", structured],
        replications=2,
    )
    store = Store.in_memory()
    before = store.results(sweep)
    assert isinstance(before, al.Results) and before.frame.height == 0 and before.wanted == 4
    found = al.run_sweep(sweep, store)
    assert found.frame.equals(store.results(sweep).frame)
    assert found.column("sizes") == ([1, 2.5],) * 4
    assert found.paths == {"queue": "queue"}
    records = store.runs_of(found.frame["scenario"].to_list())
    for row in found.frame.iter_rows(named=True):
        kept = records[row["scenario"], row["seed"]].values["bottleneck.utilisation@1"]
        assert row["bottleneck.utilisation"] == kept
