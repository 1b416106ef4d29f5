"""The same scenarios simulated and live: how far apart their measures are, and whether that is little."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aqmlab import metrics, stats
from aqmlab.campaign import Account, Failure, Local, execute, settled
from aqmlab.campaign import live as live_runs
from aqmlab.measures import Reduction, Run
from aqmlab.metrics import summary
from aqmlab.results.labels import Labels
from aqmlab.results.table import Results
from aqmlab.store import Store
from aqmlab.study.experiment import Experiment
from aqmlab.sweep import Changes

_RED: Mapping[str, Any] = {"min_th": "20p", "max_th": "60p", "max_p": 0.1, "weight": 0.002, "limit": "120p"}

QUEUES: Mapping[str, Mapping[str, Any]] = {
    "drop-tail": {"kind": "drop-tail", "limit": "60p"},
    "red": {"kind": "red", **_RED},
    "shred": {"kind": "shred", "red": _RED},
    "rio-ps": {"kind": "rio-ps", "limit": "120p", "mean_packet": "1500B", "weight": 0.002},
    "drr": {"kind": "drr", "limit": "60p"},
}
"""A queue of every family, for a line of 10 Mbit/s and a round trip of 44 ms (37 packets)."""

LOADS: Mapping[str, tuple[int, bool]] = {
    "1": (1, False),
    "4": (4, False),
    "10": (10, False),
    "4+web": (4, True),
}
"""Long transfers, and whether Web objects come beside them at 30 % of the line."""

TCPS = ("reno", "cubic")

HOSTS_TAKE = "50us"
"""At most so long does a simulated host take over a packet, as a real one and a router's wake-up do.

The simulator's own default is what a packet takes on the line, which keeps flows out of step: good for
averages over many scenarios, and not what these hosts do.
"""

SECONDS, WARM_UP = 30, 8

AT_ONCE_ON_A_CORE = 2
"""Live runs at once on each core: one takes a sixth of it."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is compared, and how far apart it may be."""

    name: str
    unit: str
    digits: int
    tolerance: float
    """As a share of what the simulation gives."""


MEASURES = (
    Measure(name="goodput", unit="Mbps", digits=2, tolerance=0.05),
    Measure(name="dropped", unit="%", digits=3, tolerance=0.1),
    Measure(name="queue", unit="packets", digits=1, tolerance=0.1),
    Measure(name="object", unit="s", digits=3, tolerance=0.1),
)
"""Goodput of the long transfers, share of packets dropped, mean queue, mean time of Web objects."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A measure of a case: means, live over simulated with its 95 % interval, and what `stats.agreement` says
    of that and a band of the tolerance to each side of 1."""

    queue: str
    load: str
    tcp: str
    measure: str
    unit: str
    simulated: float
    live: float
    ratio: float
    low: float
    high: float
    tolerance: float
    verdict: stats.Agreement


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What was found, and what the live runs were like."""

    compared: Sequence[Compared]
    replications: int
    failures: Sequence[Failure]
    live: Mapping[str, Any] | None
    """Facts of all live runs in one, as `live_runs.together` gives them."""


def _reduced(run: Run) -> Mapping[str, Any]:
    """The measures of a run, by name; no time of Web objects if there are none."""
    found = summary.of_tables(run.tables, run.manifest)
    (link,) = found["links"].values()
    return {
        "goodput": found["flows"]["ftp"]["goodput_bps"] / 1e6,
        "dropped": 100 * link["drop_fraction"],
        "queue": link["mean_queue_packets"],
        "object": found["transfers"]["web"]["mean_s"] if "web" in found["transfers"] else None,
    }


_REDUCTION = Reduction(prefix="live-agreement", of=_reduced)


def _load(flows: int, web: bool) -> dict[str, Any]:
    ftp = {"traffic.ftp.flows": flows}
    return ftp | {"traffic.web": {"kind": "web", "load": 0.3}} if web else ftp


def experiment(
    name: str,
    *,
    queues: Sequence[str] = tuple(QUEUES),
    loads: Sequence[str] = tuple(LOADS),
    tcps: Sequence[str] = TCPS,
    replications: int = 5,
) -> Experiment:
    """A dumbbell with long transfers and perhaps Web objects, in every case: `live` or `simulated`."""
    return Experiment(
        name=name,
        title=name,
        scenario={
            "duration": f"{SECONDS}s",
            "warm_up": f"{WARM_UP}s",
            "bottleneck": {"rate": "10Mbps", "delay": "20ms", "queue": {"kind": "drop-tail"}},
            "host": {"jitter": HOSTS_TAKE},
            "tcp": {"profile": "linux-6"},
            "traffic": {"ftp": {"kind": "ftp", "flows": 1, "stagger": "1s"}},
        },
        axes={
            "bottleneck.queue": {queue: dict(QUEUES[queue]) for queue in queues},
            "load": Changes({load: _load(*LOADS[load]) for load in loads}),
            "tcp": Changes({tcp: {"tcp.congestion_control": {"kind": tcp}} for tcp in tcps}),
        },
        measures=[_REDUCTION.measure(one.name, one.name, one.unit, one.digits) for one in MEASURES],
        seeds=replications,
        live=name == "live",
    )


def run(
    out: Path,
    *,
    queues: Sequence[str] = tuple(QUEUES),
    loads: Sequence[str] = tuple(LOADS),
    tcps: Sequence[str] = TCPS,
    replications: int = 5,
    simulated: Mapping[str, Any] | None = None,
    jobs: int | None = None,
) -> Comparison:
    """Runs every case with the seeds 1 to `replications`, simulated and live.

    `simulated` changes values, by path, of the simulated runs only: an experiment on what a difference comes
    from. `jobs` live runs are made at once, two on each core by default. Runs that the folder `out` holds
    already are not made again. Raises `ValueError` for a name that is not known, and `NotLive` if live runs
    are impossible here.
    """
    for names, known in ((queues, QUEUES), (loads, LOADS), (tcps, TCPS)):
        for name in names:
            if name not in known:
                raise ValueError(f"no case is named `{name}`: there is {', '.join(known)}")
    ours, theirs = (
        experiment(name, queues=queues, loads=loads, tcps=tcps, replications=replications)
        for name in ("simulated", "live")
    )
    out.mkdir(parents=True, exist_ok=True)
    apart = Local(jobs=jobs or AT_ONCE_ON_A_CORE * (os.cpu_count() or 1), apart_s=live_runs.APART_S)
    account = Account()
    plans = [
        ours.plan(ours.sweep("full", dict(simulated) if simulated else None)),
        theirs.plan(theirs.sweep("full")),
    ]
    with Store(out / "store") as store:
        live = [task for _, task in plans[1].tasks({})]
        kept = store.runs_of([task.scenario.digest for task in live])
        if not all(settled(kept.get(task.run), task.keys, retry=True) for task in live):
            live_runs.need()
        for planned in plans:
            tasks = [task for _, task in planned.tasks({})]
            execute(
                tasks,
                store,
                executor=apart if planned.experiment.live else Local(),
                label=f"{planned.experiment.name} runs",
                total=len(tasks),
                account=account,
                retry=True,
            )
        results = {planned.experiment.name: planned.collect(store, {}) for planned in plans}
        kept = store.runs_of([task.scenario.digest for task in live])
        facts = live_runs.together(one.live for one in kept.values() if one.live is not None)
    points = [point.labels for point in plans[0].sweep.points()]
    compared = [one for labels in points for one in _compared(results["live"], results["simulated"], labels)]
    return Comparison(compared=compared, replications=replications, failures=account.failures, live=facts)


def _compared(measured: Results, expected: Results, labels: Labels) -> Iterator[Compared]:
    point, seeds = tuple(labels.values()), sorted({*measured.seeds, *expected.seeds})
    for measure in MEASURES:
        name = _REDUCTION.measure(measure.name, measure.name).name
        live, simulated = (runs.numbers(name, point, seeds) for runs in (measured, expected))
        if all(math.isnan(value) for value in simulated):
            continue
        ratio = stats.paired_ratio(live, simulated)
        yield Compared(
            queue=str(labels["queue"]),
            load=str(labels["load"]),
            tcp=str(labels["tcp"]),
            measure=measure.name,
            unit=measure.unit,
            live=stats.mean_interval(live).value,
            simulated=stats.mean_interval(simulated).value,
            ratio=ratio.value,
            low=ratio.low,
            high=ratio.high,
            tolerance=measure.tolerance,
            verdict=stats.agreement(ratio, stats.within(1 - measure.tolerance, 1 + measure.tolerance)),
        )


def lines(found: Comparison) -> Iterator[str]:
    """A line for each case: each measure simulated, live, and how near they are."""
    bands = ", ".join(f"{one.name} ±{one.tolerance:.0%}" for one in MEASURES)
    yield f"simulated | live, means of {found.replications} runs. The 95 % interval of live/simulated lies"
    signs = stats.AGREEMENT_SIGNS
    yield (
        f"{signs['equivalent']} within (equivalent), {signs['compatible']} partly within (compatible), "
        f"{signs['miss']} outside (a miss): {bands}"
    )
    widths = {one.name: 18 + 2 * one.digits for one in MEASURES}
    head = "".join(f"{f'{one.name} ({one.unit})':>{widths[one.name]}}" for one in MEASURES)
    yield f"{'queue':<10}{'flows':<6} {'tcp':<6}{head}"
    cases: dict[tuple[str, str, str], list[Compared]] = {}
    for one in found.compared:
        cases.setdefault((one.queue, one.load, one.tcp), []).append(one)
    digits = {one.name: one.digits for one in MEASURES}
    for (queue, load, tcp), row in cases.items():
        cells = "".join(f"{_cell(one, digits[one.measure]):>{widths[one.measure]}}" for one in row)
        yield f"{queue:<10}{load:<6} {tcp:<6}{cells}"
    for one in found.compared:
        if one.verdict != "equivalent":
            yield (
                f"{signs[one.verdict]} {one.queue}, {one.load}, {one.tcp}: {one.measure} "
                f"live/simulated {one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]"
            )
    counts = {verdict: sum(one.verdict == verdict for one in found.compared) for verdict in signs}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    yield f"{len(found.compared)} measures: {told}"
    if found.live:
        yield (
            f"{found.live['runs']} live runs on Linux {', '.join(found.live['kernels'])}, all of them valid; "
            f"{found.live['repeated']} were not and were made again"
        )


def _cell(one: Compared, digits: int) -> str:
    if math.isnan(one.ratio):
        return stats.AGREEMENT_SIGNS[one.verdict]
    return f"{one.simulated:.{digits}f} | {one.live:.{digits}f} {stats.AGREEMENT_SIGNS[one.verdict]}"


def table(found: Comparison) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "replications": found.replications,
        "compared": metrics.finite([asdict(one) for one in found.compared]),
        "live": found.live,
        "failures": [str(one) for one in found.failures],
    }
