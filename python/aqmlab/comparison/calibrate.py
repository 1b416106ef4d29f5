"""Finds the rate of connections that offers a wanted load.

The load that a rate of connections offers follows from no formula: headers, handshakes, acknowledgements of
the other direction and retransmissions that are not there all count. It is measured instead, on the
same network with a line so fast that nothing queues, and expressed as a share of the real line. A straight
line through the origin is fitted to what several rates carry, and read backwards. So did M. C. Weigle,
K. Jeffay, F. D. Smith, "Quantifying the Effects of Recent Protocol Improvements to Standards-Track TCP",
MASCOTS 2003.
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
"""How many times faster the line is while the load is measured."""

ROOM = "100000p"
"""The buffer of the fast line: nothing is dropped."""

AROUND = (0.8, 1.0, 1.2)
"""The rates that are measured, relative to a first guess."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a rate of connections offers, and the rate for the wanted load."""

    load: float
    """The wanted load, as a share of the line."""
    paths: Sequence[str]
    """The parameters that were varied together."""
    links: Sequence[str]
    """The links over which the load is averaged."""
    rate: float
    """Connections per second, for each of `paths`, that offer `load`."""
    low: float
    high: float
    """The ends of its 95 % interval, over replications; the upper one may be infinite."""
    points: Sequence[tuple[float, float]]
    """Each measured rate, and the mean load it offered."""

    @property
    def settings(self) -> dict[str, float]:
        """The changes that give a scenario this load, for `Scenario.with_`."""
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
    """The rate of connections with which `scenario` offers `load` (a share of the line, above 0, at most 2).

    All parameters at `paths` get the same rate; by default they are those of all workloads that have a rate
    of connections. The load is that of `links`, by default of every managed link, averaged. Each of
    three rates is measured `replications` times (at least 2) over the scenario's duration, less its warm-up.
    Runs that the `store` holds are not made again. With a `label` a bar shows how far it is.

    Raises `ValueError` if there is nothing to vary, no such link or no load to measure, or if a rate is
    refused.
    """
    if not 0 < load <= 2:
        raise ValueError(f"load: must be above 0 and at most 2, is {load:g}")
    if replications < 2:
        raise ValueError(f"replications: must be at least 2, is {replications}")
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
        """The loads offered, a list for each seed."""
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
                UNCONGESTED * math.fsum(of_link[place] for of_link in used[rate]) / len(wanted)
                for rate in rates
            ]
            for place in range(len(seeds))
        ]

    ((guess,),) = measured([first], [seed])
    if not guess > 0:
        raise ValueError(
            f"{paths[0]}: at {first:g} nothing came within the duration: raise it, or run for longer"
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
            f"no workload is of kind {' or '.join(kinds)}: name what to vary with --vary, such as "
            f"traffic.{next(iter(workloads), 'NAME')}.RATE"
        )
    return found


def _link_tables(scenario: Scenario) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Where the managed links of a scenario are described, by name."""
    return {name: place for name, place in scenario.links.items() if "queue" in place[1]}


def _managed(scenario: Scenario) -> tuple[str, ...]:
    return tuple(_link_tables(scenario))


def _uncongested(scenario: Scenario, links: Sequence[str]) -> Scenario:
    """The same network with lines on which nothing queues."""
    tables = _link_tables(scenario)
    unknown = [link for link in links if link not in tables]
    if unknown:
        raise ValueError(f"no managed link is named `{unknown[0]}`: there is {', '.join(tables)}")
    changes: dict[str, Any] = {}
    for place, table in tables.values():
        changes[f"{place}.rate"] = f"{UNCONGESTED * bits_per_second(table['rate']):.0f}bps"
        changes[f"{place}.queue"] = {"kind": "drop-tail", "limit": ROOM}
    return scenario.with_(changes | {"record.drops": False, "record.queue_every": "0s"})


def _first_guess(scenario: Scenario, paths: Sequence[str]) -> float:
    """The rate that the scenario has, of the first of `paths`."""
    values = flat(scenario.effective)
    for path in paths:
        if path.endswith(".load"):
            raise ValueError(f"{path}: is a share of the line already: nothing is left to calibrate")
        value = values.get(path)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            is_what = json.dumps(value) if path in values else "not there"
            raise ValueError(f"{path}: must be a number above zero in the scenario, is {is_what}")
    return float(values[paths[0]])
