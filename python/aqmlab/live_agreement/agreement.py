"""A scenario simulated and live: a study of how far apart its measures are, and whether that is little."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from aqmlab import measures, metrics, stats
from aqmlab._support import arguments
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.parallel import attempted
from aqmlab.comparison import variants
from aqmlab.measures import Measure, with_unit
from aqmlab.results.labels import Labels, Value, format_labels
from aqmlab.results.rule import Rule, mean_of, ratio
from aqmlab.results.table import ExperimentResults
from aqmlab.results.variable import Measured
from aqmlab.scenario import Scenario, changed
from aqmlab.scenario.workloads import Workload
from aqmlab.study import Claim, Experiment, Study, StudyResult, Table
from aqmlab.sweep import Changes

NAME = "live-agreement"

SCENARIO = "live-agreement"
"""The scenario that comes with aqmlab for this study: a queue of every family, one long transfer."""

NAMED = {"queue": "--queues", "tcp": "--tcp"}
"""Axes that have names and not values, and the option for each."""

OF_LINKS = ("drops", "mean-queue")
OF_DATAGRAMS = ("goodput", "delay")
OF_ENDLESS = ("goodput",)
OF_TRANSFERS = ("mean-time",)
OF_PAGES = ("mean-time", "mean-page")
"""What is compared: the last words of the measures of each link with a queue, of workloads that send
datagrams, of those whose transfers never end, of the others, and of those whose objects share connections."""

GOODPUT_TOLERANCE, TOLERANCE = 0.05, 0.1
"""How far the ratio live/simulated may be from 1, of goodput and of any other measure.

Goodput hardly varies from run to run, so a narrow band can be shown. The others hang on single losses, of
which a run of half a minute has some tens: a band of a tenth is one that few runs can show. Of the cases on
the page `docs/background/live-agreement.md` six runs showed it for 110 of 130 measures.
"""

AT_ONCE_ON_A_CORE = 2
"""Live runs at once on each core: one of 10 Mbit/s takes a sixth of it."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A measure at a point: means, live over simulated with its 95 % interval, and what `stats.agreement`
    says of that and a band of the tolerance to each side of 1."""

    at: Labels
    measure: str
    title: str
    unit: str
    simulated: float
    live: float
    ratio: float
    low: float
    high: float
    tolerance: float
    verdict: stats.Agreement

    @property
    def label(self) -> str:
        """The measure in words, with its unit."""
        return with_unit(self.title, self.unit)


def measured(scenario: Scenario) -> tuple[Measure, ...]:
    """The measures that are compared, of those that the scenario has."""
    known = measures.of_scenario(scenario)
    wanted = {f"{link}.{what}" for link in scenario.managed_links for what in OF_LINKS}
    for name, workload in scenario.workloads.items():
        wanted |= {f"{name}.{what}" for what in _of_workload(workload)}
    return measures.named(scenario, [name for name in known if name in wanted])


def _of_workload(workload: Workload) -> Sequence[str]:
    if workload.sends_datagrams:
        return OF_DATAGRAMS
    if workload.is_endless:
        return OF_ENDLESS
    return OF_PAGES if workload.shares_connections else OF_TRANSFERS


def study(
    scenario: Scenario,
    *,
    queues: Sequence[str] = (),
    tcps: Sequence[str] = (),
    at: Sequence[str] = (),
    vary: Mapping[str, Sequence[Value]] | None = None,
    simulated: Mapping[str, Any] | None = None,
    replications: int = 5,
) -> Study:
    """A scenario simulated and live, with each of these queues, TCPs and values, and a claim for each
    measure: that live/simulated is 1, up to the tolerance.

    `queues`, `tcps` and `at` are as in `aqmlab.compare`; without any, the scenario's own is run. `vary` has
    values by dotted path of the scenario. `simulated` changes values, by dotted path, of the simulated runs
    only: an experiment on what a difference comes from. Both kinds of run have the same seeds: `replications`
    of them (at least 2), from that of the scenario on.

    Raises `ValueError`, which names the argument, the field or the point, if a name or a value is wrong, or
    if the scenario cannot be simulated. `run_study` refuses what cannot be run live, before any run.
    """
    arguments.instance("scenario", scenario, Scenario, "aqmlab.Scenario.load reads a file")
    arguments.count("replications", replications, 2)
    if scenario.level != "packet":
        raise ValueError(f"{scenario.name} is of the level `{scenario.level}`: live runs are of `packet`")
    axes = variants.axes(scenario, queues, tcps, at) | _varied(vary or {})
    try:
        attempted(lambda watch: scenario.plan.run(watch, None))
    except ValueError as error:
        raise ValueError(f"{scenario.name} cannot be simulated: {error}") from None
    ours, theirs = (
        Experiment(
            name,
            name,
            scenario,
            axes or {"case": Changes({scenario.name: {}})},
            measured(scenario),
            seeds=replications,
            first_seed=scenario.effective["seed"],
            live=name == "live",
            of_seed=partial(_changed, simulated) if simulated and name != "live" else None,
        )
        for name in ("simulated", "live")
    )
    _check_points(ours)
    claims = tuple(_claim(ours, theirs, one) for one in ours.wanted)
    return Study.of(
        NAME,
        f"Simulated and live runs of {scenario.name}",
        ours,
        theirs,
        *claims,
        Table(
            "agreement",
            "Simulated and live",
            lambda results: tabulated(list(_compared(claims, results))),
            f"Means, simulated | live. {legend()}. Each sign is by the 95 % interval of its own point; a "
            "claim, which is about all points, fails by an interval that allows for their number.",
        ),
        question="How near are live runs, on the kernel's TCP, to simulated ones of the same scenario?",
    )


def _varied(vary: Mapping[str, Sequence[Value]]) -> dict[str, Sequence[Value]]:
    for path in vary:
        if path in NAMED:
            raise ValueError(f"vary: {path}: is no path of the scenario: {NAMED[path]} takes names")
    return dict(vary)


def _changed(
    simulated: Mapping[str, Any], table: dict[str, Any], labels: Labels, seed: int
) -> dict[str, Any]:
    return changed(table, simulated)


def _check_points(experiment: Experiment) -> None:
    """Raises `ValueError`, with a line for each mistake, if the core refuses the scenario of a point."""
    sweep, mistakes = experiment.sweep("full"), Mistakes()
    for point in sweep.points():
        mistakes.attempt(partial(sweep.scenario_of, point))
    mistakes.finish()


def _tolerance(measure: str) -> float:
    return GOODPUT_TOLERANCE if measure.endswith(".goodput") else TOLERANCE


def _claim(ours: Experiment, theirs: Experiment, measure: Measure) -> Claim:
    tolerance = _tolerance(measure.name)
    return Claim(
        measure.name,
        f"Live and simulated runs agree to {_percent(tolerance)}: {measure.title}.",
        ratio(theirs[measure], ours[measure]).within(1 - tolerance, 1 + tolerance),
        figures=("agreement",),
        origin="ours",
    )


def compared(result: StudyResult) -> list[Compared]:
    """What a run of the study found, measure by measure and point by point. A measure that the simulated runs
    of a point do not have is left out there."""
    return list(_compared(result.study.claims, result.results))


def _compared(claims: Sequence[Claim], results: ExperimentResults) -> Iterator[Compared]:
    for claim in claims:
        assert isinstance(claim.rule, Rule)
        estimate, band = claim.rule.estimate, claim.rule.band
        live, simulated = estimate.of
        assert isinstance(live, Measured)
        for labels in estimate.points(results):
            expected = mean_of(simulated).interval(results, labels)
            if not expected.count:
                continue
            found = estimate.interval(results, labels)
            yield Compared(
                at=labels,
                measure=claim.id,
                title=live.name,
                unit=live.unit,
                simulated=expected.value,
                live=mean_of(live).interval(results, labels).value,
                ratio=found.value,
                low=found.low,
                high=found.high,
                tolerance=_tolerance(claim.id),
                verdict=stats.agreement(found, band),
            )


def tabulated(found: Sequence[Compared]) -> pl.DataFrame:
    """A line for each point, and a column for each measure: simulated, live, and the sign of the verdict."""
    lines: dict[tuple[Value, ...], dict[str, Any]] = {}
    for one in found:
        lines.setdefault(tuple(one.at.values()), dict(one.at))[one.label] = _cell(one)
    heads = [*(found[0].at if found else ()), *dict.fromkeys(one.label for one in found)]
    return pl.DataFrame(
        [[line.get(head) for head in heads] for line in lines.values()], schema=heads, orient="row"
    )


def _cell(one: Compared) -> str:
    return f"{_number(one.simulated)} | {_number(one.live)} {stats.AGREEMENT_SIGNS[one.verdict]}"


def _number(value: float) -> str:
    """Three digits, and all that stand before the point."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def legend() -> str:
    """What the signs mean."""
    signs = stats.AGREEMENT_SIGNS
    band = f"1 ± {_percent(TOLERANCE)} (goodput: 1 ± {_percent(GOODPUT_TOLERANCE)})"
    return (
        f"The 95 % interval of live/simulated lies in {band}: {signs['equivalent']} all of it (equivalent), "
        f"{signs['compatible']} a part (compatible), {signs['miss']} none (a miss)"
    )


def sentence(one: Compared) -> str:
    """A comparison in a line."""
    sign = stats.AGREEMENT_SIGNS[one.verdict]
    found = "no interval" if math.isnan(one.low) else f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]"
    return f"{sign} {format_labels(one.at)}: {one.title}, live/simulated {found}"


def record(result: StudyResult) -> dict[str, Any]:
    """What `--json` prints."""
    rows = [
        {
            "at": dict(one.at),
            "measure": one.measure,
            "unit": one.unit,
            "simulated": one.simulated,
            "live": one.live,
            "ratio": one.ratio,
            "low": one.low,
            "high": one.high,
            "tolerance": one.tolerance,
            "verdict": one.verdict,
        }
        for one in compared(result)
    ]
    return {
        "replications": result.study.experiments[0].seeds,
        "compared": metrics.finite(rows),
        "live": result.provenance["live"],
        "failures": [str(one) for one in result.failures],
        "report": str(result.report),
    }
