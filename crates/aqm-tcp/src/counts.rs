//! Counters of an endpoint, and the reasons for which a sender gives up.

use aqm_net::Instant;

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments sent with data, SYN or FIN, including retransmissions.
    pub segments_sent: u64,
    /// Pure acknowledgements sent.
    pub acks_sent: u64,
    /// Segments among `segments_sent` that repeated data or a FIN. Repeated SYNs are not counted.
    pub retransmitted: u32,
    /// Expirations of the retransmission timer.
    pub timeouts: u32,
    /// Retransmissions triggered by duplicate acknowledgements.
    pub fast_retransmits: u32,
    /// Window reductions caused by an echoed mark.
    pub mark_reductions: u32,
    /// Time at which the connection was established at this endpoint. It is `None` at the passive endpoint of a two-way
    /// handshake, which keeps no handshake state.
    pub handshake_done: Option<Instant>,
}

/// Sender's part of [`Counts`]. The field that changes with every segment is first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct SenderCounts {
    pub segments_sent: u64,
    pub retransmitted: u32,
    pub timeouts: u32,
    pub fast_retransmits: u32,
    pub mark_reductions: u32,
}

/// Reason for which a sender gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No SYN was answered (`max_syn_retries`).
    NoAnswer,
    /// Repeated retransmissions made no progress (`max_retries`).
    NoProgress,
}
