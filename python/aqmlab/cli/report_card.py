"""The command `aqmlab report-card`: how queues behave in the scenarios of RFC 7928."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab.cli import completion, dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import INTERRUPTED

if TYPE_CHECKING:
    from aqmlab.report_card import Characterisation

EVERY = "all"
"""The word for every kind that gets a card, with its defaults."""


def report_card(
    names: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE[,QUEUE...]",
            autocompletion=completion.several_of("queues"),
            help="Kinds of queue, as `aqmlab list queues` has them, or names of [queues] of --of; "
            f"`{EVERY}` for every kind that gets a card.",
        ),
    ],
    of: Annotated[
        Path | None,
        typer.Option("--of", metavar="SCENARIO.toml", help="A scenario whose [queues] have names."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer replications, fewer round trips.")] = False,
    replications: Annotated[
        int | None,
        typer.Option(min=2, help="Replications of each scenario; by default 8, with --quick at most 3."),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the report and, in its folder store, of the runs; by default "
            "out/report-card, with --quick out/report-card-quick.",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Also write the values and a page of Markdown for each queue."),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Measures how queues behave in the scenarios of RFC 7928, beside Drop Tail: with equal room, and with
    the room of their defaults."""
    # Runs and figures take all cores: more threads of polars' would only take turns with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from aqmlab._support.files import write_text
    from aqmlab.report_card import Characterisation, measure, report
    from aqmlab.report_card import pages as card_pages
    from aqmlab.report_card.experiments import SEEDS
    from aqmlab.report_card.values import FILE

    tables = _tables(names, of)
    folder = out or Path("out") / f"report-card{'-quick' if quick else ''}"
    try:
        with dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor:
            values, failures = measure(
                tables,
                folder,
                replications=replications or SEEDS,
                quick=quick,
                jobs=jobs,
                executor=executor,
            )
    except KeyboardInterrupt:
        print(
            f"aqmlab: interrupted; finished runs are kept in {folder}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED) from None
    found = Characterisation(values)
    _print(found)
    for failure in failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    values.write(folder / FILE)
    write_text(folder / "report.html", report.render(found, failures))
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        card_pages.write(values, pages)
        print(f"\nPages: {pages / 'index.md'}")
    print(f"\nReport: {folder / 'report.html'}")
    if failures:
        raise typer.Exit(1)


def _print(found: "Characterisation") -> None:
    """The words of each card: a line for each property, and how each column compares."""
    from aqmlab.report_card.tables import TITLES

    for card in found.cards:
        columns = [TITLES[room].lower() for room in card.rooms]
        rows = [(card.queue, *columns)]
        for finding in card.findings:
            words = [", ".join(finding.words(room)) for room in card.rooms]
            if any(words):
                rows.append((finding.property.name, *words))
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        print()
        for row in rows:
            said = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            print("  ".join(said).rstrip())


def _tables(names: str, of: Path | None) -> dict[str, dict[str, Any]]:
    from aqmlab.report_card import queues
    from aqmlab.scenario import Scenario
    from aqmlab.scenario.queues import queue_named

    if names == EVERY:
        return queues.every_kind()
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise ValueError(f"name at least one queue, or `{EVERY}`")
    scenario = Scenario.load(of) if of is not None else None
    return {name: queue_named(scenario, name) for name in wanted}
