"""Scenarios A and B as run by ns-3.37, with SACK and PRR, with a band of 5 %.

The settings are those of `scenarios/reference/ns3-*.toml`. In addition:
- ns-3's device has one packet after the queue that is observed, in addition to the one in transmission. A
  queue here therefore has one packet more (limits and thresholds, too), and one is subtracted from each
  sample of it. Target delays are longer by the transmission time of a packet.
- ns-3 adds 2 bytes of PPP to each packet: the link here is slower by this share of a full packet, and its
  utilisation is given as a share of the nominal rate.
- `fqlqd` is ns-3's FqCoDel with a target that is never reached: deficit round robin in which flows that were
  empty go first, and the head of the longest queue is dropped; `drr` here. A flow that has the whole limit by
  itself loses the arriving packet.
- `ared` is ns-2's Adaptive RED of 2003, with thresholds and the lower bound of `max_p` as in ns-3.
- ns-3's CUBIC reduces the congestion window, HighSpeed and NewReno the data in flight; HighSpeed takes its
  steps from the RFC's table, also after a timeout.
- If ns-3's TCP counts incorrectly, runs were repeated with own classes that count correctly (`EXACT`).
- The background's loss is the packets sent in the measured time minus those that arrived in it, as in ns-3,
  including packets in a long queue at the ends of this time.
- Object times exclude the handshake, and an unfinished object counts as infinite.
- A single recorded run is treated as one more run of aqmlab's twenty; the smallest goodput of equal flows is
  printed, not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import data
from aqmlab.metrics import jain_of, mean_active
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job, left_out_case
from judge import Measures, Quantity, Row, of_runs, of_schedules, single
from scenario_a import newreno_case

SEEDS = 20
REPEATS = 30
BAND = 0.05
PPP = 2
TCPS: dict[str, dict[str, Any]] = {
    "TcpNewReno": {},
    "TcpHighSpeed": {
        "congestion_control": {
            "kind": "highspeed",
            "loss_rate": "rounded",
            "timeout_reduction": "by-window",
            "ssthresh_rounding": "down",
        },
    },
    "TcpCubic": {"cwnd": {"reduction_basis": "window"}, "congestion_control": {"kind": "cubic"}},
}
"""What each TCP of theirs changes of the scenario's `[tcp]`."""

_THIN: Changes = {"traffic.background.flows": 100, "traffic.background.rate": "0.25Mbps"}
THIN_FLOWS: dict[str, Changes] = {"fqlqd": _THIN, "fqcodel": _THIN}
"""The background as the flows that fair queueing sees: each datagram of theirs has one of 100 ports."""

EXACT = (
    "ns-3.37's PRR multiplies in 32 bits, and its NewReno, HighSpeed and CUBIC round values or "
    "count the acknowledgement that ends a recovery as a whole window"
)
"""What `reference/ns3/src/variants.cc` takes away."""
TIES = (
    "packets arrive at the instant of a departure, and ns-3 processes simultaneous events in the "
    "order in which they were scheduled"
)
"""Where the access line takes longer than a transmission, that is the arrival; here it is the departure."""
PHASES = "without background traffic, the flows' packets keep their positions in the queue (phases)"
"""Taken away by hosts that take a packet in after up to the time of a transmission, in both."""
SYN_SAMPLE = (
    "ns-3.37 takes the time since the first SYN as a round-trip sample even if the SYN was "
    "retransmitted, so that the first time-out is 9.7 s or more"
)
NO_SACK = (
    "ns-3.37's NewReno without SACK differs from both other programs: compared with ns-2's "
    "NewReno with equal settings, aqmlab misses nothing; the fault in ns-3 was not sought"
)
LOSS_STATE = (
    "in ns-3.37, the acknowledgement that ends the state after a time-out does not open the "
    "window (RFC 5681, 3.1: each acknowledgement opens the window), which costs the sender a "
    "round trip after each time-out"
)
"""What `reference/ns3/src/switches.cc` takes away with `GROW=1`."""
STALLED_BBR = "ns-3.37's BBR stops sending for good after losses, at 0.01 to 0.4 Mbit/s"
"""`ns3/README.md`, item 12."""
NS2_QUEUES = {"pfifo": "droptail", "redg": "redg"}
"""What ns-2's runs of the same queue are called."""
NO_REGION = "ns-3.37's CUBIC has no TCP-friendly region"
UNFRIENDLY: Changes = {"traffic.TcpCubic.tcp.congestion_control.tcp_friendliness": False}
OUTLIER = "the recorded run is far from the mean of ten ns-3 runs"

LINE = (
    Quantity(name="goodput_mbps", share=BAND),
    Quantity(name="util", share=BAND),
    Quantity(name="drop_frac", share=BAND),
    Quantity(name="mean_q_pkts", share=BAND),
)
FAIRNESS = (
    Quantity(name="jain", share=BAND),
    Quantity(name="max_flow_mbps", share=BAND),
    Quantity(name="min_flow_mbps", judged=False, note="the value is an extreme, the minimum over all flows"),
)
UNEQUAL = (
    Quantity(name="jain", share=BAND),
    Quantity(name="flow0_mbps", share=BAND),
    Quantity(name="flow1_mbps", share=BAND),
)
BACKGROUND = (Quantity(name="bg_loss_frac", share=BAND, floor=2e-5, note="floor 2e-5"),)
OBJECTS = (Quantity(name="mean_active", share=BAND), Quantity(name="jain", share=BAND))
QUANTILES = ("p10", "p20", "p30", "p40", "p50", "p60", "p70", "p80", "p90", "p95", "p99")

SIZE_CLASSES: dict[str, tuple[int, float]] = {
    "all": (0, np.inf),
    "<=934": (0, 934),
    "935-9340": (935, 9340),
    "9341-93400": (9341, 93400),
    ">93400": (93401, np.inf),
}
"""Classes of objects by bytes, first and last."""


def cases() -> list[Case]:
    """Every recorded condition."""
    by_condition: dict[str, list[dict[str, Any]]] = {}
    for run in data.ns3_runs():
        by_condition.setdefault(run["condition"], []).append(run)
    return [_case(condition, runs) for condition, runs in by_condition.items()]


def _case(condition: str, runs: list[dict[str, Any]]) -> Case:
    name = f"ns3 {condition}"
    if "TcpBbr" in condition:
        return left_out_case(name, "excluded", STALLED_BBR)
    changes = host_changes(runs[0]["job"])
    if condition.startswith("A-ftp"):
        return ftp_case(name, runs, changes=changes, causes=_ftp_causes(name, condition, runs))
    if condition.startswith("A-web"):
        return web_case(name, condition, runs, changes=changes, causes=_web_causes(name, condition))
    return flows_case(name, runs, causes=_causes(name, condition, runs))


def options_of(job: str) -> dict[str, str]:
    """The options of a reference run."""
    return dict(option.split("=", 1) for option in job.split())


def host_changes(job: str) -> Changes:
    """The changes of the scenario's TCP that the options of a run require."""
    options = options_of(job)
    changes: dict[str, Any] = {"tcp.rto.min": f"{float(options['minRto']):g}s"}
    if options["sack"] == "0":
        changes |= {
            "tcp.recovery.kind": "newreno",
            "tcp.recovery.reduction": "at-once",
            "tcp.recovery.limited_transmit": "off" if options.get("limitedTx") == "0" else "new",
            "tcp.receiver.delayed_ack": "off" if options["delAck"] == "1" else "every-second",
            "tcp.receiver.delayed_ack_timer": "200ms",
        }
    return changes


def _causes(name: str, condition: str, runs: list[dict[str, Any]]) -> tuple[Cause, ...]:
    """Possible causes of a miss of permanent flows, beginning with experiments that need no runs."""
    causes = []
    more = data.ns3_reruns("more").get(condition)
    if more:
        again = flows_case(name, more)
        causes.append(Cause(why=OUTLIER, switch="ten runs", again=again, same_runs=True))
    exact = data.ns3_reruns("exact").get(condition)
    if exact:
        again = flows_case(name, exact)
        causes.append(Cause(why=EXACT, switch="ns-3 counting right", again=again, same_runs=True))
    if runs[0]["tcp"] == "TcpCubic":
        again = flows_case(name, runs, changes=UNFRIENDLY)
        causes.append(Cause(why=NO_REGION, switch="`tcp_friendliness` off", again=again))
    reverse = {"reverse_ties": True}
    causes.append(Cause(why=TIES, switch="arrivals first", again=flows_case(name, runs, changes=reverse)))
    if exact:
        again = flows_case(name, exact, changes=reverse)
        causes.append(Cause(why=f"{EXACT}; {TIES}", switch="both", again=again))
    return tuple(causes)


def _ftp_causes(name: str, condition: str, runs: list[dict[str, Any]]) -> tuple[Cause, ...]:
    causes = []
    jitter = data.ns3_reruns("jitter").get(condition)
    if jitter:
        changes = {**host_changes(runs[0]["job"]), "host.jitter": "780us"}
        again = ftp_case(name, jitter, changes=changes)
        causes.append(Cause(why=PHASES, switch="jitter in both", again=again))
    grown = data.ns3_reruns("loss-state").get(condition)
    if grown:
        again = ftp_case(name, grown, changes=host_changes(runs[0]["job"]))
        causes.append(Cause(why=LOSS_STATE, switch="each ACK opens the window", again=again, same_runs=True))
    if runs[0]["sack"] == 0:
        options = options_of(runs[0]["job"])
        limited, every = options.get("limitedTx", "1") == "1", int(options["delAck"])
        queue, flows = NS2_QUEUES[runs[0]["disc"]], runs[0]["nFlows"]
        again = newreno_case(name, queue, flows, limited_transmit=limited, ack_every=every)
        causes.append(Cause(why=NO_SACK, switch="ns-2 in place of ns-3", again=again))
    return tuple(causes)


def _web_causes(name: str, condition: str) -> tuple[Cause, ...]:
    exact = data.ns3_reruns("rtt").get(condition)
    if not exact:
        return ()
    again = web_case(name, condition, exact, objects="rtt-web-objects")
    return (Cause(why=SYN_SAMPLE, switch="no such sample", again=again, same_runs=True),)


# Scenario A, permanent flows only


def ftp_case(
    name: str,
    theirs: Sequence[dict[str, Any]],
    seeds: int = SEEDS,
    changes: Changes | None = None,
    causes: tuple[Cause, ...] = (),
) -> Case:
    """Permanent flows through one queue; `changes` is a switch in aqmlab."""

    def jobs() -> list[Job]:
        scenario = _with_queue("ns3-a", theirs[0]["disc"])
        scenario = scenario.with_({"traffic.ftp.flows": theirs[0]["nFlows"], **(changes or {})})
        return [Job(scenario=scenario, seed=seed, measure=_measures) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        return of_runs(name, (*LINE, *FAIRNESS), [recorded(run) for run in theirs], measured)

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def _with_queue(name: str, queue: str) -> Scenario:
    scenario = Scenario.load(data.SCENARIOS / f"{name}.toml")
    return scenario.with_({"bottleneck.queue": scenario.queues[queue]})


def recorded(run: dict[str, Any]) -> Measures:
    """A reference run, by the names of the quantities."""
    flows = [float(rate) for rate in run["flows"]]
    known = {key: float(run[key]) for key in ("goodput_mbps", "util", "drop_frac", "mean_q_pkts", "jain")}
    sent, arrived = run["udp_sent"], run["udp_rcvd"]
    return known | {
        "mean_active": float(run["mean_active"]),
        "max_flow_mbps": max(flows),
        "min_flow_mbps": min(flows),
        "flow0_mbps": flows[0],
        "flow1_mbps": flows[-1],
        "bg_loss_frac": (sent - arrived) / sent if sent else 0.0,
    }


def _measures(run: Run) -> Measures:
    """A run of aqmlab; the two kinds of flows of a mixed case are in the order of the reference."""
    link = run.links.row(0, named=True)
    waiting = run.tables["queue"].filter(pl.col("time_s") >= 20.0)["length_packets"].to_numpy()
    mss = int(run.manifest["scenario"]["tcp"]["connection"]["mss"].removesuffix("B"))
    flows = run.flows.with_columns(pl.col("traffic").cast(pl.String))
    background = flows.filter(pl.col("traffic") == "background")
    permanent = flows.filter(~pl.col("traffic").is_in(["background", "web"]))
    rates = permanent.sort("traffic", descending=True)["goodput_bps"].to_numpy() / 1e6
    sent = int(background["packets_sent"].sum())
    arrived = int(background["delivered_bytes"].sum()) / 1000
    return {
        "goodput_mbps": float(rates.sum()),
        "util": link["utilisation"] * (mss + 40) / (mss + 40 + PPP),
        "drop_frac": link["drop_fraction"],
        "mean_q_pkts": float(np.maximum(waiting.astype(np.int64) - 1, 0).mean()),
        "jain": float(jain_of(rates.sum(), np.square(rates).sum(), rates.size)),
        "max_flow_mbps": float(rates.max()),
        "min_flow_mbps": float(rates.min()),
        "flow0_mbps": float(rates[0]),
        "flow1_mbps": float(rates[-1]),
        "bg_loss_frac": 1 - arrived / sent if sent else 0.0,
    }


# Scenario A, Web objects with ten permanent flows


@dataclass(frozen=True, kw_only=True)
class WebMeasures:
    """The values that are kept of a run with Web objects."""

    values: Measures
    sizes: npt.NDArray[np.uint32]
    times: npt.NDArray[np.float32]


def web_case(
    name: str,
    condition: str,
    theirs: Sequence[dict[str, Any]],
    objects: str = "a-web-objects",
    changes: Changes | None = None,
    causes: tuple[Cause, ...] = (),
) -> Case:
    """The recorded schedules at 70 % load, replayed through one queue; `objects` names the objects' times."""
    deciles = _recorded_quantiles(condition, objects)
    # An experiment has the quantities of the case, whichever others are finite in it.
    finite = _recorded_quantiles(condition, "a-web-objects")

    def jobs() -> list[Job]:
        scenario = _with_queue("ns3-a-mix", theirs[0]["disc"]).with_(changes or {})
        made = []
        for run in theirs:
            file = f"web_70_{run['seed']}.txt"
            replayed = scenario.with_(
                {"traffic.web.file": file}, files={file: data.schedule(0.7, int(run["seed"]))}
            )
            made += [
                Job(scenario=replayed, seed=seed, measure=_web_measures) for seed in range(1, REPEATS + 1)
            ]
        return made

    def judge(measured: Sequence[WebMeasures]) -> list[Row]:
        by_schedule = [measured[at : at + REPEATS] for at in range(0, len(measured), REPEATS)]
        recorded_runs = [recorded(run) for run in theirs]
        values = [[run.values for run in runs] for runs in by_schedule]
        if len(theirs) == 1:
            rows = of_runs(name, (*LINE, *OBJECTS), recorded_runs, values[0])
        else:
            rows = of_schedules(name, (*LINE, *OBJECTS), recorded_runs, values)
        for group, (first, last) in SIZE_CLASSES.items():
            pooled = [
                _quantiles([runs[place] for runs in by_schedule], first, last) for place in range(REPEATS)
            ]
            for place, quantile in enumerate(QUANTILES):
                value = float(deciles[group][quantile])
                if not np.isfinite(float(finite[group][quantile])):
                    continue
                judged = quantile not in ("p95", "p99")
                note = "" if judged else "the value depends on only a few objects"
                quantity = Quantity(name=f"{group} bytes, {quantile}", share=BAND, judged=judged, note=note)
                rows.append(single(name, quantity, value, [float(values[place]) for values in pooled]))
        return rows

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def _recorded_quantiles(condition: str, objects: str) -> dict[str, dict[str, str]]:
    rows = data.rows(objects, data.NS3)
    kept = [row for row in rows if (row["time"], row["seed"]) == ("no-handshake", "pooled")]
    return {row["size_class"]: row for row in kept if row["condition"] == condition}


def _web_measures(run: Run) -> WebMeasures:
    values = _measures(run) | {"mean_active": mean_active(run.transfers, 20.0, 160.0)}
    started = run.transfers.filter((pl.col("start_s") >= 20.0) & (pl.col("start_s") < 140.0))
    done = pl.col("complete") & (pl.col("start_s") + pl.col("duration_s") < 160.0)
    times = pl.when(done).then(pl.col("duration_s") - pl.col("handshake_s")).otherwise(np.inf)
    return WebMeasures(
        values=values,
        sizes=started["size_bytes"].to_numpy().astype(np.uint32),
        times=started.select(times.alias("time_s"))["time_s"].to_numpy().astype(np.float32),
    )


def _quantiles(runs: Sequence[WebMeasures], first: float, last: float) -> npt.NDArray[np.float64]:
    sizes = np.concatenate([run.sizes for run in runs])
    times = np.concatenate([run.times for run in runs])
    inside = (sizes >= first) & (sizes <= last)
    shares = [int(name.removeprefix("p")) / 100 for name in QUANTILES]
    values: npt.NDArray[np.float64] = np.quantile(times[inside], shares, method="inverted_cdf")
    return values


# Scenario B, permanent flows with Poisson datagrams


def flows_case(
    name: str,
    theirs: Sequence[dict[str, Any]],
    seeds: int = SEEDS,
    changes: Changes | None = None,
    causes: tuple[Cause, ...] = (),
) -> Case:
    """Permanent flows with datagrams; `changes` is a switch in aqmlab."""
    several = () if theirs[0]["nFlows"] == 1 else UNEQUAL if theirs[0]["tcp2"] else FAIRNESS

    def jobs() -> list[Job]:
        scenario = flows_scenario(theirs[0]).with_(changes or {})
        return [Job(scenario=scenario, seed=seed, measure=_measures) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        recorded_runs = [recorded(run) for run in theirs]
        return of_runs(name, (*LINE, *BACKGROUND, *several), recorded_runs, measured)

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def flows_scenario(theirs: dict[str, Any]) -> Scenario:
    """The scenario with a workload for each TCP of the reference run."""
    scenario = Scenario.load(data.SCENARIOS / "ns3-b.toml")
    kinds = [kind.replace("Exact", "Tcp") for kind in (theirs["tcp"], theirs["tcp2"]) if kind]
    changes: dict[str, Any] = {
        "bottleneck.queue": scenario.queues[f"{theirs['disc']}{theirs['limit']}"],
        "traffic.newreno": None,
        **THIN_FLOWS.get(theirs["disc"], {}),
    }
    for kind in kinds:
        flows = theirs["nFlows"] // len(kinds)
        changes[f"traffic.{kind}"] = {"kind": "ftp", "flows": flows, "stagger": "1s", "tcp": TCPS[kind]}
    return scenario.with_(changes)
