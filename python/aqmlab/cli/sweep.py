"""The commands `aqmlab sweep`: many runs of a scenario along axes."""

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
    INTERRUPTED,
    PICTURES,
    STORE,
    AsJson,
    Font,
    Pictures,
    StoreFolder,
    Width,
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
    help="Runs a scenario along axes, with replications, and judges its claims.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path, typer.Argument(metavar="SWEEP.toml", help="A sweep file, or a scenario file with axes behind it.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH=VALUE,...]...",
        help="Values of an axis instead of those of the file; one value for any other path changes the "
        "scenario, several make an axis.",
    ),
]
Replications = Annotated[
    int | None, typer.Option(min=1, help="Runs of each point; by default those of the file, or 10.")
]
Measures = Annotated[
    list[str] | None,
    typer.Option("--measure", metavar="NAME", help="What to measure; `aqmlab sweep measures` lists all."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="TABLE", help="A table of each run to keep as Parquet; `tables` is all."),
]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="AXIS=VALUE", help="Also differences from points with this value, seed by seed."),
]
Ratio = Annotated[bool, typer.Option("--ratio", help="With --baseline: ratios, not differences.")]


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
            f"{found.sweep.scenario.links[links[0]][0]}.queue replaces that of one link",
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
        bool, typer.Option("--dry-run", help="Say how many runs there are, how many exist, and the time.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast/--keep-going", help="Stop at the first run that fails, or go on.")
    ] = False,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Only every N-th point from the I-th on: one call of N.")
    ] = "1/1",
    jobs: Jobs = None,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
    as_json: AsJson = False,
    store: StoreFolder = STORE,
) -> None:
    """Makes the runs that the store lacks, and prints what all of them say."""
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
    """Makes the runs that failed again, and those that are missing."""
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
            print(f"aqmlab: stopped; {account.made} runs were made and are kept in {folder}", file=sys.stderr)
            raise typer.Exit(1) from None
        found = kept.results(sweep)
    result = replace(found, failures=tuple(account.failures), interrupted=interrupted)
    if result.frame.height or as_json:
        _show(chosen, result, against, ratio, as_json, ())
    if not as_json:
        print(f"\n{account.made} runs made, {account.found} kept before, in {folder}")
    _end(result, folder)


def _end(result: "Results", folder: Path) -> None:
    from aqmlab.cli import sweep_text

    sweep_text.print_failures(result)
    if result.interrupted:
        print(
            f"aqmlab: interrupted; finished runs are kept in {folder}, the same command goes on",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    if result.too_wide:
        print(
            f"aqmlab: {result.too_wide} of {result.points.height} points have all the replications that "
            "precision allows, and are wider than asked: raise precision.most",
            file=sys.stderr,
        )
    if result.failures:
        print(
            f"aqmlab: {len(result.failures)} runs failed; `aqmlab sweep retry` makes them again",
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
        what = "Ratio to" if ratio else "Difference from"
        wanted = [result.measure(name) for name in measures] or list(result.measured)
        said = ",".join(f"{label}={value}" for label, value in baseline.items())
        title = f"{what} {said}, seed by seed, and its 95 % interval"
        sweep_text.print_estimates(result, differences, wanted, title, form)
    sweep_text.print_judged(judged)


def _labels(sweep: "Sweep", text: str | None) -> dict[str, "Value"]:
    """The labels of `axis=value,axis=value`, as the axes have them; none without a baseline."""
    if text is None:
        return {}
    known = {axis.label: axis for axis in sweep.all_axes}
    found: dict[str, Value] = {}
    for part in text.split(","):
        label, separator, value = part.partition("=")
        if not separator:
            raise ValueError(f"--baseline {text}: write AXIS=VALUE, such as queue=drop-tail")
        values = known[label].values if label in known else {}
        found[label] = next((one for one in values if str(one) == value), value)
    sweep.check_baseline("--baseline", found)
    return found


def _need(other: str, given: object, options: Mapping[str, object]) -> None:
    """Refuses options that say nothing without another one."""
    alone = next((name for name, value in options.items() if value and given is None), None)
    if alone:
        raise ValueError(f"{alone}: goes with {other}")


def _shard(text: str) -> tuple[int, int]:
    part, _, whole = text.partition("/")
    if not (part.isdigit() and whole.isdigit() and 1 <= int(part) <= int(whole)):
        raise ValueError(f"--shard {text}: write I/N with I from 1 to N, such as 3/10")
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
        typer.Option(min=0.0, max=1.0, help="This quantile over replications instead of the mean, as 0.5."),
    ] = None,
    log_y: Annotated[bool, typer.Option("--log-y", help="With --plot: a logarithmic axis.")] = False,
    distribution: Annotated[
        bool,
        typer.Option(
            "--distribution",
            help="With --plot: how measures are distributed over replications, with their bands.",
        ),
    ] = False,
    as_json: AsJson = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print a row for each run as CSV: labels, seed, measures.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Draw each measure against an axis, as SVG, PNG and CSV."),
    ] = None,
    x: Annotated[
        str | None, typer.Option(metavar="AXIS", help="With --plot: the axis along which is drawn.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="AXIS", help="With --plot: with a line for each value.")
    ] = None,
    panel: Annotated[
        str | None, typer.Option(metavar="AXIS", help="With --plot: with a panel for each value.")
    ] = None,
    pictures: Pictures = PICTURES,
    width: Width = None,
    font: Font = None,
    table: TableForm = Form.TEXT,
    store: StoreFolder = STORE,
) -> None:
    """Prints and draws what the store holds of a sweep, without running anything."""
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
                print(f"Drawn: {saved[shown_of(kinds)]}")
    wanted_runs = result.wanted or 0
    done = result.frame.filter(result.frame["status"] == "done").height
    if done < wanted_runs:
        print(f"aqmlab: {wanted_runs - done} of {wanted_runs} runs are not there", file=sys.stderr)


@app.command()
def why(
    file: File,
    overrides: Overrides = None,
    replications: Replications = None,
    measure: Measures = None,
    points: Annotated[
        bool, typer.Option("--points", help="A line for each point, not for each reason.")
    ] = False,
    store: StoreFolder = STORE,
) -> None:
    """Says which runs would be made, and why: what is new, and what has changed since it was made."""
    from aqmlab.cli import sweep_text
    from aqmlab.store import Store
    from aqmlab.sweep import run as sweep_run
    from aqmlab.sweep import why as sweep_why

    sweep = _load(file, overrides, replications, measure).sweep
    with Store(store, read_only=True) as kept:
        planned = sweep_run.plan(sweep, kept)
        found: Counter[str] = Counter()
        for one in sweep_why.missing(planned, kept):
            labels = one.point.said
            found[f"{labels}: {one.why}" if points else one.why] += 1
    if not found:
        print("No run would be made: the store holds all.")
    for line in sweep_text.reasons(found.most_common()):
        print(line)


@app.command()
def measures(file: File, overrides: Overrides = None) -> None:
    """Lists the measures of the scenario of a sweep or a study, or of a scenario file, with their units."""
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
