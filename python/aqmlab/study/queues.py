"""Adds other queues and senders to a study. Named queues become changes of links, with a reading for each
queue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aqmlab._support.names import hint
from aqmlab.results.labels import Value
from aqmlab.scenario.catalog import members
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
    """Returns the study with the parameters of a named TCP (`aqmlab list tcp`) applied to all senders. Raises
    `ValueError` if the name does not exist, or if no experiment has senders that use TCP."""
    changed = []
    problem: ValueError | None = None
    for one in study.experiments:
        try:
            changed.append(replace(one, scenario=with_tcp(one.base_scenario, tcp)))
        except ValueError as refused:
            problem = refused
            changed.append(one)
    if problem is not None and tuple(changed) == study.experiments:
        raise problem
    slug = re.sub(r"[^a-z0-9.]+", "-", tcp.lower())
    return replace(study, name=f"{study.name}-{slug}", experiments=tuple(changed))
