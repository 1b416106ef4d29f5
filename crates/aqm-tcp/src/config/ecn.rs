//! `[tcp.ecn]`: explicit congestion notification.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1.

use aqm_net::{choices, parameters};

choices! {
    /// Whether packets may be marked instead of dropped.
    pub enum EcnMode {
        /// They may not.
        Off = "off",
        /// If the other end agrees: data sent for the first time is ECN-capable; an echoed mark reduces
        /// the window as a loss does, once a window of data (RFC 3168, section 6.1).
        On = "on",
    }
}

choices! {
    /// How a sender answers the echo of a mark, where ECN is on.
    pub enum MarkResponse {
        /// Any acknowledgement tells of a mark; the window keeps a segment; nothing sent again may be marked
        /// (RFC 3168, section 6.1).
        Rfc3168 = "rfc-3168",
        /// Only those of new data tell; a window below a segment waits for the timer, and the time-out then
        /// spares `ssthresh`; after another time-out the first echo counts; the loss of a segment in a window
        /// reduced by a mark halves it again; what is sent again may be marked, too (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
        /// As `rfc-3168`, but the window comes down as `recovery.reduction` has it (with `recovery.kind = "sack"` or
        /// `"rack"`), opens no more until what had been sent is acknowledged, and otherwise opens with an echo, too. A
        /// receiver with adaptive delayed acknowledgements answers at once what tells of a reduction, the first mark
        /// and the next segment, and what cannot be marked after what could (Linux).
        Linux = "linux",
    }
}

parameters! {
    /// Explicit congestion notification (RFC 3168).
    pub struct Ecn {
        /// Whether packets may be marked instead of dropped; whether they are, the queues decide (`ecn` of RED).
        pub mode: EcnMode = EcnMode::Off, "ours: RFC 3168 leaves it open";
        /// How a sender answers the echo of a mark, with ECN.
        pub response: MarkResponse = MarkResponse::Rfc3168, "RFC 3168, 6.1";
    }
}
