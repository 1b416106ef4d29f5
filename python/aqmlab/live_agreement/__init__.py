"""Measures how much live runs and simulated runs of the same scenario differ."""
