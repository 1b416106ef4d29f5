"""What `--help` shows: whole sentences, examples that the commands take, and what the shell completes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from aqmlab.cli import app as cli
from aqmlab.cli import command_help, completion

GROUP: Any = typer.main.get_command(cli.app)


def commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, by its path."""
    for name, command in group.commands.items():
        here = f"{path} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, here)
        else:
            yield here, command


COMMANDS = dict(commands(GROUP))


def help_of(command: Any) -> str:
    text: str = command.get_help(typer.Context(command, info_name="it", max_content_width=78))
    return text


def test_every_command_has_an_example_of_its_own() -> None:
    assert COMMANDS.keys() == command_help.EXAMPLES.keys()
    for path, example in command_help.EXAMPLES.items():
        assert example.split()[: len(path.split()) + 1] == ["aqmlab", *path.split()]
        assert f"Example:\n    {example}\n" in help_of(COMMANDS[path]) + "\n"


@pytest.mark.parametrize("path", COMMANDS)
def test_an_example_is_taken(path: str) -> None:
    arguments = shlex.split(command_help.EXAMPLES[path])[1 + len(path.split()) :]
    COMMANDS[path].make_context(path, arguments)


def test_lists_of_commands_have_whole_sentences() -> None:
    text = " ".join(help_of(GROUP).split())
    assert "Write an interactive HTML page that shows the results of sweeps and works offline." in text
    assert "..." not in text.partition("Commands:")[2]
    every = [GROUP, *(command for command in GROUP.commands.values() if hasattr(command, "commands"))]
    for group in every:
        for command in group.commands.values():
            assert command_help._first_sentence(command).endswith("."), command.name


@pytest.mark.parametrize("former", command_help.RENAMED)
def test_a_former_name_of_a_command_is_answered_with_the_current_one(
    former: str, capsys: pytest.CaptureFixture[str]
) -> None:
    current = command_help.RENAMED[former]
    assert former not in COMMANDS and current in COMMANDS
    with pytest.raises(SystemExit):
        GROUP.main([*former.split(), "some.toml"])
    assert f"`aqmlab {former}` is now `aqmlab {current}`" in capsys.readouterr().err


def test_names_are_completed() -> None:
    assert completion.several_of("queues")("drop-tail,fq-co") == ["drop-tail,fq-codel"]
    assert completion.one_of("studies")("she") == [] and completion.one_of("studies")("shr") == ["shred"]
    assert completion.shown("gentle") == [] and "codel" in completion.shown("cod")
    assert completion.family("sc") == ["scenarios"]


def test_scenarios_and_files_are_completed(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "help.toml").touch()
    (tmp_path / "help.csv").touch()
    (tmp_path / "heap").mkdir()
    (tmp_path / "heap" / "inner.toml").touch()
    assert completion.scenario("he") == ["hello", "heap/", "help.toml"]
    assert completion.scenario("heap/") == ["heap/inner.toml"]
    assert completion.scenario("nowhere/") == []
