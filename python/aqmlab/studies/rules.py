"""The list of all rules that claims were ever judged by: `data/rules.json`.

A rule is found there by its study and the id of its claim, with a short digest of all that it says. A rule
that is changed gets a new id (`SH-8` becomes `SH-8.2`), and the old one a reason, under `retired`.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from aqmlab.publication import Claim
from aqmlab.rule import digest

FILE = "data/rules.json"

Listed = dict[str, dict[str, dict[str, str]]]
"""By study and id: `digest` and `rule`, and `retired` with the reason if it is judged no more."""


def listed() -> Listed:
    """All rules, those no longer in use too."""
    found: Listed = json.loads((resources.files("aqmlab.studies") / FILE).read_text(encoding="utf-8"))
    return found


def entry(claim: Claim) -> dict[str, Any]:
    """What the list has of a claim's rule."""
    return {"digest": digest(claim.rule.definition), "rule": claim.rule.text}


def retired(study: str) -> dict[str, dict[str, str]]:
    """The rules of a study that were replaced, with the reason, by id."""
    return {id: one for id, one in listed().get(study, {}).items() if "retired" in one}
