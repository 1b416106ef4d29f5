"""What studies share: changes of scenarios, and numbers told in words."""

from __future__ import annotations

import math
from typing import Any

import pytest
from study_checks import runs

from aqmlab.stats import Evidence, Verdict, mean_interval
from aqmlab.studies import shared


def evidence(**verdicts: Verdict) -> dict[str, Evidence]:
    return {claim: Evidence(verdict=verdict, measured="") for claim, verdict in verdicts.items()}


def test_the_tally_names_claims_that_do_not_hold() -> None:
    assert shared.tally(evidence(A="holds", B="holds")) == "Of 2 claims, 2 hold."
    mixed = evidence(A="fails", B="holds", C="undecided", D="fails")
    assert shared.tally(mixed) == "Of 4 claims, 1 hold, 2 fail (A, D), 1 stay undecided (C)."


def test_a_change_of_a_queue_leaves_queues_of_other_kinds_alone() -> None:
    def scenario(kind: str) -> dict[str, Any]:
        return {
            "bottleneck": {"queue": {"kind": kind, "gentle": True}},
            "tcp": {"connection": {"mss": "500B"}},
        }

    change = shared.queue_with("red", gentle=False)
    assert change(scenario("red"))["bottleneck"]["queue"] == {"kind": "red", "gentle": False}
    assert change(scenario("shred")) == scenario("shred")
    tcp = shared.tcp_with({"rto.tick": "10ms"})(scenario("red"))["tcp"]
    assert tcp == {"connection": {"mss": "500B"}, "rto": {"tick": "10ms"}}


def test_a_gain_is_in_percent_and_of_nothing_there_is_none() -> None:
    found = runs({"RED": {"time_s": [4.0, 0.0, 1.0]}, "SHRED": {"time_s": [3.0, 1.0, 2.0]}})
    gains = shared.gain(found, "time_s", "SHRED", "RED", [1, 2, 3])
    assert (gains[0], gains[2]) == (pytest.approx(25.0), pytest.approx(-100.0))
    assert math.isnan(gains[1])


def test_estimates_are_a_mean_and_both_ends() -> None:
    interval = mean_interval([1.0, 2.0, 3.0])
    table = shared.estimates([("RED", 0.5, interval)], by="queue", x="load")
    assert table.columns == ["queue", "load", "value", "low", "high"]
    assert table.row(0) == ("RED", 0.5, 2.0, interval.low, interval.high)
