"""`aqmlab advise`: uses, candidates, constraints, the choice by the law of verdict, and the command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import aqmlab as al
from aqmlab import advice, stats
from aqmlab.advice import candidates, choice, constraints, links, uses
from aqmlab.advice.choice import GOODPUT
from aqmlab.advice.uses import Score
from aqmlab.cli.app import app
from aqmlab.measures import Quantity
from aqmlab.results.table import Results, Row

SHORT: dict[str, Any] = {
    "duration": "10s",
    "warm_up": "2s",
    "bottleneck": {"rate": "5Mbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "200p"}},
    "traffic": {
        "pages": {"kind": "web", "load": 0.2},
        "files": {"kind": "ftp", "flows": 2},
        "talk": {"kind": "call"},
    },
}

BOTH = {**SHORT, "bottleneck": {**SHORT["bottleneck"], "reverse": {"queue": {"kind": "drop-tail"}}}}

WEB = Score(use="web", traffic="p", measure="p.mean-page", title="page time", unit="s", more_is_better=False)
CALLS = Score(use="calls", traffic="c", measure="c.mos", title="opinion", unit="", more_is_better=True)


@pytest.fixture(scope="module")
def scenario() -> al.Scenario:
    return al.Scenario.from_dict(SHORT, name="short")


def results(**queues: list[tuple[float, float]]) -> Results:
    """A table with the page times and the opinion scores of each queue by seed."""
    rows = [
        Row(
            labels={"queue": name},
            seed=seed,
            values={WEB.measure: page, CALLS.measure: mos, GOODPUT: 5.0},
        )
        for name, runs in queues.items()
        for seed, (page, mos) in enumerate(runs)
    ]
    return Results.of_rows(rows, {"queue": tuple(queues)})


def around(page: float, mos: float = 4.0, spread: float = 0.01) -> list[tuple[float, float]]:
    return [(page + spread * (seed % 5 - 2), mos + 0.001 * (seed % 3)) for seed in range(10)]


def chosen(table: Results, *limits: str) -> advice.Advice:
    found = [one for text in limits for one in constraints.parsed(text, [WEB, CALLS])]
    return choice.judge(table, [WEB, CALLS], found, 0.05, uses=1)


def test_the_next_use_decides_if_no_queue_improves_the_first() -> None:
    table = results(today=around(2.0, mos=3.0), a=around(2.0, mos=4.0))
    found = choice.judge(table, [WEB, CALLS], [], 0.05, uses=2)
    assert (found.outcome, found.best, found.objective) == ("change", "a", CALLS)
    assert found.unimproved == (WEB,)
    assert advice.sentences(found)[0].startswith("No candidate improves the measure p.mean-page")
    assert choice.judge(table, [WEB, CALLS], [], 0.05, uses=1).outcome == "keep"


def test_the_clearly_best_queue_is_named_with_its_gain() -> None:
    found = chosen(results(today=around(2.0), a=around(1.0), b=around(1.5)))
    assert (found.outcome, found.best) == ("change", "a")
    assert found.rivals == {"today": "better", "b": "better"}
    gain = found.of("a").gains[WEB.measure]
    assert gain.value == pytest.approx(1.0)
    assert found.to_dict()["queues"][1]["gains"][WEB.measure]["mean"] == pytest.approx(1.0)


def test_nothing_helps_if_no_candidate_is_better_than_the_tolerance() -> None:
    found = chosen(results(today=around(2.0), a=around(1.99), b=around(3.0)))
    assert (found.outcome, found.best) == ("keep", "today")
    text = " ".join(advice.sentences(found))
    assert "no candidate improves the measure p.mean-page (page time) by more than 5 %" in text


def test_overlapping_intervals_are_undecided() -> None:
    noisy = [(2.0 + (-1) ** seed * (0.5 + 0.1 * seed), 4.0) for seed in range(6)]
    found = chosen(results(today=around(2.0)[:6], a=noisy))
    assert found.outcome == "undecided"
    assert "do not decide" in " ".join(advice.sentences(found))


def test_an_equal_queue_is_named_beside_the_best_one() -> None:
    found = chosen(results(today=around(2.0), a=around(1.0), b=around(1.02)))
    assert found.outcome == "change"
    assert found.rivals["b"] == "equal"
    assert "b is as good as a" in " ".join(advice.sentences(found))


def test_a_queue_that_violates_a_constraint_is_not_chosen() -> None:
    table = results(today=around(2.0, 4.2), a=around(1.0, 3.0), b=around(1.5, 4.2))
    assert chosen(table).best == "a"
    assert chosen(table, "calls >= 4").best == "b"
    assert chosen(table, "calls >= 90%").best == "b"
    nothing = chosen(table, "calls >= 4.5")
    assert (nothing.outcome, nothing.best) == ("impossible", None)


def test_an_undecided_constraint_does_not_lead_to_a_recommendation() -> None:
    close = [(1.0 + 0.01 * seed, 4.0 + (-1) ** seed * 0.2) for seed in range(10)]
    found = chosen(results(today=around(2.0, 3.0), a=close), "calls >= 4")
    assert found.of("a").admissible == "undecided"
    assert (found.outcome, found.best) == ("undecided", "a")


def test_a_score_of_zero_today_is_no_worse_than_zero() -> None:
    limit = constraints.no_worse(WEB, 0.05)
    assert stats.verdict(stats.mean_interval(limit.excess([0.0] * 5, [0.0] * 5)), limit.band) == "holds"
    assert stats.verdict(stats.mean_interval(limit.excess([1.0, 1.1, 1.2], [0.0] * 3)), limit.band) == "fails"


def test_todays_queue_is_never_worse_than_itself() -> None:
    noisy = [(page, 4.0) for page in (1.0, 9.0, 1.0, 9.0, 1.0)]
    found = choice.judge(
        results(today=noisy, a=noisy), [WEB, CALLS], [constraints.no_worse(WEB, 0.05)], 0.05, uses=2
    )
    assert found.of("today").admissible == "holds"
    assert found.of("a").admissible == "undecided"
    more = constraints.parsed("calls >= 110%", [CALLS])
    assert choice.judge(results(today=noisy, a=noisy), [CALLS], more, 0.05, uses=1).outcome == "impossible"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1, 2, "better"), (-2, -1, "worse"), (-0.1, 0.1, "equal"), (-1, 2, "undecided"), (0.01, 0.09, "equal")],
)
def test_relations(low: float, high: float, expected: str) -> None:
    gain = stats.Interval(value=(low + high) / 2, low=low, high=high, count=5)
    assert choice.relation(gain, 0.1) == expected


def test_uses_find_their_measures(scenario: al.Scenario) -> None:
    found = uses.scores(uses.recorded(scenario), "web,calls,downloads")
    assert [one.measure for one in found] == ["pages.mean-page", "talk.mos", "files.goodput"]
    assert [one.more_is_better for one in found] == [False, True, True]
    [only] = uses.scores(uses.recorded(scenario), "games=talk")
    assert only.measure == "talk.p99-delay"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"uses": ["wbe"]}, "--for: no use is named `wbe`: did you mean web"),
        (
            {"uses": ["video"]},
            "which short does not have; available: web (pages), calls (talk), downloads (files)",
        ),
        ({"uses": ["web=nobody"]}, "--for web=nobody: no workload is named `nobody`"),
        ({"uses": []}, "--for: must name at least one use"),
        ({"queues": ["shred"]}, "--queues: Linux has no queue `shred`"),
        ({"queues": ["codel", "codel"]}, "--queues"),
        ({"subject_to": ["calls above 4"]}, "--subject-to: must be NAME >= NUMBER"),
        ({"subject_to": ["nothing >= 4"]}, "no use or measure is named `nothing`"),
        ({"subject_to": ["web >= B"]}, "the limit of `web` must be a number, because only the grade of"),
        ({"uses": ["qoo-wbe"]}, "--for: no use is named `qoo-wbe`: did you mean qoo-web"),
        ({"uses": ["bufferbloat"]}, 'needs a workload with kind = "responsiveness"'),
        ({"precision": 2.0}, "--precision: must be between 0 and 1"),
        ({"most": 2}, "--most: must be at least 5"),
        ({"at": ["nowhere"]}, "no managed link is named `nowhere`"),
    ],
)
def test_invalid_questions_are_refused(scenario: al.Scenario, changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"scenario": scenario, "uses": ["web"], **changes}
    with pytest.raises(ValueError, match=r"\w") as error:
        advice.Question(**fields)
    assert message in str(error.value)


def test_candidates_replace_the_queues_of_the_chosen_links() -> None:
    scenario = al.Scenario.from_dict(BOTH, name="both")
    question = advice.Question(scenario=scenario, uses=["web"], queues=["codel", "pfifo-100"])
    assert question.links == ["bottleneck", "bottleneck-back"]
    changed = candidates.with_candidates(scenario, question.same_at_all_links["codel"])
    assert {link["queue"]["kind"] for _, link in changed.links.values()} == {"codel"}
    assert candidates.with_candidates(scenario, question.same_at_all_links["today"]).digest == scenario.digest
    short = candidates.with_candidates(scenario, {"bottleneck": "pfifo-100", "bottleneck-back": "today"})
    assert next(link["queue"]["limit"] for _, link in short.links.values()) == "100p"


def test_the_default_candidates_can_be_built(scenario: al.Scenario) -> None:
    for name in candidates.names_of(scenario, ()):
        assert candidates.with_candidates(scenario, {"bottleneck": name}).digest


TEST: dict[str, Any] = {
    "duration": "20s",
    "bottleneck": {
        "rate": "10Mbps",
        "delay": "10ms",
        "queue": {"kind": "drop-tail", "limit": "400p"},
        "reverse": {"rate": "10Mbps", "queue": {"kind": "drop-tail", "limit": "400p"}},
    },
    "traffic": {
        "test": {"kind": "responsiveness", "directions": "download", "interval": "500ms", "limit": "6s"}
    },
}


def test_the_grade_and_the_quality_of_outcome_are_uses_and_constraints() -> None:
    scenario = al.Scenario.from_dict(TEST, name="test")
    found = uses.scores(scenario, "bufferbloat,qoo-gaming")
    assert [(one.measure, one.more_is_better) for one in found] == [
        ("test.grade", False),
        ("test.qoo-gaming", True),
    ]
    question = advice.Question(
        scenario=scenario,
        uses=["qoo-web"],
        queues=["fq-codel"],
        subject_to=["bufferbloat >= B", "qoo-gaming >= 50"],
        most=5,
        same=True,
    )
    grade, gaming = question.constraints
    assert (grade.limit, grade.at_least, gaming.limit, gaming.at_least) == (2, False, 50, True)
    answer, _ = advice.advise(question)
    assert answer is not None
    assert (answer.final.outcome, answer.common) == ("change", "fq-codel")
    assert answer.same.of("today").admissible == "fails"


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("bufferbloat >= E", "no grade is named `E`; available: A+, A, B, C, D, F"),
        ("bufferbloat <= B", "write 'bufferbloat >= B' for the grade B or better"),
        ("qoo-web >= A", "the limit of `qoo-web` must be a number"),
    ],
)
def test_invalid_grades_are_refused(limit: str, message: str) -> None:
    scenario = al.Scenario.from_dict(TEST, name="test")
    with pytest.raises(ValueError, match="--subject-to") as error:
        advice.Question(scenario=scenario, uses=["responsiveness"], subject_to=[limit])
    assert message in str(error.value)


def invoke(path: Path, *words: str) -> Any:
    options = ["--store", str(path.parent / "store"), "--out", str(path.parent / "out"), "--pictures", "svg"]
    return CliRunner().invoke(app, ["advise", str(path), *words, *options])


def test_the_command_names_the_best_queue_and_continues_from_the_store(
    scenario: al.Scenario, tmp_path: Path
) -> None:
    path = tmp_path / "short.toml"
    path.write_text(scenario.to_toml(), encoding="utf-8")
    words = ("--for", "calls,web", "--queues", "fq-codel,pfifo-1000", "--most", "5")
    text = invoke(path, *words)
    assert text.exit_code == 0, text.output
    assert "Use fq-codel. The measure talk.mos (talk mean opinion score, mean) changes from" in text.stdout
    again = invoke(path, *words, "--json")
    found = json.loads(again.stdout)
    assert (found["outcome"], found["best"]) == ("change", "fq-codel")
    assert [one["queue"] for one in found["queues"]] == ["today", "fq-codel", "pfifo-1000"]
    assert {one["runs"] for one in found["queues"]} == {5}
    [commands] = found["tc"].values()
    assert any(line.endswith("fq_codel") or " fq_codel " in line for line in commands["lines"])
    assert commands["undo"] == ["tc qdisc del dev eth0 root"]
    assert "tc qdisc add dev eth0" in text.stdout
    plotted = pl.read_csv(tmp_path / "out" / "trade-off.csv")
    assert plotted.height == 3 * 2
    assert (tmp_path / "out" / "trade-off.svg").is_file()
    with al.Store(tmp_path / "store", read_only=True) as store:
        assert store.runs().height == 3 * 5


def test_both_directions_of_a_dumbbell_have_one_set_of_commands() -> None:
    question = advice.Question(scenario=al.Scenario.from_dict(BOTH), uses=["web"], queues=["cake", "codel"])
    queues = {"bottleneck": "codel", "bottleneck-back": "cake"}
    [commands] = advice.commands(question, queues, "wan0").values()
    lines = "\n".join(commands.lines)
    assert (lines.count(" cake "), lines.count(" codel ")) == (1, 1)
    assert "tc filter add dev wan0 ingress" in lines
    assert "netem" not in lines
    [(link, one)] = advice.commands(question, {**queues, "bottleneck": "today"}, "wan0").items()
    assert (link, "\n".join(one.lines).count(" cake ")) == ("bottleneck-back", 1)


NAMES = ("today", "a", "b")
BASE = {"down": "a", "up": "a"}


def of_links(**changed: list[tuple[float, float]]) -> tuple[links.LinkChoice, ...]:
    """The choices at two links. `down_b` contains the runs with the queue `b` at the link `down`, and so on.
    Without such runs, a queue is as good as `a` at the other link."""
    runs = {"today": around(2.0), "a": around(1.0)}
    for link in BASE:
        for name in ("today", "b"):
            label = links.label({**BASE, link: name})
            runs[label] = changed.pop(f"{link}_{name}", around(1.01))
    limits = constraints.parsed("calls >= 3.5", [CALLS])
    assert not changed
    return links.choices(results(**runs), BASE, NAMES, [WEB, CALLS], limits, 0.05, uses=1)


def test_each_link_gets_the_queue_that_is_better_at_this_link() -> None:
    down, up = of_links(up_b=around(0.5), up_today=around(1.9))
    assert (down.outcome, down.best) == ("any", "today")
    assert (up.outcome, up.best) == ("other", "b")
    assert up.comparisons["b"].gain.value == pytest.approx(0.5)
    assert up.comparisons["today"].relation == "worse"
    assert not up.is_undecided
    assert json.loads(json.dumps(up.to_dict()))["queues"][2]["comparison"]["relation"] == "better"


def test_a_link_keeps_the_common_queue_if_all_other_queues_are_worse_or_violate_a_constraint() -> None:
    down, up = of_links(
        down_today=around(1.8), down_b=around(1.5), up_today=around(1.8), up_b=around(0.5, mos=2.0)
    )
    assert (down.outcome, down.best) == ("base", "a")
    assert (up.outcome, up.best) == ("base", "a")
    assert up.related("better") == []
    assert down.related("worse") == ["today", "b"]


def test_a_link_keeps_todays_queue_only_if_another_link_gets_a_new_queue() -> None:
    found = of_links(up_today=around(1.03))
    assert [one.best for one in found] == ["today", "today"]
    down, up = links.without_return(found)
    assert (down.best, up.best, up.outcome) == ("today", "a", "base")


def test_a_combination_of_changes_must_be_as_good_as_the_common_queue() -> None:
    changed = {"down": "today", "up": "b"}

    def as_good(page: float) -> bool:
        table = results(today=around(2.0), a=around(1.0), **{links.label(changed): around(page)})
        return links.is_as_good(table, changed, BASE, [WEB, CALLS], [], 0.05, uses=1)

    assert as_good(0.9)
    assert as_good(1.02)
    assert not as_good(1.5)


def recommended(found: tuple[links.LinkChoice, ...]) -> str:
    """The text about a recommendation."""
    queues = {one.link: one.best for one in found}
    table = results(today=around(2.0), **{links.label(queues): around(0.9)})
    final = links.judged(table, queues, [WEB, CALLS], [], 0.05, uses=1)
    same = chosen(results(today=around(2.0), a=around(1.0), b=around(1.5)))
    whole = advice.Recommendation(same=same, links=found, queues=queues, final=final, tried=7, possible=9)
    assert final.outcome == "change"
    parts = [advice.of_first_step(whole), *(advice.of_link(one, whole) for one in found)]
    return " ".join(line for part in [*parts, advice.of_recommendation(whole)] for line in part)


def test_the_sentences_describe_each_link_and_what_was_not_tried() -> None:
    text = recommended(of_links(up_b=around(0.5), up_today=around(1.9)))
    assert "At all links together, a is the best queue." in text
    assert "At down, the queue does not matter: all queues are as good as a, within 5 %" in text
    assert "At up, b is better than a: the measure p.mean-page improves by 0.5" in text
    assert "Only up needs another queue. Use b at up and today's queue at down." in text
    assert "Tried: 7 of the 9 combinations" in text
    assert "The other 2 combinations were not tried." in text
    same = recommended(
        of_links(**{f"{link}_{name}": around(1.8) for link in BASE for name in ("today", "b")})
    )
    assert "At down, no other queue is better than a. Today's queue and b are worse." in same
    assert "The same queue serves all links: a. Use a." in same


def test_each_step_has_other_seeds_and_the_same_queue_at_all_links_can_be_required() -> None:
    question = advice.Question(scenario=al.Scenario.from_dict(BOTH), uses=["web"], queues=["cake"], most=7)
    seeds = [
        {point.first_seed for point in question.sweep(question.same_at_all_links, step).points()}
        for step in range(links.STEPS)
    ]
    assert seeds == [{1}, {8}, {15}]
    assert question.is_separate
    assert not replace(question, same=True).is_separate
    assert not replace(question, at=["bottleneck"]).is_separate


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_third_step_compares_the_changes_of_several_links_together(
    penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The queue `c` is the best common queue, but `b` is better for downloads and `a` for uploads. With a
    # penalty, `b` and `a` are good only beside `c`.
    saved = {"bottleneck": {"b": 0.5, "c": 0.4, "a": 0.1}, "bottleneck-back": {"a": 0.5, "c": 0.4, "b": 0.1}}

    def page(queues: Mapping[str, str]) -> float:
        extra = penalty if list(queues.values()) == ["b", "a"] else 0.0
        return 2.0 - sum(saved[link].get(name, 0.0) for link, name in queues.items()) + extra

    def run(progress: advice.run.Progress, combinations: Mapping[str, Mapping[str, str]]) -> Results:
        measure = progress.question.scores[0].measure
        progress.results.append(
            Results.of_rows(
                [
                    Row(labels={"queue": name}, seed=seed, values={measure: value, GOODPUT: 5.0})
                    for name, queues in combinations.items()
                    for seed, (value, _) in enumerate(around(page(queues), spread=0.002))
                ],
                {"queue": tuple(combinations)},
            )
        )
        progress.tried |= combinations
        return progress.results[-1]

    monkeypatch.setattr(advice.run.Progress, "run", run)
    own = {name: {"kind": "codel", "target": f"{number}ms"} for number, name in enumerate("abc", start=1)}
    scenario = al.Scenario.from_dict({**BOTH, "queues": own}, name="both")
    question = advice.Question(scenario=scenario, uses=["web"], queues=list("abc"), tolerance=0.01)
    found, steps = advice.advise(question)
    assert found is not None
    assert (len(steps), found.tried, found.possible) == (3, 11, 16)
    assert found.base == {"bottleneck": "c", "bottleneck-back": "c"}
    text = " ".join(advice.of_recommendation(found))
    if penalty:
        assert found.common == "c"
        assert found.rejected == {"bottleneck": "b", "bottleneck-back": "a"}
        assert "The runs do not show that b at bottleneck (download)" in text
    else:
        assert found.queues == {"bottleneck": "b", "bottleneck-back": "a"}
        assert "Use b at bottleneck (download) and a at bottleneck-back (upload)." in text
    assert found.final.outcome == "change"
    assert found.final.assessments[1].means[question.scores[0].measure].value == pytest.approx(
        page(found.queues), abs=0.01
    )


def test_the_queue_of_each_direction_is_searched() -> None:
    # The upload fills the buffer of its direction. The download direction is never full.
    table = {
        **SHORT,
        "bottleneck": {
            "rate": "100Mbps",
            "delay": "20ms",
            "queue": {"kind": "drop-tail", "limit": "1000p"},
            "reverse": {"rate": "2Mbps", "queue": {"kind": "drop-tail", "limit": "200p"}},
        },
        "traffic": {"up": {"kind": "ftp", "flows": 1, "from": "right"}, "talk": {"kind": "call"}},
    }
    question = advice.Question(
        scenario=al.Scenario.from_dict(table, name="up"), uses=["calls"], queues=["fq-codel"], most=5
    )
    found, steps = advice.advise(question)
    assert found is not None
    assert found.queues == {"bottleneck": "today", "bottleneck-back": "fq-codel"}
    assert (found.tried, found.possible, len(steps)) == (4, 4, 2)
    down, up = found.links
    assert (down.outcome, up.outcome) == ("any", "base")
    text = advice.of_recommendation(found)
    assert text[0] == "Only bottleneck-back (upload) needs another queue."
    assert text[-1] == "All 4 combinations of the queues were tried."
    assert json.loads(json.dumps(found.to_dict()))["best_by_link"] == found.queues


def test_a_queue_that_linux_does_not_have_has_no_commands(scenario: al.Scenario, tmp_path: Path) -> None:
    own = scenario.with_({"queues.mine": {"kind": "stfq", "limit": "100p"}})
    path = tmp_path / "own.toml"
    path.write_text(own.to_toml(), encoding="utf-8")
    result = invoke(path, "--for", "calls", "--queues", "mine", "--most", "5")
    assert result.exit_code == 0, result.output
    assert "Use mine." in result.stdout
    assert "no commands of tc" in result.stderr
    assert "--device" in str(invoke(path, "--for", "calls", "--device", "a;b").exception)


def test_units_of_the_goodput(scenario: al.Scenario) -> None:
    measure = advice.run.goodput(list(scenario.workloads))
    assert isinstance(measure, Quantity)
    from aqmlab.measures import View

    value = measure.compute(View(scenario.run()))
    assert 3 < value < 5.5
