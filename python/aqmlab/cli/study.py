"""The commands `aqmlab study`: published studies, run and judged."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.cli import completion, dask_options
from aqmlab.cli import live as live_cli
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers
from aqmlab.cli.options import INTERRUPTED

if TYPE_CHECKING:
    from aqmlab.study.publication import Study

app = typer.Typer(
    help="Runs published studies and judges their claims.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        autocompletion=completion.one_of("studies"),
        help="A study, as `aqmlab study list` has them, or a file with one (.toml, .py).",
    ),
]


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
    name: Name,
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
            "behind the name which form it is, such as -quick.",
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="The study's live form: real TCP, in real time, on Linux.")
    ] = False,
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Other queues beside the study's own, in figures and tables, and in the claims "
            "of studies that ask them of any queue: `today`, or kinds between commas (codel,fq-codel).",
        ),
    ] = None,
    tcp: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Other senders, each in a folder of its own, such as cubic/sack (`aqmlab list tcp`).",
        ),
    ] = None,
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
    from aqmlab.cli import study_text
    from aqmlab.studies.docs import costs as study_costs
    from aqmlab.study import points as study_points
    from aqmlab.study import queues as study_queues
    from aqmlab.study import run as study

    chosen = _loaded(name, live, queues)
    forms = [chosen] if tcp is None else [study_queues.with_senders(chosen, one) for one in listed(tcp)]
    for one in forms:
        if claim or figure:
            study_points.chosen(one, claim or (), figure or ())
    if live:
        live_cli.prepare()
    failures = 0
    for one in forms:
        folder = out or Path("out") / f"{one.name}{'-quick' if quick else ''}"
        if out is not None and len(forms) > 1:
            folder = out / one.name
        if len(forms) > 1:
            print(f"\n{one.name}\n" if one is not forms[0] else f"{one.name}\n")
        try:
            with (
                dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
                study_costs.counted(folder),
            ):
                result = study.run(
                    one,
                    folder,
                    quick=quick,
                    jobs=jobs,
                    executor=executor,
                    claims=claim or (),
                    figures=figure or (),
                    source=_source(name, live, queues, tcp),
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
        failures += len(result.failures)
        print(f"\nReport: {result.report}")
    if failures:
        raise typer.Exit(1)


def _loaded(name: str, live: bool, queues: str | None) -> "Study":
    """A study in its live form, or with other queues beside its own."""
    from aqmlab import studies
    from aqmlab.study import queues as study_queues

    if live and queues:
        raise typer.BadParameter("a study has a live form or one with other queues, not both in one")
    chosen = studies.load(name, live=live)
    return chosen if queues is None else study_queues.beside(chosen, study_queues.named(listed(queues)))


def _source(name: str, live: bool, queues: str | None, tcp: str | None) -> str:
    """The command for the same form of a study."""
    lists = [f"{option} {text}" for option, text in (("--queues", queues), ("--tcp", tcp)) if text]
    return " ".join(["study run", name, *(["--live"] if live else []), *lists])


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the study is called.")],
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The scenario to vary; by default a small one in the study."),
    ] = None,
) -> None:
    """Writes NAME.toml, a study that runs, as a start."""
    from aqmlab.study import new as new_study

    path = new_study.write(name, Path(), scenario)
    print(f"{path}: a study of three queues, with a claim, a figure and a table; change it")
    print(f"Run it with `aqmlab study run {path} --quick`.")


@app.command("judge")
def judge(
    name: Name,
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
        str | None, typer.Option(metavar="LIST", help="The form with these queues: `today`.")
    ] = None,
) -> None:
    """Judges a study again from the published values of its runs, without a run."""
    from aqmlab.cli import study_text
    from aqmlab.study import run as study
    from aqmlab.study import values as study_values

    chosen = _loaded(name, live, queues)
    page = chosen.name
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
