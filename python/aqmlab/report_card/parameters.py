"""The main parameters of queues. Section 8.3 of RFC 7928 requests that parameters be varied. A card sets each
main parameter to half and to double its value.

The RFC requests a discussion of the stability of the control law and of its sensitivity to parameters. A main
parameter is either a parameter that users must choose (according to the source of the queue discipline), or a
gain or threshold of the control law. Table sizes, seeds and switches are not main parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aqmlab.report_card import queues
from aqmlab.report_card.network import Table

FACTORS: Mapping[str, float] = {"half": 0.5, "double": 2.0}


@dataclass(frozen=True, kw_only=True)
class Main:
    """A main parameter."""

    paths: tuple[str, ...]
    """Paths of the parameter. There is more than one path if several parameters must be scaled together
    because they jointly define a gain or thresholds."""
    base: Any = None
    """The value that applies if the parameter is omitted."""

    @property
    def name(self) -> str:
        """Returns the paths, joined to one name."""
        return " and ".join(self.paths)


def _of(*names: str, **bases: Any) -> tuple[Main, ...]:
    """Returns parameters by path. Parameters with paths that are joined as `a+b` are scaled together. `bases`
    contains the values of parameters that are omitted."""
    several = tuple(Main(paths=tuple(name.split("+"))) for name in names)
    return (*several, *(Main(paths=(name,), base=base) for name, base in bases.items()))


_FLOWS_ALONE = _of("limit")
"""Fair queueing without AQM has no main parameter except the limit."""

MAIN: Mapping[str, tuple[Main, ...]] = {
    "adaptive-red": _of("target_delay", "interval", "alpha"),
    "avq": _of("gamma", "alpha"),
    "blue": _of("increment", "decrement", "freeze_time"),
    "cake": _of("rtt"),
    "choke": _of("probability", max="50p"),
    "cobalt": _of("target", "interval"),
    "codel": _of("target", "interval"),
    "docsis-pie": _of("target"),
    "drop-tail": _of("limit"),
    "drr": _of("limit", "quantum"),
    "dualpi2": _of("coupling", target="15ms", tupdate="16ms", alpha=0.16, beta=3.2),
    "fq": _of("quantum", "flow_limit"),
    "fq-codel": _of("target", "interval", "quantum"),
    "fq-pie": _of("target", "tupdate", "alpha", "beta"),
    "gred": _of("vqs.min+vqs.max", "vqs.probability"),
    "linux-red": _of("probability", max="100kB"),
    "pfq": _FLOWS_ALONE,
    "pi": _of("q_ref", "a+b", "interval"),
    "pie": _of("target", "tupdate", "alpha", "beta"),
    "pimc": _of("pi.q_ref", "pi.a+pi.b", "min_cwnd"),
    "pisa": _of("pi.q_ref", "pi.a+pi.b", "window_weight"),
    "red": _of("min_th+max_th", "max_p", "weight"),
    "rem": _of("target", "gamma", "interval"),
    "rio": _of("classes.min_th+classes.max_th", "classes.max_p", "weight"),
    "rio-ps": _of("min_share", "long_max_share", "long_max_p", "weight"),
    "rr": _FLOWS_ALONE,
    "scfq": _FLOWS_ALONE,
    "self-configuring-red": _of("red.min_th+red.max_th", "red.weight", "alpha"),
    "sfb": _of("increment", "decrement", target="20p"),
    "sfq": _of("depth", "quantum"),
    "shred": _of("red.min_th+red.max_th", "red.max_p", "red.weight", "window_weight"),
    "stfq": _FLOWS_ALONE,
    "wfq": _FLOWS_ALONE,
}
"""Main parameters by kind. `base` is the documented value that applies if the parameter is omitted. This
table does not contain parameters for which half or double the value would be meaningless: `beta` of Adaptive
RED (0.9, a factor below 1) and of self-configuring RED (a factor above 1), `phi` of REM (a base above 1)."""


@dataclass(frozen=True, kw_only=True)
class Variants:
    """The variants of a queue; in each variant, one main parameter is set to half or to double its value."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    """The queue tables of the variants, by the variant's name."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """The reasons why variants are impossible, by the variant's name."""


def variants(queue: Table, rate: str) -> Variants:
    """Returns the variants of a queue for a link of this rate."""
    tables: dict[str, Table] = {}
    refused: dict[str, str] = {}
    for main in MAIN.get(queue["kind"], ()):
        if main.base is not None and set(queue) != {"kind"} and main.name not in queue:
            refused[main.name] = "is not set, and follows from other parameters"
            continue
        for word, factor in FACTORS.items():
            variant = queue
            for path in main.paths:
                variant = queues.put(variant, path, partial(_scaled, factor=factor, base=main.base))
            name = f"{main.name} at {word}"
            reason = queues.refusal(variant, rate)
            if reason is None:
                tables[name] = variant
            else:
                refused[name] = reason
    return Variants(tables=tables, refused=refused)


def _scaled(value: Any, *, factor: float, base: Any) -> Any:
    """Scales a number, or a number with a unit, by a factor. Whole numbers are rounded to whole numbers of at
    least 1."""
    value = base if value is None else value
    if isinstance(value, str):
        found = re.fullmatch(r"([\d.]+)([A-Za-z]+)", value)
        if found is None:
            raise ValueError(f"{value!r} is not a number with a unit")
        return f"{_in_unit(float(found[1]) * factor, found[2])}{found[2]}"
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _in_unit(number: float, unit: str) -> str:
    """Formats a number with a given unit. Numbers of packets and bytes are rounded to whole numbers."""
    return str(max(1, round(number))) if unit in ("p", "B") else f"{number:g}"
