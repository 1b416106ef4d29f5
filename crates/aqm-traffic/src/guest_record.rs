//! What a workload of guests records over time, for the result tables.

use std::collections::BTreeMap;

use aqm_guest::{End, Event};
use aqm_net::Instant;

/// A value that a guest reported.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestReport {
    /// Time of the report.
    pub at: Instant,
    /// Number of the flow within the workload.
    pub flow: u32,
    /// The end at which the guest runs.
    pub end: End,
    /// The name and the value.
    pub event: Event,
}

/// The file that the server of a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestTransfer {
    /// Number of the flow within the workload.
    pub flow: u32,
    /// Time at which the guests were started.
    pub begin: Instant,
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes that the client has received in order.
    pub received: u64,
    /// Time at which the client received the first byte; `None` before this time.
    pub first_byte: Option<Instant>,
    /// Time at which the client received the last byte; `None` before this time.
    pub completed: Option<Instant>,
}

/// Payload bytes of a full-sized datagram, for numbers of segments: the size that every QUIC connection supports (RFC
/// 9000, section 14).
pub const SEGMENT: u64 = 1200;

/// The record of a workload of guests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestRecord {
    /// All reports, in chronological order.
    pub reports: Vec<GuestReport>,
    /// The transfers in the order in which they began; empty if the files have no known length.
    pub transfers: Vec<GuestTransfer>,
    /// The bytes that the client of each flow reported as received, with the time of each report.
    pub received: BTreeMap<u32, Vec<(Instant, u64)>>,
}

impl GuestRecord {
    /// Returns the number of bytes that the client of a flow received at `begin` or later; `None` if the client does not
    /// report received bytes.
    pub fn received_since(&self, flow: u32, begin: Instant) -> Option<u64> {
        let reports = self.received.get(&flow)?.iter().filter(|(at, _)| *at >= begin);
        Some(reports.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes)))
    }
}
