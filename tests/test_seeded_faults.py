"""The faults that `make check` must find are still faults of the sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from seeded_faults import FAULTS, Fault, seeded

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.room)
def test_a_fault_changes_one_place(fault: Fault) -> None:
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    assert seeded(fault, text) != text


def test_a_fault_whose_line_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times, must occur once"):
        seeded(FAULTS[0], "")
