"""The same arrivals in front of three queues: how long does a Web object take?"""

import aqmlab as al

base = al.Scenario.from_dict(
    {
        "duration": "30s",
        "warm_up": "5s",
        "bottleneck": {"rate": "5Mbps", "delay": "30ms", "queue": {"kind": "drop-tail", "limit": "60p"}},
        "traffic": {"ftp": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.4}},
    }
)
red = {"min_th": "10p", "max_th": "30p", "max_p": 0.1, "weight": 0.002, "limit": "60p"}
queues = {
    "Drop Tail": {"kind": "drop-tail", "limit": "60p"},
    "RED": {"kind": "red", **red},
    "SHRED": {"kind": "shred", "red": red},
}
print(f"{'queue':<10} {'median s':>9} {'90 % s':>9} {'mean queue':>11}")
for name, queue in queues.items():
    summary = base.with_({"bottleneck.queue": queue}).run(seed=1).summary
    web, line = summary["transfers"]["web"], summary["links"]["bottleneck"]
    print(f"{name:<10} {web['p50_s']:>9.3f} {web['p90_s']:>9.3f} {line['mean_queue_packets']:>11.1f}")
