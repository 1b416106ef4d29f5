//! Counters of an endpoint, and the reasons why a sender gives up.

use aqm_net::Instant;

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of segments sent that contained data, a SYN or a FIN, including retransmissions.
    pub segments_sent: u64,
    /// Number of pure acknowledgements sent.
    pub acks_sent: u64,
    /// Number of segments in `segments_sent` that retransmitted data or a FIN. Retransmitted SYNs are not counted.
    pub retransmitted: u32,
    /// Number of expirations of the retransmission timer. In QUIC, the number includes probe timeouts.
    pub timeouts: u32,
    /// Number of retransmissions triggered by duplicate acknowledgements.
    pub fast_retransmits: u32,
    /// Number of window reductions caused by echoed ECN marks.
    pub mark_reductions: u32,
    /// Time at which the connection was established at this endpoint. The time is `None` at the passive endpoint of a
    /// two-way handshake, because this endpoint keeps no handshake state.
    pub handshake_done: Option<Instant>,
}

/// The part of [`Counts`] that belongs to the sender. The first field is the one that changes with every segment.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct SenderCounts {
    pub segments_sent: u64,
    pub retransmitted: u32,
    pub timeouts: u32,
    pub fast_retransmits: u32,
    pub mark_reductions: u32,
}

/// Reason why an endpoint gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No SYN was acknowledged (`max_syn_retries`).
    NoAnswer,
    /// Repeated retransmissions of the same data were not acknowledged (`max_retries`).
    NoProgress,
    /// The application aborted the connection.
    Aborted,
}
