"""The commands `aqmlab link`, which describe lines: from questions, files, traces and models."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support.files import write_text
from aqmlab.cli import link_export, link_new, link_text
from aqmlab.cli.options import AsJson, quantity_of, time_of
from aqmlab.cli.reference import aligned
from aqmlab.links import formats, profile, rate_steps
from aqmlab.links.content import STANDARD_INPUT
from aqmlab.links.format import Columns, Options
from aqmlab.links.measured import Direction, Measured, RateKind
from aqmlab.traces import link_trace, starlink

app = typer.Typer(
    help="Describe your own line as a scenario, import recorded links, or generate synthetic link traces.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

USAGE = "\nTo use this link, add to a scenario:\n\n"
"""Text before a printed table of a scenario."""

app.command("new")(link_new.new_)


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File that describes a link, in one of the formats that `aqmlab link formats` lists, or "
            "`-` for standard input. The file may be compressed with gzip.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Output file with rate steps; by default NAME.rates.csv in the current directory.",
        ),
    ] = None,
    direction: Annotated[
        Direction,
        typer.Option(
            help="Direction of the file, if the file describes one direction; direction to import from a "
            "cake-autorate log."
        ),
    ] = Direction.DOWNLOAD,
    take: Annotated[
        RateKind,
        typer.Option(
            help="Rate to import from a cake-autorate log: the configured shaper rate or the achieved rate."
        ),
    ] = RateKind.SHAPER,
    time_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name or number of the CSV column that contains times.")
    ] = None,
    rate_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name or number of the CSV column that contains rates.")
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            help="Unit of the times, such as ms; by default the unit in the CSV header, or s if the header "
            "contains no unit.",
        ),
    ] = None,
    rate_unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            help="Unit of the rates, such as Mbps or kB/s; by default the unit in the CSV header.",
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Start of the imported period, such as 90s.")
    ] = "0s",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="End of the imported period.")] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Interval over which rates are averaged, such as 1s.")
    ] = None,
    link: Annotated[
        str, typer.Option(metavar="TABLE", help="Name of the link's table in the printed scenario.")
    ] = "bottleneck",
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format of the file; by default, recognised from the content."
        ),
    ] = None,
    home: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of a host at home, for captures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a file that describes a link, and print the scenario tables of the link.

    Recorded rates over time are written as a file of rate steps."""
    columns = Columns(time=time_column, rate=rate_column, time_unit=time_unit, rate_unit=rate_unit)
    options = Options(direction=direction, rate=take, columns=columns, home=home)
    measured = formats.read(file, options, format_name)
    for note in measured.notes:
        print(f"aqmlab: {file}: {note}", file=sys.stderr)
    recording = measured.way(direction).recording
    if recording is None:
        if any((out, until, every)) or start != "0s":
            raise ValueError(
                f"{file}: contains no rates over time: remove --out, --from, --until and --every"
            )
        _print_values(file, measured, link, as_json)
        return
    steps = rate_steps.steps(
        recording,
        start_s=time_of("--from", start),
        until_s=None if until is None else time_of("--until", until),
        every_s=None if every is None else time_of("--every", every),
    )
    stem = "link" if str(file) == STANDARD_INPUT else file.name.removesuffix(".gz").rsplit(".", 1)[0]
    path = out or Path(f"{stem}.rates.csv")
    steps.write(path)
    fragment = steps.toml(path, link)
    if as_json:
        found = {
            "source": recording.source,
            "records": len(recording.times_s),
            "steps": len(steps.bps),
            "duration_s": steps.duration_s,
            "least_bps": min(steps.bps),
            "mean_bps": steps.mean_bps,
            "most_bps": max(steps.bps),
            "idle_rtt_s": measured.idle_rtt_s,
            "notes": list(measured.notes),
            "file": str(path),
            "toml": fragment,
        }
        print(json.dumps(found, indent=2))
        return
    least, mean, most = (
        f"{value / 1e6:.4g} Mbps" for value in (min(steps.bps), steps.mean_bps, max(steps.bps))
    )
    print(f"{file}: {recording.source}; {len(recording.times_s)} samples")
    print(
        f"{path}: {len(steps.bps)} steps in {steps.duration_s:g} s; least {least}, mean {mean}, most {most}"
    )
    print(f"{USAGE}{fragment}")


def _print_values(file: Path, measured: Measured, link: str, as_json: bool) -> None:
    """Prints a link that a file describes with single values or with delivery opportunities."""
    fragment = link_text.fragment(measured, file, link)
    if as_json:
        print(json.dumps({**link_text.table(measured), "toml": fragment}, indent=2))
        return
    print(f"{file}: {measured.source}")
    print("\n".join(link_text.lines(measured)))
    print(f"{USAGE}{fragment}")
    print(f"\nA scenario with these values: aqmlab link new --from {file}")


@app.command("formats")
def formats_() -> None:
    """List the formats of files from which a link can be read."""
    print("\n".join(aligned({one.name: one.summary for one in formats.FORMATS.values()})))


@app.command("kinds")
def kinds() -> None:
    """List the kinds of access that `aqmlab link new` can model, with the rates and the round-trip time that
    `aqmlab live shell --profile` uses."""
    print("\n".join(aligned(profile.summaries())))


app.command("export")(link_export.export)


class Kind(StrEnum):
    """A kind of synthetic link."""

    CELLULAR = "cellular"
    STARLINK = "starlink"


@app.command("generate")
def generate(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file.")],
    kind: Annotated[
        Kind,
        typer.Option(
            help="Kind of link: delivery opportunities similar to those of a cellular link, or rate steps "
            "similar to those of Starlink."
        ),
    ] = Kind.CELLULAR,
    rate: Annotated[
        str | None,
        typer.Option(help="Mean rate, such as 6Mbps; by default 6Mbps, or 190Mbps for starlink."),
    ] = None,
    duration: Annotated[
        str, typer.Option(help="Duration of the trace. A run that lasts longer repeats the trace.")
    ] = "60s",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random stream.")] = 1,
) -> None:
    """Write a synthetic trace of a link, and print the scenario table that uses the trace. A cellular trace
    is in Mahimahi's format."""
    seconds = time_of("--duration", duration)
    rate = rate or ("190Mbps" if kind == Kind.STARLINK else "6Mbps")
    bps = quantity_of("--rate", rate, "bps", "rate, such as 6Mbps")
    if kind == Kind.STARLINK:
        slots = starlink.link(bps, seconds, seed)
        write_text(out, slots.csv())
        print(f"{out}: {len(slots.delays)} slots in {slots.duration_s:g} s")
        print(f"{USAGE}{slots.toml(json.dumps(str(out)))}")
        return
    times = list(link_trace.opportunities(bps, seconds, seed))
    if not times:
        raise ValueError(
            f"--duration {duration}: is too short for one delivery opportunity at {rate}: increase "
            "--duration or --rate"
        )
    write_text(out, "".join(f"{millis}\n" for millis in times))
    mean = 8e-3 * link_trace.BYTES * len(times) / times[-1]
    print(f"{out}: {len(times)} opportunities in {times[-1] / 1000:g} s, mean {mean:.4g} Mbps")
    print(f"{USAGE}[bottleneck]\nopportunities = {{ file = {json.dumps(str(out))} }}")
