"""Two queues compared over replications with common random numbers: intervals, and a plot."""

from pathlib import Path

import aqmlab as al
from aqmlab.charts import chart as plot

scenario = al.Scenario.from_dict(
    {
        "duration": "20s",
        "warm_up": "4s",
        "bottleneck": {"rate": "5Mbps", "delay": "30ms", "queue": {"kind": "drop-tail", "limit": "60p"}},
        "traffic": {"ftp": {"kind": "ftp", "flows": 4}, "web": {"kind": "web", "load": 0.4}},
        "queues": {
            "long": {"kind": "drop-tail", "limit": "200p"},
            "short": {"kind": "drop-tail", "limit": "20p"},
        },
    }
)
found = al.compare(scenario, ["long", "short"], replications=4)
for row in found.intervals().filter(quantity="web time, median").iter_rows(named=True):
    print(f"{row['queue']:<6} {row['mean']:.3f} s, 95 % interval {row['low']:.3f} to {row['high']:.3f} s")
for name, chart in found.charts("web").items():
    for path in plot.save(chart, Path("out/examples"), name).values():
        print(path)
