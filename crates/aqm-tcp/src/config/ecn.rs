//! `[tcp.ecn]`: explicit congestion notification.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1.

use aqm_net::{choices, parameters};

choices! {
    /// Use of ECN.
    pub enum EcnMode {
        /// ECN is not used; packets are not ECN-capable.
        Off = "off",
        /// If both endpoints agree, data sent for the first time is ECN-capable. An echoed mark reduces the window like
        /// a loss, at most once per window of data (RFC 3168, section 6.1).
        On = "on",
    }
}

choices! {
    /// Sender's response to an echoed mark, with ECN.
    pub enum MarkResponse {
        /// Any acknowledgement may echo a mark; the window is at least one segment; retransmissions are not ECN-capable
        /// (RFC 3168, section 6.1).
        Rfc3168 = "rfc-3168",
        /// Only acknowledgements of new data echo a mark. A window below one segment waits for the retransmission
        /// timer; this timeout leaves `ssthresh` unchanged, and after any other timeout the first echo counts. A loss
        /// in a window that a mark reduced halves the window again. Retransmissions are ECN-capable (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
        /// As `rfc-3168`, but the window decreases according to `recovery.reduction` (with `recovery.kind = "sack"` or
        /// `"rack"`) and does not grow until all data sent before the mark is acknowledged; at other times it grows
        /// also with an echo. A receiver with adaptive delayed acknowledgements acknowledges these segments at once:
        /// segments with CWR, the first marked segment and its successor, and a segment that is not ECN-capable after
        /// one that is (Linux).
        Linux = "linux",
    }
}

parameters! {
    /// Explicit congestion notification (RFC 3168).
    pub struct Ecn {
        /// Use of ECN. The queues decide whether they mark packets (`ecn` of RED).
        pub mode: EcnMode = EcnMode::Off, "aqmlab's choice: RFC 3168 does not specify a default";
        /// Sender's response to an echoed mark, with ECN.
        pub response: MarkResponse = MarkResponse::Rfc3168, "RFC 3168, 6.1";
    }
}
