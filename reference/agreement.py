"""Compares recorded runs of ns-2, ns-3, Linux and str0m, and closed forms, with aqmlab, and prints one table.

    python reference/agreement.py [--only TEXT]... [--jobs N] [--json] [--out DIR] [--update-page]

The exit status is 1 if a judged quantity misses and no cause was shown. A cause is shown only by an
experiment on the whole case: the quantity must be equivalent or compatible in the experiment, and of the
quantities that were so before, no more may miss than expected by chance.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import account
import bbr_laws
import control_laws
import gcc_phases
import l4s_fabric
import l4s_namespaces
import linux_bulk
import linux_bulk_controls
import linux_bulk_today
import linux_helsinki
import linux_open
import linux_open_today
import linux_replay
import linux_runs
import linux_traces
import linux_windows
import micro
import ns3_runs
import queueing
import scenario_a
import scenario_b
import scenario_c
import scenario_d
import tcp_theory
from case import Case, Job, Measured
from judge import Row

CHANCE = 0.01
"""Probability of the number of broken rows below which an experiment is rejected; there are dozens."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the selected cases; returns the exit status."""
    options = _options(arguments)
    out = options.out or Path("out/reference-part" if options.only else "out/reference")
    kept = out / account.SUMMARY.name
    if options.update_page:
        return _update_page(kept, part=bool(options.only))
    only = options.only or [""]
    wanted = [case for case in all_cases() if any(text in case.name for text in only)]
    if not wanted:
        print(f"no case has {' or '.join(map(repr, only))} in its name", file=sys.stderr)
        return 2
    rows = compare(wanted, jobs=options.jobs)
    summary = account.summarise(rows)
    write(rows, out)
    account.write(summary, kept)
    text, status = account.description(summary), 1 if account.unexplained(summary) else 0
    if options.json:
        print(json.dumps({"rows": _plain(rows), "summary": text.splitlines(), "status": status}))
    else:
        print(account.table(rows), "", text, sep="\n")
    if not options.only and summary != account.read():
        print("docs/background/agreement.md has other counts: --update-page accepts these", file=sys.stderr)
    return status


def _update_page(kept: Path, *, part: bool) -> int:
    try:
        summary = account.read(kept)
        account.update_page(account.with_held_out(account.read(), summary) if part else summary)
    except FileNotFoundError:
        print(
            f"{kept} does not exist: run `make reference`, or this program with the same --only",
            file=sys.stderr,
        )
        return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def all_cases() -> list[Case]:
    """Every case, beginning with the exact ones."""
    exact = (micro, queueing, tcp_theory)
    laws = (control_laws, bbr_laws)
    ns2 = (scenario_a, scenario_b, scenario_c, scenario_d)
    linux = (
        linux_open,
        linux_open_today,
        linux_runs,
        linux_bulk,
        linux_bulk_today,
        linux_bulk_controls,
        linux_windows,
        linux_traces,
        linux_replay,
        linux_helsinki,
    )
    l4s = (l4s_fabric, l4s_namespaces)
    return [
        case
        for module in (*exact, *laws, *ns2, ns3_runs, *linux, *l4s, gcc_phases)
        for case in module.cases()
    ]


def compare(cases: Iterable[Case], *, jobs: int | None = None) -> list[Row]:
    """The rows of all cases, in their order; after a miss, the experiments on its causes are run."""
    cases = list(cases)
    jobs_of_cases = [case.jobs() for case in cases]
    rows: list[Row] = []
    console = Console(stderr=True)
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ThreadPoolExecutor(jobs or os.cpu_count()) as pool,
    ):
        task = progress.add_task("reference", total=sum(map(len, jobs_of_cases)))

        def counted(job: Job) -> Measured:
            measured = job()
            progress.advance(task)
            return measured

        def experiment(some: Sequence[Job]) -> list[Measured]:
            return list(pool.map(lambda job: job(), some))

        pending = [[pool.submit(counted, job) for job in some] for some in jobs_of_cases]
        try:
            for case, futures in zip(cases, pending, strict=True):
                measured = [future.result() for future in futures]
                rows += with_causes(case, measured, experiment)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return rows


def with_causes(
    case: Case, measured: Sequence[Measured], run: Callable[[Sequence[Job]], Sequence[Measured]]
) -> list[Row]:
    """The rows of a case, with the cause of every miss that an experiment of the case removes.

    An experiment that makes more of the other rows miss than expected by chance is rejected.
    """
    shown = list(case.judge(measured))
    for cause in case.causes:
        missing = [place for place, row in enumerate(shown) if row.verdict == "miss" and not row.cause]
        if not missing:
            break
        again = list(cause.again.judge(measured if cause.same_runs else run(cause.again.jobs())))
        if [row.quantity for row in again] != [row.quantity for row in shown]:
            raise ValueError(f"{case.name}, with {cause.switch}: the experiment has other rows than the case")
        standing = [place for place, row in enumerate(shown) if row.judged and row.verdict != "miss"]
        broken = [again[place] for place in standing if again[place].verdict == "miss"]
        refused = beyond_chance(len(broken), [again[place] for place in standing])
        names = ", ".join(row.quantity for row in broken)
        for place in missing:
            row, other = shown[place], again[place]
            if not other.judged or other.verdict == "miss":
                continue
            if refused:
                shown[place] = replace(row, note=f"refused as a cause: {cause.switch}, which breaks {names}")
                continue
            note = f"with {cause.switch}: {other.theirs:.4g}, {other.ours:.4g}, {other.verdict}"
            note += f"; {names} missed by chance" if broken else ""
            shown[place] = replace(row, cause=cause.why, again=other.verdict, note=note)
    return shown


def beyond_chance(broken: int, rows: Sequence[Row]) -> bool:
    """Whether this number of misses is improbable if nothing is wrong: each row misses with its `chance`."""
    from scipy.stats import poisson

    return broken > 0 and poisson.sf(broken - 1, sum(row.chance for row in rows)) < CHANCE


def write(rows: Sequence[Row], out: Path) -> None:
    """Writes the rows as `agreement.csv` and `agreement.json`."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "agreement.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (out / "agreement.json").write_text(json.dumps(_plain(rows), indent=1) + "\n", encoding="utf-8")


def _plain(rows: Sequence[Row]) -> list[dict[str, str | float | None]]:
    """Rows without NaN, which JSON lacks."""
    return [
        {
            key: None if isinstance(value, float) and value != value else value
            for key, value in asdict(row).items()
        }
        for row in rows
    ]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agreement.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", metavar="TEXT", help="only cases with TEXT in their name")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="concurrent runs; by default the number of cores"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the rows; by default out/reference, or out/reference-part with --only",
    )
    parser.add_argument(
        "--update-page",
        action="store_true",
        help="run nothing; update the documentation with the counts of the last complete run, or with "
        "--only 'held out:' with those of the last run of the held-out cases",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
