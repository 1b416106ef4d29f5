"""The network of a kind of access with its usual rates, for programs that need a bad network."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aqmlab.links.access import KINDS
from aqmlab.links.line import scenario_of
from aqmlab.links.new import Answers, access, line_of

USERS = ("traffic", "record", "queues")
"""Tables of a scenario that describe the people who share a line."""


@dataclass(frozen=True)
class Network:
    """The tables of a scenario without traffic, and the files to which the tables refer."""

    tables: Mapping[str, Any]
    files: Mapping[str, str]


def summaries() -> dict[str, str]:
    """Returns a line about each profile, by the name of the kind of access."""
    return {
        kind.name: f"{' down, '.join(kind.usual_rates)} up, {kind.usual_rtt}: {kind.summary}"
        for kind in KINDS.values()
    }


def network(name: str) -> Network:
    """Returns the two directions of a kind of access. The client is at home, at the node `right`. Raises
    `ValueError` if no kind has this name."""
    kind = access(name)
    down, up = kind.usual_rates
    line = line_of(Answers(access=name, down=down, up=up, rtt=kind.usual_rtt), ())
    written = scenario_of(line, name)
    table = tomllib.loads(written.scenario)
    return Network({key: value for key, value in table.items() if key not in USERS}, written.files)
