"""Scenarios: what the network is, what its queues are, and who sends; and single runs of them."""

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
