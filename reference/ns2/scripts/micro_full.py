#!/usr/bin/env python3
"""Packets of ns-2's FullTcp at a line that loses them by number, both ways: transfers by Reno, and more of them by Sack.
usage: micro_full.py OUTDIR   -> micro/full[_sack]_events.csv.gz, micro/full[_sack]_losses.csv.gz. Needs ns2 and numpy."""
import gzip, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
HERE = Path(__file__).resolve().parent
NAMES = {"+": "enqueue", "d": "drop"}
COUNT = 2000
def bursts(chance, share, longest):
    """Packets from 0 that are lost: runs of up to `longest`."""
    at = np.flatnonzero(chance.random(COUNT) < share)
    return np.unique(np.concatenate([np.arange(first, first + chance.integers(1, longest + 1)) for first in at]))
def lists(run):
    """What is lost and marked in a run, packets from 1; those of the handshake arrive.
    1-10: one in 22, from 6 on one in 10 is marked, too. 11-15: runs of losses. 16-20: one in 9. 21-25: one in 33, and one in 50 marked."""
    chance = np.random.default_rng(run)
    if 11 <= run <= 15: lost = {"data": 1 + bursts(chance, 0.012, 7), "acks": 1 + bursts(chance, 0.012, 3)}
    else:
        share = 0.045 if run <= 10 else 0.11 if run <= 20 else 0.03
        lost = {way: 1 + np.flatnonzero(chance.random(COUNT) < share) for way in ("data", "acks")}
    lost = {"data": lost["data"][lost["data"] > 2], "acks": lost["acks"][lost["acks"] > 1]}
    if 5 < run <= 10 or run > 20: lost["marked"] = 3 + np.flatnonzero(chance.random(COUNT) < (0.1 if run <= 10 else 0.02))
    return lost
out = Path(sys.argv[1])/"micro"
for name, agent, runs in (("full", "FullTcp", 10), ("full_sack", "FullTcp/Sack", 25)):
    events, losses = ["run,time_s,event,sequence,wire_bytes"], ["run,direction,packet"]
    for run in range(1, runs + 1):
        lost = lists(run)
        losses += [f"{run},{way},{packet}" for way in lost for packet in lost[way]]
        with tempfile.NamedTemporaryFile("r") as f:
            numbers = {way: " ".join(str(packet - 1) for packet in lost[way]) for way in lost}
            told = ["lost", numbers["data"], "acks_lost", numbers["acks"], "marked", numbers.get("marked", "")]
            subprocess.run(["ns", str(HERE/"micro_full.tcl"), "agent", agent, "out", f.name, *told], check=True)
            for what, time, source, _, _, size, *rest in map(str.split, f):
                if what in "+d" and source == "0": events.append(f"{run},{time},{NAMES[what]},{rest[4]},{size}")
    for table, lines in ((f"{name}_events", events), (f"{name}_losses", losses)):
        with gzip.GzipFile(out/f"{table}.csv.gz", "w", mtime=0) as f: f.write(("\n".join(lines) + "\n").encode())
