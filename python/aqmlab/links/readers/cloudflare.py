"""Reads results of Cloudflare's speed test, in two forms.

- The summary of the module @cloudflare/speedtest (`results.getSummary()`): `download` and `upload` in bit/s,
  `latency`, `downLoadedLatency` and `upLoadedLatency` in ms.
- The output of `mach rpm` of networkquality-rs: `unloaded_latency_ms`, and in each of the objects `download`
and
  `upload` the fields `throughput` (bit/s), `loaded_latency_ms` and `rpm`.
"""

from __future__ import annotations

from aqmlab.links.content import Content, LinkFileError, Node
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import Measured, Way

_SUMMARY = {"download": "downLoadedLatency", "upload": "upLoadedLatency"}


def _recognises(content: Content) -> bool:
    top = content.top
    if top is None:
        return False
    return top.has("unloaded_latency_ms") or _is_summary(top)


def _is_summary(top: Node) -> bool:
    rates = (top.find(key) for key in ("download", "upload"))
    return top.has("latency") and any(rate and isinstance(rate.value, int | float) for rate in rates)


def _read(content: Content, options: Options) -> Measured:
    top = content.json
    if top.has("unloaded_latency_ms"):
        ways = {
            key: _way(top.find(key, "throughput"), top.find(key, "loaded_latency_ms")) for key in _SUMMARY
        }
        idle, source = top.find("unloaded_latency_ms"), "Cloudflare's mach (networkquality-rs)"
    else:
        ways = {key: _way(top.find(key), top.find(loaded)) for key, loaded in _SUMMARY.items()}
        idle, source = top.find("latency"), "Cloudflare's speed test"
    if all(way.is_empty for way in ways.values()):
        raise LinkFileError("download: is missing, and so is upload: repeat the speed test")
    return Measured(
        source=source,
        down=ways["download"],
        up=ways["upload"],
        idle_rtt_s=None if idle is None else idle.number(most=1e6) / 1e3,
    )


def _way(rate: Node | None, loaded: Node | None) -> Way:
    if rate is None:
        return Way()
    return Way(
        rate_bps=rate.number() or None,
        loaded_rtt_s=None if loaded is None else loaded.number(most=1e6) / 1e3,
    )


FORMAT = Format(
    name="cloudflare",
    summary="Result of Cloudflare's speed test (summary, or `mach rpm`): rates, round-trip times without "
    "and under load.",
    recognises=_recognises,
    read=_read,
)
