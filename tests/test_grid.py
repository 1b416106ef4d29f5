"""Sweeps: their points, and what their runs were reduced to."""

from __future__ import annotations

from small_study import MAIN

from aqmlab.grid import Row, Runs


def test_a_sweep_is_the_product_of_its_axes() -> None:
    assert MAIN.points() == [
        {"queue": "RED", "load": 0.5},
        {"queue": "RED", "load": 1.0},
        {"queue": "SHRED", "load": 0.5},
        {"queue": "SHRED", "load": 1.0},
    ]
    assert MAIN.points(quick=True) == [{"queue": "RED", "load": 1.0}, {"queue": "SHRED", "load": 1.0}]
    assert (MAIN.replications(), MAIN.replications(quick=True)) == (4, 2)


def test_runs_pair_by_seed_and_a_missing_partner_is_nan() -> None:
    measured = {
        ("a", 1, 1): 1.0,
        ("a", 2, 1): 3.0,
        ("a", 1, 2): 5.0,
        ("a", 2, 2): 7.0,
        ("b", 1, 1): 10.0,
        ("b", 2, 1): 20.0,
        ("b", 1, 2): 30.0,
    }
    rows = [
        Row(labels={"queue": queue, "load": load}, seed=seed, values={"m": value})
        for (queue, load, seed), value in measured.items()
    ]
    ours, theirs = Runs(rows=tuple(rows)).pair("m", {"queue": "a"}, {"queue": "b"})
    assert ours == [2.0, 6.0]
    assert theirs[0] == 15.0
    assert theirs[1] != theirs[1], "a seed with a failed run must not be averaged over fewer loads"
