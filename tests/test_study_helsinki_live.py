"""The live form of the study `helsinki`: the same starts, the same rules, three sources side by side."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from study_checks import check_every_scenario

from aqmlab import _core, live, live_runs, study
from aqmlab.grid import Results, Row, Runs
from aqmlab.store import Store
from aqmlab.studies import helsinki, helsinki_live_runs
from aqmlab.studies import helsinki_kernel as kernel
from aqmlab.studies.helsinki_live import CASES, STUDY, claim_id
from aqmlab.studies.helsinki_live_runs import RECORDED, SOURCES


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


def test_every_scenario_of_the_live_study_passes_the_checks_of_the_core() -> None:
    first = [dataclasses.replace(sweep, scenario=of_seed(sweep.scenario, 1)) for sweep in STUDY.sweeps]
    check_every_scenario(dataclasses.replace(STUDY, sweeps=tuple(first)))


def of_seed(scenario: Any, seed: int) -> Any:
    return lambda **labels: scenario(**labels, seed=seed)


def test_what_is_live_is_what_is_simulated_at_the_starts_that_were_recorded() -> None:
    sweeps = {sweep.name: sweep for sweep in STUDY.sweeps}
    for name, runs in (("third", 240), ("burst", 240), ("traces", 2)):
        ours, simulated = sweeps[f"{name}-live"], sweeps[f"{name}-simulated"]
        assert (ours.live, simulated.live) == (True, False)
        assert len(ours.points()) * ours.seeds == runs
        for labels in ours.points():
            assert ours.scenario(**labels, seed=1) == simulated.scenario(**labels, seed=1)
    table = helsinki_live_runs.three_flows(system="linux-6", queue="red", third_s=5.5, seed=16)
    starts = {name: workload["start"] for name, workload in table["traffic"].items()}
    assert starts == {"first": "0.045932s", "second": "0.001318s", "third": "5.527351s"}
    assert {workload["stagger"] for workload in table["traffic"].values()} == {"0s"}
    assert [workload["flows"] for workload in table["traffic"].values() if "flows" in workload] == [1, 1]
    table = helsinki_live_runs.with_burst(system="linux-6", classes=1, queue="tail", udp_s=18, seed=9)
    starts = {name: workload["start"] for name, workload in table["traffic"].items()}
    assert starts == {"file": "0.090578s", "voice": "18.019213s"}


def test_recorded_starts_lie_within_a_tenth_of_a_second() -> None:
    for name, labels in (("third", ["first", "second", "third"]), ("burst", ["tcp", "udp"])):
        for row in kernel.results()[name].rows:
            late = row.labels.get("third_s", row.labels.get("udp_s"))
            for flow in labels:
                after = late if flow in ("third", "udp") else 0
                assert 0 <= row.values[f"{flow}_start_s"] - after <= 0.1001


# Claims and tables on numbers made by hand


def made_up(*, live: float = 1.0, simulated: float = 1.0) -> Results:
    """The recorded replications in the place of live and simulated ones, times and counts multiplied."""

    def scaled(row: Row, factor: float) -> Row:
        return dataclasses.replace(row, values={name: factor * value for name, value in row.values.items()})

    def of(name: str, factor: float) -> Runs:
        rows = kernel.results()[name].where(system="linux-6").rows
        return Runs(rows=tuple(scaled(row, factor) for row in rows))

    sources = {"live": live, "simulated": simulated}
    found = {f"{name}-{of_}": of(name, by) for of_, by in sources.items() for name in ("third", "burst")}
    return found | {f"traces-{source}": Runs(rows=()) for source in sources}


def test_equal_numbers_have_equal_verdicts_whatever_their_source() -> None:
    evidence = {claim.id: claim.judge(made_up()) for claim in STUDY.claims}
    assert len(evidence) == 3 * 25
    for id, tail in CASES:
        if id.startswith("RI-5"):
            assert evidence[claim_id(id, tail, RECORDED)].measured == "not measured"
            continue
        of_sources = {evidence[claim_id(id, tail, source)].verdict for source in SOURCES}
        assert of_sources == {helsinki.kernel_evidence(id, "linux-6", tail).verdict}
    said = STUDY.answer(evidence)
    assert "Live and recorded, 21 of 21 claims have the same verdict, and 0 the opposite one." in said


def test_the_table_of_claims_has_three_columns_for_each_unit() -> None:
    (table,) = (table for table in STUDY.tables if table.id == "claims")
    frame = table.table(made_up(live=1.2))
    assert frame.columns[2:] == [
        *("live, bytes", "simulated, bytes", "recorded, bytes"),
        *("live, packets", "simulated, packets", "recorded, packets"),
    ]
    rows = {row[0]: row for row in frame.rows()}
    assert list(rows) == list(helsinki.STATEMENTS)
    # A ratio of means does not change if all times are longer; a handshake that is compared with 2 s does.
    assert rows["RI-10"][2] == rows["RI-10"][4] == "holds, 1.05"
    assert rows["RI-4"][5] != rows["RI-4"][7]
    assert rows["RI-9"][5:] == ("", "", "")
    assert rows["RI-5"][4] == rows["RI-5"][7] == ""


def test_agreement_is_counted_for_each_pair_of_sources() -> None:
    tables = {table.id: table.table for table in STUDY.tables}
    frame = tables["agreement"](made_up(live=1.5, simulated=1.0))
    assert frame.columns[2:] == ["live, recorded", "live, simulated", "simulated, recorded"]
    rows = {(row[0], row[1]): row[2:] for row in frame.rows()}
    assert rows["first", "fastest (s)"] == ("0 of 12", "0 of 12", "12 of 12")
    assert rows["second", "TCP elapsed (s)"] == ("0 of 24", "0 of 24", "24 of 24")
    cells = tables["third-beside-recorded"](made_up(simulated=2))["third (s)"]
    assert len(cells) == 12
    assert all(cell.endswith("=") for cell in cells)
    cells = tables["third-beside-simulated"](made_up(simulated=2))["third (s)"]
    assert all(cell.endswith("≠") for cell in cells)


def test_recorded_replications_are_those_that_were_made_live() -> None:
    found = dict(made_up())
    few = found["third-live"].where(queue="red", third_s=2)
    found["third-live"] = Runs(rows=few.rows[:6])
    recorded = helsinki_live_runs.by_source(found)[RECORDED]
    assert [row.seed for row in recorded["third"].rows] == [1, 2, 3, 4, 5, 6]
    assert {row.labels["queue"] for row in recorded["third"].rows} == {"red"}


def test_transfers_that_were_not_done_are_warned_about() -> None:
    found = dict(made_up())
    first, *others = found["burst-live"].rows
    broken = dataclasses.replace(first, values=first.values | {"tcp_s": None})
    found["burst-live"] = Runs(rows=(broken, *others))
    (warning,) = STUDY.checks(found)
    assert warning.startswith("Of 240 live runs of the sweep burst 1 end after 60s")


# On the kernel


@pytest.mark.skipif(bool(impossible()), reason=impossible())
def test_a_small_live_study_runs_end_to_end(tmp_path: Path) -> None:
    """Smaller files, so that it takes seconds; each source has the same starts."""
    sizes = {"first": "29200B", "second": "29200B", "third": "11680B", "file": "29200B"}

    def smaller(scenario: Any) -> Any:
        def made(**labels: Any) -> dict[str, Any]:
            table: dict[str, Any] = scenario(**labels)
            table["duration"] = "20s"
            for name, workload in table["traffic"].items():
                if name in sizes:
                    workload["sizes"] = {"kind": "constant", "value": sizes[name]}
                else:
                    workload["lasts"] = "1s"
            return table

        return made

    few: dict[str, Any] = {
        "queue": ("tail",),
        "third_s": (0, 2),
        "classes": (1,),
        "udp_s": (0,),
        "plot": (("tail", 2),),
    }

    def short(sweep: Any) -> Any:
        axes = {name: few.get(name, values) for name, values in sweep.axes.items()}
        return dataclasses.replace(sweep, axes=axes, seeds=1, scenario=smaller(sweep.scenario))

    chosen = dataclasses.replace(STUDY, sweeps=tuple(short(sweep) for sweep in STUDY.sweeps))
    result = study.run(chosen, tmp_path)
    assert [one.problem for one in result.failures if "NotValidError" not in one.problem] == []
    if result.failures:
        pytest.skip(f"the machine is too busy for live runs: {result.failures[0].problem}")
    assert [drawn.problem for drawn in result.drawn] == [""] * len(STUDY.figures)
    tables = {table.id: frame for table, frame in result.tables}
    # Claims compare Tail Drop with RED, which so small a study does not have.
    assert [id for id, frame in tables.items() if isinstance(frame, str)] == ["claims"]
    facts = result.provenance["live"]
    assert facts["runs"] == 4
    assert any("tcp.rto.tick" in shortfall for shortfall in facts["shortfalls"]) or facts["shortfalls"] == []
    runs = Store(tmp_path / "store", read_only=True)
    kept = runs.runs_of(runs.runs()["scenario"].to_list()).values()
    values = [value for run in kept for value in run.values.values()]
    slowest = [value["slowest_s"] for value in values if "slowest_s" in value]
    assert len(slowest) >= 4
    # Two transfers of 20 segments take 3.5 s at 140 kbit/s, without losses and the third.
    assert all(3.4 < time_s < 15.0 for time_s in slowest), slowest
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert len(claims) == len(STUDY.claims)
