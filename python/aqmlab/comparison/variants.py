"""Named queues and TCPs as axes of a sweep, for comparisons and other studies of variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aqmlab._support import arguments
from aqmlab.scenario import Scenario
from aqmlab.scenario.queues import links_for, with_queue
from aqmlab.scenario.tcps import with_tcp
from aqmlab.sweep import Changes


def axes(
    scenario: Scenario, queues: Sequence[str] = (), tcps: Sequence[str] = (), at: Sequence[str] = ()
) -> dict[str, Changes]:
    """The axes `queue` and `tcp`; an axis without names is left out.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. The queue replaces that
    of each managed link in `at`; without `at`, that of every managed link. A TCP is a congestion control with
    a recovery, `CONTROL/RECOVERY`, or an alias; its parameters are applied to the scenario's `tcp` table.

    Raises `ValueError` with the argument if the scenario has no packets, a name is unknown or occurs twice,
    or `at` is given without queues.
    """
    queues, tcps, at = (
        arguments.names(name, given) for name, given in (("queues", queues), ("tcps", tcps), ("at", at))
    )
    if scenario.level != "packet":
        raise ValueError(f"{scenario.name} has the level `{scenario.level}`; queues and TCPs need `packet`")
    if at and not queues:
        raise ValueError("at: names links whose queues are replaced, but no queue is named")
    for name, listed in (("queues", queues), ("tcps", tcps), ("at", at)):
        arguments.unique(name, listed)
    links = links_for(scenario, at) if queues else []
    found = {}
    for label, change, names in (
        ("queue", partial(with_queue, at=links), queues),
        ("tcp", with_tcp, tcps),
    ):
        for name in names:
            change(scenario, name)
        if names:
            found[label] = Changes({name: partial(_changed, scenario, change, name) for name in names})
    return found


def _changed(
    base: Scenario, change: Callable[[Scenario, str], Scenario], name: str, table: dict[str, Any]
) -> dict[str, Any]:
    scenario = Scenario.from_dict(table, files=base.files, name=base.name)
    return dict(change(scenario, name).given)
