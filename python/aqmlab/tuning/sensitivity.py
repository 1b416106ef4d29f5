"""Global sensitivity analysis using Sobol indices or Morris elementary effects.

A [`Design`] determines the parameter values of the runs, and computes indices from the runs' outputs. Other
modules execute the runs. SALib provides the sampling methods and the estimators (Iwanaga, Usher and Herman,
"Toward SALib 2.0", Socio-Environmental Systems Modelling 4, 2022).

- `sobol`: the share of the output's variance that a factor explains alone (`S1`) and with all interactions
  (`ST`), by the estimators of Saltelli and others, "Variance based sensitivity analysis of model output",
  Computer Physics Communications 181(2), 2010. The noise of replications counts as an interaction of all
  factors.
- `morris`: the mean effect of moving a factor through its whole range (`mu`), the mean absolute effect
  (`mu_star`), and the dependence of the effect on the other factors and on the position (`sigma`), in the
  unit of the output (Morris 1991; Campolongo, Cariboni and Saltelli 2007). This method ranks factors and
  needs far fewer runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from aqmlab._support.extras import extra
from aqmlab.stats import LEVEL
from aqmlab.tuning.factors import Factor, check

if TYPE_CHECKING:
    import polars as pl

Method = Literal["sobol", "morris"]

LEVELS = 4
"""Number of values of each factor in Morris's trajectories, as in Morris's article."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """The samples of a sensitivity analysis of `factors`. Equal designs have equal samples.

    For `sobol`, `count` is the number of base samples and must be a power of 2, because the sequence is then
    balanced. With k factors, each base sample needs k + 2 runs. For `morris`, `count` is the number of
    trajectories, each of which needs k + 1 runs.
    """

    method: Method
    factors: Sequence[Factor]
    count: int
    seed: int = 1

    def __post_init__(self) -> None:
        check(self.factors)
        if self.method not in ("sobol", "morris"):
            raise ValueError(f"method: must be sobol or morris (got {self.method!r})")
        if self.seed < 0:
            raise ValueError(f"seed: must be 0 or more (got {self.seed})")
        if self.count < 2:
            raise ValueError(f"count: must be 2 or more (got {self.count})")
        if self.method == "sobol" and self.count.bit_count() > 1:
            above = 1 << self.count.bit_length()
            raise ValueError(
                f"count: must be a power of 2 for sobol, such as {above // 2} or {above} (got {self.count})"
            )

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.count * (len(self.factors) + (2 if self.method == "sobol" else 1))

    def samples(self) -> list[dict[str, Any]]:
        """Returns the values of each sample by path, in the syntax of scenarios."""
        return [
            {factor.path: factor.at(float(share)) for factor, share in zip(self.factors, row, strict=True)}
            for row in self._shares()
        ]

    def indices(self, outputs: Sequence[float], level: float = LEVEL) -> pl.DataFrame:
        """Returns the indices of each factor (`factor`). `outputs` contains one output per sample, in the
        order of the samples.

        The columns are `S1`, `S1_conf`, `ST` and `ST_conf` for `sobol`, and `mu`, `mu_star`, `mu_star_conf`
        and `sigma` for `morris`. `conf` is half the width of a bootstrap interval. If outputs are missing, no
        estimate is possible. In this case, `ValueError` is raised with the number of missing outputs.
        """
        import polars as pl

        values = self._checked(outputs)
        if self.method == "sobol":
            columns = ("S1", "S1_conf", "ST", "ST_conf")
            found = extra("SALib.analyze.sobol", "tune").analyze(
                self._problem(), values, calc_second_order=False, conf_level=level, seed=self.seed + 1
            )
        else:
            columns = ("mu", "mu_star", "mu_star_conf", "sigma")
            found = extra("SALib.analyze.morris", "tune").analyze(
                self._problem(),
                self._shares(),
                values,
                conf_level=level,
                num_levels=LEVELS,
                seed=self.seed + 1,
            )
        paths = [factor.path for factor in self.factors]
        return pl.DataFrame(
            {"factor": paths} | {name: np.asarray(found[name], dtype=np.float64) for name in columns}
        )

    def _problem(self) -> dict[str, Any]:
        """Returns the factors for SALib. All ranges are from 0 to 1, because aqmlab applies scales and
        rounding itself."""
        paths = [factor.path for factor in self.factors]
        return {"num_vars": len(paths), "names": paths, "bounds": [[0.0, 1.0]] * len(paths)}

    def _shares(self) -> npt.NDArray[np.float64]:
        if self.method == "sobol":
            sample = extra("SALib.sample.sobol", "tune").sample
            found = sample(self._problem(), self.count, calc_second_order=False, seed=self.seed)
        else:
            sample = extra("SALib.sample.morris", "tune").sample
            found = sample(self._problem(), self.count, num_levels=LEVELS, seed=self.seed)
        return np.asarray(found, dtype=np.float64)

    def _checked(self, outputs: Sequence[float]) -> npt.NDArray[np.float64]:
        values = np.asarray(outputs, dtype=np.float64)
        if values.size != self.size:
            raise ValueError(
                f"outputs: must contain one output for each of the {self.size} samples (got {values.size})"
            )
        missing = int((~np.isfinite(values)).sum())
        if missing:
            raise ValueError(
                f"outputs: {missing} of {self.size} are missing, but sensitivity analysis needs an output "
                "for every sample: narrow the ranges of the factors, or select a measure that has a value in "
                "every run"
            )
        if self.method == "sobol" and np.ptp(values) == 0:
            raise ValueError("outputs: all outputs are equal, so there is no variance to explain")
        return values
