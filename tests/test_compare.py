"""Comparisons use common random numbers, and one lost run does not lose the others."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scipy.stats import sem, t

import aqmlab as al
from aqmlab.cli import comparison_text
from aqmlab.comparison.compare import quantities
from aqmlab.comparison.comparison import Metric
from aqmlab.metrics.response_times import QUANTILES
from aqmlab.scenario.queues import with_queue


@pytest.fixture
def scenario(small: Path) -> al.Scenario:
    return al.Scenario.load(small).with_({"duration": "6s", "warm_up": "1s"})


def test_every_queue_meets_every_seed(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "short"], replications=3, label="compare")
    seen = found.values.select("queue", "seed").unique().sort("queue", "seed").rows()
    assert seen == [(queue, seed) for queue in ("red", "short") for seed in (3, 4, 5)]
    assert found.failures == ()
    assert found.queues["short"] == {"kind": "drop-tail", "admits": "what-fits", "limit": "5p"}
    default = scenario.with_({"bottleneck.queue": {"kind": "red"}})
    assert found.queues["red"] == default.effective["bottleneck"]["queue"]


def test_a_queue_that_wants_classes_gets_edges_and_says_so(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "rio-ps"])
    assert found.edges == {"rio-ps": ["left", "right"]}
    with_edges = scenario.with_({"edges.left": {"kind": "sfd"}})
    assert al.compare(with_edges, ["rio-ps"]).edges == {}


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

    def sometimes(self: al.Scenario, seed: int | None = None, *, watch: Any = None) -> al.Run:
        if seed == 4:
            raise RuntimeError("out of luck")
        return run(self, seed, watch=watch)

    monkeypatch.setattr(al.Scenario, "run", sometimes)
    found = al.compare(scenario, ["red", "short"], replications=3)
    assert found.failures == (
        "red, seed 4: RuntimeError: out of luck",
        "short, seed 4: RuntimeError: out of luck",
    )
    assert found.title.startswith("Mean and 95 % interval over 2 of 3 replications ")
    lost = (pl.col("seed") == 5) & (pl.col("queue") == "red")
    fewer = dataclasses.replace(found.results, frame=found.results.frame.filter(~lost))
    assert " over 1-2 of 3 " in dataclasses.replace(found, results=fewer).title
    assert set(found.values["seed"]) == {3, 5}


def test_the_chart_is_a_distribution_for_each_queue(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "short"], replications=2)
    chart = found.charts("web")["cdf-web"]
    assert chart is not None
    for queue in ("red", "short"):
        share = chart.table.filter(pl.col("queue") == queue)["share"]
        assert share.is_sorted()
        assert share[0] == 0
        assert share[-1] <= 1
    assert chart.table["share"].max() == 1
    assert found.charts("ftp") == {}


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
    changed = with_queue(scenario, "tiny").effective["links"]
    assert [changed[name]["queue"]["limit"] for name in ("one", "two")] == ["2p", "2p"]
    found = al.compare(scenario, ["tiny", "red"], replications=2)
    assert {"one utilisation", "two utilisation"} <= set(found.values["quantity"])


def test_the_way_back_of_a_dumbbell_gets_the_queue_if_it_has_one(scenario: al.Scenario) -> None:
    back = scenario.with_({"bottleneck.reverse": {"rate": "1Mbps"}})
    assert back.managed_links == ["bottleneck"]
    assert "queue" not in with_queue(back, "short").effective["bottleneck"]["reverse"]
    managed = back.with_({"bottleneck.reverse.queue": {"kind": "red"}})
    assert managed.managed_links == ["bottleneck", "bottleneck-back"]
    changed = with_queue(managed, "short").effective["bottleneck"]
    assert changed["queue"] == changed["reverse"]["queue"] == scenario.queues["short"]


def test_tcps_meet_the_same_seeds_and_keep_what_else_the_scenario_says(scenario: al.Scenario) -> None:
    scenario = scenario.with_({"tcp": {"cwnd": {"initial": 4}}})
    found = al.compare(scenario, tcps=["reno/newreno", "reno/sack", "cubic/sack"], replications=2)
    assert found.factors == ("tcp",)
    seen = found.values.select("tcp", "seed").unique(maintain_order=True).rows()
    assert seen == [(tcp, seed) for seed in (3, 4) for tcp in ("reno/newreno", "reno/sack", "cubic/sack")]
    assert "queue" not in found.values.columns
    assert found.tcps["cubic/sack"]["congestion_control"]["kind"] == "cubic"
    assert found.tcps["reno/newreno"]["recovery"]["kind"] == "newreno"
    assert {one["cwnd"]["initial"] for one in found.tcps.values()} == {4}
    run = scenario.with_({"tcp.congestion_control": {"kind": "cubic"}, "tcp.recovery.kind": "sack"}).run(
        seed=4
    )
    row = found.values.filter(tcp="cubic/sack", seed=4, quantity="utilisation")
    assert row["value"].to_list() == [100 * run.summary["links"]["bottleneck"]["utilisation"]]
    chart = found.charts("web")["cdf-web"]
    assert chart is not None
    assert (chart.by, chart.panel) == ("tcp", None)


def test_an_alias_is_the_pair_it_stands_for(scenario: al.Scenario) -> None:
    found = al.compare(scenario, tcps=["cubic", "cubic/sack"], replications=1)
    assert found.tcps["cubic"] == found.tcps["cubic/sack"]
    one, other = (found.values.filter(tcp=name).drop("tcp") for name in ("cubic", "cubic/sack"))
    assert one.equals(other)


def test_queues_and_tcps_give_every_pair(scenario: al.Scenario) -> None:
    tcps = ["reno/reno", "cubic/sack"]
    found = al.compare(scenario, ["red", "short"], tcps=tcps, replications=2)
    assert found.variants == [(queue, tcp) for queue in ("red", "short") for tcp in tcps]
    assert found.values.select("queue", "tcp").unique(maintain_order=True).rows() == found.variants
    alone = al.compare(scenario.with_({"tcp.recovery.kind": "reno"}), ["red", "short"], replications=2)
    paired = found.values.filter(tcp="reno/reno").drop("tcp")
    assert paired.equals(alone.values)
    chart = found.charts("web")["cdf-web"]
    assert chart is not None
    assert (chart.panel, chart.by) == ("queue", "tcp")
    assert chart.table.select("queue", "tcp").unique(maintain_order=True).rows() == found.variants


def test_a_congestion_control_that_is_there_already_keeps_its_parameters(scenario: al.Scenario) -> None:
    given = scenario.with_({"tcp": {"profile": "ns-2.35", "congestion_control": {"max_ssthresh": 50.0}}})
    found = al.compare(given, tcps=["reno/newreno", "highspeed/sack"], replications=1)
    kept = given.with_({"tcp.recovery.kind": "newreno"}).effective["tcp"]
    assert found.tcps["reno/newreno"] == kept
    assert found.tcps["highspeed/sack"]["congestion_control"]["kind"] == "highspeed"
    assert found.tcps["highspeed/sack"]["connection"] == given.effective["tcp"]["connection"]


def test_differences_are_those_of_pairs_of_runs(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "short"], replications=4)
    differences = found.differences()
    assert set(differences["queue"]) == {"short"}
    wide = found.values.filter(quantity="web time, mean").pivot("queue", index="seed", values="value")
    pairs = (wide["short"] - wide["red"]).to_numpy()
    low, high = t.interval(0.95, 3, loc=pairs.mean(), scale=sem(pairs))
    row = differences.row(by_predicate=pl.col("quantity") == "web time, mean", named=True)
    assert row["replications"] == 4
    assert (row["low"], row["mean"], row["high"]) == pytest.approx((low, pairs.mean(), high))


def test_a_difference_needs_both_runs_of_a_seed(
    scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = al.Scenario.run

    def sometimes(self: al.Scenario, seed: int | None = None, *, watch: Any = None) -> al.Run:
        if seed == 4 and self.effective["bottleneck"]["queue"]["kind"] == "red":
            raise RuntimeError("out of luck")
        return run(self, seed, watch=watch)

    monkeypatch.setattr(al.Scenario, "run", sometimes)
    found = al.compare(scenario, ["red", "short"], replications=3)
    row = found.differences().row(by_predicate=pl.col("quantity") == "utilisation", named=True)
    assert row["replications"] == 2
    assert al.compare(scenario, ["red"], replications=2).differences().is_empty()


def test_a_workload_with_a_tcp_of_its_own_keeps_it(scenario: al.Scenario) -> None:
    own = {"congestion_control": {"kind": "reno"}, "recovery": {"kind": "newreno"}}
    found = al.compare(
        scenario.with_({"traffic.web.tcp": own}), tcps=["reno/newreno", "cubic/sack"], replications=1
    )
    assert not found.differences().is_empty()
    everyone = scenario.with_({"traffic.web.tcp": own, "traffic.ftp.tcp": own})
    with pytest.raises(ValueError, match=r"`cubic/sack`: no workload would use this TCP.*traffic\.ftp\.tcp"):
        al.compare(everyone, tcps=["cubic/sack"], replications=1)
    # What such a table does not set is still the scenario's.
    larger = {"cwnd": {"initial": 3}}
    some = scenario.with_({"traffic.web.tcp": larger, "traffic.ftp.tcp": larger})
    assert (
        al.compare(some, tcps=["cubic/sack"], replications=1).tcps["cubic/sack"]["recovery"]["kind"] == "sack"
    )


def test_tcps_are_refused_before_any_run_where_nobody_uses_tcp(
    scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(al.Scenario, "run", lambda *_: pytest.fail("a run was made"))
    call = {"kind": "udp", "rate": "64kbps"}
    silent = scenario.with_({"traffic": {"call": call}})
    with pytest.raises(ValueError, match=r"`cubic`: traffic: no workload uses TCP \(call\): add a workload"):
        al.compare(silent, tcps=["cubic"], replications=1)
    # A workload of datagrams uses no TCP, so it does not make up for one that keeps its own.
    own = {"congestion_control": {"kind": "reno"}, "recovery": {"kind": "newreno"}}
    both = silent.with_({"traffic.files": {"kind": "ftp", "tcp": own}})
    with pytest.raises(
        ValueError, match=r"no workload would use this TCP.*remove the parameters .*from traffic\.files\.tcp"
    ):
        al.compare(both, tcps=["cubic/sack"], replications=1)


def test_a_tcp_that_makes_no_sense_is_refused_with_its_place(scenario: al.Scenario) -> None:
    for name, problem in {
        "copa": r"TCP `copa`: .*allowed: .*`cubic`",
        "cubic/fack": r"TCP `cubic/fack`: .*`fack`.*`newreno`",
        "cubic/tahoe": r"TCP `cubic/tahoe`: tcp\.recovery\.kind: must not be tahoe",
    }.items():
        with pytest.raises(ValueError, match=problem):
            al.compare(scenario, tcps=["reno/sack", name], replications=1)
    with pytest.raises(ValueError, match="once"):
        al.compare(scenario, ["red"], tcps=["cubic", "cubic"], replications=1)


def test_what_cannot_be_compared_is_refused(scenario: al.Scenario) -> None:
    with pytest.raises(ValueError, match=r"no queue is named `purple`: available: .*red"):
        al.compare(scenario, ["purple"], replications=2)
    for queues, replications in ([], 2), (["red", "red"], 2), (["red"], 0):
        with pytest.raises(ValueError, match=r"at least|each name once"):
            al.compare(scenario, queues, replications=replications)


def test_response_times_are_compared_by_quantiles_and_two_charts(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["drop-tail", "red"], replications=3, metric=Metric.RESPONSE_TIME)
    quantities = found.values["quantity"].unique(maintain_order=True).to_list()
    assert quantities == [f"web response time, {name}" for name in QUANTILES]
    run = scenario.with_({"bottleneck.queue": {"kind": "drop-tail"}}).run(seed=4)
    row = found.values.filter(
        (pl.col("seed") == 4) & (pl.col("queue") == "drop-tail") & pl.col("quantity").str.ends_with("median")
    )
    assert row["value"].to_list() == pytest.approx([1000 * run.summary["transfers"]["web"]["p50_s"]])
    charts = found.charts("web")
    assert list(charts) == ["body-web", "tail-web"]
    body, tail = charts["body-web"].table, charts["tail-web"].table
    assert (body["share"] + tail["left"]).to_numpy() == pytest.approx(1.0)
    assert charts["body-web"].x_limits is not None


def test_only_parameters_that_differ_are_told(scenario: al.Scenario) -> None:
    def tree(limit: str) -> dict[str, object]:
        return {
            "kind": "htb",
            "classes": {"all": {"rate": "1Mbps", "queue": {"kind": "drop-tail", "limit": limit}}},
        }

    trees = scenario.with_({"queues.short-leaf": tree("20p"), "queues.long-leaf": tree("50p")})
    found = al.compare(trees, ["short-leaf", "long-leaf"], replications=1)
    assert found.parameters == {"classes.all.queue.limit": {("short-leaf",): "20p", ("long-leaf",): "50p"}}


def test_queues_are_replaced_at_the_links_that_are_named() -> None:
    chosen = two_links()
    found = al.compare(chosen, ["tiny", "codel"], at=["down"], replications=1)
    assert found.at == ["down"]
    assert found.replaced == "Queues replaced at down (unchanged: up)"
    assert found.notes == []
    assert found.queues["tiny"] == chosen.queues["tiny"]
    same = chosen.with_({"links.down.queue": chosen.queues["tiny"]}).run()
    row = found.values.filter(queue="tiny", quantity="up utilisation")
    assert row["value"].to_list() == [100 * same.summary["links"]["up"]["utilisation"]]


def test_a_comparison_says_that_all_of_several_links_get_the_queue() -> None:
    found = al.compare(two_links(), ["tiny"], replications=1)
    assert found.at == ["down", "up"]
    assert found.replaced == "Queues replaced at down, up (every managed link; select links with --at LINK)"
    (note,) = found.notes
    assert "links of different rates (down 4Mbps, up 1Mbps)" in note
    assert al.compare(two_links("1Mbps"), ["tiny"], replications=1).notes == []


def test_a_comparison_of_tcps_replaces_no_queue() -> None:
    found = al.compare(two_links(), tcps=["reno"], replications=1)
    assert (found.at, found.replaced, found.notes) == ([], None, [])


def test_a_link_that_is_not_managed_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at: no managed link is named `downn`: did you mean down"):
        al.compare(two_links(), ["tiny"], at=["downn"], replications=1)
    with pytest.raises(
        ValueError, match="at: selects the links whose queues are replaced, but no replacement queue is given"
    ):
        al.compare(two_links(), tcps=["reno"], at=["down"], replications=1)


def test_arguments_of_the_wrong_kind_are_refused_by_name(scenario: al.Scenario) -> None:
    wrong: list[tuple[str, Any, dict[str, Any]]] = [
        (r'queues: must be a list of names \(got .red.\): write \["red"\]', scenario, {"queues": "red"}),
        (r"scenario: must be a Scenario \(got 'hello.toml'\): aqmlab.Scenario.load", "hello.toml", {}),
        (r"replications: must be a whole number of at least 1 \(got '2'\)", scenario, {"replications": "2"}),
        (
            r"replications: must be a whole number of at least 1 \(got True\)",
            scenario,
            {"replications": True},
        ),
        (r"first_seed: must be a whole number of at least 0 \(got -1\)", scenario, {"first_seed": -1}),
        (r"metric: must be one of summary, response-time \(got 'mean'\)", scenario, {"metric": "mean"}),
        (r"queues: each item must be a name \(got 3\)", scenario, {"queues": ["red", 3]}),
        (r"tcps: must be a list of names \(got 'reno'\)", scenario, {"tcps": "reno"}),
    ]
    for said, given, more in wrong:
        with pytest.raises(ValueError, match=said):
            al.compare(given, **({"queues": ["red"]} | more))


def test_the_metric_may_be_a_word(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red"], replications=1, metric="response-time")  # type: ignore[arg-type]
    assert found.metric is Metric.RESPONSE_TIME
    assert all("response time" in name for name in found.values["quantity"])


def test_a_quantity_is_drawn_with_its_intervals(scenario: al.Scenario) -> None:
    found = al.compare(scenario, ["red", "short"], replications=3)
    drawn = found.chart("utilisation")
    assert drawn.table.equals(found.intervals().filter(quantity="utilisation"))
    assert (drawn.kind, drawn.x, drawn.by, drawn.overlaid) == ("bars", "queue", "queue", True)
    assert drawn.y_label == "utilisation (%)"
    with pytest.raises(ValueError, match="no quantity is named `utilisatin`: did you mean utilisation"):
        found.chart("utilisatin")
    known = quantities(scenario)
    assert set(found.values["quantity"]) <= set(known)
    times = al.compare(scenario, ["red"], replications=1, metric=Metric.RESPONSE_TIME)
    assert set(times.values["quantity"]) <= set(quantities(scenario, Metric.RESPONSE_TIME))


def two_links(down: str = "4Mbps") -> al.Scenario:
    link = {"delay": "5ms", "queue": {"kind": "red"}}
    return al.Scenario.from_dict(
        {
            "duration": "5s",
            "links": {
                "up": {**link, "rate": "1Mbps", "from": "home", "to": "net"},
                "down": {**link, "rate": down, "from": "net", "to": "home"},
            },
            "traffic": {
                "upload": {"kind": "ftp", "from": "home", "to": "net"},
                "download": {"kind": "ftp", "from": "net", "to": "home"},
            },
            "queues": {"tiny": {"kind": "drop-tail", "admits": "what-fits", "limit": "2p"}},
        }
    )


def test_a_comparison_too_wide_for_the_terminal_has_a_row_for_each_queue(
    scenario: al.Scenario, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queues = ["drop-tail", "red", "codel", "pie", "fq-codel", "short"]
    found = al.compare(scenario, queues, replications=2)
    comparison_text.show(found)
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    comparison_text.show(found)
    shown = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown, "nothing is cut off"
    rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
    assert rows[:6] == queues
    assert any(line.startswith("│ utilisation (%)") for line in piped.splitlines())
    cells = [cell.strip() for line in piped.splitlines() for cell in line.split("│")[2:-1]]
    assert all(cell in shown for cell in cells)
