"""Draws the congestion windows of several implementations of CUBIC, each alone behind the same queue.

Needs `make guests`, and aioquic and cryptography in the Python that runs this program:

    python examples/guests/windows.py out/windows.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import polars as pl

import aqmlab as al

AIOQUIC = [sys.executable, str(Path(__file__).parent.parent / "path" / "aioquic_guest.py")]

NETWORK: dict[str, Any] = {
    "duration": "60s",
    "bottleneck": {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "drop-tail", "limit": "50kB"}},
    "tcp": {"profile": "linux-6"},
    "record": {"senders": ["sender"]},
}
"""A link whose buffer holds one bandwidth-delay product, 10 Mb/s times 40 ms."""

GUEST: dict[str, Any] = {"kind": "guest", "control": "cubic", "size": "75MB"}
"""A file that the link cannot carry within the run."""

SENDERS: dict[str, dict[str, Any]] = {
    "aqmlab (Linux 6)": {"kind": "ftp", "stagger": "0s", "tcp": {"congestion_control": {"kind": "cubic"}}},
    "quinn": GUEST | {"stack": "quinn"},
    "noq": GUEST | {"stack": "noq"},
    "s2n-quic": GUEST | {"stack": "s2n-quic"},
    "aioquic": GUEST | {"client": AIOQUIC},
}


def windows(sender: dict[str, Any]) -> tuple[pl.Series, pl.Series, float]:
    """Returns the times and the congestion windows in bytes, and the goodput in bits per second."""
    run = al.Scenario.from_dict(NETWORK | {"traffic": {"sender": sender}}).run(seed=1)
    goodput = run.tables["flows"]["goodput_bps"].sum()
    if sender["kind"] == "ftp":
        rows = run.tables["senders"]
        return rows["time_s"], rows["cwnd_segments"] * 1448, goodput
    rows = run.tables["reports"].filter(pl.col("report").cast(pl.String) == "cwnd_bytes")
    return rows["time_s"], rows["value"], goodput


def main(target: str) -> None:
    figure, axes = plt.subplots(
        len(SENDERS), 1, sharex=True, sharey=True, figsize=(7, 8), layout="constrained"
    )
    for panel, (name, sender) in zip(axes, SENDERS.items(), strict=True):
        times, sizes, goodput = windows(sender)
        print(f"{name}: {goodput / 1e6:.2f} Mb/s, largest window {sizes.max() / 1e3:.0f} kB")
        panel.step(times, sizes / 1e3, where="post", linewidth=1)
        panel.set_title(f"{name}: {goodput / 1e6:.2f} Mb/s", loc="left", fontsize=10)
        panel.set_ylim(0, 200)
        panel.grid(alpha=0.3)
    figure.supylabel("congestion window (kB)")
    axes[-1].set_xlabel("time (s)")
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1])
