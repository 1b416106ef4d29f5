"""The command `aqmlab explain`, which explains why a transfer took its time."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab._support.words import capital
from aqmlab.charts.style import Look
from aqmlab.cli.options import (
    PICTURES,
    AsJson,
    Font,
    Pictures,
    ScenarioFile,
    Seed,
    Settings,
    Width,
    load_scenario,
    pictures_of,
)

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.explain import Story
    from aqmlab.scenario import Scenario
    from aqmlab.scenario.run import Run

ROWS = 20
"""Maximum number of rows of the tables of losses and marks, unless `--all` is given."""


def explain(
    scenario: ScenarioFile,
    flow: Annotated[
        int | None,
        typer.Option(
            min=0, help="Number of the flow to explain; by default the slowest transfers are listed."
        ),
    ] = None,
    traffic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Workload whose transfers are listed, and to which --flow must belong."
        ),
    ] = None,
    slowest: Annotated[
        bool,
        typer.Option(
            "--slowest", help="Explain the slowest transfer instead of listing the slowest transfers."
        ),
    ] = False,
    page: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of a page, whose last transfer is explained. With --traffic, of this workload.",
        ),
    ] = None,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Number of listed transfers.")] = 10,
    seed: Seed = None,
    every_loss: Annotated[
        bool, typer.Option("--all", help=f"Print all losses and marks of the flow instead of at most {ROWS}.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the picture and of the plotted numbers (CSV)."),
    ] = None,
    pictures: Pictures = PICTURES,
    as_json: AsJson = False,
    width: Width = None,
    font: Font = None,
    settings: Settings = None,
) -> None:
    """Explain a transfer: which packets were dropped or marked, by which queue and why, what the sender did,
    and what each loss cost.

    Without --flow, the command lists the slowest transfers of the run."""
    from aqmlab import explain as explained

    chosen_by = [option for option, given in _selections(flow, page, slowest) if given]
    if len(chosen_by) > 1:
        raise ValueError(f"{chosen_by[1]}: cannot be combined with {chosen_by[0]}")
    kinds, look = pictures_of(pictures), Look.parsed(width, font)
    chosen = load_scenario(scenario, settings)
    if not chosen_by:
        if out is not None:
            raise ValueError("--out: needs --flow, --page or --slowest, because a picture shows one flow")
        _list(chosen, traffic, most, seed, as_json=as_json)
        return
    story = explained.explain(chosen, flow, traffic=traffic, page=page, seed=seed)
    written = _save(story, out, kinds, look) if out is not None else []
    if as_json:
        print(json.dumps({**story.to_dict(), "files": [str(path) for path in written]}, indent=2))
        return
    for sentence in explained.sentences(story):
        print(sentence)
    _print_losses(story, None if every_loss else ROWS)
    _print_marks(story, None if every_loss else ROWS)
    if written:
        print("\nPicture and numbers: " + ", ".join(map(str, written)))


def _selections(flow: int | None, page: int | None, slowest: bool) -> list[tuple[str, bool]]:
    """Returns the options that select a flow, and whether they are given."""
    return [("--flow", flow is not None), ("--page", page is not None), ("--slowest", slowest)]


def _list(scenario: "Scenario", traffic: str | None, most: int, seed: int | None, *, as_json: bool) -> None:
    """Prints the slowest transfers or, if there are no transfers, the flows with the most losses."""
    from aqmlab.cli import table_text
    from aqmlab.explain import runs

    runs.check(scenario, traffic)
    run: Run = runs.complete(scenario).run(seed)
    transfers: pl.DataFrame = runs.slowest(run, traffic, most)
    flows: pl.DataFrame = runs.lossiest(run, traffic, most)
    has_transfers = transfers.height > 0
    found = transfers if has_transfers else flows
    if as_json:
        name = "transfers" if has_transfers else "flows"
        print(json.dumps({"seed": run.manifest["seed"], name: found.to_dicts()}, indent=2))
        return
    if not found.height:
        print("The run has no flows.")
        return
    has_pages = has_transfers and found["page"].null_count() < found.height
    heads = [
        "flow",
        "workload",
        "start",
        "bytes",
        "duration",
        "dropped",
        "marked",
        "fast retransmits",
        "time-outs",
    ]
    rows = [
        [
            str(row["flow"]),
            row["traffic"],
            f"{row['start_s']:.3f} s",
            str(row["size_bytes"]) if row["size_bytes"] is not None else "endless",
            _duration(row),
            str(row["packets_dropped"]),
            str(row["packets_marked"]),
            _number(row["fast_retransmits"]),
            _number(row["timeouts"]),
        ]
        for row in found.iter_rows(named=True)
    ]
    if has_pages:
        heads.insert(2, "page")
        for cells, page in zip(rows, found["page"], strict=True):
            cells.insert(2, _number(page))
    title = "The slowest transfers" if has_transfers else "The flows with the most dropped and marked packets"
    table_text.print_table(f"{title}, seed {run.manifest['seed']}", heads, rows, left=2)
    print(f"To explain one of these flows: aqmlab explain SCENARIO --flow {found['flow'][0]}")


def _duration(row: dict[str, Any]) -> str:
    if "duration_s" in row:
        return f"{row['duration_s']:.3f} s" if row["complete"] else "incomplete"
    return "open" if row["end_s"] is None else f"{row['end_s'] - row['start_s']:.3f} s"


def _print_losses(story: "Story", most: int | None) -> None:
    number = "first byte" if story.transport == "tcp" else "number"
    heads = ("time", "link", "reason", number, "average", "probability", "count", "draw", "repair", "cost")
    losses = story.losses if most is None else story.losses[:most]
    rows = [
        (
            f"{loss.time_s:.6f} s",
            loss.link,
            loss.reason,
            "SYN" if loss.is_syn else str(loss.first_byte),
            _number(loss.average),
            _number(loss.probability),
            _number(loss.count),
            _number(loss.draw),
            loss.repair or "-",
            "-" if loss.cost_s is None else f"{1000 * loss.cost_s:.1f} ms",
        )
        for loss in losses
    ]
    _print_rows(story, "losses", heads, rows, total=len(story.losses), left=3)


def _print_marks(story: "Story", most: int | None) -> None:
    number = "first byte" if story.transport == "tcp" else "number"
    of_sender = ("echo", "window", "round trip later") if story.transport == "tcp" else ()
    heads = ("time", "link", number, "queued", "average", "probability", "waited", *of_sender)
    marks = story.marked if most is None else story.marked[:most]
    rows = [
        (
            f"{mark.time_s:.6f} s",
            mark.link,
            "SYN" if mark.is_syn else str(mark.first_byte),
            _number(mark.length_packets),
            _number(mark.average),
            _number(mark.probability),
            f"{mark.waited_ms:.1f} ms",
            *(
                (
                    "-" if mark.echo_s is None else f"{mark.echo_s:.6f} s",
                    _number(mark.window_before),
                    _number(mark.window_next),
                )
                if of_sender
                else ()
            ),
        )
        for mark in marks
    ]
    _print_rows(story, "marks", heads, rows, total=len(story.marked), left=2)


def _print_rows(
    story: "Story", what: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, total: int, left: int
) -> None:
    """Prints the first rows of `total` losses or marks."""
    from aqmlab.cli import table_text

    if rows:
        print()
        table_text.print_table(f"{capital(what)} of flow {story.flow}", heads, rows, left=left)
    if len(rows) < total:
        print(f"and {total - len(rows)} more {what}: use --all or --json")


def _save(story: "Story", folder: Path, kinds: tuple[str, ...], look: Look) -> list[Path]:
    from aqmlab import explain as explained
    from aqmlab.charts import chart as plot

    name = f"flow-{story.flow}"
    return list(plot.save(explained.chart(story), folder, name, pictures=kinds, look=look).values())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
