"""Output of the commands `aqmlab trace`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aqmlab._support.files import write_csv
from aqmlab.charts import chart as plot
from aqmlab.scenario.run import Run
from aqmlab.traces import PUBLISHED_MOST_ACTIVE, charts


def lines(found: Run, name: str) -> Iterator[str]:
    """Yields a summary of a replayed trace."""
    scenario, row, trace = found.manifest["scenario"], found.summary, found.manifest["facts"]["trace"]
    kind = {"generated": "synthetic"}.get(trace["kind"], trace["kind"])
    yield (
        f"{name} ({kind}): {row['duration_s']:.6g} s of which {row['measured_s']:.6g} s measured, "
        f"{row['packets']} packets, {row['flows']} flows"
    )
    yield (
        f"  link: {scenario['rate']}, {scenario['queue']['kind']}, load {row['load']:.4g}, "
        f"utilisation {row['utilisation']:.4g}, dropped {row['dropped']} packets"
    )
    yield (
        f"  active flows: mean {row['mean_active']:.4g}, 99.9 % of the time at most {row['p999_active']}, "
        f"maximum {row['most_active']} (published: at most {PUBLISHED_MOST_ACTIVE} below a load of 0.9)"
    )
    if row["mean_in_progress"] is None:
        yield "  flows in progress: unknown, because the trace is too short"
    else:
        mean = row["mean_in_progress"]
        yield f"  flows in progress: mean {mean:.4g}, maximum {row['most_in_progress']}"
    if row["mean_sojourn_s"] is not None:
        yield (
            f"  packets: mean backlog {row['mean_backlog_packets']:.4g}; sojourn time including "
            f"transmission: mean {1e6 * row['mean_sojourn_s']:.4g} us, 99 % "
            f"{1e6 * row['p99_sojourn_s']:.4g} us"
        )
    cost = found.performance
    yield (
        f"  cost: {cost['cpu_s']:.3f} CPU s, {cost['packets_per_cpu_s'] / 1e6:.2f} million packets per CPU s"
    )


def write(found: Run, out: Path) -> list[Path]:
    """Writes the charts with their data, the summary table (one row), and the distribution of the number of
    flows."""
    written = plot.save_all(charts(found), out)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("summary", "distribution"):
        written.append(out / f"{name}.csv")
        write_csv(written[-1], found.tables[name])
    return written
