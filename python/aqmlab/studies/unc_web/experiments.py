"""The experiments of the study `unc-web`: scenarios, axes, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from aqmlab.comparison.calibrate import ROOM, UNCONGESTED
from aqmlab.scenario import changed
from aqmlab.studies.shared import Alters
from aqmlab.studies.unc_web import measures
from aqmlab.studies.unc_web.measures import WAYS
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep import Changes

RATE_MBPS = 10
WARM_UP_S = 120.0
LOADS = (50, 60, 70, 80, 85, 90, 95, 100, 105)
"""Offered loads, in percent of the line in each direction."""

PLOTTED = (80, 105)
"""The loads whose distributions the talk shows."""

PAIRS = 125_000
"""In each direction: the talk's 250 000 in all."""

QUICK_PAIRS = 8_000
SHORT_PAIRS = 25_000

FULL_LOAD: Mapping[str, float] = {"as decided": 136.5, "MSS 536": 128.3, "HTTP/1.1": 127.0}
"""New connections per second and direction that offer all of the line, by traffic.

The first by `aqmlab calibrate` over 20 replications of 250 000 connections: 136.5 [135.5, 137.6]. The
others by what as many connections offer over what those of the first do, seed by seed: 1.0643 [1.0640,
1.0646] and 1.075 [1.073, 1.077]. The experiment `calibration` measures all of them again."""

FULL_RATE = FULL_LOAD["as decided"]

# Queues

MEAN_PACKET = 500
LIMIT = 555
"""Packets: five times Drop Tail's buffer, and so more than twice `max_th`."""

ADAPTIVE_RED: Mapping[str, Any] = {
    "kind": "adaptive-red",
    "adapts_on": "arrivals",
    "bounds": "passed",
    "bottom": 80e3 / (RATE_MBPS * 1e6),
    "gentle_line": "stale",
    "spacing": "wait",
    "limit": f"{LIMIT}p",
    "mean_packet": f"{MEAN_PACKET}B",
    "target_delay": "5ms",
}
"""Adaptive RED of the ns-2 of 2003."""

COUNTS_BYTES = {"limit": f"{LIMIT * MEAN_PACKET}B", "packet_scaling": "after-count"}
"""In bytes, big packets are dropped more often, as in ns-2."""

MARKS = {"ecn": "unless-forced", "mark_p": 0.1}
DROP_TAIL = {"kind": "drop-tail", "limit": "111p"}


def _queues_with(**parameters: Any) -> dict[str, Any]:
    """Other parameters for the queues of both directions."""
    return {f"links.{way}.queue.{name}": value for way in WAYS for name, value in parameters.items()}


def _aiming_at(target: str, ending: str = "") -> Changes:
    """Adaptive RED that aims at a delay, without and with ECN."""
    return Changes(
        {
            f"ARED{ending}": {"tcp.ecn.mode": "off", **_queues_with(target_delay=target)},
            f"ARED+ECN{ending}": {"tcp.ecn.mode": "on", **_queues_with(target_delay=target, **MARKS)},
        }
    )


UNITS = Changes({"packets": {}, "bytes": _queues_with(**COUNTS_BYTES)})
"""What Adaptive RED counts in."""

TCPS = Changes({"Reno": {"tcp.recovery.kind": "reno"}, "SACK": {"tcp.recovery.kind": "sack"}})

# Traffic


def lasting(pairs: int) -> str:
    """As long as so many requests take on average, after the warm-up, if they make all of the load."""
    return f"{WARM_UP_S + pairs / FULL_RATE:.9f}s"


def offering(rate: float) -> Alters:
    """So many connections a second, and as many requests in all as the scenario has at full load."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        warm_up_s, end_s = (float(table[key][:-1]) for key in ("warm_up", "duration"))
        table["duration"] = f"{warm_up_s + (end_s - warm_up_s) * FULL_RATE / rate:.0f}s"
        for web in table["traffic"].values():
            web["connections_per_second"] = round(rate, 3)
        return table

    return change


def loads(*percent: int) -> Changes:
    """Loads offered, in percent of the line."""
    return Changes({load: offering(FULL_RATE * load / 100) for load in percent})


def both_ways(queue: Mapping[str, Any], rate: str = f"{RATE_MBPS}Mbps", jitter: str = "0s") -> dict[str, Any]:
    """Web traffic both ways that fills a line, with a delay of its own for every connection."""
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
"""Traffic that needs a calibration of its own."""


def same_load(traffic: str) -> Alters:
    """Other traffic, with as many connections as offer the same load."""

    def change(table: dict[str, Any]) -> dict[str, Any]:
        for web in table["traffic"].values():
            rate = web["connections_per_second"] * FULL_LOAD[traffic] / FULL_RATE
            web["connections_per_second"] = round(rate, 3)
        return changed(table, TRAFFIC[traffic])

    return change


# Experiments

calibration = Experiment(
    name="calibration",
    title="A line on which nothing queues",
    scenario=both_ways({"kind": "drop-tail", "limit": ROOM}, f"{UNCONGESTED * RATE_MBPS}Mbps")
    | {"record": {"drops": False, "queue_every": "0s"}, "duration": lasting(PAIRS // 2)},
    axes={"traffic": Changes(TRAFFIC), "rate": Changes({rate: offering(rate) for rate in (60, 100, 140)})},
    measures=[measures.OFFERED],
    quick=Form(seeds=2, changes={"duration": lasting(QUICK_PAIRS // 2)}),
)

_QUICK_LOADS = (60, 80, 90, 105)
_QUICK = {"duration": lasting(QUICK_PAIRS)}
_VARIED = Form(axes={"load": (80, 90, 105)})

drop_tail = Experiment(
    name="drop-tail",
    title="Drop Tail",
    scenario=both_ways(DROP_TAIL),
    axes={"tcp": TCPS, "load": loads(*LOADS)},
    measures=measures.WEB,
    seeds=5,
    most_seeds=20,
    quick=Form(seeds=3, axes={"load": _QUICK_LOADS}, changes=_QUICK),
    varied=_VARIED,
    varied_quick=Form(seeds=2, axes={"load": (105,)}, changes={"duration": lasting(QUICK_PAIRS // 4)}),
)

adaptive_red = replace(
    drop_tail,
    name="adaptive-red",
    title="Adaptive RED",
    scenario=both_ways(ADAPTIVE_RED),
    axes={"queue": _aiming_at("5ms"), "unit": UNITS, "tcp": TCPS, "load": loads(*LOADS)},
    varied=replace(_VARIED, axes={"tcp": ("Reno",), **_VARIED.axes}),
)

tuning = replace(
    adaptive_red,
    name="tuning",
    axes={
        "queue": _aiming_at("60ms", " 60 ms"),
        "unit": UNITS,
        "tcp": Changes({"Reno": TCPS["Reno"]}),
        "load": loads(90, 95, 100, 105),
    },
    quick=Form(seeds=3, axes={"load": (105,)}, changes=_QUICK),
    varied=None,
)

# The same system several times on the same traffic: how far apart chance alone takes them

FULL_PACKET = "1.2ms"
"""How long the line takes to send one: Drop Tail draws nothing, so its hosts take up to this for a packet."""


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
        quick=Form(seeds=3, axes={"load": [one for one in at if one in _QUICK_LOADS]}, changes=_QUICK),
        varied=None,
    )


drop_tails = _alike(
    "drop-tails", "Drop Tail with jitter, twice", DROP_TAIL, PLOTTED, FULL_PACKET, draws=(0, 1)
)
six_areds = _alike("six-areds", "Adaptive RED, six times", ADAPTIVE_RED, (50, 60, 70), draws=tuple(range(6)))
two_areds = _alike("two-areds", "Adaptive RED, twice", ADAPTIVE_RED, PLOTTED, unit=UNITS, draws=(0, 1))

EXPERIMENTS = (calibration, drop_tail, adaptive_red, tuning, drop_tails, six_areds, two_areds)
