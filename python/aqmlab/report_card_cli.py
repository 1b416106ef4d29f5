"""The command `aqmlab report-card`: the scenarios of RFC 7928 for any queue."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from aqmlab import dask_options
from aqmlab.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.options import INTERRUPTED

EVERY = "all"
"""The word for every queue discipline as it comes."""


def report_card(
    names: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE[,QUEUE...]",
            help="Kinds of queue as they come, as `aqmlab list queues` has them, or names of [queues] of "
            "--of; "
            f"`{EVERY}` for every kind.",
        ),
    ],
    of: Annotated[
        Path | None,
        typer.Option("--of", metavar="SCENARIO.toml", help="A scenario whose [queues] have names."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replications, fewer round trips.")] = False,
    replications: Annotated[
        int | None,
        typer.Option(min=2, help="Replications of each scenario; by default 10, with --quick at most 3."),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the report and, in the folder store, its runs are kept; by default out/report-card, "
            "and "
            "-quick behind it.",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also write each card as a page of Markdown here."),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Asks queues what RFC 7928 asks of any AQM, beside Drop Tail: a line for each requirement, a column
    for each queue."""
    # Runs and figures take all cores: more threads of polars' would only take turns with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from aqmlab import report_card, study, study_text
    from aqmlab.report_card import pages as card_pages
    from aqmlab.report_card.experiments import SEEDS

    made = report_card.report_card(_tables(names, of), seeds=replications or SEEDS)
    folder = out or Path("out") / f"report-card{'-quick' if quick else ''}"
    try:
        with dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor:
            result = study.run(made, folder, quick=quick, jobs=jobs, executor=executor)
    except KeyboardInterrupt:
        print(
            f"aqmlab: interrupted; finished runs are kept in {folder}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED) from None
    study_text.print_verdicts(result)
    for failure in result.failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if pages is not None:
        card_pages.write(result, pages)
        print(f"\nPages: {pages / 'index.md'}")
    print(f"\nReport: {result.report}")
    if result.failures:
        raise typer.Exit(1)


def _tables(names: str, of: Path | None) -> dict[str, dict[str, Any]]:
    from aqmlab.queues import queue_named
    from aqmlab.report_card import network
    from aqmlab.scenario import Scenario

    if names == EVERY:
        return network.every_kind()
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    scenario = Scenario.load(of) if of is not None else None
    return {name: queue_named(scenario, name) for name in wanted}
