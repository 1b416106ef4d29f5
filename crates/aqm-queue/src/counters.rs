//! Counters of the packets of a queue.

use crate::Reason;

/// Counts of the packets that passed through a queue and the transmitter of its link since the queue was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived, including dropped packets.
    pub arrivals: u64,
    /// Bytes that arrived.
    pub arrived_bytes: u64,
    /// Packets whose transmission began.
    pub departures: u64,
    /// Bytes whose transmission began.
    pub departed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets dropped for each reason, indexed by the reason's code.
    pub drops_by_reason: [u64; Reason::NAMES.len()],
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// The integral of the number of queued packets over time, in packets times nanoseconds.
    pub packet_nanos: u128,
    /// Packets that arrived at exactly the same time as another arrival or a departure.
    pub tied: u64,
}
