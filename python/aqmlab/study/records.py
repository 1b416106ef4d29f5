"""The record of a study's verdicts, `claims.json`. Pages of the documentation contain results from this
file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aqmlab import _core
from aqmlab.campaign import version
from aqmlab.metrics import finite
from aqmlab.results.rule import digest
from aqmlab.stats import Evidence, Interval
from aqmlab.study.publication import Judged, Study, StudyResult

Record = Mapping[str, Any]


def records(result: StudyResult) -> dict[str, Any]:
    """Returns the content of `claims.json` for the results of a study."""
    return {
        "study": result.study.name,
        "quick": result.quick,
        "live": any(one.live for one in result.study.experiments),
        "version": version(),
        "results_version": _core.RESULTS_VERSION,
        "runs": result.provenance["runs"],
        "level": _rounded(result.level),
        "claims": [_record(result.study, one) for one in result.judged],
        "variants": {
            variant.name: {one.id: _verdict(one.evidence) for one in verdicts}
            for variant, verdicts in result.sensitivity
        },
        "floors": [
            {
                "claim": one.claim,
                "where": dict(one.where),
                "claimed": str(one.band),
                "measured": _numbers(one.measured),
                "equal": _numbers(one.equal),
            }
            for one in result.floors
        ],
    }


def _record(study: Study, one: Judged) -> dict[str, Any]:
    parts = one.evidence.parts or (one.evidence,)
    return {
        "id": one.id,
        "claim": one.claim.id,
        "reading": one.reading.name,
        "statement": one.claim.statement,
        "source": one.claim.source,
        "origin": one.claim.origin,
        "rule": study.rule_of(one.claim).text,
        "digest": digest(one.claim.rule.definition),
        **_verdict(one.evidence),
        "one_is_enough": one.evidence.one_of,
        "parts": [_part(part) for part in parts],
    }


def _part(part: Evidence) -> dict[str, Any]:
    (known_to,) = finite([part.known_to])
    return {
        "what": part.what,
        "context": part.context,
        "where": dict(part.where),
        "claimed": "" if part.band is None else str(part.band),
        **_verdict(part),
        "seeds": part.count,
        "known_to": known_to,
        "measured": part.measured,
        **({"one_of" if part.one_of else "all_of": [_part(one) for one in part.parts]} if part.parts else {}),
    }


def _verdict(evidence: Evidence) -> dict[str, Any]:
    """Returns a verdict with the number and the interval that decide the verdict. An end that is `None` is
    infinite. A value that is `None` is infinite if there is an interval. `level` is included if the level
    differs from the level of the whole file. `median` is included if the number is a median."""
    return {
        "verdict": evidence.verdict,
        **_numbers(evidence),
        **({"level": _rounded(evidence.level)} if evidence.wider else {}),
        **({"median": True} if evidence.median else {}),
    }


def _numbers(found: Evidence | Interval) -> dict[str, Any]:
    value, *ends = finite([_rounded(one) for one in (found.value, found.low, found.high)])
    known = not (math.isnan(found.low) or math.isnan(found.high))
    return {"value": value, "interval": ends if known else None}


def _rounded(value: float) -> float:
    """Rounds a number to six significant digits, so that the result is the same on every machine."""
    return float(f"{value:.6g}")


def interval_of(found: Record) -> Interval | None:
    """Returns the interval of a record, in which `None` stands for an infinite end or value. Returns `None`
    if the record has no interval."""
    if found["interval"] is None:
        return None
    low, high = found["interval"]
    return Interval(
        value=math.inf if found["value"] is None else found["value"],
        low=-math.inf if low is None else low,
        high=math.inf if high is None else high,
        count=0,
    )
