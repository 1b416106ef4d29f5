#!/usr/bin/env python3
"""Cases of scenario B behind DRR of which few seeds were recorded, or whose recorded seeds differ much, with thirty seeds each, sixty of hr.
usage: more_b.py OUTDIR   -> b_more_per_seed.csv
The first seeds are the recorded runs again. Needs ns2."""
from overhead_b import write
CASES = [("kk", 20, 30), ("kkkk", 625, 30), ("kr", 20, 30), ("ss", 20, 30), ("hr", 625, 60)]
write("b_more_per_seed.csv", [("fqdrr", cc, limit, seed, "0") for cc, limit, seeds in CASES for seed in range(1, seeds + 1)])
