"""What several commands have in common: options, and how a scenario is loaded with them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from aqmlab import _core
from aqmlab.scenario import Scenario, settings_of

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as bottleneck.queue.max_p=0.2."),
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


def load_scenario(path: Path, settings: Sequence[str] | None, reverse_ties: bool) -> Scenario:
    """The scenario with its settings; what is doubtful in it is told on standard error."""
    changes = settings_of(settings or [])
    scenario = Scenario.load(path, changes | {"reverse_ties": True} if reverse_ties else changes)
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
    except _core.ScenarioError as problem:
        raise ValueError(f"{option}: {problem}") from None
    if found != unit:
        raise ValueError(f"{option} {text}: is no {wanted}")
    return value
