"""The command line. Each command has its own file, and most commands have a second file that prints their
output."""

from aqmlab.cli.app import main

__all__ = ["main"]
