"""Scenario D of the reference: PackMime's Web traffic in both directions over 10 Mb/s.

The settings are those of `scenarios/reference/d.toml`. In addition:
- The reference has a single run for each queue, TCP and load, with the same connections at one load. aqmlab
  has twenty runs, each with connections of its own.
- At load 0.9, twenty additional runs use the connections that ns-2 drew, with their sizes and delays
  (`replay`), and are compared with all of ns-2's runs, for Reno up to six of a queue. These runs differ in
  the same way as ns-2's runs: think times of servers, lost SYNs and thus the assignment of servers' delays to
  connections, RED's random numbers, and the phase of the clock, of which all flows of a run have one here.
- Responses are counted if their request was sent from 40 s to 220 s and they are complete at the end, 240 s;
  their classes are by size. Quantiles of a class are computed from the shares below fixed times, on both
  sides.
- The order of the queues is judged in pairs: if 99 % of aqmlab's runs rank the same queue first, the
  reference must do so, too.
- Adaptive RED with ns-2's automatic settings for a target of 5 ms is held out, with the same connections at
  load 0.9: six runs of ns-2 for each of four queues, made after all else was finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job, Measured
from judge import HELD_OUT, PERCENTILES, Measures, Quantity, Recorded, Row, exact, of_runs

SEEDS = 20
END = 240.0
REQUESTS_FROM, REQUESTS_BEFORE = 40.0, 220.0
CONNECTIONS = 129.0
"""New connections per second that offer the rate of the link in each direction."""
REPLAYED = "0.9"
"""The load whose connections are known."""
TCPS = ("Reno", "Sack")

WORKLOADS = {"to_left": ("right", "left"), "to_right": ("left", "right")}
"""The sides of server and client. SYNs of the first workload go right, those of the second go left."""

LINES = {"fwd": "rightward", "rev": "leftward"}
CLASSES = {"all": (0, None), "rsp<=1460": (0, 1460), "1461-10220": (1460, 10220), ">10220": (10220, None)}
"""Sizes of responses in bytes: above the first, up to the second."""
SYN_TIMEOUT_US = 3_000_000
"""Time after which FullTcp retransmits a SYN; the next time is twice as long (`rtxcur_init_`)."""
FIRST_SYN_WITHIN_US, NEXT_SYN_WITHIN_US = 250, 20_000
"""Delay of a SYN at the queue: of the first one after the access link, which is shorter than that of any ACK,
with its round trip of 280 us; of the next ones, which the clock of 10 ms sends, up to two ticks."""

SHARES = {"p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9}

CONNECTIONS_DRAWN = (
    "ns-2's runs have the connections that ns-2 drew: their sizes and gaps have a long memory, so "
    "that the offered load varies from one run of 200 s to the next"
)

ORDERED_BY = {"rsp_mean_ms": "mean", "rsp_median_ms": "median"}


def cases() -> list[Case]:
    """Every load with each TCP, with connections drawn here and with those that ns-2 drew."""
    loads = dict.fromkeys(row["load"] for row in data.rows("d_packmime"))
    drawn = [load_case(load, tcp) for load in loads for tcp in TCPS]
    return [*drawn, *(load_case(REPLAYED, tcp, replayed=True, more=True) for tcp in TCPS), held_out_case()]


def held_out_case(seeds: int = SEEDS) -> Case:
    """Adaptive RED for a target of 5 ms, in packets and in bytes, without and with ECN."""
    theirs: dict[str, list[Recorded]] = {}
    for row in data.rows("d_target"):
        theirs.setdefault(row["q"], []).append(_with_quantiles(row))
    return _case(
        f"{HELD_OUT}d Reno load {REPLAYED} replayed", theirs, REPLAYED, "Reno", replayed=True, seeds=seeds
    )


def load_case(
    load: str,
    tcp: str,
    *,
    replayed: bool = False,
    more: bool = False,
    seeds: int = SEEDS,
    only: Sequence[str] = (),
) -> Case:
    """All queues that were recorded at a load, or `only` some of them; `more` adds further reference runs."""
    theirs = recorded(load, tcp, more=more)
    theirs = {queue: runs for queue, runs in theirs.items() if not only or queue in only}
    name = f"d {tcp} load {load}" + (" replayed" if replayed else "")
    causes: tuple[Cause, ...] = ()
    if load == REPLAYED and not replayed:
        again = load_case(load, tcp, replayed=True, seeds=seeds, only=only)
        causes += (Cause(why=CONNECTIONS_DRAWN, switch="ns-2's own connections", again=again),)
    return _case(name, theirs, load, tcp, replayed=replayed, seeds=seeds, causes=causes)


def _case(
    name: str,
    theirs: Mapping[str, Sequence[Recorded]],
    load: str,
    tcp: str,
    *,
    replayed: bool,
    seeds: int,
    causes: tuple[Cause, ...] = (),
) -> Case:
    def jobs() -> list[Job]:
        job, scenario = (Replayed, replayed_scenario(tcp)) if replayed else (Job, drawn_scenario(load, tcp))
        return [
            job(
                scenario=at_phase(scenario, seed).with_(queue_changes(scenario, queue)),
                seed=seed,
                measure=measures,
            )
            for queue in theirs
            for seed in range(1, seeds + 1)
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        ours = {queue: measured[at * seeds : (at + 1) * seeds] for at, queue in enumerate(theirs)}
        rows = []
        for queue, runs in theirs.items():
            rows += of_runs(f"{name} {queue}", quantities(runs[0]), runs, ours[queue])
        return rows + [order(name, what, theirs, ours) for what in ORDERED_BY if len(theirs) > 1]

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def recorded(load: str, tcp: str, *, more: bool = False) -> dict[str, list[Recorded]]:
    """The runs of ns-2 at a load by queue, with quantiles of each class."""
    shares = {(row["load"], row["q"], row["tcp"], row["response_size_class"]): row for row in _shares()}
    runs: dict[str, list[Recorded]] = {}
    for row in data.rows("d_packmime"):
        if (row["load"], row["tcp"]) == (load, tcp):
            below = {group: shares[load, row["q"], tcp, group] for group in CLASSES}
            runs[row["q"]] = [row | _recorded_quantiles(below)]
    for row in data.rows("d_more") if more else []:
        if (row["load"], row["tcp"]) == (load, tcp):
            runs[row["q"]].append(_with_quantiles(row))
    return runs


def _with_quantiles(row: Mapping[str, str]) -> Recorded:
    """A reference run whose shares below the fixed times are in columns of its own."""
    below = {group: {name: row[f"{group} {name}"] for name in _columns()} for group in CLASSES}
    return {**row, **_recorded_quantiles(below)}


def quantities(theirs: Recorded) -> list[Quantity]:
    """The compared quantities; a quantile beyond the last of the fixed times is not known."""
    names = [f"{what}_{way}" for what in ("drop_frac", "mean_queue") for way in LINES]
    names += [*(f"thru_{way}_mbps" for way in LINES), "n_pairs", "mean_rsp_bytes"]
    names += ["rsp_median_ms", "rsp_mean_ms", "rsp_p90_ms", "rsp_p99_ms"]
    shares = [f"{group} {share}" for group in CLASSES for share in SHARES]
    names += [name for name in shares if float(theirs[name]) < _times()[-1]]
    return [Quantity(name=name) for name in names]


def order(
    name: str, what: str, theirs: Mapping[str, Sequence[Recorded]], ours: Mapping[str, Sequence[Measures]]
) -> Row:
    """The number of pairs of queues ordered by aqmlab, and of those in which the reference has this order."""
    told, same, others = 0, 0, []
    means = {queue: np.mean([float(run[what]) for run in runs]) for queue, runs in theirs.items()}
    for one, other in combinations(theirs, 2):
        differences = [a[what] - b[what] for a, b in zip(ours[one], ours[other], strict=True)]
        low, high = np.quantile(differences, PERCENTILES)
        if low <= 0 <= high:
            continue
        told += 1
        if (means[one] < means[other]) == (high < 0):
            same += 1
        else:
            others.append(f"{one}, {other}")
    return exact(
        name, f"pairs of queues in the order of the {ORDERED_BY[what]}", same, told, 0, "; ".join(others)
    )


def measures(run: Run) -> Measures:
    """The compared quantities of a run of aqmlab."""
    values: Measures = {}
    lines = {row["link"]: row for row in run.links.with_columns(pl.col("link").cast(pl.String)).to_dicts()}
    for way, link in LINES.items():
        line = lines[link]
        values[f"drop_frac_{way}"] = line["drop_fraction"]
        values[f"mean_queue_{way}"] = line["mean_queue_packets"]
        values[f"thru_{way}_mbps"] = line["departed_bytes"] * 8 / (END - REQUESTS_FROM) / 1e6
    done = run.transfers.filter(
        pl.col("complete")
        & pl.col("start_s").is_between(REQUESTS_FROM, REQUESTS_BEFORE, closed="left")
        & (pl.col("start_s") + pl.col("duration_s") < END)
    )
    times = 1000 * done["duration_s"].to_numpy()
    sizes = done["size_bytes"].to_numpy()
    values["n_pairs"] = float(times.size)
    values["mean_rsp_bytes"] = float(sizes.mean())
    values["rsp_mean_ms"] = float(times.mean())
    for share, shown in ((0.5, "median"), (0.9, "p90"), (0.99, "p99")):
        values[f"rsp_{shown}_ms"] = float(np.quantile(times, share))
    for group, (above, up_to) in CLASSES.items():
        inside = np.sort(times[(sizes > above) & (sizes <= (up_to or np.inf))])
        below = np.searchsorted(inside, _times(), side="right") / inside.size
        values |= _quantiles(group, below)
    return values


def drawn_scenario(load: str, tcp: str) -> Scenario:
    """Connections as drawn by PackMime-HTTP at this load."""
    rate = CONNECTIONS * float(load)
    return _scenario(tcp).with_({f"traffic.{name}.connections_per_second": rate for name in WORKLOADS})


def replayed_scenario(tcp: str) -> Scenario:
    """The connections that ns-2 drew, from files that `with_connections` writes."""
    traffic = {
        f"traffic.{name}": {"kind": "replay", "file": f"{name}.csv", "from": server, "to": client}
        for name, (server, client) in WORKLOADS.items()
    }
    return with_connections(_scenario(tcp), 0, changes=traffic)


def with_connections(
    scenario: Scenario, seed: int, *, changes: Changes | None = None, **delays: Mapping[int, Sequence[int]]
) -> Scenario:
    """The connections that ns-2 drew, with `arrivals` or `servers` of `data.conversations` by direction."""
    files = {
        f"{name}.csv": data.conversations(
            direction, seed, **{which: by_direction[direction] for which, by_direction in delays.items()}
        )
        for direction, name in enumerate(WORKLOADS, 1)
    }
    return scenario.with_(changes or {}, files={**scenario.files, **files})


def at_phase(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with the phase of the clock of this run."""
    return scenario.with_({"tcp.rto.tick_phase": f"{500 * (seed % SEEDS)}us"})


@dataclass(frozen=True, kw_only=True)
class Replayed(Job):
    """A run with the connections that ns-2 drew, whose servers' delays are assigned as in ns-2.

    The SYNs that the queue drops are not known in advance, so each run is made twice. The first run, whose
    delays are assigned as if no SYN were dropped, shows when the first SYN of each connection gets through.
    """

    def __call__(self) -> Measured:
        first = with_connections(self.scenario, self.seed).with_({"record.drops": True})
        arrivals = syn_arrivals(first.run(seed=self.seed))
        return self.measure(with_connections(self.scenario, self.seed, arrivals=arrivals).run(seed=self.seed))


def syn_arrivals(run: Run) -> dict[int, list[int]]:
    """The time at which the first SYN of each connection gets through the queue, in microseconds, by
    direction.

    A dropped packet is a SYN if it arrived when the client opened the connection or retransmitted a SYN.
    """
    drops = run.tables["drops"].with_columns(pl.col("link").cast(pl.String))
    flows = run.transfers.select("flow", pl.col("traffic").cast(pl.String), "start_s")
    found = {}
    for direction, (name, link) in enumerate(zip(WORKLOADS, LINES.values(), strict=True), 1):
        starts, _, _, clients, _ = data.connections(direction)
        numbers = flows.filter(pl.col("traffic") == name).sort("start_s", "flow")["flow"].to_list()
        dropped: dict[int, list[float]] = {}
        for flow, time in drops.filter(pl.col("link") == link).select("flow", "time_s").rows():
            dropped.setdefault(flow, []).append(1e6 * time)
        sent = (starts + clients).tolist()
        found[direction] = [
            _got_through(at, dropped.get(flow, [])) for at, flow in zip(sent, numbers, strict=True)
        ]
    return found


def _got_through(sent: int, dropped: Sequence[float]) -> int:
    """The time at which a SYN first sent at `sent` got through, if these packets of its connection
    dropped."""
    wait, within = SYN_TIMEOUT_US, FIRST_SYN_WITHIN_US
    for time in dropped:
        if not 0 <= time - sent < within:
            break
        sent, wait, within = sent + wait, 2 * wait, NEXT_SYN_WITHIN_US
    return sent


def _scenario(tcp: str) -> Scenario:
    recovery = {"tcp.recovery.kind": "sack"} if tcp == "Sack" else {}
    return Scenario.load(data.SCENARIOS / "d.toml").with_(recovery)


def queue_changes(scenario: Scenario, queue: str) -> Changes:
    """A recorded queue at both links, with the required settings of the senders."""
    changes: dict[str, object] = {f"links.{link}.queue": scenario.queues[queue] for link in LINES.values()}
    return changes | ({"tcp.ecn.mode": "on"} if "ecn" in queue else {})


def _shares() -> list[dict[str, str]]:
    return data.rows("d_response_time_cdf")


def _columns() -> list[str]:
    return [name for name in _shares()[0] if name.startswith("le_")]


def _times() -> npt.NDArray[np.float64]:
    """The fixed times, in milliseconds."""
    return np.array([float(name.removeprefix("le_").removesuffix("ms")) for name in _columns()])


def _recorded_quantiles(below: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    quantiles: Measures = {}
    for group, shares in below.items():
        quantiles |= _quantiles(group, np.array([float(shares[name]) for name in _columns()]))
    return {name: repr(value) for name, value in quantiles.items()}


def _quantiles(group: str, below: npt.NDArray[np.float64]) -> Measures:
    """Quantiles from the shares below the fixed times, with linear interpolation."""
    shares, times = np.append(0.0, below), np.append(0.0, _times())
    return {f"{group} {name}": float(np.interp(share, shares, times)) for name, share in SHARES.items()}
