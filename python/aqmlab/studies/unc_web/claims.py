"""The claims of the study `unc-web`, each with its rule, and the answer in words.

The sources give no numbers: bands are ours. Replaced rules stand in `data/rules.json`, with reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, Estimate, Finds, anywhere, every, mean_of, ratio, statistic
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Variable, per_seed
from aqmlab.stats import LEVEL
from aqmlab.studies.shared import told
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.distributions import LEAST, apart, cdf, crosses, lags, lags_beyond, later, leads
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
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Floor, Verdicts

LOW = tuple(load for load in LOADS if load < 80)
HIGHEST = tuple(load for load in LOADS if load >= 90)

NEAR = 0.002
"""Half an interval of a distance of two distributions that tells all that two equal systems leave to tell."""

NO_LAG = 0.005
"""A lag that is none: more than that of equal systems, whose largest mean lag in the full study is 0.0016."""


def _reno(variable: Variable, loads: Sequence[int]) -> Variable:
    return variable.at(tcp="Reno").among(load=loads)


def _of_reno(how: str, finds: Finds, loads: Sequence[int], *queues: str) -> Estimate:
    """A statistic of the distributions under some queues."""
    return statistic(how, finds, *(_reno(cdf[queue], loads) for queue in queues))


def _others_choose(what: str, finds: Finds, loads: Sequence[int], ours: str, theirs: str) -> Estimate:
    """A lead of one queue at the time where the other seeds find it largest."""
    return _of_reno(f"{what} (time chosen by the other seeds)", finds, loads, ours, theirs).to_within(NEAR)


def _trade_off(ours: str) -> AnyRule:
    """That a queue serves more quick requests than Drop Tail and fewer slow ones, with one crossing."""
    return every(
        _others_choose(f"lead of {ours}", leads, PLOTTED, ours, "Drop Tail") >= LEAST,
        _others_choose("lead of Drop Tail beyond it", lags_beyond, PLOTTED, ours, "Drop Tail") >= LEAST,
        _of_reno("certain crossings", crosses, PLOTTED, ours, "Drop Tail") <= 1,
    )


def _to_drop_tail(measure: Measure) -> list[Estimate]:
    """What ARED+ECN with targets of 5 ms and of 60 ms makes of a measure, over Drop Tail."""
    tuned = (adaptive_red[measure].at(queue="ARED+ECN"), tuning[measure].at(queue="ARED+ECN 60 ms"))
    return [ratio(_reno(one, HIGHEST), _reno(drop_tail[measure], HIGHEST)) for one in tuned]


def _furthest(name: str, *several: Variable) -> Estimate:
    return mean_of(per_seed(f"largest distance of {name}", apart, *several)).to_within(NEAR)


def _of_equals(experiment: Experiment) -> Estimate:
    several = (experiment[measures.CDF].at(draws=draws) for draws in experiment.values("draws"))
    return _furthest("any two of equal systems", *several)


_six = [one.at(tcp=tcp).among(load=LOW) for one in cdf.values() for tcp in ("Reno", "SACK")]
_tcps = [cdf["Drop Tail"].at(tcp=tcp).among(load=PLOTTED) for tcp in ("SACK", "Reno")]

_alike_below_80 = _furthest("any two of {Reno, SACK} x {Drop Tail, ARED, ARED+ECN}", *_six) <= 0.05
_tcps_alike = _furthest("SACK and Reno", *_tcps) <= 0.02
_ecn_no_slower = (
    _of_reno("largest lag of ARED+ECN behind ARED", lags, PLOTTED, "ARED+ECN", "ARED").to_within(NEAR)
    <= NO_LAG
)

_two_areds = [two_areds[measures.CDF].at(draws=draws) for draws in (1, 0)]

_FLOORS = (
    ("W1", _alike_below_80, _of_equals(six_areds)),
    ("W2", _tcps_alike, _of_equals(drop_tails)),
    ("W6.4", _ecn_no_slower, statistic("largest lag", lags, *_two_areds)),
)
"""What claims say of distances, and the distance of equal systems, which chance alone takes apart."""


def floors(results: ExperimentResults, level: float = LEVEL) -> Iterator[Floor]:
    """What equal systems show, wherever they and the systems of the claim were run."""
    for claim, rule, alike in _FLOORS:
        equal = list(alike.points(results))
        for labels in rule.estimate.points(results):
            same = {label: labels[label] for label in alike.axes}
            if same in equal:
                measured = rule.estimate.interval(results, labels, level)
                yield Floor(
                    claim=claim,
                    band=rule.band,
                    where=labels,
                    measured=measured,
                    equal=alike.interval(results, same, level),
                )


_of_the_largest = per_seed(
    f"median response time of responses above {measures.SIZE_CLASSES[-1] // 1000} kB",
    lambda medians: medians[-1],
    drop_tail[measures.CLASS_MEDIANS],
    unit="s",
)

_WHEN_ECN_CROSSES = "when ARED+ECN crosses Drop Tail over when ARED does"

_queues_by_length = (
    adaptive_red[measures.QUEUE].at(queue="ARED"),
    tuning[measures.QUEUE].at(queue="ARED 60 ms"),
    drop_tail[measures.QUEUE],
)

CLAIMS = (
    Claim(
        id="W1",
        statement="No major differences below 80 % load.",
        source="slide 6",
        figures=("all-loads-packets-reno", "all-loads-bytes-reno", "floor"),
        rule=_alike_below_80,
    ),
    Claim(
        id="W2",
        statement="No difference between Reno and SACK (over Drop Tail, at 80 % and 105 % load).",
        source="slide 7",
        figures=("b", "b-tail", "floor"),
        rule=every(
            _tcps_alike,
            ratio(drop_tail[measures.MEDIAN].among(load=PLOTTED), tcp=("SACK", "Reno")).within(0.97, 1.03),
        ),
    ),
    Claim(
        id="W3.2",
        statement="Not enough flows can take advantage of SACK.",
        source="slide 11",
        figures=("several-holes", "few-segments"),
        rule=mean_of(drop_tail[measures.SEVERAL_HOLES].at(tcp="SACK").among(load=PLOTTED)) < 0.05,
    ),
    Claim(
        id="W4",
        statement="SACK does help transfers larger than the typical.",
        source="abstract of the paper of 2006",
        figures=("sack-by-size",),
        rule=ratio(_of_the_largest.among(load=HIGHEST), tcp=("SACK", "Reno")) < 0.95,
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
        id="W6.4",
        statement="ECN beats dropping: ARED with ECN performs better than ARED with dropping.",
        source="slides 9 and 11, at the loads of slide 9",
        figures=("d-packets", "d-bytes", "difference-packets", "difference-bytes", "floor"),
        rule=every(
            _ecn_no_slower,
            _others_choose("lead of ARED+ECN over ARED", leads, PLOTTED, "ARED+ECN", "ARED") > LEAST,
        ),
    ),
    Claim(
        id="W7",
        statement="Why: drops cause retransmissions, which only increase response times.",
        source="slide 11",
        figures=("retransmitted",),
        rule=ratio(adaptive_red[measures.AGAIN].at(tcp="Reno", load=90), queue=("ARED+ECN", "ARED")) <= 0.8,
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
                for at_5_ms, at_60_ms in map(_to_drop_tail, (measures.MEDIAN, measures.P95))
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
                ratio(_reno(ours, HIGHEST), _reno(theirs, HIGHEST)) < 1
                for ours, theirs in itertools.pairwise(_queues_by_length)
            )
        ),
    ),
    Claim(
        id="W11",
        statement="Drop Tail and ARED+ECN cross later than Drop Tail and ARED.",
        source="none: what ECN is to save the slow",
        origin="sheet",
        figures=("e-packets", "e-bytes"),
        rule=_of_reno(_WHEN_ECN_CROSSES, later, PLOTTED, "ARED+ECN", "ARED", "Drop Tail") > 1,
    ),
    Claim(
        id="W12",
        statement="Explicit Congestion Notification helps avoid timeouts.",
        source="slide 4, at the loads that the talk plots",
        figures=("timeouts",),
        rule=ratio(_reno(adaptive_red[measures.TIMEOUTS], PLOTTED), queue=("ARED+ECN", "ARED")) < 1,
    ),
    Claim(
        id="W13",
        statement="Adaptive RED lowers queue size.",
        source="slide 4, beside Drop Tail; at the loads that the talk plots",
        figures=("queue", "parameters"),
        rule=ratio(
            _reno(adaptive_red[measures.QUEUE].at(queue="ARED"), PLOTTED),
            _reno(drop_tail[measures.QUEUE], PLOTTED),
        )
        < 1,
    ),
)


def answer(found: Verdicts) -> list[str]:
    """Does it help the Web? In words, from the verdicts."""

    def both(claim: str) -> str:
        return f"With Adaptive RED in packets: {told(found, claim)}; in bytes: {told(found, f'{claim}b')}"

    return [
        f"Is SACK no different from Reno for the Web as a whole? {told(found, 'W2')}. Does it help large "
        f"responses? {told(found, 'W4')}.",
        f"Does Adaptive RED trade slow responses for quick ones? {both('W5.2')}.",
        f"Is ECN better than dropping? {both('W6.4')}. What ECN cannot reach is told by the table of dropped "
        "packets that carry no data.",
        f"Do the differences vanish below 80 % load? {both('W1')}.",
    ]
