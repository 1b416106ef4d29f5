"""BBR and DCTCP flows of the Linux 6.1 kernel, alone and together with CUBIC flows, with a band of 5 %.

Path, hosts, quantities and bands are those of `linux_bulk_today.py`. The kernel's `bbr` is version 1. DCTCP's
sender and receiver use ECN; the CUBIC flow of the same condition uses ECN only if the name of the condition
ends in `allecn`. In conditions whose name ends in `fq`, the kernel's queue discipline `fq` paces all flows of
the sender, and aqmlab paces all flows by timers. In the other conditions, TCP's own timer paces BBR, and the
other flows are not paced. The queue `step` marks each packet that has waited for more than 2 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import data
import linux_bulk
import linux_bulk_today as today
from aqmlab.scenario import Scenario
from case import Case
from linux_bulk import WHERE

KEPT = "controls"
"""First part of the names of the recorded files."""
REPEATS = 3
CONTROLS: Mapping[str, Mapping[str, Any]] = {
    "bbr": {"congestion_control": {"kind": "bbr1"}},
    "cubic": {"congestion_control": {"kind": "cubic"}},
    "dctcp": {
        # Linux: tcp_dctcp.c, dctcp_reno; tcp_cong.c, tcp_cong_avoid_ai; dctcp_ssthresh in whole segments.
        "congestion_control": {"kind": "dctcp", "growth": "segments", "ssthresh_rounding": "segments"},
        "ecn": {"mode": "on"},
    },
}
"""Settings of aqmlab's flows by the kernel's name of the congestion control."""


def cases() -> list[Case]:
    """Every recorded condition with BBR or DCTCP."""
    names = dict.fromkeys(row["condition"] for row in data.rows(f"{KEPT}_reps", WHERE))
    return [bulk_case(name) for name in names]


def bulk_case(condition: str, repeats: int = REPEATS) -> Case:
    """The flows of a condition through its queue."""
    runs = starts_of(condition)
    return today.replicated_case(f"linux controls {condition}", condition, runs, KEPT, scenario, repeats)


def starts_of(condition: str) -> dict[int, list[today.Flow]]:
    """The flows of each replication, without replications in which a flow with ECN got no mark."""
    flows = [row for row in data.rows(f"{KEPT}_flows", WHERE) if row["condition"] == condition]
    without = {
        int(row["rep"]) for row in flows if row["ce_delivered"] == "0" and _uses_ecn(condition, row["cc"])
    }
    runs = linux_bulk.starts_of(condition, f"{KEPT}_flows")
    return {number: run for number, run in runs.items() if number not in without}


def _uses_ecn(condition: str, control: str) -> bool:
    return control == "dctcp" or condition.endswith("_allecn")


def scenario(condition: str, flows: Sequence[today.Flow]) -> Scenario:
    """The corresponding run of aqmlab."""
    changes: dict[str, Any] = {
        "record.queue_every": "47ms",
        "tcp.receiver.sack_delay": today.SACK_DELAY,
    }
    for index, (control, _) in enumerate(flows, 1):
        settings = dict(CONTROLS[control])
        if _uses_ecn(condition, control):
            settings["ecn"] = {"mode": "on"}
        if condition.endswith("_fq"):
            settings["pacing"] = {"mode": "on"}
        changes[f"traffic.flow{index}.tcp"] = settings
    return linux_bulk.scenario(condition, [("cubic", start) for _, start in flows]).with_(changes)
