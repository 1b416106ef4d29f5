"""The command `aqmlab coexist`, which measures how congestion controls share a link."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.cli import completion, dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import AsJson, limit_polars_threads, print_files, resumable, time_of
from aqmlab.cli.table_text import Form, TableForm

if TYPE_CHECKING:
    from aqmlab.study import StudyResult


def coexist(
    controls: Annotated[
        list[str],
        typer.Argument(
            metavar="CONTROL...",
            autocompletion=completion.one_of("aliases"),
            help="Congestion controls (`aqmlab list tcp`), such as cubic or bbr1. The loss recovery is "
            "RACK-TLP unless a name has the form CONTROL/RECOVERY. The suffix +ecn enables classic ECN, as "
            "in cubic+ecn. A name of the form STACK:CONTROL, such as quinn:cubic, is a control of a library "
            "in aqmlab-guests, or of a program that --guest names.",
        ),
    ],
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            autocompletion=completion.several_of("queues"),
            help="Queues (`aqmlab list queues`), or names in [queues] of the scenario that --of selects. The "
            "suffix +ecn makes a queue mark packets, as in codel+ecn.",
        ),
    ] = "drop-tail,codel,fq-codel,dualpi2",
    buffers: Annotated[
        str,
        typer.Option(
            metavar="LENGTH,...",
            help="Buffer sizes in bandwidth-delay products (0.5bdp), packets (100p) or bytes (64kB), or "
            "`default` for the default size of each queue.",
        ),
    ] = "1bdp",
    rtts: Annotated[
        str, typer.Option(metavar="TIME,...", help="Round-trip times without queueing, such as 10ms,40ms.")
    ] = "40ms",
    rate: Annotated[str, typer.Option(metavar="RATE", help="Rate of the bottleneck.")] = "50Mbps",
    flows: Annotated[
        int, typer.Option(min=1, help="Number of endless flows of each congestion control.")
    ] = 1,
    load: Annotated[
        float,
        typer.Option(
            help="Total load of the short transfers as a share of the rate. Each congestion control "
            "contributes half of this load."
        ),
    ] = 0.05,
    transfer: Annotated[
        str, typer.Option(metavar="SIZE", help="Size of a short transfer; the default is 50 segments.")
    ] = "72.4kB",
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each point.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run.")] = 1,
    duration: Annotated[str, typer.Option(metavar="TIME", help="Duration of a run.")] = "60s",
    warm_up: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Time at the beginning of each run that is excluded from the measurement."
        ),
    ] = "10s",
    of: Annotated[
        Path | None,
        typer.Option("--of", metavar="SCENARIO.toml", help="Scenario with named queues in [queues]."),
    ] = None,
    guest: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="Program that runs as a guest, for controls of the form NAME:CONTROL. Repeat the option for "
            "further programs.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use at most 2 seeds and runs of at most 20 s.")
    ] = False,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Figure or table to create: share, delay, drops, marks, p95-time or matrix; by default all "
            "of them. Repeat the option for further figures and tables.",
        ),
    ] = None,
    table: TableForm = Form.TEXT,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the report, the figures and the table; its subfolder store contains the finished "
            "runs. The default is out/coexist, or out/coexist-quick with --quick.",
        ),
    ] = None,
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Measure how pairs of congestion controls share a link, at several queues, buffers and round-trip times.

    Every congestion control runs against every other congestion control, and against itself. Each control of
    a pair has endless flows and short transfers. The table and the figures show shares, queueing delay, loss,
    marks and times of short transfers."""
    limit_polars_threads()
    from aqmlab.coexistence import study as coexistence
    from aqmlab.scenario import Scenario
    from aqmlab.study import points, run_study

    study = coexistence.study(
        controls,
        queues=listed(queues),
        buffers=listed(buffers),
        rtts=listed(rtts),
        rate=rate,
        flows=flows,
        load=load,
        transfer=transfer,
        replications=seeds,
        first_seed=seed,
        duration_s=time_of("--duration", duration),
        warm_up_s=time_of("--warm-up", warm_up),
        of=None if of is None else Scenario.load(of),
        guests=_guests(guest or ()),
    )
    points.chosen(study, (), figure or ())
    for warning in coexistence.warnings(study):
        print(f"aqmlab: {warning}", file=sys.stderr)
    folder = out or Path("out") / f"coexist{'-quick' if quick else ''}"
    options = {
        "--queues": queues,
        "--buffers": buffers,
        "--rtts": rtts,
        "--rate": rate,
        "--flows": str(flows),
        "--load": f"{load:g}",
        "--transfer": transfer,
        "--seeds": str(seeds),
        "--seed": str(seed),
        "--duration": duration,
        "--warm-up": warm_up,
        "--of": str(of or ""),
    }
    words = [f"{option} {shlex.quote(text)}" for option, text in options.items() if text]
    words += [f"--guest {shlex.quote(text)}" for text in guest or ()]
    with (
        resumable(folder),
        dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
    ):
        result = run_study(
            study,
            folder,
            quick=quick,
            jobs=jobs,
            executor=executor,
            figures=figure or (),
            source=" ".join(["coexist", *map(shlex.quote, controls), *words]),
        )
    written = coexistence.write(result, folder)
    if as_json:
        print(json.dumps(coexistence.record(result), indent=2))
    else:
        _print(result, table)
        if table is Form.TEXT:
            print_files([*(one.paths["png"] for one in result.drawn if not one.problem), *written])
            print(f"Report: {result.report}")
    for failure in result.failures:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if result.failures:
        raise typer.Exit(1)


def _guests(given: Sequence[str]) -> dict[str, list[str]]:
    """The commands of programs, by name."""
    commands = {}
    for text in given:
        name, _, command = text.partition("=")
        if not name or not command.strip():
            raise ValueError(f"--guest: must have the form NAME=COMMAND (got {text!r})")
        commands[name] = shlex.split(command)
    return commands


def _print(result: "StudyResult", form: Form) -> None:
    from aqmlab.cli import table_text
    from aqmlab.coexistence.study import AXES, LEGEND

    for shown, frame in result.tables:
        if isinstance(frame, str):
            print(f"{shown.title}: {frame}")
        else:
            table_text.print_table(shown.title, frame.columns, frame.rows(), left=len(AXES), form=form)
    if form is Form.TEXT and result.tables:
        print(LEGEND)
    for one in result.drawn:
        if one.problem:
            print(f"Figure {one.figure.id}: {one.problem}")
