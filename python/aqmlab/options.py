"""Options that several commands have."""

from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as bottleneck.queue.max_p=0.2."),
]
