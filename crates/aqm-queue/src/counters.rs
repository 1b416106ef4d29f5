//! Counters of the packets of a queue.

use crate::Reason;

/// Packets that went through a queue and the transmitter of its link, since the queue was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that arrived, the dropped ones included.
    pub arrivals: u64,
    /// Bytes that arrived.
    pub arrived_bytes: u64,
    /// Packets whose transmission began.
    pub departures: u64,
    /// Bytes whose transmission began.
    pub departed_bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Of those, by the code of the reason.
    pub drops_by_reason: [u64; Reason::NAMES.len()],
    /// Bytes dropped.
    pub dropped_bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// The integral of the number of waiting packets over time, in packet nanoseconds.
    pub packet_nanos: u128,
    /// Arrivals at the very instant of another arrival or of a departure.
    pub tied: u64,
}
