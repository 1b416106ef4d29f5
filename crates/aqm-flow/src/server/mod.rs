//! How a link serves the flows in progress: told who joins, asked who leaves next and when.
//!
//! Ours: the moments of a fluid model are real numbers, so time here is seconds in an `f64`, not whole
//! nanoseconds. What was served is counted as a flow leaves and never from differences of the clock.

mod fifo;
mod sharing;
mod shortest;

use std::cmp::Ordering;

pub(crate) use fifo::Fifo;
pub(crate) use sharing::{Group, Sharing};
pub(crate) use shortest::Shortest;

/// A flow as a server sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// Its size, in bytes; with [`Sharing`] the virtual moment it is done.
    pub(crate) bytes: f64,
    /// Number of the flow; settles ties.
    pub(crate) number: u64,
    /// Where the world keeps it.
    pub(crate) slot: u32,
    /// Which traffic it belongs to.
    pub(crate) class: u32,
}

/// A link at work. Time only grows: `advance` goes no further than `next`.
pub(crate) trait Server {
    /// When the next flow leaves; never if that is infinite.
    fn next(&self) -> f64;

    /// Serves until `now`.
    fn advance(&mut self, now: f64);

    /// A flow comes, at the moment served until.
    fn join(&mut self, job: Job);

    /// Serves until `next`, and gives back the slot of the flow that leaves.
    fn leave(&mut self) -> u32;

    /// Bytes carried so far for a class.
    fn carried(&self, class: usize) -> f64;
}

// A heap of jobs has the one of the fewest bytes on top, then the one that came first.
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

    /// When each of these flows leaves: moment of arrival, bytes, class.
    pub(crate) fn departures(server: &mut dyn Server, flows: &[(f64, f64, u32)]) -> Vec<f64> {
        let mut left = vec![f64::NAN; flows.len()];
        let mut coming = flows.iter().enumerate().peekable();
        loop {
            let arrival = coming.peek().map_or(f64::INFINITY, |(_, flow)| flow.0);
            let departure = server.next();
            if departure.is_infinite() && arrival.is_infinite() {
                return left;
            }
            if departure <= arrival {
                left[server.leave() as usize] = departure;
            } else if let Some((number, &(at, bytes, class))) = coming.next() {
                server.advance(at);
                server.join(Job { bytes, number: number as u64, slot: number as u32, class });
            }
        }
    }

    #[track_caller]
    pub(crate) fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{found:?} is not {expected:?}");
        }
    }
}
