"""The store: what was added is found again, by whoever looks, from the logs as from the index."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from aqmlab.store import FrameError, Store, StoreFormatError
from aqmlab.store import store as store_module

A, B = "a" * 64, "b" * 64


def record(scenario: str = A, seed: int = 1, **more: Any) -> dict[str, Any]:
    values = {"web.p90-time@1": 0.25 * seed, "web.pages@2": seed, "link.loss@1": None}
    return {
        "kind": "run",
        "scenario": scenario,
        "seed": seed,
        "status": "done",
        "values": values,
        "frames": {},
        "error": None,
        "cpu_s": 0.5,
        "version": "0.1.0",
        "facts": {"flows": seed},
        **more,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def eager_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index after every record."""
    monkeypatch.setattr(store_module, "INDEX_AFTER", 0)


def reader(folder: Path) -> Store:
    return Store(folder, read_only=True)


def test_a_folder_that_is_not_there_is_an_empty_store_and_reading_makes_nothing(folder: Path) -> None:
    with Store(folder) as store:
        assert store.runs_of([A]) == {}
        assert store.records("sweep") == []
        assert store.runs().height == store.values().height == 0
    assert not folder.exists()


def test_a_run_is_found_again_with_everything_it_was_added_with(folder: Path) -> None:
    with Store(folder) as store:
        store.add(record(seed=7, live={"kernel": "6.1"}))
        found = store.runs_of([A, B])[A, 7]
        assert reader(folder).runs_of([A]) == {(A, 7): found}
    assert found.status == "done"
    assert json.dumps(found.values) == '{"web.p90-time@1": 1.75, "web.pages@2": 7, "link.loss@1": null}'
    assert (found.cpu_s, found.version, found.facts, found.live) == (
        0.5,
        "0.1.0",
        {"flows": 7},
        {"kernel": "6.1"},
    )


@pytest.mark.parametrize(
    "value", [3, 3.0, -0.5, 2**53 + 1, True, "text", [1, 2.5, None], {"a": {"b": 1}}, None]
)
def test_values_of_any_kind_come_back_from_the_index_as_they_were(
    folder: Path, value: Any, eager_index: None
) -> None:
    with Store(folder) as store:
        store.add(record(values={"first@1": 0.5, "value@1": value, "last@1": 1}))
        store.refresh()
    assert (folder / "index").exists()
    found = reader(folder).runs_of([A])[A, 1].values
    assert json.dumps(found) == json.dumps({"first@1": 0.5, "value@1": value, "last@1": 1})


def test_numbers_of_numpy_are_numbers_and_those_that_do_not_exist_are_null(folder: Path) -> None:
    odd = {
        "whole@1": np.int64(3),
        "array@1": np.array([0.5, np.nan]),
        "nan@1": math.nan,
        "rows@1": [{"x": math.inf}],
    }
    with Store(folder) as store:
        store.add(record(values=odd))
        found = store.runs_of([A])[A, 1].values
    assert found == {"whole@1": 3, "array@1": [0.5, None], "nan@1": None, "rows@1": [{"x": None}]}


def test_records_of_one_run_merge_by_measure_whatever_was_read_when(folder: Path, eager_index: None) -> None:
    with Store(folder) as store, Store(folder) as other:
        store.add(record(values={"x@1": 1.0, "y@1": 2.0}))
        store.refresh()
        other.add(record(values={"y@1": 3.0, "z@1": 4.0}, facts={}))
        store.refresh()
        assert store.runs_of([A])[A, 1].values == {"x@1": 1.0, "y@1": 3.0, "z@1": 4.0}
        assert store.runs_of([A])[A, 1].facts == {"flows": 1}
        assert store.runs().height == 1


@pytest.mark.parametrize("order", [("done", "failed"), ("failed", "done"), ("crashed", "done")])
def test_a_finished_run_beats_a_failed_one_in_any_order(folder: Path, order: tuple[str, str]) -> None:
    with Store(folder) as store:
        for status in order:
            failed = {"status": status, "error": "ValueError: no", "values": {}}
            store.add(record(**({} if status == "done" else failed)))
        found = store.runs_of([A])[A, 1]
    assert (found.status, found.error, len(found.values)) == ("done", None, 3)


def test_other_records_are_kept_once_and_asked_for_by_their_fields(folder: Path, eager_index: None) -> None:
    points = [
        {"kind": "point", "sweep": "s1", "scenario": one, "number": number, "labels": {"load": number}}
        for number, one in enumerate([A, B])
    ]
    for _ in range(2):
        with Store(folder) as store:
            for point in points:
                store.add(point)
            store.refresh()
    found = reader(folder)
    assert found.records("point", sweep="s1") == points
    assert found.records("point", scenario=B) == found.records("point", number=1) == points[1:]
    assert found.records("point", sweep="s2") == found.records("sweep") == []


def test_values_are_told_one_a_row(folder: Path) -> None:
    with Store(folder) as store:
        store.add(
            record(seed=2, values={"web.p90-time@1": 0.5, "web.pages@12": 3, "odd": [1], "none@1": None})
        )
        store.add(record(scenario=B, status="failed", values={}))
        assert store.values().rows() == [
            (A, 2, "web.p90-time", 1, 0.5),
            (A, 2, "web.pages", 12, 3.0),
            (A, 2, "odd", None, None),
            (A, 2, "none", 1, None),
        ]
        assert store.runs()["status"].to_list() == ["done", "failed"]


def test_what_others_write_is_seen_after_a_refresh_and_only_once(folder: Path) -> None:
    with Store(folder) as first, Store(folder) as second:
        first.add(record(seed=1))
        assert second.runs().height == 1
        first.add(record(seed=2))
        assert second.runs().height == 1
        second.refresh()
        assert second.runs().height == 2
        second.add(record(seed=3))
        assert second.runs()["seed"].to_list() == [1, 2, 3]


def test_an_index_saves_reading_the_logs_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(folder) as store:
        for seed in range(1100):
            store.add(record(seed=seed))
        store.refresh()
        for seed in range(1100, 1105):
            store.add(record(seed=seed))
    taken: list[int] = []
    take = Store._add_read
    monkeypatch.setattr(Store, "_add_read", lambda self, one: (taken.append(one["seed"]), take(self, one)))
    assert reader(folder).runs()["seed"].to_list() == list(range(1105))
    assert taken == list(range(1100, 1105))


def test_nobody_needs_the_index(folder: Path, eager_index: None) -> None:
    with Store(folder) as store:
        store.add(record(seed=1))
        store.refresh()
        (folder / "index").unlink()
        store.add(record(seed=2))
        assert store.runs().height == 2
    (folder / "index").unlink()
    assert reader(folder).runs().height == 2
    assert not (folder / "index").exists()


def test_a_reader_that_knows_a_log_that_vanished_reads_the_others_anew(folder: Path) -> None:
    with Store(folder) as store, Store(folder) as other:
        store.add(record(seed=1))
        other.add(record(seed=2))
        found = reader(folder)
        assert found.runs().height == 2
        (log,) = [path for path in (folder / "logs").iterdir() if b'"seed":1' in path.read_bytes()]
        log.unlink()
        found.refresh()
        assert found.runs()["seed"].to_list() == [2]


def test_a_frame_is_found_again_and_a_damaged_one_is_not_there(folder: Path) -> None:
    frame = pl.DataFrame({"time_s": [0.5, None], "queue": ["a", "b"]})
    with Store(folder) as store:
        entry = store.keep_frame(A, 1, "odd/key: ü@1", frame)
        store.add(record(frames={"odd/key: ü@1": entry}))
        run = store.runs_of([A])[A, 1]
        assert store.frame(run, "odd/key: ü@1").equals(frame)
        path = folder / entry["file"]
        assert path.parent == folder / "tables" / "aa" / f"{A}-1"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert not store.has_frame(run, "odd/key: ü@1")
        with pytest.raises(FrameError, match="is missing or damaged: repeat the run aaaaaaaaaaaa:1"):
            store.frame(run, "odd/key: ü@1")
        with pytest.raises(FrameError, match="has no stored table `other@1`"):
            store.frame(run, "other@1")


def test_a_run_whose_table_is_gone_or_cut_off_has_the_others(folder: Path) -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    with Store(folder) as store:
        kept = {key: store.keep_frame(A, 1, key, frame) for key in ("a@1", "b@1", "c@1")}
        store.add(record(frames=kept))
        (folder / kept["a@1"]["file"]).unlink()
        os.truncate(folder / kept["b@1"]["file"], 100)
        assert list(store.runs_of([A])[A, 1].frames) == ["c@1"]


def test_a_store_in_memory_answers_as_one_in_a_folder(folder: Path) -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    with Store.in_memory() as kept, Store(folder) as written:
        for store in (kept, written):
            store.add(record(frames={"t@1": store.keep_frame(A, 1, "t@1", frame)}))
            store.add(record(seed=2, values={"x@1": 1}))
            store.add({"kind": "sweep", "sweep": "s1", "name": "one", "definition": {}})
            store.refresh()
        assert kept.runs_of([A]) == written.runs_of([A])
        assert kept.values().equals(written.values())
        assert kept.records("sweep") == written.records("sweep")
        assert kept.frame(kept.runs_of([A])[A, 1], "t@1").equals(frame)


def test_memory_holds_no_more_than_the_newest_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aqmlab.store import index as store_index

    monkeypatch.setattr(store_index, "NEW_RECORDS", 10)
    with Store(folder) as store:
        for seed in range(95):
            store.add(record(seed=seed))
            store.add(record(seed=seed // 2, values={"more@1": 1.0}))
        store.refresh()
        assert store._contents is not None
        assert len(store._contents._new_runs) < 10
        found = store.runs_of([A])
    assert sorted(seed for _, seed in found) == list(range(95))
    assert found[A, 40].values == {**record(seed=40)["values"], "more@1": 1.0}
    assert len(found[A, 60].values) == 3


def test_a_folder_that_is_no_store_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(
        StoreFormatError, match="contains files, but is not a store: select a store, an empty"
    ):
        Store(tmp_path)
    with pytest.raises(StoreFormatError, match="must be a folder, because a store is a folder"):
        Store(tmp_path / "thesis.tex")
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_store_of_an_unknown_format_is_refused_with_the_cure(folder: Path) -> None:
    with Store(folder) as store:
        store.add(record())
    (folder / "FORMAT").write_text("aqmlab store 9\n")
    with pytest.raises(
        StoreFormatError, match=r"`aqmlab store 9`.* supports `aqmlab store 1`: use the version that"
    ):
        Store(folder)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": None}, "kind: must be a string such as `run` (got `None`)"),
        ({"seed": "1"}, "seed: must be of the type int (got `1`)"),
        ({"seed": 2**63}, "seed: must be from 0 to 9223372036854775807 (got 9223372036854775808)"),
        ({"scenario": 5}, "scenario: must be of the type str (got `5`)"),
        ({"status": "well"}, "status: must be done, failed or crashed (got `well`)"),
        ({"values": {"x@1": object()}}, "must be a JSON value (got a object)"),
    ],
)
def test_what_could_not_be_read_again_is_not_added(folder: Path, wrong: dict[str, Any], said: str) -> None:
    with Store(folder) as store, pytest.raises(ValueError, match=re.escape(said)):
        store.add(record() | wrong)
    assert not folder.exists()
