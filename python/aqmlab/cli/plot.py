"""The commands `aqmlab plot`: pictures of one run."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import hint, listed
from aqmlab.charts.style import ENDINGS, Look
from aqmlab.cli import completion
from aqmlab.cli.options import Font, ScenarioFile, Settings, Width, load_scenario, time_of

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.charts.chart import Chart

app = typer.Typer(help="Draws pictures of a run.", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="FILE.png, FILE.svg or FILE.pdf. By default a PNG in this folder."),
]


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
    out: Out = None,
    width: Width = None,
    font: Font = None,
    link: Annotated[
        str | None, typer.Option(metavar="NAME", help="Leave out what other links dropped.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Draws what a flow sent and what was acknowledged over time; the numbers drawn are beside it, as CSV."""
    from aqmlab.run_charts import time_sequence

    path, look = _picture(out, f"time-sequence-{flow}"), Look.parsed(width, font)
    if run.is_dir():
        _refuse_settings(settings)
        tables: Mapping[str, pl.DataFrame] = time_sequence.load(run)
    else:
        tables = time_sequence.recorded(load_scenario(run, settings)).run().tables
    _draw(time_sequence.of_tables(tables, flow, link=link), path, look)


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
    out: Out = None,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
) -> None:
    """Draws what queues and edges show of their state over time; the numbers drawn are beside it, as CSV."""
    from aqmlab.run_charts import gauges

    path, look = _picture(out, f"gauge-{'-'.join(name)}"), Look.parsed(width, font)
    if run.is_dir():
        _refuse_settings(settings)
        samples = gauges.load(run)
    else:
        samples = load_scenario(run, settings).run().tables["gauges"]
    _draw(gauges.chart(samples, *name, place=at), path, look)


@app.command("queue-delay")
def plot_queue_delay(
    scenario: ScenarioFile,
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            autocompletion=completion.several_of("queues"),
            help="Queues to draw, separated by commas: kinds, or [queues.NAME] of the scenario. By default "
            "the scenario's own. Each replaces the queue of every link that has one, unless --at names one.",
        ),
    ] = "",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="LINK",
            help="The link to draw, whose queue alone --queues then replaces. By default the first link with "
            "a queue.",
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only what this workload sends; by default all of them."),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Draw means of times so long.")] = "100ms",
    out: Out = None,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
) -> None:
    """Draws how long packets waited over time, and where the rate of the line steps; the numbers drawn are
    beside it, as CSV."""
    from aqmlab.run_charts import queue_delay
    from aqmlab.scenario.queues import different_rates, replacement, with_queue

    path, every_s = _picture(out, "queue-delay"), time_of("--every", every)
    look, replaced_at = Look.parsed(width, font), [at] if at else []
    chosen = load_scenario(scenario, settings)
    links = chosen.managed_links
    if not links:
        raise LookupError(f"{chosen.name}: no link has a queue")
    link = at or links[0]
    if link not in links:
        raise LookupError(f"no link with a queue is named `{link}`: {hint(link, links)}")
    workloads = list(chosen.effective["traffic"])
    if traffic not in (None, *workloads):
        raise LookupError(f"no workload is named `{traffic}`: {hint(str(traffic), workloads)}")
    recorded = queue_delay.recorded(chosen, link)
    names = listed(queues)
    variants = {name: with_queue(recorded, name, replaced_at) for name in names} or {chosen.name: recorded}
    runs = {name: one.run() for name, one in variants.items()}
    steps = queue_delay.rate_steps(chosen, link)
    _draw(queue_delay.chart(runs, link, every_s=every_s, traffic=traffic, steps=steps), path, look)
    if names and (said := replacement(chosen, replaced_at)):
        print(said)
    if names and (note := different_rates(chosen, replaced_at)):
        print(f"aqmlab: {note}", file=sys.stderr)


def _picture(out: Path | None, name: str) -> Path:
    """The file of a picture, by default called so."""
    path = out or Path(f"{name}.png")
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise ValueError(f"--out {path}: must end in {', '.join(f'.{one}' for one in ENDINGS)}")
    return path


def _refuse_settings(settings: Sequence[str] | None) -> None:
    if settings:
        raise ValueError("--set changes a scenario before it is run; a folder holds a run that is over")


def _draw(chart: "Chart", path: Path, look: Look) -> None:
    from aqmlab.charts import chart as plot

    written = plot.save(chart, path.parent, path.stem, pictures=[path.suffix.removeprefix(".")], look=look)
    print("Plot and numbers: " + ", ".join(str(file) for file in written.values()))
