//! `[tcp.ecn]`: explicit congestion notification.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1; S. Bensley et al., RFC 8257, 2017 (feedback of
//! DCTCP); B. Briscoe, M. Kühlewind, R. Scheffenegger, RFC 9768, 2026 (AccECN); K. De Schepper, B. Briscoe, RFC 9331,
//! 2023 (ECT(1)).

pub use aqm_net::Codepoint;
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

choices! {
    /// Feedback of marks from the receiver to the sender.
    pub enum Feedback {
        /// Acknowledgements echo a mark until the sender reports that it has reduced its window (RFC 3168, 6.1.3).
        Classic = "classic",
        /// Acknowledgements echo the mark of the data that they acknowledge (RFC 8257, section 3.2).
        Dctcp = "dctcp",
        /// Acknowledgements carry a counter of marked packets and, as an option, of marked bytes (AccECN, RFC 9768).
        Accurate = "accurate",
    }
}

parameters! {
    /// Explicit congestion notification (RFC 3168).
    pub struct Ecn {
        /// Use of ECN. The queues decide whether packets are marked, for example with the parameter `ecn` of RED.
        pub mode: EcnMode = EcnMode::Off, "aqmlab's choice: RFC 3168 does not specify a default";
        /// The sender's response to an echoed mark, if ECN is used.
        pub response: MarkResponse = MarkResponse::Rfc3168, "RFC 3168, 6.1";
        /// Feedback of marks from the receiver to the sender. By default that of the congestion control: `dctcp` for
        /// `dctcp`, `accurate` for `prague`, `classic` for all others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub feedback: Option<Feedback> = None, "dctcp: RFC 8257, 3.2; prague: RFC 9331, 4.1; others: RFC 3168, 6.1";
        /// ECN codepoint of data. By default that of the congestion control: `ect1` for `prague`, `ect0` for all others.
        /// `ect1` requires a scalable congestion control (RFC 9331, section 4.1); other senders use `ect0` instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub codepoint: Option<Codepoint> = None, "RFC 9331, 4.1; RFC 8257";
        /// Whether SYNs are ECN-capable. By default only with `dctcp` and `prague`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub syn: Option<bool> = None, "RFC 3168, 6.1.1: no; RFC 8257, 3.5: yes; Linux: `tcp_ca_needs_ecn`";
        /// Whether pure acknowledgements and retransmissions are ECN-capable. By default only with `dctcp` and `prague`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub acks: Option<bool> = None, "RFC 3168, 6.1.4 and 6.1.5: no; Linux: `tcp_ca_needs_ecn`";
        /// Whether acknowledgements with accurate feedback carry the option with the number of marked bytes, if at most
        /// two SACK blocks leave room for the option.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub option: Option<bool> = None, "RFC 9768, 3.2.3: yes; Linux: `tcp_ecn_option` 2";
    }
}

impl Ecn {
    /// Returns the values in effect with a congestion control that has the given requirements.
    pub(crate) fn resolved(&self, needs: EcnNeeds) -> ResolvedEcn {
        let codepoint = self.codepoint.unwrap_or(needs.codepoint);
        ResolvedEcn {
            feedback: self.feedback.unwrap_or(needs.feedback),
            codepoint: if needs.is_scalable { codepoint } else { Codepoint::Ect0 },
            on_syn: self.syn.unwrap_or(needs.is_required),
            on_acks: self.acks.unwrap_or(needs.is_required),
            has_option: self.option.unwrap_or(true),
            required: needs.is_required.then_some(needs.feedback),
        }
    }
}

/// What a congestion control requires of ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnNeeds {
    /// Whether the congestion control requires ECN: without ECN or with less feedback than `feedback`, the sender
    /// follows Reno's rules.
    pub is_required: bool,
    /// Whether the congestion control is scalable (RFC 9331, section 4.3), so that its packets may carry ECT(1).
    pub is_scalable: bool,
    /// Required feedback.
    pub feedback: Feedback,
    /// ECN codepoint of data.
    pub codepoint: Codepoint,
}

impl Default for EcnNeeds {
    /// The needs of a congestion control that responds to marks as to losses.
    fn default() -> Self {
        Self {
            is_required: false,
            is_scalable: false,
            feedback: Feedback::Classic,
            codepoint: Codepoint::Ect0,
        }
    }
}

/// The values of `[tcp.ecn]` in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedEcn {
    pub feedback: Feedback,
    pub codepoint: Codepoint,
    pub on_syn: bool,
    pub on_acks: bool,
    pub has_option: bool,
    /// Feedback that the congestion control requires; `None` if it requires no ECN.
    pub required: Option<Feedback>,
}

impl Feedback {
    /// Whether this feedback reports as much as `required`.
    pub(crate) fn satisfies(self, required: Self) -> bool {
        match required {
            Self::Classic => true,
            Self::Dctcp => self != Self::Classic,
            Self::Accurate => self == Self::Accurate,
        }
    }
}
