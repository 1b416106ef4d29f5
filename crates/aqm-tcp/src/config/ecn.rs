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
        /// If both endpoints agree to use ECN, each data segment is ECN-capable when it is sent for the first time. An
        /// echoed mark reduces the window in the same way as a loss, but at most once per window of data (RFC 3168,
        /// section 6.1).
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
        /// sender waits until the retransmission timer expires. This timeout leaves `ssthresh` unchanged; after any
        /// other timeout, the first echo reduces the window. If a loss occurs in a window that a mark has already
        /// reduced, the window is halved again. Retransmissions are ECN-capable (ns-2's FullTcp).
        Ns2Full = "ns-2-full",
        /// As `rfc-3168`, with three differences. After a mark, the window decreases according to `recovery.reduction`
        /// (with `recovery.kind = "sack"` or `"rack"`), and does not grow until all data sent before the mark is
        /// acknowledged. Otherwise, acknowledgements that echo a mark also open the window. A receiver with adaptive
        /// delayed acknowledgements immediately acknowledges segments with CWR, the first marked segment, the segment
        /// that follows the first marked segment, and a segment that is not ECN-capable and follows a segment that is
        /// (Linux).
        Linux = "linux",
    }
}

choices! {
    /// Feedback of marks from the receiver to the sender.
    pub enum Feedback {
        /// Acknowledgements echo a mark until the sender reports that it has reduced its window (RFC 3168, 6.1.3).
        Classic = "classic",
        /// Each acknowledgement reports whether the data that it acknowledges was marked (RFC 8257, section 3.2).
        Dctcp = "dctcp",
        /// Acknowledgements carry a counter of marked packets and, in a TCP option, a counter of marked bytes (AccECN,
        /// RFC 9768).
        Accurate = "accurate",
    }
}

parameters! {
    /// Explicit congestion notification (RFC 3168).
    pub struct Ecn {
        /// Use of ECN. Whether packets are marked depends on the queues, for example on RED's parameter `ecn`.
        pub mode: EcnMode = EcnMode::Off, "aqmlab's choice: RFC 3168 does not specify a default";
        /// The sender's response to an echoed mark, if ECN is used.
        pub response: MarkResponse = MarkResponse::Rfc3168, "RFC 3168, 6.1";
        /// Feedback of marks from the receiver to the sender. The default depends on the congestion control: `dctcp`
        /// for `dctcp`, `accurate` for `prague`, `classic` for all others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub feedback: Option<Feedback> = None, "dctcp: RFC 8257, 3.2; prague: RFC 9331, 4.1; others: RFC 3168, 6.1";
        /// ECN codepoint of data packets. The default depends on the congestion control: `ect1` for `prague`, `ect0`
        /// for all others. `ect1` requires a scalable congestion control (RFC 9331, section 4.1); senders with any
        /// other congestion control use `ect0` instead.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub codepoint: Option<Codepoint> = None, "RFC 9331, 4.1; RFC 8257";
        /// Whether SYNs are ECN-capable. By default, SYNs are ECN-capable only with `dctcp` and `prague`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub syn: Option<bool> = None, "RFC 3168, 6.1.1: no; RFC 8257, 3.5: yes; Linux: `tcp_ca_needs_ecn`";
        /// Whether pure acknowledgements and retransmissions are ECN-capable. By default, these packets are ECN-capable
        /// only with `dctcp` and `prague`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub acks: Option<bool> = None, "RFC 3168, 6.1.4 and 6.1.5: no; Linux: `tcp_ca_needs_ecn`";
        /// Whether acknowledgements with accurate feedback carry the TCP option that contains the number of marked
        /// bytes. If an acknowledgement carries more than two SACK blocks, the option does not fit and is omitted.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub option: Option<bool> = None, "RFC 9768, 3.2.3: yes; Linux: `tcp_ecn_option` 2";
    }
}

impl Ecn {
    /// Returns the values that are in effect for a congestion control with the given requirements.
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

/// ECN requirements of a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnNeeds {
    /// Whether the congestion control requires ECN. If so, and if ECN is off or provides less feedback than `feedback`,
    /// the sender follows Reno's rules.
    pub is_required: bool,
    /// Whether the congestion control is scalable (RFC 9331, section 4.3), so that its packets may carry ECT(1).
    pub is_scalable: bool,
    /// Required feedback.
    pub feedback: Feedback,
    /// ECN codepoint of data packets.
    pub codepoint: Codepoint,
}

impl Default for EcnNeeds {
    /// The requirements of a congestion control that responds to marks in the same way as to losses.
    fn default() -> Self {
        Self {
            is_required: false,
            is_scalable: false,
            feedback: Feedback::Classic,
            codepoint: Codepoint::Ect0,
        }
    }
}

/// The values of `[tcp.ecn]` that are in effect.
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
    /// Returns whether this feedback is at least as detailed as `required`.
    pub(crate) fn satisfies(self, required: Self) -> bool {
        match required {
            Self::Classic => true,
            Self::Dctcp => self != Self::Classic,
            Self::Accurate => self == Self::Accurate,
        }
    }
}
