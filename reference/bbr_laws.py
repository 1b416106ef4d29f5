"""BBR (version 1) beside Reno or CUBIC flows in a deep Drop Tail queue, compared with a published model.

R. Ware, M. Mukerjee, S. Seshan, J. Sherry, "Modeling BBR's Interactions with Loss-Based Congestion Control",
IMC 2019, equations (7) to (11). The model assumes that the queue is full, that a flow's share of the link
equals its share of the queue, and that BBR has as much data in flight as its limit of two estimated
bandwidth-delay products permits. BBR estimates the round trip while its own packets have left the queue and
the packets of other flows remain. For the time in which BBR drains the queue and stays in ProbeRTT, every 10
seconds, the model assumes that BBR sends nothing. The number of loss-based flows has no influence.

As in the paper's validation, the round trip is 40 ms, buffers have powers of two of the bandwidth-delay
product, and 400 s are measured. The bands are the paper's median errors: 5 % for CUBIC and 8 % for Reno.
About half of the paper's own measurements are therefore outside of the bands.

Two experiments search for causes. First, equation (7) is corrected: while BBR's packets are gone, the other
flows have the share p of the data that the queue and the path contain in total, p(q + cl), so that BBR
measures the round trip (p(q + cl) + 4N)/c instead of (pq + 4N)/c + l. With this round trip, equation (9)
becomes p = 1/2 - 4N/(q + cl). (This correction is derived here from the paper's assumptions.) Second, at the
settings of recorded Linux 6.1 runs of 50 s, the kernel's share takes the place of the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import closed_form
import data
import linux_bulk_controls
from aqmlab.scenario.run import Run
from case import Case, Cause, Job
from judge import Row
from linux_bulk import WHERE

ROUND_TRIP = 0.04
SECONDS = 400
PACKET = 1500
MSS = 1448
WINDOW = 4
"""BBR's window in ProbeRTT, in packets."""
PROBE_RTT, PROBE_EVERY = 0.2, 10.0
"""Time in ProbeRTT after the queue is drained, and time between two entries of ProbeRTT, in seconds."""
BANDS = {"cubic": 0.05, "reno": 0.08}
BUFFERS = (2, 4, 8, 16, 32)
"""Buffers in bandwidth-delay products."""
RECORDED = {
    "bulk_10m_60ms_pfifo1_cubic1_bbr1": (0.06, 50),
    "bulk_10m_60ms_pfifo4_cubic1_bbr1": (0.06, 200),
    "bulk_10m_20ms_pfifo4_cubic1_bbr1": (0.02, 68),
}
"""Round trip in seconds and buffer in packets of the kernel's runs, at 10 Mb/s, by condition."""
FRAME = 1514
"""Bytes of a packet in the kernel's runs."""
MEASURED_ROUND_TRIP = (
    "the model adds the whole propagation delay to the queue that the other flows leave when BBR measures "
    "the round trip, but these flows do not fill the path then"
)
QUANTITY = "share of the link, BBR"
KERNEL = "the Linux 6.1 kernel differs from the model, too"


def cases() -> list[Case]:
    """One BBR flow beside 1 and 16 flows at 10 Mb/s, and beside one CUBIC flow at 50 Mb/s."""
    return [
        *(
            share_case(kind, flows, buffer, rate=10)
            for kind in BANDS
            for flows in (1, 16)
            for buffer in BUFFERS
        ),
        *(share_case("cubic", 1, buffer, rate=50) for buffer in BUFFERS),
        *(recorded_case(condition) for condition in RECORDED),
    ]


def share_case(kind: str, flows: int, buffer: float, rate: int, seeds: int = 4) -> Case:
    """The share of the link of one BBR flow beside `flows` loss-based flows, at `rate` Mb/s."""
    name = f"law bbr {rate} Mb/s {flows} {kind} {buffer:g} bdp"
    limit = queue_limit(rate, buffer)
    changes = {
        "bottleneck.rate": f"{rate}Mbps",
        "bottleneck.queue.limit": f"{limit}p",
        "traffic.others.flows": flows,
        "traffic.others.tcp.congestion_control": {"kind": kind},
    }
    per_second = rate * 1e6 / (8 * PACKET)

    def judged(path_is_full: bool) -> Callable[[Sequence[float]], list[Row]]:
        def judge(measured: Sequence[float]) -> list[Row]:
            theory = share_of_bbr(per_second, ROUND_TRIP, limit, path_is_full=path_is_full)
            ours = [goodput * PACKET / MSS / (rate * 1e6) for goodput in measured]
            return [closed_form.row(name, QUANTITY, theory, ours, BANDS[kind])]

        return judge

    def jobs() -> list[Job]:
        return closed_form.jobs(changes, _goodput, seeds, scenario="bbr-law")

    again = Case(name=name, jobs=jobs, judge=judged(False))
    cause = Cause(why=MEASURED_ROUND_TRIP, switch="this round trip", again=again, same_runs=True)
    return Case(name=name, jobs=jobs, judge=judged(True), causes=(cause,))


def recorded_case(condition: str) -> Case:
    """The share of one BBR flow beside one CUBIC flow, at the settings of recorded runs of the kernel."""
    name = f"law bbr {condition}"
    round_trip, limit = RECORDED[condition]
    theory = share_of_bbr(10e6 / (8 * FRAME), round_trip, limit)

    def judged(theory: Callable[[], float]) -> Callable[[Sequence[float]], list[Row]]:
        def judge(measured: Sequence[float]) -> list[Row]:
            ours = [goodput * FRAME / MSS / 10e6 for goodput in measured]
            return [closed_form.row(name, QUANTITY, theory(), ours, BANDS["cubic"])]

        return judge

    def kernel() -> float:
        flows = data.rows("controls_flows", WHERE)
        rates = [
            float(flow["goodput_mbps"])
            for flow in flows
            if flow["condition"] == condition and flow["cc"] == "bbr"
        ]
        return sum(rates) / len(rates) * FRAME / MSS / 10

    def jobs() -> list[Job]:
        runs = linux_bulk_controls.starts_of(condition)
        return [
            Job(
                scenario=linux_bulk_controls.scenario(condition, flows),
                seed=1 + number,
                measure=partial(_goodput, traffic=_bbr_of(flows)),
            )
            for number, flows in runs.items()
        ]

    again = Case(name=name, jobs=jobs, judge=judged(kernel))
    cause = Cause(why=KERNEL, switch="the kernel's share", again=again, same_runs=True)
    return Case(name=name, jobs=jobs, judge=judged(lambda: theory), causes=(cause,))


def queue_limit(rate: int, buffer: float) -> int:
    """The buffer in packets."""
    return round(buffer * rate * 1e6 / (8 * PACKET) * ROUND_TRIP)


def share_of_bbr(
    per_second: float, round_trip: float, limit: int, flows: int = 1, path_is_full: bool = True
) -> float:
    """The share of the link of `flows` BBR flows together (equation 10).

    The link sends `per_second` packets, the queue holds `limit` packets. `path_is_full` selects equation (7)
    of the paper; otherwise, the corrected equation is used.
    """
    path = per_second * round_trip
    if path_is_full:
        others = 1 / 2 - path / (2 * limit) - WINDOW * flows / limit  # equation (9)
    else:
        others = 1 / 2 - WINDOW * flows / (limit + path)
    # Equation (11), as a share of the time.
    silent = (limit / per_second + PROBE_RTT + round_trip) / PROBE_EVERY
    # With a negative share of the others, BBR has the whole link.
    return (1 - max(0.0, others)) * (1 - silent)


def _bbr_of(flows: Sequence[tuple[str, float]]) -> str:
    """The traffic of the kernel's BBR flow."""
    return next(f"flow{index}" for index, (control, _) in enumerate(flows, 1) if control == "bbr")


def _goodput(run: Run, traffic: str = "bbr") -> float:
    """Bits per second of the flows of a traffic."""
    return float(run.flows.filter(run.flows["traffic"] == traffic)["goodput_bps"].sum())
