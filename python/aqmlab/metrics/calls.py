"""Voice quality of calls by the E-model, from the delay and the loss of each datagram.

The E-model is that of ITU-T G.107, 2015. All parameters that the network does not determine have their
default values (table 3). The maximum of the rating R is 93.2. The one-way delay reduces R by `Id`, and the
codec and the loss reduce R by `Ie,eff`. The values for codecs are from ITU-T G.113, appendix I, 2007 (random
loss; packets of 10 ms for G.711, and of 20 ms for the other codecs).

R. G. Cole and J. H. Rosenbluth, "Voice over IP Performance Monitoring", Computer Communication Review 31(2),
2001, approximate `Id` by two straight lines. Up to 300 ms the error of the approximation is at most 1. For
longer delays, which are typical of deep buffers, the approximation is too large (61 instead of 44 at 600 ms).
This module therefore computes `Id` exactly.

A receiver plays each datagram a fixed time after the datagram was sent. Datagrams that arrive later than this
play-out delay count as lost. The receiver uses the play-out delay with the best rating, which is the best
compromise between loss and delay. No jitter buffer of fixed size achieves a better rating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from aqmlab.metrics.tables import Floats

if TYPE_CHECKING:
    import numpy.typing as npt

CHOICES = 101
"""Number of candidate play-out delays, between the delays of the fastest and the slowest datagram, from which
a receiver selects."""

R_0, IMPAIRED_AT_ONCE = 94.769, 1.414
"""`Ro`, the basic signal-to-noise ratio, and `Is`, the simultaneous impairment (G.107, 7.2 and 7.3)."""

NOISE_DB = -61.179
"""`No`, the total noise, in dBm0p (G.107, 7.2)."""
RECEIVE_DB, TALKER_ECHO_DB, LISTENER_ECHO_DB = 2.0, 65.0, 110.0
"""`RLR`, `TELR` and `WEPL`: receive loudness rating and echo loudness ratings (G.107, table 3)."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """The parameters of a codec that reduce the rating."""

    impairment: float
    """`Ie`, the impairment without loss."""
    robustness: float
    """`Bpl`, the random loss in per cent that halves the remaining rating."""
    look_ahead_s: float = 0.0
    """Look-ahead beyond the frame, in seconds."""


CODECS = {
    "g711": Codec(impairment=0, robustness=4.3),
    "g711-plc": Codec(impairment=0, robustness=25.1),
    "g729a": Codec(impairment=11, robustness=19.0, look_ahead_s=0.005),
    "gsm-efr": Codec(impairment=5, robustness=10.0),
}
"""Codecs by their names in a workload of the kind `call` (G.113, tables I.1 and I.4)."""


def delay_impairment(delay_s: float) -> float:
    """Returns `Id` for a one-way mouth-to-ear delay (G.107, section 7.4, for STMR between 9 and 20 dB)."""
    t = delay_s * 1000
    echo_db = TALKER_ECHO_DB - 40 * math.log10((1 + t / 10) / (1 + t / 150)) + 6 * math.exp(-0.3 * t * t)
    heard = -1.5 * (NOISE_DB - RECEIVE_DB) - (80 + 2.5 * (echo_db - 14))
    talker = (heard / 2 + math.sqrt(heard**2 / 4 + 100) - 1) * -math.expm1(-t)
    heard = R_0 - 10.5 * (LISTENER_ECHO_DB + 7) * (2 * t + 1) ** -0.25
    listener: float = heard / 2 + math.sqrt(heard**2 / 4 + 169)
    if t <= 100:
        return talker + listener
    x = math.log2(t / 100)
    long: float = 25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2)
    return talker + listener + long


def loss_impairment(loss: float, codec: Codec, burst_ratio: float = 1.0) -> float:
    """Returns `Ie,eff` for a share of lost datagrams (G.107, section 7.5)."""
    percent = 100 * loss
    share = percent / (percent / burst_ratio + codec.robustness)
    return codec.impairment + (95 - codec.impairment) * share


def burst_ratio(lost: npt.NDArray[np.bool_]) -> float:
    """Returns `BurstR`, the mean number of consecutive losses divided by the mean number that random loss
    would cause. The result is at least 1 (G.107, 7.5)."""
    count = int(np.count_nonzero(lost))
    if count in (0, lost.size):
        return 1.0
    runs = np.count_nonzero(np.diff(lost.astype(np.int8), prepend=np.int8(0)) == 1)
    return max(1.0, float(count / runs) * (1 - count / lost.size))


def impairment(delay_s: float, loss: float, codec: Codec, bursts: float = 1.0) -> float:
    """Returns the total impairment of a call, which is subtracted from `Ro`."""
    return IMPAIRED_AT_ONCE + delay_impairment(delay_s) + loss_impairment(loss, codec, bursts)


def rating(delay_s: float, loss: float, codec: Codec, bursts: float = 1.0) -> float:
    """Returns the rating `R` of a call, from 0 to 93.2."""
    return max(0.0, R_0 - impairment(delay_s, loss, codec, bursts))


def mos(r: float) -> float:
    """Returns the mean opinion score for a rating, from 1 to 4.5 (G.107, annex B)."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


@dataclass(frozen=True, kw_only=True)
class Voice:
    """The voice quality at one end of a call."""

    delay_s: float
    """Mouth-to-ear delay, in seconds."""
    lost: float
    """Share of datagrams that the network lost."""
    late: float
    """Share of datagrams that arrived too late to be played."""
    bursts: float
    """`BurstR` for the datagrams that were not played."""
    rating: float

    @property
    def mos(self) -> float:
        """Mean opinion score."""
        return mos(self.rating)


def voice(
    delays_s: Floats, codec: Codec, *, frame_s: float, jitter_buffer_s: float | None = None
) -> Voice | None:
    """Returns the voice quality for datagrams with these delays. The delays are in the order of sending, and
    are NaN for lost datagrams. Each datagram contains `frame_s` seconds of voice. Returns `None` if no
    datagram arrived.

    With `jitter_buffer_s`, the play-out delay is the smallest delay plus `jitter_buffer_s`. Otherwise, the
    play-out delay is the delay with the best rating."""
    lost = np.isnan(delays_s)
    if lost.all():
        return None
    arrived = delays_s[~lost]
    if jitter_buffer_s is None:
        choices = np.quantile(arrived, np.linspace(0, 1, CHOICES))
    else:
        choices = arrived.min(keepdims=True) + jitter_buffer_s
    ahead_s = frame_s + codec.look_ahead_s

    def not_played(played_s: float) -> npt.NDArray[np.bool_]:
        return ~(delays_s <= played_s)

    def total_impairment(played_s: float) -> float:
        missing = not_played(played_s)
        return impairment(ahead_s + played_s, float(missing.mean()), codec, burst_ratio(missing))

    played_s = min((float(one) for one in np.unique(choices)), key=total_impairment)
    missing = not_played(played_s)
    return Voice(
        delay_s=ahead_s + played_s,
        lost=float(lost.mean()),
        late=float((missing & ~lost).mean()),
        bursts=burst_ratio(missing),
        rating=max(0.0, R_0 - total_impairment(played_s)),
    )


# Functions of the tables of a run


def delays_of(packets: pl.DataFrame, flows: pl.DataFrame, traffic: str, from_s: float) -> dict[int, Floats]:
    """Returns, by flow, the delay (s) of each datagram of a workload that was sent at `from_s` or later, in
    the order in which the datagrams were sent. The delay is NaN for datagrams that a queue dropped. Datagrams
    in flight at the end of the run are omitted.

    The workload must be in `record.histories`.
    """
    ours = flows.filter(pl.col("traffic") == traffic).select("flow")
    rows = packets.join(ours, on="flow", how="semi").with_columns(pl.col("event").cast(pl.String))
    key = ["flow", "sequence_bytes"]
    sent = rows.filter(pl.col("event") == "send").select(*key, sent_s="time_s")
    received = rows.filter(pl.col("event") == "receive").select(*key, received_s="time_s")
    dropped = rows.filter(pl.col("event") == "drop").select(*key, dropped=True).unique()
    found = (
        sent.filter(pl.col("sent_s") >= from_s)
        .join(received, on=key, how="left")
        .join(dropped, on=key, how="left")
        .filter(pl.col("received_s").is_not_null() | pl.col("dropped"))
        .sort(key)
        .with_columns(took_s=(pl.col("received_s") - pl.col("sent_s")).fill_null(math.nan))
    )
    by_flow = found.group_by("flow", maintain_order=True)
    return {int(flow): part["took_s"].to_numpy().astype(np.float64) for (flow,), part in by_flow}


def voices(delays: dict[int, Floats], codec: Codec, frame_s: float) -> list[Voice]:
    """Returns the voice quality at each end of a workload's calls. An end at which no datagram arrived is
    omitted."""
    heard = (voice(one, codec, frame_s=frame_s) for one in delays.values())
    return [one for one in heard if one is not None]


def delay_quantile_s(delays: dict[int, Floats], q: float) -> float:
    """Returns a quantile of the delay of all datagrams that arrived, or NaN if no datagram arrived."""
    arrived = _arrived(list(delays.values()))
    return float(np.quantile(arrived, q)) if arrived.size else math.nan


def delay_variation_s(delays: dict[int, Floats], q: float) -> float:
    """Returns a quantile of the packet delay variation, which is a datagram's delay minus the smallest delay
    of the datagram's flow (RFC 5481, section 4.2). Returns NaN if no datagram arrived."""
    arrived = _arrived([one - np.nanmin(one) for one in delays.values() if not np.isnan(one).all()])
    return float(np.quantile(arrived, q)) if arrived.size else math.nan


def late_share(delays: dict[int, Floats], deadline_s: float) -> float | None:
    """Returns the share of datagrams that did not arrive within `deadline_s` seconds. Lost datagrams are
    included. Returns `None` if no datagram was sent."""
    every = np.concatenate(list(delays.values())) if delays else np.zeros(0)
    return float(1 - (every <= deadline_s).mean()) if every.size else None


def _arrived(parts: list[Any]) -> Floats:
    every = np.concatenate(parts) if parts else np.zeros(0)
    return np.asarray(every[~np.isnan(every)], dtype=np.float64)
