"""Updates the intervals that texts cite from full runs, and finds numbers that have no source.

A citation is a Markdown link to a page of results. The link's title identifies the number. The title contains
the claim with its reading and, after a colon, words that occur in only one of the claim's parts, separated by
semicolons. If several parts contain the words, the title refers to the parts in which no letter, digit or
plus sign follows a word, so that `sender CUBIC` does not refer to `sender CUBIC+ECN`. A title without a colon
refers to the number that decides the verdict.

    [0.51 [0.40, 0.61]](shred-today.md "T-SH-1, FQ-CoDel: median; to Drop Tail")
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
    """The page with each citation updated from `results/PAGE.json`. Raises `ValueError` if a citation does
    not identify exactly one number."""
    read: dict[str, Mapping[str, Any]] = {}

    def one(found: re.Match[str]) -> str:
        _, page, title = found.groups()
        if page not in read:
            path = results / f"{page}.json"
            if not path.exists():
                raise ValueError(f'the citation "{title}" refers to {page}, but {path} does not exist')
            read[page] = json.loads(path.read_text(encoding="utf-8"))
        return f'[{number(read[page], " ".join(title.split()))}]({page}.md "{title}")'

    return CITATION.sub(one, text)


def number(results: Mapping[str, Any], title: str) -> str:
    """The cited number with its interval."""
    id, _, words = title.partition(": ")
    claims = [claim for claim in results["claims"] if claim["id"] == id]
    if not claims:
        known = ", ".join(dict.fromkeys(claim["claim"] for claim in results["claims"]))
        raise ValueError(f'the citation "{title}" refers to the claim "{id}"; {results["study"]} has {known}')
    found = claims if not words else [part for part in _parts(claims[0]["parts"]) if _has(part, words)]
    if len(found) > 1 and words:
        found = [part for part in found if _has_whole(part, words)] or found
    if len(found) != 1:
        has = "; ".join(f'"{description(part)}"' for part in _parts(claims[0]["parts"]))
        raise ValueError(f'the citation "{title}" must identify one number, not {len(found)}; parts: {has}')
    (part,) = found
    interval = interval_of(part)
    if interval is None:
        raise ValueError(f'the citation "{title}" refers to a number without an interval')
    return str(interval)


def description(part: Mapping[str, Any]) -> str:
    """The description of a part of a claim, from which citations select words."""
    where = " ".join(f"{label} {value}" for label, value in part["where"].items())
    return " ".join(word for word in (part["context"], part["what"], where) if word)


def _has(part: Mapping[str, Any], words: str) -> bool:
    return all(word in description(part) for word in words.split("; "))


def _has_whole(part: Mapping[str, Any], words: str) -> bool:
    """Whether a part contains the words, none of which is followed by a letter, a digit or a plus sign."""
    text = description(part)
    return all(re.search(rf"{re.escape(word)}(?![\w+])", text) for word in words.split("; "))


def _parts(parts: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in parts:
        inner = part.get("one_of") or part.get("all_of")
        if inner:
            yield from _parts(inner)
        else:
            yield part


def unfounded(prose: str, results: Record) -> list[str]:
    """The numbers in the prose of a page that do not occur in the page's results. Only numbers with at least
    two decimal places, and percentages with at least one decimal place, are checked."""
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
    text_of_results = json.dumps(results, ensure_ascii=False)
    found = []
    for figure, percent in re.findall(r"(?<![\w.])(\d+\.\d+)(\s?%)?", prose):
        places = len(figure.partition(".")[2])
        if places < 2 and not percent:
            continue
        several = known + (
            [100 * one for one in known] + [100 * abs(1 - one) for one in known] if percent else []
        )
        if not any(f"{abs(one):.{places}f}" == figure for one in several) and figure not in text_of_results:
            found.append(figure + percent)
    return found
