"""Looks up queues by name, and replaces the queues of a scenario's links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aqmlab._support.names import hint
from aqmlab.scenario.catalog import queue_table

if TYPE_CHECKING:
    from aqmlab.scenario.scenario import Scenario


def queue_named(scenario: Scenario | None, name: str) -> dict[str, Any]:
    """Returns the table of a queue: `queues.NAME` of the scenario, if this table exists, and otherwise a kind
    with its defaults. Raises `ValueError` for an unknown name."""
    return queue_table(scenario.given.get("queues", {}) if scenario is not None else {}, name)


def links_for(scenario: Scenario, at: Sequence[str] = ()) -> list[str]:
    """Returns the managed links whose queues are replaced: the links in `at`, or all managed links if `at` is
    empty. If a link in `at` is not managed, raises `ValueError`, which suggests similar names."""
    managed = scenario.managed_links
    if not managed:
        raise ValueError(f"{scenario.name}: no link has a queue to replace")
    for link in at:
        if link not in managed:
            raise ValueError(
                f"at: no managed link is named `{link}`: {hint(link, managed)} (managed links have a queue)"
            )
    return [link for link in managed if link in at] if at else managed


def with_queue(scenario: Scenario, name: str, at: Sequence[str] = ()) -> Scenario:
    """Returns the scenario with another queue on the managed links in `at`, or on all managed links if `at`
    is empty. The queue is either `queues.NAME` of the scenario or a kind with its defaults. Raises
    `ValueError` for an unknown queue or link."""
    table = queue_named(scenario, name)
    links = scenario.links
    return scenario.with_({f"{links[link][0]}.queue": table for link in links_for(scenario, at)})


def replacement(scenario: Scenario, at: Sequence[str] = ()) -> str | None:
    """Returns a sentence about the links whose queues are replaced, or `None` if the scenario has only one
    managed link."""
    managed, chosen = scenario.managed_links, links_for(scenario, at)
    if len(managed) < 2:
        return None
    kept = [link for link in managed if link not in chosen]
    rest = f"unchanged: {', '.join(kept)}" if kept else "every managed link"
    hint_ = "" if at else "; select links with --at LINK"
    return f"Queues replaced at {', '.join(chosen)} ({rest}{hint_})"


def different_rates(scenario: Scenario, at: Sequence[str] = ()) -> str | None:
    """Returns a note if links with different rates get the same queue, and otherwise `None`. The note is
    needed because parameters such as a shaper's bandwidth are not adapted to the rate of each link."""
    links = scenario.links
    rates = {link: str(links[link][1].get("rate", "a changing rate")) for link in links_for(scenario, at)}
    if len(set(rates.values())) < 2:
        return None
    listed = ", ".join(f"{link} {rate}" for link, rate in rates.items())
    return (
        f"each queue has the same parameters at links of different rates ({listed}); "
        "--at LINK restricts the comparison to one of these links"
    )
