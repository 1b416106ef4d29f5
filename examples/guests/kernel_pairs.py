"""Measures how two implementations share a link, in the Linux kernel in virtual time.

    python examples/guests/kernel_pairs.py kernel quinn --queues drop-tail,fq-codel,cake

An implementation is `kernel` (the kernel's TCP), a stack of `aqmlab-guests` (`quinn`, `noq`, `s2n-quic` or
`smoltcp`), `aioquic` (the guest examples/path/aioquic_guest.py) or `aioquic-sockets` (aioquic's own client
and server, aioquic_sockets.py). All implementations use CUBIC. `udp_guest.py` connects guests to sockets.

The link, the buffers and the duration are those of `aqmlab coexist` with `--rate 10Mbps --rtts 40ms --seeds
3 --duration 60s --warm-up 10s`. The short transfers of both sides are transfers of the kernel's TCP. The
program prints the share of the first implementation, the goodputs, and the packets and drops of both at the
link. The results stay in the folder --out, so that a run is not repeated.

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
        bridge = str(HERE / "udp_guest.py")
        config = json.dumps({"control": "cubic", "size": SIZE})
        ends = [
            [bridge, "server", server, "--seed", f"{2 * seed}", "--config", config, "--", *guest],
            [
                bridge,
                "client",
                client,
                "--seed",
                f"{2 * seed + 1}",
                "--config",
                config,
                "--events",
                side,
                "--",
                *guest,
            ],
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
    """Runs a pair and returns the results."""
    file = folder / "pair.toml"
    file.write_text(toml_writer.written(scenario(names, queue, seed).given), encoding="utf-8")
    command = [sys.executable, "-m", "aqmlab", "live", "run", str(file), "--virtual", "--seed", str(seed)]
    done = subprocess.run([*command, "--out", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' and '.join(names)} behind {queue}: {done.stderr}")
    manifest = json.loads((folder / "run.json").read_text(encoding="utf-8"))["manifest"]
    flows = pl.read_parquet(folder / "flows.parquet").with_columns(pl.col("traffic").cast(pl.String))
    if any(status is not None for status in manifest["live"]["statuses"].values()):
        raise RuntimeError(f"a client ended before the end of the run: {done.stdout}{done.stderr}")
    events = [line.split() for line in done.stdout.splitlines() if " received_bytes " in line]
    link = pl.read_parquet(folder / "links.parquet").row(0, named=True)
    found: Table = {"cpu_s": manifest["live"]["virtual"]["cpu_s"], "digest": manifest.get("tables_digest")}
    for side, name in zip(SIDES, names, strict=True):
        own = flows.filter(pl.col("traffic") == side)
        if name == "kernel":
            bits = own["goodput_bps"].sum() * (DURATION_S - WARM_UP_S)
        else:
            start_s = start_us(side, seed) / 1e6
            bits = 8 * sum(
                float(value)
                for label, time_s, _, value in events
                if label == side and WARM_UP_S <= start_s + float(time_s) < DURATION_S
            )
        found[side] = {
            "goodput_bps": bits / (DURATION_S - WARM_UP_S),
            "packets": int(own["packets_sent"].sum()),
            "dropped": int(own["packets_dropped"].sum()),
        }
    found["link"] = {key: value for key, value in link.items() if isinstance(value, (int, float))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--queues", default="drop-tail,fq-codel,cake")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/kernel-pairs"))
    given = parser.parse_args()
    names = (given.first, given.second)
    given.out.mkdir(parents=True, exist_ok=True)
    for queue in given.queues.split(","):
        shares = []
        for seed in range(1, given.seeds + 1):
            kept = given.out / f"{'-'.join(names)}-{queue}-{seed}.json"
            if not kept.exists():
                with tempfile.TemporaryDirectory() as folder:
                    kept.write_text(json.dumps(measured(names, queue, seed, Path(folder))), encoding="utf-8")
            run = json.loads(kept.read_text(encoding="utf-8"))
            first, second = (run[side]["goodput_bps"] for side in SIDES)
            shares.append(100 * first / (first + second))
            print(
                f"{queue} seed {seed}: {shares[-1]:.1f} %",
                *(f"{name} {run[side]}" for side, name in zip(SIDES, names, strict=True)),
            )
        print(f"{names[0]} beside {names[1]}, {queue}: {stats.mean_interval(shares)}")


if __name__ == "__main__":
    main()
