"""The claims of the study `unc-web`, each with its rule, and the answer in words.

The sources give no numbers: bands are ours. Replaced rules stand in `data/rules.json`, with reasons.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aqmlab import stats
from aqmlab.experiment import Experiment
from aqmlab.publication import Claim, Verdicts
from aqmlab.response_times import Crossing, Floats, crossings, zero_between
from aqmlab.rule import AnyRule, Estimate, anywhere, every, mean_of, ratio, statistic
from aqmlab.runs import Labels, Results
from aqmlab.stats import Interval
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.experiments import (
    LOADS,
    PLOTTED,
    adaptive_red,
    drop_tail,
    drop_tails,
    six_areds,
    tuning,
    two_areds,
)
from aqmlab.studies.unc_web.measures import GRID
from aqmlab.variable import Variable, per_seed

LEAST = 0.01
"""A difference of two distribution functions that counts: one response in a hundred."""

NO_LAG = 0.005
"""A lag that is none: more than the largest lag of equal systems, 0.001 to 0.003 in runs of full length."""

LOW = tuple(load for load in LOADS if load < 80)
HIGH = tuple(load for load in LOADS if load >= 80)
HIGHEST = tuple(load for load in LOADS if load >= 90)

# Distributions of response times held against each other


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> Floats:
    """How much larger a share of the one's responses than of the other's has arrived: a row for each seed
    that has both, a column for each value of the grid."""
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return np.array([np.subtract(a, b) for a, b in both]).reshape(len(both), GRID.size)


def quick(difference: Floats) -> int:
    """The place in the grid where the one leads most, on average."""
    return int(difference.mean(axis=0).argmax()) if difference.size else 0


def slow(difference: Floats) -> int:
    """The place beyond it where the other leads most, on average."""
    first = quick(difference)
    return first + int(difference.mean(axis=0)[first:].argmin()) if difference.size else 0


def lead(difference: Floats, place: int, level: float = stats.LEVEL) -> Interval:
    """The one's lead at a place of the grid."""
    return stats.mean_interval(difference[:, place].tolist(), level)


def certain_crossings(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Crossing]:
    """Where the two cross, each by at least a response in a hundred."""
    difference = differences(ours, theirs)
    return crossings(difference, np.zeros_like(difference), GRID, least=LEAST)


def crossing_times(difference: Floats) -> list[float]:
    """When the two cross between `quick` and `slow`, seed by seed; NaN of a seed where they do not."""
    places = slice(quick(difference), slow(difference) + 1)
    return [
        zero_between(GRID[places], one) if one[0] > 0 > one[-1] else math.nan for one in difference[:, places]
    ]


def _of_others(difference: Floats, pick: Callable[[Floats], int], level: float) -> Interval:
    """The difference of each seed at the place that is picked of all the others.

    Where a seed may pick for itself, the largest of many differences is above zero though nothing differs.
    """
    if len(difference) < 2:
        return stats.mean_interval([], level)
    places = [pick(np.delete(difference, seed, axis=0)) for seed in range(len(difference))]
    return stats.mean_interval([float(difference[seed, place]) for seed, place in enumerate(places)], level)


def _leads(values: Sequence[Sequence[Any]], level: float) -> Interval:
    return _of_others(differences(*values), quick, level)


def _lags_beyond(values: Sequence[Sequence[Any]], level: float) -> Interval:
    ours, theirs = values
    return _of_others(differences(theirs, ours), lambda others: slow(-others), level)


def _lags(values: Sequence[Sequence[Any]], level: float) -> Interval:
    ours, theirs = values
    return _leads((theirs, ours), level)


def _crosses(values: Sequence[Sequence[Any]], level: float) -> Interval:
    count = float(len(certain_crossings(*values)))
    return Interval(value=count, low=count, high=count, count=len(differences(*values)), level=level)


def _later(values: Sequence[Sequence[Any]], level: float) -> Interval:
    first, second, base = values
    return stats.paired_ratio(
        crossing_times(differences(first, base)), crossing_times(differences(second, base)), level
    )


def _apart(*curves: Sequence[float]) -> float:
    """The largest distance of any two distribution functions."""
    return max(float(np.abs(np.subtract(*two)).max()) for two in itertools.combinations(curves, 2))


RENO = {"tcp": "Reno"}

cdf = {
    "Drop Tail": drop_tail[measures.CDF],
    "ARED": adaptive_red[measures.CDF].at(queue="ARED"),
    "ARED+ECN": adaptive_red[measures.CDF].at(queue="ARED+ECN"),
}
"""The distributions of response times, by queue."""


def _with_reno(loads: Sequence[int], *queues: str) -> list[Variable]:
    """The distributions under some queues at these loads."""
    return [cdf[queue].at(tcp="Reno").among(load=loads) for queue in queues]


NEAR = 0.002
"""Half an interval of a distance of two distributions that tells all that two equal systems leave to tell."""

THERE = "(time chosen by the other seeds)"


def _trade_off(ours: str) -> AnyRule:
    """That a queue serves more quick requests than Drop Tail and fewer slow ones, with one crossing."""
    both = _with_reno(PLOTTED, ours, "Drop Tail")
    return every(
        statistic(f"lead of {ours} {THERE}", _leads, *both).to_within(NEAR) >= LEAST,
        statistic(f"lead of Drop Tail beyond it {THERE}", _lags_beyond, *both).to_within(NEAR) >= LEAST,
        statistic("certain crossings", _crosses, *both) <= 1,
    )


def _of_drop_tail(measure: Any, *loads: int) -> Variable:
    return drop_tail[measure].among(load=loads)


def by_size(place: int) -> Variable:
    """The median response time of a class of sizes."""
    return per_seed(
        f"median response time of responses above {measures.SIZE_CLASSES[place] // 1000} kB",
        lambda medians: medians[place],
        drop_tail[measures.CLASS_MEDIANS],
        unit="s",
    )


_TO_DROP_TAIL = {
    measure: [
        ratio(
            one[measure].at(queue=queue, tcp="Reno").among(load=HIGHEST),
            drop_tail[measure].at(tcp="Reno").among(load=HIGHEST),
        )
        for one, queue in ((adaptive_red, "ARED+ECN"), (tuning, "ARED+ECN 60 ms"))
    ]
    for measure in (measures.MEDIAN, measures.P95)
}

largest_of_six = per_seed(
    "largest distance of any two of {Reno, SACK} x {Drop Tail, ARED, ARED+ECN}",
    _apart,
    *(variable.at(tcp=tcp) for variable in cdf.values() for tcp in ("Reno", "SACK")),
).among(load=LOW)

of_the_tcps = per_seed(
    "largest distance of SACK and Reno",
    _apart,
    *(cdf["Drop Tail"].at(tcp=tcp) for tcp in ("SACK", "Reno")),
).among(load=PLOTTED)

lag_of_ecn = statistic(f"lag of ARED+ECN behind ARED {THERE}", _lags, *_with_reno(HIGH, "ARED+ECN", "ARED"))

lead_of_ecn = statistic(f"lead of ARED+ECN over ARED {THERE}", _leads, *_with_reno(HIGH, "ARED+ECN", "ARED"))


@dataclass(frozen=True, kw_only=True)
class Floor:
    """What a claim says of a distance, beside that of equal systems, which chance alone takes apart."""

    claim: str
    most: float
    measured: Estimate
    alike: Estimate

    def found(self, results: Results) -> Iterator[tuple[Labels, Interval, Interval]]:
        """What was measured, and what equal systems show, wherever both were run."""
        equal = list(self.alike.points(results))
        for labels in self.measured.points(results):
            same = {label: labels[label] for label in self.alike.axes}
            if same in equal:
                yield labels, self.measured.interval(results, labels), self.alike.interval(results, same)


def _of_equals(experiment: Experiment) -> Estimate:
    several = [experiment[measures.CDF].at(draws=draws) for draws in experiment.values("draws")]
    return mean_of(per_seed("largest distance of any two of equal systems", _apart, *several))


FLOORS = (
    Floor(claim="W1", most=0.05, measured=mean_of(largest_of_six), alike=_of_equals(six_areds)),
    Floor(claim="W2", most=0.02, measured=mean_of(of_the_tcps), alike=_of_equals(drop_tails)),
    Floor(
        claim="W6.3",
        most=NO_LAG,
        measured=lag_of_ecn,
        alike=statistic("lag", _lags, *(two_areds[measures.CDF].at(draws=draws) for draws in (1, 0))),
    ),
)

CLAIMS = (
    Claim(
        id="W1",
        statement="No major differences below 80 % load.",
        source="slide 6",
        figures=("all-loads-packets-reno", "all-loads-bytes-reno", "floor"),
        rule=mean_of(largest_of_six).to_within(NEAR) <= 0.05,
    ),
    Claim(
        id="W2",
        statement="No difference between Reno and SACK (over Drop Tail, at 80 % and 105 % load).",
        source="slide 7",
        figures=("b", "b-tail", "floor"),
        rule=every(
            mean_of(of_the_tcps).to_within(NEAR) <= 0.02,
            ratio(_of_drop_tail(measures.MEDIAN, *PLOTTED), tcp=("SACK", "Reno")).within(0.97, 1.03),
        ),
    ),
    Claim(
        id="W3.2",
        statement="Not enough flows can take advantage of SACK.",
        source="slide 11",
        figures=("several-holes", "few-segments"),
        rule=mean_of(_of_drop_tail(measures.SEVERAL_HOLES, *PLOTTED).at(tcp="SACK")) < 0.05,
    ),
    Claim(
        id="W4",
        statement="SACK does help transfers larger than the typical.",
        source="abstract of the paper of 2006",
        figures=("sack-by-size",),
        rule=ratio(by_size(-1).among(load=HIGHEST), tcp=("SACK", "Reno")) < 0.95,
    ),
    Claim(
        id="W5.2",
        statement="Tradeoffs between Drop Tail and ARED: at 80 % and at 105 % load the distributions cross; "
        "ARED is better for the quick requests.",
        source="slide 8",
        figures=("c-packets", "c-bytes", "difference-packets", "difference-bytes"),
        rule=_trade_off("ARED"),
    ),
    Claim(
        id="W6.3",
        statement="ECN beats dropping: ARED with ECN performs better than ARED with dropping.",
        source="slides 9 and 11",
        figures=("d-packets", "d-bytes", "difference-packets", "difference-bytes", "floor"),
        rule=every(
            lag_of_ecn.to_within(NEAR) <= NO_LAG,
            lead_of_ecn.to_within(NEAR) > LEAST,
        ),
    ),
    Claim(
        id="W7",
        statement="Why: drops cause retransmissions, which only increase response times.",
        source="slide 11",
        figures=("retransmitted",),
        rule=ratio(adaptive_red[measures.AGAIN].at(**RENO, load=90), queue=("ARED+ECN", "ARED")) <= 0.8,
    ),
    Claim(
        id="W8.2",
        statement="Tradeoffs between Drop Tail and ARED+ECN: at 80 % and at 105 % load the distributions "
        "cross.",
        source="slide 10",
        figures=("e-packets", "e-bytes", "difference-packets", "difference-bytes"),
        rule=_trade_off("ARED+ECN"),
    ),
    Claim(
        id="W9.2",
        statement="There is no uniform winner; how Adaptive RED is tuned decides.",
        source="abstract of the paper of 2003",
        figures=("median", "p95"),
        rule=anywhere(
            *(
                every(*pair)
                for at_5_ms, at_60_ms in _TO_DROP_TAIL.values()
                for pair in ((at_5_ms < 1, at_60_ms > 1), (at_5_ms > 1, at_60_ms < 1))
            )
        ),
    ),
    Claim(
        id="W10",
        statement="The mean queue is shortest under ARED with a target of 5 ms, then with 60 ms, then under "
        "Drop Tail.",
        source="none: what the targets ask for",
        origin="sheet",
        figures=("queue", "parameters"),
        rule=every(
            *(
                ratio(ours.at(**RENO).among(load=HIGHEST), theirs.at(**RENO).among(load=HIGHEST)) < 1
                for ours, theirs in itertools.pairwise(
                    (
                        adaptive_red[measures.QUEUE].at(queue="ARED"),
                        tuning[measures.QUEUE].at(queue="ARED 60 ms"),
                        drop_tail[measures.QUEUE],
                    )
                )
            )
        ),
    ),
    Claim(
        id="W11",
        statement="Drop Tail and ARED+ECN cross later than Drop Tail and ARED.",
        source="none: what ECN is to save the slow",
        origin="sheet",
        figures=("e-packets", "e-bytes"),
        rule=statistic(
            "when ARED+ECN crosses Drop Tail over when ARED does",
            _later,
            *_with_reno(PLOTTED, "ARED+ECN", "ARED", "Drop Tail"),
        )
        > 1,
    ),
)

_SAID = {"holds": "Yes", "fails": "No", "undecided": "Not decided"}


def answer(found: Verdicts) -> list[str]:
    """Does it help the Web? In words, from the verdicts."""

    def told(claim: str) -> str:
        return f"{_SAID[found.of(claim).verdict]} ({claim})"

    def both(claim: str) -> str:
        return f"in packets: {told(claim)}; in bytes: {told(claim + 'b')}"

    return [
        f"Is SACK no different from Reno for the Web as a whole? {told('W2')}. Does it help large responses? "
        f"{told('W4')}.",
        f"Does Adaptive RED trade slow responses for quick ones? With Adaptive RED {both('W5.2')}.",
        f"Is ECN better than dropping? With Adaptive RED {both('W6.3')}. What ECN cannot reach is told by "
        "the table of dropped packets that carry no data.",
        f"Do the differences vanish below 80 % load? With Adaptive RED {both('W1')}.",
    ]
