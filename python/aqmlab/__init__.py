"""aqmlab: what a router's queue does to the traffic of real users.

>>> import aqmlab as al
>>> run = al.Scenario.load("scenarios/hello.toml").run(seed=1)  # doctest: +SKIP
>>> run.transfers                                                # doctest: +SKIP
"""

from aqmlab._core import RESULTS_VERSION, ScenarioError, __version__
from aqmlab.catalog import Entry, catalog, entry
from aqmlab.compare import compare
from aqmlab.run import Run
from aqmlab.scenario import Scenario, ScenarioFileError

__all__ = [
    "RESULTS_VERSION",
    "Entry",
    "Run",
    "Scenario",
    "ScenarioError",
    "ScenarioFileError",
    "__version__",
    "catalog",
    "compare",
    "entry",
]
