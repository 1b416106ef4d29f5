"""What it takes to repeat the studies: CPU time is counted while they run, and told in the table of a page.

    python -m aqmlab.studies.docs.costs docs/studies/repeating.md --take out

writes the rows of those studies anew whose full runs `out` has.
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
"""In the folder of a study: the CPU time that was spent on it."""

BEGIN, END = "<!-- costs of full runs, generated -->", "<!-- end of the costs -->"
HEADS = ("Page", "Command", "Runs", "CPU minutes", "Processor")
OPTIONS = {"live": " --live", "today": " --queues today"}


@contextmanager
def counted(folder: Path) -> Iterator[None]:
    """Adds the CPU time of what is done meanwhile, in seconds, to that of `cost.json` in the folder: of this
    process and of those that it began, not of other machines."""
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
    """What the full run in a folder took, variants and runs for more seeds included; `None` if there is no
    full run, or its CPU time was not counted."""
    made, cpu_s = folder / "claims.json", _cost(folder)
    if cpu_s is None or not made.exists() or json.loads(made.read_text(encoding="utf-8"))["quick"]:
        return None
    with Store(folder / "store") as store:
        count = f"{store.runs().height:,}".replace(",", " ")
    name, form = study_of(page)
    command = f"aqmlab study run {name}{''.join(OPTIONS[one] for one in form)}"
    return f"| [{page}]({page}.md) | `{command}` | {count} | {math.ceil(cpu_s / 60)} | {processor} |"


def processor() -> str:
    """The processor of this machine, and how many cores it offers."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        found = None
    name = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def renewed(text: str, rows: Mapping[str, str]) -> str:
    """The page with these rows in place of those of the same pages. Raises `ValueError` without marks."""
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
    """Writes the table anew."""
    parser = argparse.ArgumentParser(
        prog="aqmlab.studies.docs.costs", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("page", type=Path, help="the page with the table")
    parser.add_argument("--take", type=Path, metavar="RUNS", required=True, help="where the runs are")
    options = parser.parse_args()
    here = processor()
    pages = sorted(path.stem for path in (options.page.parent / "results").glob("*.json"))
    found = {page: row(page, options.take / page, here) for page in pages}
    rows = {page: line for page, line in found.items() if line is not None}
    write_text(options.page, renewed(options.page.read_text(encoding="utf-8"), rows))


if __name__ == "__main__":
    main()
