"""What studies share: changes of scenarios, and numbers told in words."""

from __future__ import annotations

import dataclasses
from typing import Any

from small_study import STUDY

from aqmlab.stats import Evidence, Verdict, together
from aqmlab.studies import shared
from aqmlab.study.publication import Judged, Reading, Verdicts


def found(**verdicts: Verdict) -> Verdicts:
    return Verdicts(
        Judged(
            claim=dataclasses.replace(STUDY.claims[0], id=id),
            reading=Reading(name=""),
            evidence=Evidence(verdict=verdict, measured=""),
        )
        for id, verdict in verdicts.items()
    )


def test_several_verdicts_are_told_in_a_word_with_their_ids() -> None:
    several = found(A="holds", B="fails", C="undecided")
    assert shared.told(several, "A") == "yes (A)"
    assert shared.told(several, "A", "C") == "not decided (A, C)"
    assert shared.told(several, "A", "B", "C") == "no (A, B, C)"


def test_the_range_of_a_claim_is_that_of_each_thing_it_compares() -> None:
    parts = [
        Evidence(verdict="holds", measured="", what=what, value=value)
        for what, value in (("time", 0.5), ("time", 0.75), ("goodput", 1.0))
    ]
    assert shared.range_of(together(*parts)) == "time 0.5 to 0.75; goodput 1"


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
