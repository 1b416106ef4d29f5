#!/usr/bin/env python3
"""Scenario A with permanent flows of NewReno without SACK, as ns-3 has them: RTO of 1 s and more, a clock of 1 ms.
usage: newreno_a.py OUTDIR   -> a_newreno_per_seed.csv
The conditions are those of ns-3's runs `nosack`, ten seeds each. Needs ns2."""
import csv, json, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
HERE = Path(__file__).resolve().parent
CASES = [(q, n) for q, flows in (("droptail", (50, 100)), ("redg", (10, 50, 100))) for n in flows]
def run(job):
    (q, n), (singledup, every), seed = job
    out = subprocess.run(["ns", str(HERE/"scen_a.tcl"), "q", q, "nftp", str(n), "seed", str(seed), "agent", "Newreno", "minrto", "1.0", "tick", "0.001",
                          "singledup", str(singledup), "ackevery", str(every)], capture_output=True, text=True, check=True).stdout
    r = json.loads([l for l in out.splitlines() if l.startswith("RESULT")][-1][7:])
    flows = [x*934/974 for x in r["per_flow_mbps"]]
    row = dict(q=q, nftp=n, limited_transmit=singledup, ack_every=every, seed=seed, goodput_mbps=r["ftp_payload_goodput_mbps"], util=r["util"], drop_frac=r["drop_frac"],
               mean_q_pkts=r["mean_queue"], jain=r["jain"], max_flow_mbps=max(flows), min_flow_mbps=min(flows))
    return {k: float("%.6g" % v) if isinstance(v, float) else v for k, v in row.items()}
jobs = [(case, host, seed) for case in CASES for host in ((1, 1), (0, 1), (0, 2)) for seed in range(1, 11)]
with ThreadPoolExecutor(2) as pool: rows = list(pool.map(run, jobs))
with open(Path(sys.argv[1])/"a_newreno_per_seed.csv", "w", newline="") as f:
    w = csv.DictWriter(f, rows[0].keys()); w.writeheader(); w.writerows(rows)
