"""The command `aqmlab guest`, which tests programs that implement a transport in virtual time."""

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from aqmlab._core import IsolationError
from aqmlab.cli.options import AsJson, time_of

app = typer.Typer(
    help="Test programs that implement a transport protocol in virtual time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

REFUSED: tuple[type[Exception], ...] = (IsolationError,)
"""Exceptions for operations that fail with valid input."""

NOT_ADMITTED = 1
"""Exit status if the program is not admitted."""


@app.callback()
def guest() -> None:
    """Test programs that implement a transport protocol in virtual time."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def check(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="Command of the guest at the client's end of the path."),
    ],
    server: Annotated[
        str,
        typer.Option(
            metavar="COMMAND", help="Command of the guest at the server's end; by default the same command."
        ),
    ] = "",
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            metavar="PATH.toml",
            help="Path between the guests; by default 10 Mb/s and 20 ms in each direction with CoDel and 1 % "
            "loss.",
        ),
    ] = None,
    config: Annotated[
        str, typer.Option(metavar="TEXT", help="Configuration of the client's guest, usually a JSON table.")
    ] = "{}",
    server_config: Annotated[
        str, typer.Option(metavar="TEXT", help="Configuration of the server's guest, usually a JSON table.")
    ] = "{}",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first two runs.")] = 1,
    until: Annotated[str, typer.Option(metavar="TIME", help="End of each run, in virtual time.")] = "10s",
    time_limit: Annotated[
        str, typer.Option(metavar="TIME", help="Maximum real time between a request and its answer.")
    ] = "10s",
    no_isolation: Annotated[
        bool,
        typer.Option(
            "--no-isolation",
            help="Start the guests with access to the network and with write access to files. By default, "
            "the guests have no network and a read-only file system, which requires Linux 6.2 or newer.",
        ),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the report of a fault (fault.txt).")
    ] = Path("out/guest"),
    as_json: AsJson = False,
) -> None:
    """Test whether a program follows the contract for guests: run the program twice with the same seed and
    once with another seed, and compare the digests. The exit status is 1 if the program is not admitted."""
    from aqmlab.path import check_guest
    from aqmlab.path.guests import PATH
    from aqmlab.path.path import read_table

    if command[0].startswith("-"):
        raise ValueError(f"guest check has no option {command[0]}")
    second = shlex.split(server) or command
    for option, program in (("COMMAND", command[0]), ("--server", second[0])):
        if shutil.which(program) is None:
            raise ValueError(f"{option}: {program}: command not found")
    table, files = (PATH, {}) if path is None else read_table(path)
    admission = check_guest(
        command,
        second,
        table,
        seed=seed,
        files=files,
        configs=(config, server_config),
        until_s=time_of("--until", until),
        time_limit_s=time_of("--time-limit", time_limit),
        isolation=not no_isolation,
    )
    if admission.report:
        out.mkdir(parents=True, exist_ok=True)
        (out / "fault.txt").write_text(admission.report, encoding="utf-8")
    if as_json:
        print(json.dumps({"admitted": admission.admitted} | asdict(admission)))
    else:
        print("\n".join(_lines(admission, command, out)))
    if not admission.admitted:
        raise typer.Exit(NOT_ADMITTED)


def _lines(admission: Any, command: list[str], out: Path) -> list[str]:
    """Returns the text of an admission test."""
    lines = [f"{shlex.join(command)}: {'admitted' if admission.admitted else 'not admitted'}"]
    lines += [f"  {reason}" for reason in admission.reasons]
    lines += [f"  note: {note}" for note in admission.notes]
    if admission.report:
        lines.append(f"  report: {out / 'fault.txt'}")
    if (run := admission.run) is not None:
        for name, end in (("client", run.client), ("server", run.server)):
            lines.append(
                f"  {name}: {end.sent} datagrams sent, {end.delivered} delivered, {end.dropped} dropped, "
                f"{end.in_transit} in transit"
            )
        calls = max(1, run.client.calls + run.server.calls)
        lines.append(
            f"  {run.stopped_at / 1e9:.3f} s of virtual time, {calls} requests, "
            f"{1e6 * run.wall_s / calls:.0f} us each"
        )
        lines.append(f"  digest: {run.digest}")
    return lines
