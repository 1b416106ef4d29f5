"""Who may make runs: workers that have the same aqmlab as whoever asks them."""

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
    """A cluster that cannot make the runs: says where, why and what helps."""


class Identity(NamedTuple):
    """What must be equal wherever the runs of a campaign are made."""

    version: str
    results_version: int
    python: str
    """The minor version: functions travel between equal ones only."""
    machine: str
    core: str
    """A digest of the compiled core, which is compared between machines of a kind."""


@cache
def identity() -> Identity:
    """That of this process."""
    with open(_core.__file__, "rb") as file:
        core = hashlib.file_digest(file, "blake2b").hexdigest()[:16]
    return Identity(
        version=version(),
        results_version=_core.RESULTS_VERSION,
        python=".".join(platform.python_version_tuple()[:2]),
        machine=f"{platform.system()} {platform.machine()}",
        core=core,
    )


def told() -> tuple[Any, ...]:
    """The identity of a worker, as it travels."""
    return tuple(identity())


def refuse_others(ours: Identity, theirs: Identity) -> str:
    """Why a worker must not make our runs, and the cure; empty if it may."""
    install = f"there: pip install 'aqmlab[cluster]=={ours.version}'"
    if theirs.version != ours.version:
        return f"has aqmlab {theirs.version}, and here is {ours.version}; {install}"
    if theirs.python != ours.python:
        return (
            f"has Python {theirs.python}, and here is {ours.python}, between which measures cannot travel; "
            f"start it with Python {ours.python}"
        )
    if theirs.results_version != ours.results_version:
        return (
            f"has the results version {theirs.results_version}, and here is {ours.results_version}; install "
            "the same wheel on both"
        )
    if theirs.machine == ours.machine and theirs.core != ours.core:
        return f"has another build of aqmlab {theirs.version}; install the same wheel on both"
    return ""


def unlike(client: Client) -> dict[str, str]:
    """The workers that must not make our runs, by address, and why. Works with those that lack aqmlab."""
    ours = identity()
    installed = client.get_versions(packages=["aqmlab"])["workers"]
    found: dict[str, str] = {}
    for worker, about in installed.items():
        packages = about["packages"]
        python = ".".join(str(packages["python"]).split(".")[:2])
        theirs = packages.get("aqmlab")
        if theirs is None:
            found[worker] = f"has no aqmlab; there: pip install 'aqmlab[cluster]=={ours.version}'"
        elif why := refuse_others(ours, ours._replace(version=theirs, python=python)):
            found[worker] = why
    alike = [worker for worker in installed if worker not in found]
    if alike:
        for worker, theirs in client.run(told, workers=alike, on_error="return").items():
            if isinstance(theirs, BaseException):
                found[worker] = f"does not say which aqmlab it has: {type(theirs).__name__}: {theirs}"
            elif why := refuse_others(ours, Identity(*theirs)):
                found[worker] = why
    return found


def check(client: Client) -> None:
    """Raises `ClusterError` if any worker that there is differs."""
    found = unlike(client)
    if found:
        lines = "".join(f"\n  {worker}: {why}" for worker, why in found.items())
        raise ClusterError(f"workers that must not make these runs, as they differ from this process:{lines}")
