"""Reads the output of macOS's `networkQuality -c`.

Field names from outputs of macOS 12 to 27: `dl_throughput` and `ul_throughput` in bit/s, `base_rtt` in ms,
`responsiveness` (or, after a sequential test, `dl_responsiveness` and `ul_responsiveness`) in round trips
per minute, `error_code` and `error_domain` if the test failed. Times of probes: `lud_foreign_h2_req_resp` and
`lud_self_h2_req_resp`, in ms.
"""

from __future__ import annotations

from aqmlab.links.content import Content, LinkFileError, Node
from aqmlab.links.format import Format, Options
from aqmlab.links.measured import HALF, Measured, Way

LEAST_RPM = 0.06
"""Lowest value that is used: one round trip in 1000 s."""


def _recognises(content: Content) -> bool:
    top = content.top
    return top is not None and (
        top.has("dl_throughput") or top.has("ul_throughput") or top.has("error_domain", "os_version")
    )


def _read(content: Content, options: Options) -> Measured:
    top = content.json
    failed = top.find("error_code")
    if failed is not None:
        raise failed.error(
            f"the test failed with the error {failed.number(least=-1e9):g}: repeat `networkQuality -c`"
        )
    down, up = (_way(top, prefix) for prefix in ("dl", "ul"))
    if down.is_empty and up.is_empty:
        raise LinkFileError("dl_throughput: is missing, and so is ul_throughput: repeat `networkQuality -c`")
    base = top.find("base_rtt")
    notes = []
    if base is None:
        notes.append("base_rtt is missing (macOS 12 does not write it): the round trip is unknown")
    if top.find("responsiveness") and not top.find("dl_responsiveness"):
        notes.append(
            "both directions were under load at once, so each buffer is estimated from half of the increase "
            "of the round-trip time: `networkQuality -s -c` measures the directions one after the other"
        )
    return Measured(
        source="networkQuality (macOS)",
        down=down,
        up=up,
        idle_rtt_s=None if base is None else base.number(most=1e6) / 1e3,
        notes=notes,
    )


def _way(top: Node, prefix: str) -> Way:
    rate = top.find(f"{prefix}_throughput")
    if rate is None:
        return Way()
    own, both = top.find(f"{prefix}_responsiveness"), top.find("responsiveness")
    rpm = own or both
    loaded = None if rpm is None else 60 / rpm.number(least=LEAST_RPM)
    return Way(rate_bps=rate.number() or None, loaded_rtt_s=loaded, share=HALF if own is None else 1.0)


FORMAT = Format(
    name="networkquality",
    summary="Output of macOS's `networkQuality -c`: rates, round-trip times without and under load.",
    recognises=_recognises,
    read=_read,
)
