"""A run on a terminal, and in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aqmlab._support.files import write_parquet, write_text
from aqmlab.scenario.run import Run


def lines(result: Run, name: str) -> Iterator[str]:
    """A run in a few lines, by its level."""
    if result.level == "packet":
        return packet_lines(result, name)
    if result.level == "flow":
        from aqmlab.cli import flow_level_text

        return flow_level_text.run_lines(result, name)
    from aqmlab.cli import trace_text

    return trace_text.lines(result, name)


_REPAIRS = (
    ("retransmitted", "segments sent again"),
    ("timeouts", "time-outs"),
    ("fast_retransmits", "fast retransmits"),
)
"""What senders did about losses, by the name of the column."""


def packet_lines(result: Run, name: str) -> Iterator[str]:
    """A run at packet level: links with their classes, flows, transfers, and what it cost."""
    manifest = result.manifest
    scenario = manifest["scenario"]
    yield f"{name}: {scenario['duration']} of which {scenario['warm_up']} warm-up, seed {manifest['seed']}"
    yield from found_lines(result)
    cost = result.performance
    yield (
        f"  cost: {cost['cpu_s']:.3f} CPU s, {cost['events']:.0f} events, "
        f"{cost['packets_per_cpu_s'] / 1e6:.2f} million bottleneck packets per CPU s"
    )


def found_lines(result: Run) -> Iterator[str]:
    """What was found in a run of packets, simulated or live."""
    manifest = result.manifest
    if manifest["edges_added"]:
        nodes = ", ".join(manifest["scenario"]["edges"])
        yield f"  edges at {nodes}: short-flows, added because a queue wants packets told short or long"
    directions = result.summary.get("directions", {})
    ways = _WAYS if "directions" in result.summary else {}
    for link, row in result.summary["links"].items():
        tied = "" if "live" in manifest else f", tied arrivals {_tied_percent(result, link):.2g} %"
        yield (
            f"  link {link}{ways.get(link, '')}: utilisation {_percent(row['utilisation'])}, "
            f"dropped {_percent(row['drop_fraction'])}, marked {_percent(row['mark_fraction'])}, "
            f"mean queue {_number(row['mean_queue_packets'])} packets "
            f"({_number(row['mean_queue_delay_s'], 1e3)} ms){tied}"
        )
        for class_name, of_class in result.summary["classes"].get(link, {}).items():
            yield (
                f"    class {class_name}: {_number(of_class['throughput_bps'], 1e-3)} kbps, "
                f"dropped {_percent(of_class['drop_fraction'])}, "
                f"mean queue {_number(of_class['mean_queue_packets'])} packets "
                f"({_number(of_class['mean_queue_delay_s'], 1e3)} ms)"
            )
    for traffic, row in result.summary["flows"].items():
        if traffic in directions:
            yield f"  flows {traffic}: {row['count']}"
            yield f"    to the client: {_direction(directions[traffic]['to_client'])}"
            yield f"    from the client: {_direction(directions[traffic]['from_client'])}"
            continue
        # Flows that each carry one transfer have rates as different as their sizes: no question of fairness.
        known = row["mean_delay_s"] is not None
        delay = f"mean delay {_number(row['mean_delay_s'], 1e3)} ms, " if known else ""
        fairness = "" if traffic in result.summary["transfers"] else f"Jain's index {_number(row['jain'])}, "
        yield (
            f"  flows {traffic}: {row['count']}, goodput {_number(row['goodput_bps'], 1e-6)} Mbps in all, "
            f"{fairness}{delay}dropped {_percent(row['drop_fraction'])}"
        )
        if row["retransmitted"] is not None:
            repairs = (f"{row[name]} {said}" for name, said in _REPAIRS if row[name] is not None)
            yield f"    repaired: {', '.join(repairs)}"
    for traffic, row in result.summary["transfers"].items():
        yield (
            f"  transfers {traffic}: {row['count']} ({row['unfinished']} unfinished, "
            f"{_number(row['mean_active'])} active on average), time mean {_number(row['mean_s'])} s, "
            f"median {_number(row['p50_s'])} s, 90 % {_number(row['p90_s'])} s, "
            f"99 % {_number(row['p99_s'])} s"
        )


_WAYS = {"bottleneck": " (to the client)", "bottleneck-back": " (from the client)"}
"""Where the links of a dumbbell lead, as programs at its ends see it."""


def _direction(way: Mapping[str, Any]) -> str:
    """What the programs of a workload sent one way."""
    known = way["mean_delay_s"] is not None
    delay = f", mean delay of datagrams {_number(way['mean_delay_s'], 1e3)} ms" if known else ""
    again = "" if way["retransmitted"] is None else f", {way['retransmitted']} segments sent again"
    return (
        f"{way['packets']} packets, goodput {_number(way['goodput_bps'], 1e-6)} Mbps, "
        f"dropped {_percent(way['drop_fraction'])}, {way['marked']} marked{again}{delay}"
    )


def _tied_percent(result: Run, link: str) -> float:
    """Arrivals at a link at the moment of another event, whose order a rule decides."""
    return 100 * float(result.links.filter(result.links["link"].cast(str) == link)["tied_fraction"][0])


def write(result: Run, out: Path) -> None:
    """Writes every table as Parquet, and `run.json` with the manifest, into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in result.tables.items():
        write_parquet(out / f"{name}.parquet", table)
    write_text(out / "run.json", json.dumps(result.to_dict(), indent=2) + "\n")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"


def _number(value: float | None, factor: float = 1.0) -> str:
    return "-" if value is None else f"{value * factor:.4g}"
