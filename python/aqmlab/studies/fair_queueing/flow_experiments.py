"""The experiments of the study `fair-queueing` without TCP: the flow level, and a trace replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqmlab.studies.fair_queueing import measures
from aqmlab.studies.fair_queueing.laws import RATE_MBPS
from aqmlab.study.experiment import Experiment, Form
from aqmlab.sweep import Changes

# A trace at the rates of slower and slower lines

TRACE_LOADS = (0.16, 0.5, 0.8, 0.85, 0.9)
"""The first is that of the published trace."""

trace = Experiment(
    name="trace",
    title="Made-up trace with the published properties of one of an OC-48 link",
    scenario={"level": "trace", "queue": {"kind": "drr"}, "source": {"kind": "generated", "duration": "60s"}},
    axes={
        "load": Changes(
            {load: {"rate": f"{2488.32 * TRACE_LOADS[0] / load:.2f}Mbps"} for load in TRACE_LOADS}
        )
    },
    measures=measures.TRACE,
    seeds=5,
    quick=Form(seeds=3, axes={"load": (0.16, 0.85)}, changes={"source.duration": "10s"}),
)

# The flow level

WARM_UP_S = 20
PATH_STEP_S = 0.05
PATH_S = 30
"""How much of a sample path is drawn: at a load of 0.9 the number of flows forgets within a second."""

SIZES: Mapping[str, dict[str, Any]] = {
    "exponential": {"kind": "exponential", "mean": "100kB"},
    "Pareto": {"kind": "lomax", "mean": "100kB", "shape": 1.5, "minimum": "1kB", "maximum": "10MB"},
    "fixed": {"kind": "constant", "value": "100kB"},
}


def fluid(duration_s: int, load: float = 0.5, **record: Any) -> dict[str, Any]:
    """Flows without packets on the link of the talk."""
    return {
        "level": "flow",
        "duration": f"{duration_s}s",
        "warm_up": f"{WARM_UP_S}s",
        "link": {"capacity": f"{RATE_MBPS:g}Mbps"},
        "traffic": {"flows": {"load": load}},
        "record": {"flows": False, "every": "0s", **record},
    }


NUMBER_LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)

number = Experiment(
    name="number",
    title="Fluid link",
    scenario=fluid(200000),
    axes={"traffic.flows.load": NUMBER_LOADS, "traffic.flows.sizes": SIZES},
    measures=measures.NUMBER,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "20000s"}),
)

_STREAMING = {"load": 0.5, "peak_rate": "1Mbps", "service": "streaming"}

example = Experiment(
    name="example",
    title="Fluid link, background 0.5, in all 0.6",
    scenario=fluid(20000, load=0.1),
    axes={
        "traffic.background": {
            "streaming, 1 Mb/s": _STREAMING,
            "elastic, at most 1 Mb/s": {"load": 0.5, "peak_rate": "1Mbps"},
            "streaming, 10 kb/s": {
                **_STREAMING,
                "peak_rate": "10kbps",
                "sizes": {"kind": "exponential", "mean": "10kB"},
            },
        }
    },
    measures=measures.NUMBER,
    quick=Form(seeds=3, changes={"duration": "5000s"}),
)

PEAKS = {"at most 1 Mb/s": "1Mbps", "at most 10 Mb/s": "10Mbps", "no peak rate": None}
_PEAK = {name: {"traffic.flows.peak_rate": rate} for name, rate in PEAKS.items()}

regimes = Experiment(
    name="regimes",
    title="Fluid link",
    scenario=fluid(1000),
    axes={
        "peak": Changes(_PEAK),
        "traffic.flows.load": (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.05, 1.2),
    },
    measures=measures.REGIME,
    seeds=5,
    quick=Form(seeds=3, changes={"duration": "200s"}),
)

_SHOWN = fluid(WARM_UP_S + PATH_S, every=f"{PATH_STEP_S:g}s")

flow_paths = Experiment(
    name="flow-paths",
    title="Sample paths",
    scenario=_SHOWN,
    axes={"traffic.flows.load": NUMBER_LOADS},
    measures=measures.FLOW_PATH,
    seeds=1,
)

_REGIMES = {
    "transparent": ("at most 1 Mb/s", 0.5),
    "elastic": ("no peak rate", 0.8),
    "overload": ("no peak rate", 1.1),
}

regime_paths = Experiment(
    name="regime-paths",
    title="Three regimes",
    scenario=_SHOWN,
    axes={
        "regime": Changes(
            {name: {**_PEAK[peak], "traffic.flows.load": load} for name, (peak, load) in _REGIMES.items()}
        )
    },
    measures=measures.FLOW_PATH,
    seeds=1,
)

EXPERIMENTS = (trace, number, example, regimes, flow_paths, regime_paths)
