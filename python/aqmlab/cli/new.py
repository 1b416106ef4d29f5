"""The commands `aqmlab new`, which create templates of extensions."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Create the template of an extension in a checkout.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def about() -> None:
    """Create the template of an extension in a checkout."""


@app.command()
def queue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Kind of the new queue, such as delay-limit.")],
) -> None:
    """Create the file of a new queue discipline and register the queue."""
    from aqmlab.cli import new_queue

    files = new_queue.write(name, Path.cwd())
    print(f"{files.source}: the discipline; as written, it drops packets that waited too long: edit it")
    print(f"{files.library}: declares the file as a module")
    print(f"{files.registry}: registers `{name}` as a kind of queue")
    print(f"Test it with `cargo test -p aqm-queue {files.source.stem}`, compile it with `make build`.")
