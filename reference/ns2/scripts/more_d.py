#!/usr/bin/env python3
"""Scenario D at load 0.9 with other server delays, RED draws and boot_time_, for the same connections.
usage: more_d.py OUTDIR   -> d_more.csv (each of 2 cores for some ten minutes). Needs ns2 and numpy."""
import csv, json, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np
HERE = Path(__file__).resolve().parent
DRAWS = {"droptail": 5, "ared": 5, "aredecn": 3}
TIMES = [10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 600, 700, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 7500, 10000]
CLASSES = {"all": (0, np.inf), "rsp<=1460": (0, 1460), "1461-10220": (1460, 10220), ">10220": (10220, np.inf)}
def run(job):
    q, draws = job
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run(["ns", str(HERE/"scen_d.tcl"), "q", q, "load", "0.9", "draws", str(draws), "rspout", d+"/r"], capture_output=True, text=True, check=True).stdout
        return row(q, draws, out, d+"/r")
def row(q, draws, out, prefix):
    r = json.loads([l for l in out.splitlines() if l.startswith("RESULT")][-1][7:])
    pairs = np.array([[float(x) for x in line.split()[:4]] for k in "12" for line in open(f"{prefix}.{k}")])   # done, request, response, ms
    start = pairs[:, 0] - pairs[:, 3]/1000
    size, ms = pairs[(start >= 40) & (start < 220)][:, 2:].T
    row = dict(load="0.9", q=q, tcp="Reno", draws=draws) | {k: r[k] for k in r if k.startswith(("thru", "drop_frac", "mean_queue"))}
    row |= dict(n_pairs=len(ms), mean_rsp_bytes=size.mean(), rsp_median_ms=np.median(ms), rsp_mean_ms=ms.mean(), rsp_p90_ms=np.quantile(ms, .9), rsp_p99_ms=np.quantile(ms, .99))
    for name, (above, to) in CLASSES.items():
        below = np.searchsorted(np.sort(ms[(size > above) & (size <= to)]), TIMES, side="right")
        row |= {f"{name} le_{t}ms": b for t, b in zip(TIMES, below/((size > above) & (size <= to)).sum())}
    return {k: float("%.6g" % v) if isinstance(v, float) else v for k, v in row.items()}
if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool: rows = list(pool.map(run, [(q, k) for q, n in DRAWS.items() for k in range(2, n+2)]))
    with open(Path(sys.argv[1])/"d_more.csv", "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
