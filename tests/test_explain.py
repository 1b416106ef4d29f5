"""`aqmlab explain`: fates of packets, costs of losses, reactions of the sender, sentences, picture and
command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import aqmlab as al
from aqmlab import explain as explained
from aqmlab.cli.app import app
from aqmlab.explain import runs
from aqmlab.explain.losses import losses
from aqmlab.explain.marks import marks
from aqmlab.explain.packets import Direction, Row, directions, rows_of
from aqmlab.scenario.tcps import with_tcp

SHORT = {
    "duration": "12s",
    "warm_up": "2s",
    "bottleneck": {
        "rate": "2Mbps",
        "delay": "20ms",
        "queue": {
            "kind": "red",
            "min_th": "3p",
            "max_th": "12p",
            "limit": "20p",
            "weight": 0.05,
            "max_p": 0.2,
        },
    },
    "traffic": {
        "web": {"kind": "web", "load": 0.8, "objects": {"kind": "constant", "value": 3}},
        "files": {"kind": "ftp", "flows": 2},
        "call": {"kind": "call"},
    },
}


@pytest.fixture(scope="module")
def scenario() -> al.Scenario:
    return al.Scenario.from_dict(SHORT, name="short")


@pytest.fixture(scope="module")
def recorded(scenario: al.Scenario) -> al.Run:
    return runs.recorded(scenario, "web", lifetime_s=1.0).run()


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["explain", *words])


def row(time_s: float, event: str, first: int, length: int = 100, flags: int = 16) -> Row:
    link = "bottleneck" if event == "drop" else None
    return Row(time_s, event, link, False, first, length, length + 40, None, flags, "not-ect")


def costs(*rows: Row) -> list[float | None]:
    forward, _ = directions(sorted(rows, key=lambda one: one.time_s), [])
    return [loss.cost_s for loss in losses(forward)]


SYN = (row(0.0, "send", 0, 0, 2), row(0.1, "receive", 0, 0, 2))


def test_a_loss_costs_the_time_from_the_expected_to_the_actual_delivery() -> None:
    found = costs(
        *SYN,
        row(1.00, "send", 0),
        row(1.10, "receive", 0),
        row(1.02, "send", 100),
        row(1.03, "drop", 100),
        row(1.04, "send", 200),
        row(1.16, "receive", 200),
        row(1.50, "retransmit", 100),
        row(1.62, "receive", 100),
    )
    # The delays of the neighbours are 100 ms and 120 ms, so the lost packet would have taken 110 ms.
    assert found == [pytest.approx(1.62 - 1.13)]


def test_the_costs_of_repeated_losses_of_a_byte_add_up_to_the_delay_of_the_byte() -> None:
    found = costs(
        *SYN,
        row(1.0, "send", 0),
        row(1.05, "drop", 0),
        row(2.0, "retransmit", 0),
        row(2.05, "drop", 0),
        row(4.0, "retransmit", 0),
        row(4.1, "receive", 0),
    )
    assert found == [pytest.approx(1.0), pytest.approx(2.0)]


def test_a_byte_that_waits_for_earlier_bytes_anyway_costs_only_the_rest() -> None:
    two = costs(
        *SYN,
        row(1.0, "send", 0),
        row(1.01, "drop", 0),
        row(1.0, "send", 100),
        row(1.01, "drop", 100),
        row(2.0, "retransmit", 0),
        row(2.1, "receive", 0),
        row(2.2, "retransmit", 100),
        row(2.3, "receive", 100),
    )
    assert two == [pytest.approx(1.0), pytest.approx(0.2)]
    assert sum(one or 0.0 for one in two) == pytest.approx(2.3 - 1.1)


def test_a_lost_copy_of_data_that_arrived_costs_nothing_and_lost_data_have_no_cost() -> None:
    spare = costs(
        *SYN, row(1.0, "send", 0), row(1.1, "receive", 0), row(1.05, "retransmit", 0), row(1.06, "drop", 0)
    )
    assert spare == [0.0]
    assert costs(*SYN, row(1.0, "send", 0), row(1.05, "drop", 0)) == [None]


def test_a_lost_syn_costs_the_time_until_the_next_one() -> None:
    found = costs(
        row(0.0, "send", 0, 0, 2),
        row(0.01, "drop", 0, 0, 2),
        row(1.0, "send", 0, 0, 2),
        row(1.1, "receive", 0, 0, 2),
    )
    assert found == [pytest.approx(1.0)]


def test_recording_does_not_change_the_transfers(scenario: al.Scenario, recorded: al.Run) -> None:
    assert scenario.run().transfers.equals(recorded.transfers)


@pytest.mark.parametrize("tcp", ["newreno", "sack", "linux"])
def test_reactions_are_as_many_as_the_sender_counted(scenario: al.Scenario, tcp: str) -> None:
    run = runs.recorded(with_tcp(scenario, tcp), "web", lifetime_s=1.0).run()
    lossy = run.flows.filter((pl.col("packets_dropped") > 0) & (pl.col("traffic") == "web"))
    assert lossy.height > 5
    for counters in lossy.iter_rows(named=True):
        story = explained.of_run(run, counters["flow"])
        kinds = [one.kind for one in story.reactions]
        assert kinds.count("time-out") == counters["timeouts"], story.flow
        detected = kinds.count("fast retransmit") + kinds.count("repaired")
        assert detected == counters["fast_retransmits"], story.flow


def test_costs_do_not_exceed_the_duration_and_every_drop_is_a_loss(recorded: al.Run) -> None:
    lossy = recorded.transfers.filter(pl.col("complete") & (pl.col("packets_dropped") > 0))
    for transfer in lossy.iter_rows(named=True):
        story = explained.of_run(recorded, transfer["flow"])
        assert story.cost_s <= transfer["duration_s"]
        of_data = sum(not loss.backward for loss in story.losses)
        assert 0 <= transfer["packets_dropped"] - of_data <= story.lost_acknowledgements


def test_the_numbers_of_red_explain_each_drop(recorded: al.Run) -> None:
    drops = recorded.tables["drops"].with_columns(pl.col("reason").cast(pl.String))
    early = drops.filter(reason="early")
    assert early.height > 20
    assert (early["draw"] < early["probability"]).all()
    assert early["average"].is_between(3, 12 * 2).all()
    assert early["count"].null_count() == 0
    forced = drops.filter(pl.col("reason") != "early")
    assert forced["average"].null_count() == 0
    assert forced["probability"].null_count() == forced["draw"].null_count() == forced.height


def test_disciplines_report_the_numbers_that_they_use(scenario: al.Scenario) -> None:
    used = {
        "codel": {"count"},
        "cobalt": {"count"},
        "fq-codel": {"count"},
        "pie": {"probability", "draw"},
        "linux-red": {"average", "probability", "count", "draw"},
        "drop-tail": set[str](),
    }
    for kind, columns in used.items():
        queue = {"kind": kind} | ({"limit": "30000B"} if kind == "linux-red" else {})
        drops = scenario.with_({"bottleneck.queue": queue}).run().tables["drops"]
        assert drops.height, kind
        known = {
            name
            for name in ("average", "probability", "count", "draw")
            if drops[name].null_count() < drops.height
        }
        assert known == columns, kind


def test_the_sentences_name_link_reason_and_cost(recorded: al.Run) -> None:
    flow = int(runs.slowest(recorded, "web", most=1)["flow"][0])
    story = explained.of_run(recorded, flow)
    text = "\n".join(explained.sentences(story))
    assert f"Flow {flow} of web carried one transfer" in text
    assert "bottleneck dropped" in text
    assert "delayed the delivery of data by" in text
    assert all(sentence.endswith(".") for sentence in explained.sentences(story))
    assert json.loads(json.dumps(story.to_dict()))["losses"][0]["link"] == "bottleneck"


def test_the_picture_has_the_drops_the_window_and_the_queue(recorded: al.Run) -> None:
    flow = int(runs.slowest(recorded, "web", most=1)["flow"][0])
    story = explained.of_run(recorded, flow)
    table = explained.chart(story).table
    assert set(table["panel"]) == {"sequence", "window", "queue"}
    assert table.filter(event="dropped").height == sum(not loss.backward for loss in story.losses)
    queue = table.filter(panel="queue")
    assert queue.height > 100
    assert queue["time_s"].is_between(table["time_s"].min(), table["time_s"].max()).all()


def test_datagrams_and_quic_have_losses_without_costs(scenario: al.Scenario) -> None:
    calls = runs.recorded(scenario, "call").run()
    flow = int(calls.flows.filter(traffic="call")["flow"][0])
    story = explained.of_run(calls, flow)
    assert story.transport == "datagrams"
    assert story.losses
    assert all(loss.cost_s is None for loss in story.losses)
    assert "Datagrams are not sent again" in "\n".join(explained.sentences(story))
    assert set(explained.chart(story).table["panel"]) == {"sequence", "queue"}
    quic = runs.recorded(with_tcp(scenario, "quic"), "web").run()
    lossy = quic.transfers.filter(pl.col("packets_dropped") > 0)
    story = explained.of_run(quic, int(lossy["flow"][0]))
    assert story.transport == "quic"
    assert story.losses
    assert all(loss.cost_s is None for loss in story.losses)
    assert "is not known for QUIC" in "\n".join(explained.sentences(story))


def marking(queue: dict[str, Any], tcp: str = "linux", **traffic: Any) -> al.Scenario:
    """Returns a scenario in which a transfer is alone on a link that marks packets."""
    file = {"kind": "ftp", "flows": 1, "sizes": {"kind": "constant", "value": "600kB"}} | traffic
    alone = {
        "duration": "6s",
        "bottleneck": {"rate": "10Mbps", "delay": "25ms", "queue": queue},
        "traffic": {"file": file},
    }
    scenario = with_tcp(al.Scenario.from_dict(alone, name="marks"), tcp)
    return (
        scenario
        if scenario.effective["tcp"]["ecn"]["mode"] == "on"
        else scenario.with_({"tcp.ecn.mode": "on"})
    )


def test_exactly_the_marked_packets_are_found_with_the_response_of_the_sender() -> None:
    # The instrument numbers the arriving packets; the first packet is the SYN.
    story = explained.explain(
        marking({"kind": "drop-nth", "packets": [], "marked": [40, 44, 200]}, "newreno"), 0
    )
    sent = [
        row for row in rows_of(story.run.tables["packets"], 0) if row.event == "send" and not row.backward
    ]
    assert [mark.first_byte for mark in story.marked] == [sent[number - 1].begin for number in (40, 44, 200)]
    assert story.marks == 3
    first, second, third = story.marked
    assert (first.link, first.average, first.probability) == ("bottleneck", None, None)
    assert first.waited_s == pytest.approx(first.time_s - first.arrived_s)
    # The sender reduces the window once, because both packets were in flight at the same time.
    assert first.window_after == story.reactions[0].threshold < 0.6 * first.window_before
    assert first.window_next < first.window_before
    assert first.response_s == first.echo_s
    assert second.response_s == first.echo_s < second.echo_s
    assert third.response_s == third.echo_s
    assert [one.kind for one in story.reactions] == ["mark", "mark"]
    text = explained.sentences(story)
    assert "The sender reduced its window 2 times because of marks." in text
    assert sum("marked 2 packets" in one for one in text) == 1
    assert all(sentence.endswith(".") for sentence in text)
    shown = json.loads(json.dumps(story.to_dict()))["marked"]
    assert [one["link"] for one in shown] == ["bottleneck"] * 3
    table = explained.chart(story).table
    assert table.filter(event="marked (ECN)")["time_s"].to_list() == [mark.time_s for mark in story.marked]
    assert table.filter(event="response to a mark").height == 2


@pytest.mark.parametrize(
    ("queue", "tcp", "columns"),
    [
        ({"kind": "red", "ecn": "always", "weight": 0.05}, "linux", {"average", "probability"}),
        ({"kind": "dualpi2"}, "prague", {"probability"}),
        ({"kind": "dualpi2"}, "dctcp", {"probability"}),
        ({"kind": "codel", "ecn": True}, "linux", set[str]()),
    ],
)
def test_each_mark_of_a_flow_has_its_queue_and_numbers(
    queue: dict[str, Any], tcp: str, columns: set[str]
) -> None:
    story = explained.explain(marking(queue, tcp), 0)
    received = story.counters["packets_marked"]
    assert len(story.marked) == received > 0
    assert any(one.kind == "mark" for one in story.reactions)
    for name in ("average", "probability"):
        assert all((getattr(mark, name) is not None) == (name in columns) for mark in story.marked), name
    for mark in story.marked:
        assert mark.length_packets >= 1
        assert mark.sent_s <= mark.arrived_s <= mark.time_s < mark.received_s < mark.echo_s
        assert mark.response_s is not None
        assert mark.response_s <= mark.echo_s


def test_the_run_that_finds_the_marks_ends_after_the_flow() -> None:
    beside = {"other": {"kind": "ftp", "flows": 2}, "late": {"kind": "udp", "rate": "1Mbps", "start": "5s"}}
    early = marking({"kind": "dualpi2"}).with_({f"traffic.{name}": table for name, table in beside.items()})
    flow = int(runs.slowest(early.run(), "file")["flow"][0])
    story = explained.explain(early, flow)
    assert story.marked
    located = runs.recorded(early, "file", lifetime_s=1.0).with_({"record.packets": ["bottleneck"]})
    whole = explained.of_run(located.run(), flow)
    assert story.run.tables["packets"]["time_s"].max() < 5 < whole.run.tables["packets"]["time_s"].max()
    # The sampling interval of the probability differs.
    assert [replace(one, probability=None) for one in story.marked] == [
        replace(one, probability=None) for one in whole.marked
    ]
    assert (story.counters, story.losses) == (whole.counters, whole.losses)


def test_a_mark_is_found_at_the_link_that_marked_the_packet() -> None:
    chain = {
        "duration": "5s",
        "links": {
            name: {"from": ends[0], "to": ends[1], "rate": rate, "delay": "5ms", "queue": queue}
            for name, ends, rate, queue in (
                ("near", "ab", "20Mbps", {"kind": "drop-nth", "packets": [], "marked": [30]}),
                ("far", "bc", "20Mbps", {"kind": "drop-nth", "packets": [], "marked": [30, 50]}),
            )
        }
        | {"back": {"from": "c", "to": "a", "rate": "100Mbps", "delay": "10ms"}},
        "tcp": {"ecn": {"mode": "on"}},
        "traffic": {
            "file": {
                "kind": "ftp",
                "flows": 1,
                "from": "a",
                "to": "c",
                "sizes": {"kind": "constant", "value": "200kB"},
            }
        },
    }
    story = explained.explain(al.Scenario.from_dict(chain, name="chain"), 0)
    # The second link does not change the mark of the 30th packet.
    assert [mark.link for mark in story.marked] == ["near", "far"]


def test_a_dropped_packet_and_its_retransmission_are_told_apart_from_a_mark() -> None:
    def at(time_s: float, event: str, first: int, ecn: str = "ect-0", link: str | None = "bottleneck") -> Row:
        again = Row(time_s, event, link, False, first, 100, 140, None, 16, ecn, 3, None)
        return again

    forward, _ = directions(
        [
            *SYN,
            at(1.00, "send", 0, link=None),
            at(1.01, "enqueue", 0),
            at(1.02, "drop", 0),
            at(1.50, "retransmit", 0, link=None),
            at(1.51, "enqueue", 0),
            at(1.52, "start", 0, "ce"),
            at(1.60, "receive", 0, "ce", None),
        ],
        [],
    )
    gauges = pl.DataFrame(
        {
            "time_s": [1.0, 1.505, 1.515],
            "link": ["bottleneck"] * 3,
            "name": ["prob"] * 3,
            "value": [0.1, 0.2, 0.3],
        }
    )
    [mark] = marks(forward, gauges)
    assert (mark.again, mark.time_s, mark.length_packets) == (True, 1.52, 3)
    # The value is the last sample before the packet arrived at the queue.
    assert mark.probability == 0.2
    [loss] = losses(forward)
    assert not loss.again


def test_many_responses_to_marks_have_one_sentence() -> None:
    endless = marking({"kind": "dualpi2"}, "prague", sizes=None).with_({"duration": "12s"})
    story = explained.explain(endless, 0)
    responses = sum(one.kind == "mark" for one in story.reactions)
    assert responses > 10
    text = explained.sentences(story)
    assert len(text) < 12
    assert not any("echo of a mark" in one for one in text)
    assert sum(f"The sender responded {responses} times" in one for one in text) == 1


def test_marks_of_quic_have_no_response(scenario: al.Scenario) -> None:
    story = explained.explain(marking({"kind": "drop-nth", "packets": [], "marked": [40]}, "quic"), 0)
    [mark] = story.marked
    assert story.transport == "quic"
    assert mark.echo_s is None
    assert any("bottleneck marked packet" in one for one in explained.sentences(story))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "short.toml"
    path.write_text(al.Scenario.from_dict(SHORT, name="short").to_toml(), encoding="utf-8")
    return path


def test_the_command_lists_the_slowest_transfers(file: Path) -> None:
    text = invoke(str(file), "--traffic", "web", "--most", "3")
    assert text.exit_code == 0, text.output
    found = json.loads(invoke(str(file), "--traffic", "web", "--most", "3", "--json").stdout)["transfers"]
    assert len(found) == 3
    ends = [one["duration_s"] or 12 - one["start_s"] for one in found]
    assert ends == sorted(ends, reverse=True)
    assert f"--flow {found[0]['flow']}" in text.stdout


def test_the_command_explains_a_flow_and_writes_the_picture(file: Path, tmp_path: Path) -> None:
    flow = json.loads(invoke(str(file), "--traffic", "web", "--json").stdout)["transfers"][0]["flow"]
    text = invoke(str(file), "--flow", str(flow), "--out", str(tmp_path), "--pictures", "svg")
    assert text.exit_code == 0, text.output
    assert f"Flow {flow} of web" in text.stdout
    assert (tmp_path / f"flow-{flow}.svg").is_file()
    assert pl.read_csv(tmp_path / f"flow-{flow}.csv").height > 100
    slowest = json.loads(invoke(str(file), "--slowest", "--traffic", "web", "--json").stdout)
    assert slowest["flow"] == flow
    assert math.isfinite(slowest["losses_cost_s"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--flow", "99999"], "--flow 99999: no flow has this number"),
        (["--traffic", "wbe"], "no workload is named `wbe`: did you mean web"),
        (["--page", "99999"], "--page 99999: no page has this number; the pages are 0-"),
        (["--flow", "0", "--slowest"], "--slowest: cannot be combined with --flow"),
        (["--out", "folder"], "--out: needs --flow, --page or --slowest"),
    ],
)
def test_invalid_options_are_refused(file: Path, words: list[str], message: str) -> None:
    result = invoke(str(file), *words)
    assert result.exit_code != 0
    assert message in (result.output + str(result.exception))


@pytest.mark.parametrize("number", [40, 100, 272])
@pytest.mark.parametrize("tcp", ["newreno", "sack", "linux"])
def test_the_cost_of_a_single_loss_is_the_difference_to_a_run_without_the_loss(tcp: str, number: int) -> None:
    def direction(dropped: list[int]) -> tuple[Direction, al.Run]:
        alone = {
            "duration": "20s",
            "bottleneck": {
                "rate": "10Mbps",
                "delay": "25ms",
                "queue": {"kind": "drop-nth", "packets": dropped},
            },
            "traffic": {"file": {"kind": "ftp", "flows": 1, "sizes": {"kind": "constant", "value": "400kB"}}},
        }
        run = runs.recorded(with_tcp(al.Scenario.from_dict(alone), tcp), "file").run()
        return directions(rows_of(run.tables["packets"], 0), [])[0], run

    with_loss, run = direction([number])
    without, _ = direction([])
    [loss] = explained.of_run(run, 0).losses
    after = loss.first_byte + 1
    late, early = with_loss.delivered_s(after), without.delivered_s(after)
    assert late is not None
    assert early is not None
    # Only the arrival of the lost packet is estimated.
    assert loss.cost_s == pytest.approx(late - early, rel=0.03)


def test_columns_that_the_scenario_omits_are_recorded(scenario: al.Scenario) -> None:
    few = scenario.with_({"record.transfer_columns": ["traffic", "start_s", "duration_s", "complete"]})
    flow = int(runs.slowest(scenario.run(), "web", most=1)["flow"][0])
    assert explained.explain(few, traffic="web").flow == flow


def test_a_page_is_explained_by_its_last_transfer(scenario: al.Scenario) -> None:
    run = scenario.run()
    done = run.pages.filter(pl.col("complete") & (pl.col("objects") > 1)).row(0, named=True)
    flow = runs.last_of_page(run, done["page"], "web")
    of_page = run.transfers.filter((pl.col("page") == done["page"]) & (pl.col("traffic") == "web"))
    [last] = of_page.filter(pl.col("flow") == flow).to_dicts()
    assert last["start_s"] + last["duration_s"] == pytest.approx(done["start_s"] + done["duration_s"])
