"""qlog files of the TCP connections of a simulated run, for qvis and other QUIC tools.

Sources: draft-ietf-quic-qlog-main-schema-14 and draft-ietf-quic-qlog-quic-events-13 (July 2026) for the form
`draft-14`; revision 03 of these two drafts for the form `0.3`, which qvis reads (its loader rejects any other
current version).

TCP is not QUIC, so this mapping is aqmlab's choice. Each packet that an endpoint sends gets the next packet
number, as in QUIC: a retransmission gets a new number, and `seq` is its sequence number. The packet type is
always `1RTT`, as in qvis's converter for TCP captures. An acknowledgement is attributed to the last
transmission of the data, because, from the sender's point of view, the earlier transmissions were lost.
Events and fields that do not exist in QUIC belong to private event schemas.
"""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from aqmlab import _core
from aqmlab._support import files

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.scenario.run import Run
    from aqmlab.scenario.scenario import Scenario


class Version(StrEnum):
    """The form of a qlog file."""

    QVIS = "0.3"
    """The version that qvis reads."""
    DRAFT = "draft-14"
    """Revision 14 of the main schema, with revision 13 of the events of QUIC."""


DRAFT_SCHEMAS = (
    "urn:ietf:params:qlog:events:quic-13",
    "urn:x-aqmlab:qlog:events:quic#tcp",
    "urn:x-aqmlab:qlog:events:aqmlab",
)
"""The event schemas of a file: the events of QUIC, their additional fields for TCP, and aqmlab's events."""

_SENT, _RECEIVED, _LOST = "packet_sent", "packet_received", "packet_lost"
_METRICS, _STATE = "metrics_updated", "congestion_state_updated"
_DROPPED, _MARKED = "packet_dropped", "packet_marked"

EVENT_NAMES: Mapping[Version, Mapping[str, str]] = {
    Version.QVIS: {
        _SENT: "transport:packet_sent",
        _RECEIVED: "transport:packet_received",
        _LOST: "recovery:packet_lost",
        _METRICS: "recovery:metrics_updated",
        _STATE: "recovery:congestion_state_updated",
        _DROPPED: "aqmlab:packet_dropped",
        _MARKED: "aqmlab:packet_marked",
    },
    Version.DRAFT: {
        _SENT: "quic:packet_sent",
        _RECEIVED: "quic:packet_received",
        _LOST: "quic:packet_lost",
        _METRICS: "quic:recovery_metrics_updated",
        _STATE: "quic:congestion_state_updated",
        _DROPPED: "aqmlab:packet_dropped",
        _MARKED: "aqmlab:packet_marked",
    },
}
"""The names of the events of each version."""

_FIN, _SYN = 1, 2
_FLAGS = ((_SYN, "SYN"), (_FIN, "FIN"), (8, "PSH"), (16, "ACK"), (64, "ECE"), (128, "CWR"))
_ECN = {"not-ect": "Not-ECT", "ect-1": "ECT(1)", "ect-0": "ECT(0)", "ce": "CE"}

_PACKET_COLUMNS = (
    "time_s",
    "event",
    "backward",
    "sequence_bytes",
    "payload_bytes",
    "size_bytes",
    "ack_bytes",
    "flags",
    "ecn",
    "link",
)
_SENDER_COLUMNS = (
    "time_s",
    "state",
    "cwnd_segments",
    "ssthresh_segments",
    "srtt_s",
    "min_rtt_s",
    "rto_s",
    "pacing_rate_bps",
    "bandwidth_bps",
    "marked_share",
)


class _Packet(NamedTuple):
    """A row of the table `packets`."""

    time: float
    event: str
    backward: bool
    sequence: int
    payload: int
    size: int
    ack: int | None
    flags: int
    ecn: str
    link: str | None

    @property
    def begin(self) -> int:
        """The first sequence number, where the SYN precedes the data and has the number -1."""
        return -1 if self.flags & _SYN else self.sequence

    @property
    def end(self) -> int:
        """The sequence number after the packet; a FIN counts as one byte."""
        return self.sequence + self.payload + (self.flags & _FIN)

    @property
    def contents(self) -> tuple[int, int]:
        """The sequence numbers, which identify the packet at other points in the network."""
        return self.begin, self.end


class _Sample(NamedTuple):
    """A row of the table `senders`."""

    time: float
    state: str | None
    cwnd: float
    ssthresh: float
    srtt: float | None
    min_rtt: float | None
    rto: float
    pacing_rate: float | None
    bandwidth: float | None
    marked_share: float | None


class _Event(NamedTuple):
    """An event with its time in seconds and its short name."""

    time: float
    name: str
    data: dict[str, Any]


class _Transmission(NamedTuple):
    """A packet that is sent but not yet acknowledged."""

    number: int
    end: int
    payload: int


@dataclass
class _End:
    """One endpoint of a connection, which sends data, and the events that this endpoint logs."""

    sends_backward: bool
    """Whether this endpoint is the receiver of the flow, which sends its data in the backward direction."""
    mss: float
    """Payload of a full segment, in bytes."""
    sent: int = 0
    """Number of packets sent."""
    received: int = 0
    """Number of packets received."""
    bytes_in_flight: int = 0
    """Payload that has been sent, but neither acknowledged nor reported by SACK."""
    outstanding: dict[int, _Transmission] = field(default_factory=dict)
    """The last transmissions of the data in flight, by first sequence number."""
    begins: list[int] = field(default_factory=list)
    """The keys of `outstanding`, in ascending order."""
    in_network: dict[tuple[int, int], deque[int]] = field(default_factory=dict)
    """The numbers of the packets that have neither arrived nor been dropped, by contents, in order."""
    state: str | None = None
    """The last state of the congestion control."""
    metrics: dict[str, float] = field(default_factory=dict)
    """The last value of each metric."""

    def events(self, packets: Iterable[_Packet], samples: Iterable[_Sample]) -> Iterator[_Event]:
        """The events in chronological order. A sample follows the packets with the same time, because the
        sample's data in flight include the packets that the acknowledgement released."""
        arrival: list[_Packet] = []
        tables: tuple[Iterable[_Packet | _Sample], ...] = (packets, samples)
        rows = heapq.merge(*tables, key=lambda row: (row.time, isinstance(row, _Sample)))
        for row in rows:
            if arrival and not _continues(arrival, row):
                yield self._arrival(arrival)
                arrival = []
            if isinstance(row, _Sample):
                yield from self._sample(row)
            elif row.backward == self.sends_backward:
                yield from self._own(row)
            elif row.event in ("receive", "acknowledge", "sack"):
                arrival.append(row)
        if arrival:
            yield self._arrival(arrival)

    def _own(self, row: _Packet) -> Iterator[_Event]:
        """The events of a packet that this endpoint sends."""
        if row.event in ("send", "retransmit"):
            yield from self._send(row)
            return
        # The sending of a bare acknowledgement is not in the table, but its drop is.
        numbers = self.in_network.get(row.contents) if row.event in ("receive", "drop") else None
        if not numbers:
            return
        number = numbers.popleft()
        if not numbers:
            del self.in_network[row.contents]
        data = {"header": _header(number), "seq": row.sequence}
        if row.event == "drop":
            yield _Event(row.time, _DROPPED, {**data, "link": row.link})
        elif row.ecn == "ce":
            yield _Event(row.time, _MARKED, data)

    def _send(self, row: _Packet) -> Iterator[_Event]:
        first, last = bisect_left(self.begins, row.begin), bisect_left(self.begins, row.end)
        for begin in self.begins[first:last]:
            lost = self._remove(begin)
            yield _Event(row.time, _LOST, {"header": _header(lost.number), "seq": max(begin, 0)})
        del self.begins[first:last]
        number = self.sent
        self.sent += 1
        self.outstanding[row.begin] = _Transmission(number, row.end, row.payload)
        insort(self.begins, row.begin)
        self.bytes_in_flight += row.payload
        self.in_network.setdefault(row.contents, deque()).append(number)
        data = _packet_data(number, row)
        if row.event == "retransmit":
            data["retransmission"] = True
        yield _Event(row.time, _SENT, data)

    def _arrival(self, rows: list[_Packet]) -> _Event:
        """The event of a packet that arrives at this endpoint, from the rows with its contents."""
        packet = rows[0]
        number = self.received
        self.received += 1
        data = _packet_data(number, packet)
        blocks = [[row.sequence, row.sequence + row.payload] for row in rows if row.event == "sack"]
        if packet.event == "acknowledge":
            # The table contains the acknowledgement number instead of the sequence number.
            del data["seq"]
            data["raw"]["payload_length"] = 0
        if packet.ack is not None:
            data["ack"] = packet.ack
            frame: dict[str, Any] = {"frame_type": "ack"}
            if ranges := _ranges(self._acknowledge(packet.ack, blocks)):
                frame["acked_ranges"] = ranges
            data["frames"] = [frame]
        if blocks:
            data["sack"] = blocks
        return _Event(packet.time, _RECEIVED, data)

    def _acknowledge(self, ack: int, blocks: Iterable[list[int]]) -> list[int]:
        """Removes the acknowledged transmissions and returns their numbers, in ascending order."""
        numbers = []
        for begin, end in ((-1, ack), *blocks):
            first, last = bisect_left(self.begins, begin), bisect_left(self.begins, end)
            if first < last and self.outstanding[self.begins[last - 1]].end > end:
                last -= 1
            numbers += [self._remove(acknowledged).number for acknowledged in self.begins[first:last]]
            del self.begins[first:last]
        return sorted(numbers)

    def _remove(self, begin: int) -> _Transmission:
        transmission = self.outstanding.pop(begin)
        self.bytes_in_flight -= transmission.payload
        return transmission

    def _sample(self, row: _Sample) -> Iterator[_Event]:
        if row.state is not None and row.state != self.state:
            old = {} if self.state is None else {"old": self.state}
            yield _Event(row.time, _STATE, {**old, "new": row.state})
            self.state = row.state
        values = {
            "min_rtt": _milliseconds(row.min_rtt),
            "smoothed_rtt": _milliseconds(row.srtt),
            "congestion_window": round(row.cwnd * self.mss),
            "bytes_in_flight": self.bytes_in_flight,
            "ssthresh": round(row.ssthresh * self.mss),
            "pacing_rate": None if row.pacing_rate is None else round(row.pacing_rate),
            "rto": _milliseconds(row.rto),
            "bandwidth": None if row.bandwidth is None else round(row.bandwidth),
            "marked_share": row.marked_share,
        }
        changed = {
            name: value
            for name, value in values.items()
            if value is not None and value != self.metrics.get(name)
        }
        if changed:
            self.metrics |= changed
            yield _Event(row.time, _METRICS, changed)


def recorded(scenario: Scenario) -> Scenario:
    """The scenario, changed to record the data for qlog: the histories and senders of the TCP workloads in
    `record.histories` (by default, of all TCP workloads). Recording does not change results.

    Raises `ValueError` if the scenario has no TCP workload, or is not at packet level."""
    if scenario.level != "packet":
        raise ValueError(f"qlog: needs a scenario of the level packet (got {scenario.name})")
    record = scenario.effective["record"]
    tcp = [name for name, workload in scenario.workloads.items() if not workload.sends_datagrams]
    if not tcp:
        found = ", ".join(scenario.workloads) or "none"
        raise ValueError(
            f"qlog: needs a workload that uses TCP, but the workloads of {scenario.name} are: {found}"
        )
    chosen = [name for name in tcp if name in record["histories"]] or tcp
    return scenario.with_(
        {
            f"record.{table}": list(dict.fromkeys([*record[table], *chosen]))
            for table in ("histories", "senders")
        }
    )


def write(run: Run, folder: Path, version: Version = Version.QVIS) -> list[Path]:
    """Writes a qlog file for each endpoint of a TCP connection, provided that this endpoint sends data. The
    file is `NAME-flowN.sqlog` for the sender of flow N of the workload NAME, and `NAME-flowN-receiver.sqlog`
    for a receiver that sends data, for example requests. Returns the paths. `run` is a run of a scenario from
    `recorded`. Existing files are replaced.

    Raises `ValueError` if the run has no history of a TCP connection that sends data, and `OSError` if a file
    cannot be written."""
    import polars as pl

    event = pl.col("event").cast(pl.String)
    packets = run.tables["packets"].filter(pl.col("flags").is_not_null())
    packets = packets.filter(pl.col("link").is_null() | (event == "drop"))
    sends = packets.filter(event.is_in(["send", "retransmit"]), pl.col("payload_bytes") > 0)
    ends = sends.select("flow", "backward").unique().sort("flow", "backward").rows()
    if not ends:
        raise ValueError("qlog: the run has no history of a TCP connection that sends data")
    traffic_of = dict(run.tables["flows"].select("flow", pl.col("traffic").cast(pl.String)).iter_rows())
    packets_of = _Slices(packets, _PACKET_COLUMNS)
    samples_of = _Slices(run.tables["senders"], _SENDER_COLUMNS)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for flow, is_receiver in ends:
        traffic = traffic_of[flow]
        end = _End(sends_backward=is_receiver, mss=_mss(run.manifest["scenario"], traffic))
        # The table `senders` describes the sender of the flow.
        samples = () if is_receiver else map(_Sample._make, samples_of.rows(flow))
        events = end.events(map(_Packet._make, packets_of.rows(flow)), samples)
        header = _file_header(run.manifest, version, traffic, flow, is_receiver, packets_of.rows(flow))
        path = folder / f"{traffic}-flow{flow}{'-receiver' if is_receiver else ''}.sqlog"
        # A run can be repeated, and may have thousands of connections.
        files.replace(path, _records(header, events, version), durable=False)
        paths.append(path)
    return paths


class _Slices:
    """Rows of a table by flow, in chronological order."""

    def __init__(self, table: pl.DataFrame, columns: Iterable[str]) -> None:
        import polars as pl

        table = table.sort("flow", maintain_order=True)
        lengths = table.group_by("flow", maintain_order=True).len()
        begins = [0, *lengths["len"].cum_sum().to_list()]
        self._slices = {flow: (begins[at], length) for at, (flow, length) in enumerate(lengths.iter_rows())}
        words = [name for name, kind in table.schema.items() if kind == pl.Categorical]
        self._table = table.select(columns).with_columns(
            pl.col(name).cast(pl.String) for name in words if name in columns
        )

    def rows(self, flow: int) -> Iterator[tuple[Any, ...]]:
        begin, length = self._slices.get(flow, (0, 0))
        return self._table.slice(begin, length).iter_rows()


def _records(header: dict[str, Any], events: Iterable[_Event], version: Version) -> Iterator[bytes]:
    """The records of a file (JSON text sequences, RFC 7464): the header and the events."""
    names = EVENT_NAMES[version]
    yield _record(header)
    for event in events:
        yield _record({"time": _milliseconds(event.time), "name": names[event.name], "data": event.data})


def _record(value: dict[str, Any]) -> bytes:
    return b"\x1e" + json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _file_header(
    manifest: Mapping[str, Any],
    version: Version,
    traffic: str,
    flow: int,
    is_receiver: bool,
    rows: Iterator[tuple[Any, ...]],
) -> dict[str, Any]:
    """The first record of a file. `rows` are the packets of the flow."""
    end = "receiver" if is_receiver else "sender"
    point = {"name": f"{traffic} {end}", "type": _vantage_point(rows, is_receiver)}
    texts = {
        "title": f"{traffic}, flow {flow}, {end}",
        "description": "aqmlab {version}, scenario {digest}, seed {seed}".format_map(manifest),
    }
    if version is Version.QVIS:
        common = {
            "protocol_type": ["TCP"],
            "group_id": f"flow {flow}",
            "time_format": "relative",
            "reference_time": 0,
        }
        trace = {"title": f"flow {flow}", "vantage_point": point, "common_fields": common}
        return {"qlog_version": version, "qlog_format": "JSON-SEQ", **texts, "trace": trace}
    common = {
        "group_id": f"flow {flow}",
        "time_format": "relative_to_epoch",
        "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
    }
    return {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        **texts,
        "trace": {
            "title": f"flow {flow}",
            "vantage_point": point,
            "common_fields": common,
            "event_schemas": list(DRAFT_SCHEMAS),
        },
    }


def _vantage_point(rows: Iterator[tuple[Any, ...]], is_receiver: bool) -> str:
    """The role of an endpoint: the client is the endpoint that sends the first SYN. Without a handshake, the
    role is unknown."""
    first = next(map(_Packet._make, rows))
    if not first.flags & _SYN:
        return "unknown"
    return "client" if first.backward == is_receiver else "server"


def _mss(scenario: Mapping[str, Any], traffic: str) -> float:
    """The payload of a full segment of a workload, in bytes, from a scenario with all defaults."""
    tcp = scenario["traffic"][traffic].get("tcp") or scenario["tcp"]
    return _core.quantity(tcp["connection"]["mss"])[0]


def _continues(arrival: list[_Packet], row: _Packet | _Sample) -> bool:
    """Whether the row belongs to the same packet as the rows in `arrival`. The rows of a packet are
    consecutive: `receive`, `acknowledge`, `sack`."""
    if isinstance(row, _Sample) or row.time != arrival[0].time:
        return False
    if row.event == "sack":
        return True
    return row.event == "acknowledge" and arrival[-1].event == "receive"


def _packet_data(number: int, row: _Packet) -> dict[str, Any]:
    """The fields that a packet has when it is sent and when it arrives."""
    return {
        "header": _header(number),
        "raw": {"length": row.size, "payload_length": row.payload},
        "seq": row.sequence,
        "flags": [name for bit, name in _FLAGS if row.flags & bit],
        "ecn": _ECN[row.ecn],
    }


def _header(number: int) -> dict[str, Any]:
    return {"packet_type": "1RTT", "packet_number": number}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Ascending packet numbers as ranges: one number, or the first and the last number."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ranges


def _milliseconds(seconds: float | None) -> float | None:
    """Converts seconds to milliseconds, rounded to whole nanoseconds."""
    return None if seconds is None else round(1e3 * seconds, 6)
