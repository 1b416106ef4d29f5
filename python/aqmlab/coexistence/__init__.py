"""How congestion controls share a link: a study of pairs of congestion controls at several queues."""
