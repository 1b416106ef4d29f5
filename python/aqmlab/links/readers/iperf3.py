"""Reads the output of `iperf3 --json` and `iperf3 --json-stream`.

Source: esnet/iperf c9b74229, src/iperf_api.c: `start.test_start` describes the test, `end.sum_sent` and
`end.sum_received` contain `bits_per_second` of payload, and the streams of TCP senders contain `rtt` in
microseconds. The program is assumed to run at home: its client uploads unless the test has the option
`--reverse`.
"""

from __future__ import annotations

from collections.abc import Iterator

from aqmlab.links.content import Content, LinkFileError, Node, parse_json, shown
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import HALF, NOTHING, Measured, Way
from aqmlab.links.quantiles import LOADED_SHARE, quantile

_SECTIONS = ("start", "intervals", "end")


def _recognises(content: Content) -> bool:
    top = content.top
    if top is not None:
        return top.has("start", "end") or top.has("start", "intervals") or top.has("event", "data")
    first = content.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n")[0]
    return first.startswith(b"{") and b'"event"' in first and b'"data"' in first


def _read(content: Content, options: Options) -> Measured:
    top = _document(content)
    failed = top.find("error")
    if failed is not None:
        raise failed.error(f"the test failed ({shown(failed.value)}): repeat it")
    test, end = top.at("start", "test_start"), top.at("end")
    is_tcp = test.at("protocol").text().upper() == "TCP"
    is_server = top.find("start", "accepted_connection") is not None
    reverse, both = (_is_set(test, key) for key in ("reverse", "bidir"))
    # The server of a test at home receives what its client sends.
    downloads = reverse != is_server
    sums = [_rate(end, "")] + ([_rate(end, "_bidir_reverse")] if both else [])
    rtts = list(_rtts(top))
    loaded = quantile(rtts, LOADED_SHARE) if rtts else None
    notes = []
    if is_server:
        notes.append("the file was written by the server, which is assumed to be at home")
    if rtts:
        notes.append(
            "iperf3 reports round-trip times under load only: measure the round trip without load with ping"
        )
    else:
        notes.append(
            "the file contains no round-trip times, which only a TCP sender on Linux or FreeBSD reports: "
            "measure the round trip with ping"
        )
    if both and loaded is not None:
        notes.append(
            "both directions were under load at once, so each buffer is estimated from half of the increase "
            "of the round-trip time"
        )
    share = HALF if both else 1.0
    first = Way(rate_bps=sums[0], is_payload=True, loaded_rtt_s=loaded, share=share)
    second = Way(rate_bps=sums[1], is_payload=True, loaded_rtt_s=loaded, share=share) if both else NOTHING
    down, up = (first, second) if downloads else (second, first)
    kind = "both directions" if both else "download" if downloads else "upload"
    return Measured(source=f"iperf3, {'TCP' if is_tcp else 'UDP'}, {kind}", down=down, up=up, notes=notes)


def _document(content: Content) -> Node:
    """Returns the output as one object with `start`, `intervals` and `end`, which `--json-stream` writes as
    a line each."""
    if content.top is not None and not content.top.has("event", "data"):
        return content.top
    intervals: list[object] = []
    found: dict[str, object] = {"intervals": intervals}
    for number, line in enumerate(content.lines, start=1):
        if not line.strip():
            continue
        event = parse_json(line, f"line {number}: ")
        kind, data = event.at("event").text(), event.at("data").value
        if kind == "interval":
            intervals.append(data)
        elif kind in ("start", "end", "error"):
            found[kind] = data
    if "end" not in found and "error" not in found:
        raise LinkFileError("has no event `end`: the test did not finish; repeat it")
    return Node(found)


def _is_set(test: Node, key: str) -> bool:
    found = test.find(key)
    return found is not None and found.number(most=1) == 1


def _rate(end: Node, suffix: str) -> float | None:
    """Returns the received rate, or the sent rate if the receiver reported nothing."""
    for name in (f"sum_received{suffix}", f"sum_sent{suffix}", f"sum{suffix}"):
        found = end.find(name, "bits_per_second")
        if found is not None and found.number() > 0:
            return found.number()
    raise end.error(f"has no rate above 0 in sum_received{suffix} or sum_sent{suffix}: repeat the test")


def _rtts(top: Node) -> Iterator[float]:
    """Yields the smoothed round-trip times of all senders at the ends of the intervals, in seconds."""
    intervals = top.find("intervals")
    for interval in [] if intervals is None else intervals.items():
        streams = interval.find("streams")
        for stream in [] if streams is None else streams.items():
            rtt = stream.find("rtt")
            if rtt is not None and rtt.number(most=1e9) > 0:
                yield rtt.number(most=1e9) / 1e6


FORMAT = Format(
    name="iperf3",
    summary="Output of `iperf3 --json` or `--json-stream`: rates, and round-trip times of TCP senders under "
    "load.",
    recognises=_recognises,
    read=_read,
)
