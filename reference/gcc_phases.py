"""Google Congestion Control in the test cases of RFC 8867, compared with str0m 0.25.

    python reference/gcc_phases.py [--update-page]

The reference are the runs of str0m after `growth-per-report.patch`, with an encoder that follows the estimate
itself (`gcc_original`). aqmlab runs `scenarios/rfc8867` with the path, the start rate and the video of the
record; `CHANGES` and `media` list the differences from the files. A rate is the rate of all IP packets that
the bottleneck delivers during a phase without its first 5 s: audio, video, retransmissions, padding and
feedback.

The band is 15 % of the recorded rate. Where one media flow uses a direction of the link (5.1, 5.3, 5.6), the
rate of each flow is judged. Elsewhere, the flows have different shares in each repetition, so that the sum of
the flows is judged, and the rate of each flow is printed.

The program prints the rows of a table. The table also contains the mean one-way delay of each phase, which is
not judged. `--update-page` writes the table into docs/background/gcc-original.md.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Changes, Job
from judge import Quantity, Row, independent

WHERE = data.HERE / "gcc_original"
SCENARIOS = data.HERE.parent / "scenarios" / "rfc8867"
PAGE = data.HERE.parent / "docs" / "background" / "gcc-original.md"
NAME = "str0m"
"""First word of the names of all cases."""
SECTIONS = {
    1500: ("5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.8"),
    4000: ("5.1", "5.2", "5.3", "5.4", "5.5", "5.8"),
}
"""Sections by the maximum rate of the video encoder, in kb/s: 1.5 Mb/s (RFC 8867, section 4.3), and 4 Mb/s,
the maximum that the same section mentions for other services. In 5.6, the rate remains below both."""
SEPARATE = ("5.1", "5.3", "5.6")
"""Sections in which the rate of each flow is judged."""
BAND = 0.15
SETTLING = 5
"""Seconds at the beginning of a phase that the record leaves out."""
SEEDS = 10
"""Runs of aqmlab for the five repetitions of the record."""
FRAME_RATE = 30
PAYLOAD = 1136
"""Maximum payload of the record's video packets, in bytes."""
OVERHEAD = 72
"""Bytes of an IP packet of str0m beside the payload: headers of IPv4, UDP and RTP (40), the tag of the
encryption (16), and header extensions (16). With 72 B, audio and video of 1.5 Mb/s have 1,664.5 kb/s; the
recorded rate is 1,665 kb/s."""
SHARE = "the share of one flow is not judged, because the repetitions of one program have different shares"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase of a flow, in seconds; `flow` is the record's name of the flow."""

    flow: str
    begin: int
    end: int

    @property
    def times(self) -> str:
        """The boundaries as text."""
        return f"{self.begin} to {self.end} s"


class Values(NamedTuple):
    """The values of a flow in a phase of a run."""

    rate: float
    """In kb/s."""
    delay: float
    """Mean one-way delay of the RTP packets that arrived, in ms; NaN for TCP."""


Phases = Mapping[Phase, Values]


def cases() -> list[Case]:
    """Each section with each maximum rate."""
    return [phases_case(section, maximum) for maximum, sections in SECTIONS.items() for section in sections]


def phases_case(section: str, maximum: int, seeds: int = SEEDS, changes: Changes | None = None) -> Case:
    """The rates of a section; `changes` are other settings of each media flow."""
    name = f"{NAME} {section} {maximum} kb/s"

    def jobs() -> list[Job]:
        scenario = scenario_of(section, maximum, changes or {})
        measure = partial(values, phases=tuple(recorded(section, maximum)))
        return [Job(scenario=scenario, seed=seed, measure=measure) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Phases]) -> list[Row]:
        return [one.row(name) for one in series(section, recorded(section, maximum), measured)]

    return Case(name=name, jobs=jobs, judge=judge)


def recorded(section: str, maximum: int) -> dict[Phase, list[Values]]:
    """The values of the repetitions."""
    selected = {"case": section, "max_kbps": str(maximum), "growth": "each-report", "follows": "estimate"}
    found: dict[Phase, list[Values]] = {}
    for row in data.rows("phases", WHERE):
        if all(row[key] == value for key, value in selected.items()):
            phase = Phase(flow=row["flow"], begin=int(row["from_s"]), end=int(row["until_s"]))
            delay = float(row["delay_ms"] or "nan")
            found.setdefault(phase, []).append(Values(float(row["received_bps"]) / 1e3, delay))
    return found


@dataclass(frozen=True, kw_only=True)
class Series:
    """A quantity in the runs of both programs, in kb/s."""

    quantity: str
    theirs: Sequence[float]
    ours: Sequence[float]
    judged: bool
    delays: tuple[float, float]
    """Mean one-way delays of the record and of aqmlab, in ms; NaN for TCP."""

    def row(self, case: str) -> Row:
        """The row of the comparison."""
        note = "" if self.judged else SHARE
        quantity = Quantity(name=self.quantity, share=BAND, judged=self.judged, note=note)
        return independent(case, quantity, self.theirs, self.ours)


def series(section: str, theirs: Mapping[Phase, Sequence[Values]], ours: Sequence[Phases]) -> list[Series]:
    """The sums of the flows, unless the section judges each flow, and then each flow of several."""
    times: dict[str, list[Phase]] = {}
    for phase in theirs:
        times.setdefault(phase.times, []).append(phase)
    separate = section in SEPARATE
    sums = {} if separate else {f"sum, {when}": some for when, some in times.items()}
    single = {
        f"{'TCP' if phase.flow == 'tcp' else f'flow {phase.flow}'}, {phase.times}": [phase]
        for phase in theirs
        if separate or len(times[phase.times]) > 1
    }
    found = []
    for quantity, some in (sums | single).items():
        recorded_runs = [list(values) for values in zip(*(theirs[phase] for phase in some), strict=True)]
        runs = [[run[phase] for phase in some] for run in ours]
        found.append(
            Series(
                quantity=quantity,
                theirs=[math.fsum(one.rate for one in values) for values in recorded_runs],
                ours=[math.fsum(one.rate for one in values) for values in runs],
                judged=separate or quantity in sums,
                delays=(_delay(recorded_runs), _delay(runs)),
            )
        )
    return found


def _delay(runs: Sequence[Sequence[Values]]) -> float:
    """The mean over runs and flows; a paused flow has no delay."""
    delays = [one.delay for values in runs for one in values if not math.isnan(one.delay)]
    return math.fsum(delays) / len(delays) if delays else math.nan


# Runs of aqmlab

CHANGES: Mapping[str, Changes] = {
    "5.3": {"record.packets": ["bottleneck", "bottleneck-back"]},
    "5.6": {"traffic.long.stagger": "0s"},
    "5.8": {
        "traffic.media-1.pause": "40s",
        "traffic.media-1.resume": "60s",
        "traffic.media-2.pause": None,
        "traffic.media-2.resume": None,
    },
}
"""Settings of the record that differ from the files: in 5.6, TCP starts at 0 s; in 5.8, the first of three
equal flows pauses."""


def ip_rate(payload_bps: float) -> float:
    """The rate of IP packets that carry video of a given rate, in bits per second."""
    packets = -(-payload_bps // (8 * FRAME_RATE * PAYLOAD))
    return payload_bps + 8 * FRAME_RATE * packets * OVERHEAD


def media(maximum: int) -> dict[str, Any]:
    """The source of the record: 32 kb/s of audio, no key frames, and video from 150 kb/s to the maximum.

    GCC has libwebrtc's start rate, and the flows last until the end of the run.

    Rates of the video contain headers in aqmlab, but not in the record.
    """
    return {
        "audio": "opus-32",
        "control": {"kind": "gcc"},
        "stop": None,
        "key_frame": 1.0,
        "min_rate": f"{ip_rate(150e3):.0f}bps",
        "max_rate": f"{ip_rate(1e3 * maximum):.0f}bps",
    }


def scenario_of(section: str, maximum: int, changes: Changes) -> Scenario:
    """The scenario of a section with the settings of the record, and with changes of each media flow."""
    scenario = Scenario.load(SCENARIOS / f"{section.replace('.', '-')}.toml")
    flows = [name for name in scenario.effective["traffic"] if name.startswith("media")]
    settings = {**media(maximum), **changes}
    every = {f"traffic.{name}.{key}": value for name in flows for key, value in settings.items()}
    return scenario.with_({"record.packets": ["bottleneck"], **CHANGES.get(section, {}), **every})


def values(run: Run, phases: Sequence[Phase]) -> Phases:
    """The rates of the packets that the bottleneck delivered, and the delays of the media."""
    packets = run.tables["packets"].filter(pl.col("event").cast(pl.String) == "deliver")
    numbers = _numbers(run, packets)
    found: dict[Phase, Values] = {}
    for phase in phases:
        begin = phase.begin + SETTLING
        seconds = run.tables["calls"].filter(
            (pl.col("flow") == numbers[phase.flow])
            & (pl.col("time_s") >= begin)
            & (pl.col("time_s") < phase.end)
            & (pl.col("packets_received") > 0)
        )
        arrived = float(seconds["packets_received"].sum())
        delays = float((seconds["delay_s"] * seconds["packets_received"]).sum())
        some = packets.filter(
            (pl.col("flow") == numbers[phase.flow])
            & (pl.col("time_s") >= begin)
            & (pl.col("time_s") < phase.end)
        )
        found[phase] = Values(
            rate=8 * float(some["size_bytes"].sum()) / (phase.end - begin) / 1e3,
            delay=1e3 * delays / arrived if arrived else math.nan,
        )
    return found


def _numbers(run: Run, packets: pl.DataFrame) -> dict[str, int]:
    """aqmlab's number of each flow by the record's name; in 5.3, the backward direction is flow 1."""
    of_traffic = run.flows.select("flow", pl.col("traffic").cast(pl.String))
    seen = packets.select("flow", "backward").unique().join(of_traffic, on="flow")
    names: dict[str, int] = {}
    for flow, traffic in seen.sort("backward", "traffic", "flow").select("flow", "traffic").iter_rows():
        is_media = str(traffic).startswith("media")
        names[str(sum(name != "tcp" for name in names)) if is_media else "tcp"] = int(flow)
    return names


# The table


BEGIN, END = "<!-- table of reference/gcc_phases.py -->\n", "<!-- end of table -->\n"
"""The lines of the page between which the table stands."""
HEADS = (
    "Case",
    "Maximum (Mb/s)",
    "Flows",
    "Phase",
    "str0m (kb/s)",
    "aqmlab (kb/s)",
    "Difference (%)",
    "Verdict",
    "Delay, str0m (ms)",
    "Delay, aqmlab (ms)",
)


def table(section: str, maximum: int, measured: Sequence[Phases]) -> list[str]:
    """The lines of a section: means, and the least and the greatest value of the runs."""
    found = series(section, recorded(section, maximum), measured)
    return [_line(section, maximum, one) for one in found]


def _line(section: str, maximum: int, one: Series) -> str:
    who, when = one.quantity.split(", ")
    row = one.row(section)
    difference = f"{100 * row.difference / row.theirs:+.1f}"
    spreads = (
        f"{math.fsum(some) / len(some):.0f} ({min(some):.0f} to {max(some):.0f})"
        for some in (one.theirs, one.ours)
    )
    verdict = row.verdict if one.judged else "–"
    delays = ("–" if math.isnan(value) else f"{value:.0f}" for value in one.delays)
    cells = (section, f"{maximum / 1e3:g}", who, when, *spreads, difference, verdict, *delays)
    return f"| {' | '.join(cells)} |"


def page(lines: Sequence[str], text: str) -> str:
    """The page with the table renewed."""
    before, rest = text.split(BEGIN)
    head = [f"| {' | '.join(HEADS)} |", "| --- |" + " --- |" * (len(HEADS) - 1)]
    return before + BEGIN + "\n".join([*head, *lines]) + "\n" + END + rest.split(END)[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs all cases and prints the table."""
    parser = argparse.ArgumentParser(prog="gcc_phases.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update-page", action="store_true", help=f"write the table into {PAGE.name}")
    options = parser.parse_args(arguments)
    lines: list[str] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for maximum, sections in SECTIONS.items():
            for section in sections:
                jobs = phases_case(section, maximum).jobs()
                lines += table(section, maximum, list(pool.map(lambda job: job(), jobs)))
    print("\n".join(lines))
    if options.update_page:
        PAGE.write_text(page(lines, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
