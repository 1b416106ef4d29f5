"""The command line: a file for each command, with the text that it prints beside it."""

from aqmlab.cli.app import main

__all__ = ["main"]
