"""Generates parts of the documentation of studies: verdicts, pictures, costs, citations."""
