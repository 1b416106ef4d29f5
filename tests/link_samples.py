"""Small files of every format of links, made by hand: for tests of the readers and for mangling."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any

LOAD_HEADER = (
    "LOAD_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; "
    "CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS"
)
DATA_HEADER = (
    "DATA_HEADER; LOG_DATETIME; LOG_TIMESTAMP; PROC_TIME_US; DL_ACHIEVED_RATE_KBPS; UL_ACHIEVED_RATE_KBPS; "
    "DL_OWD_BASELINE; UL_OWD_BASELINE; CAKE_DL_RATE_KBPS; CAKE_UL_RATE_KBPS"
)

FLENT: dict[str, Any] = {
    "metadata": {"NAME": "tcp_1up", "TITLE": "mine"},
    "version": 4,
    "x_values": [1.0, 2.0, 3.0, 4.0, 5.0],
    "results": {
        "TCP upload": [None, 9.0, 9.6, 9.6, 9.8],
        "Ping (ms) ICMP": [20.0, 60.0, 110.0, 118.0, 120.0],
        "TCP upload::tcp_rtt": [None, 61.0, 111.0, 119.0, 121.0],
    },
    "raw_values": {},
}

IPERF3: dict[str, Any] = {
    "start": {
        "connected": [{"socket": 5}],
        "version": "iperf 3.17",
        "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 3, "reverse": 0},
    },
    "intervals": [
        {"streams": [{"socket": 5, "bits_per_second": 4.7e6, "rtt": rtt, "sender": True}], "sum": {}}
        for rtt in (30000, 200000, 310000)
    ],
    "end": {
        "streams": [{"sender": {"min_rtt": 21000, "mean_rtt": 180000, "max_rtt": 310000}}],
        "sum_sent": {"bits_per_second": 4.9e6},
        "sum_received": {"bits_per_second": 4.8e6},
    },
}

NETWORK_QUALITY: dict[str, Any] = {
    "base_rtt": 20,
    "dl_flows": 12,
    "dl_responsiveness": 600,
    "dl_throughput": 96_000_000,
    "end_date": "2026-11-28 10:00:12.000",
    "interface_name": "en0",
    "os_version": "Version 15.1",
    "start_date": "2026-11-28 10:00:00.000",
    "ul_flows": 16,
    "ul_responsiveness": 200,
    "ul_throughput": 9_600_000,
}

CLOUDFLARE: dict[str, Any] = {
    "download": 96e6,
    "upload": 9.6e6,
    "latency": 15.0,
    "jitter": 2.0,
    "downLoadedLatency": 40.0,
    "upLoadedLatency": 215.0,
}

MACH: dict[str, Any] = {
    "unloaded_latency_ms": 10.8,
    "jitter_ms": 6.9,
    "download": {"throughput": 104_846_062, "loaded_latency_ms": 86.9, "rpm": 446},
    "upload": {"throughput": 48_758_784, "loaded_latency_ms": 206.8, "rpm": 433},
}

OOKLA: dict[str, Any] = {
    "type": "result",
    "timestamp": "2026-11-28T10:00:00Z",
    "ping": {"jitter": 0.5, "latency": 12.5, "low": 12.0, "high": 13.0},
    "download": {"bandwidth": 12_000_000, "latency": {"iqm": 45.0, "low": 12.0, "high": 90.0}},
    "upload": {"bandwidth": 1_250_000, "latency": {"iqm": 212.5, "low": 12.0, "high": 400.0}},
    "packetLoss": 0,
}


def text(table: object) -> bytes:
    return json.dumps(table).encode()


def json_stream() -> bytes:
    """The output of `iperf3 --json-stream` that corresponds to `IPERF3`."""
    events = [{"event": "start", "data": IPERF3["start"]}]
    events += [{"event": "interval", "data": one} for one in IPERF3["intervals"]]
    events.append({"event": "end", "data": IPERF3["end"]})
    return b"".join(text(event) + b"\n" for event in events)


def autorate() -> bytes:
    rows = [DATA_HEADER, LOAD_HEADER]
    for number in range(4):
        at = f"{1_700_000_000 + number}.5"
        rows.append(f"LOAD; 2023-11-14-22:13:20; {at}; {at}; 900; 90; {20_000 + number}; {2000 + number}")
        rows.append(f"DATA; 2023-11-14-22:13:20; {at}; {at}; 900; 90; 8000; 9000; 20000; 2000")
    return "\n".join(rows).encode() + b"\n"


def tcp(
    source: bytes,
    destination: bytes,
    ports: tuple[int, int],
    sequence: int,
    acknowledgement: int,
    payload: int,
    flags: int = 0x10,
    stamps: tuple[int, int] | None = None,
) -> tuple[bytes, int]:
    """The headers of a TCP packet in IPv4, and the packet's length."""
    options = b"\x01\x01\x08\x0a" + struct.pack(">II", *stamps) if stamps else b""
    header = 20 + len(options)
    length = 20 + header + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length, 0, 0, 64, 6, 0, source, destination)
    segment = struct.pack(
        ">HHIIBBHHH", *ports, sequence % 2**32, acknowledgement % 2**32, header // 4 << 4, flags, 65535, 0, 0
    )
    return ip + segment + options, length


Captured = tuple[float, bytes, int]
"""Time in seconds, captured bytes and length of a packet."""


def pcap(packets: list[Captured], *, link_type: int = 101, order: str = "<") -> bytes:
    rows = [struct.pack(order + "IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type)]
    for time, data, length in packets:
        nanos = round(time * 1e9)
        rows.append(struct.pack(order + "IIII", nanos // 10**9, nanos % 10**9, len(data), length) + data)
    return b"".join(rows)


def pcapng(packets: list[Captured], *, interfaces: int = 1) -> bytes:
    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        length = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + length + body + length

    rows = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    resolution = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)
    rows += [block(1, struct.pack("<HHI", 101, 0, 0) + resolution)] * interfaces
    for number, (time, data, length) in enumerate(packets):
        nanos = round(time * 1e9)
        head = struct.pack("<5I", number % interfaces, nanos >> 32, nanos & 0xFFFFFFFF, len(data), length)
        rows.append(block(6, head + data))
    return b"".join(rows)


HOME, SERVER = bytes([192, 168, 1, 2]), bytes([203, 0, 113, 9])


def conversation(seconds: int = 4) -> list[Captured]:
    """An upload of 1 Mb/s of payload over a round trip of 25 ms that grows to 105 ms, captured at home."""
    ports = (40_000, 443)
    found = [(0.0, *tcp(HOME, SERVER, ports, 99, 0, 0, 0x02, (1, 0)))]
    found.append((0.025, *tcp(SERVER, HOME, ports[::-1], 499, 100, 0, 0x12, (1, 1))))
    sequence = 100
    for number in range(20 * seconds):
        at = 0.05 * (number + 1)
        rtt = 0.025 + 0.08 * min(number / 20, 1)
        stamp = 1000 + number
        found.append((at, *tcp(HOME, SERVER, ports, sequence, 500, 6250, 0x10, (stamp, 1))))
        sequence += 6250
        found.append((at + rtt, *tcp(SERVER, HOME, ports[::-1], 500, sequence, 0, 0x10, (2, stamp))))
    return sorted(found)


SAMPLES: dict[str, tuple[str, bytes]] = {
    "flent": ("flent", gzip.compress(text(FLENT), mtime=0)),
    "flent, plain": ("flent", text(FLENT)),
    "iperf3": ("iperf3", text(IPERF3)),
    "iperf3, stream": ("iperf3", json_stream()),
    "networkquality": ("networkquality", text(NETWORK_QUALITY)),
    "cloudflare": ("cloudflare", text(CLOUDFLARE)),
    "mach": ("cloudflare", text(MACH)),
    "ookla": ("ookla", text(OOKLA)),
    "ookla, lines": ("ookla", text({"type": "ping", "ping": {"latency": 1.0}}) + b"\n" + text(OOKLA) + b"\n"),
    "cake-autorate": ("cake-autorate", autorate()),
    "mahimahi": ("mahimahi", b"1\n1\n3\n7\n9\n10\n"),
    "rates": ("rates", b"time_s,rate_mbps\n0,18.2\n10,17.9\n20,3.4\n30,9.5\n"),
    "capture, pcap": ("capture", pcap(conversation(1))),
    "capture, pcapng": ("capture", pcapng(conversation(1))),
}
"""A file of every form: the name of its format and its content."""
