//! What a sender did, and why it stopped.

use aqm_net::Instant;

/// What an end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments sent with data, SYN or FIN, retransmissions included.
    pub segments_sent: u64,
    /// Acknowledgements sent that carried nothing else.
    pub acks_sent: u64,
    /// Segments among `segments_sent` with data or a FIN that had been sent before; repeated SYNs are not counted.
    pub retransmitted: u32,
    /// How often the retransmission timer ran out.
    pub timeouts: u32,
    /// How often duplicate acknowledgements led to a retransmission.
    pub fast_retransmits: u32,
    /// How often an echoed mark reduced the window.
    pub mark_reductions: u32,
    /// When the connection was open at this end, if it kept a state for it before: the passive end of a two-way
    /// handshake does not.
    pub handshake_done: Option<Instant>,
}

/// What the sending half of an end counts, as in [`Counts`]; the field that every segment changes comes first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct SenderCounts {
    pub segments_sent: u64,
    pub retransmitted: u32,
    pub timeouts: u32,
    pub fast_retransmits: u32,
    pub mark_reductions: u32,
}

/// Why a sender stopped before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaveUp {
    /// No SYN was answered (`max_syn_retries`).
    NoAnswer,
    /// Retransmissions brought no progress (`max_retries`).
    NoProgress,
}
