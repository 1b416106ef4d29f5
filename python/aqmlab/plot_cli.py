"""The commands `aqmlab plot`: pictures of one run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab.options import Settings, load_scenario, time_of

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.plot import Chart

app = typer.Typer(help="Pictures of one run.", no_args_is_help=True, rich_markup_mode=None)


@app.command("time-sequence")
def plot_time_sequence(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A folder that `aqmlab run --out` wrote, of a run with record.histories, or a scenario "
            "file, which is run with all histories recorded.",
        ),
    ],
    flow: Annotated[int, typer.Option(min=0, help="The number of the flow.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="FILE.png or FILE.svg; by default in this folder.")
    ] = None,
    link: Annotated[
        str | None, typer.Option(metavar="NAME", help="Leave out what other links dropped.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Draws what a flow sent and what was acknowledged over time; the numbers drawn are beside it, as CSV."""
    from aqmlab import time_sequence

    path = _picture(out, f"time-sequence-{flow}")
    if run.is_dir():
        _refuse_settings(settings)
        tables: Mapping[str, pl.DataFrame] = time_sequence.load(run)
    else:
        tables = time_sequence.recorded(load_scenario(run, settings, False)).run().tables
    _draw(time_sequence.of_tables(tables, flow, link=link), path)


@app.command("gauge")
def plot_gauge(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A folder that `aqmlab run --out` wrote, or a scenario file, which is run."
        ),
    ],
    name: Annotated[
        list[str],
        typer.Option(
            help="The gauge, such as average or probability; named again for more, which are drawn beneath, "
            "those of one unit together, those without apart."
        ),
    ],
    at: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Only this link's queue, or the edge at this node.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="FILE.png or FILE.svg; by default in this folder.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Draws what queues and edges show of their state over time; the numbers drawn are beside it, as CSV."""
    from aqmlab import gauges

    path = _picture(out, f"gauge-{'-'.join(name)}")
    if run.is_dir():
        _refuse_settings(settings)
        samples = gauges.load(run)
    else:
        samples = load_scenario(run, settings, False).run().tables["gauges"]
    _draw(gauges.chart(samples, *name, place=at), path)


@app.command("queue-delay")
def plot_queue_delay(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="A scenario file, which is run.")],
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Run it with each of these: kinds, or [queues.NAME]; by default its own."
        ),
    ] = "",
    at: Annotated[
        str | None, typer.Option(metavar="LINK", help="The link; by default the first one with a queue.")
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only what this workload sends; by default all of them."),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Draw means of times so long.")] = "100ms",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="FILE.png or FILE.svg; by default in this folder.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Draws how long packets waited over time, and where the rate of the line steps; the numbers drawn are
    beside it, as CSV."""
    from aqmlab import queue_delay
    from aqmlab.compare import with_queue

    path, every_s = _picture(out, "queue-delay"), time_of("--every", every)
    chosen = load_scenario(scenario, settings, False)
    links = queue_delay.links(chosen)
    link = at or next(iter(links))
    if link not in links:
        raise LookupError(f"there is no link with a queue named `{link}`; there is {', '.join(links)}")
    workloads = list(chosen.effective["traffic"])
    if traffic not in (None, *workloads):
        raise LookupError(f"there is no workload named `{traffic}`; there is {', '.join(workloads)}")
    recorded = queue_delay.recorded(chosen, link)
    names = [name.strip() for name in queues.split(",") if name.strip()]
    variants = {name: with_queue(recorded, name) for name in names} or {chosen.name: recorded}
    runs = {name: one.run() for name, one in variants.items()}
    steps = queue_delay.rate_steps(chosen, link)
    _draw(queue_delay.chart(runs, link, every_s=every_s, traffic=traffic, steps=steps), path)


def _picture(out: Path | None, name: str) -> Path:
    """The file of a picture, by default called so."""
    path = out or Path(f"{name}.png")
    if path.suffix not in (".png", ".svg"):
        raise ValueError(f"--out {path}: must end in .png or .svg")
    return path


def _refuse_settings(settings: Sequence[str] | None) -> None:
    if settings:
        raise ValueError("--set changes a scenario before it is run; a folder holds a run that is over")


def _draw(chart: "Chart", path: Path) -> None:
    from aqmlab import plot

    written = plot.save(chart, path.parent, path.stem, pictures=[path.suffix.removeprefix(".")])
    print("Plot and numbers: " + ", ".join(str(file) for file in written.values()))
