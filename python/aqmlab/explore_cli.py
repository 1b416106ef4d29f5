"""The command `aqmlab explore`: sweeps as one interactive page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab.options import STORE, StoreFolder

if TYPE_CHECKING:
    from aqmlab.explore import Exploration


def explore(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SWEEP.toml|STORE]",
            help="A sweep file, whose runs are in the store, or the folder of a store; by default that of "
            "--store.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path(
        "explore.html"
    ),
    sweep: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a store: this sweep alone, and not all.")
    ] = None,
    store: StoreFolder = STORE,
) -> None:
    """Writes one page that works offline, to look at sweeps: choose axes, measures and a baseline, and click
    a point for its runs."""
    from aqmlab.explore import page
    from aqmlab.files import write_text

    found = _found(source, store, sweep)
    write_text(out, page(*found))
    points = sum(len(one.points) for one in found)
    runs = sum(len(point.seeds) for one in found for point in one.points)
    failed = sum(len(point.failures) for one in found for point in one.points)
    sweeps = "1 sweep" if len(found) == 1 else f"{len(found)} sweeps"
    lost = f", {failed} failed" if failed else ""
    print(f"{out}: {sweeps}, {points} points, {runs} runs{lost}")


def _found(source: Path | None, folder: Path, name: str | None) -> list["Exploration"]:
    from aqmlab import explore_store, sweep_file
    from aqmlab.store import Store

    is_file = source is not None and not source.is_dir()
    kept = folder if is_file or source is None else source
    if source is not None and is_file:
        if name is not None:
            raise ValueError("--sweep: chooses among the sweeps of a store; a sweep file is one")
        sweep = sweep_file.load(source).sweep
    if not kept.is_dir():
        raise ValueError(f"{kept}: there is no such store: make runs with aqmlab sweep run, or say --store")
    with Store(kept, read_only=True) as store:
        return [explore_store.of_sweep(sweep, store)] if is_file else explore_store.of_store(store, name)
