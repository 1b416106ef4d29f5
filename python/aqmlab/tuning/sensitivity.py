"""Which parameters matter: global sensitivity analysis by Sobol's indices or Morris's elementary effects.

A [`Design`] asks for the values at which to run, and turns the outputs into indices; the runs are others'
business. Sampling and estimators are SALib's (Iwanaga, Usher and Herman, "Toward SALib 2.0",
Socio-Environmental Systems Modelling 4, 2022).

- `sobol`: the share of the output's variance that a factor explains alone (`S1`) and with all interactions
  (`ST`), by the estimators of Saltelli and others, "Variance based sensitivity analysis of model output",
  Computer Physics Communications 181(2), 2010. The noise of replications counts as an interaction of all
  factors.
- `morris`: the mean effect of moving a factor through its whole range (`mu`), that of its size (`mu_star`),
  and how much it depends on the other factors and the place (`sigma`), in the unit of the output (Morris
  1991; Campolongo, Cariboni and Saltelli 2007). It takes far fewer runs, and ranks factors.
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
"""Values of each factor in Morris's trajectories, as in his article."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """Where to run for the sensitivities to `factors`. Equal designs ask for the same.

    `count` is the number of base samples of `sobol`, a power of 2 (for which its sequence is balanced), each
    of which takes as many runs as there are factors and two more; or the number of trajectories of `morris`,
    each of which takes as many runs as there are factors and one more.
    """

    method: Method
    factors: Sequence[Factor]
    count: int
    seed: int = 1

    def __post_init__(self) -> None:
        check(self.factors)
        if self.method not in ("sobol", "morris"):
            raise ValueError(f"method = {self.method!r} must be sobol or morris")
        if self.seed < 0:
            raise ValueError(f"seed = {self.seed} must be 0 or more")
        if self.count < 2:
            raise ValueError(f"count = {self.count} must be 2 or more")
        if self.method == "sobol" and self.count.bit_count() > 1:
            above = 1 << self.count.bit_length()
            raise ValueError(f"count = {self.count} must be a power of 2 for sobol: {above // 2} or {above}")

    @property
    def size(self) -> int:
        """The number of samples."""
        return self.count * (len(self.factors) + (2 if self.method == "sobol" else 1))

    def samples(self) -> list[dict[str, Any]]:
        """The values to run with, by path, as they are written in a scenario."""
        return [
            {factor.path: factor.at(float(share)) for factor, share in zip(self.factors, row, strict=True)}
            for row in self._shares()
        ]

    def indices(self, outputs: Sequence[float], level: float = LEVEL) -> pl.DataFrame:
        """The indices of each factor (`factor`), from one output for each of the samples, in their order.

        `sobol` gives the columns `S1`, `S1_conf`, `ST` and `ST_conf`; `morris` gives `mu`, `mu_star`,
        `mu_star_conf` and `sigma`. `conf` is half the width of a bootstrap interval. An output that does not
        exist leaves no estimate: a `ValueError` says how many do not.
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
        """The factors for SALib: shares of the way from low to high, as scales and whole numbers are ours."""
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
            raise ValueError(f"outputs: {values.size} for {self.size} samples; each sample needs one")
        missing = int((~np.isfinite(values)).sum())
        if missing:
            raise ValueError(
                f"outputs: {missing} of {self.size} do not exist; sensitivities need one for every sample: "
                "narrow the factors' ranges, or choose a measure that every run has"
            )
        if self.method == "sobol" and np.ptp(values) == 0:
            raise ValueError("outputs: all are equal, so that there is no variance to explain")
        return values
