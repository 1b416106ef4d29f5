"""The command line, with a file for each command and a file for its output."""

from aqmlab.cli.app import main

__all__ = ["main"]
