"""The tables of report cards: what was measured in each section, a column for each queue."""

from __future__ import annotations

from collections.abc import Mapping

from aqmlab.experiment import Experiment
from aqmlab.publication import Table
from aqmlab.study_query import stacked
from aqmlab.study_tables import crossed


def tables(experiments: Mapping[str, Experiment]) -> tuple[Table, ...]:
    """A table for each section: its measures at each point of its axes, for each queue."""
    return tuple(_table(section, one) for section, one in experiments.items())


def _table(section: str, experiment: Experiment) -> Table:
    axes = [label for label in experiment.labels if label != "queue"]
    measured = stacked("measure", [experiment[measure] for measure in experiment.measures])
    return Table(
        id=f"table-{section}",
        title=f"{experiment.title} (RFC 7928, {section})",
        caption="Means over the seeds ± half of their 95 % interval.",
        table=crossed(measured, rows=("measure", *axes), columns="queue"),
    )
