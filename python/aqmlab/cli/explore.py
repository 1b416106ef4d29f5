"""The command `aqmlab explore`, which writes an interactive page about sweeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab.cli.options import STORE, StoreFolder
from aqmlab.cli.sweep import Overrides, Replications

if TYPE_CHECKING:
    from aqmlab.explore.page import Exploration
    from aqmlab.store import Store


def explore(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SWEEP.toml|STORE]",
            help="Sweep file, or scenario file followed by axes, whose runs are in the store; alternatively, "
            "the folder of a store. The default is the folder that --store selects.",
        ),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Output file (HTML).")] = Path(
        "explore.html"
    ),
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="With a store: name of the sweep to show; by default all sweeps are shown."
        ),
    ] = None,
    replications: Replications = None,
    store: StoreFolder = STORE,
) -> None:
    """Write an interactive HTML page that shows the results of sweeps and works offline.

    On the page, the reader selects axes, measures and a baseline, and clicks a point to see the point's
    runs."""
    from aqmlab._support.files import write_text
    from aqmlab.explore.page import page

    if source is None or source.is_dir():
        if overrides or replications:
            raise ValueError(
                "axes and --replications: can be used only with a sweep file, because sweeps in a store "
                "cannot be changed"
            )
        found = _of_store(source or store, sweep)
    elif sweep is not None:
        raise ValueError("--sweep: can be used only with a store, because a sweep file contains one sweep")
    else:
        found = [_of_file(source, overrides or [], replications, store)]
    write_text(out, page(*found))
    points = sum(len(one.points) for one in found)
    runs = sum(len(point.seeds) for one in found for point in one.points)
    failed = sum(len(point.failures) for one in found for point in one.points)
    sweeps = "1 sweep" if len(found) == 1 else f"{len(found)} sweeps"
    lost = f", {failed} failed" if failed else ""
    print(f"{out}: {sweeps}, {points} points, {runs} runs{lost}")


def _of_store(folder: Path, name: str | None) -> "list[Exploration]":
    from aqmlab.explore import of_store as explore_store

    with _opened(folder) as store:
        return explore_store.of_store(store, name)


def _of_file(path: Path, overrides: list[str], replications: int | None, folder: Path) -> "Exploration":
    from aqmlab.explore import of_store as explore_store
    from aqmlab.sweep import file as sweep_file

    sweep = sweep_file.load(path, overrides, replications=replications).sweep
    with _opened(folder) as store:
        return explore_store.of_sweep(sweep, store)


def _opened(folder: Path) -> "Store":
    from aqmlab.store import Store

    if not folder.is_dir():
        raise ValueError(
            f"{folder}: the store does not exist: run `aqmlab sweep run` first, or use --store to select "
            "another store"
        )
    return Store(folder, read_only=True)
