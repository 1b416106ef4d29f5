"""Studies as TOML files: the example of the guide, other queues and senders, one claim, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S

from aqmlab import studies
from aqmlab.scenario import ScenarioFileError
from aqmlab.study import Study, queues
from aqmlab.study import file as study_file
from aqmlab.study import new as new_study
from aqmlab.study import points as study_points
from aqmlab.study import run as study_run

SCENARIO = """
duration = "6s"
warm_up = "1s"
[bottleneck]
rate = "2Mbps"
delay = "10ms"
queue = { kind = "drop-tail", limit = "50p" }
[traffic.bulk]
kind = "ftp"
flows = 2
[traffic.web]
kind = "web"
load = 0.2
"""

MINI = """
title = "Bufferbloat in miniature"
scenario = "line.toml"
replications = 3
quick = { replications = 2 }
measures = ["web.mean-time", "bulk.goodput"]
[axes."bottleneck.queue"]
20p = { kind = "drop-tail", limit = "20p" }
100p = { kind = "drop-tail", limit = "100p" }
FQ-CoDel = { kind = "fq-codel" }
[[claims]]
says = "Mean Web object time grows with the buffer."
grows = { measure = "web.mean-time", along = { queue = ["20p", "100p"] } }
[[claims]]
says = "FQ-CoDel is faster, at no more than 2 % loss of goodput."
all = [
    { measure = "web.mean-time", ratio = { queue = ["FQ-CoDel", "100p"] }, at_most = 0.6 },
    { measure = "bulk.goodput", ratio = { queue = ["FQ-CoDel", "100p"] }, at_least = 0.98 },
]
[[figures]]
measure = "web.mean-time"
[[tables]]
measures = ["web.mean-time", "bulk.goodput"]
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    (tmp_path / "line.toml").write_text(SCENARIO)

    def write(text: str) -> Path:
        path = tmp_path / "mini.toml"
        path.write_text(text)
        return path

    return write


def quickly(study: Study, out: Path, **more: object) -> object:
    return study_run.run(study, out, quick=True, jobs=1, **more)  # type: ignore[arg-type]


def test_a_file_becomes_the_objects_that_python_makes(written: Callable[[str], Path]) -> None:
    study = studies.load(str(written(MINI)))
    assert (study.name, study.title, study.paper) == ("mini", "Bufferbloat in miniature", "")
    assert [one.id for one in study.claims] == ["C-1", "C-2"]
    assert [one.id for one in study.figures] == ["web-mean-time"]
    (experiment,) = study.experiments
    assert experiment.values("queue") == ("20p", "100p", "FQ-CoDel")
    assert {one.name for one in experiment.wanted} == {"web.mean-time", "bulk.goodput"}
    assert experiment.sweep("quick").replications == 2
    sides = "the value with queue = 100p to the value with queue = 20p"
    assert f"web time, mean, ratio of {sides} must be above 1" in study.claims[0].rule.text


def test_a_run_judges_draws_and_tabulates(written: Callable[[str], Path], tmp_path: Path) -> None:
    path = written(MINI)
    result = study_run.run(
        studies.load(str(path)), tmp_path / "out", quick=True, jobs=1, source=f"study run {path}"
    )
    assert result.failures == ()
    (drawn,) = result.drawn
    assert drawn.chart is not None and drawn.chart.kind == "bars"
    assert drawn.chart.table["queue"].to_list() == ["20p", "100p", "FQ-CoDel"]
    ((_, table),) = result.tables
    assert not isinstance(table, str)
    assert table.columns == ["queue", "web time, mean (s)", "bulk goodput (Mbps)"]
    page = result.report.read_text()
    assert f"aqmlab study run {path} --quick" in page
    for empty in ("Statement and source", "Decisions where", "rules.json", "The curves of the publication"):
        assert empty not in page
    assert result.verdicts == {one["id"]: one["verdict"] for one in claims_of(tmp_path / "out")}


def claims_of(out: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((out / "claims.json").read_text())["claims"]
    return found


def test_one_claim_or_one_figure_makes_only_the_runs_that_it_needs(
    written: Callable[[str], Path], tmp_path: Path
) -> None:
    study = studies.load(str(written(MINI)))
    claim = study_run.run(study, tmp_path / "claim", quick=True, jobs=1, claims=["C-1"])
    assert (list(claim.verdicts), claim.drawn, claim.provenance["runs"]) == (["C-1"], (), 4)
    assert claim.report.name == "part.html" and not (tmp_path / "claim" / "claims.json").exists()
    figure = study_run.run(study, tmp_path / "figure", quick=True, jobs=1, figures=["web-mean-time"])
    assert (len(figure.drawn), len(figure.tables), len(figure.judged)) == (1, 0, 0)


def test_a_claim_is_found_by_its_stem() -> None:
    chosen = study_points.chosen(studies.load("shred"), ["SH-4"])
    assert [one.id for one in chosen.claims] == ["SH-4.2"]
    with pytest.raises(KeyError, match="no figure or table `55`: did you mean 5"):
        study_points.chosen(studies.load("shred"), (), ["55"])


def test_a_figure_names_the_experiments_that_it_needs() -> None:
    chosen = study_points.chosen(studies.load("shred"), (), ["5"])
    assert [one.name for one in chosen.experiments] == ["web-mixed"]


def test_other_queues_stand_beside_the_studys_own(written: Callable[[str], Path]) -> None:
    study = queues.beside(studies.load(str(written(MINI))), queues.named(["pie", "CAKE"]))
    (experiment,) = study.experiments
    assert experiment.values("queue") == ("20p", "100p", "FQ-CoDel", "PIE", "CAKE")
    with pytest.raises(ValueError, match="no queue is named `codle`: did you mean codel"):
        queues.named(["codle"])


def test_other_senders_are_laid_over_the_scenario(written: Callable[[str], Path]) -> None:
    study = queues.with_senders(studies.load(str(written(MINI))), "cubic/sack")
    (experiment,) = study.experiments
    assert study.name == "mini-cubic-sack"
    assert experiment.base_scenario.effective["tcp"]["congestion_control"]["kind"] == "cubic"
    with pytest.raises(ValueError, match="cubik"):
        queues.with_senders(studies.load(str(written(MINI))), "cubik/sack")


def test_other_senders_keep_the_segment_size_of_the_study() -> None:
    study = queues.with_senders(studies.load("mice-elephants"), "quic")
    tables = [one.base_scenario.effective["tcp"] for one in study.experiments if one.name == "exp-2"]
    assert [(table["connection"]["mss"], table["recovery"]["kind"]) for table in tables] == [("500B", "quic")]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("helsinki", "experiment `third`, because an axis sets their TCP .*--queues selects other"),
        ("unc-web", "experiment `drop-tail`, because an axis sets their TCP"),
        ("fair-queueing", "no experiment has senders that can be replaced"),
    ],
)
def test_senders_that_axes_set_cannot_be_replaced(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        queues.with_senders(studies.load(name), "linux")


@pytest.mark.parametrize("tcp", ["linux", "bbr", "quic", "bbr3/quic", "prague"])
@pytest.mark.parametrize("name", ["shred", "mice-elephants", "unc-web", "helsinki"])
def test_studies_with_other_queues_take_other_senders(name: str, tcp: str) -> None:
    other = queues.beside(studies.load(name), queues.named(["fq-codel", "codel"]))
    for experiment in queues.with_senders(other, tcp).experiments:
        sweep = experiment.sweep("quick")
        kinds = {sweep.scenario_of(point).effective["tcp"]["recovery"]["kind"] for point in sweep.points()}
        assert kinds == {"quic" if "quic" in tcp else "rack"}


MISTAKES = {
    "figure of a measure": (
        'measure = "web.mean-time"\n[[tables]]',
        'measure = "web.maen-time"\n[[tables]]',
        "figures.0.measure: no measure is named `web.maen-time`: did you mean web.mean-time",
    ),
    "kind": (
        "[[figures]]\n",
        '[[figures]]\nkind = "bar"\n',
        "figures.0.kind: no kind is named `bar`: did you mean bars?",
    ),
    "axis of a figure": (
        "[[figures]]\n",
        '[[figures]]\nx = "quue"\n',
        "figures.0.x: no axis is named `quue`: did you mean queue?",
    ),
    "value of an axis": (
        '"100p"] } }',
        '"100"] } }',
        "claims.0.grows.along: queue has no value '100': did you mean '100p'?",
    ),
    "list": (
        "[[figures]]",
        "[[figure]]",
        "figure: is unknown: did you mean figures",
    ),
    "key": (
        "title =",
        "tilte =",
        "tilte: is unknown: did you mean title?",
    ),
    "key of quick": (
        "replications = 2 }",
        "replication = 2 }",
        "quick.replication: is unknown: did you mean replications?",
    ),
    "key of sweeps": (
        "replications = 3",
        "precision = { relative = 0.1 }",
        "precision: is only allowed in sweep files",
    ),
    "no scenario": (
        'scenario = "line.toml"\n',
        "",
        "scenario: is missing",
    ),
    "measure": (
        'measures = ["web.mean-time", ',
        'measures = ["web.mean-tim", ',
        "no measure is named `web.mean-tim`",
    ),
}
"""By what is wrong: a text of the example, what stands in its place, and what is said."""


@pytest.mark.parametrize(("before", "after", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_refused_with_their_place(
    written: Callable[[str], Path], before: str, after: str, said: str
) -> None:
    assert before in MINI
    with pytest.raises(ScenarioFileError) as refused:
        study_file.load(written(MINI.replace(before, after, 1)))
    assert said in str(refused.value) and "mini.toml" in str(refused.value)


def test_a_queue_that_does_not_exist_is_refused_before_anything_runs(
    written: Callable[[str], Path], tmp_path: Path
) -> None:
    study = studies.load(str(written(MINI.replace('"fq-codel"', '"fq-coddle"'))))
    with pytest.raises(ValueError, match=r"queue = FQ-CoDel.*did you mean `fq-codel`"):
        study_run.run(study, tmp_path / "out", quick=True, jobs=1)
    assert not list((tmp_path / "out").glob("*.html"))


def test_a_sweep_says_that_a_study_is_one(written: Callable[[str], Path]) -> None:
    from aqmlab.sweep import file as sweep_file

    with pytest.raises(ScenarioFileError, match="are keys of a study: use `aqmlab study run`"):
        sweep_file.load(written(MINI))


def test_a_new_study_runs(tmp_path: Path) -> None:
    path = new_study.write("first", tmp_path)
    assert len(studies.load(str(path)).claims) == 1
    with pytest.raises(ValueError, match="already exists"):
        new_study.write("first", tmp_path)
    (tmp_path / "line.toml").write_text(SCENARIO)
    of_scenario = studies.load(str(new_study.write("second", tmp_path, tmp_path / "line.toml")))
    result = study_run.run(
        of_scenario, tmp_path / "out", jobs=1, quick=True, claims=[of_scenario.claims[0].id]
    )
    assert result.failures == ()


def test_a_file_of_python_may_import_a_module_beside_it(tmp_path: Path) -> None:
    (tmp_path / "helper_of_study.py").write_text("TITLE = 'With a helper'\n")
    (tmp_path / "own.py").write_text(
        "from helper_of_study import TITLE\nfrom aqmlab.study import Study\n"
        "STUDY = Study(name='own', title=TITLE)\n"
    )
    assert studies.load(str(tmp_path / "own.py")).title == "With a helper"


def test_a_measure_that_changes_under_its_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "line.toml").write_text(SCENARIO)
    line = str(tmp_path / "line.toml")
    text = (
        "from aqmlab import Measure\nfrom aqmlab.study import Experiment, Study\n"
        "def used(view):\n    return 100 * view.link('bottleneck')['utilisation']\n"
        "USED = Measure(name='used', unit='%', compute=used)\n"
        f"ONE = Experiment('one', 'One', {line!r}, {{'bottleneck.rate': ['1Mbps']}}, [USED], seeds=1)\n"
        "STUDY = Study(name='own', title='Own', experiments=(ONE,))\n"
    )
    path = tmp_path / "own.py"
    path.write_text(text)
    out = tmp_path / "out"
    study_run.run(studies.load(str(path)), out, jobs=1)
    study_run.run(studies.load(str(path)), out, jobs=1)
    path.write_text(text.replace("'%'", "''").replace("100 * ", ""))
    with pytest.raises(ValueError, match=r"measure used: its unit changed from `%` to ``.*version=2"):
        study_run.run(studies.load(str(path)), out, jobs=1)
    path.write_text(text.replace("100 * ", "1 + "))
    with pytest.raises(ValueError, match="measure used: its code has changed"):
        study_run.run(studies.load(str(path)), out, jobs=1)
    with pytest.raises(ValueError, match="measure used: its code has changed"):
        study_run.judge(studies.load(str(path)), out / "values.parquet")
    path.write_text(text.replace("100 * ", "1 + ").replace("name='used'", "name='used', version=2"))
    study_run.run(studies.load(str(path)), out, jobs=1)


def test_a_misspelt_workload_is_a_failure_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "line.toml").write_text(SCENARIO)
    path = tmp_path / "own.py"
    path.write_text(
        "from aqmlab import Measure\nfrom aqmlab.study import Experiment, Study\n"
        "TIME = Measure(name='time', compute=lambda view: float(view.times('wbe').mean()))\n"
        f"ONE = Experiment('one', 'One', {str(tmp_path / 'line.toml')!r}, "
        "{'bottleneck.rate': ['1Mbps']}, [TIME], seeds=1)\n"
        "STUDY = Study(name='own', title='Own', experiments=(ONE,))\n"
    )
    result = study_run.run(studies.load(str(path)), tmp_path / "out", jobs=1)
    (failure,) = result.failures
    assert "no workload is named `wbe`: did you mean web?" in str(failure)


def test_the_command_prints_one_figure(written: Callable[[str], Path], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "aqmlab", "study", "run", str(written(MINI)), "--quick"]
    ended = subprocess.run(
        [*command, "--figure", "table-1", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert "FQ-CoDel" in ended.stdout and "hold" not in ended.stdout


def test_the_reference_page_has_every_name_that_studies_import() -> None:
    from aqmlab import study
    from aqmlab.cli import study_reference

    listed = {name for names in study_reference.GROUPS.values() for name in names}
    assert set(study.__all__) <= listed
    page = Path(__file__).parent.parent / "docs" / "reference" / "study.md"
    assert page.read_text(encoding="utf-8") == study_reference.page(), "write it with `make docs`"


def test_the_example_of_the_guide_is_the_file_that_is_there() -> None:
    root = Path(__file__).parent.parent
    guide = (root / "docs" / "guides" / "study-in-ten-minutes.md").read_text(encoding="utf-8")
    assert (root / "scenarios" / "studies" / "bufferbloat.toml").read_text(encoding="utf-8") in guide
    assert len(studies.load(str(root / "scenarios" / "studies" / "bufferbloat.toml")).claims) == 2
