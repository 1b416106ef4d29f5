"""Numbers in prose: citations of intervals, written anew from full runs, and figures without a source.

A citation is a Markdown link to a page of results, whose title says which number is meant: the claim with its
reading, and behind a colon words that are in one of the claim's parts only, apart by semicolons. Without a
colon it is the number that decides.

    [0.51 [0.40, 0.61]](shred-today.md "T-SH-1, FQ-CoDel: median; /Drop Tail")
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aqmlab.study.records import Record, interval_of

CITATION = re.compile(r"\[([^\[\]]*\[[^\[\]]*\])\]\(([\w-]+)\.md\s+\"([^\"]+)\"\)")


def renewed(text: str, results: Path) -> str:
    """The page with each citation as `results/PAGE.json` has it. Raises `ValueError` if a citation means no
    number, or more than one."""
    read: dict[str, Mapping[str, Any]] = {}

    def one(found: re.Match[str]) -> str:
        _, page, title = found.groups()
        if page not in read:
            path = results / f"{page}.json"
            if not path.exists():
                raise ValueError(f'the citation "{title}" is of {page}, and {path} is not there')
            read[page] = json.loads(path.read_text(encoding="utf-8"))
        return f'[{number(read[page], " ".join(title.split()))}]({page}.md "{title}")'

    return CITATION.sub(one, text)


def number(results: Mapping[str, Any], title: str) -> str:
    """The number that a citation of this title means, with its interval."""
    id, _, words = title.partition(": ")
    claims = [claim for claim in results["claims"] if claim["id"] == id]
    if not claims:
        known = ", ".join(dict.fromkeys(claim["claim"] for claim in results["claims"]))
        raise ValueError(f'the citation "{title}" is of the claim "{id}", and {results["study"]} has {known}')
    found = claims if not words else [part for part in _parts(claims[0]["parts"]) if _has(part, words)]
    if len(found) != 1:
        has = "; ".join(f'"{said(part)}"' for part in _parts(claims[0]["parts"]))
        raise ValueError(f'the citation "{title}" means {len(found)} numbers, of: {has}')
    (part,) = found
    interval = interval_of(part)
    if interval is None:
        raise ValueError(f'the citation "{title}" is of a number without an interval')
    return str(interval)


def said(part: Mapping[str, Any]) -> str:
    """What a part of a claim is, in the words that citations choose it by."""
    where = " ".join(f"{label} {value}" for label, value in part["where"].items())
    return " ".join(word for word in (part["context"], part["what"], where) if word)


def _has(part: Mapping[str, Any], words: str) -> bool:
    return all(word in said(part) for word in words.split("; "))


def _parts(parts: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        inner = part.get("one_of") or part.get("all_of")
        if inner:
            yield from _parts(inner)
        else:
            yield part


def unfounded(prose: str, results: Record) -> list[str]:
    """The figures in the prose of a page which are in none of its results: with two decimal places or more,
    or percentages with one."""
    known = [
        number
        for one in [
            *results["claims"],
            *(f for found in results["variants"].values() for f in found.values()),
        ]
        for part in (one, *one.get("parts", ()))
        for number in (part["value"], *(part["interval"] or ()))
        if number is not None
    ]
    told = json.dumps(results, ensure_ascii=False)
    found = []
    for figure, percent in re.findall(r"(?<![\w.])(\d+\.\d+)(\s?%)?", prose):
        places = len(figure.partition(".")[2])
        if places < 2 and not percent:
            continue
        several = known + (
            [100 * one for one in known] + [100 * abs(1 - one) for one in known] if percent else []
        )
        if not any(f"{abs(one):.{places}f}" == figure for one in several) and figure not in told:
            found.append(figure + percent)
    return found
