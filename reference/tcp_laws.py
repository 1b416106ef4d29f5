"""Closed forms of TCP: the rate of a sender at a given loss rate, or with a given buffer.

M. Mathis, J. Semke, J. Mahdavi, T. Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
Algorithm", 1997; J. Padhye, V. Firoiu, D. Towsley, J. Kurose, "Modeling TCP Throughput", 1998 (PFTK);
RFC 5348, section 3.1; N. Cardwell, S. Savage, T. Anderson, "Modeling TCP Latency", 2000; G. Appenzeller,
I. Keslassy, N. McKeown, "Sizing Router Buffers", 2004; R. Morris, "Scalable TCP Congestion Control", 2000,
in RFC 7928; RFC 3649 (HighSpeed); RFC 9438 (CUBIC); T. Kelly, "Scalable TCP", 2003.

Packets are packets sent, windows are averages over time. `b` is the number of segments per acknowledgement,
`gap` the number of packets per loss, `p` the loss rate, per loss event in formulas with timeouts.
"""

from __future__ import annotations

import math

RTT = 0.1
TIME_OUT = 0.4
SYN_TIME_OUT = 1.0


def mathis(p: float, b: int) -> float:
    """The square-root formula, in packets per second."""
    return math.sqrt(1.5 / (b * p)) / RTT


def real_sender(gap: int, b: int) -> float:
    """Packets per round of AIMD that detects a loss a round later, repairs it in another round and sends
    whole segments: a cycle has 1.5 W packets more, and a round half a segment less."""
    window = (-1.5 + math.sqrt(2.25 + 1.5 * b * gap)) / (0.75 * b)
    return 0.75 * window - 0.5


def backed_off(p: float) -> float:
    """G(p): the mean length of a run of timeouts, in units of the first timeout, times 1 - p."""
    return 1 + p + 2 * p**2 + 4 * p**3 + 8 * p**4 + 16 * p**5 + 32 * p**6


def timeout_share(p: float, window: float) -> float:
    """Q: the share of loss events that end in a timeout, at this window."""
    kept = math.pow(1 - p, 3)
    reached = (1 + kept * (1 - math.pow(1 - p, window - 3))) / (1 - math.pow(1 - p, window))
    return min(1.0, (1 - kept) * reached)


def pftk(p: float, b: int) -> tuple[float, float]:
    """Packets per second at the loss-event rate `p`, and the share of timeouts."""
    third = (2 + b) / (3 * b)
    window = third + math.sqrt(8 * (1 - p) / (3 * b * p) + third**2)
    share = timeout_share(p, window)
    packets = (1 - p) / p + window + share / (1 - p)
    seconds = RTT * (b * window / 2 + 1) + share * backed_off(p) * TIME_OUT / (1 - p)
    return packets / seconds, share


def rfc5348(p: float, b: int) -> float:
    """The throughput equation of TFRC, in packets per second."""
    timeouts = TIME_OUT * 3 * math.sqrt(3 * b * p / 8) * p * (1 + 32 * p**2)
    return 1 / (RTT * math.sqrt(2 * b * p / 3) + timeouts)


def cardwell(segments: int, p: float, window: int) -> float:
    """The mean time until the last segment arrives, half a round trip before it is acknowledged.

    Cardwell, Savage & Anderson, with every segment acknowledged, and losses of data only.
    """
    opening = RTT + SYN_TIME_OUT * ((1 - p) / (1 - 2 * p) - 1)
    any_loss = 1 - (1 - p) ** segments
    before = any_loss * (1 - p) / p + 1
    slow_start = RTT * math.log2(before / window + 1)
    share = timeout_share(p, before / 2 + window / 2)
    repair = any_loss * (share * backed_off(p) * TIME_OUT / (1 - p) + (1 - share) * RTT)
    avoidance = (segments - before) / pftk(p, 1)[0]
    return opening + slow_start + repair + avoidance - RTT / 2


def sawtooth_utilisation(share: float) -> float:
    """Utilisation of a link by one Reno flow with a buffer of this share (at most 1) of the BDP."""
    return 0.75 * (1 + share) ** 2 / (1 + share + share**2)


def many_flows(flows: int, on_the_way: float, b: int) -> float:
    """The loss rate of `flows` flows that share `on_the_way` packets, including queued ones: 1.5/(b W^2),
    with each flow's share for W. RFC 7928 has 0.76 instead of 1.5/b, that is, b = 2."""
    return 1.5 / b * (flows / on_the_way) ** 2


def highspeed_window(gap: int) -> float:
    """HighSpeed TCP: 0.12/p^0.835."""
    return 0.12 * math.pow(gap, 0.835)


def scalable_window(gap: int) -> float:
    """Scalable TCP: a/(-ln(1 - b))/p with a = 0.01 and b = 1/8, for large windows."""
    return 0.01 / -math.log(1 - 0.125) * gap


def scalable_real_sender(gap: int) -> float:
    """Scalable TCP with a round of repair, in which the window is constant, after the 13.4 rounds of a
    cycle."""
    return gap / (-math.log(1 - 0.125) / math.log(1 + 0.01) + 1)


def cubic_window(gap: int, rtt: float) -> float:
    """CUBIC's mean window with C = 0.4 and beta = 0.7, or Reno's if that is larger."""
    cubic = math.pow(0.4 * (3 + 0.7) / (4 * (1 - 0.7)), 0.25) * math.pow(rtt * gap, 0.75)
    return max(cubic, math.sqrt(1.5 * gap))


def cubic_real_sender(gap: int, rtt: float, c: float, step: float = 0.25, cycles: int = 1000) -> float:
    """Packets per round of CUBIC that detects a loss a round later, repairs it in another round and sends
    whole segments; the window is at each time the larger of CUBIC's curve and of Reno's (RFC 9438, sections
    4.2 and 4.3). The cycle is integrated in steps of `step` rounds until it repeats."""
    top = cubic_window(gap, rtt)
    rounds = math.inf
    for _ in range(cycles):
        before, prior = rounds, top
        plateau = math.cbrt(0.3 * prior / c)
        reno = window = 0.7 * prior
        packets, rounds, until = 1.7 * prior, 2.0, math.inf
        while rounds < until:
            if packets >= gap and until == math.inf:
                until = rounds + 1 - (packets - gap) / window
            # The window at time t is the target for the next round (RFC 9438, section 4.2).
            reno += step * (1.0 if reno >= prior else 3 * 0.3 / 1.7)
            curve = c * ((rounds - 2 + step) * rtt - plateau) ** 3 + prior
            larger = max(window, curve, reno)
            packets += step * (window + larger) / 2
            rounds += step
            window = larger
        top = window
        rounds = until - 1
        if abs(rounds - before) < 1e-6 * rounds:
            break
    return gap / rounds - 0.5
