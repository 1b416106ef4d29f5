"""Descriptions of a story in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aqmlab._support.words import joined
from aqmlab.explain.losses import Loss
from aqmlab.explain.packets import ACK
from aqmlab.explain.sender import Reaction
from aqmlab.explain.story import Story

REASONS = {
    "overflow": "because the queue was full",
    "early": "before the queue was full",
    "forced": "because the discipline was dropping every packet",
    "sojourn": "because packets had waited in the queue for too long",
    "ce-threshold": "because the marking threshold was exceeded",
    "overmemory": "because the queued packets used too much memory",
    "flow-limit": "because the flow had reached its limit",
    "horizon": "because the departure time was too far in the future",
    "matched": "because a packet of the same flow was drawn at random from the queue",
    "unresponsive": "because the flow did not respond to congestion",
    "ack-filter": "because a later acknowledgement made the packet redundant",
    "policed": "because the rate of a policer was exceeded",
    "line-loss": "because of an error on the link",
}
"""A clause for each reason in the table `drops`."""

LIMITS = {
    "quic": "The cost of a loss is not known for QUIC: lost data are sent again in packets with other "
    "numbers, and the "
    "table `packets` does not record which data a packet contains.",
    "datagrams": "Datagrams are not sent again, so a loss costs no time: the datagram is missing.",
}
"""What a story of each transport does not contain."""


def sentences(story: Story) -> list[str]:
    """Returns the description of a flow: a summary, and the losses and reactions in chronological order."""
    return [*_summary(story), *_events(story)]


def _summary(story: Story) -> Iterator[str]:
    counters = story.counters
    yield from _beginning(story)
    sent, dropped = counters["packets_sent"], counters["packets_dropped"]
    yield f"Queues dropped {_share(dropped, sent)}."
    if story.transport != "datagrams":
        reactions = [_count(counters[name], word) for name, word in _COUNTED if counters[name]]
        again = _count(counters["retransmitted"], "segment")
        if counters["retransmitted"]:
            yield f"The sender sent {again} again{', after ' + joined(reactions) if reactions else ''}."
    if story.marks:
        by = f" by {joined(story.marking_links)}" if story.marking_links else ""
        yield f"{_count(story.marks, 'packet').capitalize()} arrived with a mark{by}."
    if story.delays_s is not None:
        least, mean, most = story.delays_s
        yield (
            f"The packets that arrived took {_time(mean)} on average from host to host, from "
            f"{_time(least)} to "
            f"{_time(most)}."
        )
    if story.lost_acknowledgements:
        yield f"Queues also dropped {_count(story.lost_acknowledgements, 'acknowledgement')}."
    if story.transport != "tcp":
        yield LIMITS[story.transport]
    elif story.losses:
        yield _cost(story)


_COUNTED = (("fast_retransmits", "fast retransmit"), ("timeouts", "time-out"))


def _beginning(story: Story) -> Iterator[str]:
    counters, transfers = story.counters, story.transfers
    head = f"Flow {story.flow} of {story.traffic}"
    if story.transport == "datagrams":
        yield f"{head} sent {counters['packets_sent']} datagrams from {_at(counters['start_s'])} on."
    elif len(transfers) == 1:
        [only] = transfers
        yield (
            f"{head} carried one transfer of {only['size_bytes']} bytes "
            f"({_count(only['segments'], 'segment')}), which "
            f"began at {_at(only['start_s'])} and {_ending(only)}."
        )
    elif transfers:
        slowest = max(transfers, key=lambda row: (not row["complete"], row["duration_s"] or 0.0))
        yield (
            f"{head} carried {len(transfers)} transfers on one connection from {_at(counters['start_s'])} on."
        )
        yield f"The slowest transfer began at {_at(slowest['start_s'])} and {_ending(slowest)}."
    else:
        yield (
            f"{head} is endless, began at {_at(counters['start_s'])} and sent {counters['packets_sent']} "
            "packets."
        )


def _ending(transfer: dict[str, Any]) -> str:
    if not transfer["complete"]:
        return "was not complete at the end of the run"
    return f"took {_time(transfer['duration_s'])}"


def _cost(story: Story) -> str:
    total, unknown = story.cost_s, sum(loss.cost_s is None for loss in story.losses)
    text = f"The losses delayed the delivery of data by {_time(total)} in total"
    if len(story.transfers) == 1 and story.transfers[0]["duration_s"]:
        text += (
            f", which is {100 * total / story.transfers[0]['duration_s']:.0f} % of the transfer's duration"
        )
    if unknown:
        text += f"; the cost of {_count(unknown, 'loss')} is not known"
    return text + "."


def _events(story: Story) -> Iterator[str]:
    """Yields a sentence for each group of losses, and for each reaction. Successive losses form a group if
    the link and the reason are equal, and no reaction occurred between them."""
    group: list[Loss] = []
    events: list[Loss | Reaction] = sorted([*story.losses, *story.reactions], key=lambda one: one.time_s)
    for event in events:
        if group and not (isinstance(event, Loss) and _alike(group[-1], event)):
            yield _losses(group, story)
            group = []
        if isinstance(event, Loss):
            group.append(event)
        else:
            yield _reaction(event)
    if group:
        yield _losses(group, story)


def _alike(one: Loss, other: Loss) -> bool:
    alike = ("link", "reason", "backward", "is_syn", "again")
    return all(getattr(one, name) == getattr(other, name) for name in alike)


def _losses(group: list[Loss], story: Story) -> str:
    first, last = group[0], group[-1]
    reason = REASONS.get(first.reason, f"({first.reason})")
    when = f"At {_at(first.time_s)}"
    if len(group) > 1:
        when = f"From {_at(first.time_s)} to {_at(last.time_s)}"
    text = f"{when}, {first.link} dropped {_named(group, story)} {reason}{_numbers(group)}."
    return text + _consequence(group, story)


def _named(group: list[Loss], story: Story) -> str:
    first = group[0]
    if first.is_syn:
        name = "SYN-ACK" if (first.flags or 0) & ACK else "SYN"
        return f"the {name}" if len(group) == 1 else f"{len(group)} {name}s"
    where = " of the receiver" if first.backward else ""
    what = "retransmission" if first.again else "packet"
    if story.transport == "tcp":
        if len(group) > 1:
            return f"{len(group)} {what}s{where} (the first begins at byte {first.first_byte})"
        end = first.first_byte + first.payload_bytes - 1
        contents = f"bytes {first.first_byte} to {end}" if first.payload_bytes else "FIN"
        return f"the {what}{where} with {'the ' if contents == 'FIN' else ''}{contents}"
    unit = "datagram" if story.transport == "datagrams" else "packet"
    if len(group) > 1:
        return f"{len(group)} {unit}s (the first has the number {first.first_byte})"
    return f"{unit} {first.first_byte}"


def _numbers(group: list[Loss]) -> str:
    """Returns the numbers on which the drops were based: of the only loss, or the ranges over several
    losses."""
    parts = []
    for name, label in (
        ("average", "average queue length"),
        ("probability", "drop probability"),
        ("count", "count"),
        ("draw", "random number"),
    ):
        values = [value for loss in group if (value := getattr(loss, name)) is not None]
        if values:
            low, high = min(values), max(values)
            parts.append(f"{label} {low:.4g}" if low == high else f"{label} {low:.4g} to {high:.4g}")
    return f" ({', '.join(parts)})" if parts else ""


def _consequence(group: list[Loss], story: Story) -> str:
    if story.transport != "tcp":
        return ""
    known = [loss.cost_s for loss in group if loss.cost_s is not None]
    subject = "The loss" if len(group) == 1 else "These losses"
    if not known:
        return f" The cost of {subject.lower()} is not known, because the data were not delivered."
    cost = sum(known)
    if cost == 0.0:
        return f" {subject} delayed nothing, because the data had to wait for earlier data."
    if len(group) == 1 and group[0].sent_again_s is not None:
        waited = _time(group[0].sent_again_s - group[0].sent_s)
        if group[0].is_syn:
            return (
                f" The packet was sent again after {waited}, and the loss delayed the set-up by "
                f"{_time(cost)}."
            )
        return (
            f" The data were sent again after {waited}, and the loss delayed their delivery by {_time(cost)}."
        )
    return f" {subject} delayed the delivery of data by {_time(cost)}."


def _reaction(one: Reaction) -> str:
    windows = f"the congestion window changed from {one.window_before:.1f} to {one.window_after:.1f} segments"
    threshold = f"the slow-start threshold became {one.threshold:.1f} segments"
    match one.kind:
        case "time-out":
            return (
                f"At {_at(one.time_s)}, the retransmission timer expired after "
                f"{_time(one.waited_s or 0.0)}: {windows}, "
                f"{threshold}, and the next time-out is {_time(one.next_wait_s or 0.0)}."
            )
        case "probe":
            return (
                f"At {_at(one.time_s)}, after a silence of {_time(one.waited_s or 0.0)}, the sender sent a "
                "tail loss "
                f"probe with a window of {one.window_after:.1f} segments."
            )
        case "repaired":
            return (
                f"At {_at(one.time_s)}, an acknowledgement showed that a probe had repaired a loss: "
                f"{windows}, and "
                f"{threshold}."
            )
        case "mark":
            return (
                f"At {_at(one.time_s)}, the echo of a mark arrived at the sender: {windows}, and {threshold}."
            )
        case "fast retransmit":
            after = f" after {_count(one.dupacks, 'duplicate acknowledgement')}" if one.dupacks else ""
            return (
                f"At {_at(one.time_s)}, the sender detected a loss{after} (fast retransmit): {windows}, "
                f"and {threshold}."
            )


def _at(time_s: float) -> str:
    return f"{time_s:.3f} s"


def _time(duration_s: float) -> str:
    return f"{1000 * duration_s:.1f} ms" if duration_s < 1 else f"{duration_s:.3f} s"


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{'one' if number == 1 else number} {noun if number == 1 else plural}"


def _share(part: int, whole: int) -> str:
    return f"{part if part else 'none'} of the {whole} packets that the sender sent"
