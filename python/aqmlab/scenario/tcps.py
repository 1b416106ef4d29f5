"""Looks up TCPs by name and applies them to the `[tcp]` table of a scenario."""

from __future__ import annotations

import json

from aqmlab import _core
from aqmlab.scenario.scenario import Scenario, flat


def with_tcp(scenario: Scenario, name: str) -> Scenario:
    """Returns the scenario with the values of a named TCP (`aqmlab list tcp`) in the `[tcp]` table. Raises
    `ValueError` if the name is unknown, or if no workload would use the TCP."""
    users = [one for one, workload in scenario.workloads.items() if not workload.sends_datagrams]
    if not users:
        traffic = ", ".join(scenario.workloads)
        raise ValueError(
            f"TCP `{name}`: traffic: no workload uses TCP ({traffic}): add a workload such as "
            '[traffic.files] with kind = "ftp", or compare only queues'
        )
    try:
        table = json.loads(_core.transport(name))
        laid_over = _core.lay_over(json.dumps(scenario.given.get("tcp", {})), json.dumps(table))
        changed = scenario.with_({"tcp": json.loads(laid_over)})
    except _core.ScenarioError as error:
        raise ValueError(f"TCP `{name}`: {error}") from None
    values = flat(table).items()
    own = {one: changed.effective["traffic"][one].get("tcp") for one in users}
    if all(table is not None and not values <= flat(table).items() for table in own.values()):
        raise ValueError(
            f"TCP `{name}`: no workload would use this TCP, because the tcp tables of workloads take "
            "precedence: remove the parameters that this TCP sets from "
            f"{', '.join(f'traffic.{one}.tcp' for one in users)}"
        )
    return changed
