"""Finished runs as a table, expressions over them, and rules that judge them."""
