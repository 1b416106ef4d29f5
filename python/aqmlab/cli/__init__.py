"""The command line. Each command has a file, and most commands have a second file that prints the output."""

from aqmlab.cli.app import main

__all__ = ["main"]
