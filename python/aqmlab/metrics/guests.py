"""The table of the values that guests report."""

TABLES = frozenset({"reports"})
"""Tables that only runs with guests have."""
