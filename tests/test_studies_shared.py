"""What studies share: changes of scenarios, rules, forms, and small computations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aqmlab.results.rule import every, ratio
from aqmlab.studies import shared
from aqmlab.studies.shred import measures, web_only
from aqmlab.study.experiment import Form


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


def test_less_compares_each_variable_with_each_other_queue_under_one_queue_or_under_all() -> None:
    time, tail = web_only[measures.MEAN_TIME], web_only[measures.P90]
    one = shared.less(time, tail, queue="SHRED", than=("RED", "Drop Tail"))
    pairs = [ratio(of, queue=("SHRED", other)) < 1 for of in (time, tail) for other in ("RED", "Drop Tail")]
    assert one.definition == every(*pairs).definition
    open_axis = shared.less(time, than=["RED"])
    assert open_axis.definition == every(ratio(time, time.at(queue="RED")) < 1).definition
    assert open_axis.variables[0].axes == ("queue",)


def test_forms_are_three_seeds_and_variants_only_where_they_are_asked_for() -> None:
    assert shared.forms({"load": (0.5,)}) == {"quick": Form(seeds=3, axes={"load": (0.5,)})}
    tried = shared.forms(variants={"load": (0.7,)}, seeds=2)
    assert tried["varied"] == Form()
    assert tried["varied_quick"] == Form(seeds=2, axes={"load": (0.7,)})


def test_a_quantile_of_nothing_is_no_number() -> None:
    assert shared.quantile(np.array([3.0, 1.0, 2.0]), 0.5) == 2.0
    assert math.isnan(shared.quantile(np.array([]), 0.5))
