"""Rules of claims stay what they are: a changed rule has a new id, and a reason."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from aqmlab import study
from aqmlab.publication import Claim
from aqmlab.studies import LIVE, STUDIES, TODAY, rules

PATH = Path(rules.__file__).parent / rules.FILE

FORMS = {"": STUDIES, "live": LIVE, "today": TODAY}
CASES = [(name, form) for form, names in FORMS.items() for name in names]


def claims_of(name: str, form: str) -> tuple[str, dict[str, Claim]]:
    found = study.load(name, live=form == "live", today=form == "today")
    return f"{name} {form}".strip(), {claim.id: claim for claim in found.claims}


@pytest.mark.parametrize(("name", "form"), CASES)
def test_every_rule_is_the_one_that_is_listed_under_its_id(name: str, form: str) -> None:
    title, claims = claims_of(name, form)
    if os.environ.get("AQM_UPDATE_SNAPSHOTS"):
        add(title, claims)
    known = rules.listed().get(title, {})
    new = claims.keys() - known.keys()
    assert not new, f"{', '.join(sorted(new))}: not listed: `make snapshots` adds new rules"
    changed = [id for id, claim in claims.items() if rules.entry(claim)["digest"] != known[id]["digest"]]
    assert not changed, (
        f"{', '.join(changed)}: the rule is another one: give it a new id (SH-8 becomes SH-8.2), and the old "
        "one a reason in rules.json, under retired"
    )


def add(title: str, claims: dict[str, Claim]) -> None:
    """Lists rules under ids that are not listed; never changes one that is."""
    found = rules.listed()
    of_study = found.setdefault(title, {})
    for id, claim in claims.items():
        of_study.setdefault(id, rules.entry(claim))
    PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_rule_that_is_judged_no_more_has_a_reason(name: str, form: str) -> None:
    title, claims = claims_of(name, form)
    for id, one in rules.listed()[title].items():
        if id in claims:
            assert "retired" not in one, f"{id} is judged, and listed as retired"
        else:
            assert len(one.get("retired", "")) > 20, f"{id} is judged no more: say why, under retired"


@pytest.mark.parametrize(("name", "form"), CASES)
def test_a_new_revision_stands_for_a_rule_that_was_retired(name: str, form: str) -> None:
    title, claims = claims_of(name, form)
    known = rules.listed()[title]
    for id in claims:
        stem, dot, revision = id.rpartition(".")
        if dot:
            before = stem if revision == "2" else f"{stem}.{int(revision) - 1}"
            assert "retired" in known[before]


def test_what_a_rule_says_decides_its_digest() -> None:
    _, claims = claims_of("shred", "")
    found = {rules.entry(claim)["digest"] for claim in claims.values()}
    assert len(found) == len(claims)
