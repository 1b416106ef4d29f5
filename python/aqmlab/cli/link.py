"""The commands `aqmlab link`: recorded links, and made-up ones."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from aqmlab._support.files import write_text
from aqmlab.cli.options import quantity_of, time_of
from aqmlab.traces import link_import, link_trace

app = typer.Typer(
    help="Imports recorded links, and generates synthetic ones.", no_args_is_help=True, rich_markup_mode=None
)

HAS = "\nA scenario has this line with:\n\n"
"""What is said before a table of a scenario."""


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A log of cake-autorate, or a CSV file with a column of times and one of rates; each packed "
            "with gzip or not.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file of steps to write; by default NAME.rates.csv in this folder."
        ),
    ] = None,
    direction: Annotated[
        link_import.Direction, typer.Option(help="Of a log of cake-autorate: which way.")
    ] = link_import.Direction.DOWNLOAD,
    take: Annotated[
        link_import.Taken,
        typer.Option(help="Of such a log: the rate that the shaper was set to, or the one that was carried."),
    ] = link_import.Taken.SHAPER,
    time_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a CSV file: name or number of the column of times.")
    ] = None,
    rate_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a CSV file: name or number of the column of rates.")
    ] = None,
    time_unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Unit of times, such as ms; by default the header's, or s."),
    ] = None,
    rate_unit: Annotated[
        str | None,
        typer.Option(metavar="UNIT", help="Unit of rates, such as Mbps or kB/s; by default the header's."),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Leave out what is before, such as 90s.")
    ] = "0s",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Leave out what is after.")] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Write the means of times so long, such as 1s.")
    ] = None,
    link: Annotated[
        str, typer.Option(metavar="TABLE", help="The table of the link in what is printed.")
    ] = "bottleneck",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Makes the steps of a line's rate from a recorded link, and prints what a scenario writes to have it."""
    columns = link_import.Columns(
        time=time_column, rate=rate_column, time_unit=time_unit, rate_unit=rate_unit
    )
    recording = link_import.read(
        file,
        direction=direction,
        taken=take,
        columns=columns,
    )
    steps = link_import.steps(
        recording,
        start_s=time_of("--from", start),
        until_s=None if until is None else time_of("--until", until),
        every_s=None if every is None else time_of("--every", every),
    )
    path = out or Path(f"{file.name.removesuffix('.gz').rsplit('.', 1)[0]}.rates.csv")
    steps.write(path)
    for note in recording.notes:
        print(f"aqmlab: {file}: {note}", file=sys.stderr)
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
            "notes": list(recording.notes),
            "file": str(path),
            "toml": fragment,
        }
        print(json.dumps(found, indent=2))
        return
    least, mean, most = (
        f"{value / 1e6:.4g} Mbps" for value in (min(steps.bps), steps.mean_bps, max(steps.bps))
    )
    print(f"{file}: {recording.source}; {len(recording.times_s)} moments")
    print(
        f"{path}: {len(steps.bps)} steps in {steps.duration_s:g} s; least {least}, mean {mean}, most {most}"
    )
    print(f"{HAS}{fragment}")


@app.command("generate")
def generate(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")],
    rate: Annotated[str, typer.Option(help="The mean rate, such as 6Mbps.")] = "6Mbps",
    duration: Annotated[str, typer.Option(help="How long it is before it begins anew.")] = "60s",
    seed: Annotated[int, typer.Option(min=0, help="Seed of its random stream.")] = 1,
) -> None:
    """Writes a made-up trace of delivery opportunities, as of a phone's link, in the form of Mahimahi."""
    seconds = time_of("--duration", duration)
    bps = quantity_of("--rate", rate, "bps", "rate: write for example 6Mbps")
    times = list(link_trace.opportunities(bps, seconds, seed))
    if not times:
        raise ValueError(f"--duration {duration} at {rate} has no opportunity: write more of one of them")
    write_text(out, "".join(f"{millis}\n" for millis in times))
    mean = 8e-3 * link_trace.BYTES * len(times) / times[-1]
    print(f"{out}: {len(times)} opportunities in {times[-1] / 1000:g} s, {mean:.4g} Mbps in the mean")
    print(f"{HAS}[bottleneck]\nopportunities = {{ file = {json.dumps(str(out))} }}")
