"""The program `aqmlab-guests`, which simulates scenarios with transport libraries as guests."""

import os
import shutil
import sys
from pathlib import Path

NAME = "aqmlab-guests"

VARIABLE = "AQMLAB_GUESTS"
"""The environment variable that contains the path of the program."""


def guests_program() -> str | None:
    """Returns the path of the program: the value of the environment variable `AQMLAB_GUESTS` if the variable
    is set, otherwise the program in the folder of Python's programs, where `make guests` installs it, or in
    the search path. Returns None if there is no such program."""
    if named := os.environ.get(VARIABLE):
        return named
    beside = Path(sys.prefix) / "bin" / NAME
    return str(beside) if os.access(beside, os.X_OK) else shutil.which(NAME)
