"""The delay, losses and reordering of a link from the options of `netem`."""

from __future__ import annotations

from typing import Any

from aqmlab import _core
from aqmlab.tc.options import Options, packets, rate, ticks_time, time

_LONGEST = 3600.0
"""Longest delay that is read, in seconds."""


def add(link: dict[str, Any], options: Options) -> dict[str, Any]:
    """Adds what a `netem` does to the table of a link, and returns the queue of the `netem` itself."""
    delay = options.table("delay")
    seconds = _seconds(delay, "delay") if delay else 0.0
    jitter = min(_seconds(delay, "jitter"), seconds) if delay else 0.0
    if delay:
        delay.skip_if_off("correlation", "delays are independent in aqmlab")
    at_once = _at_once(options)
    if at_once:
        # A fraction of the packets is sent at once, and the others are delayed.
        _reorder(link, options, 1 - at_once, seconds - jitter, 2 * jitter)
    else:
        _delay(link, seconds - jitter)
        if jitter:
            # Every packet gets an additional delay between zero and twice the jitter.
            _reorder(link, options, 1.0, 0.0, 2 * jitter)
    _loss(link, options)
    speed = options.table("rate")
    if speed:
        if speed.values.get("rate") != 0:
            link["rate"] = rate(speed.speed("rate"))
        for name in ("packetoverhead", "cellsize", "celloverhead"):
            speed.skip_if_off(name, "a link of aqmlab has no framing; use cake or stab")
    for name in ("duplicate", "corrupt", "slot"):
        options.skip_if_off(name, "aqmlab does not change or duplicate packets")
    options.skip_if_off("ecn", "netem's losses are not marks in aqmlab")
    options.skip("seed", "gap")
    return {"kind": "drop-tail", "limit": packets(options.count("limit"))}


def _seconds(table: Options, name: str) -> float:
    found = table.number(name, 0.0)
    if found > _LONGEST:
        raise table.document.error(f"{table.at}.{name}", f"must be at most {_LONGEST:g} s (got {found:g})")
    # `tc` prints whole microseconds after a conversion to ticks of 64 ns.
    micros = found * 1e6
    return ticks_time(round(micros)) / 1e6 if abs(micros - round(micros)) < 1e-3 else found


def _at_once(options: Options) -> float:
    """Returns the fraction of the packets that netem sends without delay."""
    reorder = options.table("reorder")
    if not reorder:
        return 0.0
    reorder.skip_if_off("correlation", "packets are reordered independently in aqmlab")
    if options.count("gap", 0) > 1:
        options.document.notes.append(
            f"{options.at}.gap: skipped; in aqmlab, every packet is reordered with the same probability"
        )
    return _share(reorder, "reorder")


def _delay(link: dict[str, Any], seconds: float) -> None:
    before = _core.quantity(link.get("delay", "0s"))[0]
    if seconds:
        link["delay"] = time((before + seconds) * 1e6)


def _reorder(link: dict[str, Any], options: Options, share: float, delay: float, jitter: float) -> None:
    if "reordering" in link:
        options.document.notes.append(f"{options.at}: skipped a second netem that reorders packets")
        return
    # The share is one minus a number with 32 bits.
    link["reordering"] = {
        "probability": round(share, 9),
        "delay": time(delay * 1e6),
        "jitter": time(jitter * 1e6),
    }


def _loss(link: dict[str, Any], options: Options) -> None:
    random, model, state = (options.table(name) for name in ("loss-random", "loss-gemodel", "loss-state"))
    if random:
        random.skip_if_off("correlation", "losses are independent in aqmlab; use the Gilbert-Elliott model")
        if share := _share(random, "loss"):
            link["loss"] = {"probability": share}
    if model:
        names = {"p": "p", "r": "r", "1-h": "loss_in_bad", "1-k": "loss_in_good"}
        link["loss"] = {ours: _share(model, theirs) for theirs, ours in names.items()}
    if state:
        options.document.notes.append(
            f"{state.at}: skipped, because aqmlab has the Gilbert-Elliott model (loss gemodel) and not the "
            "4-state model"
        )


def _share(table: Options, name: str) -> float:
    found = table.number(name)
    if found > 1:
        raise table.document.error(f"{table.at}.{name}", f"must be from 0 to 1 (got {found:g})")
    return found
