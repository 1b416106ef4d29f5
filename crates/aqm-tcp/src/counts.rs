//! What a sender did, and why it stopped.

use aqm_net::Instant;

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments sent, SYN, FIN and retransmissions included.
    pub segments_sent: u64,
    /// Of these, those sent before.
    pub retransmitted: u64,
    /// How often the retransmission timer ran out.
    pub timeouts: u32,
    /// How often duplicate acknowledgements led to a retransmission.
    pub fast_retransmits: u32,
    /// When the SYN-ACK came.
    pub handshake_done: Option<Instant>,
}

/// Why a sender stopped before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// No SYN was answered (`max_syn_retries`).
    NoAnswer,
    /// Retransmissions brought no progress (`max_retries`).
    NoProgress,
}
