"""The results on the pages of studies: generated of what full runs wrote, and never typed.

    python -m aqmlab.studies.docs.pages docs/studies [--take out --commit HASH]

Of each page `NAME.md` what stands between two marks is written anew from `results/NAME.json`, the
`claims.json` of a full run with the commit that it was made of. `NAME-live.md` is of the live form,
`NAME-today.md` of the form with today's queues. Intervals that other pages cite are written anew, too.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aqmlab import stats
from aqmlab._support.files import write_text
from aqmlab.study.records import Record, interval_of

WIDTH = 118
FORMS = ("live", "today")
"""The forms of a study that have pages of their own: their names end with a dash and this word."""

BEGIN, END = "<!-- results of the full study, generated -->", "<!-- end of the results -->"

ORIGINS = {"paper": "the source's", "sheet": "our reading of it", "ours": "ours beyond it"}
WORDS = {"holds": "**holds**", "fails": "**fails**", "undecided": "undecided"}


def page(
    text: str,
    results: Record,
    retired: Mapping[str, Mapping[str, str]],
    changes: Sequence[Record] = (),
    awaiting: Sequence[str] = (),
) -> str:
    """A page with the results in place of those that stand there. Raises `ValueError` if it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the marks {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{block(results, retired, changes, awaiting)}\n{END}{after}"


def block(
    results: Record,
    retired: Mapping[str, Mapping[str, str]],
    changes: Sequence[Record] = (),
    awaiting: Sequence[str] = (),
) -> str:
    """The results in Markdown: how they were made, which claims await a run, the verdicts, every number, what
    variants change, and what was changed of rules and plans."""
    parts = [
        _made(results),
        _awaiting(awaiting),
        _verdicts(results),
        _numbers(results),
        _floors(results),
        _variants(results),
        _retired(retired),
        _changed(changes),
    ]
    return "\n".join(part for part in parts if part)


def _made(results: Record) -> str:
    claims = results["claims"]
    counts = "; ".join(
        f"{said} {_counted([one for one in claims if one['origin'] == origin])}"
        for origin, said in ORIGINS.items()
        if any(one["origin"] == origin for one in claims)
    )
    runs = f"{results['runs']:,}".replace(",", " ")
    version, commit = results["results_version"], results["commit"][:12]
    name, form = study_of(page_of(results))
    options = {"live": " --live", "today": " --queues today"}
    command = f"aqmlab study run {name}{''.join(options[one] for one in form)}"
    return (
        _wrapped(
            f"Made by `{command}`, results version {version}, commit {commit}: {runs} runs. Verdicts by "
            f"whose the claim is: {counts}. A claim that is judged for several systems counts for each of "
            "them."
        )
        + "\n"
        + _family(claims)
    )


def awaiting_run(results: Record) -> list[str]:
    """The claims of a study that have no verdict in these results, because they are newer than the run."""
    from aqmlab import studies

    name, form = study_of(page_of(results))
    judged = {one["claim"] for one in results["claims"]}
    return [claim.id for claim in studies.load(name, **form).claims if claim.id not in judged]


def _awaiting(claims: Sequence[str]) -> str:
    if not claims:
        return ""
    return _wrapped(
        f"**Newer than this run**, and without a verdict until the next full run: {', '.join(claims)}. The "
        "claims that they replace are judged below by their old rules."
    )


def _family(claims: Sequence[Record]) -> str:
    """How many verdicts chance alone would turn."""
    decided = sum(one["verdict"] != "undecided" for one in claims)
    return _wrapped(
        f"Each verdict is judged at 95 %, and there are {len(claims)}. Chance makes a verdict wrong in at "
        "most one case of twenty, and comes near that only where the true value lies at the limit: of the "
        f"{decided} verdicts here that say *holds* or *fails*, at most {0.05 * len(claims):.2g} are expected "
        "to be wrong by chance."
    )


def _counted(claims: Sequence[Record]) -> str:
    found = [one["verdict"] for one in claims]
    return ", ".join(f"{found.count(verdict)} {word}" for verdict, word in stats.PLURALS.items())


NARROW = 5
"""The most columns of verdicts that have room for intervals."""


def _verdicts(results: Record) -> str:
    readings = _readings(results)
    heads = [name or "verdict" for name in readings]
    rows = [f"| Claim | Whose | {' | '.join(heads)} |", f"| --- | --- | {' | '.join('---' for _ in heads)} |"]
    for id, several in _by_claim(results["claims"]).items():
        by_reading = {one["reading"]: _short(one, len(heads) <= NARROW) for one in several}
        cells = [by_reading.get(name, by_reading.get("", "")) for name in readings]
        rows.append(f"| {id} | {ORIGINS[several[0]['origin']]} | {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def _by_claim(claims: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for one in claims:
        found.setdefault(one["claim"], []).append(one)
    return found


def _short(one: Record, with_interval: bool) -> str:
    if one["value"] is None:
        return f"{WORDS[one['verdict']]} {_number(one) if with_interval else ''}".rstrip()
    return f"{WORDS[one['verdict']]} {_number(one) if with_interval else format(one['value'], '.3g')}"


def _number(found: Record) -> str:
    interval = interval_of(found)
    if interval is None:
        return "" if found["value"] is None else f"{found['value']:.4g} (no interval)"
    return f"{interval}, median" if found.get("median") else str(interval)


def _numbers(results: Record) -> str:
    """The numbers of the main reading: those of the others are in the file."""
    main, *others = _readings(results)
    of = f" of {main}" if others else ""
    file = f"results/{page_of(results)}.json"
    rest = f" Those of the others are in `{file}`." if others else ""
    looks = (
        "Intervals are of 95 %; one that allows for the number of parts has its level behind it."
        if results["live"]
        else "Intervals allow for up to four interim looks (98.75 % each, 95 % together); one that allows "
        "for the number of parts, too, has its level behind it."
    )
    said = [_wrapped(f"All numbers{of}. {looks}{rest}")]
    for one in _of_main(results):
        table: list[str] = []
        if one["one_is_enough"] and all("all_of" in part for part in one["parts"]):
            told, table = _combinations(one["parts"])
        else:
            told = ("one is enough: " if one["one_is_enough"] else "") + "; ".join(_lines(one["parts"]))
        sentence = f"*{one['statement'].rstrip('.')}* ({one['source']})"
        told = f"- **{one['id']}** {one['verdict']}: {sentence}. {told[:1].upper()}{told[1:]}."
        said.append(_wrapped(told, "  ").rstrip())
        said += table
    return "\n".join([*said, ""])


def _combinations(parts: Sequence[Record]) -> tuple[str, list[str]]:
    """Alternatives of which each asks for several numbers: a sentence, and tables with a row for each."""
    contexts = [part["context"].split(", ") for part in parts]
    shared = [words for words in contexts[0] if all(words in context for context in contexts)]
    tables: dict[tuple[str, ...], list[str]] = {}
    for part, context in zip(parts, contexts, strict=True):
        heads = (f"{number['what']}, claimed {number['claimed']}" for number in part["all_of"])
        where = ", ".join(words for words in context if words not in shared)
        row = f"  | {where} | {' | '.join(_at(number) for number in part['all_of'])} | {part['verdict']} |"
        tables.setdefault(("Where", *heads, "Row"), []).append(row)
    lines = []
    for heads_of, rows in tables.items():
        lines += ["", f"  | {' | '.join(heads_of)} |", f"  | {' | '.join('---' for _ in heads_of)} |", *rows]
    return f"one row is enough, and asks for all of its numbers. {', '.join(shared)}", [*lines, ""]


def _readings(results: Record) -> list[str]:
    """The readings by which claims are judged, the main one first; an empty name where there are none."""
    return list(dict.fromkeys(one["reading"] for one in results["claims"] if one["reading"])) or [""]


def _of_main(results: Record) -> list[Record]:
    """What was found of each claim by the main reading."""
    main = _readings(results)[0]
    return [one for one in results["claims"] if one["reading"] in ("", main)]


def _lines(parts: Sequence[Record]) -> Iterator[str]:
    """Numbers that differ only in where they are stand together."""
    grouped: dict[tuple[str, str, str], list[Record]] = {}
    for part in parts:
        if "one_of" in part:
            yield f"one of: {' or '.join(_lines(part['one_of']))}"
            continue
        if "all_of" in part:
            yield f"all of: {' and '.join(_lines(part['all_of']))}"
            continue
        if part["value"] is None and part["interval"] is None:
            yield part["measured"]
            continue
        grouped.setdefault((part["context"], part["what"], part["claimed"]), []).append(part)
    before = ""
    for (context, what, claimed), several in grouped.items():
        begin = f"{context}: " if context and context != before else ""
        before = context
        yield f"{begin}{what} {', '.join(map(_at, several))}, claimed {claimed}"


def _at(part: Record) -> str:
    where = " ".join(f"{label} {value}" for label, value in part["where"].items())
    wider = f" at {100 * part['level']:.4g} %" if "level" in part else ""
    known_to = part["known_to"]
    close = "" if known_to is None else f" (near the limit, known to ±{known_to:.2g})"
    mark = "" if part["verdict"] == "holds" else f" {stats.SIGNS[part['verdict']]}"
    return f"{where + ': ' if where else ''}{_number(part)}{wider}{close}{mark}"


def _floors(results: Record) -> str:
    if not results.get("floors"):
        return ""
    said = [
        _wrapped(
            "How far apart equal systems are: the same estimate of two systems that differ in their random "
            "draws only. A claim that asks for less than equal systems show cannot hold."
        ),
        "| Claim | Where | Measured | Equal systems | Claimed |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one in results["floors"]:
        where = ", ".join(f"{label} {value}" for label, value in one["where"].items())
        numbers = f"{_number(one['measured'])} | {_number(one['equal'])}"
        said.append(f"| {one['claim']} | {where} | {numbers} | {one['claimed']} |")
    return "\n".join([*said, ""])


def _variants(results: Record) -> str:
    variants = results["variants"]
    if not variants:
        return ""
    told = {id for found in variants.values() for id in found}
    main = {one["id"]: one["verdict"] for one in _of_main(results) if one["id"] in told}
    said = [
        "The same claims under other readings of what the source leaves open. The first line has the main "
        "verdicts, and a letter is bold where a variant has another one. H holds, F fails, U undecided; a "
        "variant is not run for claims without a letter."
    ]
    rows = ["| Variant | " + " | ".join(main) + " |", "| --- | " + " | ".join("---" for _ in main) + " |"]
    rows.append(f"| main verdict | {' | '.join(verdict[0].upper() for verdict in main.values())} |")
    for name, found in variants.items():
        rows.append(f"| {name} | {' | '.join(_letter(found.get(id), main[id]) for id in main)} |")
    reversed_ = _reversals(results)
    if reversed_:
        several = (
            f"{id} ({main} in the main verdict) {now} under {', '.join(names)}"
            for id, main, now, names in reversed_
        )
        said.append(f"Reversed: {'; '.join(several)}.")
    else:
        said.append("No verdict is reversed.")
    return "\n".join([_wrapped(" ".join(said)), *rows, ""])


def _letter(found: Record | None, main: str) -> str:
    if found is None:
        return ""
    letter = found["verdict"][0].upper()
    return letter if found["verdict"] == main else f"**{letter}**"


def _reversals(results: Record) -> list[tuple[str, str, str, list[str]]]:
    """The claims, in any reading, that hold in the main verdict and fail under a variant, or the other way
    round: the id, both verdicts, and the variants."""
    reversed_: dict[tuple[str, str, str], list[str]] = {}
    for one in results["claims"]:
        for name, found in results["variants"].items():
            now = found[one["id"]]["verdict"] if one["id"] in found else ""
            if {one["verdict"], now} == {"holds", "fails"}:
                reversed_.setdefault((one["id"], one["verdict"], now), []).append(name)
    return [(*key, names) for key, names in reversed_.items()]


def _retired(retired: Mapping[str, Mapping[str, str]]) -> str:
    if not retired:
        return ""
    said = ["Rules that were replaced, and why:", ""]
    said += [_wrapped(f"- **{id}**: {one['retired']}", "  ").rstrip() for id, one in retired.items()]
    return "\n".join([*said, ""])


def _changed(changes: Sequence[Record]) -> str:
    if not changes:
        return ""
    said = ["Changed while the rules and their ids stayed:", ""]
    for one in changes:
        which = f" of {', '.join(one['claims'])}" if one["claims"] else ""
        told = (
            f"- **{one['field']}**{which}: from *{one['was']}* to *{one['is']}* ({one['date']}, "
            f"{one['commit']}). {one['why']}"
        )
        said.append(_wrapped(told, "  ").rstrip())
    return "\n".join([*said, ""])


def _wrapped(text: str, indent: str = "") -> str:
    return (
        textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        + "\n"
    )


def study_of(page: str) -> tuple[str, dict[str, bool]]:
    """The study that a page of this name is of, and its form, in words that `aqmlab.studies.load` takes."""
    name, _, form = page.rpartition("-")
    return (name, {form: True}) if form in FORMS else (page, {})


def page_of(results: Record) -> str:
    """The name of the page that results belong to."""
    return f"{results['study']}{'-live' if results['live'] else ''}"


def take(runs: Path, folder: Path, commit: str) -> None:
    """Takes the verdicts of full runs, `RUNS/NAME/claims.json`, as the results of the pages in a folder, and
    the values of these runs, `values.parquet`, beside them. Raises `ValueError` if one is of a quick form."""
    from aqmlab.study import values as study_values

    for path in sorted(folder.glob("*.md")):
        made = runs / path.stem / "claims.json"
        if made.exists():
            results = json.loads(made.read_text(encoding="utf-8"))
            if results["quick"]:
                raise ValueError(f"{made}: is of the quick form: run the study in full")
            (folder / "results").mkdir(exist_ok=True)
            write_text(folder / "results" / f"{path.stem}.json", _as_json({**results, "commit": commit}))
            study_values.publish(
                made.with_name(study_values.FILE),
                folder / "results" / f"{path.stem}.parquet",
                commit=commit,
            )


def _as_json(results: Record) -> str:
    """The same as JSON with a line for each claim and variant, so that a change can be seen."""

    def told(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = []
    for key, value in results.items():
        if isinstance(value, list):
            said = "[\n" + ",\n".join(told(one) for one in value) + "\n]"
        elif isinstance(value, dict):
            said = "{\n" + ",\n".join(f"{told(name)}: {told(one)}" for name, one in value.items()) + "\n}"
        else:
            said = told(value)
        lines.append(f"{told(key)}: {said}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Writes the results of all pages in a folder anew."""
    from aqmlab.studies.docs import citations as study_citations
    from aqmlab.study import rules

    parser = argparse.ArgumentParser(
        prog="aqmlab.studies.docs.pages", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="where the pages are")
    parser.add_argument(
        "--take", type=Path, metavar="RUNS", help="take new results from RUNS/NAME/claims.json"
    )
    parser.add_argument("--commit", default="unknown", help="what these runs were made of")
    options = parser.parse_args()
    if options.take:
        take(options.take, options.folder, options.commit)
    for path in sorted((options.folder / "results").glob("*.json")):
        results = json.loads(path.read_text(encoding="utf-8"))
        written = options.folder / f"{path.stem}.md"
        name, form = study_of(path.stem)
        retired, changes = ({}, []) if form else (rules.retired(name), rules.changes(name))
        text = written.read_text(encoding="utf-8")
        write_text(written, page(text, results, retired, changes, awaiting_run(results)))
        print(written)
    for written in sorted(options.folder.glob("*.md")):
        before = written.read_text(encoding="utf-8")
        if (after := study_citations.renewed(before, options.folder / "results")) != before:
            write_text(written, after)
            print(written)


if __name__ == "__main__":
    main()
