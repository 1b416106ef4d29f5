"""Measures: they agree with the summary, exist where they are named, and keep their values or raise their
version."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aqmlab as al
from aqmlab import measures, metrics, studies
from aqmlab.measures import Measure, View, name_of
from aqmlab.studies import STUDIES

ROOT = Path(__file__).parent.parent
PINNED = Path(__file__).parent / "pinned"
SHORT = {
    "hello": {"duration": "20s", "warm_up": "5s"},
    "slow-uplink": {"duration": "30s", "warm_up": "5s"},
    "two-bottlenecks": {"duration": "10s", "warm_up": "2s"},
    "flow-level/elastic": {"duration": "50s", "warm_up": "5s"},
}


def values_of(scenario: al.Scenario, seed: int = 1) -> dict[str, object]:
    view = View(scenario.run(seed))
    return {one.key: one.of(view) for one in measures.of_scenario(scenario).values()}


def test_measures_of_a_run_are_those_of_its_summary() -> None:
    scenario = al.Scenario.load(ROOT / "scenarios/hello.toml", SHORT["hello"])
    run = scenario.run(1)
    found = values_of(scenario)
    link, web = run.summary["links"]["bottleneck"], run.summary["transfers"]["web"]
    assert found["bottleneck.utilisation@1"] == link["utilisation"] * 100
    assert found["bottleneck.mean-queueing-delay@1"] == link["mean_queue_delay_s"] * 1000
    assert found["web.p99-time@1"] == web["p99_s"]
    assert found["web.mean-time@1"] == web["mean_s"]
    assert found["web.unfinished@1"] == web["unfinished"]
    assert found["ftp.goodput@1"] == pytest.approx(run.summary["flows"]["ftp"]["goodput_bps"] * 1e-6)
    assert found["ftp.jain@1"] == pytest.approx(run.summary["flows"]["ftp"]["jain"])
    assert found["ftp.timeouts@1"] == run.summary["flows"]["ftp"]["timeouts"]
    assert not any(key.startswith("ftp.p90") for key in found)


def test_a_name_that_does_not_exist_is_refused_and_a_star_takes_all() -> None:
    scenario = al.Scenario.load(ROOT / "scenarios/hello.toml")
    assert [one.name for one in measures.named(scenario, ["web.p*"])] == [
        "web.p90-time",
        "web.p99-time",
        "web.p90-page",
    ]
    with pytest.raises(ValueError, match=r"no measure is named `web.p95-time`: did you mean"):
        measures.named(scenario, ["web.p95-time"])
    lean = scenario.with_({"record.transfer_columns": ["traffic"]})
    with pytest.raises(ValueError, match=r"web.p90-time needs complete, .*record.transfer_columns"):
        measures.named(lean, ["web.p90-time"])


def test_a_number_that_a_run_does_not_have_is_nothing() -> None:
    scenario = al.Scenario.load(
        ROOT / "scenarios/hello.toml", {"duration": "1s", "warm_up": "0.9s", "traffic.web.load": 0.01}
    )
    found = values_of(scenario)
    assert found["web.p90-time@1"] is None
    json.dumps(found, allow_nan=False)


def test_a_workload_named_like_a_link_has_drops_of_its_own() -> None:
    table = {
        "duration": "1s",
        "links": {
            "up": {"from": "a", "to": "b", "rate": "1Mbps", "delay": "1ms", "queue": {"kind": "drop-tail"}},
            "down": {"from": "b", "to": "a", "rate": "1Mbps", "delay": "1ms"},
        },
        "traffic": {"up": {"from": "a", "to": "b", "kind": "ftp"}},
    }
    known = measures.of_scenario(al.Scenario.from_dict(table))
    assert known["up.drops"].title == "packets dropped"
    assert known["up.flow-drops"].title == "up packets dropped"


def test_names_and_versions_of_measures_are_checked() -> None:
    with pytest.raises(ValueError, match="must be a non-empty string without @"):
        Measure(name="a@b", compute=lambda view: 1)
    with pytest.raises(ValueError, match="version: must be at least 1"):
        Measure(name="a", version=0, compute=lambda view: 1)
    assert name_of(Measure(name="a.b", version=12, compute=lambda view: 1).key) == ("a.b", 12)


def test_sql_gives_one_number_or_says_what_is_wrong() -> None:
    scenario = al.Scenario.load(ROOT / "scenarios/hello.toml", SHORT["hello"])
    view = View(scenario.run(1))
    short = measures.of_sql(
        "short",
        "select quantile_cont(duration_s, 0.9) from transfers where complete and start_s >= "
        "(select min(warm_up_s) from run) and traffic = 'web'",
    )
    assert short.of(view) == pytest.approx(values_of(scenario)["web.p90-time@1"])
    for sql, told in (("select x from flows", "x"), ("select flow from flows", r"one number")):
        with pytest.raises(ValueError, match=f"measure.one.sql: .*{told}"):
            measures.of_sql("one", sql).of(view)
    assert measures.of_sql("one", "select 1").key != measures.of_sql("one", "select 2").key
    assert measures.of_sql("one", "select  1").key == measures.of_sql("one", "select 1").key


# What is kept under a key does not change


def pinned(name: str, found: dict[str, object], cure: str) -> None:
    """Compares with what is pinned, and pins it anew if snapshots are to be updated."""
    path = PINNED / name
    if os.environ.get("AQM_UPDATE_SNAPSHOTS"):
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    before = json.loads(path.read_text())
    changed = [key for key, value in found.items() if before.get(key) != value]
    assert not changed, f"{', '.join(changed)}: {cure}"
    assert set(before) == set(found)


def test_measures_keep_their_values_under_their_key() -> None:
    found = {
        f"{name}, results version {al.RESULTS_VERSION}: {key}": value
        for name, changes in SHORT.items()
        for key, value in values_of(al.Scenario.load(ROOT / f"scenarios/{name}.toml", changes)).items()
    }
    cure = "what is computed has changed: raise the measure's version, then `make snapshots`"
    pinned("measures.json", json.loads(json.dumps(found)), cure)


def test_reductions_of_studies_keep_their_code_under_their_key() -> None:
    found: dict[str, object] = {}
    for name, module in STUDIES.items():
        experiments = studies.load(name).experiments
        code = code_of(f"{module}.measures")
        for experiment in experiments:
            for one in (one for one in experiment.measures if isinstance(one, Measure)):
                # A study that uses measures of other studies follows these studies in the list.
                found.setdefault(f"{one.name.rpartition('.')[0]}@{one.version}", code)
    cure = (
        "the code that reduces runs has changed: if numbers do, raise the version of the Reduction; "
        "then `make snapshots`"
    )
    pinned("reductions.json", found, cure)


NUMBERS = {f"aqmlab.{name}" for name in ("flow_level", "metrics", "response_times", "stats", "summary")}
"""Modules of the library that make numbers of tables."""


def code_of(module: str) -> str:
    """A digest of the statements of a module and its submodules, and of studies and modules of numbers that
    they take names from: not of comments, of docstrings, or of how they are laid out."""
    parts = [name for name in sys.modules if name == module or name.startswith(f"{module}.")]
    names = {
        getattr(one, "__module__", None) or "" for part in parts for one in vars(sys.modules[part]).values()
    }
    ours = {name for name in names if name.startswith("aqmlab.studies.") or name in NUMBERS}
    digest = hashlib.sha256()
    for name in sorted({*ours, metrics.__name__, *parts}):
        path = Path(sys.modules[name].__file__ or "")
        if path.suffix == ".py":
            for part in statements(ast.parse(path.read_text(encoding="utf-8"))):
                digest.update(f"{part}\n".encode())
    return digest.hexdigest()[:16]


def statements(tree: ast.AST) -> Iterator[str]:
    """The nodes of a tree with the words and numbers in them, the same in all versions of Python."""
    nodes = list(ast.walk(tree))
    said = {
        id(one.value) for one in nodes if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
    }
    for node in nodes:
        if id(node) in said:
            continue
        words = [value for _, value in ast.iter_fields(node) if isinstance(value, str | int | float | bool)]
        yield f"{type(node).__name__} {words}"


def test_a_docstring_is_no_code() -> None:
    def read(text: str) -> list[str]:
        return list(statements(ast.parse(text)))

    assert read('def f():\n    "One."\n    return 1') == read('def f():\n    "Two."\n    return 1  # three')
    assert read('def f():\n    "One."\n    return 1') != read('def f():\n    "One."\n    return 2')
