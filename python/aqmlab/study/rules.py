"""The registry of rules: every rule that claims were ever judged by, and the plan by which each is judged.

`data/rules.json` has a rule by its study and the id of its claim, with a short digest of all that it says. A
rule that is changed gets a new id (`SH-8` becomes `SH-8.2`), and the old one a reason, under `retired`.

What decides a verdict beside the rule is listed, too, as its `plan`: whose the claim is, the precision from
which no more seeds are asked for, the level of intervals, the seeds at the first look and at most, and a
digest of the scenarios. A plan may change under its id if `data/changes.json` says so, with the commit and
the reason; the page of the study prints that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

from aqmlab.results.rule import AnyRule, Combined, digest
from aqmlab.study import seeds as study_seeds
from aqmlab.study.points import needed_by
from aqmlab.study.publication import Claim, Study

FILE = "data/rules.json"
CHANGES = "data/changes.json"

Listed = dict[str, dict[str, dict[str, Any]]]
"""By study and id: `digest`, `rule` and `plan`, and `retired` with the reason if it is judged no more."""

Change = dict[str, Any]
"""A change of plans under their ids: `study` or `all`, `claims` (none: all of the study), `field` of the plan
(or what else was changed), `was`, `is`, `date`, `commit` and `why`."""


def listed() -> Listed:
    """All rules, those no longer in use too."""
    found: Listed = _read(FILE)
    return found


def changes(study: str = "") -> list[Change]:
    """The changes of plans that were made under an id that stayed, of a study or of all."""
    found: list[Change] = _read(CHANGES)
    return [one for one in found if not study or one["study"] in (study, "all")]


def entry(study: Study, claim: Claim) -> dict[str, Any]:
    """What the registry has of a claim's rule."""
    return {"digest": digest(claim.rule.definition), "rule": claim.rule.text, "plan": plan(study, claim)}


def plan(study: Study, claim: Claim) -> dict[str, Any]:
    """What decides the verdict beside the rule."""
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
                    (list(map(str, point.labels.values())), sweep.scenario_of(point).given)
                    for point in sweep.points()
                    if (one.name, tuple(point.labels.values())) in points
                ]
                for one in used
                for sweep in [one.sweep("full")]
            }
        ),
    }


def _experiments(claim: Claim) -> list[Any]:
    return [one for variable in claim.rule.variables for one in variable.experiments]


def _tolerances(rule: AnyRule) -> Iterator[float]:
    if isinstance(rule, Combined):
        for one in rule.rules:
            yield from _tolerances(one)
    else:
        yield rule.estimate.tolerance


def retired(study: str) -> dict[str, dict[str, Any]]:
    """The rules of a study that were replaced, with the reason, by id."""
    return {id: one for id, one in listed().get(study, {}).items() if "retired" in one}


def written(found: Listed) -> str:
    """The registry as JSON, with a line for each of its fields, so that a change can be seen."""
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
