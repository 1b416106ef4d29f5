"""The commands `aqmlab tc`, which write and read the settings of Linux's queues."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aqmlab.cli.options import AsJson, ScenarioFile, Settings, load_scenario

app = typer.Typer(
    help="Write a scenario's link as commands for Linux, or read what tc shows.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Format(StrEnum):
    """Format of the settings."""

    TC = "tc"
    SQM = "sqm"
    NETWORKD = "networkd"


class Direction(StrEnum):
    """Direction of a link."""

    FORWARD = "forward"
    REVERSE = "reverse"


_ARGUMENTS = ("link", "direction", "download", "device", "netem_device")
"""Arguments of `aqmlab.tc.write` that are options of the command."""


def _with_option(message: str) -> str:
    """Returns an error message with the name of an option instead of the name of an argument."""
    name, _, problem = message.partition(": ")
    return f"--{name.replace('_', '-')}: {problem}" if name in _ARGUMENTS else message


@app.command("write")
def write_(
    scenario: ScenarioFile,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Link into which the device sends packets. Default: bottleneck, unless --download is set.",
        ),
    ] = None,
    direction: Annotated[
        Direction, typer.Option(help="Direction of --link: the link itself, or its reverse link.")
    ] = Direction.FORWARD,
    download: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Link whose packets arrive at the device. An ifb device limits its rate and queues its "
            "packets.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Network device.")] = "eth0",
    netem: Annotated[
        bool,
        typer.Option(
            "--netem/--no-netem",
            help="Whether netem imitates the link's delay, losses and reordering. A real line does not "
            "need netem.",
        ),
    ] = True,
    netem_device: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE",
            help="With --download: device through which the packets leave the machine, where netem delays "
            "the packets.",
        ),
    ] = None,
    to: Annotated[
        Format,
        typer.Option(
            "--format",
            help="Format: tc commands, a section of /etc/config/sqm (OpenWrt), or sections of a systemd "
            ".network file.",
        ),
    ] = Format.TC,
    undo: Annotated[
        bool, typer.Option("--undo", help="Print the commands that undo the settings instead.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Print the commands that make a Linux device behave like a link of a scenario, and list what tc cannot
    express. The commands are not executed."""
    from aqmlab import tc

    chosen = load_scenario(scenario, settings)
    outgoing = link if link is not None or download is not None else "bottleneck"
    if to is not Format.TC and netem_device is not None:
        raise ValueError("--netem-device: applies only to --format tc")
    if to is Format.NETWORKD and (outgoing is None or download is not None):
        raise ValueError(
            "--download: needs --format tc or sqm, because networkd has no filters for an ifb device"
        )
    try:
        if to is Format.TC:
            found = tc.write(
                chosen,
                outgoing,
                device,
                direction=direction,
                download=download,
                netem=netem,
                netem_device=netem_device,
            )
        elif to is Format.SQM:
            found = tc.sqm(chosen, outgoing, device, direction=direction, download=download)
        else:
            found = tc.networkd(chosen, outgoing or "", device, direction=direction)
    except ValueError as error:
        raise ValueError(_with_option(str(error))) from None
    if as_json:
        print(json.dumps({"format": to, "device": device, **asdict(found)}, indent=2))
        return
    print(found.text(undo=undo), end="")


@app.command("read")
def read_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="[FILE]",
            help="Output of `tc -j -s -d qdisc show`, optionally followed by the output of `tc -j class "
            "show`; - reads standard input.",
        ),
    ] = Path("-"),
    dev: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="Device, if the output contains several devices.")
    ] = None,
    handle: Annotated[
        str | None,
        typer.Option(
            metavar="HANDLE", help="Queue, such as 10:, if the device has several queues. Default: the root."
        ),
    ] = None,
    link: Annotated[
        str, typer.Option(metavar="TABLE", help="Name of the link's table in the printed scenario.")
    ] = "bottleneck",
    as_json: AsJson = False,
) -> None:
    """Print the queue that tc shows as a table of a scenario, and report what was skipped."""
    from aqmlab import tc

    name = "standard input" if file == Path("-") else str(file)
    try:
        data = sys.stdin.buffer.read() if file == Path("-") else file.read_bytes()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    found = tc.read(data.decode("utf-8", errors="replace"), file=name, dev=dev, handle=handle)
    if as_json:
        print(json.dumps({"link": found.link, "notes": found.notes, "toml": found.toml(link)}, indent=2))
        return
    for note in found.notes:
        print(f"aqmlab: {name}: {note}", file=sys.stderr)
    print(found.toml(link), end="")
