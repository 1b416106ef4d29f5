"""Loss and transmission time (Fig 1): transfers with random losses, compared with a round-by-round model.

The model simulates the parts of N. Cardwell, S. Savage, T. Anderson, "Modeling TCP Latency", 2000, round by
round with random numbers from a fixed seed. The study's page lists the assumptions of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from aqmlab.measures import Measure
from aqmlab.results.rule import every, mean_of, ratio
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.mice_elephants.measures import PACKET, TRANSFER_SIZES, TRANSFER_TIME, VARIATION
from aqmlab.studies.mice_elephants.network import TCP
from aqmlab.studies.shared import constant
from aqmlab.study import Experiment, Figure
from aqmlab.study.charts import Line, line
from aqmlab.study.publication import Part, our_reading
from aqmlab.study.query import formula, joined, stacked
from aqmlab.sweep import Changes

RTT_S, INITIAL_RTO_S, INITIAL_WINDOW, LARGEST_WINDOW = 0.1, 3.0, 2, 128
LEAST_TIME_OUT_S = 1.0
"""Minimum RTO, applied after the back-off as in ns-2: the first consecutive timeouts have equal length."""


class Latency(NamedTuple):
    """Mean and coefficient of variation of the transmission time."""

    mean_s: float
    variation: float


@lru_cache(maxsize=256)
def latency(
    packets: int, loss: float, *, time_out_s: float = 0.3, transfers: int = 4000, seed: int = 1
) -> Latency:
    """The latency of transfers of `packets` packets at this loss rate, from the first SYN to the arrival of
    the last packet, by simulating `transfers` transfers. `time_out_s` is the RTO from round-trip samples, in
    ticks of 100 ms."""
    rng = np.random.default_rng([seed, packets, round(loss * 1e6)])

    def losses_in_a_row() -> npt.NDArray[np.float64]:
        return (rng.geometric(1.0 - loss, transfers) - 1).astype(np.float64)

    syn_losses = losses_in_a_row()
    back_off = np.exp2(syn_losses)
    time = RTT_S + INITIAL_RTO_S * (back_off - 1.0)
    left, window = np.full(transfers, float(packets)), np.full(transfers, float(INITIAL_WINDOW))
    threshold = np.where(syn_losses > 0, 2.0, float(LARGEST_WINDOW))
    # A retransmitted SYN yields no sample, so its back-off stays in effect until data yields one.
    time_out = np.where(syn_losses > 0, INITIAL_RTO_S * back_off, time_out_s)
    while (left > 0).any():
        busy, sent = left > 0, np.minimum(np.floor(window), left)
        lost = rng.binomial(sent.astype(np.int64), loss).astype(np.float64)
        # Position of the first of `lost` packets among `sent`.
        share = 1.0 - rng.random(sent.size) ** (1.0 / np.maximum(lost, 1.0))
        before = np.floor(share * (sent - lost + 1))
        behind = sent - lost - before + np.minimum(before, left - sent)
        left -= sent - lost
        clean, fast = busy & (lost == 0), busy & (lost > 0) & (behind >= 3)
        # All packets of a window arrived: slow start, or congestion avoidance.
        larger = np.where(window < threshold, np.minimum(window + sent, threshold), window + 1.0)
        window[clean] = np.minimum(larger, LARGEST_WINDOW)[clean]
        time[clean] += RTT_S
        time_out[clean] = time_out_s
        # Fast recovery: one round to detect the losses, then one for each hole.
        again = rng.binomial(lost.astype(np.int64), loss)
        half = np.maximum(np.floor(window / 2), 2.0)
        other_packets = np.maximum(half - lost, 0.0) * (1.0 - loss)
        time[fast] += RTT_S * (1.0 + np.where(again == 0, lost, 1.0))[fast]
        left[fast] -= np.minimum(lost - again + other_packets, left - again)[fast]
        left[fast] = np.ceil(left[fast])
        threshold[fast] = window[fast] = half[fast]
        # Consecutive timeouts until the retransmitted packet arrives, then slow start.
        waits = (fast & (again > 0)) | (busy & (lost > 0) & ~fast)
        runs, waited = losses_in_a_row(), np.zeros(transfers)
        for attempt in range(int(runs[waits].max(initial=-1.0)) + 1):
            backed_off = np.maximum(time_out * 2.0**attempt, LEAST_TIME_OUT_S)
            waited += np.where(runs >= attempt, backed_off, 0.0)
        time[waits] += (waited + RTT_S)[waits]
        left[waits] -= 1.0
        threshold[waits] = np.where(runs > 0, 2.0, np.maximum(np.floor(sent / 2), 2.0))[waits]
        window[waits] = 2.0
    times = time - RTT_S / 2
    return Latency(float(times.mean()), float(times.std() / times.mean()))


LOSSES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15)
UP_TO_A_FEW_PERCENT, FROM_A_FEW_PERCENT = LOSSES[:4], LOSSES[3:]

_LOSSY = {"kind": "drop-random", "probability": LOSSES[0], "limit": "1000000p"}
_TRANSFERS = {"kind": "ftp", "flows": 200, "stagger": "10s"}

random_loss = Experiment(
    "random-loss",
    "Random loss",
    {
        "duration": "3000s",
        "warm_up": "0s",
        "bottleneck": {"rate": "1Gbps", "delay": "48ms", "queue": _LOSSY},
        "access": {"rate": "1Gbps", "delay": "1ms"},
        "tcp": TCP,
        "traffic": {str(size): {**_TRANSFERS, "sizes": constant(size * PACKET)} for size in TRANSFER_SIZES},
        "record": {"drops": False, "queue_every": "0s"},
    },
    {"loss": Changes({loss: {"bottleneck.queue.probability": loss} for loss in LOSSES})},
    (*TRANSFER_TIME.values(), *VARIATION.values()),
)
"""Transfers of three sizes that never compete."""


def _growth(size: int, losses: Sequence[float]) -> Variable:
    """The growth of the mean time of flows of a size per percentage point of loss, within this range of loss
    rates."""
    measure = TRANSFER_TIME[size]
    slope = random_loss[measure].among(loss=losses).slope("loss", 0.01)
    span = f"from {100 * losses[0]:g} to {100 * losses[-1]:g} % of loss"
    return per_seed(
        f"growth of the {measure.title} per percent of loss, {100 * losses[0]:g} to {100 * losses[-1]:g} %",
        float,
        slope,
        unit=measure.unit,
        key=f"{measure.title}, growth per percent {span}",
    )


def _with_model(found: Mapping[int, Measure], column: int, **options: Any) -> Line:
    ours = stacked("size", {f"{size} packets": random_loss[measure] for size, measure in found.items()})
    model = formula(lambda size, loss: latency(size, loss)[column], size=list(found), loss=LOSSES)
    in_percent = joined(ours, model.relabelled(size="{}, model".format)).relabelled(
        loss=lambda loss: 100 * loss
    )
    return line(in_percent, x="loss", by="size", x_label="packets lost at random (%)", **options)


PARTS: tuple[Part, ...] = (
    random_loss,
    our_reading(
        "MI-4.2",
        "The coefficient of variation of short flows' times rises with the loss rate, and mean times rise "
        "steeply beyond a loss of a few percent.",
        every(
            mean_of(random_loss[VARIATION[10]].slope("loss", 0.01)) > 0,
            ratio(_growth(10, FROM_A_FEW_PERCENT), _growth(10, UP_TO_A_FEW_PERCENT)) > 1,
            ratio(_growth(100, FROM_A_FEW_PERCENT), _growth(100, UP_TO_A_FEW_PERCENT)) > 1,
        ),
        "figure 1; it is aqmlab's choice that “steeply” means more steeply than at losses of up to 3 %",
        ("1b", "1a"),
    ),
    Figure(
        "1a",
        "Transmission time against loss",
        _with_model(TRANSFER_TIME, 0, y_label="mean transmission time (s)", log_y=True),
        "NewReno on a link with random losses: round trip 100 ms, initial RTO 3 s, 2000 transfers of each "
        "size; compared with a round model in the manner of Cardwell, Savage and Anderson.",
    ),
    Figure(
        "1b",
        "Coefficient of variation of the transmission time",
        _with_model(VARIATION, 1, y_label="coefficient of variation"),
    ),
)
