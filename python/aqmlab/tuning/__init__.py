"""Which parameters matter (sensitivity analysis), and which values are best (tuning)."""
