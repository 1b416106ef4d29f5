"""The commands `aqmlab kernel`, which build and show kernels for live runs in virtual time."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aqmlab.cli.options import AsJson

if TYPE_CHECKING:
    from aqmlab.kernel import Kernel

app = typer.Typer(
    help="Build and show kernels for live runs in virtual time.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def kernel() -> None:
    """Build and show kernels for live runs in virtual time."""


@app.command()
def build(
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Source of Linux, a folder or a tar archive; by default the distribution's package "
            "linux-source, which is downloaded and not installed.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the kernel; by default a folder in the user's cache."),
    ] = None,
    hz: Annotated[
        int,
        typer.Option(min=100, max=1000, help="Ticks per second; the TCP profile linux-6 has 250."),
    ] = 250,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel compilers; by default one per core.")
    ] = None,
) -> None:
    """Build a kernel for live runs in virtual time. The build takes several minutes and needs no
    privileges."""
    from aqmlab.kernel import build as build_kernel

    built = build_kernel(source, out, hz=hz, jobs=jobs, say=lambda text: print(text, file=sys.stderr))
    print("\n".join(_lines(built)))


@app.command()
def show(
    kernel: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kernel to show; by default the kernel that AQMLAB_KERNEL names, or else the kernel that "
            "was built last.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the kernel that live runs in virtual time use."""
    from aqmlab.kernel import find

    found = find(kernel)
    if as_json:
        print(json.dumps(asdict(found) | {"path": str(found.path), "tick_s": found.tick_s}, indent=2))
    else:
        print("\n".join(_lines(found)))


def _lines(found: "Kernel") -> list[str]:
    """Returns the text of a kernel's properties."""
    seeded = "derived from the seed of the run" if found.seeded else "those of the host: runs differ"
    return [
        f"kernel               {found.path}",
        f"release              {found.release}",
        f"tick                 {1000 * found.tick_s:g} ms ({found.hz} ticks per second)",
        f"random numbers       {seeded}",
        f"congestion controls  {' '.join(found.controls)}",
        f"queue disciplines    {' '.join(found.qdiscs)}",
    ]
