"""The compatibility of Dask workers: a worker must have the same aqmlab as the campaign's process."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from aqmlab import _core
from aqmlab.campaign.campaign import version

if TYPE_CHECKING:
    from distributed import Client


class ClusterError(ValueError):
    """A cluster that cannot execute the runs, with its address, the reason and a remedy."""


class Identity(NamedTuple):
    """The properties that must be equal in all processes of a campaign."""

    version: str
    results_version: int
    python: str
    """Python's minor version; pickled functions need equal versions."""
    machine: str
    core: str
    """Digest of the compiled core, which is compared between machines of the same type."""


@cache
def identity() -> Identity:
    """The identity of this process."""
    with open(_core.__file__, "rb") as file:
        core = hashlib.file_digest(file, "blake2b").hexdigest()[:16]
    return Identity(
        version=version(),
        results_version=_core.RESULTS_VERSION,
        python=".".join(platform.python_version_tuple()[:2]),
        machine=f"{platform.system()} {platform.machine()}",
        core=core,
    )


def identity_tuple() -> tuple[Any, ...]:
    """The identity of a worker as a plain tuple, for transmission."""
    return tuple(identity())


def incompatibility(ours: Identity, theirs: Identity) -> str:
    """The reason why a worker must not execute runs, with a remedy; empty if the worker is compatible."""
    install = f"run there: pip install 'aqmlab[cluster]=={ours.version}'"
    if theirs.version != ours.version:
        return f"has aqmlab {theirs.version}, but this machine has {ours.version}; {install}"
    if theirs.python != ours.python:
        return (
            f"has Python {theirs.python}, but this machine has {ours.python}, and measures cannot be "
            f"transferred between different versions; start the worker with Python {ours.python}"
        )
    if theirs.results_version != ours.results_version:
        return (
            f"has the results version {theirs.results_version}, but this machine has "
            f"{ours.results_version}; install the same wheel on both"
        )
    if theirs.machine == ours.machine and theirs.core != ours.core:
        return f"has another build of aqmlab {theirs.version}; install the same wheel on both"
    return ""


def unlike(client: Client) -> dict[str, str]:
    """The incompatible workers by address, with the reasons, including workers without aqmlab."""
    ours = identity()
    installed = client.get_versions(packages=["aqmlab"])["workers"]
    found: dict[str, str] = {}
    for worker, about in installed.items():
        packages = about["packages"]
        python = ".".join(str(packages["python"]).split(".")[:2])
        theirs = packages.get("aqmlab")
        if theirs is None:
            found[worker] = f"has no aqmlab; run there: pip install 'aqmlab[cluster]=={ours.version}'"
        elif reason := incompatibility(ours, ours._replace(version=theirs, python=python)):
            found[worker] = reason
    alike = [worker for worker in installed if worker not in found]
    if alike:
        for worker, theirs in client.run(identity_tuple, workers=alike, on_error="return").items():
            if isinstance(theirs, BaseException):
                found[worker] = f"does not report its version of aqmlab: {type(theirs).__name__}: {theirs}"
            elif reason := incompatibility(ours, Identity(*theirs)):
                found[worker] = reason
    return found


def check(client: Client) -> None:
    """Raises `ClusterError` if any worker is incompatible."""
    found = unlike(client)
    if found:
        lines = "".join(f"\n  {worker}: {reason}" for worker, reason in found.items())
        raise ClusterError(f"these workers differ from this process, and cannot execute its runs:{lines}")
