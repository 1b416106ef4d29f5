"""Scenarios and single runs of scenarios. A scenario describes a network with its queues and traffic."""

from aqmlab.scenario.scenario import (
    STANDARD_INPUT,
    Scenario,
    ScenarioFileError,
    Table,
    changed,
    flat,
    is_given,
    parse_setting,
    plain,
    settings_of,
)

__all__ = [
    "STANDARD_INPUT",
    "Scenario",
    "ScenarioFileError",
    "Table",
    "changed",
    "flat",
    "is_given",
    "parse_setting",
    "plain",
    "settings_of",
]
