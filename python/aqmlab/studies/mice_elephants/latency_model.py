"""How long a TCP transfer takes when each packet is lost at random: mean and spread from a round model.

N. Cardwell, S. Savage, T. Anderson, "Modeling TCP Latency", 2000, gives the mean in closed form. Its parts
(connection set-up with back-off, slow start, a first loss repaired by retransmission or time-out,
congestion avoidance with further losses) are here played round by round with random numbers of a fixed
seed, because the closed form has no variance.

Ours: a round lasts one round-trip time whatever the window; acknowledgements are not lost; NewReno
repairs one hole a round; a retransmission that is lost costs a time-out. No event-driven code of the
laboratory is used, so agreement says something; but both apply the least time-out as ns-2 of 2001 did, and
of that agreement says nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

TRANSFERS = 4000
"""Transfers played for each point."""

_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Path:
    """What the model knows of the network and the sender."""

    rtt_s: float = 0.1
    initial_rto_s: float = 3.0
    time_out_s: float = 0.3
    """The time-out that round-trip samples give, in ticks of 100 ms."""
    least_time_out_s: float = 1.0
    """Applied after the back-off, as ns-2 did: the first time-outs in a row all last as long."""
    initial_window: int = 2
    largest_window: int = 128


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Mean and coefficient of variation of the transmission time."""

    mean_s: float
    variation: float


@lru_cache(maxsize=256)
def latency(packets: int, loss: float, path: Path, *, transfers: int = TRANSFERS, seed: int = 1) -> Latency:
    """The latency of transfers of so many packets at this loss rate, by playing `transfers` of them, each
    from the first SYN to the arrival of the last packet."""
    rng = np.random.default_rng([seed, packets, round(loss * 1e6)])
    syn_losses = _losses_in_a_row(rng, loss, transfers)
    back_off = np.exp2(syn_losses)
    state = _Senders(
        rng=rng,
        loss=loss,
        path=path,
        time=path.rtt_s + path.initial_rto_s * (back_off - 1.0),
        left=np.full(transfers, float(packets)),
        window=np.full(transfers, float(path.initial_window)),
        threshold=np.where(syn_losses > 0, 2.0, float(path.largest_window)),
        # A SYN that was sent again gives no sample: its back-off stays until data gives one.
        time_out=np.where(syn_losses > 0, path.initial_rto_s * back_off, path.time_out_s),
    )
    while (state.left > 0).any():
        state.round()
    times = state.time - path.rtt_s / 2
    return Latency(mean_s=float(times.mean()), variation=float(times.std() / times.mean()))


@dataclass(kw_only=True)
class _Senders:
    """Many senders, each on a path of its own, a round at a time."""

    rng: np.random.Generator
    loss: float
    path: Path
    time: _Numbers
    left: _Numbers
    window: _Numbers
    threshold: _Numbers
    time_out: _Numbers

    def round(self) -> None:
        busy = self.left > 0
        sent = np.minimum(np.floor(self.window), self.left)
        lost = self.rng.binomial(sent.astype(np.int64), self.loss).astype(np.float64)
        # The first of `lost` places drawn from `sent`.
        share = 1.0 - self.rng.random(sent.size) ** (1.0 / np.maximum(lost, 1.0))
        before = np.floor(share * (sent - lost + 1))
        behind = sent - lost - before + np.minimum(before, self.left - sent)
        self.left -= sent - lost
        clean = busy & (lost == 0)
        fast = busy & (lost > 0) & (behind >= 3)
        self._grow(clean, sent)
        timed_out = self._repair(fast, lost)
        self._wait(timed_out | (busy & (lost > 0) & ~fast), sent)

    def _grow(self, who: _Flags, sent: _Numbers) -> None:
        slow = self.window < self.threshold
        larger = np.where(slow, np.minimum(self.window + sent, self.threshold), self.window + 1.0)
        self.window[who] = np.minimum(larger, self.path.largest_window)[who]
        self.time[who] += self.path.rtt_s
        self.time_out[who] = self.path.time_out_s

    def _repair(self, who: _Flags, lost: _Numbers) -> _Flags:
        """Fast recovery: a round for the losses to show, then one for each hole; who fails in it."""
        again = self.rng.binomial(lost.astype(np.int64), self.loss)
        half = np.maximum(np.floor(self.window / 2), 2.0)
        beside = np.maximum(half - lost, 0.0) * (1.0 - self.loss)
        self.time[who] += self.path.rtt_s * (1.0 + np.where(again == 0, lost, 1.0))[who]
        self.left[who] -= np.minimum(lost - again + beside, self.left - again)[who]
        self.left[who] = np.ceil(self.left[who])
        self.threshold[who] = half[who]
        self.window[who] = half[who]
        return who & (again > 0)

    def _wait(self, who: _Flags, sent: _Numbers) -> None:
        """Time-outs in a row until the packet that is sent again arrives, and then slow start."""
        runs = _losses_in_a_row(self.rng, self.loss, who.size)
        waited = np.zeros(who.size)
        for attempt in range(int(runs[who].max(initial=-1.0)) + 1):
            backed_off = np.maximum(self.time_out * 2.0**attempt, self.path.least_time_out_s)
            waited += np.where(runs >= attempt, backed_off, 0.0)
        self.time[who] += (waited + self.path.rtt_s)[who]
        self.left[who] -= 1.0
        self.threshold[who] = np.where(runs > 0, 2.0, np.maximum(np.floor(sent / 2), 2.0))[who]
        self.window[who] = 2.0


def _losses_in_a_row(rng: np.random.Generator, loss: float, count: int) -> _Numbers:
    return (rng.geometric(1.0 - loss, count) - 1).astype(np.float64)
