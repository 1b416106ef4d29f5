"""Every claim of every study can hold, can fail and can stay undecided: found on made-up data, by a search.

The search knows nothing of claims. It changes made-up values of measures, for all runs that share a label or
for single ones, until the verdict is the one that is sought; a claim for which it finds none cannot fail, or
cannot hold. A new claim about numbers needs no line here; one about distributions needs a way to make one up.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from aqmlab import stats, studies
from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, every, mean_of
from aqmlab.results.table import Results, Row
from aqmlab.results.variable import measured, points_of, points_used
from aqmlab.stats import Evidence, Verdict
from aqmlab.studies.fair_queueing import measures as fair_queueing
from aqmlab.studies.shred import measures as shred
from aqmlab.studies.shred import web_only
from aqmlab.studies.unc_web import measures as unc_web
from aqmlab.study.publication import Claim, Study

SEEDS = 4

Shape = Callable[[float, float], Any]
"""A measure that is no number, from a level and a spread above zero."""


def ended(level: float, spread: float) -> list[int]:
    """How many of ten thousand objects end between the times of shred's grid, if times are log-normal."""
    share = [0.5 * math.erfc(math.log(float(at) / level) / (spread * math.sqrt(2))) for at in shred.GRID]
    return [round(10_000 * (a - b)) for a, b in itertools.pairwise([1.0, *share, 0.0])]


def at_least(level: float, spread: float) -> list[float]:
    """How often a count was at least 0, 1, 2 and so on, if it is always the same."""
    return [1.0] * (1 + min(round(30 * level), 1000))


SHAPES: Mapping[str, Shape] = {
    shred.ENDED.name: ended,
    shred.CENSORED.name: lambda level, spread: [0] * (shred.GRID.size + 1),
    unc_web.CDF.name: lambda level, spread: [
        0.5 * math.erfc(math.log(level / float(at)) / (spread * math.sqrt(2))) for at in unc_web.GRID
    ],
    **dict.fromkeys((one.name for one in fair_queueing.TAILS), at_least),
    unc_web.CLASS_MEDIANS.name: lambda level, spread: [level] * len(unc_web.SIZE_CLASSES),
}

HOLDS: Verdict = "holds"
FAILS: Verdict = "fails"

READY = ("shred", "mice-elephants", "unc-web", "fair-queueing", "helsinki", "coexistence")

Place = tuple[str, Mapping[str, Any], Measure]
"""An experiment, the labels of a point, and a measure."""


class World:
    """Made-up values of all measures that a rule looks at, at all points that it looks at."""

    def __init__(self, of: Study, rule: AnyRule, seed: int) -> None:
        self.rule = rule
        axes = {
            one.name: {axis.label: tuple(axis.values) for axis in one.sweep("full").all_axes}
            for one in of.experiments
        }
        self.axes = axes
        self.empty = empty = {name: Results.of_rows(rows=(), axes=of_one) for name, of_one in axes.items()}
        found: dict[tuple[Any, ...], Place] = {}
        for variable in rule.variables:
            leaves = measured(variable)
            for labels in points_of(variable, empty):
                for name, values in points_used(variable, empty, labels):
                    point = dict(zip(axes[name], values, strict=True))
                    for leaf in leaves:
                        if leaf.experiment.name == name:
                            found[name, values, leaf.measure.name] = (name, point, leaf.measure)
        self.places = list(found.values())
        draw = random.Random(seed)
        self.levels = [math.exp(draw.gauss(0, 0.3 * (seed > 0))) for _ in self.places]
        self.normal = [[draw.gauss(0, 1) for _ in range(SEEDS)] for _ in self.places]
        self.spreads = [1.0 for _ in self.places]
        self.drawn = [[math.exp(1e-4 * one) for one in draws] for draws in self.normal]

    def evidence(self) -> Evidence:
        """What the rule says of these values."""
        rows: dict[str, dict[tuple[Any, ...], dict[str, list[Any]]]] = {}
        for (name, point, measure), level, spread, drawn in zip(
            self.places, self.levels, self.spreads, self.drawn, strict=True
        ):
            shape = SHAPES.get(measure.name)
            values = [shape(level * one, spread) if shape else level * one for one in drawn]
            rows.setdefault(name, {}).setdefault(tuple(point.values()), {})[measure.name] = values
        results = {
            name: Results.of_rows(
                rows=tuple(
                    Row(
                        labels=dict(zip(self.axes[name], point, strict=True)),
                        seed=seed + 1,
                        values={key: values[seed] for key, values in of_point.items()},
                    )
                    for point, of_point in points.items()
                    for seed in range(SEEDS)
                ),
                axes=self.axes[name],
            )
            for name, points in rows.items()
        }
        return self.rule.judge({**self.empty, **results})

    def moves(self) -> Iterator[list[int]]:
        """Places that are changed together: those of a measure that share two labels, or one, or none."""
        groups: dict[Any, list[int]] = {}
        for number, (name, point, measure) in enumerate(self.places):
            labels = list(point.items())
            for some in itertools.chain(
                [()], itertools.combinations(labels, 1), itertools.combinations(labels, 2)
            ):
                groups.setdefault((measure.name, some), []).append(number)
                groups.setdefault((name, measure.name, some), []).append(number)
        yield from {tuple(one): one for one in groups.values()}.values()
        yield from ([number] for number in range(len(self.places)))

    def climb(self, sought: Verdict) -> bool:
        """Changes levels and spreads, move by move, as long as that brings the verdict nearer to the one that
        is sought; says whether it got there."""
        best = loss(self.evidence(), sought)
        moves = list(self.moves())
        shapes = any(measure.name in SHAPES for _, _, measure in self.places)
        for _ in range(8):
            before = best
            for move in moves:
                for values in (self.levels, self.spreads) if shapes else (self.levels,):
                    for factor in FACTORS:
                        if best == 0:
                            return True
                        kept = [values[number] for number in move]
                        for number in move:
                            values[number] *= factor
                        found = loss(self.evidence(), sought)
                        if found < best:
                            best = found
                        else:
                            for number, value in zip(move, kept, strict=True):
                                values[number] = value
            if best == before:
                break
        return best == 0

    def blurred(self, noise: float) -> Evidence:
        """What the rule says where values vary so much from seed to seed."""
        for drawn, draw in zip(self.drawn, self.normal, strict=True):
            drawn[:] = [math.exp(noise * one) for one in draw]
        return self.evidence()


FACTORS = (0.95, 1.05, 0.8, 1.25, 0.3, 3.0, 0.03, 30.0, 1e-3, 1e3)


def loss(evidence: Evidence, sought: Verdict) -> float:
    """How far a claim is from the verdict that is sought: nothing if it has it."""
    if evidence.verdict == sought:
        return 0.0
    if evidence.parts:
        losses = [loss(part, sought) for part in evidence.parts]
        return min(losses) if evidence.one_of == (sought == "holds") else math.fsum(losses)
    band = evidence.band
    if band is None or math.isnan(evidence.low):
        return 1e3
    scale = 1 + max(abs(end) for end in (band.low, band.high) if math.isfinite(end))
    if sought == "holds":
        return 1e-6 + (max(band.low - evidence.low, 0.0) + max(evidence.high - band.high, 0.0)) / scale
    return 1e-6 + max(min(evidence.high - band.low, band.high - evidence.low), 0.0) / scale


CASES = [
    pytest.param(name, claim, id=f"{name}-{claim.id}")
    for name in READY
    for claim in studies.load(name).claims
]


@pytest.mark.parametrize(("name", "claim"), CASES)
def test_a_claim_can_hold_and_fail_and_stay_undecided(name: str, claim: Claim) -> None:
    of = studies.load(name)
    rule = claim.rule.at(of.readings_of(claim)[0].labels)
    found = {}
    for sought in (HOLDS, FAILS):
        worlds = (World(of, rule, seed) for seed in range(4))
        found[sought] = next((world for world in worlds if world.climb(sought)), None)
        assert found[sought] is not None, f"no world in which it {sought}"
    blurred = (
        world.blurred(noise).verdict
        for world in found.values()
        if world is not None
        for noise in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    )
    assert "undecided" in blurred, "no world in which it stays undecided"


def test_the_search_finds_out_that_a_rule_cannot_hold_or_cannot_fail() -> None:
    of = studies.load("shred")
    time = mean_of(web_only[shred.MEAN_TIME].at(queue="RED"))
    assert not World(of, every(time < 1, time > 2), 0).climb("holds")
    assert not any(World(of, time > 0, seed).climb("fails") for seed in range(4))


def test_losses_are_nothing_only_where_a_claim_has_the_verdict() -> None:
    band = stats.within(0.9, 1.1)
    inside, outside = (
        Evidence(verdict=verdict, measured="", value=value, low=value, high=value, band=band)
        for verdict, value in ((HOLDS, 1.0), (FAILS, 2.0))
    )
    assert (loss(inside, HOLDS), loss(outside, FAILS)) == (0, 0)
    assert loss(outside, HOLDS) > 0
    assert loss(inside, FAILS) > 0
    assert loss(stats.together(inside, outside), HOLDS) > 0
    assert loss(stats.either(inside, outside), HOLDS) == 0
    assert loss(stats.either(inside, outside), FAILS) > 0
