"""The commands `aqmlab sensitivity` and `aqmlab tune`: which parameters matter, and the best ones."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab._support.names import listed
from aqmlab.cli import dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import (
    INTERRUPTED,
    STORE,
    AsJson,
    At,
    Settings,
    StoreFolder,
    links_of,
    load_scenario,
    tell_files,
)

if TYPE_CHECKING:
    from aqmlab.measures import Measure
    from aqmlab.results.table import Failed
    from aqmlab.scenario import Scenario
    from aqmlab.stats import Band
    from aqmlab.tuning.factors import Factor


class Method(StrEnum):
    """How sensitivity is measured."""

    SOBOL = "sobol"
    MORRIS = "morris"


File = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO.toml|SWEEP.toml",
        help="A scenario file, or a sweep file, of which the scenario and the measures are taken.",
    ),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="PATH=LOW..HIGH[:log]",
        help="A number between two ends, such as bottleneck.queue.max_p=0.01..0.5:log; repeat it for more.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="First seed, which chooses what is tried, too; by default the scenario's."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many runs there are, and make none.")]
Out = Annotated[Path | None, typer.Option(metavar="FOLDER", help="A folder for the plots and their numbers.")]


def sensitivity(
    file: File,
    vary: Vary = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="NAME", help="What to measure, as `aqmlab sweep measures` lists."),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="Shares of the variance, or mean effects by far fewer runs.")
    ] = Method.SOBOL,
    samples: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Base samples of sobol, a power of 2 (64), each of which takes as many samples as there are "
            "factors and two more; or trajectories of morris (10), with as many and one more.",
        ),
    ] = None,
    replications: Annotated[
        int, typer.Option(min=1, help="Runs of each sample, with the same seeds: their mean counts.")
    ] = 3,
    seed: Seed = None,
    settings: Settings = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a row for each measure and factor.")] = False,
    out: Out = None,
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    store: StoreFolder = STORE,
) -> None:
    """Tells which parameters matter for which measure: varies all at once, and shares out what changes."""
    from aqmlab.cli import tuning_text
    from aqmlab.store import Store
    from aqmlab.tuning import sensitivity_run

    scenario, own, measures = _source(file, settings)
    measures = [own.get(name, name) for name in measure] if measure else measures
    if not measures:
        raise ValueError("--measure: name what to measure; `aqmlab sweep measures` lists what there is")
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
        with _resumable(store):
            found = sensitivity_run.run(plan, kept, executor=here, label="sensitivity")
    if as_json:
        print(json.dumps(tuning_text.sensitivity_table(found), indent=2))
    elif csv:
        print(found.table().write_csv(), end="")
    else:
        tuning_text.print_sensitivity(found)
    if out is not None:
        _tell_written(tuning_text.write_sensitivity(found, out), as_json or csv)
    for name, problem in found.problems.items():
        print(f"aqmlab: {name}: {problem}", file=sys.stderr)
    _end(found.failures, failed=bool(found.problems))


def tune(
    file: File,
    vary: Vary = None,
    minimise: Annotated[
        str | None, typer.Option(metavar="MEASURE", help="What is to be as small as may be.")
    ] = None,
    maximise: Annotated[str | None, typer.Option(metavar="MEASURE", help="Or as large.")] = None,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIMIT",
            help='What must be kept, in the unit of the measure, such as "bottleneck.drops<1" (in %); '
            "several times.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many values are tried.")] = 40,
    replications: Annotated[
        int, typer.Option(min=1, help="Runs of each trial, with the same seeds: their mean counts.")
    ] = 5,
    fresh: Annotated[
        int, typer.Option(min=2, help="Seeds beyond those, which judge the best values found.")
    ] = 10,
    at_once: Annotated[
        int,
        typer.Option(
            min=1, help="Trials that run together: more keep more cores busy, and know less of each other."
        ),
    ] = 4,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="NAME", help="What to tell beside on the fresh seeds."),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Queues to compare with on the fresh seeds, beside the scenario as it was: kinds, or "
            "[queues.NAME] of the scenario. Each replaces the queue of every link that has one, unless --at "
            "names links.",
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
    """Looks for the values that minimise or maximise a measure within limits, and judges them on fresh
    seeds."""
    from aqmlab.cli import tuning_text
    from aqmlab.scenario.queues import replacement
    from aqmlab.store import Store
    from aqmlab.tuning.tune_run import Tuning, run_tuning

    if (minimise is None) == (maximise is None):
        raise ValueError("name one measure to --minimise or to --maximise")
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
        if tuning.against and (said := replacement(scenario, tuning.at)):
            print(said)
    if dry_run:
        return
    executor = dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers)
    with executor as here, Store(store) as kept, _resumable(store):
        found = run_tuning(tuning, kept, executor=here, label="tune")
    if as_json:
        print(json.dumps(tuning_text.tuning_table(found), indent=2))
    else:
        tuning_text.print_tuning(found)
    if out is not None:
        _tell_written(tuning_text.write_tuning(found, out), as_json)
    _end(found.failures, failed=found.best is None)


def _source(
    file: Path, settings: list[str] | None
) -> "tuple[Scenario, Mapping[str, Measure], Sequence[str | Measure]]":
    """The scenario of a file, and of a sweep file its own measures and those that are numbers."""
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
        raise ValueError("--vary: name what to vary, such as --vary bottleneck.queue.max_p=0.01..0.5:log")
    return [Factor.parsed(text) for text in texts]


def _limits(texts: Sequence[str]) -> "dict[str, Band]":
    from aqmlab.tuning.tune_run import limit

    found: dict[str, Band] = {}
    for text in texts:
        name, band = limit(text)
        if name in found:
            raise ValueError(f"--subject-to {text}: {name} has a limit already: one for each measure")
        found[name] = band
    return found


@contextmanager
def _resumable(store: Path) -> Iterator[None]:
    """Says after Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print(
            f"aqmlab: interrupted; finished runs are kept in {store}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED) from None


def _tell_written(files: Sequence[Path], quiet: bool) -> None:
    if not quiet:
        tell_files(files)


def _end(failures: "Sequence[Failed]", *, failed: bool) -> None:
    for failure in failures[:5]:
        print(f"aqmlab: {failure}", file=sys.stderr)
    if len(failures) > 5:
        print(f"aqmlab: and {len(failures) - 5} more", file=sys.stderr)
    if failures or failed:
        raise typer.Exit(1)
