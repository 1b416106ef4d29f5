//! `[tcp.ecn]`: explicit congestion notification.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1.

use aqm_net::{choices, parameters};

choices! {
    /// Use of ECN.
    pub enum EcnMode {
        /// ECN is not used, and packets are not ECN-capable.
        Off = "off",
        /// If both endpoints agree, data that is sent for the first time is ECN-capable. An echoed mark reduces the
        /// window as a loss does, but at most once per window of data (RFC 3168, section 6.1).
        On = "on",
    }
}

choices! {
    /// The sender's response to an echoed mark, if ECN is used.
    pub enum MarkResponse {
        /// Any acknowledgement may echo a mark. The window is at least one segment. Retransmissions are not ECN-capable
        /// (RFC 3168, section 6.1).
        Rfc3168 = "rfc-3168",
        /// Only acknowledgements of new data echo a mark. If a mark would reduce the window below one segment, the
        /// sender waits for the retransmission timer. This timeout leaves `ssthresh` unchanged; after any other
        /// timeout, the first echo reduces the window. If a loss occurs in a window that a mark has already reduced,
        /// the window is halved again. Retransmissions are ECN-capable (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
        /// As `rfc-3168`, with two differences. The window decreases according to `recovery.reduction` (with
        /// `recovery.kind = "sack"` or `"rack"`), and does not grow until all data sent before the mark is
        /// acknowledged. At other times, the window also grows with acknowledgements that echo a mark. A receiver with
        /// adaptive delayed acknowledgements immediately acknowledges segments with CWR, the first marked segment and
        /// the segment after it, and a segment that is not ECN-capable after a segment that is (Linux).
        Linux = "linux",
    }
}

parameters! {
    /// Explicit congestion notification (RFC 3168).
    pub struct Ecn {
        /// Use of ECN. The queues decide whether packets are marked, for example with the parameter `ecn` of RED.
        pub mode: EcnMode = EcnMode::Off, "aqmlab's choice: RFC 3168 does not specify a default";
        /// The sender's response to an echoed mark, if ECN is used.
        pub response: MarkResponse = MarkResponse::Rfc3168, "RFC 3168, 6.1";
    }
}
