"""Scenarios C and D of the reference: short and long flows, and PackMime's Web. They are not compared yet."""

from __future__ import annotations

import data
from case import Case, left_out_case


def cases() -> list[Case]:
    """Every case of both that was recorded."""
    short_long = {row["q"]: None for row in data.rows("c_short_long_per_seed")}
    return [
        *(left_out_case(f"c {queue}", "not yet", "marks for short and long flows") for queue in short_long),
        *(
            left_out_case(
                f"d {row['q']} {row['tcp']} load {row['load']}", "not yet", "PackMime's Web traffic"
            )
            for row in data.rows("d_packmime")
        ),
    ]
