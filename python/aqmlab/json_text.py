"""JSON for other programs: it knows no NaN and no infinity."""

from __future__ import annotations

import math
from typing import Any


def finite(value: Any) -> Any:
    """The same with `None` for each number that does not exist, in lists and tables of any depth."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
