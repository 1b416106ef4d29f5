"""The commands `aqmlab sensitivity`, which measures the influence of parameters, and `aqmlab tune`, which
searches for the best values of parameters."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.cli import dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import (
    STORE,
    AsJson,
    At,
    Settings,
    StoreFolder,
    links_of,
    load_scenario,
    print_files,
    resumable,
)

if TYPE_CHECKING:
    from aqmlab.measures import Measure
    from aqmlab.results.table import Failed
    from aqmlab.scenario import Scenario
    from aqmlab.stats import Band
    from aqmlab.tuning.factors import Factor


class Method(StrEnum):
    """The method of sensitivity analysis."""

    SOBOL = "sobol"
    MORRIS = "morris"


File = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO.toml|SWEEP.toml",
        help="Scenario file, or a sweep file whose scenario and measures are used.",
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="PATH=LOW..HIGH[:log]",
        help="Parameter and its range, such as bottleneck.queue.max_p=0.01..0.5:log. Repeat the option for "
        "further parameters.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0, help="First seed, which also determines the samples; by default the seed of the scenario."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the number of runs, without executing any runs.")
]
Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for plots and their data.")]


def sensitivity(
    file: File,
    vary: Vary = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="NAME",
            help="Measure to analyse; `aqmlab sweep measures` lists all measures.",
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="Method: sobol, which computes shares of the variance, or morris, which computes mean "
            "effects and needs far fewer runs."
        ),
    ] = Method.SOBOL,
    samples: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="For sobol: number of base samples, a power of 2 (default 64). With k parameters, each "
            "base sample results in k + 2 samples. For morris: number of trajectories (default 10), each of "
            "which consists of k + 1 samples.",
        ),
    ] = None,
    replications: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of runs of each sample, with the same seeds for all samples. The mean of the runs "
            "is analysed.",
        ),
    ] = 3,
    seed: Seed = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="Print CSV with a row for each combination of measure and parameter."),
    ] = False,
    out: Out = None,
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    store: StoreFolder = STORE,
) -> None:
    """Measure the influence of parameters on measures (global sensitivity analysis).

    All parameters are varied together, and the variation of each measure is attributed to the parameters."""
    from aqmlab.cli import tuning_text
    from aqmlab.store import Store
    from aqmlab.tuning import sensitivity_run

    scenario, own, measures = _source(file, settings)
    measures = [own.get(name, name) for name in measure] if measure else measures
    if not measures:
        raise ValueError("--measure: must name a measure; `aqmlab sweep measures` lists all measures")
    plan = sensitivity_run.plan(
        scenario,
        _factors(vary),
        measures,
        method=method.value,
        samples=samples,
        replications=replications,
        seed=seed,
    )
    executor = dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers)
    with executor as here, Store(store, read_only=dry_run) as kept:
        if dry_run or not (as_json or csv):
            print(tuning_text.planned(plan, plan.trials.stored(plan.scenarios, kept)), flush=True)
        if dry_run:
            return
        with resumable(store):
            found = sensitivity_run.run(plan, kept, executor=here, label="sensitivity")
    if as_json:
        print(json.dumps(tuning_text.sensitivity_table(found), indent=2))
    elif csv:
        print(found.table().write_csv(), end="")
    else:
        tuning_text.print_sensitivity(found)
    if out is not None:
        _print_written(tuning_text.write_sensitivity(found, out), as_json or csv)
    for name, problem in found.problems.items():
        print(f"aqmlab: {name}: {problem}", file=sys.stderr)
    _end(found.failures, failed=bool(found.problems))


def tune(
    file: File,
    vary: Vary = None,
    minimise: Annotated[str | None, typer.Option(metavar="MEASURE", help="Measure to minimise.")] = None,
    maximise: Annotated[str | None, typer.Option(metavar="MEASURE", help="Measure to maximise.")] = None,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help='Limit for a measure, in the measure\'s unit, such as "bottleneck.drops<1" (in %). '
            "Repeat the option for further limits.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials.")] = 40,
    replications: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of runs of each trial, with the same seeds for all trials. The mean of the runs "
            "is optimised.",
        ),
    ] = 5,
    fresh: Annotated[
        int, typer.Option(min=2, help="Number of additional seeds for the validation of the best values.")
    ] = 10,
    at_once: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of trials that run in parallel. More parallel trials use more cores, but then each "
            "trial is based on the results of fewer earlier trials.",
        ),
    ] = 4,
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure", metavar="NAME", help="Additional measure to report for the validation seeds."
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Queues to run with the validation seeds and to compare with the best values, in addition "
            "to the original scenario: kinds, or names in [queues] of the scenario. Each queue replaces the "
            "queues of all links that have a queue or, with --at, the queues of the selected links.",
        ),
    ] = "",
    at: At = None,
    seed: Seed = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    out: Out = None,
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    store: StoreFolder = STORE,
) -> None:
    """Search for the parameter values that minimise or maximise a measure, within limits on other measures.

    The best values are then validated with seeds that the search did not use."""
    from aqmlab.cli import tuning_text
    from aqmlab.scenario.queues import replacement
    from aqmlab.store import Store
    from aqmlab.tuning.tune_run import Tuning, run_tuning

    if (minimise is None) == (maximise is None):
        raise ValueError("--minimise and --maximise: use exactly one of them")
    scenario, own, _ = _source(file, settings)
    tuning = Tuning(
        scenario=scenario,
        factors=_factors(vary),
        objective=minimise or maximise or "",
        goal="maximise" if minimise is None else "minimise",
        limits=_limits(subject_to or ()),
        trials=trials,
        replications=replications,
        fresh=fresh,
        seed=seed,
        at_once=at_once,
        also=measure or (),
        against=listed(against),
        at=links_of(at),
        own_measures=own,
    )
    if dry_run or not as_json:
        print(tuning_text.planned_tuning(tuning), flush=True)
        if tuning.against and (sentence := replacement(scenario, tuning.at)):
            print(sentence)
    if dry_run:
        return
    executor = dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers)
    with executor as here, Store(store) as kept, resumable(store):
        found = run_tuning(tuning, kept, executor=here, label="tune")
    if as_json:
        print(json.dumps(tuning_text.tuning_table(found), indent=2))
    else:
        tuning_text.print_tuning(found)
    if out is not None:
        _print_written(tuning_text.write_tuning(found, out), as_json)
    _end(found.failures, failed=found.best is None)


def _source(
    file: Path, settings: list[str] | None
) -> "tuple[Scenario, Mapping[str, Measure], Sequence[str | Measure]]":
    """Returns the scenario of a file. For a sweep file, also returns the measures that the file defines, and
    the numeric measures that the file names."""
    from aqmlab.scenario import settings_of
    from aqmlab.sweep import file as sweep_file

    if not sweep_file.is_sweep(file):
        return load_scenario(file, settings), {}, ()
    sweep = sweep_file.load(file).sweep
    for warning in sweep.scenario.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    numbers = [one for one in sweep.wanted if not one.name.startswith("tables/")]
    return sweep.scenario.with_(settings_of(settings or ())), sweep.own_measures, numbers


def _factors(texts: list[str] | None) -> "list[Factor]":
    from aqmlab.tuning.factors import Factor

    if not texts:
        raise ValueError("--vary: must name a parameter, such as --vary bottleneck.queue.max_p=0.01..0.5:log")
    return [Factor.parsed(text) for text in texts]


def _limits(texts: Sequence[str]) -> "dict[str, Band]":
    from aqmlab.tuning.tune_run import limit

    found: dict[str, Band] = {}
    for text in texts:
        name, band = limit(text)
        if name in found:
            raise ValueError(
                f"--subject-to {text}: {name} already has a limit: write only one limit for each measure"
            )
        found[name] = band
    return found


def _print_written(files: Sequence[Path], quiet: bool) -> None:
    if not quiet:
        print_files(files)


def _end(failures: "Sequence[Failed]", *, failed: bool) -> None:
    for failure in failures[:5]:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if len(failures) > 5:
        print(f"aqmlab: and {len(failures) - 5} more", file=sys.stderr)
    if failures or failed:
        raise typer.Exit(1)
