"""Sensitivity analysis, which measures the influence of parameters, and tuning, which finds the best values
of parameters."""
