"""The command `aqmlab report-card`, which measures queues in the scenarios of RFC 7928."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab.cli import completion, dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import limit_polars_threads, resumable

if TYPE_CHECKING:
    from aqmlab.report_card.pages import Measured
    from aqmlab.study.publication import StudyResult

EVERY = "all"
"""Name that stands for all kinds of queue that have a card, with their default parameters."""


def report_card(
    names: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE[,QUEUE...]",
            autocompletion=completion.several_of("queues"),
            help="Kinds of queue (`aqmlab list queues`), or names in [queues] of the scenario that --of "
            f"names; `{EVERY}` for every kind that has a card.",
        ),
    ],
    of: Annotated[
        Path | None,
        typer.Option("--of", metavar="SCENARIO.toml", help="Scenario with named queues in [queues]."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick form, with fewer replications and fewer round-trip times.")
    ] = False,
    replications: Annotated[
        int | None,
        typer.Option(
            min=2, help="Number of replications of each scenario; by default 8, and at most 3 with --quick."
        ),
    ] = None,
    jobs: Jobs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the reports, which contains a subfolder for each queue, and the subfolder store "
            "for the runs. The default is out/report-card, or out/report-card-quick with --quick.",
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the values and the Markdown page of each queue, and for a table of all queues.",
        ),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Property to judge, such as `goodput`. Only the runs that are needed for this property are "
            "executed. Repeat the option for further properties.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Figure or table to create: `ellipses`, `summary` or the table of a property. Repeat the "
            "option for further figures and tables.",
        ),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Measure queues in the scenarios of RFC 7928 and compare them with Drop Tail.

    Each queue is measured twice: with Drop Tail's buffer size, and with its own default buffer size. The card
    of each queue is a study."""
    limit_polars_threads()
    from aqmlab import report_card
    from aqmlab.cli import study_text
    from aqmlab.report_card import pages as card_pages
    from aqmlab.report_card.experiments import SEEDS
    from aqmlab.study import points as study_points
    from aqmlab.study import run_study
    from aqmlab.study import values as study_values

    if pages is not None and (claim or figure):
        raise typer.BadParameter("--pages: needs complete cards: remove --claim and --figure")
    tables = _tables(names, of)
    cards = [report_card.Card(name, table, replications or SEEDS) for name, table in tables.items()]
    studies = [report_card.of_card(card) for card in cards]
    for one in studies:
        study_points.chosen(one, claim or (), figure or ())
    folder = out or Path("out") / f"report-card{'-quick' if quick else ''}"
    failures = 0
    finished = []
    for card, one in zip(cards, studies, strict=True):
        with (
            resumable(folder),
            dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
        ):
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
        print()
        if claim or figure:
            print(card.name)
            study_text.print_verdicts(result)
            study_text.print_drawn(result)
        else:
            finished.append((card, folder / card.name / study_values.FILE))
            _print(card_pages.read(finished[-1][1], card), result)
        for failure in result.failures:
            print(f"aqmlab: {failure}", file=sys.stderr)
        failures += len(result.failures)
        print(f"\nReport: {result.report}")
    if pages is not None:
        print(f"\nPages: {card_pages.write(finished, pages)}")
    if failures:
        raise typer.Exit(1)


def _print(measured: "Measured", result: "StudyResult") -> None:
    """Prints a card with a line for each property. A line contains, for each buffer size, the sign of the
    verdict and the words that compare the queue with Drop Tail."""
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
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    print()
    print(CLAIMED)


def _tables(names: str, of: Path | None) -> dict[str, dict[str, Any]]:
    from aqmlab.report_card import queues
    from aqmlab.scenario import Scenario
    from aqmlab.scenario.queues import queue_named

    if names == EVERY:
        return queues.every_kind()
    selected = [name.strip() for name in names.split(",") if name.strip()]
    if not selected:
        raise ValueError(f"QUEUE: must name at least one queue, or `{EVERY}`")
    scenario = Scenario.load(of) if of is not None else None
    return {name: queue_named(scenario, name) for name in selected}
