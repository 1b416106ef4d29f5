"""Adds other queues and senders to a study. Named queues become changes of links, with a reading for each
queue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aqmlab import _core
from aqmlab._support.names import hint
from aqmlab.results.labels import Value, format_labels
from aqmlab.scenario import Scenario
from aqmlab.scenario.catalog import members
from aqmlab.scenario.scenario import flat
from aqmlab.scenario.tcps import with_tcp
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Queues, Reading, Study, Verdicts
from aqmlab.sweep import Change, Changes

TODAY: Mapping[str, dict[str, Any]] = {
    "CoDel": {"kind": "codel"},
    "FQ-CoDel": {"kind": "fq-codel"},
    "PIE": {"kind": "pie"},
    "CAKE": {"kind": "cake"},
    "CAKE by flows": {"kind": "cake", "flows": "flows"},
    "DualPI2": {"kind": "dualpi2"},
}
"""Queue disciplines with Linux's defaults, by the names that figures show. CAKE shares the link first among
hosts and then among the flows of each host. In some studies, a host has many flows, so CAKE is included a
second time with `flows`."""


def at(queues: Queues, *links: str, **more: Any) -> Changes:
    """Returns a change for each queue. A change sets the queue at these links and applies `more` changes,
    which are common to all queues."""
    return Changes(
        {name: {**{f"{link}.queue": table for link in links}, **more} for name, table in queues.items()}
    )


def readings(queues: Iterable[str]) -> tuple[Reading, ...]:
    """Returns a reading for each queue. A claim with the free axis `queue` is judged for each of these
    readings."""
    return tuple(Reading(name=name, labels={"queue": name}, suffix=f", {name}") for name in queues)


def counted(found: Verdicts, achievements: str) -> list[str]:
    """Returns sentences that state, for each queue, the number of claims that hold, fail and remain
    undecided."""
    by_queue: dict[str, list[str]] = {}
    for one in found:
        by_queue.setdefault(one.reading.name, []).append(one.evidence.verdict)
    return [
        f"{queue} does {verdicts.count('holds')} of {len(verdicts)} {achievements}; "
        f"{verdicts.count('fails')} it does not, and {verdicts.count('undecided')} remain undecided."
        for queue, verdicts in by_queue.items()
    ]


def named(words: Iterable[str]) -> Queues:
    """Returns the queues that the words of a command line select. A word is `today` for all modern queues,
    the name of a modern queue, or a kind of queue with its defaults. For an unknown word, raises
    `ValueError`, which suggests similar names."""
    by_word = {name.lower(): name for name in TODAY}
    kinds = [one.name.removeprefix("queues.") for one in members("queues")]
    found: dict[str, Mapping[str, Any]] = {}
    for word in words:
        if word == "today":
            found |= TODAY
        elif word.lower() in by_word:
            found[by_word[word.lower()]] = TODAY[by_word[word.lower()]]
        elif word in kinds:
            found[word] = {"kind": word}
        else:
            raise ValueError(f"no queue is named `{word}`: {hint(word, ['today', *TODAY, *kinds])}")
    return found


def beside(study: Study, queues: Queues) -> Study:
    """Adds queues to a study with the study's own `with_queues`, if the study has this function. Otherwise,
    the queues become additional values of the axis `queue` of the study's experiments. Figures and tables
    then show the queues, and claims are judged for the queues.

    Raises `ValueError` if no experiment has an axis `queue`.
    """
    if study.with_queues is not None:
        form = study.with_queues(queues)
        return form if queues == TODAY else replace(form, name=f"{study.name}-queues")
    wider = tuple(_wider(one, queues) if "queue" in one.labels else one for one in study.experiments)
    if wider == study.experiments:
        raise ValueError(f"{study.name}: queues cannot be added, because no experiment has an axis `queue`")
    return replace(study, name=f"{study.name}-queues", experiments=wider)


def _wider(experiment: Experiment, queues: Queues) -> Experiment:
    path = next(axis.path for axis in experiment.sweep("full").all_axes if axis.label == "queue")
    values = experiment.axes[path]
    queues = {name: table for name, table in queues.items() if name not in experiment.values("queue")}
    if not queues:
        return experiment
    if isinstance(values, Changes):
        paths = {
            path_of_queue
            for change in values.values()
            if isinstance(change, Mapping)
            for path_of_queue in change
            if path_of_queue.endswith(".queue")
        }
        if not paths:
            raise ValueError(f"{experiment.name}: the axis `queue` does not set the queue of any link")
        more: dict[Value, Change] = {name: dict.fromkeys(paths, table) for name, table in queues.items()}
        wider = Changes(values)
        wider.update(more)
        return replace(experiment, axes={**experiment.axes, path: wider})
    values_by_name = dict(values) if isinstance(values, Mapping) else {one: one for one in values}
    if path == "queue":
        own = {name: name for name, table in queues.items() if table == {"kind": name}}
        if len(own) < len(queues):
            raise ValueError(f"{experiment.name}: the axis `queue` only accepts kinds: {', '.join(own)}")
        return replace(experiment, axes={**experiment.axes, path: [*values_by_name, *own]})
    return replace(experiment, axes={**experiment.axes, path: {**values_by_name, **queues}})


def with_senders(study: Study, tcp: str) -> Study:
    """Returns the study with the parameters of a named TCP (`aqmlab list tcp`) applied to all senders, or the
    study's own form with other senders (`with_senders`).

    The senders keep the segment size of the study, because sizes of files and limits of queues may be given
    in packets. Axes may switch ECN off, for example for a queue that does not mark. Raises `ValueError` if
    the name does not exist, if no experiment has senders that use TCP, or if an axis of an experiment sets
    the congestion control or the recovery.
    """
    if study.with_senders is not None:
        return study.with_senders(tcp)
    _core.transport(tcp)
    changed = []
    problem: ValueError | None = None
    for one in study.experiments:
        try:
            scenario = _of_the_same_size(one.base_scenario, with_tcp(one.base_scenario, tcp))
        except ValueError as refused:
            problem = refused
            changed.append(one)
            continue
        changed.append(replace(one, scenario=scenario))
        _check_senders(study, changed[-1], tcp)
    if problem is not None and tuple(changed) == study.experiments:
        raise ValueError(
            f"{study.name}: no experiment has senders that can be replaced, because the experiments have "
            f"none or their axes add them: {problem}"
        )
    slug = re.sub(r"[^a-z0-9.]+", "-", tcp.lower())
    return replace(study, name=f"{study.name}-{slug}", experiments=tuple(changed))


def _of_the_same_size(before: Scenario, after: Scenario) -> Scenario:
    """The scenario with the segment size that the scenario before the change sets. A profile such as `quic`
    replaces the whole table `[tcp]`."""
    mss = before.given.get("tcp", {}).get("connection", {}).get("mss")
    return after if mss is None else after.with_({"tcp.connection.mss": mss})


def _check_senders(study: Study, experiment: Experiment, tcp: str) -> None:
    """Raises `ValueError` if at a point of the experiment, an axis replaces parameters of the named TCP."""
    set_by_name = flat(json.loads(_core.transport(tcp)))
    wanted = {path: value for path, value in set_by_name.items() if path != "ecn.mode"}.items()
    other_form = "; --queues selects other experiments" if study.with_queues is not None else ""
    sweep = experiment.sweep("full")
    for point in sweep.points():
        try:
            is_kept = wanted <= flat(sweep.scenario_of(point).given.get("tcp", {})).items()
        except ValueError:
            is_kept = False
        if not is_kept:
            raise ValueError(
                f"{study.name}: TCP `{tcp}` cannot replace the senders of the experiment "
                f"`{experiment.name}`, because an axis sets their TCP (point "
                f"{format_labels(point.labels)}){other_form}"
            )
