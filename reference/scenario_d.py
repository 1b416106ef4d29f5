"""Scenario D of the reference: PackMime's Web traffic in both directions. It is not compared yet."""

from __future__ import annotations

import data
from case import Case, left_out_case


def cases() -> list[Case]:
    """Every case that was recorded."""
    return [
        left_out_case(f"d {row['q']} {row['tcp']} load {row['load']}", "not yet", "PackMime's Web traffic")
        for row in data.rows("d_packmime")
    ]
