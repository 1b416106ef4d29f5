"""Bad input ends in one line that names file, place and remedy, with exit status 2 and nothing written."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from conftest import SMALL, Cli
from typer.testing import CliRunner

import aqmlab as al
from aqmlab import _core
from aqmlab.cli.app import app
from aqmlab.scenario import ScenarioFileError

EMPTY = ""
NO_TOML = "duration = "


def spoilt(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new, 1)


BAD_FILES = {
    "empty": (
        EMPTY,
        ["duration: is missing: set the duration", "bottleneck: is missing", "traffic: is missing"],
    ),
    "only a comment": ("# nothing\n", ["duration: is missing: set the duration", "traffic: is missing"]),
    "no toml": (NO_TOML, ["line 1"]),
    "a key twice": ('duration = "1s"\nduration = "2s"\n', ["line 2", "duplicate key"]),
    "no queue": (
        'duration = "1s"\n[bottleneck]\nrate = "1Mbps"\n',
        ["bottleneck.queue", "is missing", "drop-tail"],
    ),
    "no traffic": (
        'duration = "1s"\n[bottleneck.queue]\nkind = "red"\n',
        ["traffic", "is missing", "[traffic.NAME]"],
    ),
    "an unknown key": (spoilt("max_th", "maxth"), ["bottleneck.queue", "`maxth`", "`max_th`"]),
    "an unknown section": (spoilt("[bottleneck]", "[bottlneck]"), ["`bottlneck`", "`bottleneck`"]),
    "an unknown kind": (spoilt('"red"', '"purple"'), ["bottleneck.queue.kind", "`purple`", "`shred`"]),
    "no unit": (spoilt('"20ms"', '"20"'), ["bottleneck.delay", "`20` has no unit"]),
    "a number for a time": (spoilt('"20ms"', "20"), ["bottleneck.delay", "20", "ms"]),
    "a negative time": (spoilt('"20ms"', '"-20ms"'), ["bottleneck.delay", "-20ms", "zero or more"]),
    "a contradiction": (spoilt('"15p"', '"4p"'), ["bottleneck.queue.max_th", "exceed min_th (5p)"]),
    "warm-up for ever": (spoilt('"2s"', '"12s"'), ["warm_up", "shorter than the duration, 12s"]),
    "not a number": (spoilt("0.1", "nan"), ["bottleneck.queue.max_p", "not a finite number"]),
    "infinite": (spoilt("0.1", "inf"), ["bottleneck.queue.max_p", "not a finite number"]),
    "a date": (spoilt("0.1", "2026-01-01"), ["bottleneck.queue.max_p", "date"]),
    "too probable": (spoilt("0.1", "1.5"), ["bottleneck.queue.max_p", "at most 1", "1.5"]),
    "a billion years": (spoilt('"12s"', '"3e16s"'), ["duration"]),
    "a trillion flows": (
        spoilt("flows = 3", "flows = 1000000000000"),
        ["traffic.ftp.flows", "1000000000000"],
    ),
    "a terabit for a year": (
        spoilt('"12s"', '"31536000s"').replace("2Mbps", "10Tbps"),
        ["bottleneck.queue", "packets", "hours of computing"],
    ),
    "a list for a table": (
        'duration = "1s"\nbottleneck = []\n',
        ["bottleneck: must be a table, not a list", "traffic: is missing"],
    ),
    "a table for a text": (
        spoilt('duration = "12s"', "duration = { s = 12 }"),
        ["duration", "text with a unit"],
    ),
}


def assert_refused(done_code: int, said: str, path: Path, parts: list[str]) -> None:
    assert done_code == 2, said
    assert "Traceback" not in said
    assert "panicked" not in said
    assert str(path) in said
    for part in parts:
        assert part in said, f"{said} does not say {part}"


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_file_place_and_remedy(case: str, tmp_path: Path) -> None:
    text, parts = BAD_FILES[case]
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioFileError) as caught:
        al.Scenario.load(path)
    said = str(caught.value)
    assert_refused(2, said, path, parts)
    # One mistake stands beside the name of the file, several stand below it.
    head, *lines = said.splitlines()
    assert len(lines) != 1
    assert all(line.startswith("  ") for line in lines)
    assert head == f"{path}:" if lines else head.startswith(f"{path}: ")


def test_all_mistakes_of_a_table_are_told_unknown_keys_first(tmp_path: Path) -> None:
    text = spoilt("max_th", "maxth").replace('min_th = "5p"', 'min_th = "5q"')
    with pytest.raises(_core.ScenarioError) as caught:
        _core.Document.of_toml(text, "").plan({})
    places = [place for place, _ in caught.value.problems]
    assert places == ["bottleneck.queue.maxth", "bottleneck.queue.min_th"]
    assert caught.value.problem.startswith("unknown key `maxth`; did you mean `max_th`? allowed: `kind`, ")
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioFileError) as refused:
        al.Scenario.load(path)
    head, *lines = str(refused.value).splitlines()
    assert head == f"{path}:"
    assert lines == [f"  {line}" for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("command", ["run", "check", "compare"])
def test_every_command_refuses_bad_files_and_writes_nothing(command: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(BAD_FILES["a contradiction"][0], encoding="utf-8")
    more = {"run": ["--out", "out"], "check": [], "compare": ["--queues", "red", "--out", "out"]}[command]
    done = cli(command, path, *more)
    assert_refused(done.returncode, done.stderr, path, ["bottleneck.queue.max_th", "5p"])
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["bad.toml"]


def test_what_is_no_readable_text_is_refused(cli: Cli, tmp_path: Path) -> None:
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b'duration = "1s" # caf\xe9')
    done = cli("run", latin)
    assert_refused(done.returncode, done.stderr, latin, ["byte 21", "UTF-8"])
    done = cli("run", tmp_path)
    assert_refused(done.returncode, done.stderr, tmp_path, ["cannot be read", "directory"])
    missing = tmp_path / "missing.toml"
    done = cli("run", missing)
    assert_refused(done.returncode, done.stderr, missing, ["cannot be read", "No such file"])
    if os.name == "posix":
        done = cli("run", "/dev/null")
        assert_refused(done.returncode, done.stderr, Path("/dev/null"), ["duration: is missing"])


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("nonsense", ["path=value"]),
        ("=3", ["path=value"]),
        ("bottleneck.queue.max_p", ["path=value"]),
        ("bottleneck.queue.max_p=2", ["bottleneck.queue.max_p", "at most 1"]),
        ("bottleneck.queue.max_p=", ["bottleneck.queue.max_p"]),
        ("bottleneck.queue.max_p=nan", ["bottleneck.queue.max_p"]),
        ("bottleneck.queue.max_p=inf", ["bottleneck.queue.max_p"]),
        ("bottleneck.queue.max_p=2026-01-01", ["bottleneck.queue.max_p"]),
        ("bottleneck.queue.max_q=1", ["max_q", "max_p"]),
        ("seed.of.life=42", ["seed"]),
        ("seed=-1", ["seed"]),
        ("seed=99999999999999999999999", ["seed"]),
        ("traffic.ftp=3", ["traffic.ftp", "table"]),
        ("..=1", [""]),
        ("traffic.new.kind=ftp\x00", ["kind"]),
    ],
)
def test_a_nonsense_setting_is_refused(setting: str, parts: list[str], small: Path) -> None:
    from aqmlab.scenario import settings_of

    with pytest.raises(ValueError) as caught:
        al.Scenario.load(small).with_(settings_of([setting]))
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "setting", ["nonsense", "bottleneck.queue.max_p=2", "bottleneck.queue.max_p=nan", "seed.of=1"]
)
def test_a_nonsense_setting_ends_the_command_line_with_status_2(setting: str, cli: Cli, small: Path) -> None:
    done = cli("run", small, "--set", setting, "--out", "out")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert setting.split("=")[0].split(".")[0] in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["run"],
        ["run", "SMALL", "--seed", "-1"],
        ["run", "SMALL", "--seed", "many"],
        ["run", "SMALL", "--colour", "red"],
        ["compare", "SMALL"],
        ["compare", "SMALL", "--queues", "red", "--replications", "0"],
        ["compare", "SMALL", "--queues", ","],
        ["compare", "SMALL", "--queues", "red,red"],
        ["compare", "SMALL", "--queues", "red,purple"],
        ["study", "run", "no-such-study"],
        ["list", "cats"],
        ["show", "no-such-name"],
    ],
)
def test_wrong_arguments_end_with_status_2(arguments: list[str], cli: Cli, small: Path) -> None:
    done = cli(*[str(small) if one == "SMALL" else one for one in arguments])
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert [one.name for one in small.parent.iterdir()] == ["small.toml"]


def test_a_seed_too_big_for_the_core_is_refused(cli: Cli, small: Path) -> None:
    done = cli("run", small, "--seed", str(2**64))
    assert done.returncode == 2, done.stderr
    assert "seed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written_is_an_error_of_one_line(cli: Cli, small: Path) -> None:
    done = cli("run", small, "--out", small)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert str(small) in done.stderr


def test_mangled_files_are_read_or_refused_but_never_break() -> None:
    rng = random.Random(5)
    pieces = [
        "",
        "[",
        "]",
        "=",
        '"',
        "\x00",
        "é",
        "\u202e",
        "nan",
        "-1",
        "1e999",
        "[[a]]",
        "\n",
        "{",
        "9" * 40,
    ]
    refused = 0
    for _ in range(1500):
        text = SMALL
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            to = min(len(text), at + rng.randint(0, 12))
            text = text[:at] + rng.choice(pieces) + text[to:]
        try:
            _core.Document.of_toml(text, "").plan({})
        except _core.ScenarioError as error:
            refused += 1
            assert (error.path, error.problem) == error.problems[0]
            assert all(problem for _, problem in error.problems)
            lines = [f"{place}: {problem}" if place else problem for place, problem in error.problems]
            assert str(error) == "\n".join(lines)
    assert 500 < refused < 1500


def test_the_command_line_tells_what_is_missing_without_arguments() -> None:
    result = CliRunner().invoke(app, ["run"])
    assert result.exit_code == 2
    assert "SCENARIO" in result.output
