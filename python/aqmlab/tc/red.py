"""The parameters of RED queues from the values that the kernel stores.

`tc` converts `burst` to the weight of the average (`ewma`), and `avpkt` and `bandwidth` to the length of a
cell of idle time (`Scell_log`). The functions here find arguments that `tc` converts to the same values
(`tc_red.c` of iproute2 6.1)."""

from __future__ import annotations

import math
from typing import Any

from aqmlab.tc.options import Options, rate, size

AVPKT = 1000
"""Average packet size in bytes that is assumed, because `tc` does not print this argument."""

_MOST_BURST = 10_000_000
_STATISTICS = (
    *("marked", "early", "pdrop", "other", "qave", "packets", "bytes", "backlog", "forced_drop", "prob_drop"),
    *("forced_mark", "prob_mark", "prob_mark_head", "forced_mark_head"),
)

_MISSING = "is not in the output, so the default applies; add -d to the command of tc"


def flags(options: Options) -> dict[str, Any]:
    """Returns the flags that all RED queues have."""
    ecn = options.flag("ecn")
    return {"ecn": ecn} | ({"harddrop": True} if options.flag("harddrop") and ecn else {})


def curve(options: Options, thresholds: tuple[int, int], unit: int, link: int) -> dict[str, Any]:
    """Returns `probability`, `burst` and, if necessary, `bandwidth`. `unit` is the number of bytes of one
    unit of the thresholds, and `link` is the rate of the link in bytes per second."""
    low, high = thresholds
    options.skip(*_STATISTICS)
    found: dict[str, Any] = {}
    if options.has("probability"):
        found["probability"] = options.number("probability")
    elif options.has("Plog"):
        log = options.count("Plog", most=31)
        found["probability"] = max(high - low, 0) * unit / 2**log
    else:
        options.document.notes.append(f"{options.at}: probability {_MISSING}")
    if not options.has("ewma"):
        options.document.notes.append(f"{options.at}: ewma {_MISSING}")
        options.skip("Scell_log")
        return found
    weight = options.count("ewma", most=31)
    burst = burst_of(weight, low * unit)
    automatic = (2 * low + high) * unit // (3 * AVPKT)
    if burst is None:
        at = f"{options.at}.ewma"
        options.document.notes.append(f"{at}: no burst results in {weight}, so the default applies")
    elif weight_of(automatic, low * unit) != weight:
        found["burst"] = burst
    if options.has("Scell_log"):
        cell = options.count("Scell_log", most=31)
        found |= _bandwidth(weight, cell, link)
    return found


def weight_of(burst: int, low: int) -> int | None:
    """Returns the weight, as a negative binary logarithm, that `tc` computes for a burst of packets and a
    lower threshold in bytes; `None` if `tc` rejects the burst."""
    room = burst + 1 - low / AVPKT
    if room < 1:
        return None
    for log in range(1, 32):
        weight = 2.0**-log
        if room <= (1 - (1 - weight) ** burst) / weight:
            return log
    return None


def burst_of(weight: int, low: int) -> int | None:
    """Returns the smallest burst for which `tc` computes this weight; `None` if no burst has this weight."""
    least, most = max(math.ceil(low / AVPKT), 1), _MOST_BURST
    first = least
    # The weight does not fall as the burst grows.
    while least < most:
        middle = (least + most) // 2
        if (weight_of(middle, low) or 32) >= weight:
            most = middle
        else:
            least = middle + 1
    return least if first <= _MOST_BURST and weight_of(least, low) == weight else None


def cell_of(weight: int, bytes_per_second: int) -> int | None:
    """Returns the binary logarithm of a cell of idle time at this rate; `None` if `tc` rejects the rate."""
    micros = AVPKT * 1_000_000 // bytes_per_second if bytes_per_second else 0
    ticks = micros * 125 // 8
    if not ticks or not weight:
        return None
    decay = -math.log1p(-(2.0**-weight)) / ticks
    return next((log for log in range(32) if 31 / decay / 2**log < 512), None)


def _bandwidth(weight: int, cell: int, link: int) -> dict[str, Any]:
    """Returns a `bandwidth` with this cell, unless the rate of the link has this cell."""
    if cell_of(weight, link) == cell:
        return {}
    # The length of a cell is inversely proportional to the rate, apart from rounding.
    for bits in range(10, 34):
        for start in (8, 10, 12):
            if cell_of(weight, start << bits >> 3) == cell:
                return {"bandwidth": rate(start << bits >> 3)}
    return {}


def size_pair(thresholds: tuple[int, int]) -> dict[str, Any]:
    """Returns thresholds in bytes."""
    return {"min": size(thresholds[0]), "max": size(thresholds[1])}
