"""Prague and CUBIC or Reno flows in network namespaces of one Linux machine, with a band of 10 %.

Two sources with the same harness, one recorded run for each row (`l4s/README.md`): P. Heist's l4s-tests
(`s1`: pairs of flows; `s6`: steady state behind Classic queues) and the L4S team's ect1-tests (`one`: a
Prague flow behind DualPI2; `pair`: CUBIC, and Prague 10 s later). In these kernels all flows negotiate
accurate ECN feedback. The single recorded run is compared as one more run of aqmlab. The recorded pings are
not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import data
import judge
import l4s_path
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Cause, Job
from judge import Measures, Quantity, Row
from l4s_path import Ecn, Side

BAND = 0.1
"""Half the width of the band: recorded repetitions of equal rows differ by 1 to 5 %, in pfifo by more."""
REPEATS = 4
SIDES: tuple[Side, Side] = ("a", "b")
SAMPLES_S = 0.05
"""Interval of the recorded samples of senders, in seconds."""
DEPENDENT = "the Prague sender of the kernels of 2020 had no independence of the round trip"
"""A possible cause of misses."""
RED = {"kind": "linux-red", "limit": "400kB", "ecn": True, "adaptive": True, "start": "fresh"}
PIE = {"kind": "pie", "ecn": True, "hz": l4s_path.HZ, "start": "fresh"}
ONE_QUEUE = {"kind": "fq-codel", "flows": 1, "start": "fresh"}
QUEUES: Mapping[str, Mapping[str, Any]] = {
    "dualpi2": l4s_path.DUALPI2,
    "fq_codel": {"kind": "fq-codel", "start": "fresh"},
    "pfifo(200)": {"kind": "drop-tail", "limit": "200p"},
    "pfifo(1000)": {"kind": "drop-tail", "limit": "1000p"},
    "fq_codel(1q)": ONE_QUEUE,
    "codel1q": ONE_QUEUE,
    "pie": PIE,
    "pie(100p/20ms)": PIE | {"limit": "100p", "target": "20ms", "tupdate": "32ms"},
    "red(400000b)": RED,
    "red(400000)": RED,
}
"""Queues by their names in the recorded tables."""


def cases() -> list[Case]:
    """Every recorded row."""
    by_table: Mapping[str, Callable[[Mapping[str, str]], Case]] = {
        "heistp_s1": pair_case,
        "heistp_s6": steady_case,
        "ect1_oneflow": single_case,
        "ect1_twoflow": late_case,
    }
    return [case(row) for table, case in by_table.items() for row in data.rows(table, l4s_path.WHERE)]


def pair_case(row: Mapping[str, str]) -> Case:
    """Two flows for 180 s; the rate is that of the 60 s that end 2 s before the end."""
    flows = [f"{row[f'cc{number}']} {row[f'rtt{number}_ms']} ms" for number in (1, 2)]
    return _rates(f"l4s s1 {row['rate_mbps']} Mbit/s {flows[0]} {flows[1]} {row['queue']}", row, 118, 178)


def steady_case(row: Mapping[str, str]) -> Case:
    """Two flows for 60 s; the rate is that of the 40 s that end 2 s before the end."""
    return _rates(f"l4s s6 {row['cc1']} {row['cc2']}-{row['cc2_ecn']} {row['queue']}", row, 18, 58)


def _rates(name: str, row: Mapping[str, str], since: int, until: int) -> Case:
    ecn: Mapping[Side, Ecn] = {"a": "accurate", "b": "none" if row.get("cc2_ecn") == "none" else "accurate"}
    scenario = l4s_path.scenario(
        rate_mbps=float(row["rate_mbps"]),
        queue=QUEUES[row["queue"]],
        rtt_ms={"a": float(row["rtt1_ms"]), "b": float(row["rtt2_ms"])},
        senders={side: tcp(row[f"cc{number}"], ecn[side]) for number, side in enumerate(SIDES, start=1)},
        changes={
            "duration": f"{until}s",
            "warm_up": f"{since}s",
            "traffic.b.start": "0s",
            "record.senders": [],
        },
    )

    def measures(run: Run) -> Measures:
        return {
            f"mbps{number}": l4s_path.goodput_mbps(run, side) for number, side in enumerate(SIDES, start=1)
        }

    theirs = {name: float(row[name]) for name in ("mbps1", "mbps2")}
    return _case(name, scenario, measures, theirs, float(row["rate_mbps"]))


def single_case(row: Mapping[str, str]) -> Case:
    """One Prague flow behind DualPI2 from 5 s on, measured from `from_s` to `to_s`."""
    rate, round_trip = float(row["rate_mbps"]), float(row["rtt_ms"])
    scenario = l4s_path.scenario(
        rate_mbps=rate,
        queue=QUEUES["dualpi2"],
        rtt_ms={"a": round_trip},
        senders={"a": prague()},
        changes={**_window(row), "traffic.a.start": "5s"},
    )

    def measures(run: Run) -> Measures:
        return {
            "mbps": l4s_path.goodput_mbps(run, "a"),
            "pacing_mbps": _sender(run, row, "a", "pacing_rate_bps") / 1e6,
            "cwnd_segments": _sender(run, row, "a", "cwnd_segments"),
            "queue_ms": 1000 * _sender(run, row, "a", "srtt_s") - round_trip,
        }

    theirs = {name: float(row[f"{name}_mean"]) for name in ("mbps", "pacing_mbps", "cwnd_segments")}
    theirs["queue_ms"] = float(row["tcp_rtt_ms_mean"]) - round_trip
    return _case(
        f"l4s one {rate:g} Mbit/s {round_trip:g} ms prague dualpi2", scenario, measures, theirs, rate
    )


def late_case(row: Mapping[str, str]) -> Case:
    """CUBIC from 5 s on and Prague from 15 s on at 50 Mbit/s, measured from `from_s` to `to_s`."""
    rate, round_trip = 50.0, float(row["rtt_ms"])
    names: Mapping[Side, str] = {"a": "prague", "b": "cubic"}
    scenario = l4s_path.scenario(
        rate_mbps=rate,
        queue=QUEUES[row["queue"]],
        rtt_ms={"a": round_trip, "b": round_trip},
        senders={"a": prague(), "b": tcp("cubic", "accurate")},
        changes={**_window(row), "traffic.a.start": "15s", "traffic.b.start": "5s"},
    )

    def measures(run: Run) -> Measures:
        found: Measures = {}
        for side, name in names.items():
            found[f"{name}_mbps"] = l4s_path.goodput_mbps(run, side)
            found[f"{name}_cwnd_segments"] = _sender(run, row, side, "cwnd_segments")
            found[f"{name}_queue_ms"] = 1000 * _sender(run, row, side, "srtt_s") - round_trip
        return found

    theirs: Measures = {}
    for name in names.values():
        theirs |= {f"{name}_{what}": float(row[f"{name}_{what}"]) for what in ("mbps", "cwnd_segments")}
        theirs[f"{name}_queue_ms"] = float(row[f"{name}_tcp_rtt_ms"]) - round_trip
    return _case(f"l4s pair {round_trip:g} ms prague cubic {row['queue']}", scenario, measures, theirs, rate)


def prague() -> dict[str, Any]:
    """Prague with the detection of Classic queues, which was on in the ect1-tests."""
    settings = tcp("prague", "accurate")
    return settings | {"congestion_control": {**settings["congestion_control"], "fallback": "on"}}


def tcp(control: str, ecn: Ecn) -> dict[str, Any]:
    """The `tcp` table of a workload, with the Prague of the kernels of 2020."""
    settings = l4s_path.tcp(control, ecn)
    if control == "prague":
        settings["congestion_control"] = {**settings["congestion_control"], "profile": "linux-2020"}
    return settings


def _window(row: Mapping[str, str]) -> dict[str, Any]:
    return {"duration": f"{row['to_s']}s", "warm_up": f"{row['from_s']}s"}


def _sender(run: Run, row: Mapping[str, str], side: Side, column: str) -> float:
    """The mean of a sender's value over the measured time."""
    since, until = float(row["from_s"]), float(row["to_s"])
    count = round((until - since) / SAMPLES_S)
    times = [since + SAMPLES_S * number for number in range(1, count + 1)]
    return l4s_path.mean(l4s_path.sampled(run, side, column, times))


def _case(
    name: str, base: Scenario, measure: Callable[[Run], Measures], theirs: Measures, rate_mbps: float
) -> Case:
    """A recorded run, with a property of the kernels of 2020 as a possible cause of misses."""
    case = _runs(name, base, measure, theirs, rate_mbps)
    traffic = base.effective["traffic"]
    dependent: dict[str, Any] = {
        f"traffic.{side}.tcp.congestion_control.rtt_independence": False
        for side in traffic
        if traffic[side]["tcp"]["congestion_control"]["kind"] == "prague"
    }
    if not dependent:
        return case
    again = _runs(name, base.with_(dependent), measure, theirs, rate_mbps)
    cause = Cause(why=DEPENDENT, switch="rtt_independence = false", again=again)
    return replace(case, causes=(cause,))


def _runs(
    name: str, base: Scenario, measure: Callable[[Run], Measures], theirs: Measures, rate_mbps: float
) -> Case:
    """Runs that differ in the phase of the clock and in their random numbers."""

    def jobs() -> list[Job]:
        return [
            Job(
                scenario=base.with_({"tcp.rto.tick_phase": l4s_path.tick_phase(repeat, REPEATS)}),
                seed=1 + repeat,
                measure=measure,
            )
            for repeat in range(REPEATS)
        ]

    def judged(measured: Sequence[Measures]) -> list[Row]:
        return [
            judge.single(
                name,
                Quantity(name=quantity, share=BAND, floor=l4s_path.floor(quantity, rate_mbps)),
                value,
                [run[quantity] for run in measured],
            )
            for quantity, value in theirs.items()
        ]

    return Case(name=name, jobs=jobs, judge=judged)
