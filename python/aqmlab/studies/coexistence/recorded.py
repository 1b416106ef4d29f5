"""The recorded runs on FABRIC: ten trials of each cell of the grid, and the bands of shares that follow."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from statistics import fmean, stdev

from aqmlab.results.labels import Labels, Value
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.results.variable import Variable, points_of, seeds_of, series
from aqmlab.stats import Interval, mean_interval
from aqmlab.studies.coexistence import measures as m
from aqmlab.studies.coexistence import network as net
from aqmlab.study.query import Found, Query, query

PAIRS, SHORT_PAIRS, GROUPS = "pairs", "pairs-2ms", "groups"
"""The names of the experiments: two flows with a round trip of 10 ms or 2 ms, and groups of flows."""

QUEUES = {
    "fifo": net.FIFO,
    "step_single": net.STEP,
    "pie_drop": net.PIE,
    "codel_drop": net.CODEL,
    "codel_ecn": net.CODEL_ECN,
    "fq_step": net.FQ_STEP,
    "fq_codel": net.FQ_CODEL,
    "fq_codel_l4s": net.FQ_CODEL_L4S,
    "dualpi2": net.DUALPI2,
}
"""The queues by their names in the recorded tables."""

_OTHERS = {
    ("cubic", "none", "0"): net.CUBIC,
    ("cubic", "ecn", "0"): net.CUBIC_ECN,
    ("cubic", "ecn", "1"): net.FALLBACK,
    ("bbrv1", "none", "0"): net.BBR1,
    ("bbrv3", "none", "0"): net.BBR3,
    ("bbrv3", "ecn", "0"): net.BBR3_ECN,
    ("bbrv3", "ecn_low", "0"): net.BBR3_LOW,
}

MARGIN = 5.0
"""Points of share by which the mean of aqmlab may be outside the recorded interval. The margin is a tenth of
an equal share. The margin allows for the unknown properties of the testbed: the offset of the starts (1 s of
60 s is 1.7 points of the time), the frequency of the clocks, the processing times, and the kernel version."""

EQUAL = 2.0
"""Points of share around the fair share that count as fair: an offset of the starts of 1 s of 60 s changes a
share by up to 1.7 points."""

SCATTERED_MBPS = 5.0
"""Standard deviation of a group's recorded goodput above which a cell counts as bimodal."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the grid, with the recorded shares and goodputs of its trials."""

    experiment: str
    labels: Labels
    flows: tuple[int, int]
    """Numbers of Prague flows and of other flows."""
    shares: tuple[float, ...]
    """Prague's share in each trial, in percent."""
    spread_mbps: float
    """The larger standard deviation of the goodputs of the two groups."""

    @property
    def fair(self) -> float:
        """The share at which all flows have equal goodputs, in percent."""
        return 100 * self.flows[0] / sum(self.flows)

    @property
    def deviation(self) -> float:
        """The standard deviation of the recorded shares."""
        return stdev(self.shares)

    @property
    def is_bimodal(self) -> bool:
        """Whether the recorded trials scatter so much that their mean describes none of them."""
        return self.spread_mbps > SCATTERED_MBPS

    @property
    def known(self) -> Interval:
        """The recorded mean share with the 95 % interval."""
        return mean_interval(self.shares)

    @property
    def band(self) -> tuple[float, float] | None:
        """The claimed range of the mean share: the recorded 95 % interval, extended by `MARGIN` at both ends;
        `None` for a bimodal cell."""
        if self.is_bimodal:
            return None
        return round(self.known.low - MARGIN, 1), round(self.known.high + MARGIN, 1)

    @property
    def sign(self) -> int:
        """1 if Prague's share is claimed to be more than fair, -1 for less, and 0 for no claim. The sign is
        claimed if the recorded 95 % interval is more than `EQUAL` from the fair share, or, in a bimodal cell,
        if all trials have this sign."""
        if self.is_bimodal:
            return (min(self.shares) > self.fair) - (max(self.shares) < self.fair)
        return (self.known.low > self.fair + EQUAL) - (self.known.high < self.fair - EQUAL)


@dataclass(frozen=True, kw_only=True)
class _Trial:
    experiment: str
    labels: Labels
    flows: tuple[int, int]
    number: int
    rates_mbps: tuple[float, float]
    srtt_ms: tuple[float, float]

    @property
    def share(self) -> float:
        found = m.share(*self.rates_mbps)
        assert found is not None
        return found


@lru_cache(maxsize=1)
def _trials() -> tuple[_Trial, ...]:
    file = resources.files("aqmlab.studies") / "data" / "coexistence_fabric.csv"
    return tuple(map(_trial, csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))))


def _trial(row: Mapping[str, str]) -> _Trial:
    flows = int(row["prague_flows"]), int(row["other_flows"])
    queue = QUEUES[row["queue"]]
    other = _OTHERS[row["other_cc"], row["other_ecn"], row["prague_fallback"]]
    is_pair = flows == (1, 1)
    return _Trial(
        experiment=GROUPS if not is_pair else PAIRS if row["rtt_ms"] == "10" else SHORT_PAIRS,
        labels={"other": other, "queue": queue}
        if is_pair
        else {"flows": "{}:{}".format(*flows), "queue": queue},
        flows=flows,
        number=int(row["trial"]),
        rates_mbps=(float(row["prague_mbps"]), float(row["other_mbps"])),
        srtt_ms=(float(row["prague_srtt_ms"]), float(row["other_srtt_ms"])),
    )


@lru_cache(maxsize=1)
def cells() -> tuple[Cell, ...]:
    """The recorded cells."""
    found: dict[tuple[object, ...], list[_Trial]] = {}
    for one in _trials():
        found.setdefault((one.experiment, *one.labels.values()), []).append(one)
    return tuple(map(_cell, found.values()))


def _cell(trials: Sequence[_Trial]) -> Cell:
    first = trials[0]
    return Cell(
        experiment=first.experiment,
        labels=first.labels,
        flows=first.flows,
        shares=tuple(one.share for one in trials),
        spread_mbps=max(map(stdev, zip(*(one.rates_mbps for one in trials), strict=True))),
    )


@lru_cache(maxsize=1)
def results() -> ExperimentResults:
    """The recorded trials as results of the study's experiments."""
    rows: dict[str, list[Row]] = {}
    for one in _trials():
        values = (one.share, sum(one.rates_mbps), *one.srtt_ms)
        named = {measure.name: value for measure, value in zip(m.ALL, values, strict=True)}
        rows.setdefault(one.experiment, []).append(Row(labels=one.labels, seed=one.number, values=named))
    return {name: Results.of_rows(several, _axes(several)) for name, several in rows.items()}


def _axes(rows: Sequence[Row]) -> dict[str, tuple[Value, ...]]:
    return {label: tuple(dict.fromkeys(row.labels[label] for row in rows)) for label in rows[0].labels}


def with_deviation(variable: Variable) -> Query:
    """A query of the recorded means of a variable, with the mean minus and plus the standard deviation of the
    trials as the ends of the interval."""

    def find(_: ExperimentResults) -> Found:
        runs = results()
        for labels in points_of(variable, runs):
            values = series(variable, runs, labels, seeds_of([variable], runs))
            mean, deviation = fmean(values), stdev(values)
            yield labels, Interval(value=mean, low=mean - deviation, high=mean + deviation, count=len(values))

    return replace(query(variable), find=find)
