"""qlog files of simulated connections: their form in both versions, and their agreement with the tables."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Cli

import aqmlab as al
from aqmlab.cli import app as command_line
from aqmlab.scenario import qlog
from aqmlab.scenario.run import Run

SCENARIO: dict[str, Any] = {
    "duration": "6s",
    "bottleneck": {
        "rate": "3Mbps",
        "delay": "20ms",
        "queue": {
            "kind": "red",
            "min_th": "3p",
            "max_th": "9p",
            "max_p": 0.2,
            "weight": 0.05,
            "ecn": "always",
            "limit": "20p",
        },
    },
    "tcp": {"profile": "linux-6", "ecn": {"mode": "on"}},
    "traffic": {
        "ftp": {"kind": "ftp", "flows": 2, "stagger": "1s"},
        "old": {"kind": "ftp", "flows": 1, "tcp": {"ecn": {"mode": "off"}, "connection": {"mss": "536B"}}},
        "pages": {
            "kind": "sessions",
            "users": 1,
            "request": "300B",
            "objects": {"kind": "constant", "value": 3},
            "sizes": {"kind": "constant", "value": "20kB"},
            "think_time": {"kind": "constant", "value": "1s"},
        },
        "call": {"kind": "udp", "rate": "64kbps"},
    },
}

ELASTIC = Path(__file__).parent.parent / "scenarios/flow-level/elastic.toml"

Event = dict[str, Any]
File = tuple[Event, list[Event]]


@pytest.fixture(scope="module")
def run() -> Run:
    return qlog.recorded(al.Scenario.from_dict(SCENARIO)).run()


@pytest.fixture(scope="module", params=list(qlog.Version))
def version(request: pytest.FixtureRequest) -> qlog.Version:
    return qlog.Version(request.param)


@pytest.fixture(scope="module")
def files(run: Run, version: qlog.Version, tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    """The files of the run by name: header and events."""
    return {path.name: read(path) for path in qlog.write(run, tmp_path_factory.mktemp("qlog"), version)}


def read(path: Path) -> File:
    """The header and the events of a JSON text sequence (RFC 7464)."""
    data = path.read_bytes()
    assert data.startswith(b"\x1e")
    records = data.split(b"\x1e")[1:]
    assert all(record.endswith(b"\n") and record.count(b"\n") == 1 for record in records)
    header, *events = map(json.loads, records)
    return header, events


def short(event: Event) -> str:
    """The name of an event without its namespace, as in version 0.3."""
    return event["name"].partition(":")[2].removeprefix("recovery_")


def named(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if short(event) == name]


def number(event: Event) -> int:
    return event["data"]["header"]["packet_number"]


def acknowledged(event: Event) -> Iterator[int]:
    """The packet numbers that a received packet acknowledges."""
    for frame in event["data"].get("frames", []):
        for first, *last in frame.get("acked_ranges", []):
            yield from range(first, (last or [first])[0] + 1)


# The form: required members, types and allowed names of the schemas.


def is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def is_uint(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


def one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: value in words


def table(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> Callable[[Any], bool]:
    """The check of an object with these members and no others."""
    known = {**required, **(optional or {})}

    def check(value: Any) -> bool:
        assert isinstance(value, dict)
        assert required.keys() <= value.keys() <= known.keys(), (value, list(known))
        for name, member in value.items():
            assert known[name](member), (name, member)
        return True

    return check


ECN = one_of("Not-ECT", "ECT(1)", "ECT(0)", "CE")
RAW = table({}, {"length": is_uint, "payload_length": is_uint})
HEADER = table({"packet_type": one_of("1RTT")}, {"packet_number": is_uint})
RANGE = is_list_of(is_uint)
ACK = table(
    {"frame_type": one_of("ack")},
    {
        "acked_ranges": lambda value: (
            len(value) > 0 and all(1 <= len(one) <= 2 and RANGE(one) for one in value)
        )
    },
)
TCP_FIELDS = {"seq": is_uint, "flags": is_list_of(is_text), "ecn": ECN}
SENT = table({"header": HEADER}, {"raw": RAW, "retransmission": one_of(True), **TCP_FIELDS})
RECEIVED = table(
    {"header": HEADER},
    {"raw": RAW, "frames": is_list_of(ACK), "ack": is_uint, "sack": is_list_of(RANGE), **TCP_FIELDS},
)
METRICS = table(
    {},
    {
        **dict.fromkeys(["min_rtt", "smoothed_rtt", "rto", "marked_share"], is_number),
        **dict.fromkeys(["congestion_window", "bytes_in_flight", "ssthresh"], is_uint),
        **dict.fromkeys(["pacing_rate", "bandwidth"], is_uint),
    },
)
LOST = table({"header": HEADER}, {"seq": is_uint})
STATE = table({"new": is_text}, {"old": is_text})
DROPPED = table({"header": HEADER, "link": is_text}, {"seq": is_uint})
OWN = {"aqmlab:packet_dropped": DROPPED, "aqmlab:packet_marked": LOST}
EVENTS = {
    qlog.Version.QVIS: {
        "transport:packet_sent": SENT,
        "transport:packet_received": RECEIVED,
        "recovery:packet_lost": LOST,
        "recovery:metrics_updated": METRICS,
        "recovery:congestion_state_updated": STATE,
        **OWN,
    },
    qlog.Version.DRAFT: {
        "quic:packet_sent": SENT,
        "quic:packet_received": RECEIVED,
        "quic:packet_lost": LOST,
        "quic:recovery_metrics_updated": METRICS,
        "quic:congestion_state_updated": STATE,
        **OWN,
    },
}
POINT = table({"type": one_of("client", "server")}, {"name": is_text})
TEXTS = {"title": is_text, "description": is_text}
HEADERS = {
    qlog.Version.QVIS: table(
        {
            "qlog_version": one_of("0.3"),
            "qlog_format": one_of("JSON-SEQ"),
            "trace": table(
                {},
                {
                    "title": is_text,
                    "vantage_point": POINT,
                    "common_fields": table(
                        {},
                        {
                            "time_format": one_of("relative"),
                            "reference_time": is_number,
                            "protocol_type": is_list_of(is_text),
                            "group_id": is_text,
                        },
                    ),
                },
            ),
        },
        TEXTS,
    ),
    qlog.Version.DRAFT: table(
        {
            "file_schema": one_of("urn:ietf:params:qlog:file:sequential"),
            "serialization_format": one_of("application/qlog+json-seq"),
            "trace": table(
                {"event_schemas": lambda value: len(value) > 0 and is_list_of(is_text)(value)},
                {
                    "title": is_text,
                    "vantage_point": POINT,
                    "common_fields": table(
                        {},
                        {
                            "time_format": one_of("relative_to_epoch"),
                            "reference_time": table(
                                {"clock_type": one_of("monotonic"), "epoch": one_of("unknown")}
                            ),
                            "group_id": is_text,
                        },
                    ),
                },
            ),
        },
        TEXTS,
    ),
}


def test_the_files_have_the_form_of_their_schema(files: dict[str, File], version: qlog.Version) -> None:
    used = set()
    for header, events in files.values():
        assert HEADERS[version](header)
        for event in events:
            assert table({"time": is_number, "name": is_text, "data": lambda data: True})(event)
            assert EVENTS[version][event["name"]](event["data"])
        assert all(one["time"] <= two["time"] for one, two in itertools.pairwise(events))
        used |= {event["name"] for event in events}
    assert used == EVENTS[version].keys()


def test_tools_find_the_version_at_the_begin_of_a_file(
    run: Run, version: qlog.Version, tmp_path: Path
) -> None:
    key = b'"qlog_version"' if version is qlog.Version.QVIS else b'"serialization_format"'
    for path in qlog.write(run, tmp_path, version):
        assert key in path.read_bytes()[:256]


def test_both_versions_contain_the_same_events(run: Run, tmp_path: Path) -> None:
    of_version = [qlog.write(run, tmp_path / version, version) for version in qlog.Version]
    for one, other in zip(*of_version, strict=True):
        assert one.name == other.name
        events = [[(e["time"], short(e), e["data"]) for e in read(path)[1]] for path in (one, other)]
        assert events[0] == events[1] != []


# The agreement with the tables.


def test_each_end_that_sends_data_has_a_file(run: Run, files: dict[str, File]) -> None:
    names = dict(run.flows.select("flow", pl.col("traffic").cast(pl.String)).rows())
    is_sent = pl.col("event").cast(pl.String) == "send"
    sent = run.tables["packets"].filter(is_sent, pl.col("payload_bytes") > 0)
    ends = sent.select("flow", "backward").unique().rows()
    assert files.keys() == {
        f"{names[flow]}-flow{flow}{'-receiver' if backward else ''}.sqlog"
        for flow, backward in ends
        if names[flow] != "call"
    }
    points = {name: header["trace"]["vantage_point"] for name, (header, _) in files.items()}
    assert points["ftp-flow1.sqlog"] == {"name": "ftp sender", "type": "client"}
    of_pages = {name: point["type"] for name, point in points.items() if name.startswith("pages")}
    assert of_pages == {name: "client" if name.endswith("receiver.sqlog") else "server" for name in of_pages}


def test_the_packets_are_those_of_the_tables(run: Run, files: dict[str, File]) -> None:
    packets = run.tables["packets"].with_columns(pl.col("event").cast(pl.String))
    flows = {row["flow"]: row for row in run.flows.iter_rows(named=True)}
    for name, (_, events) in files.items():
        flow, backward = int(name.partition("flow")[2].split("-")[0].split(".")[0]), "receiver" in name
        rows = packets.filter(flow=flow)
        sends = rows.filter(pl.col("event").is_in(["send", "retransmit"]), backward=backward)
        sent = named(events, "packet_sent")
        assert [number(event) for event in sent] == list(range(len(sent)))
        assert [event["data"]["raw"]["length"] for event in sent] == sends["size_bytes"].to_list()
        assert [event["data"]["raw"]["payload_length"] for event in sent] == sends["payload_bytes"].to_list()
        assert [event["data"]["seq"] for event in sent] == sends["sequence_bytes"].to_list()
        again = sends["event"] == "retransmit"
        assert [event["data"].get("retransmission", False) for event in sent] == again.to_list()
        assert [event["time"] for event in sent] == pytest.approx((1e3 * sends["time_s"]).to_list(), abs=1e-6)
        if not backward:
            received = named(events, "packet_received")
            acks = [event["data"]["ack"] for event in received if "ack" in event["data"]]
            assert acks == rows.filter(event="acknowledge")["ack_bytes"].to_list()
            blocks = [block for event in received for block in event["data"].get("sack", [])]
            sacks = rows.filter(event="sack").select(
                "sequence_bytes", end=pl.col("sequence_bytes") + pl.col("payload_bytes")
            )
            assert blocks == list(map(list, sacks.rows()))
            carries = (pl.col("payload_bytes") > 0) | (pl.col("flags") & 3 > 0)
            dropped = rows.filter(carries, event="drop", backward=False)
            assert len(named(events, "packet_dropped")) == dropped.height <= flows[flow]["packets_dropped"]
            marked = rows.filter(event="receive", ecn="ce", backward=False)
            assert len(named(events, "packet_marked")) == marked.height <= flows[flow]["packets_marked"]
    marks = sum(len(named(events, "packet_marked")) for _, events in files.values())
    assert marks > 5 < run.flows["packets_dropped"].sum()


def test_each_packet_is_acknowledged_or_lost_at_most_once(files: dict[str, File]) -> None:
    losses = 0
    for _, events in files.values():
        open_packets: dict[int, int] = {}
        in_flight = 0
        for event in events:
            kind = short(event)
            if kind == "packet_sent":
                open_packets[number(event)] = event["data"]["raw"]["payload_length"]
                in_flight += open_packets[number(event)]
            elif kind == "packet_received":
                in_flight -= sum(open_packets.pop(one) for one in acknowledged(event))
            elif kind == "packet_lost":
                in_flight -= open_packets.pop(number(event))
                losses += 1
            elif kind == "metrics_updated" and "bytes_in_flight" in event["data"]:
                assert event["data"]["bytes_in_flight"] == in_flight
    assert losses > 5


def test_the_metrics_are_those_of_the_senders(run: Run, files: dict[str, File]) -> None:
    senders = run.tables["senders"].with_columns(pl.col("state").cast(pl.String))
    for name, flow, mss in (("ftp-flow1.sqlog", 1, 1448), ("old-flow3.sqlog", 3, 536)):
        rows = senders.filter(flow=flow)
        events = files[name][1]
        metrics = named(events, "metrics_updated")
        last: Event = {}
        for event in metrics:
            last |= event["data"]
        end = rows.row(-1, named=True)
        assert last["congestion_window"] == round(end["cwnd_segments"] * mss)
        assert last["ssthresh"] == round(end["ssthresh_segments"] * mss)
        assert last["smoothed_rtt"] == pytest.approx(1e3 * end["srtt_s"], abs=1e-6)
        assert last["rto"] == pytest.approx(1e3 * end["rto_s"], abs=1e-6)
        windows = [round(one * mss) for one in rows["cwnd_segments"]]
        changes = [value for value, _ in itertools.groupby(windows)]
        logged = [
            event["data"]["congestion_window"] for event in metrics if "congestion_window" in event["data"]
        ]
        assert logged == changes
        states = [state for state, _ in itertools.groupby(rows["state"])]
        updates = [event["data"] for event in named(events, "congestion_state_updated")]
        assert [update["new"] for update in updates] == states
        assert [update.get("old") for update in updates] == [None, *states[:-1]]
        assert len(states) > 1


def test_a_congestion_control_with_a_model_logs_its_estimates(tmp_path: Path) -> None:
    scenario = al.Scenario.from_dict(SCENARIO).with_(
        {"tcp.congestion_control": {"kind": "dctcp"}, "tcp.pacing.mode": "on"}
    )
    path, *_ = qlog.write(qlog.recorded(scenario).run(), tmp_path)
    names: Counter[str] = Counter()
    for event in named(read(path)[1], "metrics_updated"):
        names.update(event["data"].keys())
    assert names["marked_share"] > 5 < names["pacing_rate"]


def test_a_dropped_packet_is_lost_and_sent_again_with_a_new_number(tmp_path: Path) -> None:
    scenario = al.Scenario.from_dict(
        {
            "duration": "5s",
            "bottleneck": {
                "rate": "2Mbps",
                "delay": "10ms",
                "queue": {"kind": "drop-nth", "packets": [1, 8]},
            },
            "tcp": {"recovery": {"kind": "sack"}},
            "traffic": {"one": {"kind": "ftp", "sizes": {"kind": "constant", "value": "60kB"}}},
        }
    )
    path, *others = qlog.write(qlog.recorded(scenario).run(), tmp_path)
    assert not others
    events = read(path)[1]
    sent = {number(event): event for event in named(events, "packet_sent")}
    dropped, lost = named(events, "packet_dropped"), named(events, "packet_lost")
    assert [number(event) for event in dropped] == [number(event) for event in lost]
    assert [event["data"]["link"] for event in dropped] == ["bottleneck"] * 2
    syn, data = (sent[number(event)]["data"] for event in lost)
    assert (syn["seq"], syn["flags"]) == (0, ["SYN"])
    assert (sent[1]["data"]["seq"], sent[1]["data"]["flags"]) == (0, ["SYN"])
    again = [event for event in sent.values() if event["data"].get("retransmission")]
    assert [event["data"]["seq"] for event in again] == [0, data["seq"]]
    all_acknowledged = {one for event in named(events, "packet_received") for one in acknowledged(event)}
    assert all_acknowledged == sent.keys() - {number(event) for event in lost}
    assert named(events, "metrics_updated")[-1]["data"]["bytes_in_flight"] == 0


# Files and messages.


def test_recording_changes_no_result(run: Run) -> None:
    plain = al.Scenario.from_dict(SCENARIO).run()
    assert plain.flows.equals(run.flows)
    assert plain.links.equals(run.links)


def test_equal_runs_give_equal_files_which_replace_the_old_ones(run: Run, tmp_path: Path) -> None:
    once = {path: path.read_bytes() for path in qlog.write(run, tmp_path)}
    for path in once:
        path.write_bytes(b"old")
    again = {path: path.read_bytes() for path in qlog.write(run, tmp_path)}
    assert again == once
    assert set(tmp_path.iterdir()) == once.keys()


def test_an_interrupted_file_does_not_replace_the_old_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ftp-flow1.sqlog"
    path.write_bytes(b"old")
    at = itertools.count()

    def interrupted(value: object) -> bytes:
        if next(at) == 100:
            raise KeyboardInterrupt
        return b"x"

    monkeypatch.setattr(qlog, "_record", interrupted)
    with pytest.raises(KeyboardInterrupt):
        qlog.write(run, tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_the_workloads_are_those_in_histories_or_all_that_use_tcp() -> None:
    scenario = al.Scenario.from_dict(SCENARIO)
    chosen = {
        "all": qlog.recorded(scenario),
        "some": qlog.recorded(scenario.with_({"record.histories": ["old", "call"]})),
        "none of TCP": qlog.recorded(scenario.with_({"record.histories": ["call"]})),
    }
    record = {name: one.effective["record"] for name, one in chosen.items()}
    assert {name: one["senders"] for name, one in record.items()} == {
        "all": ["ftp", "old", "pages"],
        "some": ["old"],
        "none of TCP": ["ftp", "old", "pages"],
    }
    assert record["some"]["histories"] == ["old", "call"]
    assert record["none of TCP"]["histories"] == ["call", "ftp", "old", "pages"]


def test_a_run_without_histories_has_no_connections(tmp_path: Path) -> None:
    run = al.Scenario.from_dict(SCENARIO).with_({"duration": "100ms"}).run()
    with pytest.raises(ValueError, match="no history of a TCP connection that sends data"):
        qlog.write(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_files(cli: Cli, tmp_path: Path) -> None:
    scenario = al.Scenario.from_dict(SCENARIO).with_({"duration": "1s"})
    file = tmp_path / "one.toml"
    file.write_text(scenario.to_toml())
    done = cli("run", file, "--qlog", tmp_path / "a/b", "--qlog-version", "draft-14")
    paths = sorted((tmp_path / "a/b").iterdir())
    assert f"qlog: {len(paths)} files in {tmp_path / 'a/b'}" in done.stdout
    expected = qlog.write(qlog.recorded(scenario).run(), tmp_path / "c", qlog.Version.DRAFT)
    assert [(path.name, path.read_bytes()) for path in paths] == sorted(
        (path.name, path.read_bytes()) for path in expected
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hello", "--qlog", "FILE"], "--qlog: must be a folder (got FILE, which is a file)"),
        (["hello", "--qlog", "out", "--qlog-version", "0.4"], "'0.4' is not one of '0.3', 'draft-14'"),
        (["hello", "--qlog-version", "0.3"], "--qlog-version: needs --qlog FOLDER"),
        (
            ["voice.toml", "--qlog", "out"],
            "qlog: needs a workload that uses TCP, but the workloads of voice are: call",
        ),
        ([str(ELASTIC), "--qlog", "out"], "--qlog: needs a packet-level scenario"),
    ],
)
def test_bad_input_is_refused_before_the_run(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def no_run(*_: object, **__: object) -> None:
        raise AssertionError("the scenario must not run")

    monkeypatch.setattr(al.Scenario, "run", no_run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").touch()
    voice = al.Scenario.from_dict({**SCENARIO, "traffic": {"call": {"kind": "udp", "rate": "64kbps"}}})
    (tmp_path / "voice.toml").write_text(voice.to_toml())
    monkeypatch.setattr(sys, "argv", ["aqmlab", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
