"""Clusters to make runs on: one that there is, one on this machine, on hosts by SSH, or Slurm's."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from aqmlab.campaign.dask_workers import ClusterError, check

if TYPE_CHECKING:
    from distributed import Client

    from aqmlab.campaign.dask_executor import Dask

CONNECT_S = 5
"""A scheduler that does not answer within so long is not there."""

START_S = 60
"""Workers of ours on this machine that do not come within so long never will."""

LOCAL = "local:"

RETRIES = 1
"""With schedulers of ours, a batch whose worker died is tried again so often before its runs are tried one
by one."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which cluster is asked for: exactly one of `address`, `slurm` and `ssh`.

    Raises `ClusterError` if it cannot be.
    """

    address: str | None = None
    """`tcp://HOST:PORT` of a scheduler (or `tls://`, as Dask is configured), or `local:N`: processes here."""
    slurm: bool = False
    """Jobs of Slurm, as dask-jobqueue is configured."""
    ssh: Sequence[str] = ()
    """Hosts; the scheduler is put on the first one."""
    workers: int | None = None
    """With Slurm all processes; with SSH those of each host, by default as many as this machine has cores."""

    def __post_init__(self) -> None:
        if [bool(self.address), self.slurm, bool(self.ssh)].count(True) != 1:
            raise ClusterError("name one cluster: a scheduler's address, or Slurm, or hosts for SSH")
        if self.slurm and self.workers is None:
            raise ClusterError("workers: say how many processes Slurm is to start, such as --dask-workers 40")
        if self.address and self.workers is not None:
            raise ClusterError(f"workers: only Slurm and SSH start them, not {self.address}")
        if self.workers is not None and self.workers < 1:
            raise ClusterError(f"workers: must be at least 1, is {self.workers}")
        if self.address and self.address.startswith(LOCAL):
            count = self.address.removeprefix(LOCAL)
            if not count.isdecimal() or not int(count):
                raise ClusterError(f"`{self.address}`: write local:N with a number of processes, as local:4")
        elif self.address and "://" not in self.address:
            raise ClusterError(
                f"`{self.address}` is no address of a scheduler: write tcp://HOST:PORT, or local:N for "
                "processes here"
            )
        try:
            import distributed  # noqa: F401
        except ModuleNotFoundError:
            raise ClusterError("Dask is not installed: pip install 'aqmlab[cluster]'") from None

    @contextmanager
    def connect(self) -> Iterator[Dask]:
        """The executor that makes runs there. What is started for it is ended afterwards.

        Raises `ClusterError` if the cluster cannot be reached or started, or if workers differ from this
        process.
        """
        from aqmlab.campaign.dask_executor import Dask

        with _quiet(), ExitStack() as stack:
            if self.slurm:
                client = stack.enter_context(_slurm(self.workers or 1))
            elif self.ssh:
                client = stack.enter_context(_ssh(self.ssh, self.workers or os.cpu_count() or 1))
            elif self.address and self.address.startswith(LOCAL):
                client = stack.enter_context(_local(int(self.address.removeprefix(LOCAL))))
            else:
                client = stack.enter_context(_client(self.address))
            check(client)
            yield Dask(client=client)


def connect(
    address: str | None = None, *, slurm: bool = False, ssh: Sequence[str] = (), workers: int | None = None
) -> AbstractContextManager[Dask]:
    """The executor that makes runs on a cluster, while the context lasts: see `Request`."""
    return Request(address=address, slurm=slurm, ssh=ssh, workers=workers).connect()


@contextmanager
def _client(cluster: Any) -> Iterator[Client]:
    """A client of a scheduler's address, or of a cluster of ours."""
    from distributed import Client

    try:
        client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{cluster}: no scheduler answers there within {CONNECT_S} s ({error}): check the address, and "
            "that `dask scheduler` runs"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_S)


@contextmanager
def _local(count: int) -> Iterator[Client]:
    """A scheduler in this process, and workers in others, each with one thread."""
    import dask
    from distributed import LocalCluster

    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="aqmlab-dask-", ignore_cleanup_errors=True))
        with dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}):
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=0,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
            )
        stack.enter_context(_worker_processes(cluster.scheduler_address, count, folder))
        client = stack.enter_context(_client(cluster))
        try:
            client.wait_for_workers(count, timeout=START_S)
        except TimeoutError:
            raise ClusterError(f"local:{count}: not all workers began within {START_S} s") from None
        yield client


@contextmanager
def _worker_processes(address: str, count: int, folder: str) -> Iterator[None]:
    """Started as a user would, so that a script needs no guard for what multiprocessing imports again; in a
    session of their own, so that Ctrl-C comes to this process alone."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nworkers", str(count)]
    options = ["--nthreads", "1", "--no-dashboard", "--local-directory", folder, "--death-timeout", "10"]
    environment = os.environ | {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
    process = subprocess.Popen(
        [*command, *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it started, of which nothing is worth keeping."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        whole = psutil.Process(process.pid)
        # The first would start again what it sees dying.
        whole.suspend()
        for one in [*whole.children(recursive=True), whole]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


@contextmanager
def _ssh(hosts: Sequence[str], workers: int) -> Iterator[Client]:
    """A scheduler on the first host, workers on all."""
    import dask
    from distributed import SSHCluster

    try:
        with dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}):
            cluster = SSHCluster(
                [hosts[0], *hosts],
                worker_options={"nthreads": 1, "n_workers": workers},
                scheduler_options={"port": 0, "dashboard_address": ":0"},
                silence_logs=logging.CRITICAL,
            )
    except Exception as error:
        raise ClusterError(
            f"{', '.join(hosts)}: no cluster could be started by SSH ({error}): each must answer `ssh HOST "
            f"{sys.executable} -m distributed.cli.dask_worker --version` without a question"
        ) from None
    with cluster, _client(cluster) as client:
        yield client


@contextmanager
def _slurm(workers: int) -> Iterator[Client]:
    """A scheduler in this process, workers in jobs of Slurm."""
    import dask
    from dask_jobqueue.slurm import SLURMCluster

    asked: dict[str, Any] = {}
    configured = {name: dask.config.get(f"jobqueue.slurm.{name}", None) for name in ("cores", "processes")}
    if not configured["processes"]:
        asked = {"cores": configured["cores"] or 1, "processes": configured["cores"] or 1}
    try:
        with dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}):
            cluster = SLURMCluster(
                **asked, scheduler_options={"dashboard_address": ":0"}, silence_logs=logging.CRITICAL
            )
            cluster.scale(workers)
    except Exception as error:
        raise ClusterError(
            f"Slurm: no cluster could be started ({error}): jobs are described under `jobqueue.slurm` in "
            "~/.config/dask/jobqueue.yaml"
        ) from None
    with cluster, _client(cluster) as client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Dask's loggers are silent: what is wrong is told by an error of ours."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]
    loggers = [logging.getLogger(name) for name in ["distributed", *names]]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
