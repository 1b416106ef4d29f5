"""Summary of rows: the table, the counts by case and verdict, and the page that shows them.

`agreement-summary.json` contains the counts of a complete run, with those of held-out cases separately. The
tables of docs/background/agreement.md and the sentence of the README are generated from this file, and a test
compares them.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aqmlab
from judge import AGREEMENTS, HELD_OUT, Row

HERE = Path(__file__).resolve().parent
SUMMARY = HERE / "agreement-summary.json"
PAGE = HERE.parent / "docs" / "background" / "agreement.md"
README = HERE.parent / "README.md"

Summary = Mapping[str, Any]

GROUPS = {
    "Linux: three transfers over a slow last hop, with a delay of 10, 200 or 300 ms, or with another "
    "initial time-out": HELD_OUT + r"linux transfers \S+ old \d",
    "The same transfers with start times within half a second, with half of RED's `max_p`, or with packet "
    "lengths without the Ethernet header": HELD_OUT + r"linux transfers \S+ old\+",
    "The same transfers with RACK, F-RTO and an initial time-out of 3 s (also run earlier, when RACK was "
    "corrected)": HELD_OUT + r"linux transfers \S+ modern ",
    "Linux: one transfer and datagrams, with a delay of 50 or 300 ms, or with other start times, packet "
    "lengths or rates": HELD_OUT + r"linux datagrams ",
    "Linux: one to sixteen Reno flows, CUBIC flows or flows of both kinds through pfifo or RED, at 2 or 10 "
    "Mbit/s and 20 to 160 ms; short CUBIC transfers together with long ones": (
        HELD_OUT + r"linux (bulk|mice)_"
    ),
    "The same flows through CoDel, FQ-CoDel, PIE and CAKE (also run earlier, when the delay of SACK and the "
    "response to marks were corrected)": HELD_OUT + r"linux today (bulk|mice)_",
    "ns-2, scenario D's connections at load 0.9 through Adaptive RED with automatic parameters for a target "
    "of 5 ms (also run earlier, when the assignment of servers' delays was corrected)": HELD_OUT + r"d ",
    "ns-2, micro traces: one Reno, NewReno or SACK flow, compared event by event and window by window; RED's "
    "average queue": r"micro (reno|newreno|sack1|red) ",
    "ns-2, micro traces: 35 transfers with two-way TCP in which given packets are lost or marked, "
    "compared segment by segment": r"micro full ",
    "Queueing theory: M/M/1, M/D/1, M/M/1/K, M/D/1/K": r"m[dm]1k? ",
    "TCP theory: the formulas described below": r"tcp ",
    "Published tables: average windows of HighSpeed TCP and CUBIC at given loss rates (RFC 9438)": (
        r"law table "
    ),
    "Laws of random marks: windows of DCTCP and Prague, and Prague's rates with different round trips": (
        r"law marks "
    ),
    "A model of BBR (version 1) beside Reno and CUBIC flows in a deep Drop Tail queue": r"law bbr ",
    "ns-2, scenario A: permanent flows and Web objects through Drop Tail, RED and Adaptive RED": r"a ",
    "ns-2, scenario B: Reno, SACK and HighSpeed flows together with Poisson datagrams, through Drop Tail "
    "with two limits": r"b droptail ",
    "The same flows through deficit round robin, which drops the head of the longest queue": r"b fqdrr ",
    "ns-2, scenario C: short and long transfers together with Web objects, through Drop Tail and RED": (
        r"c (droptail|red)$"
    ),
    "The same transfers through dsRED's RIO-C, with short flows identified at the edge": r"c rioc$",
    "ns-2, scenario D: PackMime's Web traffic in both directions, with newly drawn connections in each run": (
        r"d (?!.*replayed)"
    ),
    "The same traffic at load 0.9 with exactly the connections that ns-2 drew": r"d .*replayed",
    "ns-3, scenarios A and B: NewReno, HighSpeed and CUBIC through CoDel, FQ-CoDel, PIE, FQ-PIE and COBALT": (
        r"ns3 \S+ (codel|fqcodel|pie|fqpie|cobalt)\b"
    ),
    "ns-3, scenarios A and B: NewReno with and without SACK, HighSpeed and CUBIC through Drop Tail, RED, "
    "gentle RED, Adaptive RED and deficit round robin": r"ns3 (?!\S+ (codel|fqcodel|pie|fqpie|cobalt)\b)",
    "Linux: datagrams at fixed times through HTB and RED, with a small and with a large averaging weight": (
        r"linux open_"
    ),
    "Linux: the same datagrams through a FIFO and today's queues, compared packet by packet where nothing is "
    "random": r"linux today ",
    "Linux: BBR (version 1) and DCTCP flows, alone and together with CUBIC flows, through pfifo, CoDel, "
    "FQ-CoDel, PIE, CAKE and a queue that marks above 2 ms": r"linux controls ",
    "Linux: four Reno flows through pfifo, RED, CoDel, FQ-CoDel, PIE and CAKE, and four CUBIC flows through "
    "RED": r"linux (tcp|bulk)_",
    "Linux: the window of one flow every 20 ms, for CUBIC with and without HyStart and for Reno": (
        r"linux window "
    ),
    "Linux: the states of one flow, their times and levels every 20 ms, for BBR (version 1), DCTCP, CUBIC "
    "and Reno, also with changes of the link's rate": r"linux states ",
    "Linux: short transfers at 90 % of a link's rate through CAKE and FQ-CoDel": r"linux replay ",
    "Linux: three transfers over a slow last hop, or one transfer and datagrams, through Tail Drop and RED "
    "with one and with two classes; five single runs compared packet by packet": (
        r"linux (transfers|datagrams|trace) "
    ),
    "Linux on FABRIC: one Prague flow against a flow of CUBIC, BBRv1 or BBRv3, through FIFO, PIE, CoDel, fq, "
    "FQ-CoDel and DualPI2, without and with thresholds for marks": r"l4s two ",
    "The same for groups of Prague and CUBIC flows, with buffers of half to eight bandwidth-delay products": (
        r"l4s many "
    ),
    "Linux in namespaces: pairs of Prague and CUBIC flows with round trips of 10 to 80 ms through pfifo, "
    "FQ-CoDel and DualPI2": r"l4s s1 ",
    "The same machine: a Prague flow against CUBIC or Reno, without and with ECN, through CoDel with one "
    "queue, PIE and Adaptive RED": r"l4s s6 ",
    "Linux in namespaces, the L4S team's runs: one Prague flow through DualPI2; CUBIC, and then Prague, "
    "through six queues": r"l4s (one|pair) ",
    "str0m: Google Congestion Control in seven test cases of RFC 8867, with video of 1.5 or 4 Mb/s": (
        r"str0m "
    ),
}
"""The rows of the page's table, with the names of the cases that each row counts."""

WIDTH = 120
"""Maximum width of the page's lines."""
COUNTED = ("equivalent", "compatible", "loose", "explained", "unexplained")
HEADS = ("Equivalent", "Compatible", "Can hardly miss", "Miss, cause known", "Miss, cause unknown")


def table(rows: Sequence[Row]) -> str:
    """The rows for a terminal or a file; differences are in percent of the reference unless it is zero."""
    head = ["case", "quantity", "theirs", "ours", "difference", "95 % interval", "verdict", ""]
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    right = {2, 3, 4, 5}
    written = [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([written[0], "-" * max(map(len, written)), *written[1:]])


def _cells(row: Row) -> list[str]:
    if math.isnan(row.theirs):
        return [row.case, row.quantity, "", "", "", "", row.verdict, row.note]

    def of_theirs(value: float) -> str:
        return f"{100 * value / abs(row.theirs):+.2f} %" if row.theirs else f"{value:+.3g}"

    known = not (math.isnan(row.low) or math.isnan(row.high))
    interval = f"[{of_theirs(row.low)}, {of_theirs(row.high)}]" if known else ""
    return [
        row.case,
        row.quantity,
        f"{row.theirs:.6g}",
        f"{row.ours:.6g}",
        of_theirs(row.difference),
        interval,
        row.verdict.upper() if row.verdict == "miss" else row.verdict,
        row.note,
    ]


def summarise(rows: Sequence[Row]) -> Summary:
    """The counts by case and verdict, and the other numbers on the page; held-out cases separately."""
    held_out = [row for row in rows if row.held_out]
    return {**_part([row for row in rows if not row.held_out]), "held_out": _part(held_out)}


def _part(rows: Sequence[Row]) -> Summary:
    cases = {name: Counter(dict.fromkeys(COUNTED, 0)) for name in GROUPS}
    for row in rows:
        if row.judged:
            cases[group_of(row.case)][_kind(row)] += 1
    explained = [row for row in rows if row.explained]
    causes = dict.fromkeys(row.cause for row in explained)
    left: dict[str, dict[str, int]] = {}
    for verdict in ("printed", "not yet", "excluded"):
        notes = Counter(row.note for row in rows if row.verdict == verdict)
        left[verdict] = dict(sorted(notes.items(), key=lambda one: (-one[1], one[0])))
    return {
        "results_version": aqmlab.RESULTS_VERSION,
        "cases": {name: dict(counts) for name, counts in cases.items() if counts.total()},
        "held_up": sum(row.held_up and not row.loose for row in rows),
        "chance": float(f"{math.fsum(row.chance for row in rows if row.judged):.2g}"),
        "causes": {
            cause: dict(Counter(row.again for row in explained if row.cause == cause)) for cause in causes
        },
        "unexplained": _by_case(row for row in rows if row.verdict == "miss" and not row.explained),
        **left,
    }


def _by_case(rows: Iterable[Row]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.case, []).append(row.quantity + (f" ({row.note})" if row.note else ""))
    return found


def group_of(case: str) -> str:
    """The row of the page's table that counts a case."""
    return next(name for name, pattern in GROUPS.items() if re.match(pattern, case))


def _kind(row: Row) -> str:
    if row.verdict == "miss":
        return "explained" if row.explained else "unexplained"
    return "loose" if row.loose else row.verdict


def totals(part: Summary) -> Counter[str]:
    """The counts over the cases of a part: a summary without held-out cases, or the held-out cases."""
    return sum((Counter(counts) for counts in part["cases"].values()), Counter())


def everything(summary: Summary) -> Counter[str]:
    """The counts over all cases, including those held out."""
    return totals(summary) + totals(summary["held_out"])


def unexplained(summary: Summary) -> dict[str, list[str]]:
    """The quantities that miss without a known cause, by case."""
    return {**summary["held_out"]["unexplained"], **summary["unexplained"]}


def description(summary: Summary) -> str:
    """A short description of a run; the last line has the verdicts."""
    lines = []
    for verdict, what in (("printed", "printed"), ("not yet", "not yet"), ("excluded", "excluded")):
        lines += [f"{count} {what}: {note}." for note, count in summary[verdict].items()]
    for cause, again in summary["causes"].items():
        words = " and ".join(f"{count} {verdict}" for verdict, count in again.items())
        lines.append(f"{sum(again.values())} misses with a cause, then {words}: {cause}.")
    lines += [f"No cause known: {case}, {'; '.join(names)}" for case, names in unexplained(summary).items()]
    held_out = summary["held_out"]
    if held_out["cases"]:
        lines += [_noise(held_out), f"held out: {_verdicts(totals(held_out))}"]
    if summary["cases"]:
        lines.append(_noise(summary))
    lines.append(f"reference: {_verdicts(everything(summary))}")
    return "\n".join(lines)


def _verdicts(counts: Counter[str]) -> str:
    return (
        f"{counts.total()} judged, {counts['equivalent']} equivalent, {counts['compatible']} compatible, "
        f"{counts['loose']} that can hardly miss, {counts['explained']} miss with a cause, "
        f"{counts['unexplained']} miss without a cause"
    )


def _noise(summary: Summary) -> str:
    return (
        f"{summary['held_up']} of the {totals(summary)['compatible']} compatible quantities would remain "
        f"compatible however many aqmlab runs were made; by chance alone, {summary['chance']:.2g} misses "
        "would be expected."
    )


def read(path: Path = SUMMARY) -> Summary:
    """Reads a summary."""
    summary: Summary = json.loads(path.read_text(encoding="utf-8"))
    return summary


def write(summary: Summary, path: Path) -> None:
    """Writes a summary."""
    path.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# The page


def page(summary: Summary, text: str) -> str:
    """The page with each generated part renewed."""
    parts = {"held out": _held_out, "counts": _counts, "causes": _causes, "unjudged": _unjudged}
    for name, made in parts.items():
        begin, end = f"<!-- {name} of reference/agreement-summary.json -->\n", f"<!-- end of {name} -->\n"
        before, rest = text.split(begin)
        text = before + begin + "\n".join(made(summary)) + "\n" + end + rest.split(end)[1]
    return text


def _held_out(summary: Summary) -> list[str]:
    part = summary["held_out"]
    missed = "; ".join(
        f"{case.removeprefix(HELD_OUT)}, {', '.join(names)}" for case, names in part["unexplained"].items()
    )
    return [
        *_lines({**part["cases"], "All held-out cases": totals(part)}),
        "",
        *textwrap.wrap(_noise(part), width=WIDTH),
        "",
        *textwrap.wrap(
            f"Misses (the case, then the quantities): {missed or 'none'}.",
            width=WIDTH,
            break_on_hyphens=False,
        ),
    ]


def _counts(summary: Summary) -> list[str]:
    sums = {"All of these cases": totals(summary), "All cases, held-out cases included": everything(summary)}
    return [*_lines({**summary["cases"], **sums}), "", *textwrap.wrap(_noise(summary), width=WIDTH)]


def _lines(cases: Mapping[str, Mapping[str, int]]) -> list[str]:
    lines = [f"| Cases | {' | '.join(HEADS)} |", "| --- |" + " --- |" * len(HEADS)]
    for name, counts in cases.items():
        cells = (str(counts[key]) if counts[key] else "" for key in COUNTED)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _causes(summary: Summary) -> list[str]:
    lines = [
        "| Cause, shown by an experiment | Misses | Equivalent in the experiment "
        "| Compatible in the experiment |",
        "| --- | --- | --- | --- |",
    ]
    for cause, again in summary["causes"].items():
        found = " | ".join(str(again.get(verdict, "")) for verdict in AGREEMENTS[:2])
        lines.append(f"| {cause} | {sum(again.values())} | {found} |")
    for case, names in summary["unexplained"].items():
        lines.append(f"| No cause known: {case}, {'; '.join(names)} | {len(names)} | | |")
    return lines


def _unjudged(summary: Summary) -> list[str]:
    what = {
        "printed": "Quantities that are printed but not judged",
        "not yet": "Recorded cases of features that aqmlab does not have",
        "excluded": "Recorded cases that are not a valid reference",
    }
    lines = []
    for verdict, name in what.items():
        notes = "; ".join(f"{note} ({count})" for note, count in summary[verdict].items()) or "none"
        item = f"- {name} ({sum(summary[verdict].values())} in total): {notes}."
        lines += textwrap.wrap(item, width=WIDTH, subsequent_indent="  ")
    return lines


SENTENCE = re.compile(
    r"compares\s+\d+\s+quantities(.*?):\s+\d+\s+are\s+equivalent,\s+\d+\s+compatible,\s+\d+\s+can\s+hardly\s+"
    r"miss,\s+and\s+\d+\s+miss,\s+\d+\s+of\s+them\s+without\s+a\s+known\s+cause",
    re.DOTALL,
)
"""The README's sentence with counts, in the order of `_numbers`."""


def readme(summary: Summary, text: str) -> str:
    """The README with the counts of this summary in its sentence."""
    counts = everything(summary)
    misses = counts["explained"] + counts["unexplained"]
    numbers = iter(
        (
            counts.total(),
            counts["equivalent"],
            counts["compatible"],
            counts["loose"],
            misses,
            counts["unexplained"],
        )
    )
    found = SENTENCE.search(text)
    if found is None:
        raise ValueError("README.md: lacks the sentence with the counts of `make reference`")
    # The names of programs between the counts have digits, too.
    sentence = re.sub(r"(?<!-)\b\d+\b", lambda _: str(next(numbers)), found[0])
    return text[: found.start()] + sentence + text[found.end() :]


def with_held_out(summary: Summary, part: Summary) -> Summary:
    """A summary with the held-out cases of another run, which must have run all of them and no other case."""
    lines = {name for name, pattern in GROUPS.items() if pattern.startswith(HELD_OUT)}
    if part["cases"] or part["held_out"]["cases"].keys() != lines:
        raise ValueError(
            f"with --only, the page needs a run of all held-out cases: --only {HELD_OUT.strip()!r}"
        )
    return {**summary, "held_out": part["held_out"]}


def update_page(summary: Summary) -> None:
    """Writes the committed summary, and updates the page and the README from it."""
    write(summary, SUMMARY)
    for path, make in ((PAGE, page), (README, readme)):
        path.write_text(make(summary, path.read_text(encoding="utf-8")), encoding="utf-8")
