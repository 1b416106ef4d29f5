//! Counters of the packets of a queue.

use crate::Reason;

/// Counts of the packets that have passed through a queue and its link's transmitter since the queue was created.
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
    /// Number of packets dropped for each reason, indexed by the code of the reason.
    pub drops_by_reason: [u64; Reason::NAMES.len()],
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// The time integral of the number of queued packets, in packet-nanoseconds.
    pub packet_nanos: u128,
    /// Packets that arrived at exactly the same time as another arrival or a departure.
    pub tied: u64,
}
