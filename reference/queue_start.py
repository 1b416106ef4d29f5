"""The start state of queues: does `settled` match a long warm-up, and what is the effect of `fresh`?

For each discipline with the parameter `start`, and for each seed, there are three runs with the same load:

- *settled*: the load begins with the run;
- *warmed*: a fresh queue first serves twelve thousand transfers of ten packets in twenty minutes, so that
  every flow queue is used, and is idle for at least twenty seconds. Then the load begins, at a random
  fraction of a second, so that timers have any phase;
- *fresh*: the load begins when the queue is created.

The load is a bulk transfer at 10 Mb/s with a round trip of 100 ms, and a transfer of a hundred packets every
two seconds, twenty in total. The seed determines the starts of these transfers, which are the same in all
three runs. The compared quantities, paired by seed, are the mean time of a transfer, the drops and marks of
the link, and the mean queue of the first five seconds. The intervals of each column hold jointly at 95 %
(Bonferroni). A star marks an interval without zero.

    python reference/queue_start.py --seeds 40
    python reference/queue_start.py --seeds 8 --queues cake --tcp linux-6

With `--card` the traffic is that of rows of a report card: CAKE fresh and settled and FQ-CoDel, with equal
room on the symmetric link, divided by Drop Tail, paired by seed. The level of each interval is 95 %.

    python reference/queue_start.py --card --seeds 10
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl

from aqmlab import stats
from aqmlab.measures import View
from aqmlab.report_card import estimates
from aqmlab.report_card.experiments import section
from aqmlab.report_card.measures import named
from aqmlab.report_card.queues import EQUAL, REFERENCE, REFERENCE_TABLE, at_every_link
from aqmlab.scenario import Scenario
from aqmlab.sweep import Changes, Sweep

WARM_UP_S = 1200
IDLE_S = 20
BURSTS_A_SECOND = 10
PROBES = 20
PROBE_BYTES = 100 * 1448
BURST_BYTES = 10 * 1448
LOAD_S = 2 * PROBES + 5

ROOM = {"limit": "84p"}
"""The bandwidth-delay product."""

QUEUES: Mapping[str, Mapping[str, Any]] = {
    "cake": {"kind": "cake"},
    "cobalt": {"kind": "cobalt"},
    "fq-codel": {"kind": "fq-codel", **ROOM},
    "pie": {"kind": "pie", **ROOM},
    "pie, rfc, estimator": {"kind": "pie", "profile": "rfc", "dq_rate_estimator": True, **ROOM},
    "fq-pie": {"kind": "fq-pie", **ROOM},
    "docsis-pie": {"kind": "docsis-pie"},
    "dualpi2": {"kind": "dualpi2", **ROOM},
    "dualpi2, rfc": {"kind": "dualpi2", "profile": "rfc"},
    "pi": {"kind": "pi", "q_ref": "20p", **ROOM},
    "rem": {"kind": "rem", **ROOM},
    "adaptive-red": {"kind": "adaptive-red", **ROOM},
    "linux-red, adaptive": {"kind": "linux-red", "adaptive": True, "limit": "126000B"},
    "blue": {"kind": "blue", **ROOM},
    "avq": {"kind": "avq", **ROOM},
    "sfb": {"kind": "sfb", "rehash": "30s", "db": "5s", **ROOM},
    "sfq, perturb": {"kind": "sfq", "perturb": "10s", **ROOM},
    "drr, perturb": {"kind": "drr", "buckets": 64, "perturb": "10s", **ROOM},
}
"""A queue of each discipline with the parameter `start`."""

QUANTITIES = {
    "probe_ms": "transfer (ms)",
    "signals": "drops and marks",
    "early_queue": "queue of the first 5 s (packets)",
}
"""The compared quantities."""
EARLY_S = 5.0
LEVEL = 1 - 0.05 / len(QUEUES)

CARD_QUEUES: Mapping[str, dict[str, Any]] = {
    "cake, fresh": {"kind": "cake", "start": "fresh"},
    "cake, settled": {"kind": "cake"},
    "fq-codel": {"kind": "fq-codel"},
}
"""The columns of the table with `--card`."""

CARD_ROWS: Mapping[str, tuple[str, Mapping[str, str], str]] = {
    "5.1.2: a transfer of 100 packets, first window 10": (
        "5.1.2",
        {"line": "symmetric", "first_window": "IW 10"},
        "short.mean-time",
    ),
    "7.2: pages and datagrams (case I)": ("7.2", {"line": "symmetric", "case": "case I"}, "pages.mean-page"),
    "7.2: pages, datagrams and a long transfer (case II)": (
        "7.2",
        {"line": "symmetric", "case": "case II"},
        "pages.mean-page",
    ),
}
"""The rows of a card: a section, a point of its axes, and a measure."""

Measures = dict[str, float]


def run(
    queue: Mapping[str, Any], start: str, seed: int, *, warmed: bool = False, tcp: str = "rfc"
) -> Measures:
    """Runs the load of a `seed` through a queue in this state, from senders with this profile."""
    draws = random.Random(seed)
    offsets = [1 + 2 * number + draws.random() for number in range(PROBES)]
    begin = WARM_UP_S + IDLE_S + draws.random() if warmed else 0.0
    probes = [begin + offset for offset in offsets]
    files = {"probes.csv": _schedule(probes, PROBE_BYTES)}
    traffic: dict[str, Any] = {
        "bulk": {"kind": "ftp", "flows": 1, "start": f"{begin * 1e3:.3f}ms", "stagger": "0s"},
        "probes": {"kind": "replay", "file": "probes.csv"},
    }
    if warmed:
        bursts = sorted(draws.uniform(0, WARM_UP_S) for _ in range(WARM_UP_S * BURSTS_A_SECOND))
        files["bursts.csv"] = _schedule(bursts, BURST_BYTES)
        traffic["bursts"] = {"kind": "replay", "file": "bursts.csv"}
    table = {
        "duration": f"{(begin + LOAD_S) * 1e3:.3f}ms",
        "warm_up": f"{begin * 1e3:.3f}ms",
        "bottleneck": {"rate": "10Mbps", "delay": "49ms", "queue": {**queue, "start": start}},
        "access": {"rate": "1Gbps", "delay": "0.5ms"},
        "tcp": {"profile": tcp},
        "traffic": traffic,
        "record": {"drops": False, "queue_every": "10ms"},
    }
    done = Scenario.from_dict(table, files=files).run(seed=seed)
    link = done.links.row(0, named=True)
    times = done.transfers.filter(pl.col("traffic").cast(pl.String) == "probes")["duration_s"].to_list()
    early = pl.col("time_s").is_between(begin, begin + EARLY_S)
    queue_samples = done.tables["queue"].filter(early & (pl.col("link").cast(pl.String) == "bottleneck"))
    return {
        "probe_ms": 1e3 * fmean(times),
        "signals": float(link["drops"] + link["marks"]),
        "early_queue": fmean(queue_samples["length_packets"].to_list()),
    }


def _schedule(starts: Sequence[float], size: int) -> str:
    return "".join(f"{start:.6f},{size}\n" for start in starts)


def row(name: str, seeds: int, tcp: str) -> str:
    """A row of the table: the differences of fresh and settled from the warmed queue."""
    queue = QUEUES[name]
    states = {"warmed": ("fresh", True), "settled": ("settled", False), "fresh": ("fresh", False)}
    found = {
        state: [run(queue, start, seed, warmed=warmed, tcp=tcp) for seed in range(1, seeds + 1)]
        for state, (start, warmed) in states.items()
    }
    cells = [name]
    for quantity in QUANTITIES:
        values = {state: [one[quantity] for one in runs] for state, runs in found.items()}
        cells.append(f"{sum(values['warmed']) / seeds:.1f}")
        for state in ("settled", "fresh"):
            cells.append(_shown(stats.paired_difference(values[state], values["warmed"], LEVEL)))
    return "| " + " | ".join(cells) + " |"


def card_row(name: str, seeds: int) -> str:
    """A row of the table with `--card`: each queue divided by Drop Tail."""
    number, where, what = CARD_ROWS[name]
    one = section(number)
    tables = {REFERENCE: REFERENCE_TABLE, **CARD_QUEUES}
    queues = Changes({queue: at_every_link(table, EQUAL) for queue, table in tables.items()})
    sweep = Sweep(
        Scenario.from_dict(dict(one.scenario), name=number),
        axes={**one.axes, "queue": queues},
        measures=[named(what)],
    )
    (measure,) = sweep.wanted
    values: dict[str, list[float]] = {}
    for point in sweep.points():
        labels = {axis: str(value) for axis, value in point.labels.items()}
        queue = labels.pop("queue")
        if labels == where:
            scenario = sweep.scenario_of(point)
            runs = [View(scenario.run(seed=seed)) for seed in range(1, seeds + 1)]
            values[queue] = [float(measure.of(one)) for one in runs]
    ratios = [estimates.ratio(values[queue], values[REFERENCE]) for queue in CARD_QUEUES]
    return f"| {name} | {' | '.join(map(str, ratios))} |"


def _shown(interval: stats.Interval) -> str:
    clear = "" if interval.low <= 0 <= interval.high else " *"
    return f"{interval.value:+.1f} ± {interval.half_width:.1f}{clear}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=40, help="runs of each queue and state (default 40)")
    parser.add_argument("--queues", default="all", help="names of the table, separated by semicolons")
    parser.add_argument("--tcp", default="rfc", help="profile of senders (default rfc)")
    parser.add_argument("--card", action="store_true", help="print rows of a report card instead")
    given = parser.parse_args()
    if given.card:
        print(f"| | {' | '.join(CARD_QUEUES)} |\n| --- {'| ---: ' * len(CARD_QUEUES)}|")
        for name in CARD_ROWS:
            print(card_row(name, given.seeds), flush=True)
        return
    names = list(QUEUES) if given.queues == "all" else given.queues.split(";")
    head = ["queue"]
    for title in QUANTITIES.values():
        head += [f"{title}, warmed", "settled minus warmed", "fresh minus warmed"]
    print("| " + " | ".join(head) + " |")
    print("| --- " + "| ---: " * (len(head) - 1) + "|")
    for name in names:
        print(row(name, given.seeds, given.tcp), flush=True)


if __name__ == "__main__":
    main()
