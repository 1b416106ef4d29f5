"""The registry of rules: every rule by which claims were ever judged, with the plan of each verdict.

`data/rules.json` lists rules by study and id of the claim, with a short digest of the rule's definition. A
rule that is changed gets a new id (`SH-8` becomes `SH-8.2`), and the old id gets a reason under `retired`.

The registry also lists everything else that decides a verdict as its `plan`: the origin of the claim, the
precision from which no more seeds are added, the level of intervals, the seeds at the first look and at most,
and a digest of the scenarios. The plan of an id may change if `data/changes.json` lists the change with the
commit and the reason, which the page of the study prints.
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
"""By study and id: `digest`, `rule` and `plan`, and for a rule no longer in use `retired` with the reason."""

Change = dict[str, Any]
"""A change of plans whose ids stay: `study` (or `all`), `claims` (empty: all claims of the study), `field` of
the plan (or another description of the change), `was`, `is`, `date`, `commit` and `why`."""


def listed() -> Listed:
    """All rules, including those no longer in use."""
    found: Listed = _read(FILE)
    return found


def changes(study: str = "") -> list[Change]:
    """The changes of plans whose ids stayed, for one study or for all studies."""
    found: list[Change] = _read(CHANGES)
    return [one for one in found if not study or one["study"] in (study, "all")]


def entry(study: Study, claim: Claim) -> dict[str, Any]:
    """The registry's entry for a claim's rule."""
    return {"digest": digest(claim.rule.definition), "rule": claim.rule.text, "plan": plan(study, claim)}


def plan(study: Study, claim: Claim) -> dict[str, Any]:
    """Everything that decides the verdict in addition to the rule."""
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
    """The replaced rules of a study with the reasons, by id."""
    return {id: one for id, one in listed().get(study, {}).items() if "retired" in one}


def written(found: Listed) -> str:
    """The registry as JSON with one line per field, so that changes are visible in a diff."""
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
