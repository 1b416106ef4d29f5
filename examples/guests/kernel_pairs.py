"""Measures how two implementations share a link, in the Linux kernel in virtual time.

    python examples/guests/kernel_pairs.py kernel quinn --queues drop-tail,fq-codel,cake

An implementation is `kernel` (the kernel's TCP), a stack of `aqmlab-guests` (`quinn`, `noq`, `s2n-quic` or
`smoltcp`), `gvisor` (the program `aqmlab-gvisor`), `aioquic` (the guest
examples/path/aioquic_guest.py) or `aioquic-sockets` (aioquic's own client and server, aioquic_sockets.py).
All implementations use CUBIC. `udp_guest.py` connects guests to sockets.

The link, the buffers and the duration are those of `aqmlab coexist` with `--rate 10Mbps --rtts 40ms --seeds
3 --duration 60s --warm-up 10s`. The short transfers of both sides are transfers of the kernel's TCP. For each
queue, the program prints the share of the first implementation with its 95 % interval, and the goodput,
packets and drops of each long flow, as means of the runs. The folder --out keeps the results, so that a run
is not repeated.

Requires a kernel (`aqmlab kernel build`), `make guests`, and for aioquic the packages aioquic and
cryptography.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import aqmlab as al
from aqmlab import stats
from aqmlab._support import toml_writer
from aqmlab.coexistence import study as coexistence

HERE = Path(__file__).parent
PORT = 4433
RATE, RTT, DURATION_S, WARM_UP_S = "10Mbps", "40ms", 60.0, 10.0
SIDES = ("first", "second")
STACKS = ("quinn", "noq", "s2n-quic", "smoltcp")
PROGRAMS = ("gvisor", "quiche")
IMPLEMENTATIONS = ("kernel", *STACKS, *PROGRAMS, "aioquic", "aioquic-sockets")
SIZE = 75_000_000
"""Bytes that the link carries in 60 s. A flow that sends as many bytes does not end."""

Table = dict[str, Any]


def program(name: str, side: str, seed: int, host: str) -> Table:
    """Returns the workload in which a client receives a file from the server `host` through sockets."""
    server, client = f"{PORT}", f"{host}:{PORT}"
    if name == "aioquic-sockets":
        file = str(HERE / "aioquic_sockets.py")
        ends = [[file, "server", server, str(SIZE)], [file, "client", client, side]]
    else:
        guest = [sys.executable, str(HERE.parent / "path" / "aioquic_guest.py")]
        if name in STACKS:
            guest = [str(Path(sys.executable).with_name("aqmlab-guests")), "serve", name]
        elif name in PROGRAMS:
            guest = [str(Path(sys.executable).with_name(f"aqmlab-{name}"))]
        bridge = str(HERE / "udp_guest.py")
        config = json.dumps({"control": "cubic", "size": SIZE})
        seeds = [["--seed", f"{2 * seed + end}", "--config", config] for end in (0, 1)]
        ends = [
            [bridge, "server", server, *seeds[0], "--", *guest],
            [bridge, "client", client, *seeds[1], "--events", side, "--", *guest],
        ]
    words = [[sys.executable, *end] for end in ends]
    start = f"{start_us(side, seed)}us"
    return {"kind": "program", "server": words[0], "client": words[1], "start": start}


def start_us(side: str, seed: int) -> int:
    """Returns the start of a program, a random time in the first second, in microseconds."""
    return random.Random(f"{seed} {side}").randrange(1_000_000)


def scenario(names: tuple[str, str], queue: str, seed: int) -> al.Scenario:
    """Returns the scenario of `aqmlab coexist` for two flows of CUBIC, in which programs replace flows."""
    study = coexistence.study(
        ["cubic"], queues=[queue], rtts=[RTT], rate=RATE, duration_s=DURATION_S, warm_up_s=WARM_UP_S
    )
    sweep = study.experiments[0].sweep("full")
    (point,) = sweep.points()
    table = json.loads(json.dumps(sweep.scenario_of(point).given))
    both = "kernel" not in names
    for side, name in zip(SIDES, names, strict=True):
        if name != "kernel":
            # A single pair of programs has the hosts `client` and `server`.
            host = f"{side}-server" if both else "server"
            table["traffic"][side] = program(name, side, seed, host)
    return al.Scenario.from_dict(table)


def measured(names: tuple[str, str], queue: str, seed: int, folder: Path) -> Table:
    """Runs a pair and returns the share of the first implementation in percent, and for each implementation
    the goodput, and the packets and drops at the link."""
    file = folder / "pair.toml"
    file.write_text(toml_writer.written(scenario(names, queue, seed).given), encoding="utf-8")
    command = [sys.executable, "-m", "aqmlab", "live", "run", str(file), "--virtual", "--seed", str(seed)]
    done = subprocess.run([*command, "--out", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' and '.join(names)} behind {queue}: {done.stderr}")
    live = json.loads((folder / "run.json").read_text(encoding="utf-8"))["manifest"]["live"]
    if any(status is not None for status in live["statuses"].values()):
        raise RuntimeError(f"a client ended before the end of the run: {done.stdout}{done.stderr}")
    flows = pl.read_parquet(folder / "flows.parquet").with_columns(pl.col("traffic").cast(pl.String))
    events = [line.split() for line in done.stdout.splitlines() if " received_bytes " in line]
    sides: dict[str, Table] = {}
    for side, name in zip(SIDES, names, strict=True):
        own = flows.filter(pl.col("traffic") == side)
        goodput_bps = own["goodput_bps"].sum()
        if name != "kernel":
            # The router sees datagrams, so that only the client knows what the application receives.
            start_s = start_us(side, seed) / 1e6
            received = sum(
                float(value)
                for label, time_s, _, value in events
                if label == side and WARM_UP_S <= start_s + float(time_s) < DURATION_S
            )
            goodput_bps = 8 * received / (DURATION_S - WARM_UP_S)
        packets, dropped = int(own["packets_sent"].sum()), int(own["packets_dropped"].sum())
        sides[side] = {"goodput_bps": goodput_bps, "packets": packets, "dropped": dropped}
    first, second = (sides[side]["goodput_bps"] for side in SIDES)
    identity = {"names": names, "queue": queue, "seed": seed, "share": 100 * first / (first + second)}
    return identity | sides | {"cpu_s": live["virtual"]["cpu_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--queues", default="drop-tail,fq-codel,cake")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/kernel-pairs"))
    given = parser.parse_args()
    names = (given.first, given.second)
    for name in names:
        if name not in IMPLEMENTATIONS:
            parser.error(f"{name} is not an implementation; available: {', '.join(IMPLEMENTATIONS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for queue in given.queues.split(","):
        runs = []
        for seed in range(1, given.seeds + 1):
            kept = given.out / f"{'-'.join(names)}-{queue}-{seed}.json"
            if not kept.exists():
                with tempfile.TemporaryDirectory() as folder:
                    found = measured(names, queue, seed, Path(folder))
                kept.write_text(json.dumps(found), encoding="utf-8")
            runs.append(json.loads(kept.read_text(encoding="utf-8")))
        print(f"{queue}: share of {names[0]} {stats.mean_interval([run['share'] for run in runs])} %")
        for side, name in zip(SIDES, names, strict=True):
            goodput, packets, dropped = (
                sum(run[side][key] for run in runs) for key in ("goodput_bps", "packets", "dropped")
            )
            print(
                f"  {name}: goodput {goodput / len(runs) / 1e6:.2f} Mb/s, "
                f"{packets / len(runs):.0f} packets, {100 * dropped / max(packets, 1):.2f} % dropped"
            )


if __name__ == "__main__":
    main()
