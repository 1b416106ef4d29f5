"""What a report card asks of a queue, a line for each: RFC 7928 names what is to be compared with Drop Tail
and sets no limits, so those here are ours.

Every requirement leaves the axis `queue` open; the card of a queue is what is found at its value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from aqmlab.experiment import Experiment
from aqmlab.publication import Claim
from aqmlab.report_card.measures import of
from aqmlab.report_card.network import DROP_TAIL
from aqmlab.rule import AnyRule, Estimate, difference, every, mean_of, ratio
from aqmlab.variable import Variable, per_seed

GOODPUT_KEPT = 0.9
"""The share of Drop Tail's goodput that a queue is to leave at least."""

BIAS = 1.25
"""By what factor goodputs may differ that ought to be the same."""

FAR_SHARE = 0.5
"""What the poorer of two flows of different round trips is to get at least of the other's goodput."""

TARGET_MS = 50.0
"""What packets may wait on average on a line that nothing was tuned for."""

YIELDS = 0.5
"""What a flow of less than best effort is to get at most of the goodput of the NewReno flow beside it."""

LATER = 1.1
"""How much later than with Drop Tail bursts may be there, as a ratio."""

STALLED_S = 0.5
"""How much longer than with Drop Tail a video may stand still, in 50 s."""

At = Callable[[str], Variable]
"""A measure of a section, by `WORKLOAD.WHAT`."""

Asked = Iterator[tuple[str, str, AnyRule]]
"""What is asked, the sentence that is judged, and its rule."""


def beside_drop_tail(variable: Variable) -> Estimate:
    """A variable at each queue over that with Drop Tail, seed by seed."""
    return ratio(variable, variable.at(queue=DROP_TAIL))


def _less(*variables: Variable) -> AnyRule:
    return _all([beside_drop_tail(one) < 1 for one in variables])


def _kept(*variables: Variable) -> AnyRule:
    return _all([beside_drop_tail(one) >= GOODPUT_KEPT for one in variables])


def _all(rules: list[AnyRule]) -> AnyRule:
    return rules[0] if len(rules) == 1 else every(*rules)


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _sum(*values: float) -> float:
    return math.fsum(values)


def _poorer_over_richer(first: float, second: float) -> float | None:
    return _over(min(first, second), max(first, second))


def _bias(at: At) -> Asked:
    goodputs = at("small.goodput"), at("large.goodput")
    bias = per_seed("goodput of packets of 500 B over that of 1500 B", _over, *goodputs)
    yield (
        "bias",
        f"Small packets and large ones: goodputs differ by less than a factor of {BIAS:g}.",
        mean_of(bias).within(1 / BIAS, BIAS),
    )


def _bulk(what: str, at: At) -> Asked:
    yield (
        "delay",
        f"{what}: packets wait less than with Drop Tail, on average and 95 % of them.",
        _less(at("long.delay"), at("long.delay-p95")),
    )
    yield (
        "goodput",
        f"{what}: goodput is at least {100 * GOODPUT_KEPT:g} % of Drop Tail's.",
        _kept(at("long.goodput")),
    )


def _short(at: At) -> Asked:
    yield (
        "short",
        "A short flow beside a long one is done sooner than with Drop Tail.",
        _less(at("short.transfer")),
    )


def _unresponsive_alone(at: At) -> Asked:
    yield (
        "delay",
        "Datagrams faster than the line, alone, wait less than with Drop Tail.",
        _less(at("datagrams.delay")),
    )


def _unresponsive(at: At) -> Asked:
    yield (
        "delay",
        "Datagrams beside a TCP flow wait less than with Drop Tail.",
        _less(at("datagrams.delay")),
    )
    yield (
        "goodput",
        "A TCP flow beside datagrams that do not respond gets at least what it gets with Drop Tail.",
        beside_drop_tail(at("long.goodput")) >= 1,
    )


def _less_than_best_effort(at: At) -> Asked:
    yield (
        "delay",
        "A NewReno flow beside LEDBAT: packets wait less than with Drop Tail, on average and 95 % of them.",
        _less(at("long.delay"), at("long.delay-p95")),
    )
    shares = at("background.goodput"), at("long.goodput")
    share = per_seed("goodput of LEDBAT over that of NewReno", _over, *shares)
    yield (
        "yields",
        f"LEDBAT with a target of 5 ms gets at most {YIELDS:g} of what the NewReno flow beside it gets.",
        mean_of(share) <= YIELDS,
    )


def _bursts(at: At) -> Asked:
    yield (
        "pages",
        "Pages of 50 objects over six connections are there at most a tenth later than with Drop Tail.",
        beside_drop_tail(at("pages.page")) <= LATER,
    )
    yield (
        "delay",
        "Datagrams beside pages and a bulk flow wait less than with Drop Tail, on average and 95 % of them.",
        _less(*(at(f"cbr.{what}").among(case=("II", "IV")) for what in ("delay", "delay-p95"))),
    )


def _mix(at: At) -> Asked:
    yield (
        "calls",
        "A mix of applications: where a call sounds worse, it sounds better than with Drop Tail.",
        beside_drop_tail(at("calls.least-mos")) > 1,
    )
    yield (
        "pages",
        "A mix of applications: pages are there sooner than with Drop Tail.",
        _less(at("pages.page")),
    )
    stalled = at("film.stalled")
    yield (
        "video",
        f"A mix of applications: the bit rate of a video is at least {100 * GOODPUT_KEPT:g} % of Drop "
        f"Tail's, and it stands still at most {STALLED_S:g} s longer.",
        every(
            beside_drop_tail(at("film.bit-rate")) >= GOODPUT_KEPT,
            difference(stalled, stalled.at(queue=DROP_TAIL)) <= STALLED_S,
        ),
    )
    goodputs = [at(f"{who}.goodput") for who in ("long", "pages", "film", "cbr")]
    yield (
        "goodput",
        f"A mix of applications: goodput in all is at least {100 * GOODPUT_KEPT:g} % of Drop Tail's.",
        _kept(per_seed("goodput of all", _sum, *goodputs, unit="Mb/s")),
    )


def _round_trips(at: At) -> Asked:
    goodputs = at("first.goodput"), at("second.goodput")
    parity = per_seed("goodput of the poorer over the richer flow", _poorer_over_richer, *goodputs)
    yield (
        "fairness",
        f"Two flows of different round trips: the poorer gets {FAR_SHARE:g} of the other's goodput or more.",
        mean_of(parity) >= FAR_SHARE,
    )


def _ecn(at: At) -> Asked:
    losses = [at(f"{who}.loss") for who in ("first", "second")]
    delays = [at(f"{who}.delay") for who in ("first", "second")]
    yield (
        "ecn",
        "With ECN fewer packets are dropped, and none waits longer by more than a quarter.",
        every(
            *(ratio(one, ecn=("on", "off")) < 1 for one in losses),
            *(ratio(one, ecn=("on", "off")) < BIAS for one in delays),
        ),
    )


def _untuned(at: At) -> Asked:
    yield (
        "untuned",
        f"At 1, 10 and 100 Mb/s, nothing tuned, packets wait less than {TARGET_MS:g} ms on average.",
        mean_of(at("long.delay")) < TARGET_MS,
    )


def _both(what: str, first: str, second: str, at: At) -> Asked:
    yield (
        "delay",
        f"{what}: packets wait less than with Drop Tail.",
        _less(at(f"{first}.delay"), at(f"{second}.delay")),
    )
    yield (
        "goodput",
        f"{what}: goodput is at least {100 * GOODPUT_KEPT:g} % of Drop Tail's.",
        _kept(at(f"{first}.goodput"), at(f"{second}.goodput")),
    )


ASKED: Mapping[str, Callable[[At], Asked]] = {
    "4.4": _bias,
    "4.5": _ecn,
    "5.1.1": partial(_bulk, "One NewReno flow"),
    "5.1.2": _short,
    "5.2": partial(_bulk, "One CUBIC flow"),
    "5.3a": _unresponsive_alone,
    "5.3b": _unresponsive,
    "5.4": _less_than_best_effort,
    "6.2": _round_trips,
    "7.2": _bursts,
    "8.2.2": partial(_bulk, "Mild congestion"),
    "8.2.3": partial(_bulk, "Medium congestion"),
    "8.2.4": partial(_bulk, "Heavy congestion"),
    "8.2.5": partial(_bulk, "Varying congestion"),
    "8.2.6": partial(_bulk, "Varying capacity"),
    "8.3": _untuned,
    "9.1": _mix,
    "9.2": partial(_both, "Congestion both ways", "down", "up"),
    "10.2": partial(_both, "Two queues in series", "a", "b"),
}
"""By section, what is asked."""

WORDS: Mapping[str, str] = {
    "5.4": "target delay and gain of LEDBAT: 5 ms and 10",
    "7.2": "at least 50 objects of at least 1 kB, six parallel connections with a first window of 10 packets",
    "9.1": "1 bidirectional VoIP, 6 web page downloads, 1 CBR, 1 Adaptive Video, 5 bulk TCP",
}
"""What the RFC recommends where a scenario is more than its title, by section."""


def requirements(experiments: Mapping[str, Experiment]) -> tuple[Claim, ...]:
    """The requirements on queues in these experiments, which are found by the numbers of their sections."""
    return tuple(
        Claim(
            id=f"{section} {what}",
            statement=statement,
            source=_source(section),
            rule=rule,
            origin="ours",
            figures=(f"table-{section}",),
        )
        for section, experiment in experiments.items()
        for what, statement, rule in ASKED[section](partial(_measured, experiment))
    )


def _source(section: str) -> str:
    words = f" ({WORDS[section]})" if section in WORDS else ""
    return f"RFC 7928, section {section.rstrip('ab')}{words}; the limit is ours"


def _measured(experiment: Experiment, name: str) -> Variable:
    return experiment[of(*name.split(".", 1))]
