"""The store when things go wrong: killed processes, full disks, damaged bytes, clocks that jump."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import PATIENCE_S
from hypothesis import given, settings
from hypothesis import strategies as st

from aqmlab.store import Store
from aqmlab.store import care as store_care
from aqmlab.store import log as store_log
from aqmlab.store import store as store_module

A = "a" * 64


def record(seed: int, scenario: str = A) -> dict[str, Any]:
    values = {"web.p90-time@1": seed / 8, "web.pages@1": seed, "text@1": "ü" * (seed % 7)}
    return {"kind": "run", "scenario": scenario, "seed": seed, "status": "done", "values": values}


def values(seed: int) -> Any:
    return record(seed)["values"]


def seeds(folder: Path, scenario: str = A) -> list[int]:
    """The seeds that a newcomer finds, after a look at their values."""
    runs = Store(folder, read_only=True).runs_of([scenario])
    assert all(dict(run.values) == values(seed) for (_, seed), run in runs.items())
    return sorted(seed for _, seed in runs)


def cleaned(folder: Path) -> int:
    """How many logs `aqmlab store gc` had to leave alone."""
    store = Store(folder)
    return store_care.collect_garbage(store, store_care.removal(store, orphans=False, failed=False))[1]


PRELUDE = """
import json, os, signal, sys
from pathlib import Path
from aqmlab.store import Store, StoreFull
folder = Path(sys.argv[1])
def record(seed):
    values = {"web.p90-time@1": seed / 8, "web.pages@1": seed, "text@1": "ü" * (seed % 7)}
    return {"kind": "run", "scenario": "a" * 64, "seed": seed, "status": "done", "values": values}
"""


def script(code: str, *arguments: object, before: tuple[str, ...] = ()) -> str:
    """What a program prints that has a store's folder as its first argument."""
    command = [*before, sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("logs/*.log"))


# Killed processes


KILLED = """
import random, time
chance = random.Random(17)
acknowledged = []
for turn in range(100):
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        store = Store(folder)
        for seed in range(1000 * turn, 1000 * turn + 1000):
            store.add(record(seed))
            os.write(writes, b"%d\\n" % seed)
        os._exit(0)
    os.close(writes)
    with open(reads) as said:
        first = said.readline()
        time.sleep(chance.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        acknowledged += [int(line) for line in [first, *said] if line.endswith("\\n")]
print(json.dumps(acknowledged))
"""


def test_a_hundred_writers_killed_at_any_moment_lose_nothing_that_they_were_told_is_kept(
    folder: Path,
) -> None:
    acknowledged = set(json.loads(script(KILLED, folder)))
    assert len(acknowledged) > 100
    found = seeds(folder)
    assert acknowledged <= set(found)
    # At most the one record that was in flight when its writer died.
    assert len(set(found) - acknowledged) <= 100
    assert cleaned(folder) == 0
    assert len(logs(folder)) == 1
    assert seeds(folder) == found


@pytest.mark.parametrize("survivors", [0, 1, 2, 3])
def test_a_cleaning_that_is_killed_between_its_steps_loses_nothing(
    folder: Path, survivors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        with Store(folder) as store:
            store.add(record(seed))
    unlink, gone = Path.unlink, []

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".log" and len(gone) == 3 - survivors:
            raise KeyboardInterrupt
        gone.append(path)
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        if survivors:
            with pytest.raises(KeyboardInterrupt):
                cleaned(folder)
        else:
            cleaned(folder)
    assert len(logs(folder)) == 1 + survivors
    assert seeds(folder) == [0, 1, 2]


def test_a_torn_end_is_never_read_and_stands_in_nobodys_way(folder: Path) -> None:
    with Store(folder) as store:
        for seed in range(3):
            store.add(record(seed))
    (log,) = logs(folder)
    whole = log.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == 10]
    for length in range(len(whole) + 1):
        log.write_bytes(whole[:length])
        assert len(seeds(folder)) == sum(end <= length for end in ends)
    log.write_bytes(whole[:-5])
    with Store(folder) as store:
        store.add(record(3))
        assert sorted(seed for _, seed in store.runs_of([A])) == [0, 1, 3]
    assert store_care.verify(Store(folder)).damaged_lines == {log.name: 1}


FORKED = """
store = Store(folder)
store.add(record(0))
child = os.fork()
store.add(record(1 if child else 2))
if child:
    os.waitpid(child, 0)
    store.add(record(3))
store.close()
"""


def test_a_process_that_is_forked_writes_a_log_of_its_own(folder: Path) -> None:
    script(FORKED, folder)
    assert seeds(folder) == [0, 1, 2, 3]
    assert sorted(len(log.read_bytes().splitlines()) for log in logs(folder)) == [1, 3]


# Several at once


BUSY = """
from aqmlab.store import log as store_log
store_log.LOG_BYTES = 20_000
with Store(folder) as store:
    for seed in range(int(sys.argv[2]), int(sys.argv[3])):
        store.add(record(seed))
"""


def test_writers_readers_and_cleaning_at_once_lose_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "INDEX_AFTER", 50)
    spans = [(0, 6000), (6000, 12000)]
    writers = [
        subprocess.Popen([sys.executable, "-c", PRELUDE + BUSY, folder, str(first), str(end)])
        for first, end in spans
    ]
    reader = Store(folder)
    most = 0
    while any(writer.poll() is None for writer in writers):
        reader.refresh()
        found = reader.runs().height
        assert found >= most
        most = found
        if folder.exists():
            cleaned(folder)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seeds(folder) == list(range(12000))
    reader.refresh()
    assert reader.runs().height == 12000


def test_threads_of_one_process_share_a_store(folder: Path) -> None:
    with Store(folder) as store:
        threads = [
            threading.Thread(
                target=lambda first=first: [store.add(record(one)) for one in range(first, first + 50)]
            )
            for first in range(0, 400, 50)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seeds(folder) == list(range(400))


# The disk


FULL = """
import resource
limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
else:
    (folder.parent / "ballast").write_bytes(bytes(300_000))
store = Store(folder)
added = 0
try:
    for seed in range(100_000):
        store.add(record(seed))
        added += 1
except StoreFull as error:
    print(json.dumps([error.errno, error.strerror, error.filename]))
assert sorted(seed for _, seed in Store(folder).runs_of(["a" * 64])) == list(range(added))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
else:
    (folder.parent / "ballast").unlink()
store.add(record(added))
store.close()
found = Store(folder)
assert sorted(seed for _, seed in found.runs_of(["a" * 64])) == list(range(added + 1))
from aqmlab.store import care as store_care
assert not store_care.verify(found).damaged
print(added)
"""


def test_a_log_that_may_not_grow_stops_with_a_clear_error_and_goes_on_when_there_is_room(
    folder: Path,
) -> None:
    error, added = map(json.loads, script(FULL, folder, 100_000).splitlines())
    assert error[0] == errno.EFBIG
    assert error[1].endswith(
        "free space on this file system, or use another folder with --store; the stored runs remain readable"
    )
    assert error[2] == str(folder)
    assert added > 400
    assert store_care.verify(Store(folder)).damaged is False


def in_a_mount(*, read_only: bool) -> Callable[[Path], tuple[str, ...]]:
    """Words before a command that is to see a file system of 1 MB, or one that cannot be written, there."""

    def words(place: Path) -> tuple[str, ...]:
        mount = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
        mount = mount if read_only else f"mount -t tmpfs -o size=1m none {place}"
        before = ("unshare", "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh")
        if not shutil.which("unshare") or subprocess.run([*before, "true"], capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
        return before

    return words


def test_a_full_disk_stops_with_a_clear_error_and_what_is_there_stays_readable(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    before = in_a_mount(read_only=False)(place)
    error, added = map(json.loads, script(FULL, place / "store", 0, before=before).splitlines())
    assert error[0] == errno.ENOSPC
    assert error[1].startswith("No space left on device: free space on this file system")
    assert added > 1000


READ_ONLY = """
store = Store(folder)
print(len(store.runs_of(["a" * 64])))
try:
    store.add(record(5000))
except OSError as error:
    print(error.strerror, error.filename, sep="|")
"""


def test_a_store_in_a_read_only_folder_is_read_and_refuses_the_first_write(tmp_path: Path) -> None:
    folder = tmp_path / "disk" / "store"
    with Store(folder) as store:
        for seed in range(1500):
            store.add(record(seed))
    before = in_a_mount(read_only=True)(folder.parent)
    count, error = script(READ_ONLY, folder, before=before).splitlines()
    assert count == "1500"
    assert error == (f"Read-only file system: use a writable folder with --store|{folder}")
    assert not (folder / "index").exists()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_what_may_not_be_written_is_told_with_the_folder(
    folder: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(folder) as store:
        store.add(record(0))

    def refuse(path: object, flags: int, *more: object, **rest: object) -> int:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(store_log.os, "open", refuse)
    with Store(folder) as store, pytest.raises(OSError, match="use a writable folder with --store") as told:
        store.add(record(1))
    assert (told.value.errno, told.value.filename) == (code, str(folder))


def test_a_failure_to_record_is_told_once_and_the_campaign_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(file: int, data: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Store(folder) as store:
        store.add(record(0))
        with monkeypatch.context() as patched:
            patched.setattr(store_log.os, "write", fail)
            for seed in (1, 2):
                store.add(record(seed))
        assert sorted(seed for _, seed in store.runs_of([A])) == [0, 1, 2]
        assert seeds(folder) == [0]
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.startswith(f"aqmlab: {folder}: cannot be written: Input/output error; further runs")
    assert seeds(folder) == [0, 1, 2], "what could not be written is tried again at the end"


def test_records_reach_the_disk_in_groups_soon_and_no_thread_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = threading.Event(), os.fsync
    files: list[int] = []

    def note(file: int) -> None:
        fsync(file)
        files.append(file)
        synced.set()

    with Store(folder) as store:
        store.add(record(0))
        monkeypatch.setattr(store_log.os, "fsync", note)
        for seed in range(1, 500):
            store.add(record(seed))
        assert synced.wait(60)
        assert len(files) < 100
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


# Damage


def damaged(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def test_a_flipped_bit_anywhere_in_a_log_is_found_and_its_run_is_missing(folder: Path) -> None:
    with Store(folder) as store:
        for seed in range(3):
            store.add(record(seed))
    (log,) = logs(folder)
    whole = log.read_bytes()
    chance = random.Random(3)
    for place in range(0, len(whole), 3):
        log.write_bytes(damaged(whole, place, chance.randrange(8)))
        line = whole[:place].count(b"\n")
        found = seeds(folder)
        assert line not in found
        assert set(found) | {line, line + 1} >= {0, 1, 2}, "but for a newline only one record is lost"
        assert store_care.verify(Store(folder)).damaged_lines[log.name] >= 1


def test_a_flipped_bit_anywhere_in_the_index_is_found_and_the_logs_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "INDEX_AFTER", 0)
    with Store(folder) as store:
        store.add({"kind": "sweep", "sweep": "s", "name": "one", "definition": {}})
        for seed in range(3):
            store.add(record(seed))
        store.refresh()
    index = folder / "index"
    whole = index.read_bytes()
    chance = random.Random(4)
    for place in range(0, len(whole), 41):
        index.write_bytes(damaged(whole, place, chance.randrange(8)))
        assert seeds(folder) == [0, 1, 2]
        assert store_care.verify(Store(folder, read_only=True)).index == "damaged"
    index.write_bytes(whole[: len(whole) // 2])
    with Store(folder) as store:
        assert store_care.repair(store, store_care.verify(store)) == 0
    assert not index.exists()
    Store(folder).refresh()
    assert store_care.verify(Store(folder)).index == "well"


def test_a_flipped_bit_anywhere_in_a_table_is_found_and_its_run_is_to_be_made_again(folder: Path) -> None:
    with Store(folder) as store:
        entry = store.keep_frame(A, 0, "web.times@1", pl.DataFrame({"x": [0.5, 1.5]}))
        store.add(record(0) | {"frames": {"web.times@1": entry}})
        run = store.runs_of([A])[A, 0]
        path = folder / entry["file"]
        whole = path.read_bytes()
        for place in range(0, len(whole), 41):
            path.write_bytes(damaged(whole, place, place % 8))
            assert not store.has_frame(run, "web.times@1")
    found = store_care.verify(Store(folder))
    assert found.damaged_frames == {(A, 0): ["web.times@1"]}
    store_care.repair(Store(folder), found)
    assert Store(folder).runs_of([A])[A, 0].frames == {}


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["put", "insert", "cut"]), st.integers(0, 2000), st.binary(min_size=1, max_size=40)
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(edits=EDITS, doubled=st.booleans())
def test_no_damage_yields_a_record_that_was_not_written(
    edits: list[tuple[str, int, bytes]], doubled: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    written = [json.loads(json.dumps(record(seed))) for seed in range(8)]
    data = b"".join(map(store_log.framed, written))
    for how, place, more in edits:
        place %= len(data) + 1
        after = {"put": place + len(more), "insert": place, "cut": place + len(more)}[how]
        data = data[:place] + (b"" if how == "cut" else more) + data[after:]
    path = tmp_path_factory.getbasetemp() / "damaged.log"
    path.write_bytes(data * (2 if doubled else 1))
    found: list[dict[str, Any]] = []
    store_log.read(path, 0, found.append)
    assert all(one in written for one in found)


# Clocks


def test_clocks_that_jump_decide_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = iter(range(10**9, 0, -(10**5)))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    monkeypatch.setattr(time, "time_ns", lambda: next(jumps) * 10**9)
    reader = Store(folder)
    for turn in range(4):
        with Store(folder) as store:
            store.add(record(turn))
            failed = {"status": "failed", "error": "ValueError: no", "values": {}}
            store.add(record(turn) | (failed if turn % 2 else {}))
        for place, log in enumerate(logs(folder)):
            os.utime(log, (10**9 - place * 10**6, 2 * 10**9 - place * 10**6))
        reader.refresh()
        assert sorted(seed for _, seed in reader.runs_of([A])) == list(range(turn + 1))
    cleaned(folder)
    assert seeds(folder) == [0, 1, 2, 3]
    assert set(Store(folder).runs()["status"]) == {"done"}
