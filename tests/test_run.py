"""A run and its tables as polars frames."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import polars as pl
import pytest

import aqmlab as al
from aqmlab import _core, metrics
from aqmlab.cli import run_text
from aqmlab.scenario.catalog import members


@pytest.fixture
def run(small: Path) -> al.Run:
    return al.Scenario.load(small).run()


def test_every_table_of_the_catalogue_is_there_with_its_columns(run: al.Run) -> None:
    others = ("flow-level.", "trace.", "live.")
    of_some_workloads = {
        "calls",
        "frames",
        "test_probes",
        "test_intervals",
        "page_loads",
        "page_objects",
        "reports",
    }
    tables = [
        one
        for one in members("tables")
        if not one.name.startswith(others) and one.name not in of_some_workloads
    ]
    described = {one.name: [row["name"] for row in one.parameters] for one in tables}
    assert {name: frame.columns for name, frame in run.tables.items()} == described
    assert len(run.tables) == len(described)


def test_columns_have_the_types_that_their_names_promise(run: al.Run) -> None:
    for name, frame in run.tables.items():
        for column, kind in frame.schema.items():
            if column.endswith(("_s", "_bps", "_fraction")):
                assert kind == pl.Float64, f"{name}.{column}"
            if column.endswith("_bytes") or column in {"flow", "page", "timeouts"}:
                assert kind == pl.UInt64, f"{name}.{column}"
            if column in {"traffic", "link", "reason", "event", "node", "name", "unit"}:
                assert frame[column].cast(pl.String).dtype == pl.String, f"{name}.{column}"


def test_the_summary_counts_what_connections_sent_again_and_why(small: Path) -> None:
    table = {"kind": "udp", "rate": "100kbps"}
    run = al.Scenario.load(small).with_({"traffic.udp": table, "bottleneck.queue.limit": "8p"}).run()
    for name, row in run.summary["flows"].items():
        flows = run.flows.filter(pl.col("traffic").cast(pl.String) == name)
        for measure in ("retransmitted", "timeouts", "fast_retransmits"):
            if name == "udp":
                assert row[measure] is None
            else:
                assert row[measure] == flows[measure].sum() > 0


def test_what_is_missing_is_null_and_not_zero(run: al.Run) -> None:
    flows = run.flows.with_columns(pl.col("traffic").cast(pl.String))
    assert flows.filter(pl.col("traffic") == "ftp")["size_bytes"].null_count() == 3
    assert flows.filter(pl.col("traffic") == "ftp")["end_s"].null_count() == 3
    unfinished = run.transfers.filter(~pl.col("complete"))
    assert unfinished["duration_s"].null_count() == len(unfinished)
    assert run.transfers.filter("complete")["duration_s"].null_count() == 0


def test_the_tables_agree_with_each_other(run: al.Run) -> None:
    assert run.links["link"].cast(pl.String).to_list() == ["bottleneck"]
    assert len(run.tables["drops"].filter(pl.col("time_s") > 2.0)) == run.links["drops"][0]
    assert len(run.tables["queue"]) == 120
    assert run.transfers["start_s"].is_sorted()
    assert run.pages["objects"].sum() == len(run.transfers)


def test_frames_outlive_the_run(small: Path) -> None:
    frame = al.Scenario.load(small).run().flows
    assert frame["flow"].to_list() == list(range(len(frame)))


def test_a_seed_may_be_given_and_is_in_the_manifest(small: Path) -> None:
    scenario = al.Scenario.load(small)
    default, same, other = scenario.run(), scenario.run(seed=3), scenario.run(seed=9)
    assert default.manifest["seed"] == 3
    assert other.manifest["seed"] == 9
    assert default.tables_digest == same.tables_digest != other.tables_digest
    assert default.manifest == same.manifest
    assert default.manifest["digest"] == scenario.digest != other.manifest["digest"]
    assert default.manifest["scenario"] == scenario.effective
    assert default.manifest["version"] == al.__version__
    assert default.manifest["results_version"] == al.RESULTS_VERSION


def test_the_manifest_tells_every_parameter_of_a_queue_and_what_it_chose_itself(small: Path) -> None:
    queue = {"kind": "adaptive-red", "max_p": 0.2}
    manifest = al.Scenario.load(small).with_({"bottleneck.queue": queue}).run().manifest
    told = manifest["scenario"]["bottleneck"]["queue"]
    [entry] = [one for one in members("queues") if one.name == "adaptive-red"]
    assert set(told) == {"kind", *(row["name"] for row in entry.parameters)}
    assert told["max_p"] == 0.2
    assert all(told[row["name"]] == row["default"] for row in entry.parameters if row["name"] != "max_p")
    # Thresholds and weight are left out, and follow from the line.
    chosen = manifest["derived"]["bottleneck"]
    assert set(chosen) == {name for name in ("min_th", "max_th", "weight") if told[name] is None}
    assert chosen["max_th"]["value"] == 3 * chosen["min_th"]["value"] > 0
    assert chosen["max_th"]["unit"] == "packets"


def test_runs_in_threads_are_the_runs_one_by_one(small: Path) -> None:
    scenario = al.Scenario.load(small)
    alone = [scenario.run(seed).tables_digest for seed in range(6)]
    found: dict[int, str] = {}

    def one(seed: int) -> None:
        found[seed] = scenario.run(seed).tables_digest

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[seed] for seed in range(6)] == alone


def test_another_queue_meets_the_same_arrivals(small: Path) -> None:
    scenario = al.Scenario.load(small)
    kinds = ("red", "shred", "drop-tail")
    runs = [scenario.with_({"bottleneck.queue": {"kind": kind}}).run() for kind in kinds]
    for other in runs[1:]:
        for column in ("start_s", "size_bytes"):
            assert other.transfers[column].equals(runs[0].transfers[column])


def test_what_a_run_costs_is_counted(run: al.Run) -> None:
    cost = run.performance
    assert cost["packets_forwarded"] >= run.links["departures"][0]
    assert cost["events"] > cost["packets_forwarded"]
    assert cost["cpu_s"] > 0
    assert cost["packets_per_cpu_s"] == pytest.approx(cost["packets_forwarded"] / cost["cpu_s"])


def test_senders_and_packets_are_recorded_for_what_was_asked_and_change_nothing(small: Path) -> None:
    scenario = al.Scenario.load(small)
    quiet = scenario.run()
    assert len(quiet.tables["senders"]) == len(quiet.tables["packets"]) == 0
    loud = scenario.with_({"record": {"senders": ["ftp"], "packets": ["bottleneck"]}}).run()
    assert set(loud.tables["senders"]["traffic"].cast(pl.String)) == {"ftp"}
    assert len(loud.tables["packets"]) > 2000
    assert loud.flows.equals(quiet.flows)
    assert loud.transfers.equals(quiet.transfers)
    silent = scenario.with_({"record": {"drops": False, "queue_every": "0s"}}).run()
    assert len(silent.tables["drops"]) == len(silent.tables["queue"]) == 0
    assert silent.flows.equals(quiet.flows)


def test_only_the_columns_that_are_asked_for_are_kept_and_say_the_same(small: Path) -> None:
    scenario = al.Scenario.load(small)
    full = scenario.run()
    times = ["start_s", "traffic", "duration_s", "complete"]
    brief = scenario.with_(
        {"record": {"flow_columns": [], "transfer_columns": times, "page_columns": ["duration_s"]}}
    ).run()
    # In the order of the schema.
    assert brief.transfers.columns == ["traffic", "start_s", "duration_s", "complete"]
    assert brief.transfers.equals(full.transfers.select(brief.transfers.columns))
    assert brief.pages.equals(full.pages.select("duration_s"))
    assert brief.flows.equals(full.flows.clear())
    assert brief.summary == {**full.summary, "flows": {}}
    assert "transfers web" in "\n".join(run_text.lines(brief, "small"))


def test_a_summary_leaves_out_what_the_columns_kept_do_not_tell(small: Path) -> None:
    kept = {"record": {"flow_columns": ["traffic"], "transfer_columns": ["size_bytes"]}}
    run = al.Scenario.load(small).with_(kept).run()
    assert (run.summary["flows"], run.summary["transfers"]) == ({}, {})
    assert metrics.warm_up_warning(run.tables, run.manifest) is None


def test_a_column_that_there_is_not_is_refused_with_the_nearest(small: Path) -> None:
    with pytest.raises(
        al.ScenarioError, match=r"record\.transfer_columns: .*`duration`; did you mean `duration_s`"
    ):
        al.Scenario.load(small).with_({"record.transfer_columns": ["duration"]})


def test_a_run_shows_itself_in_a_notebook(run: al.Run) -> None:
    assert run.manifest["digest"][:12] in run._repr_html_()
    assert "utilisation" in run._repr_html_()


def test_the_core_refuses_nonsense_without_a_panic() -> None:
    for text in ["", "{", "[]", "null", "3", '{"duration": 1e999}', '{"a": ' * 500]:
        with pytest.raises(al.ScenarioError):
            _core.Document.of_json(text).plan({})
    for text in ["", "{", "[]", '{"kind": "purple"}', '{"kind": "red", "max_p": 2}']:
        with pytest.raises(al.ScenarioError):
            _core.drop_curve(text, [1.0], 1.0)


def test_the_drop_curve_is_that_of_the_discipline() -> None:
    queue = json.dumps({"kind": "red", "min_th": "30p", "max_th": "90p", "max_p": 0.1, "gentle": False})
    assert _core.drop_curve(queue, [0.0, 30.0, 60.0, 89.999, 90.0], 1.0) == pytest.approx(
        [0.0, 0.0, 0.05, 0.1, 1.0], abs=1e-5
    )
    assert _core.drop_curve('{"kind": "drop-tail"}', [0.0, 60.0], 1.0) == [None, None]
