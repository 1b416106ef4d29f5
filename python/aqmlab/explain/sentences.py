"""Descriptions of a story in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aqmlab._support.words import joined
from aqmlab.explain.losses import Loss
from aqmlab.explain.marks import Mark
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


MOST_ROUNDS = 10
"""Maximum number of responses to marks that are described one by one (aqmlab's choice). A sender that
responds in each round trip would need hundreds of sentences, which would hide the other events."""


def sentences(story: Story) -> list[str]:
    """Returns the description of a flow: a summary, and the losses, marks and reactions in chronological
    order."""
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
        of_marks = [mark.link for mark in story.marked if not mark.backward]
        links = list(dict.fromkeys(of_marks)) or story.marking_links
        by = f" by {joined(links)}" if links else ""
        yield f"{_count(story.marks, 'packet').capitalize()} arrived with a mark{by}."
        if story.transport == "tcp":
            number = sum(one.kind == "mark" for one in story.reactions)
            # BBR responds without a change of the threshold, so the reactions do not show its responses.
            if number:
                times = "once" if number == 1 else f"{number} times"
                yield f"The sender reduced its window {times} because of marks."
            yield "Marks delay no data, because marked packets arrive. Their price is the smaller window."
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


Event = Loss | Mark | Reaction


def _events(story: Story) -> Iterator[str]:
    """Yields a sentence for each group of losses, for each group of marks with the responses, and for each
    other reaction. Successive losses form a group if the link and the reason are equal, and nothing occurred
    between them. Marks and responses form a group until another event occurs."""
    events: list[Event] = [*story.losses, *story.marked, *story.reactions]
    group: list[Event] = []
    for event in sorted(events, key=lambda one: one.time_s):
        if group and not _continues(group[-1], event):
            yield from _described(group, story)
            group = []
        group.append(event)
    if group:
        yield from _described(group, story)


def _continues(last: Event, event: Event) -> bool:
    """Returns whether an event belongs to the group that ends with the event `last`."""
    if isinstance(last, Loss) or isinstance(event, Loss):
        return isinstance(last, Loss) and isinstance(event, Loss) and _alike(last, event, "reason")
    return _is_of_marks(last) and _is_of_marks(event)


def _is_of_marks(event: Event) -> bool:
    return isinstance(event, Mark) or (isinstance(event, Reaction) and event.kind == "mark")


def _described(group: Sequence[Event], story: Story) -> Iterator[str]:
    """Yields the sentences about a group of events."""
    losses = [one for one in group if isinstance(one, Loss)]
    marks = [one for one in group if isinstance(one, Mark)]
    reactions = [one for one in group if isinstance(one, Reaction)]
    if losses:
        yield _losses(losses, story)
    elif len(reactions) > MOST_ROUNDS and marks:
        yield _rounds(marks, reactions, story)
    else:
        alike: list[Mark] = []
        for event in group:
            if alike and not (isinstance(event, Mark) and _alike(alike[-1], event, "response_s")):
                yield _marks(alike, story) + _answer(alike)
                alike = []
            if isinstance(event, Mark):
                alike.append(event)
            elif isinstance(event, Reaction):
                yield _reaction(event)
        if alike:
            yield _marks(alike, story) + _answer(alike)


def _alike(one: Loss | Mark, other: Loss | Mark, *more: str) -> bool:
    alike = ("link", "backward", "is_syn", "again", *more)
    return all(getattr(one, name) == getattr(other, name) for name in alike)


def _losses(group: list[Loss], story: Story) -> str:
    first = group[0]
    reason = REASONS.get(first.reason, f"({first.reason})")
    parts = _numbers(group, OF_LOSSES)
    numbers = f" ({', '.join(parts)})" if parts else ""
    text = f"{_when(group)}, {first.link} dropped {_named(group, story)} {reason}{numbers}."
    return text + _consequence(group, story)


def _marks(group: list[Mark], story: Story) -> str:
    parts = _numbers(group, OF_MARKS)
    numbers = f", with {joined(parts)}" if parts else ""
    return f"{_when(group)}, {group[0].link} marked {_named(group, story)}{numbers}."


def _rounds(marks: list[Mark], reactions: list[Reaction], story: Story) -> str:
    """Returns the sentence about marks to which the sender responded many times."""
    windows = [one.window_after for one in reactions]
    by_link = [
        [one for one in marks if one.link == link] for link in dict.fromkeys(one.link for one in marks)
    ]
    text = " ".join(_marks(group, story) for group in by_link)
    return (
        f"{text} The sender responded {len(reactions)} times, from "
        f"{_at(reactions[0].time_s)} to {_at(reactions[-1].time_s)}: the congestion window was "
        f"{reactions[0].window_before:.1f} segments before the first response, and {min(windows):.1f} to "
        f"{max(windows):.1f} segments after the responses."
    )


def _answer(group: list[Mark]) -> str:
    """Returns the sentence about the sender's response to the first of several marks."""
    first = group[0]
    if first.echo_s is None or first.window_before is None:
        return ""
    if first.response_s is not None and first.response_s < first.echo_s:
        return (
            f" The sender had already reduced its window at {_at(first.response_s)}, and reduces the window "
            "at most once per round trip."
        )
    after = "the acknowledgement" if len(group) == 1 else "the first acknowledgement"
    text = f" The window was {first.window_before:.1f} segments before {after} at {_at(first.echo_s)}"
    if first.window_next is not None:
        text += f", and {first.window_next:.1f} segments one round trip later"
    return f"{text}."


def _when(group: Sequence[Loss | Mark]) -> str:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return f"At {_at(first.time_s)}"
    return f"From {_at(first.time_s)} to {_at(last.time_s)}"


def _named(group: Sequence[Loss | Mark], story: Story) -> str:
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


OF_LOSSES = (
    ("average", "average queue length {}"),
    ("probability", "drop probability {}"),
    ("count", "count {}"),
    ("draw", "random number {}"),
)
OF_MARKS = (
    ("length_packets", "{} packets in the queue"),
    ("average", "an average queue length of {}"),
    ("probability", "a probability of {}"),
    ("waited_ms", "a wait of {} ms"),
)
"""The attributes of losses and marks that explain the decision of the queue, with their descriptions."""


def _numbers(group: Sequence[Loss | Mark], of: Sequence[tuple[str, str]]) -> list[str]:
    """Returns the numbers that explain the drops or marks: of the only packet, or the ranges over several
    packets."""
    parts = []
    for name, text in of:
        values = [value for one in group if (value := getattr(one, name)) is not None]
        if values:
            low, high = f"{min(values):.4g}", f"{max(values):.4g}"
            parts.append(text.format(low if low == high else f"{low} to {high}"))
    return parts


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
