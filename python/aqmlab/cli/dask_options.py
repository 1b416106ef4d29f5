"""The options of commands that may make their runs on a cluster."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from aqmlab.campaign import Executor, Local, Made, Task

Jobs = Annotated[int | None, typer.Option(min=1, help="How many runs at once; all cores by default.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Make the runs on Dask's workers: tcp://HOST:PORT of a scheduler, or local:N processes here.",
    ),
]
DaskSlurm = Annotated[
    bool, typer.Option("--dask-slurm", help="Make the runs in jobs of Slurm, as dask-jobqueue is configured.")
]
DaskSsh = Annotated[
    str | None,
    typer.Option(metavar="HOST,HOST", help="Make the runs on these hosts, through SSH; which Dask starts."),
]
DaskWorkers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --dask-slurm: processes in all; with --dask-ssh: on each host, by default its cores.",
    ),
]


@contextmanager
def executor(
    jobs: int | None, dask: str | None, slurm: bool, ssh: str | None, workers: int | None
) -> Iterator[Executor]:
    """Who makes the runs that these options ask for: this machine, or a cluster, which is connected to when
    the first run is made, and closed at the end.

    Raises `ValueError` for options that do not go together.
    """
    if not (dask or slurm or ssh):
        if workers is not None:
            raise ValueError("--dask-workers goes with --dask-slurm or --dask-ssh")
        yield Local(jobs=jobs)
        return
    if jobs is not None:
        raise ValueError("--jobs is for this machine: a cluster makes as many runs as it has threads")
    from aqmlab.campaign.dask_cluster import Request

    hosts = tuple(host.strip() for host in ssh.split(",") if host.strip()) if ssh else ()
    request = Request(address=dask, slurm=slurm, ssh=hosts, workers=workers)
    with ExitStack() as stack:
        yield _WhenNeeded(connect=lambda: stack.enter_context(request.connect()))


@dataclass(kw_only=True)
class _WhenNeeded:
    """An executor that is there from its first run on."""

    connect: Callable[[], Executor]
    found: Executor | None = None

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Made], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `campaign.Executor.each`."""
        self.found = self.found or self.connect()
        self.found.each(tasks, done, total=total, already=already, label=label)
