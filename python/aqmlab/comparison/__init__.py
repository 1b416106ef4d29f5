"""Compares queues and TCPs, and calibrates the connection rate for a given load."""
