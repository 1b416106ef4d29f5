"""The life of one flow: its transfers, losses, marks and reactions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from aqmlab.explain import runs
from aqmlab.explain.losses import Loss, losses
from aqmlab.explain.marks import Mark, marks, with_responses
from aqmlab.explain.packets import directions, rows_of
from aqmlab.explain.sender import Reaction, reactions, with_repairs

if TYPE_CHECKING:
    from aqmlab.scenario import Scenario
    from aqmlab.scenario.run import Run

Transport = Literal["tcp", "quic", "datagrams"]

_DETAILS = ("time_s", "link", "reason", "window", "average", "probability", "count", "draw")


@dataclass(frozen=True, kw_only=True)
class Story:
    """The life of one flow in one run."""

    flow: int
    traffic: str
    seed: int
    transport: Transport
    counters: dict[str, Any]
    """The flow's row of the table `flows`."""
    transfers: tuple[dict[str, Any], ...]
    """The flow's rows of the table `transfers`."""
    losses: tuple[Loss, ...]
    """The losses of packets with a SYN, data or a FIN, in chronological order."""
    reactions: tuple[Reaction, ...]
    """The reactions of the sender of the data; empty for QUIC and datagrams."""
    marks: int | None
    """Number of packets that arrived at the receiver with a mark."""
    marked: tuple[Mark, ...]
    """The marked packets in chronological order; empty if `record.packets` does not contain the links that
    marked packets."""
    marking_links: tuple[str, ...]
    """Links that marked packets of any flow."""
    delays_s: tuple[float, float, float] | None
    """Least, mean and greatest one-way delay of the packets that arrived at the receiver of the data; `None`
    if no packet arrived."""
    lost_acknowledgements: int
    """Number of bare acknowledgements that queues dropped."""
    run: Run
    """The run with the recorded tables."""

    @property
    def cost_s(self) -> float:
        """The sum of the known costs of all losses from the sender to the receiver of the data, and in the
        set-up of the connection."""
        return sum(loss.cost_s for loss in self.losses if loss.cost_s is not None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the story for JSON."""
        return {
            "flow": self.flow,
            "traffic": self.traffic,
            "seed": self.seed,
            "transport": self.transport,
            "counters": self.counters,
            "transfers": list(self.transfers),
            "losses": [loss.to_dict() for loss in self.losses],
            "losses_cost_s": self.cost_s if self.transport == "tcp" else None,
            "reactions": [one.to_dict() for one in self.reactions],
            "marks": self.marks,
            "marked": [mark.to_dict() for mark in self.marked],
            "marking_links": list(self.marking_links),
            "delays_s": self.delays_s,
            "lost_acknowledgements": self.lost_acknowledgements,
        }


def explain(
    scenario: Scenario,
    flow: int | None = None,
    *,
    traffic: str | None = None,
    page: int | None = None,
    seed: int | None = None,
) -> Story:
    """Runs a scenario and returns the life of a flow: the first run finds the flow, and the second run
    records its history. If queues marked packets of the flow, a third run, which ends soon after the flow,
    also records all packets at the links that marked packets. Without `flow`, the flow of the transfer that
    completed `page` is explained or, without `page`, the slowest transfer. With `traffic`, the flow belongs
    to this workload.

    Raises `ValueError` if the scenario is not at packet level or has no transfer, and `LookupError` for an
    unknown flow or workload."""
    runs.check(scenario, traffic)
    found = runs.complete(scenario).run(seed)
    if flow is None and page is not None:
        flow = runs.last_of_page(found, page, traffic)
    if flow is None:
        rows = runs.slowest(found, traffic, most=1)
        if not rows.height:
            raise ValueError(f"{scenario.name}: the run has no transfer: select a flow with --flow")
        flow = int(rows["flow"][0])
    name, lifetime = life(found, flow, traffic)
    complete = runs.recorded(scenario, name, lifetime_s=lifetime)
    story = of_run(complete.run(seed), flow)
    return _with_marks(story, complete, seed) if story.marks else story


def _with_marks(story: Story, scenario: Scenario, seed: int | None) -> Story:
    """Returns the story from a run that also records the packets at the links that marked packets. Because
    these are the packets of all flows, the run ends after the flow, if this leaves the flow unchanged."""
    located = scenario.with_({"record.packets": list(story.marking_links)})
    end_s = story.counters["end_s"]
    if end_s is not None:
        try:
            found = of_run(located.with_({"duration": f"{end_s + 0.001:.3f}s"}).run(seed), story.flow)
        except (ValueError, LookupError):
            pass  # The shorter run is refused or lacks the flow, because a workload depends on the duration.
        else:
            same = ("transfers", "losses", "reactions", "marks", "lost_acknowledgements")
            if all(getattr(found, name) == getattr(story, name) for name in same):
                # The goodput is relative to the duration of the run.
                return replace(found, counters=story.counters)
    return of_run(located.run(seed), story.flow)


def life(run: Run, flow: int, traffic: str | None = None) -> tuple[str, float]:
    """Returns the workload of a flow and the duration of the flow. Raises `LookupError` for an unknown flow,
    and for a flow that does not belong to the workload `traffic`."""
    import polars as pl

    from aqmlab.metrics.tables import window

    rows = run.flows.with_columns(pl.col("traffic").cast(pl.String))
    if traffic is not None:
        rows = rows.filter(pl.col("traffic") == traffic)
    found = rows.filter(pl.col("flow") == flow)
    of = "" if traffic is None else f" of the workload `{traffic}`"
    if not rows.height:
        raise LookupError(f"the run has no flow{of}")
    if not found.height:
        least, most = min(numbers := rows["flow"].to_list()), max(numbers)
        raise LookupError(
            f"--flow {flow}: no flow{of} has this number; flows have the numbers {least} to {most}"
        )
    row = found.row(0, named=True)
    end = row["end_s"] if row["end_s"] is not None else window(run.manifest)[1]
    return row["traffic"], max(end - row["start_s"], 1e-3)


def of_run(run: Run, flow: int) -> Story:
    """Returns the life of a flow in a run that recorded the flow's history (`explain.recorded`).

    Raises `LookupError` if the run has no flow with this number, or no history of the flow."""
    import polars as pl

    from aqmlab.run_charts.time_sequence import HOW_TO_RECORD

    name, _ = life(run, flow)
    rows = rows_of(run.tables["packets"], flow)
    if not rows:
        raise LookupError(f"flow {flow} has no history: {HOW_TO_RECORD}")
    drops = (
        run.tables["drops"]
        .filter(pl.col("flow") == flow)
        .with_columns(pl.col("reason", "link").cast(pl.String))
    )
    details = drops.select(_DETAILS).to_dicts()
    forward, backward = directions(rows, details)
    transport: Transport = "tcp"
    if all(row.flags is None for row in rows):
        transport = "quic" if any(row.event == "acknowledge" for row in rows) else "datagrams"
    found: list[Loss] = []
    answers: list[Reaction] = []
    marked = marks(forward, run.tables["gauges"])
    if transport == "tcp":
        senders = run.tables["senders"].filter(pl.col("flow") == flow)
        answers = reactions(senders, rows, forward)
        marked = with_responses([*marked, *marks(backward, run.tables["gauges"])], senders, rows, answers)
        found = with_repairs([*losses(forward), *losses(backward)], answers)
    else:
        # Datagrams are not sent again, and QUIC sends lost data again in packets with other numbers.
        found = [
            replace(loss, cost_s=None, sent_again_s=None, repair=None, delivered_s=None)
            for loss in losses(forward)
        ]
    delays = [one.received_s - one.sent_s for one in forward.packets if one.received_s is not None]
    counters = run.flows.filter(pl.col("flow") == flow).with_columns(pl.col("traffic").cast(pl.String))
    transfers = run.transfers.filter(pl.col("flow") == flow).with_columns(pl.col("traffic").cast(pl.String))
    links = run.links.filter(pl.col("marks") > 0)["link"].cast(pl.String)
    return Story(
        flow=flow,
        traffic=name,
        seed=run.manifest["seed"],
        transport=transport,
        counters=counters.row(0, named=True),
        transfers=tuple(transfers.to_dicts()),
        losses=tuple(sorted(found, key=lambda loss: loss.time_s)),
        reactions=tuple(answers),
        marks=sum(one.marked for one in forward.packets),
        marked=tuple(sorted(marked, key=lambda mark: mark.time_s)),
        marking_links=tuple(links),
        delays_s=(min(delays), sum(delays) / len(delays), max(delays)) if delays else None,
        lost_acknowledgements=forward.lost_acknowledgements + backward.lost_acknowledgements,
        run=run,
    )
