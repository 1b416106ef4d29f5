"""Charts of single runs: gauges of queues, time-sequence diagrams, waits of packets."""
