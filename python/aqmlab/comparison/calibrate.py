"""Finds the connection rate that causes a given offered load.

No formula relates the load to the connection rate, because headers, handshakes, acknowledgements for the
reverse direction and the absence of retransmissions all influence the load. The load is therefore measured on
the same network with a link that is so fast that no queue forms, and expressed as a share of the real link's
rate. A straight line through the origin is fitted to the loads that are measured at several connection rates.
The line is then inverted. The method is described in M. C. Weigle, K. Jeffay, F. D. Smith, "Quantifying the
Effects of Recent Protocol Improvements to Standards-Track TCP", MASCOTS 2003.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aqmlab import measures, stats
from aqmlab.campaign import Local
from aqmlab.metrics import bits_per_second
from aqmlab.scenario import Scenario, flat
from aqmlab.scenario.catalog import members
from aqmlab.scenario.workloads import Workload
from aqmlab.store import Store
from aqmlab.sweep import Changes, Sweep
from aqmlab.sweep import run as sweep_run

UNCONGESTED = 20
"""Ratio of the link's rate during the calibration to the link's real rate."""

ROOM = "100000p"
"""Buffer of the fast link, which is large enough to avoid drops."""

AROUND = (0.8, 1.0, 1.2)
"""Connection rates at which the load is measured, relative to a first estimate of the rate."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The connection rate that causes a load, and the measured loads."""

    load: float
    """Requested load, as a share of the link's rate."""
    paths: Sequence[str]
    """Paths of the parameters that were varied together."""
    links: Sequence[str]
    """Links over which the load is averaged."""
    rate: float
    """Connections per second that cause `load`. Each parameter in `paths` gets this value."""
    low: float
    high: float
    """Ends of the 95 % interval of `rate` over replications. The upper end may be infinite."""
    points: Sequence[tuple[float, float]]
    """Pairs of a connection rate and the mean load that was measured at this rate."""

    @property
    def settings(self) -> dict[str, float]:
        """Returns the changes that set this load in a scenario, as arguments of `Scenario.with_`."""
        return {path: round(self.rate, 2) for path in self.paths}


def calibrate(
    scenario: Scenario,
    load: float,
    *,
    paths: Sequence[str] = (),
    links: Sequence[str] = (),
    replications: int = 5,
    jobs: int | None = None,
    label: str | None = None,
    store: Store | None = None,
) -> Calibration:
    """Returns the connection rate at which the offered load of `scenario` is `load` (as a share of the link's
    rate, above 0 and at most 2).

    All parameters at `paths` get the same rate. By default, `paths` are the connection rates of all workloads
    that have a connection rate. The load is averaged over `links`, by default over all managed links. The
    load at each of three rates is measured `replications` times (at least 2) over the scenario's duration
    without the warm-up. Runs in the `store` are not repeated. A `label` enables a progress bar.

    Raises `ValueError` if there is no rate to vary, if a link does not exist, if no load was measured, or if
    a rate is invalid.
    """
    if not 0 < load <= 2:
        raise ValueError(f"load: must be greater than 0 and at most 2 (got {load:g})")
    if replications < 2:
        raise ValueError(f"replications: must be at least 2 (got {replications})")
    paths = tuple(paths) or _rates_of(scenario)
    links = tuple(links) or _managed(scenario)
    fast = _uncongested(scenario, links)
    first = _first_guess(scenario, paths)
    wanted = [
        replace(one, series=None) for one in measures.named(fast, [f"{link}.utilisation" for link in links])
    ]
    seed = int(scenario.effective["seed"])
    kept = store or Store.in_memory()

    def measured(rates: Sequence[float], seeds: Sequence[int]) -> list[list[float]]:
        """Returns a list of the offered loads for each seed."""
        sweep = Sweep(
            fast,
            axes={paths[0]: Changes({rate: dict.fromkeys(paths, rate) for rate in rates})},
            measures=wanted,
            name="calibrate",
            replications=len(seeds),
            first_seed=seeds[0],
        )
        sweep_run.run(sweep, kept, executor=Local(jobs=jobs), label=label, retry=True, fail_fast=True)
        found = kept.results(sweep)
        used = {
            rate: [[value / 100 for value in found.numbers(one.name, (rate,), seeds)] for one in wanted]
            for rate in rates
        }
        return [
            [
                UNCONGESTED * math.fsum(of_link[index] for of_link in used[rate]) / len(wanted)
                for rate in rates
            ]
            for index in range(len(seeds))
        ]

    ((guess,),) = measured([first], [seed])
    if not guess > 0:
        raise ValueError(
            f"{paths[0]}: no data arrived at a rate of {first:g}: increase the rate or the scenario's "
            "duration"
        )
    centre = first * load / guess
    rates = [centre * part for part in AROUND]
    loads = measured(rates, range(seed, seed + replications))
    slopes = [stats.through_origin(rates, ours) for ours in loads]
    rate = stats.inverse(stats.mean_interval(slopes), load)
    means = [math.fsum(column) / len(column) for column in zip(*loads, strict=True)]
    return Calibration(
        load=load,
        paths=paths,
        links=links,
        rate=rate.value,
        low=rate.low,
        high=rate.high,
        points=list(zip(rates, means, strict=True)),
    )


def _rates_of(scenario: Scenario) -> tuple[str, ...]:
    workloads = scenario.workloads
    rates = {name: one.connection_rate for name, one in workloads.items()}
    found = tuple(f"traffic.{name}.{rate}" for name, rate in rates.items() if rate is not None)
    if not found:
        kinds = [one.name for one in members("traffic") if Workload.of({"kind": one.name}).connection_rate]
        raise ValueError(
            f"no workload is of the kind {' or '.join(kinds)}: use --vary to select the parameter, such as "
            f"traffic.{next(iter(workloads), 'NAME')}.RATE"
        )
    return found


def _link_tables(scenario: Scenario) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Returns the paths and tables of a scenario's managed links, by name."""
    return {name: link for name, link in scenario.links.items() if "queue" in link[1]}


def _managed(scenario: Scenario) -> tuple[str, ...]:
    return tuple(_link_tables(scenario))


def _uncongested(scenario: Scenario, links: Sequence[str]) -> Scenario:
    """Returns the scenario with links that are so fast that no queue forms."""
    tables = _link_tables(scenario)
    unknown = [link for link in links if link not in tables]
    if unknown:
        raise ValueError(f"no managed link is named `{unknown[0]}`; available: {', '.join(tables)}")
    changes: dict[str, Any] = {}
    for path, table in tables.values():
        changes[f"{path}.rate"] = f"{UNCONGESTED * bits_per_second(table['rate']):.0f}bps"
        changes[f"{path}.queue"] = {"kind": "drop-tail", "limit": ROOM}
    return scenario.with_(changes | {"record.drops": False, "record.queue_every": "0s"})


def _first_guess(scenario: Scenario, paths: Sequence[str]) -> float:
    """Returns the rate that the scenario has at the first of `paths`."""
    values = flat(scenario.effective)
    for path in paths:
        if path.endswith(".load"):
            raise ValueError(
                f"{path}: needs no calibration, because the value is already a share of the link rate"
            )
        value = values.get(path)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            given = json.dumps(value) if path in values else "nothing"
            raise ValueError(f"{path}: must be a number greater than zero in the scenario (got {given})")
    return float(values[paths[0]])
