"""The reference pages of queue disciplines: an overview, and a page for each family."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from aqmlab.scenario.catalog import Entry

FAMILIES: Mapping[str, tuple[str, str]] = {
    "": (
        "Drop Tail and single queues",
        "Queues that belong to no other family.",
    ),
    "red": (
        "RED and its descendants",
        "The drop probability rises with the average queue length. The variants differ in the computation "
        "of the average, in the drop function, and in the packets that they protect.",
    ),
    "codel": (
        "CoDel and COBALT",
        "Packets are dropped when they leave the queue, if queueing delay stays above a target for an "
        "interval.",
    ),
    "pi": (
        "PI controllers of queue length",
        "The drop probability is computed at regular intervals from the queue's deviation from a reference.",
    ),
    "pie": (
        "PIE",
        "A PI controller computes the drop probability from queueing delay. Short bursts are not dropped.",
    ),
    "blue": (
        "BLUE and SFB",
        "Losses raise a drop probability, and an idle link lowers the probability. Queue length has no "
        "influence.",
    ),
    "flow_queues": (
        "Flow queues of Linux",
        "A hash function assigns packets to queues, which are served in turn. Each queue may have an AQM.",
    ),
    "fair": (
        "Fair queues",
        "Each flow has a queue, and a scheduler shares the link among the flows, in proportion to weights "
        "if weights are configured.",
    ),
    "cake": (
        "CAKE",
        "A queue that combines a shaper, priorities, fairness among hosts and flows, an AQM and an ACK "
        "filter.",
    ),
    "dualpi2": (
        "DualPI2",
        "Two coupled queues: one for L4S senders and one for all other senders (RFC 9332).",
    ),
    "htb": (
        "HTB",
        "Classes with guaranteed rates. A class may borrow the rate that other classes do not use.",
    ),
    "wifi": (
        "Wi-Fi",
        "An access point sends aggregates of packets to stations with different rates.",
    ),
    "wrappers": (
        "Wrappers",
        "Disciplines that process packets before or after another queue, which may be of any kind.",
    ),
    "instruments": (
        "Instruments",
        "FIFO queues that drop selected packets, to test a transport protocol or a model of a transport "
        "protocol.",
    ),
}
"""The title of each family and a description of its members. The key is the folder in
`crates/aqm-queue/src`."""


def folder(one: Entry) -> str:
    """Returns the folder of `crates/aqm-queue/src` that contains the discipline, or an empty string if the
    discipline's file is directly in `crates/aqm-queue/src`."""
    path = one.module.split("::")[1:]
    return path[0] if len(path) > 1 or path[0] in FAMILIES else ""


def page_of(one: Entry) -> str:
    """Returns the path of a discipline's page, relative to the folder of the reference."""
    return f"queues/{(folder(one) or 'single').replace('_', '-')}.md"


def pages(
    members: Sequence[Entry], introduction: str, described: Callable[[Entry], Sequence[str]], root: Path
) -> dict[str, str]:
    """Returns the pages by file name. `described` returns the section of a discipline without its heading.
    `root` is the checkout, which contains the recorded costs and the values of report cards."""
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
    yield "*tc* is the queue's name in Linux, if Linux has the queue. *Packet* is the number of instructions"
    yield "for a packet of a single flow ([Cost and speed](../background/performance.md))."
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
        # When the documentation is built, the page of each card is written from these values.
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
    """Returns, by kind of queue, the number of instructions per packet if there is a single flow. `make
    bench-check` maintains the file with these numbers."""
    record = root / "benches" / "instruction_counts.json"
    if not record.exists():
        return {}
    machines = json.loads(record.read_text(encoding="utf-8"))
    return {kind: float(counts[0]) for kind, counts in machines["x86_64"]["disciplines"].items()}
