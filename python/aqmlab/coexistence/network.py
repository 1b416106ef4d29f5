"""The scenario of a coexistence study, and its axes: congestion controls, queues, buffers, round-trip times.

One link, the bottleneck, carries the data of all flows. Two congestion controls, called the first and the
second, each have the same number of endless flows and the same load of short transfers of one size. The
profile `linux-6` sets all other parameters of TCP. Acknowledgements return over a link that never drops
packets. A control may also be a guest: a transport library, or a program that implements a transport.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from aqmlab import _core
from aqmlab._support.mistakes import Mistakes
from aqmlab._support.quantities import value_of
from aqmlab.report_card.network import DROP_TAIL, PACKET
from aqmlab.report_card.queues import NO_CARD, shipped, with_ecn, with_room
from aqmlab.scenario import Scenario
from aqmlab.scenario.catalog import members
from aqmlab.scenario.queues import queue_named
from aqmlab.sweep import Changes

Table = dict[str, Any]

LINK = "bottleneck"

SIDES = ("first", "second")
"""The two congestion controls of a pair, which are also the names of the workloads of their endless flows."""

DEFAULT = "default"
"""The buffer that a queue has by default."""

RECOVERY = "rack"
"""The loss recovery of controls whose names do not contain a loss recovery. Linux's loss recovery is used, so
that the controls of a pair do not differ in anything else."""

GUEST = ":"
"""The separator in the name of a control that belongs to a guest, as in `quinn:cubic`."""

SIMULATED = "cubic"
"""The congestion control of the short transfers beside a program."""

WITH_ECN = "+ecn"
"""The suffix of a congestion control or queue that uses ECN."""

LEAST_ACCESS_BPS, ACCESS_FACTOR = 1e9, 10
"""Rate of the access links: 1 Gbit/s, or ten times the rate of the bottleneck if this is more (aqmlab's
choice, so that only the bottleneck delays packets)."""

STAGGER_S = 1.0
"""Length of the interval in which the endless flows begin at random times, as in the recorded runs of
Linux."""

_PRODUCTS = re.compile(r"(\d+(?:\.\d+)?)bdp")


def short(side: str) -> str:
    """The name of the workload that contains a side's short transfers."""
    return f"{side}-short"


def scenario(
    *, rate: str, flows: int, load: float, transfer: str, duration_s: float, warm_up_s: float
) -> Table:
    """The scenario before the axes change it. `load` is the total offered load of both sides' short
    transfers, as a share of the bottleneck's rate; `transfer` is the size of a short transfer."""
    rate_bps = _read("rate", rate, _positive_rate)
    workloads: dict[str, Table] = {}
    for side in SIDES:
        workloads[side] = {"kind": "ftp", "flows": flows, "stagger": f"{STAGGER_S:g}s"}
        sizes = {"kind": "constant", "value": transfer}
        workloads[short(side)] = {"kind": "web", "load": load / len(SIDES), "sizes": sizes}
    return {
        "duration": f"{duration_s:g}s",
        "warm_up": f"{warm_up_s:g}s",
        "bottleneck": {"rate": rate, "delay": "10ms", "queue": {"kind": DROP_TAIL}},
        "access": {"rate": f"{max(LEAST_ACCESS_BPS, ACCESS_FACTOR * rate_bps):.0f}bps", "delay": "0ms"},
        "tcp": {"profile": "linux-6"},
        "traffic": workloads,
        "record": {"drops": False, "queue_every": "0s", "packets": [LINK]},
    }


def axes(
    controls: Sequence[str],
    queues: Sequence[str],
    buffers: Sequence[str],
    rtts: Sequence[str],
    *,
    of: Scenario | None = None,
    guests: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Changes]:
    """The axes of a study in the order in which they change the scenario. `guests` contains the commands of
    programs, by the names that controls refer to. Raises `ValueError` with a line per error."""
    mistakes = Mistakes()

    def named(option: str, names: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
        if not names:
            mistakes.add(f"{option}: must contain at least one value")
        for name in dict.fromkeys(one for one in names if list(names).count(one) > 1):
            mistakes.add(f"{option}: `{name}` occurs twice: write each value once")
        return {name: mistakes.attempt(partial(_read, option, name, read)) for name in names}

    senders = named("controls", controls, partial(_sender, guests or {}))
    replacements = named("queues", queues, partial(queue, of))
    lengths = named("buffers", buffers, buffer)
    delays = named("rtts", rtts, _delay)
    mistakes.finish()
    return {
        "rtt": Changes({name: {"bottleneck.delay": delay} for name, delay in delays.items()}),
        "buffer": Changes({name: partial(_with_buffer, length) for name, length in lengths.items()}),
        "queue": Changes({name: partial(_with_queue, table) for name, table in replacements.items()}),
        **{side: Changes({name: partial(of, side) for name, of in senders.items()}) for side in SIDES},
    }


def pairs(controls: Sequence[str]) -> str:
    """The SQL condition that selects each unordered pair of controls once, and each control with itself."""
    position = {name: index for index, name in enumerate(controls)}
    return " OR ".join(
        f"(first = {_quoted(first)} AND second IN ({', '.join(map(_quoted, controls[index:]))}))"
        for first, index in position.items()
    )


def transport(name: str) -> Table:
    """The `[tcp]` table of a congestion control. Raises `ValueError` if the name is unknown."""
    control = name.removesuffix(WITH_ECN)
    kinds = {one.name for one in members("congestion-controls")}
    if control in kinds:
        name = f"{control}/{RECOVERY}{name.removeprefix(control)}"
    table: Table = json.loads(_core.transport(name))
    return table


def queue(of: Scenario | None, name: str) -> Table:
    """The table of a queue: `queues.NAME` of a scenario, or a kind with its defaults. The suffix `+ecn`
    enables marking. Raises `ValueError` if the name is unknown, if the kind does not manage a queue, or if
    the queue cannot mark packets."""
    table = queue_named(of, name.removesuffix(WITH_ECN))
    if table["kind"] in NO_CARD:
        raise ValueError(NO_CARD[table["kind"]])
    if not name.endswith(WITH_ECN):
        return table
    marking = with_ecn(table)
    if marking is None:
        raise ValueError(
            f"the queue `{table['kind']}` cannot mark packets, or needs further parameters for marking: "
            f"remove {WITH_ECN}"
        )
    return marking


def buffer(text: str) -> Callable[[float], int | None]:
    """A function that maps the bandwidth-delay product in bytes to a buffer size in full packets, or to
    `None` for the queue's default size. Raises `ValueError` for an invalid buffer."""
    if text == DEFAULT:
        return lambda _: None
    products = _PRODUCTS.fullmatch(text)
    if products is not None and float(products[1]) > 0:
        return partial(_packets, float(products[1]))
    try:
        value, unit = _core.quantity(text)
    except _core.ScenarioError:
        value, unit = 0.0, ""
    if unit not in ("p", "B") or value <= 0:
        raise ValueError(
            "must be a positive number of bandwidth-delay products such as 1bdp, of packets such as 100p or "
            f"of bytes such as 64kB, or {DEFAULT} (got {text})"
        )
    packets = max(1, math.ceil(value / (PACKET if unit == "B" else 1)))
    return lambda _: packets


def _read(option: str, name: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(name)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _positive_rate(text: str) -> float:
    return value_of(text, "bps", "positive rate, such as 50Mbps", positive=True)


def _delay(rtt: str) -> str:
    """The one-way delay of the bottleneck that results in this round-trip time."""
    rtt_s = value_of(rtt, "s", "positive time, such as 40ms", positive=True)
    return f"{rtt_s / 2 * 1e9:.0f}ns"


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


def _sender(guests: Mapping[str, Sequence[str]], name: str) -> Callable[[str, Table], Table]:
    """The function that gives a side of a scenario this congestion control."""
    if GUEST not in name:
        return partial(_with_control, transport(name))
    stack, control = name.split(GUEST, 1)
    return partial(_with_guest, stack, control, list(guests.get(stack, ())))


def _with_control(tcp: Table, side: str, table: Table) -> Table:
    for name in (side, short(side)):
        table["traffic"][name]["tcp"] = tcp
    return table


def _with_guest(stack: str, control: str, command: list[str], side: str, table: Table) -> Table:
    """The scenario in which guests have a side's flows. A library also has the short transfers, which
    begin at random times and whose payload is the same load. For a program, the short transfers remain
    those of simulated TCP, because each transfer would need two processes."""
    traffic = table["traffic"]
    rate_bps, _ = _core.quantity(table["bottleneck"]["rate"])
    duration_s, _ = _core.quantity(table["duration"])
    guest = {"kind": "guest", "control": control} | ({"client": command} if command else {"stack": stack})
    # A flow that sends as many bytes as the link can carry sends until the end of the run.
    endless = {"size": f"{math.ceil(rate_bps / 8 * duration_s)}B"}
    shorter = traffic[short(side)]
    traffic[side] = guest | endless | {key: traffic[side][key] for key in ("flows", "stagger")}
    if command:
        shorter["tcp"] = transport(SIMULATED)
        return table
    size = shorter["sizes"]["value"]
    size_bytes, _ = _core.quantity(size)
    flows = max(1, round(shorter["load"] * rate_bps / 8 * duration_s / size_bytes))
    traffic[short(side)] = guest | {"size": size, "flows": flows, "stagger": table["duration"]}
    return table


def _packets(products: float, product_bytes: float) -> int:
    return max(1, math.ceil(products * product_bytes / PACKET))


def _with_buffer(packets_of: Callable[[float], int | None], table: Table) -> Table:
    """The scenario in which the bottleneck has a Drop Tail queue with this buffer. `_with_queue` replaces the
    Drop Tail queue and keeps the buffer."""
    link = table["bottleneck"]
    rate_bps, _ = _core.quantity(link["rate"])
    delay_s, _ = _core.quantity(link["delay"])
    packets = packets_of(rate_bps / 8 * 2 * delay_s)
    link["queue"] = {"kind": DROP_TAIL} | ({} if packets is None else {"limit": f"{packets}p"})
    return table


def _with_queue(replacement: Table, table: Table) -> Table:
    link = table["bottleneck"]
    limit = link["queue"].get("limit")
    packets = None if limit is None else int(_core.quantity(limit)[0])
    link["queue"] = shipped(replacement) if packets is None else with_room(replacement, packets)
    return table
