"""Loads studies by name; the module of a study is imported only when the study is loaded."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from aqmlab._support.names import hint
from aqmlab.study import queues
from aqmlab.study.publication import Study

STUDIES: Mapping[str, str] = {
    "shred": "aqmlab.studies.shred",
    "mice-elephants": "aqmlab.studies.mice_elephants",
    "unc-web": "aqmlab.studies.unc_web",
    "fair-queueing": "aqmlab.studies.fair_queueing",
    "helsinki": "aqmlab.studies.helsinki",
    "bbr-cases": "aqmlab.studies.bbr_cases",
    "coexistence": "aqmlab.studies.coexistence",
    "rtc-cases": "aqmlab.studies.rtc_cases",
    "which-queue": "aqmlab.studies.which_queue",
    "todays-senders": "aqmlab.studies.todays_senders",
}

LIVE: Mapping[str, str] = {"helsinki": "aqmlab.studies.helsinki.live"}
"""Modules of the live forms of studies."""


def load(name: str, *, live: bool = False, today: bool = False) -> Study:
    """Loads a study by name: the study itself, its `live` form, or its form with modern queues in addition to
    its own queues (`today`). A path loads the study in a TOML file, or the variable `STUDY` of a Python file.

    Raises `KeyError` with the nearest names if the study does not exist, and `ValueError` if a file does not
    contain a study.
    """
    if Path(name).suffix in (".py", ".toml"):
        if live:
            raise KeyError(f"{name}: a study in a file has no live form")
        found = _of_file(Path(name))
        return queues.beside(found, queues.TODAY) if today else found
    if name not in STUDIES:
        raise KeyError(f"no study is named `{name}`: {hint(name, STUDIES)}")
    if live and name not in LIVE:
        raise KeyError(f"the study `{name}` has no live form; available: {', '.join(LIVE)}")
    study = importlib.import_module((LIVE if live else STUDIES)[name]).STUDY
    assert isinstance(study, Study)
    return queues.beside(study, queues.TODAY) if today else study


def _of_file(path: Path) -> Study:
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    if path.suffix == ".toml":
        from aqmlab.study.file import load as load_toml

        return load_toml(path)
    # Modules next to the file can be imported, as when Python runs the file.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        study = runpy.run_path(str(path), run_name=path.stem).get("STUDY")
    finally:
        sys.path.pop(0)
    if not isinstance(study, Study):
        raise ValueError(f"{path}: must define STUDY, an aqmlab.study.Study")
    return study


def titles() -> dict[str, str]:
    """The title of every study, by name."""
    return {name: load(name).title for name in STUDIES}
