"""Scenario A of the reference: permanent flows, Web objects, and both, over one 10 Mb/s line.

The settings are those of `scenarios/reference/a-*.toml`. Beyond them:
- `droptail_oh`: ns-2's senders wait up to one packet time (779 us) before they send (`overhead_`).
- `droptail` is printed, not judged: its round-trip times are all equal, so ties decide who loses.
- The smallest goodput of a flow is printed, not judged: it belongs to a flow or two that time-outs
  kept silent, and varies by its own size from run to run.
- Time-outs count from the start of the run, as ns-2 counts them; all else after the warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import batched_ as batched
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import data
from aqmlab.run import Run
from aqmlab.scenario import Scenario
from case import Case, Job
from judge import Quantity, Row, independent, paired, single
