"""Options of the commands that can distribute runs over a cluster."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from aqmlab.campaign import Executor, Local, Outcome, Task

Jobs = Annotated[int | None, typer.Option(min=1, help="Number of parallel runs; by default one per core.")]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Dask workers to use: tcp://HOST:PORT for the workers of a scheduler, or local:N for N "
        "processes on this machine.",
    ),
]
DaskSlurm = Annotated[
    bool,
    typer.Option(
        "--dask-slurm", help="Execute the runs in Slurm jobs, which dask-jobqueue's configuration defines."
    ),
]
DaskSsh = Annotated[
    str | None,
    typer.Option(
        metavar="HOST,HOST",
        help="Hosts that execute the runs. Dask starts its workers on these hosts over SSH.",
    ),
]
DaskWorkers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --dask-slurm: total number of processes. With --dask-ssh: number of processes on each "
        "host, by default one per core.",
    ),
]


@contextmanager
def executor(
    jobs: int | None, dask: str | None, slurm: bool, ssh: str | None, workers: int | None
) -> Iterator[Executor]:
    """Returns the executor that the options select, which uses this machine or a cluster. The connection to a
    cluster is opened at the first run and closed at the end.

    Raises `ValueError` if the options contradict each other.
    """
    if not (dask or slurm or ssh):
        if workers is not None:
            raise ValueError("--dask-workers: needs --dask-slurm or --dask-ssh")
        yield Local(jobs=jobs)
        return
    if jobs is not None:
        raise ValueError("--jobs: cannot be used with a cluster, which executes one run per worker thread")
    from aqmlab.campaign.dask_cluster import Request

    hosts = tuple(host.strip() for host in ssh.split(",") if host.strip()) if ssh else ()
    request = Request(address=dask, slurm=slurm, ssh=hosts, workers=workers)
    with ExitStack() as stack:
        yield _LazyExecutor(connect=lambda: stack.enter_context(request.connect()))


@dataclass(kw_only=True)
class _LazyExecutor:
    """An executor that connects to the cluster at the first run."""

    connect: Callable[[], Executor]
    executor: Executor | None = None

    def each(
        self,
        tasks: Iterable[Task],
        done: Callable[[Task, Outcome], bool],
        *,
        total: int,
        already: int,
        label: str | None,
    ) -> None:
        """See `campaign.Executor.each`."""
        self.executor = self.executor or self.connect()
        self.executor.each(tasks, done, total=total, already=already, label=label)
