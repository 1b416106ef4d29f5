"""Rules: where they are judged, and what several of them come to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from aqmlab.cli import study_text
from aqmlab.measures import Measure
from aqmlab.results.rule import (
    anywhere,
    compared,
    difference,
    every,
    falls,
    grows,
    mean_of,
    ratio,
    statistic,
    unpaired_ratio,
)
from aqmlab.results.table import Results, Row
from aqmlab.results.variable import per_seed
from aqmlab.stats import Interval
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Reading, Study

LOADS = (1, 2, 3)
TIME = Measure(name="time", title="time", unit="s", compute=lambda view: 0.0)
LOSS = Measure(name="loss", title="loss", compute=lambda view: 0.0)

tried = Experiment(
    name="tried",
    title="Tried",
    scenario={
        "duration": "10s",
        "bottleneck": {"rate": "1Mbps", "queue": {"kind": "drop-tail", "limit": "9p"}},
        "traffic": {"ftp": {"kind": "ftp", "flows": 1}},
    },
    axes={"traffic.ftp.flows": LOADS, "queue": ("red", "drop-tail")},
    measures=[TIME, LOSS],
)


def made(
    time: Callable[[int, str], float], loss: Callable[[int, str], float] = lambda flows, queue: 0.0
) -> dict[str, Results]:
    """Four seeds at every point; a value is that of the point and a little noise."""
    rows = [
        Row(
            labels={"flows": flows, "queue": queue},
            seed=seed,
            values={"time": time(flows, queue) + seed / 1000, "loss": loss(flows, queue) + seed / 1000},
        )
        for flows in LOADS
        for queue in ("red", "drop-tail")
        for seed in (1, 2, 3, 4)
    ]
    return {"tried": Results.of_rows(rows=tuple(rows), axes={"flows": LOADS, "queue": ("red", "drop-tail")})}


def test_rules_that_all_hold_somewhere_do_so_at_the_same_point() -> None:
    long, lossy = (mean_of(tried[one].at(queue="red")) > 5 for one in (TIME, LOSS))
    somewhere = anywhere(every(long, lossy))
    apart = made(lambda flows, _: 9.0 * (flows == 1), lambda flows, _: 9.0 * (flows == 2))
    assert somewhere.judge(apart).verdict == "fails"
    assert every(anywhere(long), anywhere(lossy)).judge(apart).verdict == "holds"
    found = somewhere.judge(made(lambda flows, _: 9.0 * (flows == 2), lambda flows, _: 9.0 * (flows == 2)))
    assert found.verdict == "holds"
    assert len(found.parts) == len(LOADS)
    assert "at some flows" in somewhere.text


def test_what_may_hold_anywhere_is_judged_at_a_level_for_the_number_of_its_parts() -> None:
    time = tried[TIME].at(queue="red")
    values = made(lambda flows, _: 1.0 * flows)
    edge = mean_of(time.at(flows=3)).interval(values).low
    alone, among = mean_of(time.at(flows=3)) > edge - 1e-9, mean_of(time) > edge - 1e-9
    assert alone.judge(values).verdict == anywhere(alone).judge(values).verdict == "holds"
    assert anywhere(among).judge(values).verdict == "undecided"
    found = anywhere(mean_of(time) > edge - 0.01).judge(values)
    assert (found.verdict, "the best of 3, each at 98.33 %" in found.measured) == ("holds", True)
    # All must fail for it to fail: no part is likelier to by being one of many.
    assert (
        anywhere(mean_of(time) > mean_of(time.at(flows=3)).interval(values).high).judge(values).verdict
        == "fails"
    )


def test_points_that_were_not_run_decide_nothing() -> None:
    somewhere = anywhere(every(mean_of(tried[TIME].at(queue="red")) > 5))
    (name,), (runs,) = zip(*made(lambda flows, _: 9.0 * (flows == 3)).items(), strict=True)
    few = runs.among(flows=(1, 2))
    assert somewhere.judge({name: runs}).verdict == "holds"
    assert somewhere.judge({name: few}).verdict == "fails"


def test_a_statistic_is_told_the_values_along_an_axis() -> None:
    told = []

    def finds(values: object, level: float) -> Interval:
        told.append(values)
        return Interval(value=1.0, low=0.9, high=1.1, count=4, level=level)

    rule = statistic("spread of time", finds, tried[TIME].at(queue="red").along("flows")) < 2
    assert rule.judge(made(lambda flows, _: flows)).verdict == "holds"
    assert told == [[[[flows + seed / 1000 for flows in LOADS] for seed in (1, 2, 3, 4)]]]


def study(*readings: Reading) -> Study:
    """Two claims, one of which hangs on the number of flows."""
    return Study(
        name="small",
        title="",
        paper="",
        question="",
        experiments=(tried,),
        figures=(),
        tables=(),
        claims=(
            Claim(id="A", statement="", source="", rule=ratio(tried[TIME], queue=("red", "drop-tail")) < 1),
            Claim(
                id="B",
                statement="",
                source="",
                rule=ratio(tried[TIME].averaged("flows"), queue=("red", "drop-tail")) < 1,
            ),
        ),
        decisions=(),
        answer=lambda _: [],
        readings=readings,
    )


def test_readings_that_make_no_difference_to_a_claim_are_one() -> None:
    few, many = (Reading(name=f"{count}", labels={"flows": count}, suffix=f"-{count}") for count in (1, 3))
    recorded = Reading(
        name="recorded", runs=lambda results: results, suffix="-r", leaves_out={"A": "not recorded"}
    )
    found = study(few, many, recorded)
    assert [one.name for one in found.readings_of(found.claims[0])] == ["1", "3"]
    assert [one.name for one in found.readings_of(found.claims[1])] == ["", "recorded"]


def test_a_reading_leaves_out_what_there_is() -> None:
    with pytest.raises(ValueError, match="small, recorded: excludes `C`, which is not a claim"):
        study(Reading(name="recorded", runs=lambda results: results, leaves_out={"C": "not recorded"}))


def test_evidence_of_an_average_tells_each_point_of_it_which_decides_nothing() -> None:
    slower_with_one = made(lambda flows, queue: {"red": 3.0 if flows == 1 else 1.0, "drop-tail": 2.0}[queue])
    averaged = ratio(tried[TIME].averaged("flows"), queue=("red", "drop-tail")) < 1
    found = averaged.judge(slower_with_one)
    assert found.verdict == "holds"
    assert (found.what, found.context, found.count) == (
        "time, ratio of red to drop-tail",
        "Tried, averaged over flows",
        4,
    )
    assert [(dict(one.where), one.verdict) for one in found.along] == [
        ({"flows": 1}, "fails"),
        ({"flows": 2}, "holds"),
        ({"flows": 3}, "holds"),
    ]
    at_each = ratio(tried[TIME], queue=("red", "drop-tail")) < 1
    (decides, *_) = parts = at_each.judge(slower_with_one).parts
    assert [(dict(one.where), one.verdict, one.along) for one in parts] == [
        (dict(one.where), one.verdict, ()) for one in found.along
    ]
    told = at_each.judge(slower_with_one)
    assert (told.verdict, told.where, told.band) == ("fails", decides.where, at_each.band)


def test_a_rule_says_of_which_values_it_is_judged_and_against_what_each() -> None:
    time = tried[TIME].at(queue="red")
    some = mean_of(time.among(flows=(1, 3))) < 5
    assert some.text == "Tried, queue = red, at each flows of 1, 3: time (s) must be below 5"
    beside_first = ratio(time.among(flows=(2, 3)), time.at(flows=1)) <= 2
    assert beside_first.text == (
        "Tried, queue = red, at each flows of 2, 3: time, ratio of each flows to the value with flows = 1 "
        "must be at most 2"
    )
    found = beside_first.judge(made(lambda flows, _: flows))
    assert [(dict(part.where), part.verdict) for part in found.parts] == [
        ({"flows": 2}, "holds"),
        ({"flows": 3}, "fails"),
    ]


def test_an_experiment_begins_with_the_seed_that_it_names() -> None:
    planned = dataclasses.replace(tried, first_seed=101, seeds=2)
    tasks = planned.plan(planned.sweep("full")).tasks({})
    assert {task.seed for _, task in tasks} == {101, 102}


def test_one_of_many_parts_fails_for_all_only_by_an_interval_that_allows_for_their_number() -> None:
    short = mean_of(tried[TIME].at(queue="red")) < 2

    def verdict(longest: float) -> str:
        # Seeds add 1 to 4 thousandths: the half-width is 2.1 of them at 95 %, and 3.1 for three parts.
        return short.judge(made(lambda flows, _: longest if flows == 3 else 1.0)).verdict

    half, wider = 0.00205, 0.0031
    assert verdict(2 - 0.0025 + 2 * wider) == "fails"
    assert verdict(2 - 0.0025 + (half + wider) / 2) == "undecided"
    assert verdict(2 - 0.0025 - 2 * wider) == "holds"
    everywhere = short.judge(made(lambda flows, _: 2 - 0.0025 + (half + wider) / 2))
    assert everywhere.verdict == "fails", "at all points, whatever their number"
    once = every(short.at({"flows": 3})).judge(made(lambda *_: 2 - 0.0025 + (half + wider) / 2))
    assert once.verdict == "fails", "of one part there is nothing to allow for"


def test_the_verdict_follows_from_the_intervals_that_are_shown() -> None:
    """One of three parts is outside of its band by the plain interval and not by that for three parts: the
    latter is shown, with its level, and meets the band."""
    half, wider = 0.00205, 0.0031
    short = mean_of(tried[TIME].at(queue="red")) < 2
    close = short.judge(made(lambda flows, _: 2 - 0.0025 + (half + wider) / 2 if flows == 3 else 1.0))
    assert [(one.verdict, one.wider) for one in close.parts] == [
        ("holds", False),
        ("holds", False),
        ("undecided", True),
    ]
    shown = close.parts[2]
    assert shown.low < 2 < shown.high
    assert shown.level == pytest.approx(1 - 0.05 / 3)
    assert "at 98.33 %" in shown.measured
    assert (close.low, close.high, close.level) == (shown.low, shown.high, shown.level)
    clear = short.judge(made(lambda flows, _: 2.1 if flows == 3 else 1.0))
    assert clear.verdict == "fails"
    assert (clear.low, clear.level) == (clear.parts[2].low, clear.parts[2].level)
    assert clear.parts[2].verdict == "fails"
    somewhere = anywhere(every(short.estimate > 5, short.estimate > 6)).judge(made(lambda flows, _: 9.0))
    assert {(inner.wider, round(inner.level, 4)) for one in somewhere.parts for inner in one.parts} == {
        (True, 0.9833)
    }
    everywhere = short.judge(made(lambda flows, _: 2.1))
    assert {one.level for one in everywhere.parts} == {0.95}, "all fail: each by the plain interval"


def test_values_with_several_modes_are_judged_by_their_median() -> None:
    bistable = {
        "tried": Results.of_rows(
            rows=tuple(
                Row(
                    labels={"flows": 1, "queue": "red"},
                    seed=seed,
                    values={"time": (1.0 if seed < 12 else 9.0) + seed / 1000, "loss": 0.0},
                )
                for seed in range(20)
            ),
            axes={"flows": LOADS, "queue": ("red", "drop-tail")},
        )
    }
    found = (mean_of(tried[TIME].at(queue="red", flows=1)) < 3).judge(bistable)
    assert found.median
    assert found.value == pytest.approx(1.009)
    assert found.verdict == "undecided", "the interval of the median reaches into the second group"


other = dataclasses.replace(tried, name="other", title="Other", first_seed=11)


def with_other_seeds() -> dict[str, Results]:
    """The runs of `tried`, and the same with the seeds 11 to 14."""
    runs = made(lambda flows, _: flows)["tried"]
    rows = tuple(dataclasses.replace(row, seed=row.seed + 10) for row in runs.rows)
    return {"tried": runs, "other": Results.of_rows(rows, runs.axes)}


def test_points_that_share_no_seed_decide_nothing_and_the_evidence_says_so() -> None:
    ours, theirs = (one[TIME].at(queue="red", flows=1) for one in (tried, other))
    share_none = "the compared points share no seed; available seeds: 1 to 4 and 11 to 14"
    both = per_seed("sum", lambda one, two: one + two, ours, theirs)
    for rule in (ratio(ours, theirs) < 1, difference(ours, theirs) < 1, mean_of(both) < 1):
        found = rule.judge(with_other_seeds())
        assert (found.verdict, found.count) == ("undecided", 0)
        assert found.lacks == share_none and found.measured.endswith(share_none)
    assert unpaired_ratio(ours, theirs).within(0.9, 1.1).judge(with_other_seeds()).verdict == "holds"


def test_of_several_parts_only_those_without_a_common_seed_have_no_number() -> None:
    results = with_other_seeds()
    rows = tuple(
        dataclasses.replace(row, seed=row.seed - 10) if row.labels["flows"] == 1 else row
        for row in results["other"].rows
    )
    mixed = {**results, "other": Results.of_rows(rows, results["other"].axes)}
    found = (ratio(tried[TIME].at(queue="red"), other[TIME].at(queue="red")) <= 1).judge(mixed)
    assert [(one.verdict, one.count, dict(one.where)) for one in found.parts] == [
        ("holds", 4, {"flows": 1}),
        ("undecided", 0, {"flows": 2}),
        ("undecided", 0, {"flows": 3}),
    ]
    assert found.verdict == "undecided"


@pytest.mark.parametrize("compare", [ratio, difference, unpaired_ratio])
def test_variables_of_different_units_are_not_compared(compare: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="`time` is in s and `loss` is a plain number: combine"):
        compare(tried[TIME], tried[LOSS])
    both = per_seed("time a loss", lambda time, loss: time / loss, tried[TIME], tried[LOSS], unit="s")
    compare(tried[TIME], both)


def test_variables_are_compared_with_each_of_several_values_of_an_axis() -> None:
    one_flow = tried.variables(TIME, LOSS, flows=1)
    chosen = compared(*one_flow, queue=("red", ["red", "drop-tail"]))
    pairs = [("red", "red"), ("red", "drop-tail")]
    each = [ratio(variable, queue=pair) for variable in one_flow for pair in pairs]
    assert [one.definition for one in chosen] == [one.definition for one in each]
    (left_open,) = compared(tried[TIME], queue=(None, ["red"]), by=difference)
    assert left_open.definition == difference(tried[TIME], tried[TIME].at(queue="red")).definition
    assert left_open.axes == ("flows", "queue")


def test_samples_are_paired_by_seed_and_are_what_the_estimate_is_of() -> None:
    results = made(lambda flows, queue: flows * (2.0 if queue == "red" else 1.0))
    both = ratio(tried[TIME], queue=("red", "drop-tail"))
    ours, theirs = both.samples(results, {"flows": 3})
    assert ours == pytest.approx([6.001, 6.002, 6.003, 6.004])
    assert theirs == pytest.approx([3.001, 3.002, 3.003, 3.004])
    assert both.interval(results, {"flows": 3}) == both.finds([ours, theirs], 0.95)


def test_an_alternative_without_a_point_decides_nothing() -> None:
    results = made(lambda flows, _: flows)
    nowhere = anywhere(mean_of(tried[TIME]).where("flows > 9") > 0).judge(results)
    assert (nowhere.verdict, nowhere.measured) == ("undecided", "no point of these runs is compared")


def test_growth_is_judged_from_each_value_to_the_next() -> None:
    red = tried[TIME].at(queue="red")
    assert grows(red, flows=LOADS).text == (
        "Tried, queue = red: time, ratio of the value with flows = 2 to the value with flows = 1 must be "
        "above 1; time, ratio of the value with flows = 3 to the value with flows = 2 must be above 1"
    )
    upwards = made(lambda flows, _: flows)
    assert grows(red, flows=LOADS).judge(upwards).verdict == "holds"
    assert falls(red, flows=LOADS).judge(upwards).verdict == "fails"
    assert falls(red, flows=(3, 1)).judge(upwards).verdict == "holds"
    with pytest.raises(ValueError, match="flows: must have at least two values to compare"):
        grows(red, flows=(1,))


def test_misspelt_axes_and_values_are_answered_with_the_nearest() -> None:
    time = tried[TIME]
    for wrong, told in (
        (lambda: time.at(flwos=1), "tried: no axis is named `flwos`: did you mean flows?"),
        (lambda: time.at(queue="rde"), "tried: queue has no value 'rde': did you mean 'red'?"),
        (lambda: time.at(flows=9), "tried: flows has no value 9: available: 1, 2, 3"),
        (lambda: time.averaged("queu"), "time: no axis is named `queu`: did you mean queue?"),
        (lambda: time.at(flows=1).at(flows=2), "time: no free axis is named `flows`: available: queue"),
        (lambda: mean_of(time).where("flwos > 1"), "where: no axis is called `flwos`: did you mean flows?"),
        (lambda: mean_of(time).where("flows >"), "where: must be an SQL condition"),
    ):
        with pytest.raises(ValueError) as error:
            wrong()  # type: ignore[no-untyped-call]
        assert str(error.value).startswith(told)


def test_a_printed_claim_says_why_it_has_no_number() -> None:
    found = (ratio(tried[TIME], other[TIME]).at(queue="red", flows=1) < 1).judge(with_other_seeds())
    assert study_text.decides(found) == (
        "the compared points share no seed; available seeds: 1 to 4 and 11 to 14  "
        "time, ratio of Tried to Other, claimed below 1"
    )
