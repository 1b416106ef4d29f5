"""aqmlab measures the effects of a router's queue on the traffic of real users.

>>> import aqmlab as al
>>> run = al.Scenario.load("scenarios/hello.toml").run(seed=1)  # doctest: +SKIP
>>> run.transfers                                                # doctest: +SKIP
"""

from aqmlab._core import RESULTS_VERSION, RunError, ScenarioError, __version__
from aqmlab.comparison.compare import compare
from aqmlab.measures import Measure
from aqmlab.path import Delivered, Dropped, Path
from aqmlab.results.table import Results
from aqmlab.scenario import Scenario, ScenarioFileError
from aqmlab.scenario.catalog import Entry, catalog, entry
from aqmlab.scenario.run import Run
from aqmlab.store import Store
from aqmlab.sweep import Sweep
from aqmlab.sweep.file import load as load_sweep
from aqmlab.sweep.run_sweep import run_sweep

__all__ = [
    "RESULTS_VERSION",
    "Delivered",
    "Dropped",
    "Entry",
    "Measure",
    "Path",
    "Results",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "ScenarioFileError",
    "Store",
    "Sweep",
    "__version__",
    "catalog",
    "compare",
    "entry",
    "load_sweep",
    "run_sweep",
]
