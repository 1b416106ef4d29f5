//! First in, first out: a flow waits until all earlier flows are complete and then uses the whole link.

use std::collections::VecDeque;

use super::{Job, Server};

/// A link that serves flows in the order of arrival.
pub(crate) struct Fifo {
    /// Capacity of the link, in bytes per second.
    capacity: f64,
    waiting: VecDeque<Job>,
    now: f64,
    /// Departure time of the flow in service.
    next: f64,
    carried: Vec<f64>,
}

impl Fifo {
    pub(crate) fn new(capacity: f64, classes: usize) -> Self {
        Self {
            capacity,
            waiting: VecDeque::new(),
            now: 0.0,
            next: f64::INFINITY,
            carried: vec![0.0; classes],
        }
    }

    fn start_first(&mut self) {
        self.next = self.waiting.front().map_or(f64::INFINITY, |job| self.now + job.bytes / self.capacity);
    }
}

impl Server for Fifo {
    fn next(&self) -> f64 {
        self.next
    }

    fn advance(&mut self, now: f64) {
        if let Some(job) = self.waiting.front() {
            self.carried[job.class as usize] += (now - self.now) * self.capacity;
        }
        self.now = now;
    }

    fn join(&mut self, job: Job) {
        self.waiting.push_back(job);
        if self.waiting.len() == 1 {
            self.start_first();
        }
    }

    fn leave(&mut self) -> u32 {
        self.advance(self.next);
        let job = self.waiting.pop_front().expect("a departure requires a flow in progress");
        self.start_first();
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
    fn flows_leave_in_the_order_they_came() {
        let flows = [(0.0, 100.0, 0), (1.0, 10.0, 0), (2.0, 50.0, 0), (30.0, 10.0, 0)];
        let left = departures(&mut Fifo::new(10.0, 1), &flows);
        assert_close(&left, &[10.0, 11.0, 16.0, 31.0]);
    }
}
