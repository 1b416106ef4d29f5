"""Instructions of congestion controls and of pacing, relative to Reno with the same loss recovery.

W1 with RACK and each congestion control. DCTCP and Prague react to marks, so RED marks in their runs and in
the run of Reno with which they are compared. A control that loses more packets sends more packets for each
packet that the bottleneck forwards, so the ratio is shown for both. Two runs of the scaled W1 compare many
flows with and without pacing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aqmlab as al
import callgrind
import scale
from costs import SCOREBOARD
from program import Program
from samples import shown
from simulators import Count
from workloads import scenario

SENT = "sent"
FORWARDED = "forwarded"
MANY = 10_000
MANY_SECONDS = 3

RACK: dict[str, Any] = {**SCOREBOARD, "tcp.recovery.kind": "rack"}
MARKING: dict[str, Any] = {**RACK, "tcp.ecn.mode": "on", "bottleneck.queue.ecn": "below-max-th"}


def control(kind: str) -> dict[str, Any]:
    """The setting of a congestion control."""
    return {"tcp.congestion_control": {"kind": kind}}


PLAIN, LOSSES, MARKS = "reno/newreno", "reno/rack", "reno/rack, marks"
VARIANTS: dict[str, Mapping[str, Any]] = {
    PLAIN: {},
    LOSSES: RACK,
    "cubic/rack": RACK | control("cubic"),
    "bbr1/rack": RACK | control("bbr1"),
    "bbr3/rack": RACK | control("bbr3"),
    MARKS: MARKING,
    "dctcp/rack, marks": MARKING | control("dctcp"),
    "prague/rack, marks": MARKING | control("prague"),
}
UNPACED, PACED = f"{MANY} flows", f"{MANY} flows, paced"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The maximum of the instructions of a variant, relative to another variant."""

    subject: str
    base: str
    ratio: float


LIMITS = (
    Limit(subject="cubic/rack", base=PLAIN, ratio=1.35),
    Limit(subject="cubic/rack", base=LOSSES, ratio=1.5),
    Limit(subject="bbr1/rack", base=LOSSES, ratio=1.5),
    Limit(subject="bbr3/rack", base=LOSSES, ratio=1.5),
    Limit(subject="dctcp/rack, marks", base=MARKS, ratio=1.5),
    Limit(subject="prague/rack, marks", base=MARKS, ratio=1.5),
    Limit(subject=PACED, base=UNPACED, ratio=1.3),
)


def measure(program: Program) -> list[Count]:
    """Counts each variant per packet that the bottleneck forwards, and per packet that senders send."""
    many = scale.dumbbell(MANY).with_({"duration": f"{MANY_SECONDS}s", **RACK})
    runs = {name: scenario("w1").with_(changes) for name, changes in VARIANTS.items()}
    runs |= {UNPACED: many, PACED: many.with_({"tcp.pacing.mode": "on"})}
    found = []
    for name, one in runs.items():
        file = program.write(f"control-{name}", one)
        ran = callgrind.run(["./events", file], program.folder)
        for case, packets in ((FORWARDED, ran.packets), (SENT, sent(one))):
            found.append(
                Count(
                    case=case,
                    subject=name,
                    seconds=0.0,
                    instructions=ran.instructions,
                    packets=packets,
                    by_file={},
                )
            )
    return found


def sent(one: al.Scenario) -> int:
    """The number of packets that all senders of a run send."""
    return int(one.with_({"warm_up": "0s"}).run().flows["packets_sent"].sum())


def is_of_controls(count: Count) -> bool:
    """Whether a count belongs to this part."""
    return count.case in (FORWARDED, SENT)


def print_table(counts: Sequence[Count]) -> None:
    """Prints instructions per packet, and the ratios for which there are limits."""
    found = {(one.case, one.subject): one.per_packet for one in counts}
    print(f"{'instructions per packet of W1':<28}{'forwarded':>11}{'sent':>9}")
    for name in dict.fromkeys(name for _, name in found):
        print(f"{name:<28}{found[FORWARDED, name]:>11,.0f}{found[SENT, name]:>9,.0f}")
    print(f"\n{'ratio of instructions':<48}{'forwarded':>11}{'sent':>9}{'limit':>8}")
    for limit in LIMITS:
        cells = [found[case, limit.subject] / found[case, limit.base] for case in (FORWARDED, SENT)]
        title = f"{limit.subject} / {limit.base}"
        print(f"{title:<48}{shown(cells[0], '.2f'):>11}{shown(cells[1], '.2f'):>9}{limit.ratio:>8}")
