"""Options and functions that several commands share."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support import quantities
from aqmlab._support.names import listed
from aqmlab.charts.style import check_pictures
from aqmlab.cli import completion
from aqmlab.scenario import Scenario, settings_of

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=completion.scenario,
        help="Scenario file (TOML), `-` for standard input, or name of a packaged scenario (`aqmlab list "
        "scenarios`).",
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of the first run; by default the seed of the scenario.")
]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="New value of a scenario parameter, such as bottleneck.queue.max_p=0.2.",
    ),
]

Queues = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        autocompletion=completion.several_of("queues"),
        help="Comma-separated queues to compare: kinds, or names in [queues] of the scenario. Each queue "
        "replaces the queues of all links that have a queue or, with --at, the queues of the selected links.",
    ),
]
Tcps = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        autocompletion=completion.several_of("aliases"),
        help="Comma-separated TCPs to compare: aliases, or CONTROL/RECOVERY, such as cubic/sack; `aqmlab "
        "list tcp` lists all names. Each TCP changes the scenario's [tcp] table, but not the table "
        "[traffic.NAME.tcp] of a workload.",
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="LINK,...",
        help="Links whose queues are replaced; by default all links that have a queue.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Pictures = Annotated[
    str, typer.Option("--pictures", metavar="KIND,...", help="Formats of pictures: svg, png, pdf.")
]
Width = Annotated[
    str | None,
    typer.Option(metavar="LENGTH", help="Width of pictures, such as 3.5in, 88mm or 252pt (one column)."),
]
Font = Annotated[
    str | None, typer.Option(metavar="NAME", help='Font of pictures, such as "Times New Roman" or serif.')
]

StoreFolder = Annotated[
    Path,
    typer.Option(
        "--store",
        metavar="FOLDER",
        envvar="AQMLAB_STORE",
        help="Folder of the store, which contains all runs.",
    ),
]
INTERRUPTED = 130
"""Exit status after Ctrl-C."""

STORE = Path("out/store")
"""Folder of the store if neither `--store` nor AQMLAB_STORE is set."""


PICTURES = "svg,png"
"""Default of `--pictures`."""


def pictures_of(text: str) -> tuple[str, ...]:
    """Returns the formats that are listed in the value of `--pictures`."""
    found = tuple(dict.fromkeys(listed(text)))
    check_pictures("--pictures", found)
    if not found:
        raise ValueError("--pictures: must name at least one format, such as pdf")
    return found


def links_of(at: Sequence[str] | None) -> list[str]:
    """Returns the links that are listed in the values of `--at`. Each value is a comma-separated list."""
    return list(dict.fromkeys(name for text in at or () for name in listed(text)))


def load_scenario(path: Path, settings: Sequence[str] | None) -> Scenario:
    """Loads a scenario, applies settings, and prints the scenario's warnings on standard error."""
    scenario = Scenario.load(path, settings_of(settings or []))
    for warning in scenario.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    return scenario


def limit_polars_threads() -> None:
    """Limit Polars to one thread, unless the environment sets another number. Call this function before the
    first import of Polars, which reads the limit once."""
    # The runs and figures use all cores, so additional Polars threads would only compete with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """After Ctrl-C, prints that the finished runs are in `folder`, and ends the command."""
    try:
        yield
    except KeyboardInterrupt:
        raise interrupted(folder) from None


def interrupted(folder: Path) -> typer.Exit:
    """Prints that the command was interrupted and that the finished runs are in `folder`. Returns the
    exception that ends the command."""
    print(
        f"aqmlab: interrupted; the finished runs are in {folder}; repeat the command to continue",
        file=sys.stderr,
    )
    return typer.Exit(INTERRUPTED)


def print_files(files: Sequence[Path]) -> None:
    """Prints an empty line, a heading ("Plots and numbers" or "Numbers"), and the paths of the written
    files."""
    has_plots = any(path.suffix in (".png", ".svg", ".html") for path in files)
    print(f"\n{'Plots and numbers' if has_plots else 'Numbers'}: " + ", ".join(map(str, files)))


def time_of(option: str, text: str) -> float:
    """Returns the value of an option in seconds."""
    return quantity_of(option, text, "s", "time, such as 90s")


def quantity_of(option: str, text: str, unit: str, expected: str) -> float:
    """Returns the value of an option in the base unit `unit`. Raises `ValueError` for an invalid value;
    `expected` describes valid values in the error message."""
    try:
        return quantities.value_of(text, unit, expected)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
