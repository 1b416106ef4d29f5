//! The packets of several flows, in ascending order of time. Each flow sends at a constant rate. All packets of a flow,
//! except for the last packet, have the same size.
//!
//! aqmlab's choice, where the sources are silent: if a flow of B bytes with the rate r, in bits per second, and packets
//! of P bytes starts at time t, the flow sends packet k at t + 8kP/r, until all bytes have been sent. The last packet
//! contains the remaining bytes, but at least 40 B. Flows in progress are stored in a heap. Packets with equal times
//! are sorted by the numbers of their flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use aqm_net::{Instant, Pace, Rate};

use crate::packets::{Arrival, Key};
use aqm_net::level::Failure;

/// Minimum size of a packet in bytes, which is the length of the IPv4 and TCP headers.
pub(crate) const MIN_PACKET: u64 = 40;
/// Maximum size of a packet in bytes.
pub(crate) const MAX_PACKET: u64 = u16::MAX as u64;

/// A flow to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) start: Instant,
    pub(crate) bytes: u64,
    pub(crate) rate: Rate,
    /// Size of a packet in bytes.
    pub(crate) packet: u16,
}

/// A sequence of flows in ascending order of start times.
pub(crate) trait Flows {
    /// Returns the next flow.
    fn next(&mut self) -> Result<Option<Flow>, Failure>;
}

/// The packets of all flows of a sequence.
pub(crate) struct Merge<F> {
    pub(crate) flows: F,
    upcoming: Option<Flow>,
    in_progress: BinaryHeap<Reverse<ActiveFlow>>,
    /// Number of flows that have started.
    flow_count: u64,
}

/// A flow in progress. Flows are ordered by the times of their next packets; if these times are equal, flows are
/// ordered by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ActiveFlow {
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
        let upcoming = flows.next()?;
        Ok(Self { flows, upcoming, in_progress: BinaryHeap::new(), flow_count: 0 })
    }

    /// Returns the next packet.
    pub(crate) fn next(&mut self) -> Result<Option<Arrival>, Failure> {
        while let Some(flow) = self.upcoming {
            if self.in_progress.peek().is_some_and(|Reverse(first)| first.next < flow.start) {
                break;
            }
            self.in_progress.push(Reverse(ActiveFlow {
                next: flow.start,
                number: self.flow_count,
                start: flow.start,
                sent: 0,
                bytes: flow.bytes,
                pace: flow.rate.pace(),
                packet: flow.packet,
            }));
            self.flow_count += 1;
            self.upcoming = self.flows.next()?;
        }
        let Some(mut first) = self.in_progress.peek_mut() else {
            return Ok(None);
        };
        let Reverse(flow) = &mut *first;
        let left = flow.bytes - flow.sent;
        let bytes = left.min(u64::from(flow.packet));
        let arrival =
            Arrival { at: flow.next, bytes: bytes.max(MIN_PACKET) as u16, key: Key::numbered(flow.number) };
        if left > bytes {
            flow.sent += bytes;
            flow.next = flow.start + flow.pace.time_for(flow.sent);
        } else {
            PeekMut::pop(first);
        }
        Ok(Some(arrival))
    }

    /// Returns the number of flows that have started.
    pub(crate) fn flow_count(&self) -> u64 {
        self.flow_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) struct FlowList(pub(crate) std::vec::IntoIter<Flow>);

    impl Flows for FlowList {
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
        // Gaps of 1 ms and 0.4 ms.
        let flows = vec![flow(0, 2010, 8_000_000, 1000), flow(500_000, 1500, 10_000_000, 500)];
        let mut merge = Merge::new(FlowList(flows.into_iter())).unwrap();
        let mut packets = Vec::new();
        while let Some(one) = merge.next().unwrap() {
            packets.push((one.at.nanos(), one.key.rest, one.bytes));
        }
        let expected = [
            (0, 0, 1000),
            (500_000, 1, 500),
            (900_000, 1, 500),
            (1_000_000, 0, 1000),
            (1_300_000, 1, 500),
            (2_000_000, 0, 40),
        ];
        assert_eq!(packets, expected);
    }
}
