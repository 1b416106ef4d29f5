"""Charts of single runs: gauges of queues, time-sequence graphs and queueing delays."""
