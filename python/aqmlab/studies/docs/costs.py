"""Measures the CPU time of reproducing the studies, and writes it to the table of a page.

    python -m aqmlab.studies.docs.costs docs/studies/repeating.md --take out

updates the rows of the studies whose full runs are in `out`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aqmlab._support.files import write_text
from aqmlab.store import Store
from aqmlab.studies.docs.pages import study_of

COST = "cost.json"
"""File in the folder of a study with the CPU time spent on the study."""

BEGIN, END = "<!-- costs of full runs, generated -->", "<!-- end of the costs -->"
HEADS = ("Page", "Command", "Runs", "CPU minutes", "Processor")
OPTIONS = {"live": " --live", "today": " --queues today"}


@contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Adds the CPU time of the enclosed code, in seconds, to `cost.json` in the folder. The time includes
    child processes, but not other machines."""
    before = _cpu_s()
    try:
        yield
    finally:
        if folder.is_dir():
            spent = (_cost(folder) or 0.0) + _cpu_s() - before
            text = json.dumps({"cpu_s": round(spent, 1)})
            write_text(folder / COST, f"{text}\n")


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cost(folder: Path) -> float | None:
    path = folder / COST
    return float(json.loads(path.read_text(encoding="utf-8"))["cpu_s"]) if path.exists() else None


def row(page: str, folder: Path, processor: str) -> str | None:
    """The table row of the full run in a folder, including variants and additional seeds; `None` if there is
    no full run or its CPU time is unknown."""
    claims, cpu_s = folder / "claims.json", _cost(folder)
    if cpu_s is None or not claims.exists() or json.loads(claims.read_text(encoding="utf-8"))["quick"]:
        return None
    with Store(folder / "store") as store:
        count = f"{store.runs().height:,}".replace(",", " ")
    name, form = study_of(page)
    command = f"aqmlab study run {name}{''.join(OPTIONS[one] for one in form)}"
    return f"| [{page}]({page}.md) | `{command}` | {count} | {math.ceil(cpu_s / 60)} | {processor} |"


def processor() -> str:
    """The processor of this machine, with its number of cores."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        found = None
    name = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def renewed(text: str, rows: Mapping[str, str]) -> str:
    """The page with these rows in place of its old rows. Raises `ValueError` if the marks are missing."""
    before, begin, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the marks {BEGIN} and {END} are missing")
    kept = {found[1]: line for line in old.splitlines() if (found := re.match(r"\| \[([\w-]+)\]", line))}
    lines = [f"| {' | '.join(HEADS)} |", f"| {' | '.join('---' for _ in HEADS)} |"]
    lines += [line for _, line in sorted({**kept, **rows}.items())]
    table = "\n".join(lines)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    """Updates the table."""
    parser = argparse.ArgumentParser(
        prog="aqmlab.studies.docs.costs", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("page", type=Path, help="page with the table")
    parser.add_argument("--take", type=Path, metavar="RUNS", required=True, help="folder of the runs")
    options = parser.parse_args()
    here = processor()
    pages = sorted(path.stem for path in (options.page.parent / "results").glob("*.json"))
    found = {page: row(page, options.take / page, here) for page in pages}
    rows = {page: line for page, line in found.items() if line is not None}
    write_text(options.page, renewed(options.page.read_text(encoding="utf-8"), rows))


if __name__ == "__main__":
    main()
