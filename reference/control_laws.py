"""Congestion controls for fast paths and for marks, compared with published tables and laws.

RFC 9438, section 5.1, tables 1 and 2: average windows of HighSpeed TCP (computed with RFC 3649) and of CUBIC
with one loss every 1/p packets, with a round trip of 0.1 and 0.01 s; section 5.2, table 3: loss rates at
which windows of 83.3 and 833.3 segments are reached. The cases of `tcp_theory.py` contain the other rows from
10^-3 to 10^-5. Rows with 10^-7 and 10^-8 are left out because of their cost: a cycle has 10^7 packets or
more.

DCTCP and Prague with marks at random: `mark_laws.py` describes the laws and the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import closed_form
import mark_laws
import tcp_laws
from aqmlab.scenario.run import Run
from case import Case, Cause, Job
from judge import Row
from tcp_laws import RTT

TABLE_BAND = 0.05
"""Band of a table's window: that of the formulas of HighSpeed TCP and CUBIC in `tcp_theory.py`."""
MARKS_BAND = 0.03
RATIO_BAND = 0.05
HIGHSPEED = {1e-2: 12, 1e-3: 38, 1e-6: 12_280}
"""Windows of HighSpeed TCP by loss rate (RFC 9438, table 1)."""
CUBIC = {
    (RTT, 0.4): {1e-2: 12, 1e-6: 5926},
    (RTT, 0.04): {1e-4: 120, 1e-5: 593},
    (RTT, 4.0): {1e-3: 59, 1e-4: 333, 1e-5: 1874},
    (RTT / 10, 0.4): {1e-2: 12, 1e-3: 38, 1e-5: 379, 1e-6: 1200},
}
"""Windows of CUBIC by round trip, parameter C and loss rate (RFC 9438, tables 1 and 2)."""
HIGHSPEED_REGION = 1e-3
"""Loss rate from which HighSpeed TCP behaves as Reno (RFC 3649: `Low_P`)."""
RATES = {"highspeed": {3.9e-4: 83.3, 2.5e-5: 833.3}, "cubic": {2.9e-4: 83.3, 1.4e-5: 833.3}}
"""Windows for 10 and 100 Mb/s with packets of 1500 B by control and loss rate (RFC 9438, table 3)."""
CYCLE = (
    "the table neglects the round trips in which a sender detects and repairs a loss, and contains the "
    "larger of two mean windows, whereas a CUBIC sender has the larger of two windows at each time"
)
PROBABILITIES = (0.01, 0.02, 0.05, 0.1, 0.2)
ONCE = (
    "the ideal laws assume a reduction in each round trip and fractions of segments, but a sender waits for "
    "the first mark after the round trip of a reduction, and sends whole segments"
)
TRANSITION = 500
"""Round trips from slow start to Prague's independence of the round trip (`prague_rtt_transition`)."""


def cases() -> list[Case]:
    """Every row of the tables that other cases lack, and every law of marks."""
    return [
        *(table_case("highspeed", RTT, p, window) for p, window in HIGHSPEED.items()),
        *(
            table_case("cubic", rtt, p, window, c)
            for (rtt, c), windows in CUBIC.items()
            for p, window in windows.items()
        ),
        *(table_case(kind, RTT, p, window) for kind, rows in RATES.items() for p, window in rows.items()),
        *(marks_case(kind, p) for kind in ("dctcp", "prague") for p in PROBABILITIES),
        round_trips_case(0.05),
    ]


# Tables


def table_case(kind: str, rtt: float, p: float, window: float, c: float = 0.4) -> Case:
    """One loss every 1/p packets; the first loss occurs near the window before a loss in the steady state."""
    control = {"kind": "cubic", "c": c, "fast_convergence": False} if kind == "cubic" else {"kind": kind}
    name = f"law table {kind}{f' c={c:g}' if kind == 'cubic' else ''} {1000 * rtt:g} ms p={p:g}"
    gap = round(1 / p)
    top = window / (0.925 if kind == "cubic" else 1.0)
    changes = {
        **closed_form.every(gap, first=round(3 * top) if kind == "cubic" else None),
        "bottleneck.delay": f"{round(1000 * rtt) // 2 - 1}ms",
        "tcp.congestion_control": control,
        "tcp.cwnd.initial_ssthresh": top,
        "duration": "300s" if rtt < RTT or window > 10_000 else "600s",
    }

    def judged(theory: Callable[[], float]) -> Callable[[Sequence[closed_form.Rate]], list[Row]]:
        def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
            ours = [rate.per_second * rtt for rate in measured]
            return [closed_form.row(name, "window, RFC 9438", theory(), ours, TABLE_BAND)]

        return judge

    def jobs() -> list[Job]:
        return closed_form.jobs(changes, closed_form.rate)

    def cycle() -> float:
        if kind == "cubic":
            return tcp_laws.cubic_real_sender(gap, rtt, c)
        return tcp_laws.real_sender(gap, 1)

    causes: tuple[Cause, ...] = ()
    if kind == "cubic" or p >= HIGHSPEED_REGION:
        again = Case(name=name, jobs=jobs, judge=judged(cycle))
        causes = (Cause(why=CYCLE, switch="a model of the cycle", again=again, same_runs=True),)
    return Case(name=name, jobs=jobs, judge=judged(lambda: window), causes=causes)


# Random marks


def marks_case(kind: str, p: float, seeds: int = 4) -> Case:
    """The window with marks at random, in packets sent per round trip of 0.1 s."""
    name = f"law marks {kind} p={p:g}"
    changes = {**_marks(kind, p), "duration": "1100s"}
    unmarked = 1.0 if kind == "dctcp" else 1 - p

    def judged(theories: Callable[[], Sequence[float]]) -> Callable[[Sequence[closed_form.Rate]], list[Row]]:
        def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
            ours = [rate.per_second * RTT for rate in measured]
            return [
                closed_form.row(name, quantity, theory, ours, MARKS_BAND)
                for quantity, theory in zip(quantities, theories(), strict=True)
            ]

        return judge

    quantities = ("window, reduced every round trip", "window, reduced by the next mark")

    def laws() -> list[float]:
        return [unmarked * mark_laws.every_round_trip(p), unmarked * mark_laws.once_per_round_trip(p)]

    def model() -> list[float]:
        if kind == "dctcp":
            return 2 * [mark_laws.dctcp_window(p)]
        return 2 * [mark_laws.prague_rate(p, RTT, independent=False) * RTT]

    def jobs() -> list[Job]:
        return closed_form.jobs(changes, closed_form.rate, seeds)

    again = Case(name=name, jobs=jobs, judge=judged(model))
    cause = Cause(why=ONCE, switch="a model of this rule", again=again, same_runs=True)
    return Case(name=name, jobs=jobs, judge=judged(laws), causes=(cause,))


def round_trips_case(p: float, seeds: int = 8) -> Case:
    """Prague's rates with round trips of 5, 10 and 25 ms: before the transition, rates are inversely
    proportional to round trips; afterwards, rates are equal."""
    name = f"law marks prague p={p:g} round trips"
    trips = (0.005, 0.01, 0.025)

    def jobs() -> list[Job]:
        return [job for trip in trips for span in _spans(trip) for job in _trip_jobs(p, trip, span, seeds)]

    def judged(theory: Callable[[float, bool], float]) -> Callable[[Sequence[float]], list[Row]]:
        def judge(measured: Sequence[float]) -> list[Row]:
            rates = [measured[at : at + seeds] for at in range(0, len(measured), seeds)]
            by_trip = {trip: rates[2 * index : 2 * index + 2] for index, trip in enumerate(trips)}
            rows = []
            for after, when in enumerate(("before", "after")):
                for trip in trips[:2]:
                    pairs = zip(by_trip[trip][after], by_trip[trips[2]][after], strict=True)
                    quantity = f"rate at {1000 * trip:g} ms by rate at 25 ms, {when}"
                    ours = [near / far for near, far in pairs]
                    rows.append(closed_form.row(name, quantity, theory(trip, bool(after)), ours, RATIO_BAND))
            return rows

        return judge

    def ideal(trip: float, after: bool) -> float:
        return 1.0 if after else trips[2] / trip

    def model(trip: float, after: bool) -> float:
        return mark_laws.prague_rate(p, trip, after) / mark_laws.prague_rate(p, trips[2], after)

    again = Case(name=name, jobs=jobs, judge=judged(model))
    cause = Cause(why=ONCE, switch="a model of this rule", again=again, same_runs=True)
    return Case(name=name, jobs=jobs, judge=judged(ideal), causes=(cause,))


def _spans(trip: float) -> list[tuple[float, float]]:
    """Warm-up and end of the runs before and after the transition, in seconds. The window of a flow needs
    3/p round trips, at most of 25 ms, to approach its mean."""
    return [(200 * trip, (TRANSITION - 20) * trip), (20.0, 120.0)]


def _trip_jobs(p: float, trip: float, span: tuple[float, float], seeds: int) -> list[Job]:
    changes = {
        **_marks("prague", p),
        "bottleneck.delay": f"{trip / 2 * 1e6 - 1000:.0f}us",
        "warm_up": f"{span[0]:g}s",
        "duration": f"{span[1]:g}s",
    }
    return closed_form.jobs(changes, _per_second, seeds)


def _per_second(run: Run) -> float:
    return closed_form.rate(run).per_second


def _marks(kind: str, p: float) -> dict[str, Any]:
    """A sender whose data is marked with probability p."""
    return {
        "bottleneck.queue.probability": p,
        "bottleneck.queue.min_size": closed_form.DATA_ONLY,
        "bottleneck.queue.mark": True,
        "tcp.congestion_control": {"kind": kind},
        "tcp.ecn.mode": "on",
        "tcp.cwnd.initial_ssthresh": math.ceil(mark_laws.every_round_trip(p)),
    }
