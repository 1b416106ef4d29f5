"""The explorer: an interactive web page about sweeps."""
