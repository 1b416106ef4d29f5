"""What calls sound like: the E-model, from the delay and the loss of each datagram.

ITU-T G.107, 2015, of whose parameters all that the network does not decide have their default (table 3). The
rating R is 93.2 at best; of it the one-way delay takes `Id`, and the codec with what it loses `Ie,eff`. What
a codec takes is of ITU-T G.113, appendix I, 2007 (loss at random; packets of 10 ms for G.711, of 20 ms else).

R. G. Cole and J. H. Rosenbluth, "Voice over IP Performance Monitoring", Computer Communication Review 31(2),
2001, put two straight lines in the place of `Id`. They are right by one up to 300 ms, and take too much
beyond, where deep buffers are (61 instead of 44 at 600 ms). So `Id` is whole here.

A receiver plays each datagram so long after it was sent as it decided once; what comes later is as good as
lost. It decides for what sounds best, loss weighed against delay: no buffer of a fixed length does better.
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
"""Between the fastest datagram and the slowest, how many moments to play at a receiver chooses from."""

R_0, IMPAIRED_AT_ONCE = 94.769, 1.414
"""`Ro`, the signal over all noise, and `Is`, what comes with the voice (G.107, 7.2 and 7.3)."""

NOISE_DB = -61.179
"""`No`, all noise, in dBm0p (G.107, 7.2)."""
RECEIVE_DB, TALKER_ECHO_DB, LISTENER_ECHO_DB = 2.0, 65.0, 110.0
"""`RLR`, `TELR` and `WEPL`: how loud what is received and its echoes are (G.107, table 3)."""


@dataclass(frozen=True, kw_only=True)
class Codec:
    """What a codec takes from the rating."""

    impairment: float
    """`Ie`: without loss."""
    robustness: float
    """`Bpl`: the loss in per cent, at random, that takes half of what is left."""
    look_ahead_s: float = 0.0
    """What it waits for beyond its frame."""


CODECS = {
    "g711": Codec(impairment=0, robustness=4.3),
    "g711-plc": Codec(impairment=0, robustness=25.1),
    "g729a": Codec(impairment=11, robustness=19.0, look_ahead_s=0.005),
    "gsm-efr": Codec(impairment=5, robustness=10.0),
}
"""By their names in a workload `call`; G.113, tables I.1 and I.4."""


def delay_impairment(delay_s: float) -> float:
    """`Id` of a one-way delay from mouth to ear (G.107, section 7.4, where STMR is between 9 and 20 dB)."""
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
    """`Ie,eff` of a share of datagrams that are lost (G.107, section 7.5)."""
    percent = 100 * loss
    share = percent / (percent / burst_ratio + codec.robustness)
    return codec.impairment + (95 - codec.impairment) * share


def burst_ratio(lost: npt.NDArray[np.bool_]) -> float:
    """`BurstR`: how long runs of losses are, over their length at random; at least 1 (G.107, 7.5)."""
    count = int(np.count_nonzero(lost))
    if count in (0, lost.size):
        return 1.0
    runs = np.count_nonzero(np.diff(lost.astype(np.int8), prepend=np.int8(0)) == 1)
    return max(1.0, float(count / runs) * (1 - count / lost.size))


def impairment(delay_s: float, loss: float, codec: Codec, bursts: float = 1.0) -> float:
    """What a call takes from `Ro` in all."""
    return IMPAIRED_AT_ONCE + delay_impairment(delay_s) + loss_impairment(loss, codec, bursts)


def rating(delay_s: float, loss: float, codec: Codec, bursts: float = 1.0) -> float:
    """`R` of a call, from 0 to 93.2."""
    return max(0.0, R_0 - impairment(delay_s, loss, codec, bursts))


def mos(r: float) -> float:
    """The mean opinion score that a rating stands for, 1 to 4.5 (G.107, annex B)."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


@dataclass(frozen=True, kw_only=True)
class Voice:
    """What one end of a call hears."""

    delay_s: float
    """From mouth to ear."""
    lost: float
    """The share of datagrams that the network lost."""
    late: float
    """The share that came too late to be played."""
    bursts: float
    """`BurstR` of those that were not played."""
    rating: float

    @property
    def mos(self) -> float:
        """Mean opinion score."""
        return mos(self.rating)


def voice(
    delays_s: Floats, codec: Codec, *, frame_s: float, jitter_buffer_s: float | None = None
) -> Voice | None:
    """What is heard of datagrams that took so long, in the order of their sending, NaN for those that were
    lost; each carries `frame_s` of voice. Nothing if none came.

    With a `jitter_buffer_s` all are played so much later than the fastest could be, else as sounds best."""
    lost = np.isnan(delays_s)
    if lost.all():
        return None
    came = delays_s[~lost]
    if jitter_buffer_s is None:
        choices = np.quantile(came, np.linspace(0, 1, CHOICES))
    else:
        choices = came.min(keepdims=True) + jitter_buffer_s
    ahead_s = frame_s + codec.look_ahead_s

    def unheard(played_s: float) -> npt.NDArray[np.bool_]:
        return ~(delays_s <= played_s)

    def taken(played_s: float) -> float:
        missing = unheard(played_s)
        return impairment(ahead_s + played_s, float(missing.mean()), codec, burst_ratio(missing))

    played_s = min((float(one) for one in np.unique(choices)), key=taken)
    missing = unheard(played_s)
    return Voice(
        delay_s=ahead_s + played_s,
        lost=float(lost.mean()),
        late=float((missing & ~lost).mean()),
        bursts=burst_ratio(missing),
        rating=max(0.0, R_0 - taken(played_s)),
    )


# Of the tables of a run


def delays_of(packets: pl.DataFrame, flows: pl.DataFrame, traffic: str, from_s: float) -> dict[int, Floats]:
    """The time (s) that each datagram of a workload took that was sent from a moment on, by flow and in the
    order of sending; NaN for those that a queue dropped. Those under way at the end of the run are left out.

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
    """What each end of the calls of a workload hears, as far as anything came."""
    heard = (voice(one, codec, frame_s=frame_s) for one in delays.values())
    return [one for one in heard if one is not None]


def delay_quantile_s(delays: dict[int, Floats], q: float) -> float:
    """A quantile of the delay of all datagrams that came; NaN without one."""
    came = _came(list(delays.values()))
    return float(np.quantile(came, q)) if came.size else math.nan


def delay_variation_s(delays: dict[int, Floats], q: float) -> float:
    """A quantile of the packet delay variation: how much longer a datagram took than the fastest of its flow
    (RFC 5481, section 4.2); NaN without one."""
    came = _came([one - np.nanmin(one) for one in delays.values() if not np.isnan(one).all()])
    return float(np.quantile(came, q)) if came.size else math.nan


def _came(parts: list[Any]) -> Floats:
    every = np.concatenate(parts) if parts else np.zeros(0)
    return np.asarray(every[~np.isnan(every)], dtype=np.float64)
