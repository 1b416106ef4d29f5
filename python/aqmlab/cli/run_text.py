"""Output of runs: summaries for the terminal, and files in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aqmlab._support.files import write_parquet, write_text
from aqmlab.cli import line_test_text
from aqmlab.scenario.run import Run


def lines(result: Run, name: str) -> Iterator[str]:
    """Yields a summary of a run, whose format depends on the run's level."""
    if result.level == "packet":
        return packet_lines(result, name)
    if result.level == "flow":
        from aqmlab.cli import flow_level_text

        return flow_level_text.run_lines(result, name)
    from aqmlab.cli import trace_text

    return trace_text.lines(result, name)


_REPAIRS = (
    ("retransmitted", "segments retransmitted"),
    ("timeouts", "time-outs"),
    ("fast_retransmits", "fast retransmits"),
)
"""Columns that count retransmissions, with their names in the summary."""


def packet_lines(result: Run, name: str) -> Iterator[str]:
    """Yields a summary of a packet-level run: links with their traffic classes, flows, transfers, and CPU
    time."""
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
    """Yields the results of a packet-level run, simulated or live."""
    manifest = result.manifest
    if manifest["edges_added"]:
        nodes = ", ".join(manifest["scenario"]["edges"])
        reason = "added because a queue needs packets that are classified as short or long"
        yield f"  edges at {nodes}: short-flows, {reason}"
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
        # Jain's index is meaningless for flows with one transfer each, because the rates of such flows depend
        # on their sizes.
        known = row["mean_delay_s"] is not None
        delay = f"mean delay {_number(row['mean_delay_s'], 1e3)} ms, " if known else ""
        fairness = "" if traffic in result.summary["transfers"] else f"Jain's index {_number(row['jain'])}, "
        yield (
            f"  flows {traffic}: {row['count']}, goodput {_number(row['goodput_bps'], 1e-6)} Mbps in all, "
            f"{fairness}{delay}dropped {_percent(row['drop_fraction'])}"
        )
        if row["retransmitted"] is not None:
            counts = (f"{row[name]} {words}" for name, words in _REPAIRS if row[name] is not None)
            yield f"    loss recovery: {', '.join(counts)}"
    tests = result.summary.get("line_tests", {})
    for traffic, row in result.summary["transfers"].items():
        if traffic in tests:
            continue
        yield (
            f"  transfers {traffic}: {row['count']} ({row['unfinished']} unfinished, "
            f"{_number(row['mean_active'])} active on average), time mean {_number(row['mean_s'])} s, "
            f"median {_number(row['p50_s'])} s, 90 % {_number(row['p90_s'])} s, "
            f"99 % {_number(row['p99_s'])} s"
        )
    for traffic, row in tests.items():
        yield from line_test_text.lines(traffic, row)


_WAYS = {"bottleneck": " (to the client)", "bottleneck-back": " (from the client)"}
"""Directions of a dumbbell's links, for scenarios with programs at the dumbbell's ends."""


def _direction(way: Mapping[str, Any]) -> str:
    """Returns text that describes the traffic of a workload's programs in one direction."""
    known = way["mean_delay_s"] is not None
    delay = f", mean delay of datagrams {_number(way['mean_delay_s'], 1e3)} ms" if known else ""
    retransmitted = "" if way["retransmitted"] is None else f", {way['retransmitted']} segments retransmitted"
    return (
        f"{way['packets']} packets, goodput {_number(way['goodput_bps'], 1e-6)} Mbps, "
        f"dropped {_percent(way['drop_fraction'])}, {way['marked']} marked{retransmitted}{delay}"
    )


def _tied_percent(result: Run, link: str) -> float:
    """Returns the percentage of arrivals at a link that occur at the same time as another event. A rule
    determines the order of two such events."""
    return 100 * float(result.links.filter(result.links["link"].cast(str) == link)["tied_fraction"][0])


def write(result: Run, out: Path) -> None:
    """Writes all tables as Parquet files into the folder `out`, and `run.json` with the summary and the
    manifest."""
    out.mkdir(parents=True, exist_ok=True)
    for name, table in result.tables.items():
        write_parquet(out / f"{name}.parquet", table)
    write_text(out / "run.json", json.dumps(result.to_dict(), indent=2) + "\n")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.3g} %"


def _number(value: float | None, factor: float = 1.0) -> str:
    return "-" if value is None else f"{value * factor:.4g}"
