//! Shortest remaining processing time: the flow with the fewest remaining bytes uses the whole link. An arriving flow
//! that has fewer bytes preempts the flow in service. No other discipline achieves a smaller mean flow duration (L.
//! Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline", 1968).

use std::collections::BinaryHeap;

use super::{Job, Server};

/// A link that serves the flow with the fewest remaining bytes.
pub(crate) struct Shortest {
    /// Capacity of the link, in bytes per second.
    capacity: f64,
    /// Flow in service, with the number of bytes that remained to be sent at the time `since`.
    first: Option<Job>,
    /// All other flows, with their remaining bytes.
    waiting: BinaryHeap<Job>,
    now: f64,
    /// Time at which the link last began to serve the flow `first`.
    since: f64,
    carried: Vec<f64>,
}

impl Shortest {
    pub(crate) fn new(capacity: f64, classes: usize) -> Self {
        let carried = vec![0.0; classes];
        Self { capacity, first: None, waiting: BinaryHeap::new(), now: 0.0, since: 0.0, carried }
    }

    fn serve(&mut self, job: Option<Job>) {
        self.first = job;
        self.since = self.now;
    }
}

impl Server for Shortest {
    fn next(&self) -> f64 {
        // Rounding must not move the next departure before the current time.
        self.first.map_or(f64::INFINITY, |job| (self.since + job.bytes / self.capacity).max(self.now))
    }

    fn advance(&mut self, now: f64) {
        if let Some(job) = self.first {
            self.carried[job.class as usize] += (now - self.now) * self.capacity;
        }
        self.now = now;
    }

    fn join(&mut self, job: Job) {
        let Some(mut first) = self.first else { return self.serve(Some(job)) };
        let remaining = (first.bytes - (self.now - self.since) * self.capacity).max(0.0);
        if job.bytes < remaining {
            first.bytes = remaining;
            self.waiting.push(first);
            self.serve(Some(job));
        } else {
            self.waiting.push(job);
        }
    }

    fn leave(&mut self) -> u32 {
        self.advance(self.next());
        let job = self.first.expect("a departure requires a flow in progress");
        let next = self.waiting.pop();
        self.serve(next);
        job.slot
    }

    fn carried(&self, class: usize) -> f64 {
        self.carried[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{assert_close, departures};

    #[test]
    fn a_smaller_flow_preempts_the_flow_in_service() {
        let flows = [(0.0, 100.0, 0), (1.0, 10.0, 0), (1.5, 50.0, 0), (2.5, 60.0, 0)];
        let remaining = departures(&mut Shortest::new(10.0, 1), &flows);
        // When the second flow arrives, the first flow has 90 B left; the third flow and the fourth flow are smaller.
        assert_close(&remaining, &[22.0, 2.0, 7.0, 13.0]);
    }
}
