"""Comparisons of queues and TCPs, and the calibration of the connection rate for a given load."""
