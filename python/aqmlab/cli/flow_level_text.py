"""Output of `aqmlab flow-level` and `aqmlab run` for flow-level scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aqmlab import flow_level, stats
from aqmlab._support.files import write_csv
from aqmlab.charts import chart as plot
from aqmlab.cli.store_text import amount
from aqmlab.flow_level.replications import Replications
from aqmlab.metrics import finite
from aqmlab.scenario.run import Run
from aqmlab.stats import Interval

MOST_LINES = 16
"""Maximum number of rows of the printed distribution. The remaining rows are combined into one row."""


def lines(found: Replications) -> Iterator[str]:
    """Yields a summary of the runs, and the measured and analytic distributions of the number of flows in
    progress."""
    scenario, link, load = found.scenario.effective, found.link, found.relative_load
    yield (
        f"{found.scenario.name}: {scenario['duration']} of which {scenario['warm_up']} warm-up, "
        f"{amount(len(found.seeds), 'replication', 'replications')} from seed {found.seeds[0]}"
    )
    saturated = float(link["saturated"].to_numpy().mean())
    yield (
        f"  link: {scenario['link']['capacity']}, {scenario['link']['discipline']}, "
        f"load {link['load'][0]:.4g}, utilisation {stats.mean_interval(link['utilisation'].to_list())}"
    )
    yield (
        f"  regime: {flow_level.regime(float(link['load'][0]), saturated)}: the flows could fill the link "
        f"{100 * saturated:.3g} % of the time"
    )
    mean = f"{load / (1 - load):.4g}" if load < 1 else "infinite"
    yield f"  flows in progress: {found.mean_in_progress()}, geometric distribution {mean}"
    laws = f"C(1 - load) = {found.throughput_law() / 1e6:.4g} Mbps"
    if found.peaked:
        laws += f", with peak rates {found.throughput_law(peaked=True) / 1e6:.4g} Mbps"
    yield f"  throughput of a flow: {_scaled(found.throughput_bps(), 1e-6)} Mbps, {laws}"
    yield from _distribution(found)
    for (name,), rows in found.classes.group_by("traffic", maintain_order=True):
        times = stats.mean_interval([math.nan if one is None else one for one in rows["mean_duration_s"]])
        number = stats.mean_interval(rows["mean_in_progress"].to_list())
        yield f"  traffic {name}: load {rows['load'][0]:.4g}, {number} in progress, mean time {times} s"
    rate = found.events / max(found.cpu_s, 1e-9) / 1e6
    yield f"  cost: {found.cpu_s:.3f} CPU s, {rate:.2f} million flow events per CPU s"


def run_lines(run: Run, name: str) -> Iterator[str]:
    """Yields a summary of one run."""
    scenario, link = run.manifest["scenario"], run.summary["link"]
    warm_up, seed = scenario["warm_up"], run.manifest["seed"]
    yield f"{name}: {scenario['duration']} of which {warm_up} warm-up, seed {seed}"
    regime = flow_level.regime(link["load"], link["saturated"])
    yield (
        f"  link: {scenario['link']['capacity']}, {scenario['link']['discipline']}, load {link['load']:.4g}, "
        f"utilisation {link['utilisation']:.4g}, regime {regime}"
    )
    for row in run.summary["classes"]:
        time = "-" if row["mean_duration_s"] is None else f"{row['mean_duration_s']:.4g} s"
        yield (
            f"  traffic {row['traffic']}: load {row['load']:.4g}, {row['mean_in_progress']:.4g} in progress, "
            f"mean time {time}, {row['completed']} of {row['flows']} flows completed"
        )
    cost = run.performance
    rate = cost["events"] / max(cost["cpu_s"], 1e-9) / 1e6
    yield f"  cost: {cost['cpu_s']:.3f} CPU s, {rate:.2f} million flow events per CPU s"


def table(found: Replications) -> dict[str, Any]:
    """Returns all results in the form that `--json` prints."""
    return {
        "scenario": found.scenario.effective,
        "digest": found.scenario.digest,
        "seeds": found.seeds,
        "relative_load": finite(found.relative_load),
        "mean_in_progress": finite(asdict(found.mean_in_progress())),
        "throughput_bps": finite(asdict(found.throughput_bps())),
        "distribution": finite(found.distribution().to_dicts()),
        "classes": found.classes.to_dicts(),
        "link": found.link.to_dicts(),
        "performance": {"events": found.events, "cpu_s": found.cpu_s},
    }


def write(found: Replications, out: Path) -> list[Path]:
    """Writes the charts with their data, and two tables with one row per run: one table of links and one of
    traffic classes."""
    written = plot.save_all(found.charts(), out)
    for name, rows in (("classes", found.classes), ("link", found.link)):
        written.append(out / f"{name}-runs.csv")
        write_csv(written[-1], rows)
    return written


def _distribution(found: Replications) -> Iterator[str]:
    rows = found.distribution()

    def line(flows: str, share: str, geometric: str, law: str) -> str:
        peaked = f"  {law:>10}" if found.peaked else ""
        return f"  {flows:>7}  {share:<28} {geometric:>10}{peaked}"

    yield line("flows", "share of the time", "geometric", "peak rates")
    for row in rows.head(MOST_LINES).iter_rows(named=True):
        share = Interval(value=row["share"], low=row["low"], high=row["high"], count=len(found.seeds))
        yield line(str(row["flows"]), str(share), f"{row['geometric']:.6f}", f"{row['law']:.6f}")
    if rows.height > MOST_LINES:
        rest = (1 - math.fsum(rows[name].head(MOST_LINES)) for name in ("share", "geometric", "law"))
        yield line("more", *(f"{value:.6f}" for value in rest))


def _scaled(interval: Interval, factor: float) -> Interval:
    value, low, high = (factor * one for one in (interval.value, interval.low, interval.high))
    return Interval(value=value, low=low, high=high, count=interval.count)
