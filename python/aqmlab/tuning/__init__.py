"""Sensitivity analysis, which finds the parameters that matter, and tuning, which finds the best values."""
