"""Studies, which consist of experiments, claims, figures and tables that answer a question. Each claim gets a
verdict.

Modules that define a study import from this package. `docs/reference/study.md` describes every name.
"""

from aqmlab.measures import Measure
from aqmlab.results.rule import (
    anywhere,
    compared,
    difference,
    every,
    mean_of,
    ratio,
    single_run,
    statistic,
    unpaired_ratio,
)
from aqmlab.results.variable import per_seed
from aqmlab.study.charts import boxes, line
from aqmlab.study.experiment import Experiment, Form
from aqmlab.study.publication import (
    Claim,
    Decision,
    Figure,
    Floor,
    Reading,
    Study,
    StudyResult,
    Table,
    Variant,
    Verdicts,
    our_claim,
    our_reading,
)
from aqmlab.study.query import formula, joined, of_runs, query, recorded_in, scaled, stacked
from aqmlab.study.run import run as run_study
from aqmlab.study.tables import crossed, listed, overview, paired

__all__ = [
    "Claim",
    "Decision",
    "Experiment",
    "Figure",
    "Floor",
    "Form",
    "Measure",
    "Reading",
    "Study",
    "StudyResult",
    "Table",
    "Variant",
    "Verdicts",
    "anywhere",
    "boxes",
    "compared",
    "crossed",
    "difference",
    "every",
    "formula",
    "joined",
    "line",
    "listed",
    "mean_of",
    "of_runs",
    "our_claim",
    "our_reading",
    "overview",
    "paired",
    "per_seed",
    "query",
    "ratio",
    "recorded_in",
    "run_study",
    "scaled",
    "single_run",
    "stacked",
    "statistic",
    "unpaired_ratio",
]
