"""One law of verdict: the same runs, judged through a sweep file and through a study, give the same verdict,
the same interval to the bit and the same words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aqmlab.cli import study_text, sweep_text
from aqmlab.measures import Measure
from aqmlab.results.rule import AnyRule, anywhere, difference, every, falls, grows, mean_of, ratio
from aqmlab.results.variable import Measured
from aqmlab.stats import Evidence
from aqmlab.store import Store
from aqmlab.study import run as study
from aqmlab.study import seeds as study_seeds
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import Claim, Study, StudyResult
from aqmlab.sweep import claims as sweep_claims
from aqmlab.sweep import file as sweep_file
from aqmlab.sweep.claims import Judged
from aqmlab.sweep.run_sweep import run_sweep

TIME, BUSY = "web.mean-time", "bottleneck.utilisation"
QUEUES, LOADS, SEEDS = ["red", "short"], [0.2, 0.3, 0.4], 4

PAIR = 'ratio = { queue = ["short", "red"] }'

CLAIMS: Mapping[str, str] = {
    "one number": f'measure = "{BUSY}"\nat = {{ queue = "red", load = 0.3 }}\nabove = 30',
    "ratio": f'measure = "{TIME}"\n{PAIR}\nat = {{ load = 0.4 }}\nbelow = 1',
    "difference": f'measure = "{BUSY}"\ndifference = {{ queue = ["short", "red"] }}\nwithin = [-2, 2]',
    "grows": f'grows = {{ measure = "{TIME}", along = {{ load = [0.2, 0.3, 0.4] }} }}',
    "falls": f'falls = {{ measure = "{BUSY}", along = {{ queue = ["red", "short"] }}, '
    'where = "load > 0.25" }',
    "all": f'all = [{{ measure = "{TIME}", {PAIR}, below = 2 }}, '
    f'{{ measure = "{BUSY}", at = {{ queue = "red" }}, at_least = 10 }}]',
    "all, one of which fails": f'all = [{{ measure = "{TIME}", {PAIR}, below = 2 }}, '
    f'{{ measure = "{BUSY}", at = {{ queue = "red" }}, at_least = 99.9 }}]',
    "any": f'any = [{{ measure = "{TIME}", {PAIR}, at_most = 0.1 }}, '
    f'{{ measure = "{BUSY}", at = {{ queue = "red" }}, at_least = 10 }}]',
    "any, all of which fail": f'any = [{{ measure = "{TIME}", {PAIR}, at_most = 0.01 }}, '
    f'{{ measure = "{BUSY}", at = {{ queue = "red" }}, at_most = 1 }}]',
    "undecided": f'measure = "{TIME}"\n{PAIR}\nat = {{ load = 0.4 }}\nwithin = [0.79, 0.8]',
}


def rules(time: Measured, busy: Measured) -> Mapping[str, AnyRule]:
    """The claims above, as a study has them."""
    pair = ratio(time, queue=("short", "red"))
    red = busy.at(queue="red")
    return {
        "one number": mean_of(busy.at(queue="red", load=0.3)) > 30,
        "ratio": ratio(time.at(load=0.4), queue=("short", "red")) < 1,
        "difference": difference(busy, queue=("short", "red")).within(-2, 2),
        "grows": grows(time, load=LOADS),
        "falls": falls(busy, queue=("red", "short")).where("load > 0.25"),
        "all": every(pair < 2, mean_of(red) >= 10),
        "all, one of which fails": every(pair < 2, mean_of(red) >= 99.9),
        "any": anywhere(pair <= 0.1, mean_of(red) >= 10),
        "any, all of which fail": anywhere(pair <= 0.01, mean_of(red) <= 1),
        "undecided": ratio(time.at(load=0.4), queue=("short", "red")).within(0.79, 0.8),
    }


def sweep_toml(scenario: Path, claims: Mapping[str, str], loads: Sequence[float], counts: str) -> str:
    tables = "\n".join(f'[[claims]]\nsays = "{name}"\n{rule}\n' for name, rule in claims.items())
    return f"""\
scenario = "{scenario.name}"
measures = ["{TIME}", "{BUSY}"]
first_seed = 3
{counts}
axes = {{ queue = {QUEUES}, "traffic.web.load" = {list(loads)} }}
{tables}"""


class Both:
    """A sweep file and a study with the same scenario, axes, seeds and measures, which share a store."""

    def __init__(
        self, scenario: Path, claims: Mapping[str, str], loads: Sequence[float], counts: str
    ) -> None:
        self.out = scenario.parent / "out"
        self.out.mkdir()
        path = scenario.parent / "one-law.toml"
        path.write_text(sweep_toml(scenario, claims, loads, counts))
        self.file = sweep_file.load(path)
        with Store(self.out / "store") as store:
            self.result = run_sweep(self.file.sweep, store, jobs=2)
        self.in_sweep = {one.claim.says: one for one in sweep_claims.judge(self.file.claims, self.result)}

    def experiment(self, **seeds: Any) -> Experiment:
        sweep = self.file.sweep
        return Experiment(
            name=sweep.name,
            title=sweep.name,
            scenario=sweep.scenario.given,
            axes=dict(sweep.axes),
            measures=list(sweep.wanted),
            first_seed=3,
            **seeds,
        )

    def study(self, experiment: Experiment, rules: Mapping[str, AnyRule], *, quick: bool) -> StudyResult:
        made = Study(
            name="one-law",
            title="One law",
            paper="",
            question="",
            experiments=(experiment,),
            figures=(),
            tables=(),
            claims=tuple(Claim(id=id, statement=id, source="", rule=rule) for id, rule in rules.items()),
            decisions=(),
            answer=lambda _: [],
        )
        before = self.stored()
        result = study.run(made, self.out, quick=quick, jobs=2)
        assert self.stored() == before, "the study judges the runs of the sweep, and makes none"
        return result

    def stored(self) -> int:
        """How many runs the store holds."""
        return Store(self.out / "store", read_only=True).runs().height


def measured(experiment: Experiment) -> tuple[Measured, Measured]:
    by_name: dict[str, Measure] = {one.name: one for one in experiment.measures}
    return experiment[by_name[TIME]], experiment[by_name[BUSY]]


def printed(judged: Judged, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a claim's parts, as `aqmlab sweep run` prints them."""
    capsys.readouterr()
    sweep_text.print_judged([judged])
    _, *lines = capsys.readouterr().out.splitlines()
    return lines


def check_alike(one: Judged, other: Evidence, capsys: pytest.CaptureFixture[str]) -> None:
    ours = one.evidence
    assert ours.verdict == other.verdict
    assert (ours.value, ours.low, ours.high) == (other.value, other.low, other.high)
    assert ours == other, "every part, with its level and its words"
    for line, part in zip(printed(one, capsys), other.parts or (other,), strict=True):
        assert line.split(maxsplit=1) == [part.verdict, study_text.decides(part)]


def test_the_same_runs_give_the_same_verdict_interval_and_words(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = Both(small, CLAIMS, LOADS, f"replications = {SEEDS}")
    experiment = both.experiment(seeds=SEEDS, quick=Form(seeds=SEEDS))
    result = both.study(experiment, rules(*measured(experiment)), quick=True)
    assert result.provenance["runs"] == both.result.frame.height
    assert {one.id for one in result.judged} == set(both.in_sweep) == set(CLAIMS)
    for one in result.judged:
        check_alike(both.in_sweep[one.id], one.evidence, capsys)
        assert both.in_sweep[one.id].claim.rule.text == one.claim.rule.text
    verdicts = {one.id: one.evidence.verdict for one in result.judged}
    assert verdicts["undecided"] == verdicts["grows"] == "undecided"
    assert verdicts["all, one of which fails"] == verdicts["any, all of which fail"] == "fails"
    assert verdicts["ratio"] == verdicts["all"] == verdicts["any"] == "holds"


@pytest.mark.parametrize("narrow", [[BUSY], [BUSY, TIME]])
def test_looks_of_a_sweep_and_of_a_study_cost_the_same(
    small: Path, narrow: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """No precision is reached and no claim is decided: both look four times, at 4, 8, 16 and 32 seeds."""
    most = SEEDS * study_seeds.GROWTH ** (study_seeds.LOOKS - 1)
    precision = f"absolute = 1e-9, growth = {study_seeds.GROWTH}, least = {SEEDS}, most = {most}"
    claims = {"near": f'measure = "{BUSY}"\nat = {{ queue = "red" }}\nwithin = [77, 79]'}
    both = Both(small, claims, LOADS[:1], f"precision = {{ {precision}, measures = {narrow} }}")
    assert both.file.sweep.precision is not None
    assert len(both.file.sweep.precision.rule.looks()) == study_seeds.LOOKS
    experiment = both.experiment(seeds=SEEDS, most_seeds=most)
    _, busy = measured(experiment)
    result = both.study(experiment, {"near": mean_of(busy.at(queue="red")).within(77, 79)}, quick=False)
    (judged,) = result.judged
    assert (judged.evidence.count, judged.evidence.level) == (most, 1 - 0.05 / study_seeds.LOOKS)
    check_alike(both.in_sweep["near"], judged.evidence, capsys)
