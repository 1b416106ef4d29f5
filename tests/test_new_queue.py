"""`aqmlab new queue` writes a file and two lines, or nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Cli

from aqmlab.cli import new_queue

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The part of a checkout that a new queue changes, in the folder of the test."""
    sources = tmp_path / new_queue.SOURCES
    sources.mkdir(parents=True)
    for name in ("lib.rs", "registry.rs", new_queue.TEMPLATE):
        shutil.copy(ROOT / new_queue.SOURCES / name, sources)
    return tmp_path


def test_a_new_queue_is_a_file_and_two_lines(checkout: Path, cli: Cli) -> None:
    sources = checkout / new_queue.SOURCES
    files = ("lib.rs", "registry.rs")
    before = {name: (sources / name).read_text().splitlines() for name in files}
    done = cli("new", "queue", "delay-limit")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cargo test -p aqm-queue delay_limit" in done.stdout
    after = {name: (sources / name).read_text().splitlines() for name in files}
    added = {name: [line for line in after[name] if line not in before[name]] for name in files}
    assert added == {
        "lib.rs": ["mod delay_limit;"],
        "registry.rs": ['        "delay-limit" => delay_limit,'],
    }
    for name in files:
        assert [line for line in after[name] if line not in added[name]] == before[name]
    modules = [line.split()[-1] for line in after["lib.rs"] if line.startswith(("mod ", "pub mod "))]
    assert modules == sorted(modules), "rustfmt wants modules in order"
    text = (sources / "delay_limit.rs").read_text()
    assert text.startswith("//! Delay limit: drops packets")
    assert "struct DelayLimit {" in text
    assert "MyQueue" not in text and "My queue" not in text


@pytest.mark.parametrize("name", ["delay-limit", "aaa", "zzz", "tempest"])
def test_modules_stay_in_order_and_attributes_with_theirs(name: str, checkout: Path) -> None:
    new_queue.write(name, checkout / "crates")
    lines = (checkout / new_queue.SOURCES / "lib.rs").read_text().splitlines()
    modules = [line.split()[-1] for line in lines if line.startswith(("mod ", "pub mod "))]
    assert modules == sorted(modules)
    assert lines[lines.index("mod template;") - 1] == "#[cfg(test)]"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("codel", "is already in use"),
        ("template", "is already in use"),
        ("flow-queues", "is already in use"),
        ("Delay", "must consist of words of lower-case letters"),
        ("2q", "must consist of words of lower-case letters"),
        ("a/b", "must consist of words of lower-case letters"),
        ("loop", "is a Rust keyword"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    name: str, said: str, checkout: Path, cli: Cli
) -> None:
    sources = checkout / new_queue.SOURCES
    before = {path.name: path.read_bytes() for path in sources.iterdir()}
    done = cli("new", "queue", name)
    assert done.returncode == 2
    assert f"{name}: " in done.stderr and said in done.stderr
    assert {path.name: path.read_bytes() for path in sources.iterdir()} == before


def test_a_queue_is_written_once_and_in_a_checkout_only(checkout: Path, tmp_path: Path) -> None:
    new_queue.write("delay-limit", checkout)
    with pytest.raises(ValueError, match="is already in use"):
        new_queue.write("delay-limit", checkout)
    with pytest.raises(ValueError, match="must be inside a checkout of aqmlab"):
        new_queue.write("delay-limit", Path("/"))
