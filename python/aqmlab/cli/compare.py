"""The command `aqmlab compare`, which compares queues, TCPs or both under the same traffic."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support.names import hint, listed
from aqmlab.charts.style import Look
from aqmlab.cli import dask_options
from aqmlab.cli.dask_options import Dask, DaskSlurm, DaskSsh, DaskWorkers, Jobs
from aqmlab.cli.options import (
    INTERRUPTED,
    PICTURES,
    STORE,
    AsJson,
    At,
    Font,
    Pictures,
    Queues,
    ScenarioFile,
    Seed,
    Settings,
    StoreFolder,
    Tcps,
    Width,
    links_of,
    load_scenario,
    pictures_of,
    print_files,
)
from aqmlab.cli.table_text import Form, TableForm
from aqmlab.comparison.comparison import Metric


def compare(
    scenario: ScenarioFile,
    queues: Queues = "",
    at: At = None,
    tcp: Tcps = "",
    replications: Annotated[int, typer.Option(min=1, help="Number of runs of each variant.")] = 10,
    seed: Seed = None,
    settings: Settings = None,
    metric: Annotated[
        Metric,
        typer.Option(
            help="Set of measures to compare: summary (measures of links, flows and transfers) or "
            "response-time (quantiles of response times, and the points where the distributions cross)."
        ),
    ] = Metric.SUMMARY,
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters", help="Also print the parameters whose values differ between the variants."
        ),
    ] = False,
    table: TableForm = Form.TEXT,
    as_json: AsJson = False,
    chart: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUANTITY",
            help="Quantity to plot with its confidence intervals, such as utilisation. Repeat the option for "
            "further quantities.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for pictures and their data.")] = Path(
        "out/compare"
    ),
    pictures: Pictures = PICTURES,
    width: Width = None,
    font: Font = None,
    jobs: Jobs = None,
    store: StoreFolder = STORE,
    dask: Dask = None,
    dask_slurm: DaskSlurm = False,
    dask_ssh: DaskSsh = None,
    dask_workers: DaskWorkers = None,
) -> None:
    """Compare queues, TCPs, or all combinations of a queue and a TCP, under the same traffic."""
    from aqmlab.cli import comparison_text
    from aqmlab.comparison.compare import compare as run_comparison
    from aqmlab.comparison.compare import quantities
    from aqmlab.metrics import finite
    from aqmlab.store import Store

    kinds, look = pictures_of(pictures), Look.parsed(width, font)
    chosen = load_scenario(scenario, settings)
    of_queues, of_tcps = listed(queues), listed(tcp)
    if not of_queues and not of_tcps:
        raise ValueError("--queues, --tcp: must name at least one queue or TCP to compare")
    known = quantities(chosen, metric)
    for name in chart or ():
        if name not in known:
            raise ValueError(f"--chart: the comparison has no quantity named `{name}`: {hint(name, known)}")
    with (
        Store(store) as kept,
        dask_options.executor(jobs, dask, dask_slurm, dask_ssh, dask_workers) as executor,
    ):
        result = run_comparison(
            chosen,
            of_queues,
            tcps=of_tcps,
            at=links_of(at),
            replications=replications,
            first_seed=seed,
            jobs=jobs,
            metric=metric,
            label="compare",
            store=kept,
            executor=executor,
        )
    drawn = {name: result.chart(name) for name in chart or ()}
    written = comparison_text.write(result, out, drawn, pictures=kinds, look=look)
    if as_json:
        found = {
            "queues": result.queues,
            "tcps": result.tcps,
            "at": list(result.at),
            "replications": replications,
            "intervals": finite(result.intervals().to_dicts()),
            "differences": finite(result.differences().to_dicts()),
            "crossings": comparison_text.crossings(result),
            "failures": list(result.failures),
        }
        print(json.dumps(found, indent=2))
    else:
        comparison_text.show(result, form=table, parameters=parameters)
        if table is Form.TEXT:
            print_files(written)
    for note in (*result.notes, *result.failures):
        print(f"aqmlab: {note}", file=sys.stderr)
    if result.interrupted:
        print("aqmlab: interrupted; the table contains the finished runs", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if result.failures:
        raise typer.Exit(1)
