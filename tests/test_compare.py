"""Comparisons use common random numbers, and one lost run does not lose the others."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from scipy.stats import sem, t

import aqmlab as al
from aqmlab.compare import _with_queue


@pytest.fixture
def scenario(small: Path) -> al.Scenario:
    return al.Scenario.load(small).with_({"duration": "6s", "warm_up": "1s"})


def test_every_queue_meets_every_seed(scenario: al.Scenario) -> None:
    told: list[int] = []
    found = al.compare(scenario, ["red", "short"], replications=3, told=lambda: told.append(1))
    seen = found.values.select("queue", "seed").unique().sort("queue", "seed").rows()
    assert seen == [(queue, seed) for queue in ("red", "short") for seed in (3, 4, 5)]
    assert len(told) == 6
    assert found.failures == ()
    assert found.queues["short"] == {"kind": "drop-tail", "limit": "5p"}
    default = scenario.with_({"bottleneck.queue": {"kind": "red"}})
    assert found.queues["red"] == default.effective["bottleneck"]["queue"]


def test_a_value_is_that_of_the_run(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["short"], replications=2, first_seed=7)
    run = scenario.with_({"bottleneck.queue": scenario.queues["short"]}).run(seed=8)
    row = found.values.filter((pl.col("seed") == 8) & (pl.col("quantity") == "utilisation"))
    assert row["value"].to_list() == [100 * run.summary["links"]["bottleneck"]["utilisation"]]
    assert row["unit"].to_list() == ["%"]


def test_the_number_of_jobs_does_not_matter(scenario: al.Scenario) -> None:
    one = al.compare(scenario, ["red", "shred"], replications=3, jobs=1)
    four = al.compare(scenario, ["red", "shred"], replications=3, jobs=4)
    assert one.values.equals(four.values)
    assert one.times.equals(four.times)


def test_an_interval_is_that_of_student(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red"], replications=5)
    row = found.intervals().row(by_predicate=pl.col("quantity") == "web time, mean", named=True)
    values = found.values.filter(pl.col("quantity") == "web time, mean")["value"].to_numpy()
    low, high = t.interval(0.95, 4, loc=values.mean(), scale=sem(values))
    assert row["replications"] == 5
    assert (row["low"], row["mean"], row["high"]) == pytest.approx((low, values.mean(), high))


def test_a_run_that_fails_is_named_and_the_others_are_kept(
    scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = al.Scenario.run

    def sometimes(self: al.Scenario, seed: int | None = None) -> al.Run:
        if seed == 4:
            raise RuntimeError("out of luck")
        return run(self, seed)

    monkeypatch.setattr(al.Scenario, "run", sometimes)
    found = al.compare(scenario, ["red", "short"], replications=3)
    assert found.failures == ("red, seed 4: out of luck", "short, seed 4: out of luck")
    assert set(found.values["seed"]) == {3, 5}


def test_the_chart_is_a_distribution_for_each_queue(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "short"], replications=2)
    chart = found.chart("web")
    assert chart is not None
    for queue in ("red", "short"):
        share = chart.table.filter(pl.col("queue") == queue)["share"]
        assert share.is_sorted()
        assert share[0] == 0
        assert share[-1] <= 1
    assert chart.table["share"].max() == 1
    assert found.chart("ftp") is None


def test_every_managed_link_of_a_graph_gets_the_queue() -> None:
    link = {"rate": "2Mbps", "delay": "5ms", "queue": {"kind": "red"}, "both_ways": True}
    scenario = al.Scenario.from_dict(
        {
            "duration": "5s",
            "links": {"one": {**link, "from": "a", "to": "b"}, "two": {**link, "from": "b", "to": "c"}},
            "traffic": {"long": {"kind": "ftp", "from": "a", "to": "c"}},
            "queues": {"tiny": {"kind": "drop-tail", "limit": "2p"}},
        }
    )
    changed = _with_queue(scenario, "tiny").effective["links"]
    assert [changed[name]["queue"]["limit"] for name in ("one", "two")] == ["2p", "2p"]
    found = al.compare(scenario, ["tiny", "red"], replications=2)
    assert {"one utilisation", "two utilisation"} <= set(found.values["quantity"])


def test_what_cannot_be_compared_is_refused(scenario: al.Scenario) -> None:
    with pytest.raises(ValueError, match=r"no queue is named `blue`: there is .*red"):
        al.compare(scenario, ["blue"], replications=2)
    for queues, replications in ([], 2), (["red", "red"], 2), (["red"], 0):
        with pytest.raises(ValueError, match=r"at least|each once"):
            al.compare(scenario, queues, replications=replications)
