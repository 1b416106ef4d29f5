"""Writes the tables and figures of `docs/background/performance.md`, from the raw numbers of the history.

    python benches/page.py [--docs DIR] [FILE ...]

FILEs are of `benches/history/`; left out, all that hold every run. Against the number of flows and the rate
of the line each file is a curve; instructions of disciplines by themselves come from the record that
`--check` compares with, and everything else from the last file. Dots and strokes are runs, what
joins or covers them medians.
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
"""What files belong to; the first that fits."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Draws all figures, and puts the tables and the name of the last file into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--docs", type=Path, default=PAGE.parent.parent, help="where both are written")
    options = parser.parse_args(arguments)
    runs = {path.stem: history.read(path) for path in options.files or history.whole()}
    name, newest = list(runs.items())[-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        bench.show(newest, disciplines.recorded(instruction_counts.RECORD, instruction_counts.ALONE))
    page = written_anew(PAGE.read_text(encoding="utf-8"), printed.getvalue(), f"{name}.json")
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


def written_anew(page: str, tables: str, name: str) -> str:
    """The page with these tables, which are parted by empty lines, in its blocks of text."""
    blocks = tables.strip().split("\n\n")
    block = re.compile(r"(?<=```text\n).*?(?=\n```)", re.DOTALL)
    if len(block.findall(page)) != len(blocks):
        raise SystemExit(
            f"{name} has {len(blocks)} tables, the page {len(block.findall(page))} places for them"
        )
    left = iter(blocks)
    page = block.sub(lambda _: next(left), page)
    return re.sub(r"(?<=benches/history/)[\w.-]+\.json", name, page)


def curves(
    runs: Mapping[str, Sequence[Sample]], group: str, x_label: str, path: Path, *, y_scale: str = "linear"
) -> None:
    """The cost of a packet of W1 as flows become more or the line faster; a curve for each file."""
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
    """The cost of a packet of W1 and W3 with each variant, in times of one of them; cheapest first."""
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
        places = range(len(subjects))
        for place, subject in zip(places, subjects, strict=True):
            axis.plot(times[subject], [place] * len(times[subject]), "|", color=colour, markersize=9)
        medians = [median(times[subject]) for subject in subjects]
        axis.plot(medians, places, shape, color=colour, markersize=6, label=case.upper())
        axis.set_yticks(places, subjects)
    axis.axvline(costs.WANTED, color="#9A9A9A", linestyle=(0, (4, 2)), linewidth=1)
    axis.set_xlabel(f"CPU time of a packet, in times of {base}")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    _save(figure, path)


def bars(counts: Sequence[Count], path: Path) -> None:
    """Instructions for a packet of each workload, by what the source file belongs to."""
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
    """What a source file belongs to."""
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
