"""Output of tests of responsiveness for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def lines(traffic: str, test: Mapping[str, Any]) -> Iterator[str]:
    """Yields the results of a test. `test` is the test's part of a run's summary."""
    from aqmlab.metrics import aim, bufferbloat
    from aqmlab.metrics.responsiveness import category

    idle = f": idle latency {_ms(test['idle_latency_s'])}, jitter {_ms(test['jitter_s'])}"
    yield f"  test {traffic}{'' if test['idle_latency_s'] is None else idle}"
    for direction, row in test["directions"].items():
        rpm = row["rpm"]
        if rpm is None:
            yield f"    {direction}: the run is too short for a result"
            continue
        yield (
            f"    {direction}: {rpm:.0f} RPM ({category(rpm)}; confidence {row['confidence']}), "
            f"{row['rate_bps'] * 1e-6:.4g} Mbps, latency {_ms(row['latency_s'])}"
        )
    if test["increase_s"] is not None:
        grade = bufferbloat.grade(test["increase_s"])
        yield f"    bufferbloat: grade {grade}, latency increased by {_ms(test['increase_s'])}"
    if test["loss"] is not None:
        scores = ", ".join(f"{name} {_score(value)} %" for name, value in test["outcome"].items())
        yield f"    quality of outcome: {scores}; {100 * test['loss']:.3g} % of the echoes lost"
    points = {name: value for name, value in test["aim"].items() if value is not None}
    if points:
        named = (f"{name} {value} ({aim.SCORES[name].name_of(value)})" for name, value in points.items())
        yield f"    AIM: {', '.join(named)}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.4g} ms"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
