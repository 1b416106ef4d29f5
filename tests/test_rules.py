"""Rules of claims stay what they are: a changed rule has a new id, and a reason."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aqmlab import studies
from aqmlab.results.rule import AnyRule, Combined
from aqmlab.results.variable import Measured
from aqmlab.studies import LIVE, STUDIES
from aqmlab.study import rules
from aqmlab.study.experiment import Experiment
from aqmlab.study.publication import Claim, Study

PATH = Path(studies.__file__).parent / rules.FILE

WITH_QUEUES = [name for name in STUDIES if studies.load(name).with_queues is not None]
FORMS = {"": STUDIES, "live": LIVE, "today": WITH_QUEUES}
CASES = [(name, form) for form, names in FORMS.items() for name in names]


def claims_of(name: str, form: str) -> tuple[str, Study, dict[str, Claim]]:
    found = studies.load(name, live=form == "live", today=form == "today")
    return f"{name} {form}".strip(), found, {claim.id: claim for claim in found.claims}


@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_rule_is_the_one_that_is_listed_under_its_id(name: str, form: str) -> None:
    title, of, claims = claims_of(name, form)
    ours = {id: rules.entry(of, claim) for id, claim in claims.items()}
    if os.environ.get("AQM_UPDATE_SNAPSHOTS"):
        found = rules.listed()
        updated(found.setdefault(title, {}), ours, rules.changes(title))
        PATH.write_text(rules.written(found), encoding="utf-8")
    known = rules.listed().get(title, {})
    new = ours.keys() - known.keys()
    assert not new, f"{', '.join(sorted(new))}: not listed: `make snapshots` adds new rules"
    changed = [id for id, one in ours.items() if one["digest"] != known[id]["digest"]]
    assert not changed, (
        f"{', '.join(changed)}: the rule is another one: give it a new id (SH-8 becomes SH-8.2), and the old "
        "one a reason in rules.json, under retired"
    )
    differing = {id: different(known[id].get("plan", {}), one["plan"]) for id, one in ours.items()}
    differing = {id: fields for id, fields in differing.items() if fields}
    assert not differing, (
        f"{differing}: the plan is another one: say so in changes.json, with the reason, and "
        "`make snapshots` takes it into rules.json"
    )


def different(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The fields of a plan that are not what they were."""
    return [field for field, value in now.items() if before.get(field) != value]


def updated(known: dict[str, Any], ours: Mapping[str, Any], changes: list[rules.Change]) -> None:
    """Lists rules that are not listed, and plans that have none or whose change is on record; a rule that is
    listed is never changed."""
    for id, one in ours.items():
        listed = known.setdefault(id, one)
        plan = listed.setdefault("plan", one["plan"])
        on_record = [each for each in changes if id in each["claims"]]
        for field in different(plan, one["plan"]):
            if any(each["field"] == field and each["is"] == one["plan"][field] for each in on_record):
                plan[field] = one["plan"][field]


def test_a_plan_is_changed_only_where_the_change_is_on_record() -> None:
    def entry(seeds: int) -> dict[str, Any]:
        return {"digest": "d", "rule": "r", "plan": {"seeds": seeds, "level": 0.95}}

    known = {"A": entry(40)}
    updated(known, {"A": entry(20), "B": entry(20)}, [])
    assert known == {"A": entry(40), "B": entry(20)}
    change = {"study": "s", "claims": ["A"], "field": "seeds", "was": 40, "is": 20}
    updated(known, {"A": entry(20)}, [change])
    assert known["A"] == entry(20)
    assert different(entry(20)["plan"], entry(30)["plan"]) == ["seeds"]


def test_tolerance_seeds_level_origin_and_scenarios_belong_to_the_plan() -> None:
    _, of, claims = claims_of("shred", "")
    claim = claims["SH-8.2"]
    before = rules.plan(of, claim)
    loose = dataclasses.replace(claim, origin="ours", rule=widened(claim.rule))
    assert different(before, rules.plan(of, loose)) == ["origin", "tolerance"]

    def changed(**how: Any) -> list[str]:
        several = tuple(
            dataclasses.replace(one, **how) if one.name in before["seeds"] else one for one in of.experiments
        )
        by_name = {one.name: one for one in several}
        rule = moved(claim.rule, by_name)
        other = dataclasses.replace(claim, rule=rule)
        rest = tuple(one for one in of.claims if one.id != claim.id and not used(one, before["seeds"]))
        study = dataclasses.replace(of, experiments=several, claims=(*rest, other))
        return different(before, rules.plan(study, other))

    assert changed(most_seeds=20) == ["seeds"]
    (scenario,) = {json.dumps(one.scenario) for one in of.experiments if one.name in before["seeds"]}
    assert changed(scenario={**json.loads(scenario), "warm_up": "1s"}) == ["scenarios"]


def widened(rule: AnyRule) -> AnyRule:
    """The same rule, which asks for less precision."""
    if isinstance(rule, Combined):
        return dataclasses.replace(rule, rules=tuple(widened(one) for one in rule.rules))
    return dataclasses.replace(rule, estimate=rule.estimate.to_within(0.3))


def moved(rule: AnyRule, experiments: Mapping[str, Experiment]) -> AnyRule:
    """The same rule on other experiments of the same names."""
    if isinstance(rule, Combined):
        return dataclasses.replace(rule, rules=tuple(moved(one, experiments) for one in rule.rules))
    of = tuple(onto(one, experiments) for one in rule.estimate.of)
    return dataclasses.replace(rule, estimate=dataclasses.replace(rule.estimate, of=of))


def onto(variable: Any, experiments: Mapping[str, Experiment]) -> Any:
    if isinstance(variable, Measured):
        return dataclasses.replace(variable, experiment=experiments[variable.experiment.name])
    of = variable.of
    inner = tuple(onto(one, experiments) for one in of) if isinstance(of, tuple) else onto(of, experiments)
    return dataclasses.replace(variable, of=inner)


def used(claim: Claim, names: Mapping[str, Any]) -> bool:
    return any(one.name in names for variable in claim.rule.variables for one in variable.experiments)


def test_changes_on_record_name_claims_that_are_or_were_judged_and_say_why() -> None:
    for one in rules.changes():
        known = rules.listed() if one["study"] == "all" else {one["study"]: rules.listed()[one["study"]]}
        ids = {id for of_study in known.values() for id in of_study}
        assert set(one["claims"]) <= ids
        assert one["was"] != one["is"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one["date"])
        assert len(one["why"]) > 20


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_rule_that_is_judged_no_more_has_a_reason(name: str, form: str) -> None:
    title, _, claims = claims_of(name, form)
    for id, one in rules.listed()[title].items():
        if id in claims:
            assert "retired" not in one, f"{id} is judged, and listed as retired"
        else:
            assert len(one.get("retired", "")) > 20, f"{id} is judged no more: say why, under retired"


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_new_revision_stands_for_a_rule_that_was_retired(name: str, form: str) -> None:
    title, _, claims = claims_of(name, form)
    known = rules.listed()[title]
    for id in claims:
        stem, dot, revision = id.rpartition(".")
        if dot:
            before = stem if revision == "2" else f"{stem}.{int(revision) - 1}"
            assert "retired" in known[before]


def test_what_a_rule_says_decides_its_digest() -> None:
    _, of, claims = claims_of("shred", "")
    found = {rules.entry(of, claim)["digest"] for claim in claims.values()}
    assert len(found) == len(claims)


def test_the_registry_is_written_as_it_is_read() -> None:
    assert json.loads(rules.written(rules.listed())) == rules.listed()
