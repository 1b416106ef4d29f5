#!/usr/bin/env python3
"""Scenario B again, with senders that wait at random up to the time of one packet (overhead_ 0.00016).
usage: overhead_b.py OUTDIR   -> b_overhead_per_seed.csv
The cases are those of the recorded runs with flows, behind DropTail and DRR, ten seeds each. Needs ns2."""
import csv, json, math, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
HERE = Path(__file__).resolve().parent
CASES = ["r", "rr", "rrrr", "h", "hh", "hhhh", "hr", "k", "kk", "kkkk", "kr", "s", "ss", "ssss"]
def run(q, cc, limit, seed, oh):
    out = subprocess.run(["ns", str(HERE/"scen_b.tcl"), "q", q, "limit", str(limit), "cc", cc, "seed", str(seed), "oh", oh],
                         capture_output=True, text=True, check=True).stdout
    r = json.loads([l for l in out.splitlines() if l.startswith("RESULT")][-1][7:])
    g, loss = r["tcp_goodput_mbps"], r["tcp_loss"]
    row = dict(cc=cc, limit=limit, q=q, seed=seed, util=r["util"], tcp_goodput_total_mbps=sum(g), max_flow_mbps=max(g), min_flow_mbps=min(g),
               flow1_mbps=g[0], flow2_mbps=g[1] if len(g) > 1 else math.nan, jain=r["jain"], bg_loss=r["bg_loss"], tcp_loss_mean=sum(loss)/len(loss),
               mean_queue=r["mean_queue"], timeouts_total=sum(r["timeouts"]), cuts_total=sum(r["cwnd_cuts"]))
    return {k: float("%.6g" % v) if isinstance(v, float) else v for k, v in row.items()}
def write(name, jobs):
    with ThreadPoolExecutor(1) as pool: rows = list(pool.map(lambda job: run(*job), jobs))
    with open(Path(sys.argv[1])/name, "w", newline="") as f:
        w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
if __name__ == "__main__":
    write("b_overhead_per_seed.csv", [(q, cc, limit, seed, "0.00016") for q in ("droptail", "fqdrr")
                                      for cc in CASES for limit in (20, 625) for seed in range(1, 11)])
