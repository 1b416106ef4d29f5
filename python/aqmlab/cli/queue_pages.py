"""The reference of queue disciplines: an overview, and a page for each family."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from aqmlab.scenario.catalog import Entry

FAMILIES: Mapping[str, tuple[str, str]] = {
    "": (
        "Drop Tail and single queues",
        "Queues outside the families.",
    ),
    "red": (
        "RED and its descendants",
        "The drop probability rises with the average queue. The variants differ in the average, in the drop "
        "function, and in the packets that they protect.",
    ),
    "codel": (
        "CoDel and COBALT",
        "Packets are dropped as they leave if queueing delay stays above a target for an interval.",
    ),
    "pi": (
        "PI controllers of queue length",
        "The drop probability is computed at regular intervals from the queue's deviation from a reference.",
    ),
    "pie": (
        "PIE",
        "A PI controller of queueing delay computes the drop probability, with a burst allowance.",
    ),
    "blue": (
        "BLUE and SFB",
        "Losses raise a drop probability and an idle link lowers the probability; queue length has no part.",
    ),
    "flow_queues": (
        "Flow queues of Linux",
        "A hash puts packets into queues, which take turns. Each queue may have an AQM.",
    ),
    "fair": (
        "Fair queues",
        "Each flow has a queue, and a scheduler shares the link among the flows, by weight if weights are "
        "given.",
    ),
    "cake": ("CAKE", "Shaper, priorities, fairness of hosts and flows, AQM and ACK filter in one queue."),
    "dualpi2": ("DualPI2", "Two coupled queues, one for L4S senders and one for all others (RFC 9332)."),
    "htb": ("HTB", "Classes with guaranteed rates that lend unused rate to each other."),
    "wrappers": ("Wrappers", "A step before or after a queue, which may be any other discipline."),
    "instruments": (
        "Instruments",
        "FIFO queues that drop chosen packets, to test a transport or a model of a transport.",
    ),
}
"""By folder of `crates/aqm-queue/src`: the title of the family, and what its members share."""


def folder(one: Entry) -> str:
    """The folder of `crates/aqm-queue/src` that has the discipline; empty if it is a file at the root."""
    path = one.module.split("::")[1:]
    return path[0] if len(path) > 1 or path[0] in FAMILIES else ""


def page_of(one: Entry) -> str:
    """The page of a discipline, in the folder of the reference."""
    return f"queues/{(folder(one) or 'single').replace('_', '-')}.md"


def pages(
    members: Sequence[Entry], introduction: str, described: Callable[[Entry], Sequence[str]], root: Path
) -> dict[str, str]:
    """The pages by file name; `described` gives the section of a discipline, without its heading. `root` is
    the checkout, which has the costs on record and the values of report cards."""
    costs = _costs(root)
    found = {"queues.md": "\n".join([*_overview(members, introduction, costs, root)]) + "\n"}
    for family, (title, shared) in FAMILIES.items():
        several = [one for one in members if folder(one) == family]
        parts = [f"# {title}", "", shared, "", *_table(several, costs, root, "../../", "#{}")]
        for one in several:
            parts += ["", f"## {one.name}", "", *described(one)]
        found[page_of(several[0])] = "\n".join(parts) + "\n"
    return found


def _overview(
    members: Sequence[Entry], introduction: str, costs: Mapping[str, float], root: Path
) -> Iterator[str]:
    yield from ("# Queue disciplines", "", introduction, "")
    yield "*tc* is the kind in Linux, if Linux has the queue. *Packet* is the number of instructions for a"
    yield "packet of a single flow ([Cost and speed](../background/performance.md))."
    for family, (title, shared) in FAMILIES.items():
        several = [one for one in members if folder(one) == family]
        page = page_of(several[0])
        yield from ("", f"## [{title}]({page})", "", shared, "")
        yield from _table(several, costs, root, "../", f"{page}#{{}}")
    yield from ("", "```{toctree}", ":hidden:", "", *sorted({page_of(one)[:-3] for one in members}), "```")


def _table(
    several: Sequence[Entry], costs: Mapping[str, float], root: Path, docs: str, link: str
) -> Iterator[str]:
    yield from ("| Kind | Description | tc | Packet | Report card |", "| --- | --- | --- | --- | --- |")
    for one in several:
        # The build of the site writes the page of each card from these values.
        has_card = (root / "docs" / "report-cards" / "values" / f"{one.name}.parquet").exists()
        cells = (
            f"[`{one.name}`]({link.format(one.name)})",
            one.summary.partition(": ")[2] or one.summary,
            f"`{one.tc}`" if one.tc else "",
            f"{costs[one.name]:.0f}" if one.name in costs else "",
            f"[card]({docs}report-cards/{one.name}.md)" if has_card else "",
        )
        yield f"| {' | '.join(cells)} |"


def _costs(root: Path) -> dict[str, float]:
    """Instructions for a packet of one flow, by kind, as `make bench-check` has them on record."""
    record = root / "benches" / "instruction_counts.json"
    if not record.exists():
        return {}
    machines = json.loads(record.read_text(encoding="utf-8"))
    return {kind: float(counts[0]) for kind, counts in machines["x86_64"]["disciplines"].items()}
