"""One run of a small scenario: a table of links, and the slowest transfers."""

import polars as pl

import aqmlab as al

scenario = al.Scenario.from_dict(
    {
        "duration": "20s",
        "warm_up": "2s",
        "bottleneck": {"rate": "5Mbps", "delay": "30ms", "queue": {"kind": "drop-tail", "limit": "60p"}},
        "traffic": {"ftp": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.4}},
    }
)
run = scenario.run(seed=1)
print(run.links.select("link", "utilisation", "drop_fraction", "mean_queue_packets"))

slowest = run.transfers.filter(pl.col("complete")).sort("duration_s", descending=True).head(5)
print(slowest.select("start_s", "size_bytes", "duration_s", "packets_dropped", "timeouts"))
