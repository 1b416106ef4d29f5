"""Dask clusters that execute runs: an existing cluster, processes on this machine, hosts over SSH, or Slurm
jobs."""

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
"""Time-out for the connection to a scheduler."""

START_S = 60
"""Time-out for starting all workers on this machine, and for restarting one of them. Dask does not try again
after this time, which must therefore be long even for a busy machine."""

LOCAL = "local:"

RETRIES = 1
"""Number of times that a scheduler started by aqmlab retries a batch whose worker died. After these retries,
the batch's runs are executed one by one."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The description of a cluster. Exactly one of `address`, `slurm` and `ssh` must be set.

    Raises `ClusterError` if the description is invalid.
    """

    address: str | None = None
    """Either the address `tcp://HOST:PORT` of a scheduler (or `tls://HOST:PORT`, with Dask's configuration),
    or `local:N` for N processes on this machine."""
    slurm: bool = False
    """Whether to use Slurm jobs, with the configuration of dask-jobqueue."""
    ssh: Sequence[str] = ()
    """Names of the hosts. The scheduler runs on the first host."""
    workers: int | None = None
    """With Slurm, the total number of processes. With SSH, the number of processes on each host; the default
    is the number of cores of this machine."""

    def __post_init__(self) -> None:
        if [bool(self.address), self.slurm, bool(self.ssh)].count(True) != 1:
            raise ClusterError("use exactly one of --dask, --dask-slurm and --dask-ssh")
        if self.slurm and self.workers is None:
            raise ClusterError(
                "workers: with Slurm, must be set to the number of processes, for example --dask-workers 40"
            )
        if self.address and self.workers is not None:
            raise ClusterError(f"workers: can be set only with Slurm or SSH (got the address {self.address})")
        if self.workers is not None and self.workers < 1:
            raise ClusterError(f"workers: must be at least 1 (got {self.workers})")
        if self.address and self.address.startswith(LOCAL):
            count = self.address.removeprefix(LOCAL)
            if not count.isdecimal() or not int(count):
                raise ClusterError(
                    "address: must be local:N, where N is the number of processes, such as local:4 "
                    f"(got {self.address})"
                )
        elif self.address and "://" not in self.address:
            raise ClusterError(
                "address: must be tcp://HOST:PORT, or local:N for processes on this machine (got "
                f"{self.address})"
            )
        try:
            import distributed  # noqa: F401
        except ModuleNotFoundError:
            raise ClusterError("Dask is not installed: pip install 'aqmlab[cluster]'") from None

    @contextmanager
    def connect(self) -> Iterator[Dask]:
        """Returns a context with the executor for the cluster. When the context ends, processes that were
        started for the cluster are stopped.

        Raises `ClusterError` if the cluster cannot be reached or started, or if a worker and this process
        have different versions or builds of aqmlab or different versions of Python.
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
    """Returns a context with an executor that executes tasks on a cluster. The arguments are described in
    `Request`."""
    return Request(address=address, slurm=slurm, ssh=ssh, workers=workers).connect()


@contextmanager
def _client(cluster: Any) -> Iterator[Client]:
    """Returns a client that is connected to the scheduler at an address, or to a cluster that aqmlab
    started."""
    from distributed import Client

    try:
        client = Client(cluster, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"{cluster}: no scheduler answered within {CONNECT_S} s ({error}): check the address, and "
            "whether `dask scheduler` is running"
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_S)


@contextmanager
def _local(count: int) -> Iterator[Client]:
    """Starts a scheduler in this process, and workers in other processes with one thread each."""
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
            raise ClusterError(f"local:{count}: not all workers started within {START_S} s") from None
        yield client


@contextmanager
def _worker_processes(address: str, count: int, folder: str) -> Iterator[None]:
    """Starts worker processes with Dask's command instead of `multiprocessing`, so that user scripts need no
    `__main__` guard. The workers run in their own session, so that only this process receives Ctrl-C."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nworkers", str(count)]
    options = ["--nthreads", "1", "--no-dashboard", "--local-directory", folder]
    options += ["--death-timeout", str(START_S)]
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
    """Kills a process and all its descendants, which have no data to save."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        whole = psutil.Process(process.pid)
        # A running parent would restart its killed children.
        whole.suspend()
        for one in [*whole.children(recursive=True), whole]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
    process.wait()


@contextmanager
def _ssh(hosts: Sequence[str], workers: int) -> Iterator[Client]:
    """Starts a scheduler on the first host, and workers on all hosts."""
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
            f"{', '.join(hosts)}: no cluster could be started over SSH ({error}): the command `ssh HOST "
            f"{sys.executable} -m distributed.cli.dask_worker --version` must work for each host without a "
            "prompt"
        ) from None
    with cluster, _client(cluster) as client:
        yield client


@contextmanager
def _slurm(workers: int) -> Iterator[Client]:
    """Starts a scheduler in this process, and workers in Slurm jobs."""
    import dask
    from dask_jobqueue.slurm import SLURMCluster

    options: dict[str, Any] = {}
    configured = {name: dask.config.get(f"jobqueue.slurm.{name}", None) for name in ("cores", "processes")}
    if not configured["processes"]:
        options = {"cores": configured["cores"] or 1, "processes": configured["cores"] or 1}
    try:
        with dask.config.set({"distributed.scheduler.allowed-failures": RETRIES}):
            cluster = SLURMCluster(
                **options, scheduler_options={"dashboard_address": ":0"}, silence_logs=logging.CRITICAL
            )
            cluster.scale(workers)
    except Exception as error:
        raise ClusterError(
            f"Slurm: no cluster could be started ({error}): check `jobqueue.slurm` in "
            "~/.config/dask/jobqueue.yaml"
        ) from None
    with cluster, _client(cluster) as client:
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences Dask's loggers, because aqmlab reports the errors itself."""
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
