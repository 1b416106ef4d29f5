"""Draws the congestion windows of several implementations of CUBIC, each alone behind the same queue.

    aqmlab live run examples/guests/cubic.toml --virtual --out out/kernel-cubic
    python examples/guests/windows.py out/windows.png out/kernel-cubic

The first command, which is optional, needs a kernel (`aqmlab kernel build`). The second command needs `make
guests` with Go, CMake and a C++ compiler, and aioquic and cryptography in the Python that runs this program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import polars as pl

import aqmlab as al

HERE = Path(__file__).parent
AIOQUIC = [sys.executable, str(HERE.parent / "path" / "aioquic_guest.py")]
PROGRAMS = Path(sys.executable).parent
"""The folder in which `make guests` installs programs."""

GUEST: dict[str, Any] = {"kind": "guest", "control": "cubic", "size": "75MB"}
"""A file that the link cannot carry within the run."""

GUESTS: dict[str, dict[str, Any]] = {
    "quinn": GUEST | {"stack": "quinn"},
    "noq": GUEST | {"stack": "noq"},
    "s2n-quic": GUEST | {"stack": "s2n-quic"},
    "aioquic": GUEST | {"client": AIOQUIC},
    "quiche": GUEST | {"client": [str(PROGRAMS / "aqmlab-quiche")]},
    "gVisor": GUEST | {"client": [str(PROGRAMS / "aqmlab-gvisor")]},
}

MSS = 1448

Windows = tuple[str, pl.Series, pl.Series, float]
"""Name, times in seconds, congestion windows in bytes, and goodput in bits per second."""


def of_tcp(name: str, senders: pl.DataFrame, flows: pl.DataFrame) -> Windows:
    return name, senders["time_s"], senders["cwnd_segments"] * MSS, flows["goodput_bps"].sum()


def of_kernel(folder: Path) -> Windows:
    kernel = json.loads((folder / "run.json").read_text())["manifest"]["live"]["virtual"]
    senders, flows = (pl.read_parquet(folder / f"{name}.parquet") for name in ("senders", "flows"))
    return of_tcp(f"Linux {kernel['kernel']} in virtual time", senders, flows)


def simulated() -> Iterator[Windows]:
    base = al.Scenario.load(HERE / "cubic.toml")
    run = base.run()
    yield of_tcp("aqmlab, profile linux-6", run.tables["senders"], run.tables["flows"])
    for name, guest in GUESTS.items():
        run = base.with_({"traffic.sender": guest, "record.senders": None}).run()
        reports = run.tables["reports"].filter(pl.col("report").cast(pl.String) == "cwnd_bytes")
        yield name, reports["time_s"], reports["value"], run.tables["flows"]["goodput_bps"].sum()


def main(target: str, kernel: str | None = None) -> None:
    found = ([of_kernel(Path(kernel))] if kernel else []) + list(simulated())
    figure, panels = plt.subplots(
        len(found), 1, sharex=True, sharey=True, figsize=(7, 1.5 * len(found)), layout="constrained"
    )
    for panel, (name, times, sizes, goodput) in zip(panels, found, strict=True):
        print(f"{name}: {goodput / 1e6:.2f} Mb/s, largest window {sizes.max() / 1e3:.0f} kB")
        panel.step(times, sizes / 1e3, where="post", linewidth=1)
        panel.set_title(f"{name}: {goodput / 1e6:.2f} Mb/s", loc="left", fontsize=10)
        panel.set_ylim(0, 250)
        panel.grid(alpha=0.3)
    figure.supylabel("congestion window (kB)")
    panels[-1].set_xlabel("time (s)")
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
