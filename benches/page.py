"""Writes the tables and figures of `docs/background/performance.md` from the history of measurements.

    python benches/page.py [--docs DIR] [FILE ...]

FILEs are files of `benches/history/`; default: all that contain every run. Figures over the number of flows
and over the link rate have a curve for each file. Instructions of disciplines by themselves are from the
record of `bench.py --check`; all other tables and figures are from the last file. Dots and strokes are single
runs; curves, large markers and bars are medians.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import bench
import costs
import disciplines
import history
import instruction_counts
import scale
from samples import ROOT, US, Sample, distinct
from simulators import Count

PAGE = ROOT / "docs" / "background" / "performance.md"
COLOURS = ("#6E6E6E", "#0072B2", "#D55E00", "#009E73", "#CC79A7")
STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "#9A9A9A",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#E3E3E3",
}
PARTS: Mapping[str, tuple[str, ...]] = {
    "lines and ports": (
        "aqm-sim/network",
        "aqm-sim/lines",
        "aqm-sim/first_link",
        "aqm-sim/managed",
        "aqm-sim/topology",
        "aqm-queue/port",
    ),
    "order of events": ("aqm-sim/event", "aqm-sim/ring", "aqm-sim/wheel"),
    "flows and hosts": ("aqm-sim/",),
    "TCP": ("aqm-tcp/",),
    "queue disciplines": ("aqm-queue/",),
    "workloads": ("aqm-traffic/",),
    "time and rates": ("aqm-net/",),
    "Rust's library, inlined": ("std",),
    "C library and others": ("",),
}
"""Parts of the program by the beginning of source file names; the first match counts."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws all figures and writes the tables and the name of the last file into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--docs", type=Path, default=PAGE.parent.parent, help="the documentation")
    options = parser.parse_args(arguments)
    runs = {path.stem: history.read(path) for path in options.files or history.whole()}
    name, newest = list(runs.items())[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        bench.show(newest, disciplines.recorded(instruction_counts.RECORD, instruction_counts.ALONE))
    page = with_tables(PAGE.read_text(encoding="utf-8"), printed.getvalue(), f"{name}.json")
    target = options.docs / "background" / PAGE.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page, encoding="utf-8")

    images = options.docs / "images"
    samples = {name: found.samples for name, found in runs.items()}
    curves(samples, scale.FLOWS, "flows", images / "cost-flows.png", y_scale="log")
    curves(samples, costs.RATES, "rate of the bottleneck (Mbit/s)", images / "cost-rates.png")
    dots(newest.samples, costs.QUEUES, costs.DROP_TAIL, images / "cost-queues.png")
    dots(newest.samples, costs.TRANSPORTS, costs.RENO, images / "cost-tcp.png")
    bars(newest.counts, images / "cost-instructions.png")


def with_tables(page: str, tables: str, name: str) -> str:
    """The page with its text blocks replaced by these tables, which are separated by empty lines."""
    blocks = tables.strip().split("\n\n")
    block = re.compile(r"(?<=```text\n).*?(?=\n```)", re.DOTALL)
    if len(block.findall(page)) != len(blocks):
        raise SystemExit(
            f"{name} has {len(blocks)} tables, but the page has {len(block.findall(page))} text blocks"
        )
    left = iter(blocks)
    page = block.sub(lambda _: next(left), page)
    return re.sub(r"(?<=benches/history/)[\w.-]+\.json", name, page)


def curves(
    runs: Mapping[str, Sequence[Sample]], group: str, x_label: str, path: Path, *, y_scale: str = "linear"
) -> None:
    """Draws the CPU time per packet of W1 over the number of flows or the rate; one curve per file."""
    figure, axis = _figure(5.8, 3.8)
    for (name, samples), colour in zip(runs.items(), COLOURS, strict=False):
        some = [one for one in samples if one.group == group]
        cases = distinct(some, lambda one: one.case)
        medians = [median(one.ns_per_packet for one in some if one.case == case) for case in cases]
        axis.plot([float(case) for case in cases], medians, color=colour, label=name)
        axis.plot(
            [float(one.case) for one in some],
            [one.ns_per_packet for one in some],
            "o",
            color=colour,
            markersize=3.5,
        )
    axis.set(xscale="log", yscale=y_scale, xlabel=x_label, ylabel="CPU time of a packet (ns)")
    if y_scale == "linear":
        axis.set_ylim(bottom=0)
    axis.legend(frameon=False)
    _save(figure, path)


def dots(every: Sequence[Sample], group: str, base: str, path: Path) -> None:
    """Draws the CPU time per packet of W1 and W3 with each variant, relative to `base`; cheapest first."""
    samples = [one for one in every if one.group == group]
    subjects = distinct(samples, lambda one: one.subject)
    figure, axis = _figure(6.4, 1.2 + 0.24 * len(subjects))
    for case, colour, shape in zip(costs.CASES, COLOURS[1:], "os", strict=False):
        of = [one for one in samples if one.case == case]
        against = {one.turn: one.ns_per_packet for one in of if one.subject == base}
        times = {
            subject: [one.ns_per_packet / against[one.turn] for one in of if one.subject == subject]
            for subject in subjects
        }
        if case == costs.CASES[0]:
            subjects.sort(key=lambda subject: median(times[subject]), reverse=True)
        positions = range(len(subjects))
        for position, subject in zip(positions, subjects, strict=True):
            axis.plot(times[subject], [position] * len(times[subject]), "|", color=colour, markersize=9)
        medians = [median(times[subject]) for subject in subjects]
        axis.plot(medians, positions, shape, color=colour, markersize=6, label=case.upper())
        axis.set_yticks(positions, subjects)
    axis.axvline(costs.TARGET_RATIO, color="#9A9A9A", linestyle=(0, (4, 2)), linewidth=1)
    axis.set_xlabel(f"CPU time of a packet, in times of {base}")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    _save(figure, path)


def bars(counts: Sequence[Count], path: Path) -> None:
    """Draws the instructions per packet of each workload, by part of the program."""
    whole: dict[str, dict[str, float]] = {}
    for one in counts:
        if one.subject == US and one.case not in whole:
            parts = whole[one.case] = dict.fromkeys(PARTS, 0.0)
            for file, number in one.by_file.items():
                parts[part_of(file)] += number / one.packets
    figure, axis = _figure(7.6, 3.0)
    from matplotlib import colormaps

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    left = dict.fromkeys(whole, 0.0)
    for part, colour in zip(PARTS, colours, strict=False):
        widths = [whole[case][part] for case in whole]
        axis.barh(
            [case.upper() for case in whole], widths, left=list(left.values()), color=colour, label=part
        )
        left = {case: left[case] + whole[case][part] for case in whole}
    axis.invert_yaxis()
    axis.set_xlabel("instructions for a packet of the bottleneck")
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    _save(figure, path)


def part_of(file: str) -> str:
    """The part of the program to which a source file belongs."""
    return next(part for part, beginnings in PARTS.items() if file.startswith(beginnings))


def _figure(width: float, height: float) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots()


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, facecolor="white", metadata={"Software": "aqmlab"})


if __name__ == "__main__":
    main()
