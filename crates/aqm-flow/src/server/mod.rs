//! Servers, which determine how a link serves the flows in progress. Flows arrive at a server, and the server returns
//! which flow departs next and when.
//!
//! aqmlab's choice: the times of a fluid model are real numbers, so times in this module are seconds in an `f64`
//! instead of integer nanoseconds. Carried bytes are counted when a flow departs, never as a difference of two clock
//! readings.

mod fifo;
mod sharing;
mod shortest;

use std::cmp::Ordering;

pub(crate) use fifo::Fifo;
pub(crate) use sharing::{Group, Sharing};
pub(crate) use shortest::Shortest;

/// The properties of a flow that a server needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Size of the flow in bytes; in [`Sharing`], the virtual departure time of the flow.
    pub(crate) bytes: f64,
    /// Number of the flow. If two flows have equal `bytes`, the flow with the lower number is served first.
    pub(crate) number: u64,
    /// Slot of the flow in the list of flows in progress.
    pub(crate) slot: u32,
    /// Index of the flow's traffic class.
    pub(crate) class: u32,
}

/// A link that serves flows. Times must not decrease from one call to the next, and the time passed to `advance` must
/// not be later than the time that `next` returns.
pub(crate) trait Server {
    /// Returns the time of the next departure, or infinity if no flow is in progress.
    fn next(&self) -> f64;

    /// Serves flows until `now`.
    fn advance(&mut self, now: f64);

    /// Adds a flow that arrives at the current time.
    fn join(&mut self, job: Job);

    /// Serves flows until the time that `next` returns, and returns the slot of the departing flow.
    fn leave(&mut self) -> u32;

    /// Returns the number of bytes that the link has carried for a class so far.
    fn carried(&self, class: usize) -> f64;
}

// A heap of jobs returns the job with the fewest bytes first, and jobs with equal bytes in the order of their numbers.
impl Ord for Job {
    fn cmp(&self, other: &Self) -> Ordering {
        other.bytes.total_cmp(&self.bytes).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Job {}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Job, Server};

    /// Returns the departure times of `flows`. Each element of `flows` contains a flow's arrival time, size in bytes
    /// and class.
    pub(crate) fn departures(server: &mut dyn Server, flows: &[(f64, f64, u32)]) -> Vec<f64> {
        let mut departures = vec![f64::NAN; flows.len()];
        let mut arrivals = flows.iter().enumerate().peekable();
        loop {
            let arrival = arrivals.peek().map_or(f64::INFINITY, |(_, flow)| flow.0);
            let departure = server.next();
            if departure.is_infinite() && arrival.is_infinite() {
                return departures;
            }
            if departure <= arrival {
                departures[server.leave() as usize] = departure;
            } else if let Some((number, &(at, bytes, class))) = arrivals.next() {
                server.advance(at);
                server.join(Job { bytes, number: number as u64, slot: number as u32, class });
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_close(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (a, b) in actual.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{actual:?} is not {expected:?}");
        }
    }
}
