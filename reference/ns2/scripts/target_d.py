#!/usr/bin/env python3
"""Scenario D at load 0.9 behind Adaptive RED as ns-2 sets it by itself for 5 ms: thresholds of 6.25 and 18.75 packets of 500 B,
in packets and in bytes, without ECN and with; other server delays, RED draws and boot_time_ in each run, for the same connections.
usage: target_d.py OUTDIR   -> d_target.csv (each of 2 cores for some twenty minutes). Needs ns2 and numpy."""
import csv, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from more_d import HERE, row
RUNS = 6
NAMES = {"ared": "ared_5ms", "aredecn": "aredecn_5ms", "ared_bytes": "ared_5ms_bytes", "aredecn_bytes": "aredecn_5ms_bytes"}
SET = "load 0.9 minth 0 maxth 0 mps 500".split()
def run(job):
    draws, q = job
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run(["ns", str(HERE/"scen_d.tcl"), "q", q, "draws", str(draws), *SET, "rspout", d+"/r"], capture_output=True, text=True, check=True).stdout
        return row(q, draws, out, d+"/r") | {"q": NAMES[q]}
if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool: rows = list(pool.map(run, [(k, q) for k in range(1, RUNS+1) for q in NAMES]))
    with open(Path(sys.argv[1])/"d_target.csv", "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
