"""Complete TCP senders, compared with the closed forms of TCP (`tcp_laws.py`).

These formulas approximate TCP, so each has a band of its own, which must contain the mean. If a formula is
known to neglect an effect, its row is printed, and another row shows the formula with this effect. Formulas
with a band of 20 % or more, and those that use a measured loss rate or queue, can hardly miss, and are
counted separately. Rates are those of packets sent. A data segment is a packet of 1000 B, and a round trip
takes 0.1 s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import closed_form
import tcp_laws as laws
from aqmlab.scenario.run import Run
from case import Case, Cause, Changes, Job
from judge import Row, exact
from tcp_laws import RTT


def cases() -> list[Case]:
    """Every formula under each of its conditions."""
    return [
        *(
            periodic_case(kind, b, gap)
            for kind in ("reno", "newreno", "sack")
            for b in (1, 2)
            for gap in (100, 1000, 10_000)
        ),
        *(periodic_case("sack", b, 100_000) for b in (1, 2)),
        *(random_case(b, p) for b in (1, 2) for p in (3e-3, 1e-3, 1e-4)),
        *(timeouts_case(b, p) for b in (1, 2) for p in (1e-3, 1e-2, 5e-2)),
        *(buffer_case(share) for share in (0.1, 0.25, 0.5, 0.75, 1.0)),
        *(
            many_case(queue, b, flows)
            for queue in ("red", "drop-tail")
            for b in (1, 2)
            for flows in (50, 100)
        ),
        slow_start_case(),
        syn_case(),
        *(transfer_case(segments, p) for segments in (10, 100, 1000) for p in (0.005, 0.01, 0.02)),
        *(highspeed_case(gap) for gap in (10_000, 100_000)),
        scalable_case(10_000),
        *(
            cubic_case(gap, rtt)
            for gap, rtt in ((1000, RTT), (10_000, RTT), (100_000, RTT), (10_000, RTT / 10))
        ),
        cubic_case(10_000, RTT, yields=True),
        *(fairness_case(queue) for queue in ("drop-random", "red", "drop-tail")),
    ]


# Congestion avoidance: the square-root formula


def periodic_case(recovery: str, b: int, gap: int) -> Case:
    """One loss every `gap` packets."""
    name = f"tcp {recovery} b={b} loss every {gap}"
    ideal = laws.mathis(1 / gap, b) * RTT / math.sqrt(gap)
    seconds = {100: 400, 1000: 600, 10_000: 1100, 100_000: 1500}[gap]
    changes = {
        **closed_form.every(gap),
        "tcp.recovery.kind": recovery,
        "tcp.receiver.delayed_ack": closed_form.EVERY[b],
        "tcp.cwnd.initial_ssthresh": max(20.0, math.sqrt(gap / b)),
        "duration": f"{seconds}s",
    }

    def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
        constant = [rate.per_second * RTT / math.sqrt(gap) for rate in measured]
        theory = laws.real_sender(gap, b) / math.sqrt(gap)
        # Periodic losses lock the cycle to whole rounds, a large effect if a cycle has few rounds.
        lock = 0.5 * theory / math.sqrt(gap) if gap == 100 else 0.01
        note = "band half a round in a cycle" if gap == 100 else ""
        share = 0.01 if gap >= 100_000 else 0.0
        return [
            closed_form.row(
                name, "rate RTT sqrt(p), ideal", ideal, constant, share, "" if share else closed_form.REPAIRS
            ),
            closed_form.row(name, "the same, real sender", theory, constant, lock, note),
        ]

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, closed_form.rate), judge=judge)


def random_case(b: int, p: float, seeds: int = 8) -> Case:
    """Independent losses of data: ideal AIMD has the constants 1.31 and, averaged over packets, 1.53."""
    name = f"tcp sack b={b} random p={p:g}"
    changes = {
        "bottleneck.queue.probability": p,
        "bottleneck.queue.min_size": closed_form.DATA_ONLY,
        "tcp.receiver.delayed_ack": closed_form.EVERY[b],
        "record.senders": ["one"],
        "duration": "1600s" if p < 1e-3 else "1100s",
    }

    def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
        rates = [rate.per_second for rate in measured]
        root = math.sqrt(b * p)
        rows = [closed_form.row(name, "packets/s, Mathis", laws.mathis(p, b), rates, 0.15)]
        if p <= 1e-3:
            constant = [rate * RTT * root for rate in rates]
            window = [rate.window * root for rate in measured]
            rows.append(closed_form.row(name, "rate RTT sqrt(b p)", 1.31, constant, 0.08))
            rows.append(closed_form.row(name, "window over packets sqrt(b p)", 1.53, window, 0.08))
        return rows

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, closed_form.rate, seeds), judge=judge)


# With timeouts: PFTK and RFC 5348


def timeouts_case(b: int, p: float, seeds: int = 6) -> Case:
    """Independent losses, Reno without limited transmit; the formulas use the measured loss events."""
    name = f"tcp reno b={b} random p={p:g}"
    changes = {
        "bottleneck.queue.probability": p,
        "bottleneck.queue.min_size": closed_form.DATA_ONLY,
        "tcp.recovery.kind": "reno",
        "tcp.recovery.limited_transmit": "off",
        "tcp.receiver.delayed_ack": closed_form.EVERY[b],
    }

    def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
        rates = [rate.per_second for rate in measured]
        events = math.fsum(rate.events for rate in measured) / len(measured)
        theory, share = laws.pftk(events, b)
        note = (
            "the formula assumes that the rest of a round is lost with its first lost packet, but here "
            "packets are lost independently"
        )
        return [
            closed_form.row(name, "packets/s, PFTK", theory, rates, 0.2),
            closed_form.row(name, "packets/s, RFC 5348", laws.rfc5348(events, b), rates, 0.2),
            closed_form.row(
                name, "time-outs per loss event", share, [rate.timeouts for rate in measured], 0.0, note
            ),
        ]

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, closed_form.rate, seeds), judge=judge)


# At a queue


def buffer_case(share: float) -> Case:
    """One Reno flow and a buffer that is a share of the bandwidth-delay product, 125 packets."""
    name = f"tcp reno buffer {share:g} of the product"
    limit = round(share * 125)
    changes = {
        "bottleneck.rate": "10Mbps",
        "bottleneck.queue": {"kind": "drop-tail", "limit": f"{limit}p"},
        "tcp.recovery.kind": "reno",
    }

    def judge(measured: Sequence[float]) -> list[Row]:
        return [closed_form.row(name, "utilisation", laws.sawtooth_utilisation(limit / 125), measured, 0.02)]

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, _used), judge=judge)


def _used(run: Run) -> float:
    return float(run.links.row(0, named=True)["utilisation"])


class Crowd(NamedTuple):
    """The effect of many flows on a link."""

    losses: float
    events: float
    queue: float


def many_case(queue: str, b: int, flows: int, seeds: int = 3) -> Case:
    """Many flows, round trips from 60 to 140 ms without queueing."""
    name = f"tcp sack b={b} {queue} with {flows} flows"
    red = {"kind": "red", "min_th": "200p", "max_th": "600p", "max_p": 0.05, "limit": "2500p"}
    changes = {
        "bottleneck.rate": "100Mbps",
        "bottleneck.delay": "29ms",
        "bottleneck.queue": red if queue == "red" else {"kind": "drop-tail", "limit": "625p"},
        "access.rate": "1Gbps",
        "tcp.receiver.delayed_ack": closed_form.EVERY[b],
        "traffic.one": {"kind": "ftp", "flows": flows, "stagger": "20s", "extra_delay": ["0ms", "40ms"]},
        "warm_up": "40s",
        "duration": "120s",
    }

    def judge(measured: Sequence[Crowd]) -> list[Row]:
        load = 100e6 / 8000 * RTT + math.fsum(crowd.queue for crowd in measured) / len(measured)
        theory = laws.many_flows(flows, load, b)
        note = "a full queue drops several packets of one window at once"
        return [
            closed_form.row(
                name, "loss events per packet", theory, [crowd.events for crowd in measured], 0.5
            ),
            closed_form.row(name, "losses per packet", theory, [crowd.losses for crowd in measured], 0.5)
            if queue == "red"
            else closed_form.row(
                name, "losses per packet", theory, [crowd.losses for crowd in measured], 0.0, note
            ),
        ]

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, _crowd, seeds), judge=judge)


def _crowd(run: Run) -> Crowd:
    link = run.links.row(0, named=True)
    events = int(run.flows["timeouts"].sum()) + int(run.flows["fast_retransmits"].sum())
    return Crowd(link["drop_fraction"], events / link["arrivals"], link["mean_queue_packets"])


def fairness_case(queue: str, seeds: int = 4) -> Case:
    """Five flows of 40 ms and five of 160 ms: rates are proportional to RTT^-1 with independent losses,
    nearly so with RED, and up to RTT^-2 if all flows lose packets together."""
    name = f"tcp sack {queue} unequal round trips"
    queues = {
        "drop-random": {"kind": "drop-random", "probability": 0.002, "limit": "1000000p"},
        "red": {"kind": "red", "min_th": "20p", "max_th": "200p", "limit": "1000p"},
        "drop-tail": {"kind": "drop-tail", "limit": "125p"},
    }
    flows = {"kind": "ftp", "flows": 5, "stagger": "5s"}
    changes = {
        "bottleneck.rate": "10Gbps" if queue == "drop-random" else "20Mbps",
        "bottleneck.delay": "19ms",
        "bottleneck.queue": queues[queue],
        "host.jitter": "1ms",
        "traffic": {"near": flows, "far": {**flows, "extra_delay": ["60ms", "60ms"]}},
        "duration": "400s",
    }

    def judge(measured: Sequence[float]) -> list[Row]:
        if queue == "drop-tail":
            return [
                closed_form.row(
                    name, "exponent of the round trip", 1.5, measured, 1 / 3, "anywhere from 1 to 2"
                )
            ]
        return [
            closed_form.row(
                name, "exponent of the round trip", 1.0, measured, 0.1 if queue == "red" else 0.05
            )
        ]

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, _exponent, seeds), judge=judge)


def _exponent(run: Run) -> float:
    sent = dict(run.flows.group_by("traffic").sum().select("traffic", "packets_sent").rows())
    wait = run.links.row(0, named=True)["mean_queue_delay_s"]
    return math.log(sent["near"] / sent["far"]) / math.log((0.16 + wait) / (0.04 + wait))


# Short transfers


def slow_start_case() -> Case:
    """A transfer without loss takes a round trip for the handshake and its rounds, the last of them one
    way."""
    name = "tcp slow start"
    sizes = [(segments, window) for segments in (10, 100) for window in (1, 2, 4, 10)]

    def jobs() -> list[Job]:
        return [
            job
            for segments, window in sizes
            for job in closed_form.jobs(_transfers(segments, 0.0, flows=1, window=window), _seconds)
        ]

    def judge(measured: Sequence[float]) -> list[Row]:
        return [
            exact(
                name,
                f"rounds of {segments} segments from {window}",
                math.ceil(math.log2(segments / window + 1)),
                round(seconds / RTT - 0.5, 2),
                0.01,
            )
            for (segments, window), seconds in zip(sizes, measured, strict=True)
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def syn_case() -> Case:
    """A SYN that is lost k times costs (2^k - 1) initial RTOs."""
    name = "tcp lost SYN"
    wanted = [(first, lost) for first in (1, 3) for lost in (0, 1, 2, 3)]

    def jobs() -> list[Job]:
        made: list[Job] = []
        for first, lost in wanted:
            queue = {"kind": "drop-nth", "packets": list(range(1, lost + 1))}
            changes = {"bottleneck.queue": queue, "tcp.rto.initial": f"{first}s"}
            made += closed_form.jobs({**_transfers(10, 0.0, flows=1), **changes}, _seconds)
        return made

    def judge(measured: Sequence[float]) -> list[Row]:
        found = dict(zip(wanted, measured, strict=True))
        return [
            exact(
                name,
                f"delay (s), first time-out {first} s, lost {lost} times",
                first * (2**lost - 1),
                found[first, lost] - found[first, 0],
                1e-9,
            )
            for first, lost in wanted
            if lost
        ]

    return Case(name=name, jobs=jobs, judge=judge)


def _transfers(segments: int, p: float, flows: int, window: int = 2) -> dict[str, object]:
    """Transfers of `segments` full segments at random times."""
    return {
        "bottleneck.queue.probability": p,
        "tcp.recovery.kind": "reno",
        "tcp.cwnd.initial_ssthresh": None,
        "tcp.cwnd.initial": window,
        "tcp.cwnd.initial_after_syn_loss": window,
        "traffic.one": {
            "kind": "ftp",
            "flows": flows,
            "sizes": {"kind": "constant", "value": f"{960 * segments}B"},
            "stagger": "100s",
        },
        "duration": "300s",
        "warm_up": "0s",
    }


def _seconds(run: Run) -> float:
    if not run.transfers["complete"].all():
        raise ValueError("a transfer did not complete: the run is too short")
    mean: float = run.transfers["duration_s"].mean()  # type: ignore[assignment]
    return mean


def transfer_case(segments: int, p: float, seeds: int = 5, transfers: int = 2500) -> Case:
    """The mean over many transfers. The window gradually decreases to its steady state, which the formula
    assumes from the beginning; the effect decreases with the length of the transfer."""
    name = f"tcp reno transfer of {segments} at p={p:g}"
    changes = _transfers(segments, p, flows=transfers // seeds)

    def judge(measured: Sequence[float]) -> list[Row]:
        return [
            closed_form.row(name, "duration (s), Cardwell", laws.cardwell(segments, p, 2), measured, 0.15)
        ]

    causes: tuple[Cause, ...] = ()
    if segments == 1000:
        cause = Cause(
            why=(
                "Cardwell's formula assumes the steady window as soon as slow start ends, but a real window "
                "decreases to it gradually"
            ),
            switch="ten times the segments",
            again=transfer_case(10 * segments, p, transfers=250),
        )
        causes = (cause,)
    jobs = partial(closed_form.jobs, changes, _seconds, seeds)
    return Case(name=name, jobs=jobs, judge=judge, causes=causes)


# Other congestion controls, one loss every `gap` packets


def _windows(name: str, changes: Changes, rows: Callable[[list[float]], list[Row]], rtt: float = RTT) -> Case:
    def judge(measured: Sequence[closed_form.Rate]) -> list[Row]:
        return rows([rate.per_second * rtt for rate in measured])

    return Case(name=name, jobs=lambda: closed_form.jobs(changes, closed_form.rate), judge=judge)


def highspeed_case(gap: int) -> Case:
    """HighSpeed TCP."""
    name = f"tcp highspeed loss every {gap}"
    theory = laws.highspeed_window(gap)
    changes = {
        **closed_form.every(gap),
        "tcp.congestion_control": {"kind": "highspeed"},
        "tcp.cwnd.initial_ssthresh": theory,
        "duration": "600s",
    }
    return _windows(
        name, changes, lambda ours: [closed_form.row(name, "window, RFC 3649", theory, ours, 0.05)]
    )


def scalable_case(gap: int) -> Case:
    """Scalable TCP."""
    name = f"tcp scalable loss every {gap}"
    changes = {
        **closed_form.every(gap),
        "tcp.congestion_control": {"kind": "scalable"},
        "tcp.cwnd.initial_ssthresh": laws.scalable_window(gap),
        "duration": "400s",
    }

    def rows(ours: list[float]) -> list[Row]:
        return [
            closed_form.row(name, "window, ideal", laws.scalable_window(gap), ours, 0.0, closed_form.REPAIRS),
            closed_form.row(name, "the same, real sender", laws.scalable_real_sender(gap), ours, 0.01),
        ]

    return _windows(name, changes, rows)


def cubic_case(gap: int, rtt: float, yields: bool = False) -> Case:
    """CUBIC, with fast convergence if `yields`, which the formula neglects. The cycle converges slowly, so
    the first loss occurs at the window to which it converges."""
    name = f"tcp cubic loss every {gap} at {1000 * rtt:g} ms" + (" with fast convergence" if yields else "")
    note = "the formula neglects fast convergence" if yields else ""
    theory = laws.cubic_window(gap, rtt)
    top = theory / 0.925
    changes = {
        **closed_form.every(gap, first=round(3 * top)),
        "bottleneck.delay": f"{round(1000 * rtt) // 2 - 1}ms",
        "tcp.congestion_control": {"kind": "cubic", "fast_convergence": yields},
        "tcp.cwnd.initial_ssthresh": top,
        "duration": "300s" if rtt < RTT else "600s",
    }
    return _windows(
        name,
        changes,
        lambda ours: [closed_form.row(name, "window, RFC 9438", theory, ours, 0.0 if yields else 0.05, note)],
        rtt,
    )
