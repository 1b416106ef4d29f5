"""What several commands have in common: options, and how a scenario is loaded with them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from aqmlab import _core
from aqmlab._support.names import listed
from aqmlab.charts.style import check_pictures
from aqmlab.cli import completion
from aqmlab.scenario import Scenario, settings_of

ScenarioFile = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO",
        autocompletion=completion.scenario,
        help="A scenario file (TOML), `-` for standard input, or the name of a scenario that comes with "
        "aqmlab (`aqmlab list scenarios`).",
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of the first run. By default that of the scenario.")
]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as bottleneck.queue.max_p=0.2."),
]

Queues = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        autocompletion=completion.several_of("queues"),
        help="Queues to compare, separated by commas: kinds, or [queues.NAME] of the scenario. Each "
        "replaces the queue of every link that has one, unless --at names links.",
    ),
]
Tcps = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        autocompletion=completion.several_of("aliases"),
        help="TCPs to compare, separated by commas: CONTROL/RECOVERY such as cubic/sack, or an alias; "
        "`aqmlab list tcp` lists them. They change the scenario's [tcp]; a workload's own "
        "[traffic.NAME.tcp] stays as it is.",
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="LINK,...",
        help="Replace the queues of these links only. By default --queues replaces the queue of every link "
        "that has one.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Pictures = Annotated[
    str, typer.Option("--pictures", metavar="KIND,...", help="Kinds of pictures to write: svg, png, pdf.")
]
Width = Annotated[
    str | None,
    typer.Option(metavar="LENGTH", help="Width of pictures, such as 3.5in, 88mm or 252pt (a column)."),
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
        help="Where runs are kept.",
    ),
]
INTERRUPTED = 130
"""Exit status after Ctrl-C."""

STORE = Path("out/store")
"""Where they are kept unless `--store` or AQMLAB_STORE says otherwise."""


PICTURES = "svg,png"
"""The pictures that are written unless `--pictures` names others."""


def pictures_of(text: str) -> tuple[str, ...]:
    """The kinds of pictures that `--pictures` names."""
    found = tuple(dict.fromkeys(listed(text)))
    check_pictures("--pictures", found)
    if not found:
        raise ValueError("--pictures: name at least one kind, such as pdf")
    return found


def links_of(at: Sequence[str] | None) -> list[str]:
    """The links that `--at` names, once or several times, with commas or without."""
    return list(dict.fromkeys(name for text in at or () for name in listed(text)))


def load_scenario(path: Path, settings: Sequence[str] | None) -> Scenario:
    """The scenario with its settings; what is doubtful in it is told on standard error."""
    scenario = Scenario.load(path, settings_of(settings or []))
    for warning in scenario.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    return scenario


def tell_files(files: Sequence[Path]) -> None:
    """Says after an empty line what was written: numbers, and with pictures among them plots."""
    drawn = any(path.suffix in (".png", ".svg", ".html") for path in files)
    print(f"\n{'Plots and numbers' if drawn else 'Numbers'}: " + ", ".join(map(str, files)))


def time_of(option: str, text: str) -> float:
    """The seconds that an option says."""
    return quantity_of(option, text, "s", "time: write for example 90s")


def quantity_of(option: str, text: str, unit: str, wanted: str) -> float:
    """The value that an option says, in this base unit."""
    try:
        value, found = _core.quantity(text)
    except _core.ScenarioError:
        raise ValueError(f"{option} {text}: is no {wanted}") from None
    if found != unit:
        raise ValueError(f"{option} {text}: is no {wanted}")
    return value
