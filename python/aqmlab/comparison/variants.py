"""Creates axes of a sweep from names of queues and TCPs, for comparisons and other studies of variants."""

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
    """Returns the axes `queue` and `tcp`. An axis for which no names are given is omitted.

    A queue is a name in `[queues.NAME]` of the scenario, or a kind with its defaults. The queue replaces the
    queues of all managed links in `at` or, without `at`, of all managed links. A TCP is either a congestion
    control with a loss recovery, `CONTROL/RECOVERY`, or an alias. The TCP's parameters are applied to the
    scenario's `tcp` table.

    Raises `ValueError`, which names the argument, if the scenario is not at packet level, if a name is
    unknown or occurs twice, or if `at` is given without queues.
    """
    queues, tcps, at = (
        arguments.names(name, given) for name, given in (("queues", queues), ("tcps", tcps), ("at", at))
    )
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name} has the level `{scenario.level}`, but a comparison of queues or TCPs needs the "
            "level `packet`"
        )
    if at and not queues:
        raise ValueError("at: selects the links whose queues are replaced, but no replacement queue is given")
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
