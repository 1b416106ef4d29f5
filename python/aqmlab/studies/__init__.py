"""Studies by name; each module is loaded only when its study is asked for."""

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
}

TODAY: Mapping[str, str] = {
    "shred": "aqmlab.studies.shred",
    "mice-elephants": "aqmlab.studies.mice_elephants",
    "unc-web": "aqmlab.studies.unc_web",
    "fair-queueing": "aqmlab.studies.fair_queueing",
    "helsinki": "aqmlab.studies.helsinki",
}
"""The forms with the queues of today: of studies that take other queues, or a module of their own."""

LIVE: Mapping[str, str] = {"helsinki": "aqmlab.studies.helsinki.live"}
"""The live forms that studies have."""


def load(name: str, *, live: bool = False, today: bool = False) -> Study:
    """The study of this name, or its `live` form, or the one that asks the queues of `today`; or that of a
    file: TOML, or Python that calls it `STUDY`.

    Raises `KeyError` with the nearest names if there is none, and `ValueError` if a file has none.
    """
    if Path(name).suffix in (".py", ".toml"):
        if live or today:
            raise KeyError(f"{name}: a study in a file has no form for live runs or today's queues")
        return _of_file(Path(name))
    if name not in STUDIES:
        raise KeyError(f"no study is named `{name}`: {hint(name, STUDIES)}")
    if live and name not in LIVE:
        raise KeyError(f"the study `{name}` has no live form: there is one of {', '.join(LIVE)}")
    if today and name not in TODAY:
        known = ", ".join(TODAY)
        raise KeyError(f"the study `{name}` has no form with today's queues: there is one of {known}")
    forms = LIVE if live else TODAY if today else STUDIES
    study = importlib.import_module(forms[name]).STUDY
    assert isinstance(study, Study)
    if today and study.with_queues is not None:
        return study.with_queues(queues.TODAY)
    return study


def _of_file(path: Path) -> Study:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    if path.suffix == ".toml":
        from aqmlab.study.file import load as load_toml

        return load_toml(path)
    # A module beside the file can be imported, as when Python runs the file.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        study = runpy.run_path(str(path), run_name=path.stem).get("STUDY")
    finally:
        sys.path.pop(0)
    if not isinstance(study, Study):
        raise ValueError(f"{path}: has no STUDY, an aqmlab.study.Study")
    return study


def titles() -> dict[str, str]:
    """The title of every study, by name."""
    return {name: load(name).title for name in STUDIES}
