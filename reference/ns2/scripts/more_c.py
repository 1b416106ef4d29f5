#!/usr/bin/env python3
"""Scenario C with more seeds, and again with every recycled agent given its initial window back (winit 2).
usage: more_c.py OUTDIR   -> c_more_per_seed.csv
Rows of `recycled` agents go on after the three seeds of c_short_long_per_seed.csv; those of `fresh` ones begin at
seed 1, and so does RIO. Needs ns2 and numpy."""
import csv, json, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np
HERE = Path(__file__).resolve().parent
SEEDS = 10
def run(job):
    agents, q, seed = job
    with tempfile.TemporaryDirectory() as d:
        out = subprocess.run(["ns", str(HERE/"scen_c.tcl"), "q", q, "seed", str(seed), "objout", d+"/o"] + (["winit", "2"] if agents == "fresh" else []),
                             capture_output=True, text=True, check=True).stdout
        objects = [line.split() for line in open(d+"/o")]          # kind start packets time rexmit
    return row(agents, q, seed, out, objects)
def row(agents, q, seed, out, objects):
    r = json.loads([l for l in out.splitlines() if l.startswith("RESULT")][-1][7:])
    row = dict(agents=agents, q=q, seed=seed, util=r["util"], drop_frac=r["drop_frac"], mean_queue=r["mean_queue"], ftp_total_mbps=sum(r["ftp_mbps"]))
    for kind in ("short", "long", "bg"):
        o = np.array([[float(x) for x in line[1:]] for line in objects if line[0] == kind and 60 <= float(line[1]) < 270])
        t, x = o[:, 2], o[:, 1]/o[:, 2]
        row |= {kind+"_time_mean": t.mean(), kind+"_time_cv": t.std(ddof=1)/t.mean(), kind+"_time_median": np.quantile(t, .5), kind+"_time_p95": np.quantile(t, .95),
                kind+"_jain": x.sum()**2/(len(x)*(x**2).sum()), kind+"_frac_rexmit": (o[:, 3] > 0).mean()}
    return {k: float("%.6g" % v) if isinstance(v, float) else v for k, v in row.items()}
if __name__ == "__main__":
    jobs = [("recycled", q, s) for q in ("droptail", "red", "rioc") for s in range(1 if q == "rioc" else 4, SEEDS+1)]
    jobs += [("fresh", q, s) for q in ("droptail", "red", "rioc") for s in range(1, SEEDS+1)]
    with ThreadPoolExecutor(2) as pool: rows = list(pool.map(run, jobs))
    with open(Path(sys.argv[1])/"c_more_per_seed.csv", "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
