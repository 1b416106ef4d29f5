"""The commands `aqmlab new`: the beginning of an extension."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Writes the beginning of an extension into a checkout.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def about() -> None:
    """Writes the beginning of an extension into a checkout."""


@app.command()
def queue(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The kind of the new queue, such as delay-limit.")
    ],
) -> None:
    """Writes the file of a new queue discipline and registers it."""
    from aqmlab.cli import new_queue

    found = new_queue.write(name, Path.cwd())
    print(f"{found.source}: the discipline, which drops packets that waited too long; change it")
    print(f"{found.library}: a line that declares the file")
    print(f"{found.registry}: a line that makes `{name}` a kind of queue")
    print(f"Test it with `cargo test -p aqm-queue {found.source.stem}`, compile it with `make build`.")
