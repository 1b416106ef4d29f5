//! Packets of flows, merged by time: each flow sends at its own rate, evenly, packets of one size but the
//! last.
//!
//! Ours, where no source says: a flow of B bytes at r bits per second with packets of P bytes sends packet
//! k at its start + 8kP/r, until its bytes are sent; the last packet holds the rest, at least 40 B. Flows
//! in progress wait in a heap. Packets of one instant come in the order of their flows' numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use aqm_net::{Instant, Pace, Rate};

use crate::packets::{Arrival, Key};
use aqm_net::stage::Failure;

/// The least bytes that a packet has: the headers of IPv4 and TCP.
pub(crate) const LEAST_PACKET: u64 = 40;
/// The most bytes that a packet has.
pub(crate) const MOST_PACKET: u64 = u16::MAX as u64;

/// A flow that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) start: Instant,
    pub(crate) bytes: u64,
    pub(crate) rate: Rate,
    /// Bytes of a packet.
    pub(crate) packet: u16,
}

/// Flows in the order of their start.
pub(crate) trait Flows {
    /// The next one.
    fn next(&mut self) -> Result<Option<Flow>, Failure>;
}

/// Their packets.
pub(crate) struct Merge<F> {
    pub(crate) flows: F,
    coming: Option<Flow>,
    in_progress: BinaryHeap<Reverse<Sending>>,
    /// How many flows have begun.
    begun: u64,
}

/// A flow in progress; those that send earlier, and of these those that began earlier, come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sending {
    next: Instant,
    number: u64,
    start: Instant,
    sent: u64,
    bytes: u64,
    pace: Pace,
    packet: u16,
}

impl<F: Flows> Merge<F> {
    pub(crate) fn new(mut flows: F) -> Result<Self, Failure> {
        let coming = flows.next()?;
        Ok(Self { flows, coming, in_progress: BinaryHeap::new(), begun: 0 })
    }

    /// The packet that is sent next.
    pub(crate) fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        while let Some(flow) = self.coming {
            if self.in_progress.peek().is_some_and(|Reverse(first)| first.next < flow.start) {
                break;
            }
            self.in_progress.push(Reverse(Sending {
                next: flow.start,
                number: self.begun,
                start: flow.start,
                sent: 0,
                bytes: flow.bytes,
                pace: flow.rate.pace(),
                packet: flow.packet,
            }));
            self.begun += 1;
            self.coming = self.flows.next()?;
        }
        let Some(mut first) = self.in_progress.peek_mut() else {
            return Ok(None);
        };
        let Reverse(flow) = &mut *first;
        let left = flow.bytes - flow.sent;
        let bytes = left.min(u64::from(flow.packet));
        let arrival =
            Arrival { at: flow.next, bytes: bytes.max(LEAST_PACKET) as u16, key: Key::numbered(flow.number) };
        if left > bytes {
            flow.sent += bytes;
            flow.next = flow.start + flow.pace.time_for(flow.sent);
        } else {
            PeekMut::pop(first);
        }
        Ok(Some(arrival))
    }

    /// How many flows have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) struct Listed(pub(crate) std::vec::IntoIter<Flow>);

    impl Flows for Listed {
        fn next(&mut self) -> Result<Option<Flow>, Failure> {
            Ok(self.0.next())
        }
    }

    #[test]
    fn packets_come_in_the_order_of_time_with_the_gaps_of_their_flow() {
        let flow = |start, bytes, rate, packet| Flow {
            start: Instant::from_nanos(start),
            bytes,
            rate: Rate::from_bps(rate),
            packet,
        };
        // Gaps of 1 ms and of 0.4 ms.
        let flows = vec![flow(0, 2010, 8_000_000, 1000), flow(500_000, 1500, 10_000_000, 500)];
        let mut merge = Merge::new(Listed(flows.into_iter())).unwrap();
        let mut seen = Vec::new();
        while let Some(one) = merge.next().unwrap() {
            seen.push((one.at.nanos(), one.key.rest, one.bytes));
        }
        let expected = [
            (0, 0, 1000),
            (500_000, 1, 500),
            (900_000, 1, 500),
            (1_000_000, 0, 1000),
            (1_300_000, 1, 500),
            (2_000_000, 0, 40),
        ];
        assert_eq!(seen, expected);
    }
}
