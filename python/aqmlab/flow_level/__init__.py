"""The flow level: simulations of flows that share a link, in which packets are not modelled, and theoretical
formulas for such flows."""

from aqmlab.flow_level.laws import (
    Regime,
    at_load,
    demand_chart,
    number_law,
    peak_share,
    regime,
    relative_load,
    throughput_law,
)

__all__ = [
    "Regime",
    "at_load",
    "demand_chart",
    "number_law",
    "peak_share",
    "regime",
    "relative_load",
    "throughput_law",
]
