#!/usr/bin/env python3
"""Packets of ns-2's FullTcp at a line that loses 4.5 % of them by number, both ways: five lists of losses, and five that mark 10 %, too.
usage: micro_full.py OUTDIR   -> micro/full_events.csv.gz, micro/full_losses.csv.gz. Needs ns2 and numpy."""
import gzip, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
HERE = Path(__file__).resolve().parent
NAMES = {"+": "enqueue", "d": "drop"}
out = Path(sys.argv[1])/"micro"
events, losses = ["run,time_s,event,sequence,wire_bytes"], ["run,direction,packet"]
for run in range(1, 11):
    chance = np.random.default_rng(run)
    # Packets from 1; those of the handshake arrive.
    lost = {way: 1 + np.flatnonzero(chance.random(2000) < 0.045) for way in ("data", "acks")}
    lost = {"data": lost["data"][lost["data"] > 2], "acks": lost["acks"][lost["acks"] > 1]}
    if run > 5: lost["marked"] = 3 + np.flatnonzero(chance.random(2000) < 0.1)
    losses += [f"{run},{way},{packet}" for way in lost for packet in lost[way]]
    with tempfile.NamedTemporaryFile("r") as f:
        numbers = {way: " ".join(str(packet - 1) for packet in lost[way]) for way in lost}
        lists = ["lost", numbers["data"], "acks_lost", numbers["acks"], "marked", numbers.get("marked", "")]
        subprocess.run(["ns", str(HERE/"micro_full.tcl"), "out", f.name, *lists], check=True)
        for what, time, source, _, _, size, *rest in map(str.split, f):
            if what in "+d" and source == "0": events.append(f"{run},{time},{NAMES[what]},{rest[4]},{size}")
for name, lines in (("full_events", events), ("full_losses", losses)):
    with gzip.GzipFile(out/f"{name}.csv.gz", "w", mtime=0) as f: f.write(("\n".join(lines) + "\n").encode())
