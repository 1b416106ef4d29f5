"""The command `aqmlab advise`, which finds the best queue for given uses of a line."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.charts.style import Look
from aqmlab.cli import completion, dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import (
    PICTURES,
    STORE,
    AsJson,
    At,
    Font,
    Pictures,
    ScenarioFile,
    Seed,
    Settings,
    StoreFolder,
    Width,
    interrupted,
    links_of,
    load_scenario,
    pictures_of,
    print_files,
)
from aqmlab.cli.table_text import Form, TableForm

if TYPE_CHECKING:
    from aqmlab.advice import Recommendation
    from aqmlab.tc import Commands


def advise(
    scenario: ScenarioFile,
    uses: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="USE,...",
            help="Uses of the line: web, calls, video, games, downloads, uploads, responsiveness, "
            "bufferbloat (the grade), or a Quality of Outcome (qoo-web, qoo-streaming, qoo-conferencing, "
            "qoo-audio, qoo-backup, qoo-gaming); the most important use first. No score must become worse, "
            "and the first score that a queue improves decides. USE=WORKLOAD selects one workload.",
        ),
    ],
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            autocompletion=completion.several_of("queues"),
            help="Queues to compare with today's queue: kinds that Linux has, pfifo-1000, pfifo-100, or "
            "names in "
            "[queues] of the scenario. By default, the queues of Linux that need no parameters.",
        ),
    ] = "",
    subject_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help="Limit of a use or measure, such as 'calls >= 4', 'bufferbloat >= B' or, relative to today, "
            "'downloads >= 90%'. Repeat the option for further limits.",
        ),
    ] = None,
    at: At = None,
    same: Annotated[
        bool,
        typer.Option(
            "--same", help="Give all links the same queue, instead of finding the queue of each link."
        ),
    ] = False,
    precision: Annotated[
        float,
        typer.Option(help="Half-width of the interval of each improvement, as a share of today's score."),
    ] = 0.05,
    tolerance: Annotated[
        float, typer.Option(help="Difference that does not matter, as a share of today's score.")
    ] = 0.05,
    most: Annotated[int, typer.Option(metavar="N", help="Maximum number of runs of each queue.")] = 30,
    device: Annotated[
        str, typer.Option(metavar="NAME", help="Network device for which the tc commands are printed.")
    ] = "eth0",
    seed: Seed = None,
    table: TableForm = Form.TEXT,
    as_json: AsJson = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the picture and its numbers.")
    ] = Path("out/advise"),
    pictures: Pictures = PICTURES,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Find the queue that serves your uses of a line best, or learn that no queue helps or that the runs do
    not decide."""
    from aqmlab import advice
    from aqmlab.store import Store

    kinds, look = pictures_of(pictures), Look.parsed(width, font)
    advice.check_device(device)
    question = advice.Question(
        scenario=load_scenario(scenario, settings),
        uses=listed(uses),
        queues=listed(queues),
        subject_to=subject_to or (),
        at=links_of(at),
        same=same,
        precision=precision,
        tolerance=tolerance,
        most=most,
        first_seed=seed,
    )
    with (
        Store(store) as kept,
        dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
    ):
        found, steps = advice.advise(question, store=kept, executor=executor, label="advise", retry=True)
    failures = [failure for step in steps for failure in step.failures]
    for failure in failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if found is None:
        raise interrupted(store)
    to_type: dict[str, Commands] = {}
    if found.final.outcome == "change":
        try:
            to_type = advice.commands(question, found.queues, device)
        except ValueError as error:
            print(f"aqmlab: no commands of tc: {error}", file=sys.stderr)
    written = _save(found, out, kinds, look)
    if as_json:
        files = [str(path) for path in written]
        commands = {
            link: {"lines": one.lines, "undo": one.undo, "limits": one.limits}
            for link, one in to_type.items()
        }
        printed = {**advice.settings(question), **found.to_dict(), "tc": commands, "files": files}
        print(json.dumps(printed, indent=2))
    else:
        _print(found, table)
        if table is Form.TEXT:
            if note := advice.note(question):
                print(note)
            for link, one in to_type.items():
                names = dict.fromkeys(found.queues[name] for name in link.split(" and "))
                print(
                    f"\nCommands that install {' and '.join(names)} at {link} (aqmlab never executes them):"
                )
                print(one.text(), end="")
            print_files(written)
    if wide := sum(step.too_wide for step in steps):
        points = sum(len(step.axes["queue"]) for step in steps)
        print(
            f"aqmlab: {wide} of {points} {'combinations' if found.links else 'queues'} reached the maximum "
            f"number of runs (--most {most}) with intervals wider than --precision {precision:g}",
            file=sys.stderr,
        )
    if failures:
        raise typer.Exit(1)


def _save(found: "Recommendation", out: Path, kinds: tuple[str, ...], look: Look) -> list[Path]:
    """Writes the pictures of the trade-off at all links together and at each link."""
    from aqmlab import advice
    from aqmlab.charts import chart as plot

    scores = found.same.scores
    charts = {"trade-off": advice.chart(scores, found.same.assessments)} | {
        f"trade-off-{one.link}": advice.chart(scores, one.assessments) for one in found.links
    }
    return [
        path
        for name, chart in charts.items()
        for path in plot.save(chart, out, name, pictures=kinds, look=look).values()
    ]


def _print(found: "Recommendation", form: Form) -> None:
    from aqmlab import advice
    from aqmlab.cli import table_text

    same = found.same
    heads = ["queue", *(score.label for score in same.scores), "goodput (Mbps)", "constraints", "runs"]
    together = " at all links together" if found.links else ""
    title = f"Queues{together}, with simultaneous 95 % intervals"
    table_text.print_table(title, heads, list(advice.rows(same)), left=1, form=form)
    for sentence in advice.of_first_step(found) if found.links else advice.sentences(same):
        print(sentence)
    for one in found.links:
        print()
        others = " and ".join(advice.place_of(link, found) for link in found.queues if link != one.link)
        title = (
            f"Queues at {advice.place_of(one.link, found)}, with {advice.label_of(found.base)} at {others}"
        )
        compared = f"against {advice.label_of(found.base)}"
        table_text.print_table(
            title,
            [*heads[:-1], compared, heads[-1]],
            list(advice.rows_of_link(one, found)),
            left=1,
            form=form,
        )
        for sentence in advice.of_link(one, found):
            print(sentence)
    if found.links:
        print()
        for sentence in advice.of_recommendation(found):
            print(sentence)
