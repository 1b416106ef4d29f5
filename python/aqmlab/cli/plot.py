"""The commands `aqmlab plot`, which plot single runs."""

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

app = typer.Typer(help="Plot a run.", no_args_is_help=True, rich_markup_mode=None)

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Output file (.png, .svg or .pdf); by default a PNG in the current directory."
    ),
]


@app.command("time-sequence")
def plot_time_sequence(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder that `aqmlab run --out` wrote for a run with record.histories, or scenario file. "
            "If a scenario file is given, the scenario is run, and all histories are recorded.",
        ),
    ],
    flow: Annotated[int, typer.Option(min=0, help="Number of the flow.")],
    out: Out = None,
    width: Width = None,
    font: Font = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Link whose drops are shown; by default drops at all links are shown."
        ),
    ] = None,
    settings: Settings = None,
) -> None:
    """Plot the sent and acknowledged data of a flow over time, and write the plotted data as CSV."""
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
        typer.Argument(metavar="RUN", help="Folder that `aqmlab run --out` wrote, or scenario file to run."),
    ],
    name: Annotated[
        list[str],
        typer.Option(
            help="Gauge, such as average or probability. Repeat the option for further gauges. Gauges with "
            "the same unit share a panel; each gauge without a unit has its own panel."
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="LINK|NODE",
            help="Link whose queue is plotted, or node whose edge is plotted; by default all links and "
            "nodes.",
        ),
    ] = None,
    out: Out = None,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
) -> None:
    """Plot state variables (gauges) of queues and edges over time, and write the plotted data as CSV."""
    from aqmlab.run_charts import gauges

    path, look = _picture(out, f"gauge-{'-'.join(name)}"), Look.parsed(width, font)
    if run.is_dir():
        _refuse_settings(settings)
        samples = gauges.load(run)
    else:
        samples = load_scenario(run, settings).run().tables["gauges"]
    _draw(gauges.chart(samples, *name, location=at), path, look)


@app.command("queue-delay")
def plot_queue_delay(
    scenario: ScenarioFile,
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            autocompletion=completion.several_of("queues"),
            help="Comma-separated queues to plot: kinds, or names in [queues] of the scenario; by default "
            "the scenario's own queues. Each queue replaces the queues of all links that have a queue or, "
            "with --at, the queue of the selected link.",
        ),
    ] = "",
    at: Annotated[
        str | None,
        typer.Option(
            metavar="LINK",
            help="Link to plot, which is then also the only link whose queue is replaced by --queues. By "
            "default, the first link with a queue is plotted.",
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Workload whose packets are plotted; by default all workloads."),
    ] = None,
    every: Annotated[str, typer.Option(metavar="TIME", help="Averaging interval.")] = "100ms",
    out: Out = None,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
) -> None:
    """Plot queueing delay over time, together with changes of the link rate, and write the plotted data as
    CSV."""
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
    if names and (sentence := replacement(chosen, replaced_at)):
        print(sentence)
    if names and (note := different_rates(chosen, replaced_at)):
        print(f"aqmlab: {note}", file=sys.stderr)


def _picture(out: Path | None, name: str) -> Path:
    """Returns the path of a picture. The default is `name` with the suffix .png."""
    path = out or Path(f"{name}.png")
    if path.suffix.removeprefix(".") not in ENDINGS:
        raise ValueError(f"--out {path}: must end in {', '.join(f'.{ending}' for ending in ENDINGS)}")
    return path


def _refuse_settings(settings: Sequence[str] | None) -> None:
    if settings:
        raise ValueError(
            "--set: can be used only with a scenario file, because a folder contains a finished run"
        )


def _draw(chart: "Chart", path: Path, look: Look) -> None:
    from aqmlab.charts import chart as plot

    written = plot.save(chart, path.parent, path.stem, pictures=[path.suffix.removeprefix(".")], look=look)
    print("Plot and numbers: " + ", ".join(str(file) for file in written.values()))
