"""Measures: numbers that are computed from runs. Each measure has a name, a unit and a version."""

from aqmlab._support.run import Run
from aqmlab.measures.lookup import CORRELATION, STANDARD_ERROR, batched, named, of_scenario, of_sql, tables
from aqmlab.measures.measure import Measure, Quantity, Reduction, View, name_of, scaled, with_unit

__all__ = [
    "CORRELATION",
    "STANDARD_ERROR",
    "Measure",
    "Quantity",
    "Reduction",
    "Run",
    "View",
    "batched",
    "name_of",
    "named",
    "of_scenario",
    "of_sql",
    "scaled",
    "tables",
    "with_unit",
]
