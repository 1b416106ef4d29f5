"""Runs a scenario in simulation and live, as a study that compares the two kinds of runs measure by
measure."""

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
from aqmlab.scenario.guests_program import guests_program
from aqmlab.scenario.workloads import Workload
from aqmlab.study import Claim, Experiment, Study, StudyResult, Table
from aqmlab.sweep import Changes

NAME = "live-agreement"

SCENARIO = "live-agreement"
"""The packaged scenario for this study. It has one long transfer and a queue of every family."""

NAMED = {"queue": "--queues", "tcp": "--tcp"}
"""Axes whose values are names. The value is the option that specifies the names."""

Pair = tuple[str, str]
"""Two kinds of runs: `live`, `virtual` (live in virtual time) or `simulated`."""

PAIRS: tuple[Pair, ...] = (("live", "simulated"), ("virtual", "simulated"), ("live", "virtual"))
"""The pairs that a study with runs in virtual time compares. Without such runs, the first pair is
compared."""

LINK_MEASURES = ("drops", "mean-queue")
DATAGRAM_MEASURES = ("goodput", "delay")
ENDLESS_MEASURES = ("goodput",)
TRANSFER_MEASURES = ("mean-time",)
PAGE_MEASURES = ("mean-time", "mean-page")
"""Last parts of the names of the compared measures. The groups are measures of each link with a queue, of
datagram workloads, of workloads with endless transfers, of other workloads, and of workloads whose objects
share connections."""

GOODPUT_TOLERANCE, TOLERANCE = 0.05, 0.1
"""Maximum deviation of the ratio live/simulated from 1: the first value is for goodput, the second value is
for all other measures.

Goodput hardly varies from run to run, so a narrow band can be verified. The other measures depend on
individual losses, and only a few tens of losses occur in a run of 30 s. A small number of runs can therefore
verify only a band of 10 %. For the cases on the page `docs/background/live-agreement.md`, six runs verified
this band for 110 of 130 measures.
"""

AT_ONCE_ON_A_CORE = 2
"""Number of concurrent live runs per core. A live run at 10 Mbit/s uses a sixth of a core."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A measure at a point for two kinds of runs: the means, their ratio with its 95 % interval, and the
    agreement (`stats.agreement`) of this interval with the band from 1 - tolerance to 1 + tolerance."""

    at: Labels
    pair: Pair
    """The two kinds of runs: the ratio is the value of the first kind divided by the value of the second."""
    measure: str
    title: str
    unit: str
    means: Mapping[str, float]
    """The mean of each of the two kinds of runs."""
    ratio: float
    low: float
    high: float
    tolerance: float
    verdict: stats.Agreement

    @property
    def simulated(self) -> float:
        """The mean of the simulated runs."""
        return self.means["simulated"]

    @property
    def live(self) -> float:
        """The mean of the live runs in real time."""
        return self.means["live"]

    @property
    def label(self) -> str:
        """The title of the measure, including the unit."""
        return with_unit(self.title, self.unit)


def measured(scenario: Scenario) -> tuple[Measure, ...]:
    """Returns the measures of the scenario that are compared."""
    known = measures.of_scenario(scenario)
    wanted = {f"{link}.{what}" for link in scenario.managed_links for what in LINK_MEASURES}
    for name, workload in scenario.workloads.items():
        wanted |= {f"{name}.{what}" for what in _of_workload(workload)}
    return measures.named(scenario, [name for name in known if name in wanted])


def _of_workload(workload: Workload) -> Sequence[str]:
    if workload.sends_datagrams:
        return DATAGRAM_MEASURES
    if workload.is_endless:
        return ENDLESS_MEASURES
    return PAGE_MEASURES if workload.shares_connections else TRANSFER_MEASURES


def study(
    scenario: Scenario,
    *,
    queues: Sequence[str] = (),
    tcps: Sequence[str] = (),
    at: Sequence[str] = (),
    vary: Mapping[str, Sequence[Value]] | None = None,
    simulated: Mapping[str, Any] | None = None,
    replications: int = 5,
    virtual: bool = False,
) -> Study:
    """Returns a study that runs a scenario in simulation and live, for each of the given queues, TCPs and
    values. For each measure, the study claims that the ratio live/simulated is 1 within the tolerance.

    `queues`, `tcps` and `at` have the same meaning as in `aqmlab.compare`. Without these arguments, the
    scenario is run unchanged. `vary` contains lists of values by dotted path of the scenario. `simulated`
    contains values by dotted path that apply only to the simulated runs, in order to find the cause of a
    difference. Simulated and live runs have the same seeds: `replications` seeds (at least 2), beginning with
    the scenario's seed. With `virtual`, the study also runs the scenario live in virtual time, and makes the
    same claims about the ratios virtual/simulated and live/virtual.

    Raises `ValueError`, which names the argument, the field or the point, if a name or a value is invalid, or
    if the scenario cannot be simulated. `run_study` checks, before any run, that the scenario can be run
    live.
    """
    arguments.instance("scenario", scenario, Scenario, "aqmlab.Scenario.load reads a file")
    arguments.count("replications", replications, 2)
    if scenario.level != "packet":
        raise ValueError(
            f"{scenario.name} has the level `{scenario.level}`, but live runs need the level `packet`"
        )
    axes = variants.axes(scenario, queues, tcps, at) | _varied(vary or {})
    try:
        attempted(lambda watch: scenario.plan.run(watch, None, guests_program()))
    except ValueError as error:
        raise ValueError(f"{scenario.name} cannot be simulated: {error}") from None
    kinds = ("simulated", "live", "virtual") if virtual else ("simulated", "live")
    by_kind = {
        name: Experiment(
            name,
            name,
            scenario,
            axes or {"case": Changes({scenario.name: {}})},
            measured(scenario),
            seeds=replications,
            first_seed=scenario.effective["seed"],
            live=name != "simulated",
            virtual=name == "virtual",
            of_seed=partial(_changed, simulated) if simulated and name == "simulated" else None,
        )
        for name in kinds
    }
    _check_points(by_kind["simulated"])
    pairs = PAIRS if virtual else PAIRS[:1]
    wanted = by_kind["simulated"].wanted
    claims = tuple(_claim(pair, by_kind, one) for pair in pairs for one in wanted)
    return Study.of(
        NAME,
        f"Simulated and live runs of {scenario.name}",
        *by_kind.values(),
        *claims,
        Table(
            "agreement",
            "Simulated and live",
            lambda results: tabulated(list(_compared(claims, results))),
            f"Means, {_heading(virtual)}. {legend(virtual)}. Each sign follows from the 95 % interval of its "
            "point. A claim is about all points. It fails by an interval whose level is corrected for the "
            "number of points.",
        ),
        question="How closely do live runs with the kernel's TCP agree with simulated runs of the same "
        "scenario?",
    )


def _varied(vary: Mapping[str, Sequence[Value]]) -> dict[str, Sequence[Value]]:
    for path in vary:
        if path in NAMED:
            raise ValueError(f"vary: {path}: is not a path of the scenario; use {NAMED[path]} and give names")
    return dict(vary)


def _changed(
    simulated: Mapping[str, Any], table: dict[str, Any], labels: Labels, seed: int
) -> dict[str, Any]:
    return changed(table, simulated)


def _check_points(experiment: Experiment) -> None:
    """Raises `ValueError` with one line per error if the core rejects the scenario of a point."""
    sweep, mistakes = experiment.sweep("full"), Mistakes()
    for point in sweep.points():
        mistakes.attempt(partial(sweep.scenario_of, point))
    mistakes.finish()


def _tolerance(measure: str) -> float:
    return GOODPUT_TOLERANCE if measure.endswith(".goodput") else TOLERANCE


def _claim(pair: Pair, by_kind: Mapping[str, Experiment], measure: Measure) -> Claim:
    tolerance = _tolerance(measure.name)
    first, second = pair
    suffix = "" if pair == PAIRS[0] else f".{first}-to-{second}"
    return Claim(
        f"{measure.name}{suffix}",
        f"{first.capitalize()} and {second} runs agree to {_percent(tolerance)}: {measure.title}.",
        ratio(by_kind[first][measure], by_kind[second][measure]).within(1 - tolerance, 1 + tolerance),
        figures=("agreement",),
        origin="ours",
    )


def compared(result: StudyResult) -> list[Compared]:
    """Returns the results of the study by pair, measure and point. A measure is omitted at points where the
    runs of the pair's second kind have no value of the measure."""
    return list(_compared(result.study.claims, result.results))


def _compared(claims: Sequence[Claim], results: ExperimentResults) -> Iterator[Compared]:
    for claim in claims:
        assert isinstance(claim.rule, Rule)
        estimate, band = claim.rule.estimate, claim.rule.band
        over, under = estimate.of
        assert isinstance(over, Measured) and isinstance(under, Measured)
        pair = (over.experiment.name, under.experiment.name)
        measure = claim.id.removesuffix(f".{pair[0]}-to-{pair[1]}")
        for labels in estimate.points(results):
            expected = mean_of(under).interval(results, labels)
            if not expected.count:
                continue
            found = estimate.interval(results, labels)
            yield Compared(
                at=labels,
                pair=pair,
                measure=measure,
                title=over.name,
                unit=over.unit,
                means={
                    pair[0]: mean_of(over).interval(results, labels).value,
                    pair[1]: expected.value,
                },
                ratio=found.value,
                low=found.low,
                high=found.high,
                tolerance=_tolerance(measure),
                verdict=stats.agreement(found, band),
            )


def tabulated(found: Sequence[Compared]) -> pl.DataFrame:
    """Returns a table with a row for each point and a column for each measure. A cell contains the values of
    both kinds of runs and the sign of the verdict. If several pairs are compared, each pair has a row."""
    several = len({one.pair for one in found}) > 1
    lines: dict[tuple[Value, ...], dict[str, Any]] = {}
    for one in found:
        labels = dict(one.at) | ({"runs": f"{one.pair[1]} | {one.pair[0]}"} if several else {})
        lines.setdefault(tuple(labels.values()), labels)[one.label] = _cell(one)
    axes = [*found[0].at, *(["runs"] if several else [])] if found else []
    heads = [*axes, *dict.fromkeys(one.label for one in found)]
    return pl.DataFrame(
        [[line.get(head) for head in heads] for line in lines.values()], schema=heads, orient="row"
    )


def _cell(one: Compared) -> str:
    first, second = one.pair
    sign = stats.AGREEMENT_SIGNS[one.verdict]
    return f"{_number(one.means[second])} | {_number(one.means[first])} {sign}"


def _heading(virtual: bool) -> str:
    return "the kinds of runs in the column `runs`" if virtual else "simulated | live"


def _number(value: float) -> str:
    """Returns the number with at least three significant digits, and with all digits before the decimal
    point."""
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def legend(virtual: bool = False) -> str:
    """Returns a legend of the signs."""
    signs = stats.AGREEMENT_SIGNS
    band = f"1 ± {_percent(TOLERANCE)} (goodput: 1 ± {_percent(GOODPUT_TOLERANCE)})"
    which = "the ratio" if virtual else "live/simulated"
    return (
        f"Position of the 95 % interval of {which}: {signs['equivalent']} entirely in {band} (equivalent), "
        f"{signs['compatible']} partly (compatible), {signs['miss']} entirely outside (miss)"
    )


def sentence(one: Compared) -> str:
    """Returns a comparison as one line of text."""
    sign = stats.AGREEMENT_SIGNS[one.verdict]
    found = "no interval" if math.isnan(one.low) else f"{one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]"
    return f"{sign} {format_labels(one.at)}: {one.title}, {'/'.join(one.pair)} {found}"


def record(result: StudyResult) -> dict[str, Any]:
    """Returns the results in the form that `--json` prints."""
    rows = [
        {
            "at": dict(one.at),
            "measure": one.measure,
            "unit": one.unit,
            "pair": "/".join(one.pair),
            **one.means,
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
        "virtual": result.provenance["virtual"],
        "failures": [str(one) for one in result.failures],
        "report": str(result.report),
    }
