"""Writes the pages of the documentation about studies: verdicts, pictures, costs, citations."""
