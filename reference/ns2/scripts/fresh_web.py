#!/usr/bin/env python3
"""Scenario A with Web objects again, every recycled agent given its initial window back (winit 2).
usage: fresh_web.py OUTDIR   -> a_web_fresh_per_seed.csv, a_object_time_deciles_fresh.csv
The cases and seeds are those of the recorded runs, and DropTail again with senders that wait (overhead_). Needs ns2 and numpy."""
import csv, json, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import numpy as np
from gen_web import schedule
HERE = Path(__file__).resolve().parent
CASES = [("mix40", "red", 5), ("mix50", "red", 5), ("mix70", "red", 5), ("mix70", "redg", 3), ("web70", "red", 5), ("web100", "red", 5),
         *((label, q, 5) for q in ("ared", "droptail", "droptail_oh") for label in ("mix40", "mix50", "mix70", "web70", "web100"))]
CLASSES = {"all": (1, 10**9), "1": (1, 1), "2-3": (2, 3), "4-7": (4, 7), "8-15": (8, 15), "16-63": (16, 63), "64+": (64, 10**9)}
QS = [10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99]
def run(job):
    label, q, seed = job
    load = int(label[3:])/100
    with tempfile.TemporaryDirectory() as d:
        with open(d+"/s", "w") as f:
            for t, b, k in schedule(load, seed): f.write("%.6f %d %d\n" % (t, b, k))
        out = subprocess.run(["ns", str(HERE/"scen_a.tcl"), "q", q, "nftp", "10" if label[:3] == "mix" else "0", "seed", str(seed), "web", d+"/s", "objout", d+"/o", "winit", "2"], capture_output=True, text=True, check=True).stdout
        r = json.loads([l for l in out.splitlines() if l.startswith("RESULT")][-1][7:])
        o = np.loadtxt(d+"/o")          # start bytes packets time rexmit timeouts
    k = o[(o[:, 0] >= 20) & (o[:, 0] < 130)]
    n = sum(20 <= t < 130 for t, _, _ in schedule(load, seed))
    end = o[:, 0]+o[:, 3]
    row = dict(label=label, q=q, seed=seed, util=r["util"], drop_frac=r["drop_frac"], mean_queue=r["mean_queue"], mean_active=r["mean_active"], jain=r["jain"],
        goodput_ftp_payload_mbps=r["ftp_payload_goodput_mbps"], web_object_goodput_mbps=o[(end >= 20) & (end < 160), 1].sum()*8/140/1e6,
        obj_time_mean=k[:, 3].mean(), obj_time_median=np.quantile(k[:, 3], .5), obj_time_p90=np.quantile(k[:, 3], .9), obj_time_p99=np.quantile(k[:, 3], .99),
        obj_frac_over_3s=(k[:, 3] > 3).mean(), unfinished_20_130=n-len(k))
    return {x: float("%.6g" % v) if isinstance(v, float) else v for x, v in row.items()}, k
jobs = [(l, q, s) for l, q, n in CASES for s in range(1, n+1)]
with ThreadPoolExecutor(2) as pool: done = dict(zip(jobs, pool.map(run, jobs)))
rows = [done[j][0] for j in jobs]
dec = []
for l, q, n in CASES:
    o = np.concatenate([done[l, q, s][1] for s in range(1, n+1)])
    for c, (a, b) in CLASSES.items():
        t = o[(o[:, 2] >= a) & (o[:, 2] <= b)]
        dec.append(dict(label=l, q=q, size_class_packets=c, n_seeds=n, n_objects=len(t), mean_s="%.6g" % t[:, 3].mean(), **{"p%d" % x: "%.6g" % np.quantile(t[:, 3], x/100) for x in QS}))
for name, table in (("a_web_fresh_per_seed.csv", rows), ("a_object_time_deciles_fresh.csv", dec)):
    with open(Path(sys.argv[1])/name, "w", newline="") as f:
        w = csv.DictWriter(f, table[0].keys()); w.writeheader(); w.writerows(table)
