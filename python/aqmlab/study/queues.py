"""Other queues and other senders in a study: by name, as changes at links, with a reading for each."""

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
"""As Linux has them when nobody sets anything, by the names of figures. CAKE is fair to hosts first, and so
not to flows where many of them share a host, as the Web's do in some studies: it is asked a second time."""


def at(queues: Queues, *links: str, **more: Any) -> Changes:
    """Each of some queues at these links, with other changes that all share."""
    return Changes(
        {name: {**{f"{link}.queue": table for link in links}, **more} for name, table in queues.items()}
    )


def readings(queues: Iterable[str]) -> tuple[Reading, ...]:
    """A reading for each of some queues: claims that leave the axis `queue` open are judged for each."""
    return tuple(Reading(name=name, labels={"queue": name}, suffix=f", {name}") for name in queues)


def counted(found: Verdicts, what: str) -> list[str]:
    """How many of the claims hold for each queue, in words."""
    by_queue: dict[str, list[str]] = {}
    for one in found:
        by_queue.setdefault(one.reading.name, []).append(one.evidence.verdict)
    return [
        f"{queue} does {verdicts.count('holds')} of {len(verdicts)} {what}; {verdicts.count('fails')} it "
        "does not, "
        f"and {verdicts.count('undecided')} stay undecided."
        for queue, verdicts in by_queue.items()
    ]


def named(words: Iterable[str]) -> Queues:
    """Queues by the words of a command line: `today` for all of today's, the name of one of them, or a kind
    of queue with its defaults. Raises `ValueError` with the nearest names."""
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
    """The study with other queues beside its own: as the study has it, or else as more values of the axis
    `queue` of its experiments, so that figures and tables show them and claims about each queue judge them.

    Raises `ValueError` if no experiment has such an axis.
    """
    if study.with_queues is not None:
        form = study.with_queues(queues)
        return form if queues == TODAY else replace(form, name=f"{study.name}-queues")
    wider = tuple(_wider(one, queues) if "queue" in one.labels else one for one in study.experiments)
    if wider == study.experiments:
        raise ValueError(f"{study.name}: no experiment has an axis `queue`, to which queues can be added")
    return replace(study, name=f"{study.name}-queues", experiments=wider)


def _wider(experiment: Experiment, queues: Queues) -> Experiment:
    path = next(axis.path for axis in experiment.sweep("full").all_axes if axis.label == "queue")
    values = experiment.axes[path]
    queues = {name: table for name, table in queues.items() if name not in experiment.values("queue")}
    if not queues:
        return experiment
    if isinstance(values, Changes):
        places = {
            place
            for change in values.values()
            if isinstance(change, Mapping)
            for place in change
            if place.endswith(".queue")
        }
        if not places:
            raise ValueError(
                f"{experiment.name}: the axis `queue` does not say at which links its queues are"
            )
        more: dict[Value, Change] = {name: dict.fromkeys(places, table) for name, table in queues.items()}
        wider = Changes(values)
        wider.update(more)
        return replace(experiment, axes={**experiment.axes, path: wider})
    named_values = dict(values) if isinstance(values, Mapping) else {one: one for one in values}
    if path == "queue":
        own = {name: name for name, table in queues.items() if table == {"kind": name}}
        if len(own) < len(queues):
            raise ValueError(f"{experiment.name}: the axis `queue` takes kinds only: {', '.join(own)}")
        return replace(experiment, axes={**experiment.axes, path: [*named_values, *own]})
    return replace(experiment, axes={**experiment.axes, path: {**named_values, **queues}})


def with_senders(study: Study, tcp: str) -> Study:
    """The study whose senders are those of a TCP (`aqmlab list tcp`), laid over their own. Raises
    `ValueError` if there is none of this name, or if no experiment has senders that use TCP."""
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
