"""Kernels for virtual time: where they are kept, and their properties."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

VARIABLE = "AQMLAB_KERNEL"
"""Environment variable with the path of the kernel."""

ASK_S = 10.0
"""Time limit for the kernel's answer to a question, which takes milliseconds."""

REMEDY = "build a kernel with `aqmlab kernel build`"

_CONTROLS = {
    "BBR": "bbr",
    "BIC": "bic",
    "CDG": "cdg",
    "CUBIC": "cubic",
    "DCTCP": "dctcp",
    "HSTCP": "highspeed",
    "HTCP": "htcp",
    "HYBLA": "hybla",
    "ILLINOIS": "illinois",
    "LP": "lp",
    "NV": "nv",
    "PRAGUE": "prague",
    "SCALABLE": "scalable",
    "VEGAS": "vegas",
    "VENO": "veno",
    "WESTWOOD": "westwood",
    "YEAH": "yeah",
}
"""The names of congestion controls in the configuration and in sockets (Linux, net/ipv4/Kconfig)."""


class KernelError(RuntimeError):
    """A kernel is missing, cannot be built, or does not run. The message contains a remedy."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A User-Mode-Linux kernel with virtual time."""

    path: Path
    """The kernel, which is a program."""
    release: str
    """The release, such as `6.1.192`."""
    hz: int
    """Ticks per second."""
    seeded: bool
    """Whether the kernel's random numbers can be derived from a seed."""
    controls: tuple[str, ...]
    """The congestion controls, sorted by name."""
    qdiscs: tuple[str, ...]
    """The queue disciplines, sorted by name."""

    @property
    def tick_s(self) -> float:
        """The duration of a tick in seconds."""
        return 1 / self.hz

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the kernel."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @classmethod
    def of(cls, path: Path) -> Kernel:
        """Reads the properties of a kernel, which prints its release, configuration and arguments.

        Raises `KernelError` if the file is not a User-Mode-Linux kernel or the kernel has no virtual time.
        """
        options = dict(re.findall(r"^CONFIG_(\w+)=(.*)$", _ask(path, "--showconfig"), re.MULTILINE))
        if options.get("UML") != "y":
            raise KernelError(f"{path} is not a User-Mode-Linux kernel: {REMEDY}")
        if options.get("UML_TIME_TRAVEL_SUPPORT") != "y":
            raise KernelError(
                f"{path} has no virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT is not set): {REMEDY}"
            )
        on = {name for name, value in options.items() if value == "y"}
        controls = {name for key, name in _CONTROLS.items() if f"TCP_CONG_{key}" in on}
        qdiscs = {name.removeprefix("NET_SCH_").lower() for name in on if name.startswith("NET_SCH_")}
        return cls(
            path=path,
            release=_ask(path, "--version").split()[0],
            hz=int(options["HZ"]),
            seeded="random-seed=" in _ask(path, "--help"),
            controls=tuple(sorted(controls | {"reno"})),
            qdiscs=tuple(sorted(qdiscs - {"fifo", "default"})),
        )


def kept() -> Path:
    """Returns the folder in which `aqmlab kernel build` keeps kernels: `aqmlab/kernels` in the user's cache
    (`XDG_CACHE_HOME`, by default `~/.cache`)."""
    cache = os.environ.get("XDG_CACHE_HOME") or ""
    # The XDG Base Directory Specification says that relative paths are ignored.
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "aqmlab" / "kernels"


def find(path: Path | None = None) -> Kernel:
    """Returns the kernel at `path`, or else the kernel that the environment variable `AQMLAB_KERNEL` names,
    or else the kernel in `kept()` that was built last. A path may also be the folder of the kernel.

    Raises `KernelError` if no kernel is found.
    """
    named = path or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        file = named / "linux" if named.is_dir() else named
        if not file.exists():
            origin = "--kernel" if path else VARIABLE
            raise KernelError(f"{origin}: {file} does not exist; {REMEDY}")
        return Kernel.of(file.absolute())
    built = sorted(kept().glob("*/linux"), key=lambda file: file.stat().st_mtime)
    if not built:
        raise KernelError(
            f"virtual time needs a kernel, and {kept()} contains no kernel: {REMEDY}, which takes several "
            "minutes"
        )
    return Kernel.of(built[-1])


def _ask(path: Path, option: str) -> str:
    """Returns what the kernel prints for an option."""
    try:
        done = subprocess.run(
            [str(path), option],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelError(f"{path} cannot be run as a kernel: {error}; {REMEDY}") from None
    return done.stdout
