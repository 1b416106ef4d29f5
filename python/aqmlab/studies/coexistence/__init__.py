"""TCP Prague beside CUBIC and BBR behind nine queues (F. Sarpkaya and others, PAM 2025).

The paper's recorded runs on the testbed FABRIC are public. aqmlab derived each claim of this study from these
runs, and not from the text of the paper: the share of Prague in a cell of the grid is in a band around the
recorded mean, and on the recorded side of the fair share. `recorded.py` contains the rule from which bands
and sides follow. The rule was fixed before the first run of this study.

BBRv2, with which the paper also compares Prague, does not exist in aqmlab.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aqmlab.results.rule import every, mean_of
from aqmlab.results.variable import Variable, per_seed
from aqmlab.studies.coexistence import measures as m
from aqmlab.studies.coexistence import network as net
from aqmlab.studies.coexistence import recorded
from aqmlab.studies.coexistence.recorded import Cell
from aqmlab.study import (
    Claim,
    Experiment,
    Figure,
    Form,
    Study,
    Table,
    Verdicts,
    line,
    listed,
    our_claim,
    query,
    stacked,
)
from aqmlab.study.publication import Judged
from aqmlab.study.query import Query
from aqmlab.sweep import Changes

PAPER = (
    "F. B. Sarpkaya, F. Fund, S. Panwar: To Adopt or Not to Adopt L4S-Compatible Congestion Control? "
    "Understanding Performance in a Partial L4S Deployment. PAM 2025, doi 10.1007/978-3-031-85960-1_10. "
    "Runs: github:fatihsarpkaya/L4S-PAM2025, commit 60114fc6."
)

QUICK = Form(seeds=3, changes={"duration": "20s"})


def experiment(name: str, title: str, rtt_ms: int, axes: Mapping[str, Any], **fields: Any) -> Experiment:
    """An experiment on the testbed with a round-trip time."""
    return Experiment(
        name, title, net.scenario(rtt_ms), axes, m.ALL, seeds=10, most_seeds=20, quick=QUICK, **fields
    )


_BBR3 = (net.BBR3, net.BBR3_ECN, net.BBR3_LOW)
_SHARED = (net.FIFO, net.STEP, net.CODEL_ECN, net.FQ_CODEL, net.FQ_CODEL_L4S, net.DUALPI2)
"""The queues behind which groups of flows were recorded."""

pairs = experiment(
    recorded.PAIRS,
    "Two flows, 10 ms",
    10,
    {"other": Changes(net.OTHERS), net.QUEUE: net.queues(10)},
    varied=Form(axes={"other": (net.CUBIC_ECN,)}),
)
short_pairs = experiment(
    recorded.SHORT_PAIRS,
    "Two flows, 2 ms",
    2,
    {"other": Changes({name: net.OTHERS[name] for name in _BBR3}), net.QUEUE: net.queues(2)},
)
groups = experiment(
    recorded.GROUPS,
    "Groups of flows",
    10,
    {"flows": net.FLOWS, net.QUEUE: {name: net.queues(10)[name] for name in _SHARED}},
)
EXPERIMENTS = {one.name: one for one in (pairs, short_pairs, groups)}
RTT_MS = {pairs.name: 10, short_pairs.name: 2, groups.name: 10}

# Claims: one for each recorded cell

_CODES = {
    net.CUBIC: "cubic",
    net.CUBIC_ECN: "cubic-ecn",
    net.FALLBACK: "fallback",
    net.BBR1: "bbr1",
    net.BBR3: "bbr3",
    net.BBR3_ECN: "bbr3-ecn",
    net.BBR3_LOW: "bbr3-low",
    net.FIFO: "fifo",
    net.STEP: "step",
    net.PIE: "pie",
    net.CODEL: "codel",
    net.CODEL_ECN: "codel-ecn",
    net.FQ_STEP: "fq-step",
    net.FQ_CODEL: "fq-codel",
    net.FQ_CODEL_L4S: "fq-codel-l4s",
    net.DUALPI2: "dualpi2",
    **{name: name.replace(":", "x") for name in net.GROUPS},
}
"""Parts of the ids of claims."""

_SUFFIXES = {short_pairs.name: "-2ms"}

DERIVED = "aqmlab derived this claim from the ten recorded trials"


def claim_id(cell: Cell) -> str:
    """The id of the claim about a cell."""
    beside, queue = (_CODES[str(value)] for value in cell.labels.values())
    return f"{beside}{_SUFFIXES.get(cell.experiment, '')}-{queue}"


def claim(cell: Cell) -> Claim | None:
    """The claim about a cell; `None` for a bimodal cell whose trials have different signs."""
    share = mean_of(EXPERIMENTS[cell.experiment][m.SHARE].at(**cell.labels))
    fair = round(cell.fair, 2)
    rules = [share > fair if cell.sign > 0 else share < fair] if cell.sign else []
    if cell.band is not None:
        low, high = cell.band
        rules.append(share <= high if low <= 0 else share >= low if high >= 100 else share.within(low, high))
        source = f"{DERIVED}; the band is their 95 % interval, extended by {recorded.MARGIN:g} points"
    else:
        source = f"{DERIVED}, which are bimodal, so that only the sign is claimed"
    if not rules:
        return None
    return our_claim(claim_id(cell), _statement(cell), every(*rules), source)


def _statement(cell: Cell) -> str:
    beside, queue = map(str, cell.labels.values())
    other = net.CUBIC_ECN if cell.experiment == groups.name else beside
    many, others = ("one" if count == 1 else str(count) for count in cell.flows)
    flows = (
        f"{queue}: {_plural(many, 'Prague')} beside {_plural(others, other)}, {RTT_MS[cell.experiment]} ms"
    )
    fair = f"the fair share of {cell.fair:.3g} %"
    side = {1: f"more than {fair}", -1: f"less than {fair}"}.get(cell.sign, "")
    if cell.is_bimodal:
        trials = f"from {min(cell.shares):.1f} to {max(cell.shares):.1f} %"
        return f"{flows}: Prague gets {side} of the goodput (recorded: {trials})."
    number = (
        f"{cell.known.value:.1f} % of the goodput (recorded mean, standard deviation {cell.deviation:.1f})"
    )
    return f"{flows}: Prague gets {number}{side and ', which is '}{side}."


def _plural(count: str, control: str) -> str:
    return f"{count} {control} flow{'' if count == 'one' else 's'}"


CLAIMS = tuple(one for one in map(claim, recorded.cells()) if one is not None)

WITHOUT_CLAIM = tuple(claim_id(cell) for cell in recorded.cells() if claim(cell) is None)
"""Ids of the cells that have no claim, because their trials are bimodal and have different signs."""

# Figures and tables

OURS, THEIRS = "aqmlab", "recorded"
GROUP_NAMES = {net.PRAGUE: "Prague", net.OTHER: "other"}

CAPTION = (
    "aqmlab: mean over the replications with the 95 % interval, or the median if the replications have "
    "several modes. Recorded: mean of ten trials, plus and minus their standard deviation."
)


def delay(of: Experiment, group: str) -> Variable:
    """The mean queueing delay of a group's first flow: the smoothed round trip without the path's."""
    rtt_ms = RTT_MS[of.name]
    measure = {net.PRAGUE: m.PRAGUE_SRTT, net.OTHER: m.OTHER_SRTT}[group]
    name = f"queueing delay, {GROUP_NAMES[group]}"
    return per_seed(name, lambda srtt_ms: srtt_ms - rtt_ms, of[measure], unit="ms")


def beside(variables: Mapping[str, Variable]) -> Query:
    """Means of aqmlab with their intervals, beside recorded means with standard deviations. The names of the
    variables distinguish the bars."""
    sources = {
        f"{name}{source}": shown
        for name, one in variables.items()
        for source, shown in ((OURS, query(one)), (THEIRS, recorded.with_deviation(one)))
    }
    return stacked("source", sources).relabelled(queue=_in_two_lines)


def _in_two_lines(queue: str) -> str:
    return queue.replace(" ", "\n").replace("+", "\n+")


def _figures(id: str, title: str, of: Experiment, panels: Sequence[str]) -> Iterator[Figure]:
    """The figures of some values of an experiment's first axis: shares, and queueing delays."""
    label = of.labels[0]
    delays: dict[str, Variable] = {f"{name}, ": delay(of, group) for group, name in GROUP_NAMES.items()}
    for name, what, variables, unit, y_limits in (
        ("shares", "Prague's share of the goodput", {"": of[m.SHARE]}, "%", (0.0, 100.0)),
        ("delays", "Queueing delay of both groups", delays, "ms", None),
    ):
        some = {name_of_bar: one.among(**{label: panels}) for name_of_bar, one in variables.items()}
        chart = line(
            beside(some),
            x="queue",
            by="source",
            panel=label,
            kind="bars",
            beneath={panel: f"{panel} ({unit})" for panel in panels},
            y_limits=y_limits,
        )
        yield Figure(f"{name}-{id}", f"{what}: {title}", chart, CAPTION)


def _cells(of: Experiment) -> Table:
    """The shares and queueing delays of all cells of an experiment."""
    variables: dict[str, Variable] = {"share (%)": of[m.SHARE]}
    variables |= {f"{name}'s delay (ms)": delay(of, group) for group, name in GROUP_NAMES.items()}
    columns = {
        f"{name}, {source}": shown
        for name, one in variables.items()
        for source, shown in ((THEIRS, recorded.with_deviation(one)), (OURS, query(one)))
    }
    return Table(
        f"cells-{of.name}",
        f"Shares and queueing delays: {of.title}",
        listed(columns, of.labels[0], "queue"),
        "Recorded: mean of ten trials ± standard deviation. aqmlab: mean ± half of the 95 % interval.",
    )


SHOWN: tuple[Figure | Table, ...] = (
    *_figures("cubic", "beside CUBIC, 10 ms", pairs, (net.CUBIC, net.CUBIC_ECN, net.FALLBACK)),
    *_figures("bbr", "beside BBR, 10 ms", pairs, (net.BBR1, *_BBR3)),
    *_figures("2ms", "beside BBRv3, 2 ms", short_pairs, _BBR3),
    *_figures("groups", "groups of Prague flows and of CUBIC+ECN flows, 10 ms", groups, net.GROUPS),
    *map(_cells, EXPERIMENTS.values()),
)


def sign_holds(judged: Judged) -> bool | None:
    """Whether the sign of a claim holds; `None` for a claim without a sign."""
    cell = next(one for one in recorded.cells() if claim_id(one) == judged.claim.id)
    if not cell.sign:
        return None
    evidence = judged.evidence
    return (evidence.parts[0] if evidence.parts else evidence).verdict == "holds"


def answer(found: Verdicts) -> list[str]:
    """The number of claims that hold, and the ids of the others."""
    by_verdict: dict[str, list[str]] = {"holds": [], "fails": [], "undecided": []}
    for one in found:
        by_verdict[one.evidence.verdict].append(one.id)
    signs = [holds for holds in map(sign_holds, found) if holds is not None]
    sentences = [
        f"{len(by_verdict['holds'])} of {len(found)} cells have the recorded share.",
        f"Prague is on the recorded side of the fair share in {sum(signs)} of {len(signs)} cells.",
    ]
    if by_verdict["fails"]:
        sentences.append(f"Not confirmed: {', '.join(by_verdict['fails'])}.")
    if by_verdict["undecided"]:
        sentences.append(f"Undecided: {', '.join(by_verdict['undecided'])}.")
    return sentences


STUDY = Study.of(
    "coexistence",
    "TCP Prague beside CUBIC and BBR",
    *EXPERIMENTS.values(),
    *CLAIMS,
    *SHOWN,
    *net.DECISIONS,
    paper=PAPER,
    question="How do TCP Prague and other congestion controls share a link behind nine queues?",
    answer=answer,
)
