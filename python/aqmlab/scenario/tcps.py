"""A TCP by name, laid over that of a scenario."""

from __future__ import annotations

import json

from aqmlab import _core
from aqmlab.scenario.scenario import Scenario, flat


def with_tcp(scenario: Scenario, name: str) -> Scenario:
    """The scenario with another TCP laid over its own, as `aqmlab list tcp` names them. Raises `ValueError`
    if there is none of this name, or if nobody would use it."""
    users = [one for one, workload in scenario.workloads.items() if not workload.sends_datagrams]
    if not users:
        traffic = ", ".join(scenario.workloads)
        raise ValueError(
            f"TCP `{name}`: traffic: no workload uses TCP ({traffic}): add one that does, such as "
            '[traffic.files] with kind = "ftp", or compare queues only'
        )
    try:
        table = json.loads(_core.transport(name))
        laid_over = _core.lay_over(json.dumps(scenario.given.get("tcp", {})), json.dumps(table))
        changed = scenario.with_({"tcp": json.loads(laid_over)})
    except _core.ScenarioError as error:
        raise ValueError(f"TCP `{name}`: {error}") from None
    wanted = flat(table).items()
    own = {one: changed.effective["traffic"][one].get("tcp") for one in users}
    if all(table is not None and not wanted <= flat(table).items() for table in own.values()):
        raise ValueError(
            f"TCP `{name}`: no workload would use it, because a workload's own tcp table stays: "
            f"take what it sets out of {', '.join(f'traffic.{one}.tcp' for one in users)}"
        )
    return changed
