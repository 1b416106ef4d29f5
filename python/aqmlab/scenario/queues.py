"""Queues by name, and the links of a scenario at which they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aqmlab._support.names import hint
from aqmlab.scenario.catalog import queue_table

if TYPE_CHECKING:
    from aqmlab.scenario.scenario import Scenario


def queue_named(scenario: Scenario | None, name: str) -> dict[str, Any]:
    """The table of a queue: `queues.NAME` of the scenario, if there is one, or a kind with its defaults.
    Raises `ValueError` if there is no such queue."""
    return queue_table(scenario.given.get("queues", {}) if scenario is not None else {}, name)


def links_for(scenario: Scenario, at: Sequence[str] = ()) -> list[str]:
    """The managed links whose queues a named queue replaces: those of `at`, or all if `at` is empty. Raises
    `ValueError`, which suggests the nearest names, if one of them is no managed link."""
    managed = scenario.managed_links
    if not managed:
        raise ValueError(f"{scenario.name}: no link has a queue that could be replaced")
    for link in at:
        if link not in managed:
            raise ValueError(
                f"at: no managed link is named `{link}`: {hint(link, managed)} "
                "(managed links are those with a queue)"
            )
    return [link for link in managed if link in at] if at else managed


def with_queue(scenario: Scenario, name: str, at: Sequence[str] = ()) -> Scenario:
    """The scenario with another queue at the managed links named in `at`, or at all of them if `at` is empty:
    `queues.NAME` of the scenario, or a kind with its defaults. Raises `ValueError` if there is no such queue
    or link."""
    table = queue_named(scenario, name)
    places = scenario.links
    return scenario.with_({f"{places[link][0]}.queue": table for link in links_for(scenario, at)})


def replacement(scenario: Scenario, at: Sequence[str] = ()) -> str | None:
    """A sentence that says which queues are replaced, if the scenario has several managed links."""
    managed, chosen = scenario.managed_links, links_for(scenario, at)
    if len(managed) < 2:
        return None
    kept = [link for link in managed if link not in chosen]
    rest = f"unchanged: {', '.join(kept)}" if kept else "every managed link"
    hint_ = "" if at else "; --at LINK chooses"
    return f"Queues replaced at {', '.join(chosen)} ({rest}{hint_})"


def different_rates(scenario: Scenario, at: Sequence[str] = ()) -> str | None:
    """A note if the same queue comes to stand at links of different rates: each link then has the same
    parameters, such as a shaper's bandwidth, whatever its rate."""
    links = scenario.links
    rates = {link: str(links[link][1].get("rate", "a changing rate")) for link in links_for(scenario, at)}
    if len(set(rates.values())) < 2:
        return None
    said = ", ".join(f"{link} {rate}" for link, rate in rates.items())
    return (
        f"each queue has the same parameters at links of different rates ({said}); "
        "--at LINK limits the comparison to one of them"
    )
