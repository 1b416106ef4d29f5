"""The command `aqmlab link new`, which asks about a line or reads files, and writes a scenario."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from aqmlab.cli.options import AsJson
from aqmlab.links import formats, household, new
from aqmlab.links.access import KINDS
from aqmlab.links.buffer import Buffer
from aqmlab.links.format import Options
from aqmlab.links.measured import Direction

DEFAULT = Path("my-line.toml")


def new_(
    out: Annotated[
        Path,
        typer.Argument(metavar="[OUT.toml]", help="Scenario to write. An existing file is not replaced."),
    ] = DEFAULT,
    access: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            autocompletion=lambda: list(KINDS),
            help=f"Kind of access: {', '.join(KINDS)}. `aqmlab link kinds` describes them.",
        ),
    ] = None,
    down: Annotated[str | None, typer.Option(metavar="RATE", help="Download rate, such as 100Mbps.")] = None,
    up: Annotated[str | None, typer.Option(metavar="RATE", help="Upload rate, such as 10Mbps.")] = None,
    goodput: Annotated[
        bool,
        typer.Option(
            "--goodput",
            help="The rates are results of a speed test, which counts payload. By default, the rates are "
            "those of the contract or of the modem's status page.",
        ),
    ] = False,
    rtt: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Round-trip time to usual servers without load, such as 20ms."),
    ] = None,
    buffer_down: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Buffer of the download direction, such as 256kB, 100p or 200ms, if it is known.",
        ),
    ] = None,
    buffer_up: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Buffer of the upload direction, if it is known.")
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            "--household",
            metavar="NAME",
            help=f"People who share the line: {', '.join(household.HOUSEHOLDS)}, or a comma-separated list "
            f"of {', '.join(household.ACTIVITIES)}. Default: {household.DEFAULT}.",
        ),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="File to read the line from, such as a Flent file or the result of a speed test; `aqmlab "
            "link formats` lists the formats. A file that describes one direction describes the download.",
        ),
    ] = None,
    upload_sources: Annotated[
        list[Path] | None,
        typer.Option("--upload-from", metavar="FILE", help="File that describes the upload direction only."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format of the files; by default, recognised from the content."
        ),
    ] = None,
    home: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of a host at home, for captures.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a scenario of your own line, from answers to questions or from files.

    The command asks for the values that are neither given as options nor found in a file. If standard input
    is not a terminal, the command asks nothing."""
    new.check_absent(out)
    answers = new.Answers(
        access=access,
        down=down,
        up=up,
        rtt=rtt,
        buffer_down=buffer_down,
        buffer_up=buffer_up,
        household=share,
        goodput=goodput,
    )
    files = [
        new.Source(
            path=path, measured=formats.read(path, Options(direction=direction, home=home), format_name)
        )
        for direction, paths in ((Direction.DOWNLOAD, sources), (Direction.UPLOAD, upload_sources))
        for path in paths or ()
    ]
    for one in files:
        for note in one.measured.notes:
            print(f"aqmlab: {one.path}: {note}", file=sys.stderr)
    lacking = new.missing(answers, files)
    if lacking and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ValueError(
            f"link new: needs {', '.join(lacking)}, because standard input is not a terminal where aqmlab "
            "could ask; or --from FILE with a file that contains these values"
        )
    if lacking:
        answers = _ask(answers, lacking)
    line = new.line_of(answers, files)
    written = new.write(line, out)
    if as_json:
        files_written = [str(out.parent / name) for name in written.files]
        found = {"scenario": str(out), "files": files_written, "queues": list(written.alternatives)}
        print(json.dumps(found, indent=2))
        return
    print(
        f"{out}: {line.access.name}, {_mbps(line.down.bps)} down, {_mbps(line.up.bps)} up, "
        f"round trip {1e3 * line.rtt_s:.4g} ms"
    )
    for name in written.files:
        print(f"{out.parent / name}: belongs to the scenario")
    print(f"\nThe assumptions are comments in the scenario. Next:\n\naqmlab run {out}")
    print(
        f"aqmlab compare {out} --at bottleneck-back --queues {','.join(written.alternatives)} "
        "--replications 3"
    )


def _ask(answers: new.Answers, lacking: list[str]) -> new.Answers:
    """Asks for the missing values, and for the values that a user may know."""
    if "--access" in lacking:
        for kind in KINDS.values():
            typer.echo(f"  {kind.name:10} {kind.summary}", err=True)
        answers = replace(answers, access=_prompt("Kind of access", "cable", new.access))
    usual = KINDS[answers.access].usual_rtt if answers.access in KINDS else "20ms"
    if "--down" in lacking:
        answers = replace(answers, down=_prompt("Download rate, such as 100Mbps", None, new.rate))
    if "--up" in lacking:
        answers = replace(answers, up=_prompt("Upload rate, such as 10Mbps", None, new.rate))
    if "--rtt" in lacking:
        answers = replace(answers, rtt=_prompt("Round-trip time without load", usual, new.round_trip))
    if answers.buffer_down is None:
        answers = replace(answers, buffer_down=_ask_buffer("download"))
    if answers.buffer_up is None:
        answers = replace(answers, buffer_up=_ask_buffer("upload"))
    if answers.household is None:
        names = ", ".join([*household.HOUSEHOLDS, *household.ACTIVITIES])
        question = f"Who shares the line ({names})"
        answers = replace(answers, household=_prompt(question, household.DEFAULT, household.activities_of))
    return answers


def _ask_buffer(way: str) -> str | None:
    size = _prompt(f"Buffer of the {way} direction, such as 256kB or 200ms", "unknown", _buffer)
    return None if size == "unknown" else size


def _prompt(question: str, default: str | None, check: Callable[[str], object]) -> str:
    """Asks until the answer is valid, and returns the answer."""
    while True:
        answer = str(typer.prompt(question, default=default, err=True)).strip()
        try:
            check(answer)
        except ValueError as error:
            typer.echo(f"  The answer {error}", err=True)
        else:
            return answer


def _buffer(text: str) -> object:
    return None if text == "unknown" else Buffer.parse(text)


def _mbps(bps: float) -> str:
    return f"{bps / 1e6:.4g} Mbps"
