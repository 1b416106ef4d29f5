"""The commands `aqmlab study`: published studies, run and judged."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from aqmlab.cli import completion, dask_options
from aqmlab.cli import live as live_cli
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers
from aqmlab.cli.options import INTERRUPTED

app = typer.Typer(
    help="Runs published studies and judges their claims.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_() -> None:
    """Lists the studies."""
    from aqmlab.studies import titles

    found = titles()
    width = max(map(len, found))
    for name, title in found.items():
        print(f"{name:<{width}}  {title}")


@app.command("run")
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.one_of("studies"),
            help="A study, as `aqmlab study list` has them, or a file with one (.toml, .py).",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replications, a thinner grid.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="How many runs at once; by default all cores, of live runs 16 on each."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the report and, in the folder store, its runs are kept; by default out/NAME, and "
            "-live, -today, -quick behind it.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="The study's live form: real TCP, in real time, on Linux.")
    ] = False,
    queues: Annotated[
        Literal["paper", "today"],
        typer.Option("--queues", help="`today` puts today's queues beside the paper's, by the same claims."),
    ] = "paper",
    claim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Judge only this claim, by the runs that the claim needs; may be repeated.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Draw only this figure or table, from the runs that it needs; may be repeated.",
        ),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Runs a study: figures, tables, claims with verdicts, and a report."""
    # Runs and figures take all cores: more threads of polars' would only take turns with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from aqmlab import studies
    from aqmlab.cli import study_text
    from aqmlab.studies.docs import costs as study_costs
    from aqmlab.study import points as study_points
    from aqmlab.study import run as study

    today = queues == "today"
    if live and today:
        raise typer.BadParameter("a study has a live form or one with today's queues, not both in one")
    chosen = studies.load(name, live=live, today=today)
    if claim or figure:
        study_points.chosen(chosen, claim or (), figure or ())
    if live:
        live_cli.prepare()
    folder = (
        out
        or Path("out")
        / f"{Path(name).stem}{'-live' if live else ''}{'-today' if today else ''}{'-quick' if quick else ''}"
    )
    try:
        with (
            dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
            study_costs.counted(folder),
        ):
            result = study.run(
                chosen,
                folder,
                quick=quick,
                jobs=jobs,
                executor=executor,
                claims=claim or (),
                figures=figure or (),
                source=name,
            )
    except KeyboardInterrupt:
        print(
            f"aqmlab: interrupted; finished runs are kept in {folder}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED) from None
    study_text.print_verdicts(result)
    if figure:
        study_text.print_drawn(result)
    for failure in result.failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    print(f"\nReport: {result.report}")
    if result.failures:
        raise typer.Exit(1)


@app.command("judge")
def judge(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.one_of("studies"),
            help="A study, as `aqmlab study list` has them, or a file with one (.toml, .py).",
        ),
    ],
    values: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The values of its runs; by default docs/studies/results/NAME.parquet, or else those in the "
            "folder of the last run, out/NAME/values.parquet.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="The study's live form.")] = False,
    queues: Annotated[
        Literal["paper", "today"], typer.Option("--queues", help="`today` is the form with today's queues.")
    ] = "paper",
) -> None:
    """Judges a study again from the published values of its runs, without a run."""
    from aqmlab import studies
    from aqmlab.cli import study_text
    from aqmlab.study import run as study
    from aqmlab.study import values as study_values

    today = queues == "today"
    if live and today:
        raise typer.BadParameter("a study has a live form or one with today's queues, not both in one")
    chosen = studies.load(name, live=live, today=today)
    page = f"{Path(name).stem}{'-live' if live else ''}{'-today' if today else ''}"
    places = [Path("docs/studies/results") / f"{page}.parquet", Path("out") / page / study_values.FILE]
    path = values or next((one for one in places if one.exists()), None)
    if path is None or not path.exists():
        tried = ", ".join(map(str, [path] if path else places))
        raise ValueError(f"there are no values of {page}: looked for {tried}; `aqmlab study run` makes them")
    result = study.judge(chosen, path)
    study_text.print_verdicts(result)
    for warning in result.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    about = study_values.metadata_of(path)
    commit = f", commit {about['commit'][:12]}" if "commit" in about else ""
    print(f"\nJudged from {path}: results version {about['results_version']}{commit}")
