"""The reference page of studies: the keys of study files, and the names that `aqmlab.study` exports."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from aqmlab import measures, study
from aqmlab.results.rule import Estimate
from aqmlab.results.variable import Variable
from aqmlab.study import file

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Parts of a study": (
        *("Study", "Experiment", "Form", "Claim", "Figure", "Table", "Decision", "Variant", "Reading"),
        *("our_reading", "our_claim", "Floor", "StudyResult", "Verdicts", "run_study"),
    ),
    "Estimates and rules": (
        *("ratio", "difference", "mean_of", "unpaired_ratio", "single_run", "statistic", "per_seed"),
        *("compared", "every", "anywhere"),
    ),
    "Components of estimates": ("Variable", "Estimate", "Measure", "View"),
    "Queries": ("query", "joined", "stacked", "scaled", "formula", "of_runs", "recorded_in"),
    "Figures and tables": ("line", "boxes", "crossed", "listed", "overview", "paired"),
}
"""The exported names of `aqmlab.study`, and the classes of its functions' arguments and results, in the order
of the page."""

BESIDE: Mapping[str, Any] = {
    "Variable": Variable,
    "Estimate": Estimate,
    "View": measures.View,
}
"""Classes that the page describes, but that `aqmlab.study` does not export, because their objects are created
by experiments and functions."""


def page() -> str:
    """Returns the page as MyST."""
    parts = [
        "# Studies",
        "",
        "[A study in ten minutes](../guides/study-in-ten-minutes.md) shows a study. This page lists the",
        "keys of study files and the Python names.",
        "",
        "## Files",
        "",
        "A study file has the keys of a [sweep file](../guides/sweeps.md) without `precision` and "
        "`warm_up`, and:",
        "",
        *_keys(file.STUDY_KEYS),
        "",
        "`[[claims]]` have the keys of claims in sweep files, and optionally:",
        "",
        *_keys(file.CLAIM_KEYS),
        "",
        "`[[figures]]` have:",
        "",
        *_keys(file.FIGURE_KEYS),
        "",
        "`[[tables]]` have:",
        "",
        *_keys(file.TABLE_KEYS),
    ]
    for title, names in GROUPS.items():
        parts += ["", f"## {title}"]
        for name in names:
            parts += ["", f"### {name}", "", *_described(name, BESIDE.get(name) or getattr(study, name))]
    return "\n".join(parts) + "\n"


def _keys(keys: Mapping[str, str]) -> Iterator[str]:
    yield from (f"- `{key}`: {text}" for key, text in keys.items())


def _described(name: str, one: Any) -> Iterator[str]:
    """Returns the signature and the docstring of a name and, for a class, of its methods."""
    if name not in ("Variable", "View"):  # Users do not construct these classes.
        yield f"`{name}{_parameters(one)}`"
        yield ""
    yield _prose(one)
    if not inspect.isclass(one):
        return
    methods = [
        (name, getattr(one, name))
        for name, method in vars(one).items()
        if not name.startswith("_") and isinstance(method, classmethod | FunctionType)
    ]
    public = [(name, method) for name, method in methods if inspect.getdoc(method)]
    if public:
        yield ""
        yield from (f"- `{name}{_parameters(method)}`: {_prose(method)}" for name, method in public)


def _parameters(one: Any) -> str:
    """Returns the signature: the names of the parameters, with those defaults that are plain values."""
    found: list[str] = []
    for parameter in inspect.signature(one).parameters.values():
        if parameter.name in ("self", "_"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in found):
            found.append("*")
        text = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        text = "**" if parameter.kind is parameter.VAR_KEYWORD else text
        default = parameter.default
        plain = isinstance(default, str | int | float | bool | tuple) or default is None
        given = default is not parameter.empty
        found.append(
            text + parameter.name + (f"={default!r}" if given and plain else "=..." if given else "")
        )
    return f"({', '.join(found)})"


def _prose(one: Any) -> str:
    """Returns a docstring without line breaks."""
    return re.sub(r"\s+", " ", inspect.getdoc(one) or "").strip()
