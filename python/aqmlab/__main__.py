"""Runs the command line for `python -m aqmlab`."""

from aqmlab.cli import main

main()
