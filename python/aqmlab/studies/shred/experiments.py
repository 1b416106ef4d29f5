"""The experiments of the study `shred`: scenarios, axes, and what is measured."""

from __future__ import annotations

from typing import Any

from aqmlab.studies.shared import constant
from aqmlab.studies.shred import measures
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep import Changes

MSS = "934B"
"""Of data in a packet of 974 B, slide 17."""

WARM_UP_S = 20.0
DURATION_S = 160.0

RED = {
    "min_th": "30p",
    "max_th": "90p",
    "max_p": 0.1,
    "weight": 0.0008,
    "limit": "225p",
    "mean_packet": "974B",
    "gentle": True,
    "spacing": "no-wait",
}  # slide 17; gentle: slide 12; spacing: slide 7

DISCIPLINES: dict[str, dict[str, Any]] = {
    "Drop Tail": {"kind": "drop-tail", "limit": "225p"},
    "RED": {"kind": "red", **RED},
    "SHRED": {"kind": "shred", "window_weight": 0.002, "floor": "zero", "red": RED},
}

PI = {"q_ref": "60p", "limit": "225p"}  # RED's target: midway between its thresholds

HINT_ON_PI: dict[str, dict[str, Any]] = {
    "PI": {"kind": "pi", **PI},
    "PISA": {"kind": "pisa", "window_weight": 0.002, "pi": PI},
    "PIMC": {"kind": "pimc", "pi": PI},
}

QUEUES = tuple(DISCIPLINES)
UNCONGESTED = "uncongested"


def _uncongested(table: dict[str, Any]) -> dict[str, Any]:
    """The same Web arrivals without FTP on a bottleneck ten times as fast."""
    table["bottleneck"] |= {"rate": "100Mbps", "queue": {"kind": "drop-tail", "limit": "100000p"}}
    table["traffic"].pop("ftp", None)
    # A load is a share of the bottleneck's rate: a tenth of it on a line ten times as fast.
    table["traffic"]["web"]["load"] /= 10
    return table


QUEUE = Changes({name: {"bottleneck.queue": queue} for name, queue in DISCIPLINES.items()})
QUEUE_OR_NONE = Changes({**QUEUE, UNCONGESTED: _uncongested})


def flows(*counts: int) -> Changes:
    """Permanent FTP flows, or none of them."""
    return Changes(
        {count: {"traffic.ftp.flows": count} if count else {"traffic.ftp": None} for count in counts}
    )


# The traffic of slide 17

OBJECT_SIZES: dict[str, Any] = {
    "kind": "lomax",
    "mean": "10kB",
    "shape": 1.2,
    "minimum": "12B",
    "maximum": "2MB",
}
SIZES = {
    "cut, mean 10 kB": ("clip", "exact"),
    "redrawn, mean 10 kB": ("redraw", "exact"),
    "cut, 10 kB before the cut": ("clip", "nominal"),
    "redrawn, 10 kB before the cut": ("redraw", "nominal"),
}
"""Readings of "mean 10 KB, min 12 bytes, max 2 MB"; the first is the one we use."""


def web(load: float) -> dict[str, Any]:
    """Pages of one object that make a share of the bottleneck's rate."""
    return {"kind": "web", "load": load, "objects": {"kind": "constant", "value": 1}}


FTP = {"kind": "ftp", "flows": 10, "stagger": "10s"}

PAGES = {most: {"kind": "discrete-uniform", "minimum": 1, "maximum": most} for most in (8, 16, 32)}
"""Pages of 1 to so many objects at random."""


def dumbbell(*, drops: bool = False, queue_every: str = "0s", **traffic: dict[str, Any]) -> dict[str, Any]:
    """The dumbbell of slide 17 with some traffic."""
    return {
        "duration": f"{DURATION_S:g}s",
        "warm_up": f"{WARM_UP_S:g}s",
        "bottleneck": {"rate": "10Mbps", "delay": "60ms", "queue": DISCIPLINES["Drop Tail"]},
        "access": {"rate": "100Mbps", "delay": "1ms"},
        "tcp": {"profile": "ns-2.35", "connection": {"mss": MSS}, "receiver": {"window": 10_000}},
        "traffic": traffic,
        "record": {"drops": drops, "queue_every": queue_every},
    }


LOADS = (0.4, 0.5, 0.6, 0.7, 0.8)

web_only = Experiment(
    name="web-only",
    title="Web only, 100 %",
    scenario=dumbbell(web=web(1.0)),
    axes={"queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    varied=Form(),
    varied_quick=Form(seeds=3, axes={"queue": QUEUES}),
)

sizes = Experiment(
    name="sizes",
    title="Web only, 100 %",
    scenario=dumbbell(web=web(1.0))
    | {"bottleneck": {"rate": "10Mbps", "delay": "60ms", "queue": DISCIPLINES["RED"]}},
    axes={
        "traffic.web.sizes": {
            name: {**OBJECT_SIZES, "truncation": truncation, "calibration": calibration}
            for name, (truncation, calibration) in SIZES.items()
        }
    },
    measures=measures.WEB,
)

web_only_pages = Experiment(
    name="web-only-pages",
    title="Web only, 100 %, pages",
    scenario=dumbbell(web=web(1.0)),
    axes={"traffic.web.objects": PAGES, "queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    quick=Form(seeds=3, axes={"objects": (8, 32)}),
)

web_mixed = Experiment(
    name="web-mixed",
    title="Web beside 10 FTP flows",
    scenario=dumbbell(web=web(0.7), ftp=FTP),
    axes={"traffic.web.load": LOADS, "queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    varied=Form(),
    varied_quick=Form(seeds=3, axes={"load": (0.5, 0.7)}),
)

web_mixed_pages = Experiment(
    name="web-mixed-pages",
    title="Web 70 % beside 10 FTP flows, pages",
    scenario=dumbbell(web=web(0.7), ftp=FTP),
    axes={"traffic.web.objects": PAGES, "queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    quick=Form(seeds=3, axes={"objects": (8, 32)}),
)

pages_by_load = Experiment(
    name="web-mixed-pages-by-load",
    title="Pages of 1 to 8 objects beside 10 FTP flows",
    scenario=dumbbell(web=web(0.7) | {"objects": PAGES[8]}, ftp=FTP),
    axes={"traffic.web.load": LOADS, "queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    quick=Form(seeds=3, axes={"load": (0.4, 0.7)}),
)

ftp_mixed = Experiment(
    name="ftp-mixed",
    title="FTP flows beside Web 50 %",
    scenario=dumbbell(web=web(0.5), ftp=FTP),
    axes={"flows": flows(0, 5, 10, 20, 30, 40), "queue": QUEUE_OR_NONE},
    measures=measures.WEB,
    quick=Form(seeds=3, axes={"flows": (0, 10, 20, 40)}),
    varied=Form(),
    varied_quick=Form(seeds=3, axes={"flows": (10, 40)}),
)

ftp_only = Experiment(
    name="ftp-only",
    title="FTP only",
    scenario=dumbbell(ftp=FTP, drops=True, queue_every="20ms"),
    axes={"traffic.ftp.flows": tuple(range(10, 101, 10)), "queue": QUEUE},
    measures=measures.FTP,
    quick=Form(seeds=3, axes={"flows": (10, 40, 70, 100)}),
    varied=Form(),
    varied_quick=Form(seeds=3, axes={"flows": (10, 40)}),
)

# PI is slow to find its probability, by design.
hint_on_pi = Experiment(
    name="hint-on-pi",
    title="Web 70 % beside 10 FTP flows",
    scenario=dumbbell(web=web(0.7), ftp=FTP) | {"duration": "240s", "warm_up": "100s"},
    axes={
        "bottleneck.queue": {name: (DISCIPLINES | HINT_ON_PI)[name] for name in ("RED", "SHRED", *HINT_ON_PI)}
    },
    measures=measures.WEB,
)

long = Experiment(
    name="long",
    title="1000 s",
    scenario=dumbbell(web=web(1.0)) | {"duration": "1000s"},
    axes={
        "mix": Changes(
            {"Web 100 %": {}, "Web 70 % + 10 FTP": {"traffic.web.load": 0.7, "traffic.ftp": FTP}},
        ),
        "queue": QUEUE,
    },
    measures=[measures.BINS],
    seeds=1,
)


def _losing(*packets: int) -> dict[str, Any]:
    """Everything arrives but these packets."""
    return {"bottleneck.queue": {"kind": "drop-nth", "packets": list(packets)}}


lost_packet = Experiment(
    name="lost-packet",
    title="One object of ten segments alone on the line",
    scenario=dumbbell(
        drops=True, object={"kind": "ftp", "flows": 1, "stagger": "0s", "sizes": constant(9340)}
    )
    | {"duration": "60s", "warm_up": "0s", "host": {"jitter": "0s"}},
    axes={"lost": Changes({"none": {}, "SYN": _losing(1), **{str(k): _losing(k + 1) for k in range(1, 11)}})},
    measures=[measures.LOST_TIME, measures.LOST_TIMEOUTS],
    seeds=2,
)
"""Nothing in these runs is random: the second seed shows that."""

EXPERIMENTS = (
    *(web_only, sizes, web_only_pages, web_mixed, web_mixed_pages, pages_by_load),
    *(ftp_mixed, ftp_only, hint_on_pi, long, lost_packet),
)
