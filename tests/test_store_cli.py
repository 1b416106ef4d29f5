"""`aqmlab store`: what is kept is listed, shown, checked, cleaned and asked in SQL."""

from __future__ import annotations

import csv
import json
import signal
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import aqmlab as al
from aqmlab._support import toml_writer
from aqmlab.cli import main
from aqmlab.scenario import Scenario
from aqmlab.store import Store
from aqmlab.store import care as store_care
from aqmlab.store import sql as store_sql
from aqmlab.store.record import OWN_SEEDS_APART

LOADS = (0.5, 0.8)

Called = Callable[..., "Told"]


@dataclass(frozen=True)
class Told:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Runs `aqmlab` with these arguments in the test's folder, in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AQMLAB_STORE", raising=False)

    def call(*words: str) -> Told:
        monkeypatch.setattr("sys.argv", ["aqmlab", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Told(ended.value.code, said.out, said.err)

    return call


@pytest.fixture(scope="session")
def scenarios() -> list[Scenario]:
    line = {"rate": "2Mbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "40p"}}
    traffic = {"web": {"kind": "web", "load": 0.5, "objects": {"kind": "constant", "value": 2}}}
    base = {"duration": "2s", "warm_up": "0s", "bottleneck": line, "traffic": traffic}
    return [Scenario.from_dict(base, name="web").with_({"seed": 1, "traffic.web.load": one}) for one in LOADS]


def run(scenario: str, seed: int, **more: Any) -> dict[str, Any]:
    values = {"web.p90-time@1": seed / 4, "web.p90-time@2": seed / 2, "web.pages@1": seed, "web.cdf@1": [0.5]}
    record = {"kind": "run", "scenario": scenario, "seed": seed, "status": "done", "values": values}
    return record | {"cpu_s": 0.25, "version": "0.1.0"} | more


@pytest.fixture
def folder(tmp_path: Path, scenarios: list[Scenario]) -> Path:
    """A store where `aqmlab` looks for it: a sweep of two points with two runs each, one of which failed, and
    a run of an older version that stands in no sweep."""
    folder = tmp_path / "out" / "store"
    with Store(folder) as store:
        store.add({"kind": "sweep", "sweep": "0123456789abcdef", "name": "loads", "definition": {"axes": {}}})
        for number, (one, load) in enumerate(zip(scenarios, LOADS, strict=True)):
            about = {"name": one.name, "level": "packet", "results_version": al.RESULTS_VERSION}
            store.add({"kind": "scenario", "scenario": one.digest, "given": one.given, "files": {}} | about)
            point = {"scenario": one.digest, "number": number, "labels": {"load": load, "seed": "a"}}
            store.add({"kind": "point", "sweep": "0123456789abcdef", "first_seed": 1} | point)
            store.add(run(one.digest, 1))
            store.add(run(one.digest, 2))
        store.add(run(one.digest, 3, status="failed", error="ValueError: no", values={}))
        store.add({"kind": "finished", "sweep": "0123456789abcdef", "runs": 5, "failed": 1})
        old = {"name": "old", "level": "packet", "results_version": 1, "given": {}, "files": {}}
        store.add({"kind": "scenario", "scenario": "f" * 64} | old)
        store.add(run("f" * 64, 1))
        store.add(run("live-here", 1, live={"kernel": "6.1"}))
    return folder


def test_ls_tells_sweeps_and_totals(folder: Path, cli: Called) -> None:
    told = cli("store", "ls")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0].split() == ["name", "sweep", "points", "runs", "failed", "finished"]
    assert lines[1].split() == ["loads", "0123456789abcdef", "2", "5", "1", "yes"]
    assert lines[-1].startswith("out/store: 7 runs, 1 failed, of 4 scenarios; ")
    found = json.loads(cli("store", "ls", "--json").stdout)
    assert found["sweeps"][0]["points"] == 2
    assert found["bytes"] == sum(path.stat().st_size for path in folder.glob("logs/*"))


def test_a_store_that_is_not_there_is_told_with_the_cure(cli: Called, tmp_path: Path) -> None:
    for words in (["ls"], ["show", "ab"], ["verify"], ["gc"], ["sql", "x"], ["export", "x.csv"]):
        told = cli("store", *words, "--store", "nowhere")
        assert told.returncode == 2
        assert told.stderr == (
            "aqmlab: nowhere: the store does not exist: select a store with --store FOLDER or AQMLAB_STORE\n"
        )
    assert not (tmp_path / "nowhere").exists()


def test_show_takes_the_beginning_of_a_digest_and_a_seed(
    folder: Path, cli: Called, scenarios: list[Scenario]
) -> None:
    digest = scenarios[1].digest
    told = cli("store", "show", digest[:8])
    assert told.stdout.startswith(
        f"web (packet), results version {al.RESULTS_VERSION}\n{digest}\nseed 1: done, "
    )
    assert "seed 3: failed, 0.25 CPU s, aqmlab 0.1.0\n  ValueError: no\n" in told.stdout
    assert "  web.cdf@1       structured value, which --json prints\n" in told.stdout
    found = json.loads(cli("store", "show", f"{digest[:8]}:2", "--json").stdout)
    assert [one["seed"] for one in found["runs"]] == [2]
    assert found["runs"][0]["values"] == run(digest, 2)["values"]
    assert found["scenario"]["given"] == scenarios[1].given


def test_show_has_units_and_digits_where_a_measure_is_known(
    folder: Path, cli: Called, scenarios: list[Scenario]
) -> None:
    digest = scenarios[0].digest
    with Store(folder) as store:
        store.add(run(digest, 8, values={"bottleneck.utilisation@1": 12.3456789, "my.own@1": 12.3456789}))
    told = cli("store", "show", f"{digest}:8").stdout.splitlines()
    assert told[-2:] == ["  bottleneck.utilisation@1  12.35 %", "  my.own@1                  12.3457"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0000"], "0000: the store does not contain this scenario"),
        (["fff:9"], "fff:9: the scenario has no run with seed 9"),
        (["f:x"], "f:x: the seed must be a whole number, such as f:1 (got x)"),
        (
            ["live", "--toml"],
            "live: the store contains runs of this scenario, but not the scenario's definition",
        ),
        (["fff", "--file", "a.csv"], "fff: the scenario uses no file `a.csv`; available: none"),
        (
            ["f", "--json", "--toml"],
            "--json, --toml, --manifest and --file are mutually exclusive: use only one of them",
        ),
    ],
)
def test_what_cannot_be_shown_is_told(folder: Path, cli: Called, words: list[str], said: str) -> None:
    told = cli("store", "show", *words)
    assert (told.returncode, told.stdout, told.stderr) == (2, "", f"aqmlab: {said}\n")


def test_a_shown_scenario_runs_and_has_the_digest_it_is_kept_under(
    folder: Path, cli: Called, scenarios: list[Scenario], tmp_path: Path
) -> None:
    (tmp_path / "again.toml").write_text(cli("store", "show", scenarios[0].digest, "--toml").stdout)
    assert Scenario.load(tmp_path / "again.toml").digest == scenarios[0].digest
    manifest = json.loads(cli("store", "show", f"{scenarios[0].digest}:2", "--manifest").stdout)
    assert manifest["scenario"]["seed"] == 2
    assert manifest["digest"] == scenarios[0].with_({"seed": 2}).digest


def test_toml_of_a_table_reads_as_the_table() -> None:
    table = {
        "text": 'a "quoted" \\ \x7f\nline ü',
        "none": None,
        "on": True,
        "numbers": [1, 2.5, 1e300, -3],
        "odd key.x": {"inner": {}, "list": [{"a": 1, "b c": [{}]}]},
        "deep": {"er": {"still": {"x": 1}}, "y": 2},
    }
    expected = {name: value for name, value in table.items() if value is not None}
    assert tomllib.loads(toml_writer.written(table)) == expected


def test_verify_finds_nothing_in_a_store_that_is_well(folder: Path, cli: Called) -> None:
    told = cli("store", "verify")
    assert (told.returncode, told.stdout) == (0, "14 records in 1 log, 0 tables; index: none\n")


def test_verify_repairs_what_is_damaged(folder: Path, cli: Called, scenarios: list[Scenario]) -> None:
    digest = scenarios[0].digest
    with Store(folder) as store:
        entry = store.keep_frame(digest, 1, "web.times@1", pl.DataFrame({"x": [1.0]}))
        store.add(run(digest, 1, frames={"web.times@1": entry}))
    (folder / entry["file"]).write_bytes(b"")
    (log,) = [path for path in folder.glob("logs/*") if b"live-here" in path.read_bytes()]
    log.write_bytes(log.read_bytes().replace(b"live-here", b"live-hare") + b"12345678 {torn")
    told = cli("store", "verify")
    assert told.returncode == 1
    assert f"logs/{log.name}: 2 damaged lines\n{digest[:12]}:1: damaged tables web.times@1\n" in told.stdout
    assert "`aqmlab store verify --repair` removes damaged data" in told.stdout
    assert json.loads(cli("store", "verify", "--json").stdout)["damaged"] is True
    assert cli("store", "verify", "--repair").returncode == 0
    assert cli("store", "verify").returncode == 0
    found = Store(folder)
    assert found.runs_of(["live-here", "live-hare"]) == {}
    assert found.runs_of([digest])[digest, 1].frames == {}
    assert found.runs().height == 6


def test_gc_says_what_would_go_and_then_removes_it(
    folder: Path, cli: Called, scenarios: list[Scenario]
) -> None:
    before = {path: path.read_bytes() for path in folder.glob("logs/*")}
    told = cli("store", "gc", "--dry-run", "--orphans", "--failed")
    assert told.stdout == (
        "1 run with other results versions: would be removed\n"
        "1 run in no sweep: would be removed\n"
        "1 run failed: would be removed\n"
    )
    assert {path: path.read_bytes() for path in folder.glob("logs/*")} == before
    assert cli("store", "gc").stdout.startswith("1 run with other results versions: removed\n")
    assert Store(folder).runs_of(["f" * 64]) == {}
    assert Store(folder).records("scenario", scenario="f" * 64) == []
    assert cli("store", "gc", "--orphans", "--failed").returncode == 0
    found = Store(folder)
    assert sorted(found.runs_of([one.digest for one in scenarios])) == sorted(
        (one.digest, seed) for one in scenarios for seed in (1, 2)
    )
    assert found.runs().height == 4
    assert len(found.records("point")) == 2
    assert cli("store", "gc").stdout.startswith("nothing to remove\n")


def test_gc_removes_tables_that_no_run_has(folder: Path, cli: Called) -> None:
    with Store(folder) as store:
        kept = store.keep_frame("live-here", 1, "web.times@1", pl.DataFrame({"x": [1.0]}))
        lost = store.keep_frame("f" * 64, 1, "web.times@1", pl.DataFrame({"x": [1.0]}))
        store.add(run("live-here", 1, frames={"web.times@1": kept}))
        assert "1 log was left unchanged" in cli("store", "gc").stderr
        assert (folder / lost["file"]).exists()
    assert cli("store", "gc").returncode == 0
    assert (folder / kept["file"]).exists()
    assert not (folder / lost["file"]).parent.exists()


def test_gc_makes_one_log_and_leaves_those_of_living_writers(folder: Path, cli: Called) -> None:
    assert cli("store", "gc").returncode == 0
    before = Store(folder).values()
    with Store(folder) as other:
        other.add(run("live-there", 1))
    with Store(folder) as living:
        living.add(run("live-there", 2))
        reader = Store(folder)
        reader.refresh()
        told = cli("store", "gc")
        assert len(list(folder.glob("logs/*"))) == 2
        assert (
            "1 log was left unchanged, because the processes that write to them may still be running"
            in told.stderr
        )
        living.add(run("live-there", 3))
        reader.refresh()
        assert sorted(seed for _, seed in reader.runs_of(["live-there"])) == [1, 2, 3]
    after = Store(folder).values().filter(pl.col("scenario") != "live-there")
    assert after.sort(after.columns).equals(before.sort(before.columns))
    assert cli("store", "gc").returncode == 0
    assert len(list(folder.glob("logs/*"))) == 1


def test_a_log_of_another_machine_is_left_alone_until_it_is_silent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log,) = folder.glob("logs/*")
    log.rename(log.with_name("elsewhere-1-00000000.log"))
    with Store(folder) as store:
        store.add(run("live-there", 2))
    store = Store(folder)
    plan = store_care.removal(store, orphans=False, failed=False)
    assert store_care.collect_garbage(store, plan)[1] == 1
    monkeypatch.setattr("aqmlab.store.log.SILENT_S", -1.0)
    assert store_care.collect_garbage(store, plan)[1] == 0
    # All runs of both logs but the one of another results version.
    assert Store(folder).runs().height == 7


@pytest.mark.parametrize("ending", ["csv", "parquet", "json", "jsonl"])
def test_export_writes_a_column_a_measure(folder: Path, cli: Called, tmp_path: Path, ending: str) -> None:
    told = cli("store", "export", f"runs.{ending}", "--sweep", "loads")
    assert told.stdout == f"runs.{ending}: 5 runs, 8 columns\n", told.stderr
    path = tmp_path / f"runs.{ending}"
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "json": pl.read_json, "jsonl": pl.read_ndjson}
    rows = read[ending](path).sort("load", "seed").to_dicts()
    columns = [
        "load",
        "label seed",
        "seed",
        "scenario",
        "status",
        "web.p90-time@1",
        "web.p90-time",
        "web.pages",
    ]
    assert list(rows[0]) == columns
    assert [(row["load"], row["seed"], row["web.p90-time"]) for row in rows] == [
        (0.5, 1, 0.5),
        (0.5, 2, 1.0),
        (0.8, 1, 0.5),
        (0.8, 2, 1.0),
        (0.8, 3, None),
    ]


def test_export_of_everything_and_of_what_is_not_there(folder: Path, cli: Called, tmp_path: Path) -> None:
    assert cli("store", "export", "all.csv").stdout == "all.csv: 7 runs, 7 columns\n"
    assert pl.read_csv(tmp_path / "all.csv")["name"].drop_nulls().unique().sort().to_list() == ["old", "web"]
    assert cli("store", "export", "x.csv", "--sweep", "0123").returncode == 0
    told = cli("store", "export", "x.csv", "--sweep", "lads")
    assert told.stderr == "aqmlab: no sweep is named `lads`; available: loads\n"
    told = cli("store", "export", "x.xls")
    assert told.stderr == "aqmlab: x.xls: must end in one of .csv, .parquet, .json, .jsonl\n"


def test_sql_answers_over_every_table(folder: Path, cli: Called) -> None:
    told = cli(
        "store", "sql", 'SELECT load, avg("web.p90-time") AS mean FROM loads GROUP BY load ORDER BY load'
    )
    assert told.stdout == "load  mean\n 0.5  0.75\n 0.8  0.75\n", told.stderr
    counts = {"runs": 7, "values": 24, "scenarios": 3, "sweeps": 1, "points": 2, "loads": 5}
    union = " UNION ALL ".join(f"SELECT '{name}' AS name, count(*) AS rows FROM {name}" for name in counts)
    told = cli("store", "sql", f"{union} ORDER BY name", "--json")
    assert {row["name"]: row["rows"] for row in json.loads(told.stdout)} == counts
    told = cli("store", "sql", "SELECT error, cpu_s FROM runs WHERE status = 'failed'", "--csv")
    assert list(csv.reader(told.stdout.splitlines())) == [["error", "cpu_s"], ["ValueError: no", "0.25"]]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT * FROM nowhere",
            "Table with name nowhere does not exist! Available: "
            "loads, runs, values, scenarios, sweeps, points",
        ),
        ("SELEC 1", "syntax error at or near"),
        ("", "the query is empty"),
        ("COPY runs TO 'runs.csv'", "stores are read-only"),
        ("SELECT * FROM read_csv('secret.csv')", "file system operations are disabled"),
        ("SET enable_external_access = true", "stores are read-only"),
    ],
)
def test_a_wrong_query_is_one_clear_error(folder: Path, cli: Called, query: str, said: str) -> None:
    told = cli("store", "sql", query)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("aqmlab: the query ")
    assert said in told.stderr
    assert "Traceback" not in told.stderr and "leaked" not in told.stderr


def test_an_interrupt_ends_a_query_at_once(
    folder: Path, cli: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def look(store: Store, sql: str) -> store_sql.Answer:
        seen.append(signal.getsignal(signal.SIGINT))
        return store_sql.Answer(columns=["n"], rows=[])

    monkeypatch.setattr(store_sql, "query", look)
    assert cli("store", "sql", "SELECT 1").returncode == 0
    assert seen == [signal.SIG_DFL]
    assert signal.getsignal(signal.SIGINT) is before


def test_sql_writes_nothing(folder: Path, cli: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(folder) as store:
        for seed in range(10, 1200):
            store.add(run("live-here", seed))
    names = sorted(path for path in folder.rglob("*"))
    for statement in ("DROP TABLE runs", "CREATE TABLE mine AS FROM runs; SELECT 1", "DELETE FROM runs"):
        refused = cli("store", "sql", statement)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "stores are read-only" in refused.stderr
    assert cli("store", "sql", "DESCRIBE runs").returncode == 0
    assert cli("store", "sql", "SELECT count(*) FROM runs").returncode == 0
    assert sorted(path for path in folder.rglob("*")) == names
    assert cli("store", "ls").returncode == 0
    assert (folder / "index").exists()


def test_two_sweeps_of_one_name_are_told_apart_by_their_ids(folder: Path, cli: Called) -> None:
    with Store(folder) as store:
        store.add({"kind": "sweep", "sweep": "f" * 16, "name": "loads", "definition": {}})
    told = cli("store", "sql", 'SELECT count(*) AS n FROM "loads-01234567"')
    assert told.stdout == "n\n5\n", told.stderr
    assert '"loads-01234567", "loads-ffffffff"' in cli("store", "sql", "SELECT * FROM loads").stderr
    assert "loads-ffffffff" in cli("store", "sql", "SHOW TABLES").stdout
    told = cli("store", "export", "x.csv", "--sweep", "loads")
    assert told.stderr == ("aqmlab: no sweep is named `loads`; available: loads-01234567, loads-ffffffff\n")


def test_runs_of_other_seeds_than_a_points_own_are_not_in_its_sweep(
    folder: Path, cli: Called, scenarios: list[Scenario]
) -> None:
    with Store(folder) as store:
        store.add(run(scenarios[0].digest, 1 + OWN_SEEDS_APART))
        store.add(run(scenarios[0].digest, 0))
    assert cli("store", "ls").stdout.splitlines()[1].split()[3] == "5"
    assert cli("store", "export", "x.csv", "--sweep", "loads").stdout == "x.csv: 5 runs, 8 columns\n"


def test_the_environment_names_the_store(
    folder: Path, cli: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.rename(tmp_path / "mine")
    monkeypatch.setenv("AQMLAB_STORE", "mine")
    assert "mine: 7 runs" in cli("store", "ls").stdout
