"""Scores of lines: RPM, QoO, AIM and the grade of bufferbloat, with the values of their sources."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aqmlab.metrics import aim, bufferbloat, outcome
from aqmlab.metrics.responsiveness import Rounds, rpm_of, trimmed_mean


def rounds(tcp: float, tls: float | None, http: float, loaded: float) -> Rounds:
    def samples(ms: float | None) -> np.ndarray:
        return np.zeros(0) if ms is None else np.full(10, ms / 1e3)

    return Rounds(tcp=samples(tcp), tls=samples(tls), http=samples(http), loaded=samples(loaded))


@pytest.mark.parametrize(
    ("times_ms", "foreign", "loaded", "rpm"),
    [
        ((20, 20, 20, 100), 3000, 600, 1800),
        # Without TLS, the mean is that of two times, not of three times with a zero.
        ((30, None, 50, 40), 1500, 1500, 1500),
        ((60, 60, 60, 20), 1000, 3000, 2000),
    ],
)
def test_rpm_is_the_mean_of_two_rates(
    times_ms: tuple[float, float | None, float, float], foreign: float, loaded: float, rpm: float
) -> None:
    found = rounds(*times_ms)
    assert found.foreign_rpm() == pytest.approx(foreign)
    assert found.loaded_rpm() == pytest.approx(loaded)
    assert found.rpm() == pytest.approx(rpm)


def test_the_trimmed_mean_drops_the_slowest_twentieth() -> None:
    count = np.arange(1.0, 101.0)
    assert trimmed_mean(count[:20]) == 10.0
    assert trimmed_mean(count[:40]) == 19.5
    assert trimmed_mean(count[::-1]) == 48.0
    assert trimmed_mean(count[:1]) == 1.0
    assert math.isnan(trimmed_mean(count[:0]))
    assert (rpm_of(0.002), rpm_of(0.1)) == (30000, pytest.approx(600))


def test_rpm_is_undefined_without_self_probes() -> None:
    found = Rounds(tcp=np.ones(3), tls=np.ones(3), http=np.ones(3), loaded=np.zeros(0))
    assert math.isnan(found.rpm())


# Quality of Outcome


def samples(percentiles: dict[float, float]) -> np.ndarray:
    """A thousand delays (s) with these delays (ms) at these percentiles."""
    found = np.zeros(1000)
    for percent, ms in percentiles.items():
        found[round(percent * 10) - 1 :] = ms / 1e3
    return found


@pytest.mark.parametrize(
    ("percentiles_ms", "lost", "latency", "loss"),
    [
        ({99: 350, 99.9: 352}, 0.005, 33.333, 55.556),
        ({99: 240, 99.9: 300}, 0.0005, 100, 100),
        ({99: 400, 99.9: 400}, 0.0, 0, 100),
    ],
)
def test_outcomes_of_the_notes_on_the_draft(
    percentiles_ms: dict[float, float], lost: float, latency: float, loss: float
) -> None:
    profile = outcome.Profile(
        title="", latency={99: (0.250, 0.400), 99.9: (0.350, 0.401)}, loss=(0.001, 0.01)
    )
    found = outcome.outcome(samples(percentiles_ms), lost, profile)
    assert (found.latency, found.loss) == pytest.approx((latency, loss), abs=1e-3)
    assert found.score == min(found.latency, found.loss)


def test_the_example_of_the_draft_scores_50() -> None:
    profile = outcome.Profile(
        title="", latency={99: (0.2, 0.5), 99.9: (0.3, 0.6)}, loss=(0.01, 0.05), rate_bps=4e6
    )
    found = outcome.outcome(samples({99: 350, 99.9: 375}), 0.02, profile, 28e6)
    assert (found.latency, found.loss, found.throughput) == pytest.approx((50, 75, 100))
    assert found.score == pytest.approx(50)
    assert outcome.outcome(samples({99: 350, 99.9: 375}), 0.02, profile, 3e6).score == 0


def test_percentiles_are_nearest_ranks() -> None:
    count = np.arange(1.0, 21.0)
    assert [outcome.percentile(count, percent) for percent in (5, 50, 95, 95.1, 100)] == [1, 10, 19, 20, 20]
    assert outcome.outcome(count[:0], 1.0, outcome.PROFILES["web"]).score == 0


def test_every_profile_has_a_better_and_a_worse_limit() -> None:
    for profile in outcome.PROFILES.values():
        assert all(0 < best < worst for best, worst in (*profile.latency.values(), profile.loss))


# AIM and the grade


def test_the_vector_of_aim() -> None:
    line = aim.Line(latency=0.015, jitter=0.005, loss=0.0, download=60e6, increase=0.035)
    found = {name: score.of(line) for name, score in aim.SCORES.items()}
    assert found == {"streaming": 45, "gaming": 25, "rtc": 35}
    assert {aim.SCORES[name].name_of(total) for name, total in found.items()} == {"good"}


def test_aim_thresholds_belong_to_the_worse_side_and_sums_are_not_negative() -> None:
    assert [aim.points("latency", value) for value in (0.0099, 0.010, 0.499, 0.500)] == [20, 10, -10, -20]
    assert [aim.points("download", value) for value in (9.9e5, 1e6, 1e8)] == [0, 5, 30]
    worst = aim.Line(latency=1, jitter=1, loss=1, download=0, increase=1)
    assert {score.of(worst) for score in aim.SCORES.values()} == {0}
    gaming = aim.SCORES["gaming"]
    assert [gaming.name_of(total) for total in (0, 5, 15, 25, 30)] == list(aim.NAMES)


def test_a_limit_belongs_to_the_better_grade() -> None:
    increases_ms = (-1, 5, 5.1, 30, 60, 200, 400, 401)
    grades = [bufferbloat.grade(ms / 1e3) for ms in increases_ms]
    assert grades == ["A+", "A+", "A", "A", "B", "C", "D", "F"]
