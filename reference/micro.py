"""Micro traces of the reference, event by event: one flow of Reno, NewReno or Sack1, and RED's average.

Only the phase of the sender's clock is random, which is a parameter (`tcp.rto.tick_phase`). All events up to
the first timeout must be equal; later events must occur in the same order, shifted by less than a tick of
10 ms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import polars as pl

import data
from aqmlab.scenario import Scenario
from aqmlab.scenario.run import Run
from case import Case, Changes, Job
from judge import Row, exact

TICK = 0.01
PRINTED_EVENTS = 1e-6
"""Resolution of printed times in seconds: a microsecond for events, ten for variables."""
PRINTED_VARIABLES = 1e-5
SEGMENT = 960
HEADER = 40
FLOWS = (("reno", 10), ("reno", 30), ("newreno", 10), ("sack1", 30))
"""The recorded flows: ns-2's agent, and the capacity of its queue with the packet in transmission."""
RECOVERIES = {"reno": "reno", "newreno": "newreno", "sack1": "sack"}
NS2_EVENTS = {"start": "start_tx", "deliver": "arrive_r2", "enqueue": "enqueue", "drop": "drop"}

Event = tuple[float, str, int]
"""Time, event, and number of the segment; the SYN is 0."""
SenderState = tuple[float, float, float]
"""Time, congestion window, slow-start threshold."""


def cases() -> list[Case]:
    """The recorded traces."""
    return [*(tcp_case(*flow) for flow in FLOWS), full_case("reno"), full_case("sack"), average_case()]


# One flow behind a Drop Tail queue


def tcp_case(agent: str, limit: int) -> Case:
    """Every event at the bottleneck, and the sender's window after every event."""
    name = f"micro {agent} limit {limit}"

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "micro-tcp.toml")
        changes = {
            "bottleneck.queue": scenario.queues[f"limit{limit}"],
            "tcp.recovery.kind": RECOVERIES[agent],
        }
        return [Job(scenario=scenario.with_(changes), seed=1, measure=tcp_trace)]

    def judge(measured: Sequence[tuple[list[Event], list[SenderState]]]) -> list[Row]:
        [(events, states)] = measured
        variables = their_variables(agent, limit)
        first = first_timeout(variables)
        rows = judge_events(name, their_events(agent, limit), events, first)
        return [*rows, *_judge_senders(name, variables, states, first)]

    return Case(name=name, jobs=jobs, judge=judge)


def tcp_trace(run: Run) -> tuple[list[Event], list[SenderState]]:
    """The events at the bottleneck and the windows of the sender."""
    packets = run.tables["packets"].select(
        "time_s", pl.col("event").cast(pl.String), "sequence_bytes", "payload_bytes"
    )
    events = [
        (time, NS2_EVENTS[event], first // SEGMENT + 1 if payload else 0)
        for time, event, first, payload in packets.iter_rows()
    ]
    states = run.tables["senders"].select("time_s", "cwnd_segments", "ssthresh_segments")
    return events, list(states.iter_rows())


def their_events(agent: str, limit: int) -> list[Event]:
    """The recorded events at the bottleneck; ns-2 also writes `enqueue` for a packet that it then drops."""
    rows = data.rows(f"micro/tcp_{agent}_limit{limit}_events")
    events = [
        (float(row["time_s"]), row["event"], int(row["seq"]))
        for row in rows
        if row["event"] in NS2_EVENTS.values()
    ]
    dropped = {(time, number) for time, event, number in events if event == "drop"}
    return [one for one in events if one[1] != "enqueue" or (one[0], one[2]) not in dropped]


def their_variables(agent: str, limit: int) -> list[tuple[float, str, float]]:
    """The recorded changes of the sender's variables."""
    rows = data.rows(f"micro/tcp_{agent}_limit{limit}_vars")
    return [(float(row["time_s"]), row["variable"], float(row["value"])) for row in rows]


def first_timeout(variables: Sequence[tuple[float, str, float]]) -> float:
    """The time of the sender's first back-off."""
    return next((time for time, name, value in variables if name == "backoff" and value > 1), math.inf)


def judge_events(case: str, theirs: list[Event], ours: list[Event], first_timeout: float) -> list[Row]:
    """Compares the events kind by kind, because simultaneous events may be written in any order."""
    pairs: list[tuple[Event, Event]] = []
    longest = same = 0
    for kind in NS2_EVENTS.values():
        a = [event for event in theirs if event[1] == kind]
        b = [event for event in ours if event[1] == kind]
        alike = list(zip(a, b, strict=False))
        differ = next((at for at, (x, y) in enumerate(alike) if x[2] != y[2]), len(alike))
        longest += max(len(a), len(b))
        # A shift moves some events of the last tick across the end of the run.
        tail = (
            len(a) != len(b) and differ == len(alike) and min(a[-1][0], b[-1][0]) > theirs[-1][0] - 2 * TICK
        )
        same += max(len(a), len(b)) if tail else differ
        pairs += alike
    shifts = [(theirs[0], abs(theirs[0] - ours[0])) for theirs, ours in sorted(pairs)]
    before = max((shift for time, shift in shifts if time < first_timeout - PRINTED_EVENTS), default=0.0)
    largest = max((shift for _, shift in shifts), default=0.0)
    shifted = next((time for time, shift in shifts if shift > PRINTED_EVENTS), None)
    note = "exact to the end" if shifted is None else f"exact up to t={shifted:.6f} s"
    return [
        exact(case, "events in the same order", longest, same, 0, note=note),
        exact(case, "shift up to the first time-out (s)", 0, before, PRINTED_EVENTS),
        exact(case, "largest shift (s)", 0, largest, TICK - PRINTED_EVENTS),
    ]


def _judge_senders(
    case: str, theirs: Sequence[tuple[float, str, float]], ours: Sequence[SenderState], first_timeout: float
) -> list[Row]:
    """Compares the values after every event at the sender, in the order of events."""
    rows = []
    for place, name, printed in ((1, "cwnd", 0.0005), (2, "ssthresh", 0.0)):
        recorded_values = [(time, value) for time, variable, value in theirs if variable == name and time > 0]
        a = _changes(recorded_values, printed)
        b = _changes([(state[0], state[place]) for state in ours], printed)
        # The reference first reports the threshold when it changes, aqmlab from the first acknowledgement on.
        b = b[len(b) - len(a) :] if name == "ssthresh" else b
        same = 0
        for x, y in zip(a, b, strict=False):
            if abs(x[1] - y[1]) > printed + 1e-9 or _late(x, y, first_timeout):
                break
            same += 1
        rows.append(exact(case, f"{name}: same values in order", max(len(a), len(b)), same, 0))
    return rows


def _late(theirs: tuple[float, float], ours: tuple[float, float], first_timeout: float) -> bool:
    allowed = PRINTED_VARIABLES if theirs[0] < first_timeout else TICK
    return abs(theirs[0] - ours[0]) > allowed


def _changes(values: Sequence[tuple[float, float]], printed: float) -> list[tuple[float, float]]:
    """The last value at each time, if it differs from the previous one as printed."""
    last = {round(time / PRINTED_VARIABLES): (time, value) for time, value in values}
    kept: list[tuple[float, float]] = []
    for time, value in last.values():
        shown = round(value, 3) if printed else value
        if not kept or abs(shown - kept[-1][1]) > 1e-9:
            kept.append((time, shown))
    return kept


# ns-2's two-way TCP on links that lose packets by number


def full_case(recovery: str) -> Case:
    """Every segment of transfers of 1 MB that lose one of 22 packets, in either direction: ten transfers; in
    the last five, one of ten packets is also marked.

    SACK has fifteen more transfers: five that lose packets in runs, five that lose one of nine, and five that
    lose one of 33 while one of 50 is marked.
    """
    name = f"micro full {recovery}"
    table = {"reno": "micro/full", "sack": "micro/full_sack"}[recovery]
    losses = data.rows(f"{table}_losses")
    runs = list(dict.fromkeys(row["run"] for row in losses))

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "micro-full.toml").with_({"tcp.recovery.kind": recovery})
        return [Job(scenario=scenario.with_(_losses(losses, run)), seed=1, measure=_segments) for run in runs]

    def judge(measured: Sequence[list[tuple[float, int]]]) -> list[Row]:
        events = data.rows(f"{table}_events")
        sent = same = 0
        shifts = []
        for run, ours in zip(runs, measured, strict=True):
            theirs = [
                (float(row["time_s"]), int(row["sequence"]) - 1)
                for row in events
                if row["run"] == run and int(row["wire_bytes"]) > HEADER
            ]
            pairs = list(zip(theirs, ours, strict=False))
            sent += max(len(theirs), len(ours))
            same += next((at for at, (x, y) in enumerate(pairs) if x[1] != y[1]), len(pairs))
            shifts += [abs(x[0] - y[0]) for x, y in pairs]
        return [
            exact(name, "segments in the same order", sent, same, 0),
            exact(name, "largest shift (s)", 0, max(shifts), TICK - PRINTED_EVENTS),
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def _losses(losses: Sequence[Mapping[str, str]], run: str) -> Changes:
    """The packets that each link drops and marks in a run."""
    places = {"data": "out.queue.packets", "acks": "back.queue.packets", "marked": "out.queue.marked"}
    changes: dict[str, object] = {
        f"links.{place}": [
            int(row["packet"]) for row in losses if (row["run"], row["direction"]) == (run, what)
        ]
        for what, place in places.items()
    }
    return changes | {"tcp.ecn.mode": "on" if changes["links.out.queue.marked"] else "off"}


def _segments(run: Run) -> list[tuple[float, int]]:
    """The arrival times of data at the link, with the first byte."""
    packets = run.tables["packets"].filter(
        pl.col("event").cast(pl.String).is_in(["enqueue", "drop"]) & (pl.col("payload_bytes") > 0)
    )
    return list(packets.select("time_s", "sequence_bytes").iter_rows())


# RED's average while packets arrive at constant rates


def average_case() -> Case:
    """The average after every arrival, and the drops of the full queue."""
    name = "micro red average"

    def jobs() -> list[Job]:
        scenario = Scenario.load(data.SCENARIOS / "micro-red-average.toml")
        return [Job(scenario=scenario, seed=1, measure=_averages)]

    def judge(measured: Sequence[tuple[list[tuple[float, float]], int, int]]) -> list[Row]:
        [(ours, arrivals, drops)] = measured
        theirs = [
            (float(row["time_s"]), float(row["value"]))
            for row in data.rows("micro/red_average_wq0.002")
            if row["variable"] == "a"
        ]
        off = max(abs(x[1] - y[1]) / x[1] for x, y in zip(theirs, ours, strict=False))
        late = max(abs(x[0] - y[0]) for x, y in zip(theirs, ours, strict=False))
        # Theirs are printed with six significant digits.
        return [
            exact(name, "values of the average", len(theirs), len(ours), 0),
            exact(name, "largest difference (share)", 0, off, 5.001e-6),
            exact(name, "largest shift (s)", 0, late, 5.001e-5),
            exact(name, "arrivals", 1777, arrivals, 0),
            exact(name, "drops", 213, drops, 0),
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def _averages(run: Run) -> tuple[list[tuple[float, float]], int, int]:
    events = pl.col("event").cast(pl.String)
    arrivals = run.tables["packets"].filter(events.is_in(["enqueue", "drop"]))
    changed: list[tuple[float, float]] = []
    for time, average in arrivals.select("time_s", "average").iter_rows():
        if average != (changed[-1][1] if changed else 0.0):
            changed.append((time, average))
    return changed, arrivals.height, arrivals.filter(events == "drop").height
