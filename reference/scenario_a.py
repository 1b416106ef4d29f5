"""Scenario A of the reference: permanent flows, Web objects, and both, over one 10 Mb/s link.

The settings are those of `scenarios/reference/a-*.toml`. In addition:
- `droptail_oh`: ns-2's senders wait a random time of up to one packet before they send (`overhead_`). Waits
  at both ends (`host.jitter`) have a larger effect: they nearly double the timeouts at N=10.
- With `droptail`, all round-trip times are equal, and ties decide which packet is lost; in ns-2, rounding
  decides ties. The experiment on ties is `droptail_oh`, whose Web runs were recorded with fresh agents only.
- The smallest goodput of a flow is printed, not judged: it belongs to one or two flows that timeouts kept
  silent, and varies by its own size from run to run. The 99th percentile of object times is not judged,
  either.
- Timeouts are counted from the start of the run, as in ns-2; all other quantities after the warm-up. For the
  timeouts, the first 20 s are run again: the same run, measured earlier.
- ns-2's object times end when the sender receives the last acknowledgement; aqmlab's when the last byte
  arrives. The return path of an acknowledgement, 62.0384 ms, is subtracted from the reference.
- Each schedule of objects is run with thirty seeds, which vary RED's random numbers and the starts of the
  permanent flows. A pooled decile of the reference is judged as one more sample of aqmlab's thirty. Ten seeds
  are too few if a decile is between objects that lost a SYN and those that did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

import data
from aqmlab.metrics import jain_of, mean_active
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job
from judge import Measures, Quantity, Row, of_runs, of_schedules, since_start, single

SEEDS = 60
NEWRENO_SEEDS = 20
REPEATS = 30
ACK_WAY_BACK = 0.0620384
WARM_UP, END = 20.0, 160.0
OBJECTS_FROM, OBJECTS_BEFORE = 20.0, 130.0
WAITING = "droptail_oh"
SETTINGS: dict[str, Changes] = {WAITING: {"tcp.connection.send_overhead": "779us"}}

AGENTS = (
    "the recorded ns-2 runs reuse agents for later objects, and an agent that has lost a SYN "
    "keeps an initial window of 1 (in the experiment, the window is restored)"
)
TIES = (
    "with equal round-trip times, many packets arrive at the instant of a departure; in ns-2 "
    "rounding determines the order (in the experiment, the senders of both programs delay packets by "
    "random times of up to one packet's transmission time)"
)

FTP_QUANTITIES = (
    Quantity(name="goodput_payload_mbps"),
    Quantity(name="jain"),
    Quantity(name="drop_frac"),
    Quantity(name="mean_queue"),
    Quantity(name="util"),
    Quantity(name="max_flow_mbps"),
    Quantity(name="min_flow_mbps", judged=False, note="the value is an extreme, the minimum over all flows"),
    Quantity(name="timeouts_per_flow"),
)

WEB_QUANTITIES = (
    Quantity(name="util"),
    Quantity(name="drop_frac"),
    Quantity(name="mean_queue"),
    Quantity(name="mean_active"),
    Quantity(name="web_object_goodput_mbps"),
    Quantity(name="obj_time_mean"),
    Quantity(name="obj_time_median"),
    Quantity(name="obj_time_p90"),
    Quantity(name="obj_time_p99", judged=False, note="the value depends on only a few objects"),
    Quantity(name="obj_frac_over_3s", floor=0.001, note="floor 0.001"),
    Quantity(name="unfinished_20_130", floor=1.0, note="floor 1 object"),
)

MIX_QUANTITIES = (*WEB_QUANTITIES, Quantity(name="jain"), Quantity(name="goodput_ftp_payload_mbps"))

QUANTILES = ("p10", "p20", "p30", "p40", "p50", "p60", "p70", "p80", "p90")

SIZE_CLASSES = {
    "all": (1, None),
    "1": (1, 1),
    "2-3": (2, 3),
    "4-7": (4, 7),
    "8-15": (8, 15),
    "16-63": (16, 63),
    "64+": (64, None),
}
"""Classes of objects by data segments, first and last."""


def cases() -> list[Case]:
    """Every recorded case of scenario A."""
    ftp = {(row["q"], int(row["nftp"])): None for row in data.rows("a_ftp_only_per_seed")}
    web = {(row["label"], row["q"]) for row in data.rows("a_web_per_seed")}
    waiting = {(label, WAITING) for label, queue in web if queue == "droptail"}
    return [
        *(ftp_case(queue, flows, causes=_ftp_causes(queue, flows)) for queue, flows in sorted(ftp)),
        *(web_case(*one, causes=_web_causes(*one)) for one in sorted(web)),
        *(web_case(*one, fresh=True) for one in sorted(waiting)),
    ]


def _ftp_causes(queue: str, flows: int) -> tuple[Cause, ...]:
    if queue != "droptail":
        return ()
    return (Cause(why=TIES, switch="waiting senders", again=ftp_case(WAITING, flows)),)


def _web_causes(label: str, queue: str) -> tuple[Cause, ...]:
    """Possible causes of a miss, beginning with the experiment that needs no runs."""
    fresh = web_case(label, queue, fresh=True)
    agents = Cause(why=AGENTS, switch="fresh agents", again=fresh, same_runs=True)
    if queue != "droptail":
        return (agents,)
    both = web_case(label, WAITING, fresh=True)
    return (agents, Cause(why=f"{AGENTS}; {TIES}", switch="fresh agents and waiting senders", again=both))


@lru_cache(maxsize=8)
def _scenario(name: str) -> Scenario:
    return Scenario.load(data.SCENARIOS / f"{name}.toml")


def _with_queue(name: str, queue: str) -> Scenario:
    scenario = _scenario(name)
    return scenario.with_({"bottleneck.queue": scenario.queues[queue]})


# Permanent flows only


def ftp_case(queue: str, flows: int, seeds: int = SEEDS, causes: tuple[Cause, ...] = ()) -> Case:
    """Permanent flows through one queue."""
    theirs = [
        row for row in data.rows("a_ftp_only_per_seed") if row["q"] == queue and int(row["nftp"]) == flows
    ]
    name = f"a ftp {queue} N={flows}"

    def jobs() -> list[Job]:
        scenario = _with_queue("a-ftp", queue).with_({"traffic.ftp.flows": flows, **SETTINGS.get(queue, {})})
        early = scenario.with_({"warm_up": "0s", "duration": f"{WARM_UP:g}s"})
        numbers = range(1, seeds + 1)
        return [
            *(Job(scenario=scenario, seed=seed, measure=_ftp_measures) for seed in numbers),
            *(Job(scenario=early, seed=seed, measure=_timeouts) for seed in numbers),
        ]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        runs = since_start(measured[:seeds], measured[seeds:])
        return of_runs(name, FTP_QUANTITIES, theirs, runs)

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def _ftp_measures(run: Run) -> Measures:
    link = run.links.row(0, named=True)
    # The reference counts headers in the rates per flow, but not in the sum.
    payload = run.flows["goodput_bps"].to_numpy() / 1e6
    wire = payload * 974 / 934
    return {
        "goodput_payload_mbps": float(payload.sum()),
        "jain": _jain(payload),
        "drop_frac": link["drop_fraction"],
        "mean_queue": link["mean_queue_packets"],
        "util": link["utilisation"],
        "max_flow_mbps": float(wire.max()),
        "min_flow_mbps": float(wire.min()),
        **_timeouts(run),
    }


def _timeouts(run: Run) -> Measures:
    return {"timeouts_per_flow": float(run.flows["timeouts"].to_numpy().mean())}


def _jain(rates: npt.NDArray[np.float64]) -> float:
    return float(jain_of(rates.sum(), (rates**2).sum(), rates.size))


def newreno_case(
    name: str, queue: str, flows: int, *, limited_transmit: bool, ack_every: int, seeds: int = NEWRENO_SEEDS
) -> Case:
    """Permanent flows of NewReno without SACK, with an RTO of at least 1 s and a clock of 1 ms.

    ns-3's results are far from both; the quantities have ns-3's names.
    """
    wanted = (queue, str(flows), str(int(limited_transmit)), str(ack_every))
    columns = ("q", "nftp", "limited_transmit", "ack_every")
    theirs = [
        row for row in data.rows("a_newreno_per_seed") if tuple(row[column] for column in columns) == wanted
    ]
    changes: Changes = {
        "traffic.ftp.flows": flows,
        "tcp.recovery.kind": "newreno",
        "tcp.recovery.limited_transmit": "next" if limited_transmit else "off",
        "tcp.rto.min": "1s",
        "tcp.rto.tick": "1ms",
        "tcp.receiver.delayed_ack": "off" if ack_every == 1 else "every-second",
        "tcp.receiver.delayed_ack_timer": "200ms",
    }

    def jobs() -> list[Job]:
        scenario = _with_queue("a-ftp", queue).with_(changes)
        return [Job(scenario=scenario, seed=seed, measure=_newreno_measures) for seed in range(1, seeds + 1)]

    def judge(measured: Sequence[Measures]) -> list[Row]:
        return of_runs(name, [Quantity(name=column) for column in measured[0]], theirs, measured)

    return Case(name=name, jobs=jobs, judge=judge)


def _newreno_measures(run: Run) -> Measures:
    link = run.links.row(0, named=True)
    rates = run.flows["goodput_bps"].to_numpy() / 1e6
    return {
        "goodput_mbps": float(rates.sum()),
        "util": link["utilisation"],
        "drop_frac": link["drop_fraction"],
        "mean_q_pkts": link["mean_queue_packets"],
        "jain": _jain(rates),
        "max_flow_mbps": float(rates.max()),
        "min_flow_mbps": float(rates.min()),
    }


# Web objects, alone or with ten permanent flows


@dataclass(frozen=True, kw_only=True)
class WebMeasures:
    """The values that are kept of a run with Web objects."""

    values: Measures
    segments: npt.NDArray[np.uint16]
    times: npt.NDArray[np.float32]


def web_case(
    label: str,
    queue: str,
    repeats: int = REPEATS,
    *,
    fresh: bool = False,
    causes: tuple[Cause, ...] = (),
) -> Case:
    """The recorded schedules of a load, replayed through one queue; `fresh` is ns-2 without its defect."""
    kind = "_fresh" if fresh else ""

    def recorded(name: str) -> list[dict[str, str]]:
        return [row for row in data.rows(name) if row["label"] == label and row["q"] == queue]

    theirs = recorded(f"a_web{kind}_per_seed")
    deciles = {row["size_class_packets"]: row for row in recorded(f"a_object_time_deciles{kind}")}
    mixed = label.startswith("mix")
    load = int(label.removeprefix("mix").removeprefix("web")) / 100
    schedules = [int(row["seed"]) for row in theirs]
    name = f"a {label} {queue}"

    def jobs() -> list[Job]:
        scenario = _with_queue("a-mix" if mixed else "a-web", queue).with_(SETTINGS.get(queue, {}))
        made = []
        for number in schedules:
            file = f"web_{100 * load:.0f}_{number}.txt"
            replayed = scenario.with_({"traffic.web.file": file}, files={file: data.schedule(load, number)})
            made += [
                Job(scenario=replayed, seed=seed, measure=_web_measures) for seed in range(1, repeats + 1)
            ]
        return made

    def judge(measured: Sequence[WebMeasures]) -> list[Row]:
        by_schedule = [measured[at : at + repeats] for at in range(0, len(measured), repeats)]
        quantities = MIX_QUANTITIES if mixed else WEB_QUANTITIES
        recorded_runs = [
            {one.name: float(row[one.name]) - _at_sender(one.name) for one in quantities} for row in theirs
        ]
        values = [[run.values for run in runs] for runs in by_schedule]
        rows = of_schedules(name, quantities, recorded_runs, values)
        for group, (first, last) in SIZE_CLASSES.items():
            pooled = [
                _deciles([runs[place] for runs in by_schedule], first, last) for place in range(repeats)
            ]
            for place, quantile in enumerate(QUANTILES):
                quantity = Quantity(name=f"{group} segments, {quantile}")
                value = float(deciles[group][quantile]) - ACK_WAY_BACK
                rows.append(single(name, quantity, value, [float(values[place]) for values in pooled]))
        return rows

    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


def _at_sender(quantity: str) -> float:
    """The part of a reference quantity that is the return path of the last acknowledgement."""
    return ACK_WAY_BACK if quantity.startswith("obj_time") else 0.0


def _web_measures(run: Run) -> WebMeasures:
    link = run.links.row(0, named=True)
    # The same definition as the reference: an object is complete when its sender knows.
    known = run.transfers.with_columns(pl.col("duration_s") + ACK_WAY_BACK)
    done = known.filter(pl.col("complete"))
    ends = pl.col("start_s") + pl.col("duration_s")
    finished = done.filter((ends >= WARM_UP) & (ends < END))
    considered = known.filter((pl.col("start_s") >= OBJECTS_FROM) & (pl.col("start_s") < OBJECTS_BEFORE))
    complete = considered.filter(pl.col("complete") & (ends < END))
    times = complete["duration_s"].to_numpy() - ACK_WAY_BACK
    values = {
        "util": link["utilisation"],
        "drop_frac": link["drop_fraction"],
        "mean_queue": link["mean_queue_packets"],
        "mean_active": mean_active(known, WARM_UP, END),
        "web_object_goodput_mbps": float(finished["size_bytes"].sum()) * 8 / (END - WARM_UP) / 1e6,
        "obj_time_mean": float(times.mean()),
        "obj_time_median": float(np.quantile(times, 0.5)),
        "obj_time_p90": float(np.quantile(times, 0.9)),
        "obj_time_p99": float(np.quantile(times, 0.99)),
        "obj_frac_over_3s": float((times + ACK_WAY_BACK > 3.0).mean()),
        "unfinished_20_130": float(considered.height - complete.height),
    }
    ftp = run.flows.filter(pl.col("traffic").cast(pl.String) == "ftp")["goodput_bps"].to_numpy()
    if ftp.size:
        values |= {"jain": _jain(ftp), "goodput_ftp_payload_mbps": float(ftp.sum()) / 1e6}
    # Thousands of runs are kept until they are judged, so numbers are small.
    segments = complete["segments"].to_numpy().astype(np.uint16)
    return WebMeasures(values=values, segments=segments, times=times.astype(np.float32))


def _deciles(runs: Sequence[WebMeasures], first: int, last: int | None) -> npt.NDArray[np.float64]:
    segments = np.concatenate([run.segments for run in runs])
    times = np.concatenate([run.times for run in runs])
    inside = (segments >= first) & (segments <= (last if last is not None else segments.max()))
    values: npt.NDArray[np.float64] = np.quantile(times[inside], np.arange(1, 10) / 10)
    return values
