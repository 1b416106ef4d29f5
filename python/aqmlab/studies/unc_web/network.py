"""The network, the traffic and the queues, the grid of experiments, and details that the talk leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aqmlab.scenario import changed
from aqmlab.studies.shared import TableChange, queue_with
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.measures import WAYS
from aqmlab.study import Decision, Experiment, Form, Variant
from aqmlab.sweep import Changes

RATE_MBPS = 10
WARM_UP_S = 120.0
LOADS = (50, 60, 70, 80, 85, 90, 95, 100, 105)
"""Offered loads, in percent of the link rate in each direction."""

PLOTTED = (80, 105)
"""Loads whose distributions the talk shows."""

PAIRS = 125_000
"""Requests in each direction; the talk used 250 000 in total."""

FULL_LOAD: Mapping[str, float] = {"as decided": 136.5, "MSS 536": 128.3, "HTTP/1.1": 127.0}
"""New connections per second and direction that offer 100 % of the link rate, by traffic.

The first is from `aqmlab calibrate` with 20 replications of 250 000 connections: 136.5 [135.5, 137.6]. The
other numbers are computed from the ratios of the loads that equal numbers of connections cause to the load of
the first traffic, paired by seed: 1.0643 [1.0640, 1.0646] and 1.075 [1.073, 1.077]. The experiment
`calibration` measures all of them again."""

FULL_RATE = FULL_LOAD["as decided"]

MEAN_PACKET = 500
LIMIT = 555
"""Buffer in packets: five times Drop Tail's buffer, and thus more than twice `max_th`."""

ADAPTIVE_RED: Mapping[str, Any] = {
    "kind": "adaptive-red",
    "target_delay": "5ms",
    "mean_packet": f"{MEAN_PACKET}B",
    "limit": f"{LIMIT}p",
    "adapts_on": "arrivals",
    "bounds": "passed",
    "bottom": 80e3 / (RATE_MBPS * 1e6),
    "gentle_line": "stale",
    "spacing": "wait",
}
"""Adaptive RED of ns-2 in 2003."""

COUNTS_BYTES = {"limit": f"{LIMIT * MEAN_PACKET}B", "packet_scaling": "after-count"}
"""Counting in bytes, with which large packets are dropped more often, as in ns-2."""

MARKS = {"ecn": "unless-forced", "mark_p": 0.1}
DROP_TAIL = {"kind": "drop-tail", "limit": "111p"}


def _queues_with(**parameters: Any) -> dict[str, Any]:
    """Changes of parameters of the queues in both directions."""
    return {f"links.{way}.queue.{name}": value for way in WAYS for name, value in parameters.items()}


def aiming_at(target: str, ending: str = "") -> Changes:
    """Adaptive RED with a target delay, without and with ECN."""
    drops = {"tcp.ecn.mode": "off", **_queues_with(target_delay=target)}
    marks = {"tcp.ecn.mode": "on", **_queues_with(target_delay=target, **MARKS)}
    return Changes({f"ARED{ending}": drops, f"ARED+ECN{ending}": marks})


UNITS = Changes({"packets": {}, "bytes": _queues_with(**COUNTS_BYTES)})
"""Units in which Adaptive RED counts."""

TCPS = Changes({"Reno": {"tcp.recovery.kind": "reno"}, "SACK": {"tcp.recovery.kind": "sack"}})


def lasting(pairs: float) -> str:
    """The duration after the warm-up in which this number of requests is made on average at full load."""
    return f"{WARM_UP_S + pairs / FULL_RATE:.9f}s"


def offering(rate: float) -> TableChange:
    """A change to this number of connections per second, with as many requests in total as at full load."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        warm_up_s, end_s = (float(table[key][:-1]) for key in ("warm_up", "duration"))
        table["duration"] = f"{warm_up_s + (end_s - warm_up_s) * FULL_RATE / rate:.0f}s"
        return changed(table, {f"traffic.{way}.connections_per_second": round(rate, 3) for way in WAYS})

    return change


def loads(*percent: int) -> Changes:
    """Offered loads, in percent of the link rate."""
    return Changes({load: offering(FULL_RATE * load / 100) for load in percent})


def both_ways(queue: Mapping[str, Any], rate: str = f"{RATE_MBPS}Mbps", jitter: str = "0s") -> dict[str, Any]:
    """Web traffic in both directions that fills a link, with a separate delay for every connection."""
    ways = {"forward": {"from": "left", "to": "right"}, "reverse": {"from": "right", "to": "left"}}
    line = {"rate": rate, "delay": "1ms"}
    web = {"kind": "packmime", "connections_per_second": FULL_RATE}
    return {
        "duration": lasting(PAIRS),
        "warm_up": f"{WARM_UP_S:.0f}s",
        "access": {"rate": "100Mbps", "delay": "10us"},
        "host": {"jitter": jitter},
        "links": {name: {**way, **line, "queue": dict(queue)} for name, way in ways.items()},
        "tcp": {
            "connection": {"mss": "1460B", "nagle": "on"},
            "cwnd": {"initial": 2},
            "recovery": {"kind": "reno", "limited_transmit": "off"},
            "sack": {"dsack": "off"},
            "rto": {"initial": "3s", "min": "1s"},
            "receiver": {"window": 44, "delayed_ack_timer": "100ms"},
            "ecn": {"mode": "off"},
        },
        "traffic": {name: {**way, **web} for name, way in ways.items()},
        "record": {"drops": True, "queue_every": "0s"},
    }


TRAFFIC: Mapping[str, Mapping[str, Any]] = {
    "as decided": {},
    "MSS 536": {"tcp.connection.mss": "536B", "tcp.receiver.window": 122},
    "HTTP/1.1": {f"traffic.{way}.http": "1.1" for way in WAYS},
}
"""Traffic with a calibration of its own."""

# The grid

QUICK_PAIRS = 8_000
_QUICK_LOADS = (60, 80, 90, 105)
QUICK = {"duration": lasting(QUICK_PAIRS)}
_VARIED = {"load": (80, 90, 105)}
_RENO = Changes({"Reno": TCPS["Reno"]})

drop_tail = Experiment(
    "drop-tail",
    "Drop Tail",
    both_ways(DROP_TAIL),
    {"tcp": TCPS, "load": loads(*LOADS)},
    measures.WEB,
    seeds=5,
    most_seeds=20,
    quick=Form(seeds=3, axes={"load": _QUICK_LOADS}, changes=QUICK),
    varied=Form(axes=_VARIED),
    varied_quick=Form(seeds=2, axes={"load": (105,)}, changes={"duration": lasting(QUICK_PAIRS // 4)}),
)

adaptive_red = replace(
    drop_tail,
    name="adaptive-red",
    title="Adaptive RED",
    scenario=both_ways(ADAPTIVE_RED),
    axes={"queue": aiming_at("5ms"), "unit": UNITS, **drop_tail.axes},
    varied=Form(axes={"tcp": ("Reno",), **_VARIED}),
)

tuning = replace(
    adaptive_red,
    name="tuning",
    axes={"queue": aiming_at("60ms", " 60 ms"), "unit": UNITS, "tcp": _RENO, "load": loads(90, 95, 100, 105)},
    quick=Form(seeds=3, axes={"load": (105,)}, changes=QUICK),
    varied=None,
)

# The same system several times with the same traffic: differences by chance alone


def _alike(
    name: str, title: str, queue: Mapping[str, Any], at: Sequence[int], jitter: str = "0s", **axes: Any
) -> Experiment:
    return replace(
        drop_tail,
        name=name,
        title=title,
        scenario=both_ways(queue, jitter=jitter),
        axes={**axes, "load": loads(*at)},
        measures=[measures.CDF],
        quick=Form(seeds=3, axes={"load": [one for one in at if one in _QUICK_LOADS]}, changes=QUICK),
        varied=None,
    )


# Drop Tail has no random numbers, so hosts have a jitter of up to the time of a full packet, 1.2 ms.
drop_tails = _alike("drop-tails", "Drop Tail with jitter, twice", DROP_TAIL, PLOTTED, "1.2ms", draws=(0, 1))
six_areds = _alike("six-areds", "Adaptive RED, six times", ADAPTIVE_RED, (50, 60, 70), draws=tuple(range(6)))
two_areds = _alike("two-areds", "Adaptive RED, twice", ADAPTIVE_RED, PLOTTED, unit=UNITS, draws=(0, 1))

GRID = (drop_tail, adaptive_red, tuning, drop_tails, six_areds, two_areds)

# Details that the talk leaves open


def _same_load(table: dict[str, Any], traffic: str) -> dict[str, Any]:
    """A change to other traffic, with the number of connections that offers the same load."""
    for web in table["traffic"].values():
        rate = web["connections_per_second"] * FULL_LOAD[traffic] / FULL_RATE
        web["connections_per_second"] = round(rate, 3)
    return changed(table, TRAFFIC[traffic])


def _marking(table: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Changes the parameters of the queues that mark."""
    for link in table["links"].values():
        if "ecn" in link["queue"]:
            link["queue"].update(changes)
    return table


def _full_tcp(table: dict[str, Any]) -> dict[str, Any]:
    """FullTcp with unpublished details unchanged: SACK, ECN, and the receiver's window in bytes."""
    table = _same_load(table, "MSS 536")
    table["tcp"] = {
        "profile": "ns-2.2003-full",
        "recovery": {"kind": table["tcp"]["recovery"]["kind"]},
        "receiver": {"window": table["tcp"]["receiver"]["window"], "delayed_ack": "heartbeat"},
        "ecn": table["tcp"]["ecn"],
    }
    return table


_tcp = (
    Variant(
        "as ns-2 came in 2003",
        "FullTcp with its own recovery, timers and MSS of 536 B.",
        _full_tcp,
        title="ns-2's FullTcp of 2003",
    ),
    Variant(
        "MSS 536",
        "MSS of ns-2's FullTcp, at the same load.",
        partial(_same_load, traffic="MSS 536"),
        title="MSS of 536 B",
    ),
    Variant("minimum RTO 0.2 s", "As in ns-2 of 2004.", {"tcp.rto.min": "200ms"}),
    Variant("initial RTO 1 s", "As in RFC 6298.", {"tcp.rto.initial": "1s"}),
    Variant("initial RTO 6 s", "As in ns-2 until 2006.", {"tcp.rto.initial": "6s"}),
    Variant("initial window 10", "As in RFC 6928.", {"tcp.cwnd.initial": 10}),
)
_http = Variant(
    "HTTP/1.1",
    "Some connections persist over pages.",
    partial(_same_load, traffic="HTTP/1.1"),
    title="HTTP/1.1 connections",
)
_buffer = Variant(
    "twice the buffer",
    "222 packets for Drop Tail.",
    queue_with("drop-tail", limit="222p"),
    title="Drop Tail with twice the buffer",
)
_red = queue_with("adaptive-red", target_delay="60ms"), queue_with("adaptive-red", mean_packet="1000B")
_target = Variant(
    "target 60 ms", "Adaptive RED has a target delay of 60 ms.", _red[0], title="target delay of 60 ms"
)
_packet = Variant(
    "mean packet 1000 B", "Mean packet size of twice ns-2's default.", _red[1], title="mean packet of 1000 B"
)
_up_to = Variant(
    "marks up to twice max_th",
    "As ns-2 before April 2002.",
    partial(_marking, mark_p=1.0),
    title="marking up to twice max_th",
)
_always = Variant(
    "never drops what it may mark",
    "As in Linux.",
    partial(_marking, mark_p=1.0, ecn="always"),
    title="marking instead of dropping",
)

DECISIONS = (
    Decision(
        "TCP",
        "Complete TCP at both ends: three-way handshake, request and response on the same connection; MSS "
        "1460 B, initial window 2, an acknowledgement for every second segment or after 100 ms, no limited "
        "transmit, initial RTO 3 s, minimum RTO 1 s, window 64 kB (44 segments), Nagle's algorithm, no "
        "timestamps.",
        "The talk states Reno and SACK only; these are the standards and stacks of the time.",
        _tcp,
    ),
    Decision("HTTP", "1.0, one request per connection.", "The default of PackMime.", (_http,)),
    Decision("Drop Tail's buffer", "111 packets.", "1.2 mean bandwidth-delay products.", (_buffer,)),
    Decision(
        "Adaptive RED",
        "ns-2's of 2003: target 5 ms, a mean packet of 500 B, automatic thresholds and weight, gentle with "
        "a line that does not follow max_p, `wait`; a buffer of 555 packets.",
        "Defaults of the time; the talk's tuning is not known. The grid also has a target of 60 ms.",
        (_target, _packet),
    ),
    Decision("ECN", "Marks while p_b is at most 0.1.", "As ns-2 since April 2002.", (_up_to, _always)),
)
