"""Checks that Dask workers are compatible: a worker must have the same version and build of aqmlab as the
campaign's process."""

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
    """The error that is raised if a cluster cannot execute the runs. The message contains the cluster's
    address, the reason and a remedy."""


class Identity(NamedTuple):
    """The properties that must be the same in all processes of a campaign."""

    version: str
    results_version: int
    python: str
    """Python's version, such as `3.11`. A pickled function can be loaded only by the same version."""
    machine: str
    core: str
    """Digest of the compiled core. Digests are compared only between machines of the same type."""


@cache
def identity() -> Identity:
    """Returns the identity of this process."""
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
    """Returns the identity of a worker as a plain tuple, which can be transmitted."""
    return tuple(identity())


def incompatibility(ours: Identity, theirs: Identity) -> str:
    """Returns the reason why a worker must not execute runs, with a remedy; an empty string if the worker is
    compatible."""
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
            f"{ours.results_version}; install the same wheel on both machines"
        )
    if theirs.machine == ours.machine and theirs.core != ours.core:
        return f"has another build of aqmlab {theirs.version}; install the same wheel on both machines"
    return ""


def unlike(client: Client) -> dict[str, str]:
    """Returns the reasons why workers are incompatible, by worker address. Workers on which aqmlab is not
    installed are included."""
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
        raise ClusterError(f"these workers differ from this process and cannot execute its runs:{lines}")
