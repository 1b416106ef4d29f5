"""The commands `aqmlab store`, which manage stored runs."""

import csv
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aqmlab.cli.options import STORE, StoreFolder

if TYPE_CHECKING:
    import polars as pl

    from aqmlab.measures import Measure
    from aqmlab.store import Store
    from aqmlab.store.record import RunRecord

app = typer.Typer(
    help="List, check, export and remove the runs in a store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("ls")
def store_ls(store: StoreFolder = STORE, as_json: AsJson = False) -> None:
    """List the sweeps in a store and print the number of runs and the size of the store."""
    from aqmlab.cli import store_text
    from aqmlab.store import care as store_care
    from aqmlab.store import tables as store_tables

    with _existing(store) as opened:
        sweeps = store_tables.sweeps(opened)
        runs = opened.runs()
        totals = {
            "runs": runs.height,
            "failed": int((runs["status"] != "done").sum()),
            "scenarios": runs["scenario"].n_unique(),
            "bytes": store_care.size(opened) + opened.contents().frame_bytes(),
        }
    if as_json:
        print(json.dumps({"sweeps": sweeps.drop("definition").to_dicts(), **totals}, indent=2))
        return
    if sweeps.height:
        print("\n".join(store_text.sweeps(sweeps)))
        print()
    print(
        f"{store}: {store_text.amount(totals['runs'], 'run', 'runs')}, {totals['failed']} failed, of "
        f"{store_text.amount(totals['scenarios'], 'scenario', 'scenarios')}; "
        f"{store_text.octets(totals['bytes'])}"
    )


@app.command("show")
def store_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="DIGEST[:SEED]",
            help="Digest of a scenario, or the first digits of a digest, optionally followed by a colon and "
            "one of the scenario's seeds.",
        ),
    ],
    store: StoreFolder = STORE,
    as_json: AsJson = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print the scenario as a TOML file for `aqmlab run`.")
    ] = False,
    manifest: Annotated[
        bool, typer.Option("--manifest", help="Print the scenario with all defaults, as JSON.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="NAME", help="Print the contents of a file that the scenario uses."),
    ] = None,
) -> None:
    """Print the stored runs of a scenario, or a single run, together with the values of the measures."""
    from aqmlab.cli import store_text

    if sum([as_json, as_toml, manifest, file is not None]) > 1:
        raise ValueError("--json, --toml, --manifest and --file are mutually exclusive: use only one of them")
    with _existing(store) as opened:
        digest, seed = _resolved(opened, name)
        runs = [run for run in opened.runs_of([digest]).values() if seed in (None, run.seed)]
        runs.sort(key=lambda run: run.seed)
        records = opened.records("scenario", scenario=digest)
    if seed is not None and not runs:
        raise LookupError(f"{name}: the scenario has no run with seed {seed}")
    record = records[-1] if records else None
    if as_json:
        print(json.dumps({"scenario": record, "runs": [_table(run) for run in runs]}, indent=2))
    elif as_toml or manifest or file is not None:
        if record is None:
            raise LookupError(
                f"{name}: the store contains runs of this scenario, but not the scenario's definition"
            )
        _print_scenario(record, seed, name, as_toml=as_toml, file=file)
    else:
        if record is not None:
            print(f"{record['name']} ({record['level']}), results version {record['results_version']}")
        print(digest)
        known = {} if record is None else _measures(record)
        for run in runs:
            print("\n".join(store_text.run(run, known)))


def _print_scenario(
    record: dict[str, Any], seed: int | None, name: str, *, as_toml: bool, file: str | None
) -> None:
    from aqmlab._support import toml_writer
    from aqmlab.scenario import Scenario

    files = record["files"]
    given = record["given"] if seed is None else {**record["given"], "seed": seed}
    if file is not None:
        if file not in files:
            raise LookupError(
                f"{name}: the scenario uses no file `{file}`; available: {', '.join(files) or 'none'}"
            )
        print(files[file], end="")
    elif as_toml:
        print(toml_writer.written(given), end="")
        for path in files:
            print(f"aqmlab: the scenario uses the file {path}: print it with --file {path}", file=sys.stderr)
    else:
        scenario = Scenario.from_dict(given, files=files, name=record["name"])
        table = {
            "name": record["name"],
            "level": scenario.level,
            "digest": scenario.digest,
            "results_version": record["results_version"],
            "warnings": scenario.warnings,
            "scenario": scenario.effective,
        }
        print(json.dumps(table, indent=2))


@app.command("verify")
def store_verify(
    store: StoreFolder = STORE,
    as_json: AsJson = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Remove damaged records and tables, so that the damaged runs are repeated when needed.",
        ),
    ] = False,
) -> None:
    """Check all records and tables against their checksums, and exit with status 1 if a record or table is
    damaged."""
    from aqmlab.cli import store_text
    from aqmlab.store import care as store_care

    with _existing(store) as opened:
        found = store_care.verify(opened)
        left = store_care.repair(opened, found) if repair else 0
    if as_json:
        table = {
            "logs": found.logs,
            "records": found.records,
            "damaged_lines": found.damaged_lines,
            "index": found.index,
            "frames": found.frames,
            "damaged_frames": [
                {"scenario": scenario, "seed": seed, "keys": keys}
                for (scenario, seed), keys in found.damaged_frames.items()
            ],
            "damaged": found.damaged,
        }
        print(json.dumps(table, indent=2))
    else:
        print(
            f"{store_text.amount(found.records, 'record', 'records')} in "
            f"{store_text.amount(found.logs, 'log', 'logs')}, "
            f"{store_text.amount(found.frames, 'table', 'tables')}; index: {found.index}"
        )
        for log, count in found.damaged_lines.items():
            print(f"logs/{log}: {store_text.amount(count, 'damaged line', 'damaged lines')}")
        for (scenario, seed), keys in found.damaged_frames.items():
            print(f"{scenario[:12]}:{seed}: damaged tables {', '.join(keys)}")
        if found.damaged:
            if repair:
                print("Damaged data was removed. The affected runs will be repeated when they are needed.")
            else:
                print(
                    "`aqmlab store verify --repair` removes damaged data, so that the affected runs are "
                    "repeated."
                )
    _print_skipped(left)
    if found.damaged and (left or not repair):
        raise typer.Exit(1)


@app.command("gc")
def store_gc(
    store: StoreFolder = STORE,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also remove runs of scenarios that belong to no sweep.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Also remove failed runs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, without removing anything.")
    ] = False,
) -> None:
    """Remove runs whose results version differs from that of this program, and tables that belong to no
    run."""
    from aqmlab.cli import store_text
    from aqmlab.store import care as store_care

    with _existing(store) as opened:
        plan = store_care.removal(opened, orphans=orphans, failed=failed)
        verb = "would be removed" if dry_run else "removed"
        reasons = {"old": "with other results versions", "orphan": "in no sweep", "failed": "failed"}
        for reason, words in reasons.items():
            if reason in plan.runs:
                print(f"{store_text.amount(plan.runs[reason], 'run', 'runs')} {words}: {verb}")
        if not plan.runs:
            print("nothing to remove")
        if dry_run:
            return
        freed, left = store_care.collect_garbage(opened, plan)
    print(f"{store_text.octets(max(freed, 0))} freed")
    _print_skipped(left)


@app.command("export")
def store_export(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Output file. The file's extension selects the format: .csv, "
            ".parquet, .json or .jsonl (one object per line).",
        ),
    ],
    store: StoreFolder = STORE,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name or ID of a sweep to export with its labels; by default all runs are exported.",
        ),
    ] = None,
) -> None:
    """Export runs as a table with columns for labels, the seed and each measure."""
    from aqmlab._support import files
    from aqmlab.cli import store_text
    from aqmlab.store import tables as store_tables

    writers: dict[str, Callable[[Path, pl.DataFrame], None]] = {
        ".csv": files.write_csv,
        ".parquet": files.write_parquet,
        ".json": lambda path, frame: files.write_text(path, frame.write_json() + "\n"),
        ".jsonl": lambda path, frame: files.write_text(path, frame.write_ndjson()),
    }
    if out.suffix not in writers:
        raise ValueError(f"{out}: must end in one of {', '.join(writers)}")
    with _existing(store) as opened:
        chosen = None if sweep is None else store_tables.chosen(opened, sweep)
        frame = store_tables.wide(opened, chosen)
    writers[out.suffix](out, frame)
    print(
        f"{out}: {store_text.amount(frame.height, 'run', 'runs')}, "
        f"{store_text.amount(frame.width, 'column', 'columns')}"
    )


@app.command("sql")
def store_sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="SQL query, such as SELECT * FROM runs.")],
    store: StoreFolder = STORE,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the result as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")] = False,
) -> None:
    """Run an SQL query (DuckDB's dialect) on the tables runs, values, scenarios, sweeps and points.

    Each sweep is an additional table, named after the sweep, with columns for its labels, the seed and each
    measure."""
    from aqmlab.cli import store_text
    from aqmlab.store import sql as queries

    if as_csv and as_json:
        raise ValueError("--csv and --json are mutually exclusive: use only one of them")
    with _existing(store, read_only=True) as opened, _ended_by_ctrl_c():
        answer = queries.query(opened, query)
    if as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    elif as_json:
        rows = [
            {name: store_text.finite(value) for name, value in zip(answer.columns, row, strict=True)}
            for row in answer.rows
        ]
        print(json.dumps(rows, indent=2, default=str))
    else:
        print("\n".join(store_text.table(answer.columns, answer.rows)))


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Makes Ctrl-C end the process immediately. DuckDB checks for interrupts only rarely, and the query only
    reads, so no data can be lost."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _existing(folder: Path, *, read_only: bool = False) -> "Store":
    """Opens a store. Raises `LookupError` if the folder does not exist."""
    from aqmlab.store import Store

    if not folder.is_dir():
        raise LookupError(
            f"{folder}: the store does not exist: select a store with --store FOLDER or AQMLAB_STORE"
        )
    return Store(folder, read_only=read_only)


def _resolved(store: "Store", name: str) -> tuple[str, int | None]:
    """Returns the complete digest of the scenario whose digest begins with `name`, and the seed that follows
    the colon."""
    import polars as pl

    text, _, seed = name.partition(":")
    if seed and not seed.isdecimal():
        raise ValueError(f"{name}: the seed must be a whole number, such as {text}:1 (got {seed})")
    known = pl.concat(
        [
            store.runs().select("scenario"),
            pl.DataFrame(
                {"scenario": [one["scenario"] for one in store.records("scenario")]}, schema=["scenario"]
            ),
        ],
        how="vertical_relaxed",
    )
    found = known.filter(pl.col("scenario").str.starts_with(text)).unique().sort("scenario")["scenario"]
    if text in found:
        return text, int(seed) if seed else None
    if len(found) != 1 or not text:
        matches = f"{len(found)} scenarios match: {', '.join(digest[:16] for digest in found[:5])}"
        raise LookupError(
            f"{name}: " + (matches if len(found) else "the store does not contain this scenario")
        )
    return str(found[0]), int(seed) if seed else None


def _measures(record: dict[str, Any]) -> "dict[str, Measure]":
    """Returns the measures of a scenario by key, or no measures if this version of aqmlab rejects the
    scenario."""
    from aqmlab import measures
    from aqmlab.scenario import Scenario

    try:
        scenario = Scenario.from_dict(record["given"], files=record["files"])
    except ValueError:
        return {}
    return {one.key: one for one in measures.of_scenario(scenario).values()}


def _table(run: "RunRecord") -> dict[str, Any]:
    from aqmlab.store.record import written

    return {name: value for name, value in written(run).items() if name not in ("kind", "scenario")}


def _print_skipped(left: int) -> None:
    from aqmlab.cli import store_text

    if left:
        logs = store_text.amount(left, "log was", "logs were")
        print(
            f"aqmlab: {logs} left unchanged, because the processes that write to them may still be running",
            file=sys.stderr,
        )
