"""Responsiveness of lines: a real test program behind live links, and the same lines simulated."""
