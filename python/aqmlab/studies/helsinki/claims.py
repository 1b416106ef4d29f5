"""The claims of the study `helsinki`, each with its rule, and the answer in words.

Forms `d` were written when it was known at which starts the kernel shows what the talk tells. Replaced rules
stand in `data/rules.json`, with reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from aqmlab import stats
from aqmlab.results.rule import AnyRule, Estimate, anywhere, difference, every, mean_of, ratio, statistic
from aqmlab.results.variable import Variable, per_seed
from aqmlab.stats import Interval
from aqmlab.studies.helsinki import measures, recorded
from aqmlab.studies.helsinki.experiments import (
    BYTES,
    INITIAL_BYTES,
    ONE_CLASS,
    PACKETS,
    RED,
    SYSTEMS,
    TAIL_DROP,
    THIRD_BYTES,
    TWO_CLASSES,
    burst,
    third,
)
from aqmlab.studies.helsinki.numbers import at_plotted_starts, numbers_of
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Reading, Verdicts

RED_TO_TAIL_DROP = (RED, TAIL_DROP)
TAIL_DROP_TO_RED = (TAIL_DROP, RED)

DATA_SHARE = THIRD_BYTES / (THIRD_BYTES + 2 * INITIAL_BYTES)

LEAST_LOST = 1.5
MOST_BYTES = 1 / 6
"""Half of the third flow's fair share."""

# Ratios of what spreads: replications are drawn again and again

Values = npt.NDArray[np.float64]
OfStarts = Callable[[Values], Values]
"""From values by start, resample and replication to one for each resample."""


def _table(values: Sequence[Any]) -> Values:
    """The values by start and seed; a seed without a run has none."""
    starts = max(len(of_seed) for of_seed in values)
    return np.array([of_seed or [math.nan] * starts for of_seed in values], dtype=float).T


def _ratio_of(
    how: str,
    variable: Variable,
    queue: tuple[str, str],
    of_starts: OfStarts,
    of_resamples: OfStarts | None = None,
) -> Estimate:
    """The ratio of a statistic of all starts and replications at two queues; of resamples there may be
    another."""

    def finds(values: Sequence[Sequence[Any]], level: float) -> Interval:
        both = np.stack([_table(one) for one in values])
        both = both[..., ~np.isnan(both).any(axis=(0, 1))]

        def ratios(picked: npt.NDArray[np.int64], of: OfStarts = of_resamples or of_starts) -> Values:
            above, below = (of(one[:, picked]) for one in both)
            return np.asarray(np.divide(above, below, out=np.full(above.shape, np.inf), where=below > 0))

        count = both.shape[-1]
        found = stats.bootstrap(ratios, count, level)
        if not count:
            return found
        return replace(found, value=float(ratios(np.arange(count)[np.newaxis], of_starts)[0]))

    ours, theirs = (variable.at(queue=one).along("start") for one in queue)
    return statistic(f"{how} {variable.name}, {'/'.join(queue)}", finds, ours, theirs)


def _spread(values: Values, noises: int = 1) -> Values:
    """The standard deviation over the starts of what is expected there: of the variance of the means, which
    holds the noise of the replications too, that noise is taken off; zero if nothing is left.

    What replications share at all starts is no noise of a spread, and is taken off first.
    """
    count = values.shape[-1]
    apart = values - values.mean(axis=0)
    means = apart.mean(axis=-1)
    noise = ((apart - means[..., np.newaxis]) ** 2).sum(axis=-1) / max(count - 1, 1) / count
    return np.asarray(np.sqrt(np.maximum((means**2 - noises * noise).mean(axis=0), 0)))


def _spread_ratio(variable: Variable) -> Estimate:
    """RED's spread over the starts over Tail Drop's. A resample holds the noise twice: that of the sample,
    and that of drawing from it."""
    how = "spread over the starts, without the noise of the replications,"
    return _ratio_of(how, variable, RED_TO_TAIL_DROP, _spread, partial(_spread, noises=2))


def _between(low: float, high: float) -> OfStarts:
    """The distance of two quantiles of the replications, averaged over the starts."""

    def of_starts(values: Values) -> Values:
        least, most = np.quantile(values, [low, high], axis=-1)
        return np.asarray((most - least).mean(axis=0))

    return of_starts


def _pooled(of_starts: OfStarts) -> OfStarts:
    """The statistic of the runs of all starts together."""

    def of_all(values: Values) -> Values:
        starts, resamples, replications = values.shape
        together = values.transpose(1, 0, 2).reshape(1, resamples, starts * replications)
        return of_starts(together)

    return of_all


def _proportion(third: float, fastest: float, slowest: float) -> float | None:
    every = third + fastest + slowest
    return third / every / DATA_SHARE if every else None


# Claims


def claims_of(third: Experiment, burst: Experiment) -> tuple[Claim, ...]:
    """The sentences of the talk, on the runs of two experiments."""
    of_third = at_plotted_starts(third)
    elapsed, handshake = of_third[measures.ELAPSED], of_third[measures.HANDSHAKE]
    lost, others_lost, taken = (of_third[one].at(queue=TAIL_DROP) for one in measures.WHILE_ACTIVE[:3])
    fast, slow = (of_third[one].averaged("start") for one in (measures.FASTEST, measures.SLOWEST))
    proportion = per_seed(
        "share of retransmissions over share of data",
        _proportion,
        *(of_third[measures.SENT_AGAIN[flow]].averaged("start") for flow in reversed(measures.SENT_AGAIN)),
    )
    initial = per_seed("initial flows' elapsed time", lambda a, b: (a + b) / 2, fast, slow, unit="s")
    apart = per_seed("slowest - fastest initial flow", lambda a, b: b - a, fast, slow, unit="s")
    received, tcp = (burst[one] for one in measures.RECORDED_WITH_UDP)

    def doubled(elapsed: Variable) -> AnyRule:
        return ratio(elapsed, queue=TAIL_DROP_TO_RED) >= 1.5

    def varies(how: str, of: Callable[[OfStarts], OfStarts]) -> AnyRule:
        return every(
            *(
                _ratio_of(f"{name} {how},", elapsed, TAIL_DROP_TO_RED, of(_between(*ends))) > 1
                for name, ends in (("interquartile range", (0.25, 0.75)), ("range", (0.0, 1.0)))
            )
        )

    locked_out = every(ratio(lost, others_lost) >= LEAST_LOST, mean_of(taken) <= MOST_BYTES)

    def alike(compared: Callable[[Variable], Estimate]) -> AnyRule:
        of_received, of_tcp = (compared(one.averaged("start")) for one in (received, tcp))
        return every(of_received.within(0.9, 1.1), of_tcp.within(0.95, 1.05))

    return (
        Claim(
            id="RI-1.2",
            statement="“Stable results and improved performance when RED is employed”: the third flow's mean "
            "elapsed time hardly depends on its start, with Tail Drop it does.",
            source="slide 11; that hardly is at most half as much is ours",
            figures=("elapsed",),
            rule=_spread_ratio(elapsed) <= 0.5,
        ),
        Claim(
            id="RI-2",
            statement="“Tail Drop, scenario after 2 seconds: the elapsed time doubles the RED's one!”",
            source="slide 11; that 1.5 times is nearer to twice than to once is ours",
            figures=("elapsed",),
            rule=doubled(elapsed.at(start=2)),
        ),
        Claim(
            id="RI-2d.2",
            statement="Tail Drop's elapsed time doubles RED's at some start: which one depends on the delay, "
            "which is not told.",
            source="slide 11",
            origin="ours",
            figures=("elapsed",),
            rule=anywhere(doubled(elapsed)),
        ),
        Claim(
            id="RI-3",
            statement="Over replications the third flow's elapsed time has a “wide variation range” with "
            "Tail Drop, and a “limited variation range” with RED: here between starts within 100 ms, which "
            "are our decision, as the talk does not say what its replications differ in.",
            source="slide 12",
            origin="ours",
            figures=("boxes-linux-2.4", "boxes-linux-6"),
            rule=varies("at each start, mean of the starts", lambda found: found),
        ),
        Claim(
            id="RI-3d",
            statement="Over replications and starts together the third flow's elapsed time varies more with "
            "Tail Drop than with RED.",
            source="slide 12",
            origin="ours",
            figures=("boxes-linux-2.4", "boxes-linux-6"),
            rule=varies("of the runs of all starts", _pooled),
        ),
        Claim(
            id="RI-4.2",
            statement="With Tail Drop the third flow's handshake takes seconds, as its SYN is lost; with RED "
            "it is short.",
            source="slide 11, axis of the handshake",
            origin="sheet",
            figures=("handshake",),
            rule=every(
                anywhere(mean_of(handshake.at(queue=TAIL_DROP)) >= 2), mean_of(handshake.at(queue=RED)) <= 2
            ),
        ),
        Claim(
            id="RI-5",
            statement="Tail Drop, example from the scenario after 2 seconds: “the initial flows monopolize "
            "most of the bandwidth (phenomenon of Lock-Out)”.",
            source="slide 13; that the third loses 1.5 times their share and gets half of its own is ours",
            figures=("while-active", "lock-out"),
            rule=locked_out.at({"start": 2}),
        ),
        Claim(
            id="RI-5d.2",
            statement="With Tail Drop the initial flows lock the third out at some start.",
            source="slide 13",
            origin="ours",
            figures=("while-active", "lock-out"),
            rule=anywhere(locked_out),
        ),
        Claim(
            id="RI-6",
            statement="“RED drops packets in proportion to the amount of bandwidth the flow uses on the "
            "output link”; Tail Drop does not.",
            source="slide 14; the band is ours",
            figures=("retransmitted-linux-2.4", "retransmitted-linux-6"),
            rule=every(
                mean_of(proportion.at(queue=RED)).within(0.5, 2),
                ratio(proportion, queue=RED_TO_TAIL_DROP) < 1,
            ),
        ),
        Claim(
            id="RI-7",
            statement="With RED the initial flows pay a little, and are closer together.",
            source="slide 14, both figures of elapsed times; the band is ours",
            origin="sheet",
            figures=("flows-linux-2.4", "flows-linux-6"),
            rule=every(
                ratio(initial, queue=RED_TO_TAIL_DROP).within(1, 1.1),
                difference(apart, queue=RED_TO_TAIL_DROP) < 0,
            ),
        ),
        Claim(
            id="RI-8.2",
            statement="One service class, “Tail Drop: unstable results for both TCP and UDP traffic”; with "
            "RED what they get hardly depends on the start of UDP.",
            source="slides 15 and 16; that hardly is at most half as much is ours",
            figures=("datagrams", "tcp-beside-udp"),
            rule=every(*(_spread_ratio(one.at(service=ONE_CLASS)) <= 0.5 for one in (received, tcp))),
        ),
        Claim(
            id="RI-9",
            statement="One service class, “RED: performance close to the results with 2 service classes”.",
            source="slide 15; the bands are ours",
            figures=("datagrams", "tcp-beside-udp"),
            rule=alike(lambda one: ratio(one.at(queue=RED, unit=BYTES), service=(ONE_CLASS, TWO_CLASSES))),
        ),
        Claim(
            id="RI-10",
            statement="Two service classes: “Tail Drop and RED achieve the same performance”.",
            source="slide 15; the bands are ours",
            figures=("datagrams", "tcp-beside-udp"),
            rule=alike(lambda one: ratio(one.at(service=TWO_CLASSES), queue=TAIL_DROP_TO_RED)),
        ),
    )


CLAIMS = (*claims_of(third, burst), *numbers_of(third, burst))

NOT_OF_THE_KERNEL = {
    "RI-5": "of lock-out the kernel's means are known, without their replications",
    **dict.fromkeys(
        ("RI-2d.2", "RI-3d", "RI-5d.2"), "written when it was known at which starts the kernel shows it"
    ),
}
"""Claims that are not judged of recorded runs."""

UNITS = {BYTES: "", PACKETS: "p"}


def _readings(systems: Mapping[str, str], suffix: str, **more: Any) -> tuple[Reading, ...]:
    return tuple(
        Reading(
            name=f"{name}, {unit}",
            labels={"system": system, "unit": unit},
            suffix=f"{in_packets}{'-6' if system == 'linux-6' else ''}{suffix}",
            **more,
        )
        for name, system in systems.items()
        for unit, in_packets in UNITS.items()
    )


OURS = _readings({system: system for system in SYSTEMS}, "")
THEIRS = _readings(recorded.BESIDE, "-rec", runs=recorded.in_place, leaves_out=NOT_OF_THE_KERNEL)
READINGS = (*OURS, *THEIRS)

# The answer

_QUESTIONS = (
    {"RI-1.2": "Is RED stable where Tail Drop depends on the moment?"},
    {"RI-2": "Does Tail Drop double the third flow's time at 2 s?", "RI-2d.2": "At some start?"},
    {"RI-5d.2": "Do two early flows lock the third out at some start?"},
    {"RI-4.2": "Does Tail Drop lose the SYN where RED does not?"},
    {"RI-8.2": "With one class, does it depend on the start what UDP and TCP get, but not with RED?"},
    {
        "RI-9": "Is RED with one class close to two classes?",
        "RI-10": "Are Tail Drop and RED alike there?",
    },
)


def answers(told: Callable[[str], str], but: str = "") -> list[str]:
    """The questions of the talk, but that of one claim, each with what is told of its claim by id."""
    return [
        " ".join(f"{question} {told(id)} ({id})." for id, question in together.items())
        for together in _QUESTIONS
        if but not in together
    ]


_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def answer(found: Verdicts) -> list[str]:
    """Does RED serve the latecomer better? In words, from the verdicts on our runs."""

    def told(id: str) -> str:
        verdicts: dict[str, list[str]] = {}
        for one in found:
            if one.claim.id == id and one.reading.runs is None:
                verdicts.setdefault(one.evidence.verdict, []).append(one.reading.name)
        if len(verdicts) == 1:
            return f"{_SAID[next(iter(verdicts))]} in every case"
        said = (f"{_SAID[verdict].lower()} with {' and '.join(names)}" for verdict, names in verdicts.items())
        return "; ".join(said).capitalize()

    return answers(told)
