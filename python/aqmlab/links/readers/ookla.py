"""Reads the output of Ookla's `speedtest --format=json` and `--format=jsonl`.

Field names from outputs of version 1.2: the object with the type `result` contains `ping.latency` in ms, and
in each of `download` and `upload` the fields `bandwidth` (bytes per second) and `latency.iqm` (ms,
interquartile mean under load). The objects of other types describe the progress of the test, or an error.
"""

from __future__ import annotations

from aqmlab.links.content import Content, LinkFileError, Node, parse_json
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import Measured, Way

_TYPES = {"result", "testStart", "ping", "download", "upload", "log", "error"}


def _recognises(content: Content) -> bool:
    first = content.head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n")[0]
    if content.top is not None:
        return _is_own(content.top)
    try:
        return _is_own(parse_json(first.decode()))
    except ValueError:
        return False


def _is_own(node: Node) -> bool:
    kind = node.find("type")
    if kind is None or not isinstance(kind.value, str) or kind.value not in _TYPES:
        return False
    return node.has("timestamp") or node.has(kind.value) or kind.value in ("log", "error")


def _read(content: Content, options: Options) -> Measured:
    result = content.top or _result(content)
    if result.at("type").value != "result":
        raise result.at("type").error("must be `result`: the test did not finish; repeat it")
    ways = []
    for key in ("download", "upload"):
        rate, loaded = result.find(key, "bandwidth"), result.find(key, "latency", "iqm")
        ways.append(
            Way(
                rate_bps=None if rate is None else 8 * rate.number() or None,
                loaded_rtt_s=None if loaded is None else loaded.number(most=1e6) / 1e3,
            )
        )
    if all(way.rate_bps is None for way in ways):
        raise LinkFileError("download.bandwidth: is missing, and so is upload.bandwidth: repeat the test")
    ping = result.find("ping", "latency")
    return Measured(
        source="Ookla's speedtest",
        down=ways[0],
        up=ways[1],
        idle_rtt_s=None if ping is None else ping.number(most=1e6) / 1e3,
        notes=["the loaded times are interquartile means, so the buffers are larger than estimated"]
        if any(way.loaded_rtt_s for way in ways)
        else [],
    )


def _result(content: Content) -> Node:
    """Returns the object with the result, which `--format=jsonl` writes as a line after the progress."""
    for number, line in enumerate(content.lines, start=1):
        node = parse_json(line, f"line {number}: ") if line.strip() else Node(None)
        kind = node.find("type")
        if kind is not None and kind.value == "result":
            return node
    raise LinkFileError("has no object with the type `result`: the test did not finish; repeat it")


FORMAT = Format(
    name="ookla",
    summary="Output of Ookla's `speedtest --format=json`: rates, round-trip times without and under load.",
    recognises=_recognises,
    read=_read,
)
