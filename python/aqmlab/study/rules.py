"""The registry of rules, which contains every rule that has ever been used to judge a claim, with the plan of
each verdict.

`data/rules.json` lists rules by study and claim ID, with a short digest of the rule's definition. If a rule
is changed, the rule gets a new ID (`SH-8` becomes `SH-8.2`), and the reason is added to the entry of the old
ID as `retired`.

All other information that decides a verdict is listed as the `plan`: the origin of the claim, the precision
at which no more seeds are added, the confidence level of intervals, the number of seeds at the first look,
the maximum number of seeds, and a digest of the scenarios. The plan of an ID may be changed if
`data/changes.json` lists the change with the commit and the reason. The page of the study prints these
changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from aqmlab.results.rule import AnyRule, Combined, digest
from aqmlab.study import seeds as study_seeds
from aqmlab.study.experiment import Experiment
from aqmlab.study.points import needed_by
from aqmlab.study.publication import Claim, Study
from aqmlab.sweep import Point

FILE = "data/rules.json"
CHANGES = "data/changes.json"

Listed = dict[str, dict[str, dict[str, Any]]]
"""Entries by study and ID, with `digest`, `rule` and `plan`. For a rule that is no longer used, `retired`
contains the reason."""

Change = dict[str, Any]
"""A change of plans without a change of IDs. The fields are `study` (or `all`), `claims` (empty for all
claims of the study), `field` of the plan (or another description of the change), `was`, `is`, `date`,
`commit` and `why`."""


def listed() -> Listed:
    """Returns all rules, including rules that are no longer used."""
    found: Listed = _read(FILE)
    return found


def changes(study: str = "") -> list[Change]:
    """Returns the changes of plans without changes of IDs, for one study or for all studies."""
    found: list[Change] = _read(CHANGES)
    return [one for one in found if not study or one["study"] in (study, "all")]


def entry(study: Study, claim: Claim) -> dict[str, Any]:
    """Returns the registry's entry for a claim's rule."""
    return {"digest": digest(claim.rule.definition), "rule": claim.rule.text, "plan": plan(study, claim)}


def plan(study: Study, claim: Claim) -> dict[str, Any]:
    """Returns everything that decides the verdict in addition to the rule."""
    points = needed_by(study, [claim], "full")
    used = [one for one in study.experiments if one in _experiments(claim)]
    looks = study_seeds.looks(study)
    return {
        "origin": claim.origin,
        "tolerance": sorted(set(_tolerances(claim.rule))),
        "level": study_seeds.level(looks),
        "seeds": {one.name: [one.seeds, one.seeds if looks == 1 else study_seeds.most(one)] for one in used},
        "scenarios": digest(
            {
                one.name: [
                    (list(map(str, labels)), given())
                    for labels, given in _scenarios(one).items()
                    if (one.name, labels) in points
                ]
                for one in used
            }
        ),
    }


@cache
def _scenarios(experiment: Experiment) -> Mapping[tuple[Any, ...], Callable[[], dict[str, Any]]]:
    """Returns a function for each point of the full sweep that returns the point's scenario. Several claims
    need the same point, so each scenario is built only once."""
    sweep = experiment.sweep("full")

    def given(point: Point) -> Callable[[], dict[str, Any]]:
        return cache(lambda: sweep.scenario_of(point).given)

    return {tuple(point.labels.values()): given(point) for point in sweep.points()}


def _experiments(claim: Claim) -> list[Any]:
    return [one for variable in claim.rule.variables for one in variable.experiments]


def _tolerances(rule: AnyRule) -> Iterator[float]:
    if isinstance(rule, Combined):
        for one in rule.rules:
            yield from _tolerances(one)
    else:
        yield rule.estimate.tolerance


def retired(study: str) -> dict[str, dict[str, Any]]:
    """Returns the replaced rules of a study with the reasons, by ID."""
    return {id: one for id, one in listed().get(study, {}).items() if "retired" in one}


def written(found: Listed) -> str:
    """Returns the registry as JSON with one line per field, so that changes are visible in a diff."""
    studies = []
    for study, of_study in found.items():
        rules = []
        for id, one in of_study.items():
            fields = ",\n".join(f"   {_json(key)}: {_json(value)}" for key, value in one.items())
            rules.append(f"  {_json(id)}: {{\n{fields}\n  }}")
        studies.append(f" {_json(study)}: {{\n" + ",\n".join(rules) + "\n }")
    return "{\n" + ",\n".join(studies) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _read(file: str) -> Any:
    return json.loads((resources.files("aqmlab.studies") / file).read_text(encoding="utf-8"))
