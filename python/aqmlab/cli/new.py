"""The commands `aqmlab new`, which create extensions from templates."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Create an extension from a template, in a checkout of aqmlab.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def about() -> None:
    """Create an extension from a template, in a checkout of aqmlab."""


@app.command()
def queue(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the new kind of queue, such as delay-limit.")
    ],
) -> None:
    """Create the source file of a new queue discipline and register the queue."""
    from aqmlab.cli import new_queue

    files = new_queue.write(name, Path.cwd())
    print(f"{files.source}: the discipline; as written, it drops packets that waited too long: edit it")
    print(f"{files.library}: declares the file as a module")
    print(f"{files.registry}: registers `{name}` as a kind of queue")
    print(f"Test it with `cargo test -p aqm-queue {files.source.stem}`, compile it with `make build`.")
