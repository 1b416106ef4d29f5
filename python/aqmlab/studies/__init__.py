"""Studies by name; each module is loaded only when its study is asked for."""

from __future__ import annotations

from collections.abc import Mapping

STUDIES: Mapping[str, str] = {
    "shred": "aqmlab.studies.shred",
    "mice-elephants": "aqmlab.studies.mice_elephants",
    "unc-web": "aqmlab.studies.unc_web",
    "fair-queueing": "aqmlab.studies.fair_queueing",
    "helsinki": "aqmlab.studies.helsinki",
}

TODAY: Mapping[str, str] = {
    "shred": "aqmlab.studies.today.shred",
    "mice-elephants": "aqmlab.studies.today.mice_elephants",
    "unc-web": "aqmlab.studies.today.unc_web",
    "fair-queueing": "aqmlab.studies.today.fair_queueing",
    "helsinki": "aqmlab.studies.today.helsinki",
}
"""The forms that ask today's queues."""

LIVE: Mapping[str, str] = {"helsinki": "aqmlab.studies.helsinki.live"}
"""The live forms that studies have."""
