"""The live form of the study `helsinki`: the same starts, the same rules, three sources side by side."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario

from aqmlab import _core, live
from aqmlab.campaign import live as live_runs
from aqmlab.results.labels import Labels
from aqmlab.results.table import ExperimentResults, Results, Row
from aqmlab.store import Store
from aqmlab.studies.helsinki import CLAIMS, NOT_OF_THE_KERNEL, measures, recorded
from aqmlab.studies.helsinki.live import (
    RECORDED,
    SOURCES,
    STUDY,
    burst,
    burst_live,
    third,
    third_live,
    traces,
    traces_live,
)
from aqmlab.studies.helsinki.testbed import BYTES, ONE_CLASS, PACKETS, RED, TAIL_DROP
from aqmlab.study import run as study
from aqmlab.study.experiment import Experiment, Form


def impossible() -> str:
    """Why live runs cannot be made here; empty if they can."""
    try:
        if hasattr(_core, "needs_user_namespace") and _core.needs_user_namespace():
            return "the tests run live as root"
        live_runs.need()
    except live.NotLive as reason:
        return str(reason)
    return ""


# Scenarios


def of_seed(experiment: Experiment, seed: int, **labels: Any) -> Mapping[str, Any]:
    """The scenario of a replication at a point, as it is given."""
    (found,) = (
        task.scenario.effective
        for at, task in experiment.plan(experiment.sweep("full")).tasks({})
        if task.seed == seed and at == labels
    )
    return found


def test_every_scenario_of_the_live_study_passes_the_checks_of_the_core() -> None:
    check_every_scenario(STUDY)


def test_what_is_live_is_what_is_simulated_at_the_starts_that_were_recorded() -> None:
    for ours, simulated, runs in (
        (third_live, third, 240),
        (burst_live, burst, 240),
        (traces_live, traces, 2),
    ):
        assert (ours.live, simulated.live) == (True, False)
        of_both = [one.plan(one.sweep("full")).tasks({}) for one in (ours, simulated)]
        assert len({task.run for _, task in of_both[0]}) == runs
        for (_, live_task), (_, task) in zip(*of_both, strict=True):
            assert live_task.scenario.digest.endswith(task.scenario.digest)
    workloads = of_seed(third_live, 16, unit=BYTES, queue=RED, start=5.5)["traffic"]
    starts = {name: workload["start"] for name, workload in workloads.items()}
    assert starts == {"first": "45932us", "second": "1318us", "third": "5527351us"}
    assert {workload["stagger"] for workload in workloads.values()} == {"0s"}
    assert [workload["flows"] for workload in workloads.values()] == [1, 1, 1]
    at = {"service": ONE_CLASS, "unit": BYTES, "queue": TAIL_DROP, "start": 18}
    workloads = of_seed(burst_live, 9, **at)["traffic"]
    assert {name: workload["start"] for name, workload in workloads.items()} == {
        "file": "90578us",
        "voice": "18019213us",
    }


def test_recorded_starts_lie_within_a_tenth_of_a_second() -> None:
    for case, workloads in {"third": ("first", "second", "third"), "burst": ("file", "voice")}.items():
        for row in recorded.results()[case].rows:
            begun = recorded.starts(case, row.labels, row.seed)
            assert tuple(begun) == workloads
            for workload, time_s in begun.items():
                after = float(row.labels["start"]) if workload in ("third", "voice") else 0
                assert 0 <= time_s - after <= 0.1001


# Claims and tables on numbers made by hand


def made_up(*, live: float = 1.0, simulated: float = 1.0) -> dict[str, Results]:
    """The recorded replications in the place of live and simulated ones, times and counts multiplied."""

    def of(experiment: Experiment, factor: float) -> Results:
        case = experiment.name.split("-")[0]
        rows = [
            Row(
                labels={label: row.labels[label] for label in experiment.labels},
                seed=row.seed,
                values={
                    one.name: None if row[one] is None else factor * row[one] for one in experiment.measures
                },
            )
            for row in recorded.results()[case].rows_at(system="linux-6")
        ]
        axes = {axis.label: tuple(axis.values) for axis in experiment.sweep("full").all_axes}
        return Results.of_rows(rows=tuple(rows), axes=axes)

    of_both = ((third_live, live), (burst_live, live), (third, simulated), (burst, simulated))
    return {experiment.name: of(experiment, factor) for experiment, factor in of_both}


def verdicts(results: ExperimentResults) -> dict[str, str]:
    return {one.id: one.evidence.verdict for one in study.judged(STUDY, STUDY.claims, results)}


def test_equal_numbers_have_equal_verdicts_whatever_their_source() -> None:
    found = verdicts(made_up())
    live = {claim.id for claim in STUDY.claims}
    assert [claim.id for claim in CLAIMS if claim.id not in live] == [
        f"RI-{number}" for number in range(11, 20)
    ]
    for claim in (claim for claim in CLAIMS if claim.id in live):
        units: Mapping[str, Labels] = {"": {"unit": BYTES}, "p": {"unit": PACKETS}}
        for letter, labels in units.items():
            if f"{claim.id}{letter}-live" not in found:
                assert (claim.id, letter) == ("RI-9", "p")
                continue
            of_sources = {found.get(f"{claim.id}{letter}-{source}") for source in ("live", "sim", "rec")}
            kernels = claim.rule.at({"system": "linux-6", **labels}).judge(recorded.results())
            assert of_sources == {kernels.verdict} | {None for _ in {claim.id} & NOT_OF_THE_KERNEL.keys()}


def test_a_ratio_does_not_change_if_all_times_are_longer_but_a_limit_in_seconds_tells() -> None:
    found = verdicts(made_up(live=1.5))
    assert found["RI-10-live"] == found["RI-10-rec"] == "holds"
    assert found["RI-4.2p-live"] != found["RI-4.2p-rec"]


def test_agreement_is_counted_for_each_pair_of_sources() -> None:
    tables = {table.id: table.table for table in STUDY.tables}
    frame = tables["agreement"](made_up(live=1.5, simulated=1.0))
    assert frame.columns[2:] == ["live | recorded", "live | simulated", "simulated | recorded"]
    rows = {(row[0], row[1]): row[2:] for row in frame.rows()}
    of_fastest = "First test case", "fastest initial flow's elapsed time (s)"
    assert rows[of_fastest] == ("0 of 12", "0 of 12", "12 of 12")
    assert rows["Second test case", "TCP's elapsed time (s)"] == ("0 of 24", "0 of 24", "24 of 24")
    column = "third flow's elapsed time (s)"
    beside = tables["third-beside-kernel"](made_up(simulated=2))
    for pair, sign in (("live | recorded", "="), ("live | simulated", "≠")):
        cells = beside.filter(system=pair)[column]
        assert len(cells) == 12
        assert all(cell.endswith(sign) for cell in cells)


def test_each_source_has_lines_of_its_own() -> None:
    figures = {figure.id: figure.draws(made_up(live=1.5)).table for figure in STUDY.figures[:-1]}
    elapsed = figures["elapsed"].filter(line=RED, start=2)
    assert elapsed["system"].to_list() == ["live", "simulated", "recorded"]
    live, simulated, recorded = elapsed["value"]
    assert live == pytest.approx(1.5 * recorded)
    assert simulated == recorded
    assert {"flows-live", "flows-simulated", "flows-recorded", "boxes-linux-6"} < figures.keys()
    assert figures["flows-recorded"].filter(line="third flow", queue=RED, start=2)["value"].item() == recorded


def test_recorded_replications_are_those_that_were_made_live() -> None:
    found = made_up()
    few = found[third_live.name].rows_at(unit=BYTES, queue=RED, start=2)[:6]
    found[third_live.name] = Results.of_rows(few, found[third_live.name].axes)
    rows = SOURCES[RECORDED](found)[third.name].rows
    assert [row.seed for row in rows] == [1, 2, 3, 4, 5, 6]
    assert {row.labels["queue"] for row in rows} == {RED}


def test_transfers_that_were_not_done_are_warned_about() -> None:
    found = made_up()
    first, *others = found[burst_live.name].rows
    broken = dataclasses.replace(first, values={**first.values, measures.TCP_TIME.name: None})
    found[burst_live.name] = Results.of_rows((broken, *others), found[burst_live.name].axes)
    (warning,) = STUDY.checks(found)
    assert warning.startswith("Second test case, live: 1 of 240 runs end before a transfer is complete")


# On the kernel


@pytest.mark.skipif(bool(impossible()), reason=impossible())
def test_a_small_live_study_runs_end_to_end(tmp_path: Path) -> None:
    """Smaller files, so that it takes seconds; each source has the same starts."""
    sizes = {"first": "29200B", "second": "29200B", "third": "11680B", "file": "29200B"}

    def smaller(experiment: Experiment) -> Any:
        begun = experiment.of_seed
        assert begun is not None

        def made(table: dict[str, Any], labels: Labels, seed: int) -> dict[str, Any]:
            table = begun(table, labels, seed) | {"duration": "20s"}
            for name, workload in table["traffic"].items():
                if name in sizes:
                    workload["sizes"] = {"kind": "constant", "value": sizes[name]}
                else:
                    workload["lasts"] = "1s"
            return table

        return made

    few: dict[str, Any] = {"queue": (TAIL_DROP,), "unit": (BYTES,), "service": (ONE_CLASS,)}
    starts = {"third": (0, 2), "burst": (0,), "traces": (2,)}

    def short(one: Experiment) -> Experiment:
        axes = {label: few[label] for label in one.labels if label in few}
        axes["start"] = starts[one.name.split("-")[0]]
        return dataclasses.replace(one, quick=Form(seeds=1, axes=axes), of_seed=smaller(one))

    chosen = dataclasses.replace(STUDY, experiments=tuple(short(one) for one in STUDY.experiments))
    result = study.run(chosen, tmp_path, quick=True)
    assert [one.problem for one in result.failures if "NotValidError" not in one.problem] == []
    if result.failures:
        pytest.skip(f"the machine is too busy for live runs: {result.failures[0].problem}")
    assert [drawn.problem for drawn in result.drawn] == [""] * len(STUDY.figures)
    assert [table.id for table, frame in result.tables if isinstance(frame, str)] == []
    facts = result.provenance["live"]
    assert facts["runs"] == 4
    assert any("tcp.rto.tick" in shortfall for shortfall in facts["shortfalls"]) or facts["shortfalls"] == []
    kept = Store(tmp_path / "store", read_only=True)
    records = kept.runs_of(kept.runs()["scenario"].to_list()).values()
    slowest = [run.values[measures.SLOWEST.key] for run in records if measures.SLOWEST.key in run.values]
    assert len(slowest) == 4
    # Two transfers of 20 segments take 3.5 s at 140 kbit/s, without losses and the third.
    assert all(3.4 < time_s < 15.0 for time_s in slowest), slowest
    assert len(json.loads((tmp_path / "claims.json").read_text())["claims"]) == len(result.judged)
