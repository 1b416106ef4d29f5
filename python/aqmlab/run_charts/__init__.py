"""Charts of single runs: gauges of queues, time-sequence graphs, queueing delays."""
