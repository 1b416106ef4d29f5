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
    from aqmlab.report_card.pages import Measured
    from aqmlab.study.publication import StudyResult

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
            help="The folder of the reports, one for each queue in a folder of its name, and, in its folder "
            "store, of the runs; by default out/report-card, with --quick out/report-card-quick.",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also write the values and a page of Markdown for each queue, and a table over all.",
        ),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Judge only this property, such as `goodput`, by the runs that it needs; may be repeated.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Draw only this: `ellipses`, `summary` or the table of a property; may be repeated.",
        ),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Measures how queues behave in the scenarios of RFC 7928, beside Drop Tail: with equal room, and with
    the room of their defaults. The card of each queue is a study."""
    # Runs and figures take all cores: more threads of polars' would only take turns with them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from aqmlab import report_card
    from aqmlab.cli import study_text
    from aqmlab.report_card import pages as card_pages
    from aqmlab.report_card.experiments import SEEDS
    from aqmlab.study import points as study_points
    from aqmlab.study import run_study
    from aqmlab.study import values as study_values

    if pages is not None and (claim or figure):
        raise typer.BadParameter("--pages needs all of a card: leave out --claim and --figure")
    tables = _tables(names, of)
    cards = [report_card.Card(name, table, replications or SEEDS) for name, table in tables.items()]
    studies = [report_card.of_card(card) for card in cards]
    for one in studies:
        study_points.chosen(one, claim or (), figure or ())
    folder = out or Path("out") / f"report-card{'-quick' if quick else ''}"
    failures = 0
    made = []
    for card, one in zip(cards, studies, strict=True):
        try:
            with dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor:
                result = run_study(
                    one,
                    folder / card.name,
                    quick=quick,
                    jobs=jobs,
                    executor=executor,
                    claims=claim or (),
                    figures=figure or (),
                    source=" ".join(["report-card", card.name, *(["--of", str(of)] if of else [])]),
                    store_at=folder / "store",
                )
        except KeyboardInterrupt:
            print(
                f"aqmlab: interrupted; finished runs are kept in {folder}, the same command goes on",
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
        print()
        if claim or figure:
            print(card.name)
            study_text.print_verdicts(result)
            study_text.print_drawn(result)
        else:
            made.append((card, folder / card.name / study_values.FILE))
            _print(card_pages.read(made[-1][1], card), result)
        for failure in result.failures:
            print(f"aqmlab: {failure}", file=sys.stderr)
        failures += len(result.failures)
        print(f"\nReport: {result.report}")
    if pages is not None:
        print(f"\nPages: {card_pages.write(made, pages)}")
    if failures:
        raise typer.Exit(1)


def _print(measured: "Measured", result: "StudyResult") -> None:
    """The words of a card: a line for each property, and in each column how the queue compares, behind the
    sign of the verdict."""
    from aqmlab.report_card.study import CLAIMED, suffix
    from aqmlab.report_card.tables import TITLES
    from aqmlab.stats import SIGNS

    rooms = list(measured.card.columns)
    rows = [(measured.card.name, *(TITLES[room].lower() for room in rooms))]
    signs = {judged.id: SIGNS[judged.evidence.verdict] for judged in result.judged}
    for one in measured.findings:
        cells = []
        for room in rooms:
            words = ", ".join(one.words(room))
            sign = signs.get(one.property.id + suffix(room), signs.get(one.property.id, " "))
            cells.append(f"{sign} {words}" if words else "")
        if any(cells):
            rows.append((one.property.name, *cells))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        said = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        print("  ".join(said).rstrip())
    print()
    print(CLAIMED)


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
