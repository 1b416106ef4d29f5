"""The commands `aqmlab study`, which run and judge published studies."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.cli import completion, dask_options
from aqmlab.cli import live as live_cli
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers
from aqmlab.cli.options import limit_polars_threads, resumable

if TYPE_CHECKING:
    from aqmlab.study.publication import Study

app = typer.Typer(
    help="Run published studies and judge their claims.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        autocompletion=completion.one_of("studies"),
        help="Name of a study (`aqmlab study list`), or file that contains a study (.toml, .py).",
    ),
]


@app.command("list")
def list_() -> None:
    """List the studies."""
    from aqmlab.studies import titles

    studies = titles()
    width = max(map(len, studies))
    for name, title in studies.items():
        print(f"{name:<{width}}  {title}")


@app.command("run")
def run(
    name: Name,
    quick: Annotated[
        bool, typer.Option("--quick", help="Quick form of the study, with fewer replications and points.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of parallel runs; by default one per core, or 16 per core for live runs."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the report; its subfolder store contains the runs. The default is out/NAME, "
            "followed by a suffix for the form of the study, such as -quick.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Live form of the study, in which the Linux kernel's TCP runs in real time."
        ),
    ] = False,
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Additional queues: `today`, or comma-separated kinds (codel,fq-codel). Figures and tables "
            "show the additional queues. If the study's claims are about every queue, the claims include the "
            "additional queues.",
        ),
    ] = None,
    tcp: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Other TCPs for the senders, such as cubic/sack (`aqmlab list tcp`), or a guest such as "
            "noq:bbr3 if the study has a form for guests. The results of each TCP are written to a separate "
            "folder.",
        ),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Claim to judge. Only the runs that are needed for this claim are executed. Repeat the "
            "option for further claims.",
        ),
    ] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Figure or table to create. Only the runs that are needed for this figure or table are "
            "executed. Repeat the option for further figures and tables.",
        ),
    ] = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Run a study, judge its claims, and write its figures, tables and report."""
    limit_polars_threads()
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
        with (
            resumable(folder),
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
    """Loads a study, the live form of a study, or a study with additional queues."""
    from aqmlab import studies
    from aqmlab.study import queues as study_queues

    if live and queues:
        raise typer.BadParameter("--live and --queues are mutually exclusive: use only one of them")
    chosen = studies.load(name, live=live)
    return chosen if queues is None else study_queues.beside(chosen, study_queues.named(listed(queues)))


def _source(name: str, live: bool, queues: str | None, tcp: str | None) -> str:
    """Returns the command line that selects this form of a study, without options such as --jobs."""
    lists = [f"{option} {text}" for option, text in (("--queues", queues), ("--tcp", tcp)) if text]
    return " ".join(["study run", name, *(["--live"] if live else []), *lists])


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the study.")],
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Scenario to vary; by default a small scenario that is written into the study file.",
        ),
    ] = None,
) -> None:
    """Create NAME.toml, which contains a complete study that you can edit."""
    from aqmlab.study import new as new_study

    path = new_study.write(name, Path(), scenario)
    print(f"{path}: contains a study of three queues, with a claim, a figure and a table; edit this file")
    print(f"Run it with `aqmlab study run {path} --quick`.")


@app.command("judge")
def judge(
    name: Name,
    values: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the values of the runs; by default docs/studies/results/NAME.parquet if this "
            "file exists, otherwise out/NAME/values.parquet from the last run.",
        ),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Judge the live form of the study.")] = False,
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Judge the form of the study with these additional queues, such as `today`."
        ),
    ] = None,
) -> None:
    """Judge a study from published values, without executing runs."""
    from aqmlab.cli import study_text
    from aqmlab.study import run as study
    from aqmlab.study import values as study_values

    chosen = _loaded(name, live, queues)
    page = chosen.name
    defaults = [Path("docs/studies/results") / f"{page}.parquet", Path("out") / page / study_values.FILE]
    path = values or next((one for one in defaults if one.exists()), None)
    if path is None or not path.exists():
        searched = ", ".join(map(str, [path] if path else defaults))
        raise ValueError(f"{page}: no values were found in {searched}: run `aqmlab study run` first")
    result = study.judge(chosen, path)
    study_text.print_verdicts(result)
    for warning in result.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    about = study_values.metadata_of(path)
    commit = f", commit {about['commit'][:12]}" if "commit" in about else ""
    print(f"\nJudged from {path}: results version {about['results_version']}{commit}")
