"""The commands `aqmlab sweep`, which run a scenario at many points along axes."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab.charts.style import Look, shown_of
from aqmlab.cli import dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import (
    PICTURES,
    STORE,
    AsJson,
    Font,
    Pictures,
    StoreFolder,
    Width,
    interrupted,
    load_scenario,
    pictures_of,
)
from aqmlab.cli.table_text import Form, TableForm
from aqmlab.sweep.file import SweepFile, is_sweep, load

if TYPE_CHECKING:
    from aqmlab.campaign import Executor
    from aqmlab.results.labels import Value
    from aqmlab.results.table import Results
    from aqmlab.sweep import Sweep

app = typer.Typer(
    help="Run a scenario with varied parameters and several replications, and judge claims.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path, typer.Argument(metavar="SWEEP.toml", help="Sweep file, or scenario file followed by axes.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH=VALUE,...]...",
        help="Path of a parameter, and its values. If the path is an axis of the file, the values replace "
        "the values of this axis. For any other path, a single value changes the scenario, and several "
        "values create an axis.",
    ),
]
Replications = Annotated[
    int | None,
    typer.Option(min=1, help="Number of runs of each point; by default the number in the file, or 10."),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        "--measure", metavar="NAME", help="Measure to compute; `aqmlab sweep measures` lists all measures."
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="TABLE",
        help="Table to store for each run, as Parquet; `tables` selects all tables.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="AXIS=VALUE",
        help="Also print paired differences between each other point and the point with this value.",
    ),
]
Ratio = Annotated[bool, typer.Option("--ratio", help="With --baseline: print ratios instead of differences.")]


def _load(
    file: Path,
    overrides: list[str] | None,
    replications: int | None,
    measures: list[str] | None,
    keep: list[str] | None = None,
) -> SweepFile:
    found = load(file, overrides or (), replications=replications, measures=measures or (), tables=keep or ())
    for warning in found.sweep.scenario.warnings:
        print(f"aqmlab: {warning}", file=sys.stderr)
    links = found.sweep.scenario.managed_links if "queue" in found.sweep.axes else []
    if len(links) > 1:
        print(
            f"aqmlab: the axis queue replaces the queues of {', '.join(links)}; an axis such as "
            f"{found.sweep.scenario.links[links[0]][0]}.queue replaces the queue of one link",
            file=sys.stderr,
        )
    return found


@app.command()
def run(
    file: File,
    overrides: Overrides = None,
    replications: Replications = None,
    measure: Measures = None,
    keep: Keep = None,
    baseline: Baseline = None,
    ratio: Ratio = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the number of runs, the number of stored runs, and the estimated time, without "
            "executing any runs.",
        ),
    ] = False,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast/--keep-going", help="Stop at the first failed run, or continue with the other runs."
        ),
    ] = False,
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Run only every N-th point, beginning with the I-th point, so that N machines can share a "
            "sweep.",
        ),
    ] = "1/1",
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    as_json: AsJson = False,
    store: StoreFolder = STORE,
) -> None:
    """Execute the runs that are missing from the store, and print the results of all runs."""
    _need("--baseline AXIS=VALUE", baseline, {"--ratio": ratio})
    _run(
        _load(file, overrides, replications, measure, keep),
        store,
        baseline=baseline,
        ratio=ratio,
        dry_run=dry_run,
        fail_fast=fail_fast,
        shard=_shard(shard),
        jobs=jobs,
        executor=dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers),
        as_json=as_json,
        retry=False,
    )


@app.command()
def retry(
    file: File,
    overrides: Overrides = None,
    replications: Replications = None,
    measure: Measures = None,
    keep: Keep = None,
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    as_json: AsJson = False,
    store: StoreFolder = STORE,
) -> None:
    """Repeat failed runs and execute missing runs."""
    _run(
        _load(file, overrides, replications, measure, keep),
        store,
        jobs=jobs,
        executor=dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers),
        as_json=as_json,
        retry=True,
    )


def _run(
    chosen: SweepFile,
    folder: Path,
    *,
    jobs: int | None,
    executor: "AbstractContextManager[Executor]",
    as_json: bool,
    retry: bool,
    baseline: str | None = None,
    ratio: bool = False,
    dry_run: bool = False,
    fail_fast: bool = False,
    shard: tuple[int, int] = (1, 1),
) -> None:
    from aqmlab.campaign import Account, FirstFailureError
    from aqmlab.cli import sweep_text
    from aqmlab.store import Store
    from aqmlab.sweep import estimate as sweep_estimate
    from aqmlab.sweep import run as sweep_run

    sweep = chosen.sweep
    against = _labels(sweep, baseline)
    if dry_run:
        with Store(folder, read_only=True) as kept:
            print("\n".join(sweep_text.estimate(sweep_estimate.of(sweep, kept, jobs=jobs))))
        return
    account, interrupted = Account(), False
    with executor as makes, Store(folder) as kept:
        try:
            sweep_run.run(
                sweep,
                kept,
                executor=makes,
                label=sweep.name,
                retry=retry,
                fail_fast=fail_fast,
                shard=shard,
                account=account,
            )
        except KeyboardInterrupt:
            interrupted = True
        except FirstFailureError as error:
            print(f"aqmlab: {error}", file=sys.stderr)
            print(f"aqmlab: stopped; {account.made} finished runs are stored in {folder}", file=sys.stderr)
            raise typer.Exit(1) from None
        found = kept.results(sweep)
    result = replace(found, failures=tuple(account.failures), interrupted=interrupted)
    if result.frame.height or as_json:
        _show(chosen, result, against, ratio, as_json, ())
    if not as_json:
        print(f"\n{account.made} runs executed, {account.found} found in the store {folder}")
    _end(result, folder)


def _end(result: "Results", folder: Path) -> None:
    from aqmlab.cli import sweep_text

    sweep_text.print_failures(result)
    if result.interrupted:
        raise interrupted(folder)
    if result.too_wide:
        print(
            f"aqmlab: {result.too_wide} of {result.points.height} points reached the maximum number of "
            "replications with intervals wider than precision requires: raise precision.most",
            file=sys.stderr,
        )
    if result.failures:
        print(
            f"aqmlab: {len(result.failures)} runs failed; `aqmlab sweep retry` repeats them",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _show(
    chosen: SweepFile,
    result: "Results",
    baseline: "dict[str, Value]",
    ratio: bool,
    as_json: bool,
    measures: list[str] | tuple[str, ...],
    quantile: float | None = None,
    form: Form = Form.TEXT,
) -> None:
    from aqmlab.cli import sweep_text
    from aqmlab.sweep import claims as claim_tables

    differences = None
    if baseline:
        differences = result.against(baseline, "ratio" if ratio else "difference", wanted=measures)
    judged = claim_tables.judge(chosen.claims, result)
    if as_json:
        print(json.dumps(sweep_text.table(result, chosen.sweep.id, judged, differences), indent=2))
        return
    sweep_text.print_intervals(result, measures, quantile=quantile, form=form)
    if differences is not None:
        kind = "Paired ratios to" if ratio else "Paired differences from"
        wanted = [result.measure(name) for name in measures] or list(result.measured)
        labels = ",".join(f"{label}={value}" for label, value in baseline.items())
        title = f"{kind} {labels}, with 95 % intervals"
        sweep_text.print_estimates(result, differences, wanted, title, form)
    sweep_text.print_judged(judged)


def _labels(sweep: "Sweep", text: str | None) -> dict[str, "Value"]:
    """Returns the labels in `axis=value,axis=value`, with values converted to the axes' types. Without a
    baseline, the result is empty."""
    if text is None:
        return {}
    known = {axis.label: axis for axis in sweep.all_axes}
    found: dict[str, Value] = {}
    for part in text.split(","):
        label, separator, value = part.partition("=")
        if not separator:
            raise ValueError(f"--baseline: must be AXIS=VALUE, such as queue=drop-tail (got {text})")
        values = known[label].values if label in known else {}
        found[label] = next((one for one in values if str(one) == value), value)
    sweep.check_baseline("--baseline", found)
    return found


def _need(other: str, given: object, options: Mapping[str, object]) -> None:
    """Rejects options that have no effect without another option."""
    alone = next((name for name, value in options.items() if value and given is None), None)
    if alone:
        raise ValueError(f"{alone}: needs {other}")


def _shard(text: str) -> tuple[int, int]:
    part, _, whole = text.partition("/")
    if not (part.isdigit() and whole.isdigit() and 1 <= int(part) <= int(whole)):
        raise ValueError(f"--shard: must be I/N with I from 1 to N, such as 3/10 (got {text})")
    return int(part), int(whole)


@app.command()
def show(
    file: File,
    overrides: Overrides = None,
    replications: Replications = None,
    measure: Measures = None,
    baseline: Baseline = None,
    ratio: Ratio = False,
    quantile: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Quantile of the replications to print instead of the mean, such as 0.5."
        ),
    ] = None,
    log_y: Annotated[bool, typer.Option("--log-y", help="With --plot: logarithmic vertical axis.")] = False,
    distribution: Annotated[
        bool,
        typer.Option(
            "--distribution",
            help="With --plot: plot the distribution of each measure across the replications, with a "
            "confidence band.",
        ),
    ] = False,
    as_json: AsJson = False,
    csv: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print CSV with the labels, the seed and the measures of each run in a row."
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for a plot of each measure against an axis, and for the plotted data as CSV.",
        ),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(metavar="AXIS", help="With --plot: sweep axis that is plotted as the horizontal axis."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS", help="With --plot: sweep axis for which a separate curve is drawn for each value."
        ),
    ] = None,
    panel: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS", help="With --plot: sweep axis for which a separate panel is drawn for each value."
        ),
    ] = None,
    pictures: Pictures = PICTURES,
    width: Width = None,
    font: Font = None,
    table: TableForm = Form.TEXT,
    store: StoreFolder = STORE,
) -> None:
    """Print and plot the stored results of a sweep, without executing runs."""
    from aqmlab.store import Store
    from aqmlab.sweep import run as sweep_run

    _need("--baseline AXIS=VALUE", baseline, {"--ratio": ratio})
    drawn = {"--log-y": log_y, "--distribution": distribution, "--x": x, "--by": by, "--panel": panel}
    _need("--plot FOLDER", plot, drawn | {"--width": width, "--font": font})
    kinds, look = pictures_of(pictures), Look.parsed(width, font)
    chosen = _load(file, overrides, replications, None)
    against = _labels(chosen.sweep, baseline)
    with Store(store, read_only=True) as kept:
        sweep_run.plan(chosen.sweep, kept)
        result = kept.results(chosen.sweep)
    names = measure or []
    for name in names:
        result.measure(name)
    if csv:
        points = result.points.with_row_index("point")
        runs = points.join(result.frame, on=list(result.axes), maintain_order="left")
        print(runs.write_csv(), end="")
    else:
        _show(chosen, result, against, ratio, as_json, names, quantile, table)
    if plot is not None:
        from aqmlab.charts import drawing
        from aqmlab.sweep import charts as sweep_charts

        wanted = names or [one.name for one in result.measured]
        charts = {
            name: sweep_charts.distribution(result, name, by=by, panel=panel)
            if distribution
            else sweep_charts.against_axis(result, name, x=x, by=by, panel=panel, log_y=log_y)
            for name in wanted
        }
        orders = [
            drawing.Order(chart, plot, name.replace("/", "-"), kinds, look) for name, chart in charts.items()
        ]
        for saved in drawing.save_each(orders):
            if isinstance(saved, str):
                print(f"aqmlab: {saved}", file=sys.stderr)
            elif not (csv or as_json):
                print(f"Plot: {saved[shown_of(kinds)]}")
    wanted_runs = result.wanted or 0
    done = result.frame.filter(result.frame["status"] == "done").height
    if done < wanted_runs:
        print(
            f"aqmlab: {wanted_runs - done} of {wanted_runs} runs are missing from the store", file=sys.stderr
        )


@app.command()
def explain(
    file: File,
    overrides: Overrides = None,
    replications: Replications = None,
    measure: Measures = None,
    points: Annotated[
        bool,
        typer.Option("--points", help="Print a line for each point instead of a line for each reason."),
    ] = False,
    store: StoreFolder = STORE,
) -> None:
    """List the runs that `aqmlab sweep run` would execute, and the reason for each run: a new point, changed
    settings or missing measures."""
    from aqmlab.cli import sweep_text
    from aqmlab.store import Store
    from aqmlab.sweep import explain as sweep_explain
    from aqmlab.sweep import run as sweep_run

    sweep = _load(file, overrides, replications, measure).sweep
    with Store(store, read_only=True) as kept:
        planned = sweep_run.plan(sweep, kept)
        found: Counter[str] = Counter()
        for one in sweep_explain.missing(planned, kept):
            labels = one.point.description
            found[f"{labels}: {one.reason}" if points else one.reason] += 1
    if not found:
        print("Nothing to run: all runs are in the store.")
    for line in sweep_text.reasons(found.most_common()):
        print(line)


@app.command()
def measures(file: File, overrides: Overrides = None) -> None:
    """List the measures of a scenario, or of the scenario that a sweep or study uses, with their units."""
    from aqmlab.measures import of_scenario
    from aqmlab.study import file as study_file

    if study_file.is_study(file):
        (experiment,) = study_file.load(file).experiments
        known = of_scenario(experiment.base_scenario) | dict(experiment.own_measures)
    elif is_sweep(file) or overrides:
        sweep = _load(file, overrides, None, None).sweep
        known = of_scenario(sweep.scenario) | dict(sweep.own_measures)
    else:
        known = of_scenario(load_scenario(file, None))
    width = max(map(len, known))
    for name, one in known.items():
        print(f"{name:<{width}}  {one.label}")
