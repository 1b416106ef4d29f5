//! Feedback modes that report ECN marks to the sender, except the classic ECN echo of RFC 3168.
//!
//! S. Bensley et al., "Data Center TCP (DCTCP)", RFC 8257, 2017, section 3.2, and Linux 6.1 (`dctcp_ece_ack_update`: a
//! segment whose ECN bits differ from the previous segment's ECN bits is acknowledged immediately); RFC 9768, 2026
//! (`accurate_ecn.rs`).

use aqm_net::Ecn;

use crate::accurate_ecn::{ACE, ReceiverCounters};
use crate::segment::{Flags, Segment};

/// Size of the AccECN option with one counter, in bytes, including kind, length and padding to a word (RFC 9768,
/// section 3.2.3).
const OPTION_BYTES: u16 = 8;

/// Feedback mode of one receiver, with the mode's state.
#[derive(Debug)]
pub(crate) enum MarkFeedback {
    Dctcp(Dctcp),
    Accurate(Accurate),
}

/// State of DCTCP feedback.
#[derive(Debug, Default)]
pub(crate) struct Dctcp {
    /// Whether the last segment was marked (`DCTCP.CE`).
    is_marked: bool,
    /// Acknowledgement of the data that precedes the current segment.
    early: Option<EarlyAck>,
    is_urgent: bool,
}

/// State of Accurate ECN feedback.
#[derive(Debug)]
pub(crate) struct Accurate {
    counters: ReceiverCounters,
    has_option: bool,
    is_urgent: bool,
    /// Code for the ECN bits of the SYN/ACK, which the next segment carries.
    handshake: Option<Flags>,
}

/// An acknowledgement that must be sent before the current acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyAck {
    ack: u64,
    is_marked: bool,
}

impl EarlyAck {
    /// Writes the acknowledgement fields of a segment.
    pub fn write(self, segment: &mut Segment) {
        segment.ack = self.ack;
        segment.flags = segment.flags.union(Flags::ACK);
        if self.is_marked {
            segment.flags = segment.flags.union(Flags::ECE);
        }
    }
}

impl MarkFeedback {
    /// Creates DCTCP feedback.
    pub fn dctcp() -> Self {
        Self::Dctcp(Dctcp::default())
    }

    /// Creates Accurate ECN feedback. `handshake` is the code for the ECN bits of the SYN/ACK, which the next segment
    /// carries; `None` if this endpoint received no SYN/ACK.
    pub fn accurate(has_option: bool, handshake: Option<Flags>) -> Self {
        let counters = ReceiverCounters::new();
        Self::Accurate(Accurate { counters, has_option, is_urgent: false, handshake })
    }

    /// Processes the ECN bits of a segment. All data below `expected` has already arrived, and `is_pending` states
    /// whether an acknowledgement of this data is being delayed.
    pub fn on_segment(&mut self, segment: &Segment, expected: u64, is_pending: bool) {
        match self {
            Self::Dctcp(dctcp) => {
                if segment.len == 0 {
                    return;
                }
                let is_marked = segment.ecn == Ecn::Ce;
                let before = std::mem::replace(&mut dctcp.is_marked, is_marked);
                dctcp.is_urgent = before != is_marked;
                if dctcp.is_urgent && is_pending {
                    dctcp.early = Some(EarlyAck { ack: expected, is_marked: before });
                }
            }
            Self::Accurate(accurate) => accurate.is_urgent = accurate.counters.on_packet(segment),
        }
    }

    /// Whether the last segment requires an immediate acknowledgement.
    pub fn is_urgent(&self) -> bool {
        match self {
            Self::Dctcp(dctcp) => dctcp.is_urgent,
            Self::Accurate(accurate) => accurate.is_urgent,
        }
    }

    /// Returns the acknowledgement that must be sent before the current acknowledgement, if there is one.
    pub fn take_early(&mut self) -> Option<EarlyAck> {
        match self {
            Self::Dctcp(dctcp) => dctcp.early.take(),
            Self::Accurate(_) => None,
        }
    }

    /// Writes the feedback into a segment that acknowledges all received data.
    pub fn write(&mut self, segment: &mut Segment) {
        match self {
            Self::Dctcp(dctcp) => {
                let echo = if dctcp.is_marked { Flags::ECE } else { Flags::default() };
                segment.flags = segment.flags.without(Flags::ECE).union(echo);
            }
            Self::Accurate(accurate) => {
                let (ace, bytes) = accurate.counters.write();
                let ace = accurate.handshake.take().unwrap_or(ace);
                segment.flags = segment.flags.without(ACE).union(ace);
                if accurate.has_option && segment.sacks.count() < 3 {
                    segment.sacks.set_marked_bytes(bytes);
                    segment.wire = segment.wire.saturating_add(OPTION_BYTES);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u64, ecn: Ecn) -> Segment {
        Segment { seq, len: 1000, ecn, ..Segment::default() }
    }

    #[test]
    fn with_dctcp_data_before_a_change_is_acknowledged_with_the_echo_before_it() {
        let mut feedback = MarkFeedback::dctcp();
        feedback.on_segment(&data(0, Ecn::Ect0), 0, false);
        assert!(!feedback.is_urgent());
        feedback.on_segment(&data(1000, Ecn::Ce), 1000, true);
        assert!(feedback.is_urgent());
        let mut early = Segment::default();
        feedback.take_early().unwrap().write(&mut early);
        assert_eq!((early.ack, early.flags), (1000, Flags::ACK));
        let mut ack = Segment { flags: Flags::ACK, ..Segment::default() };
        feedback.write(&mut ack);
        assert!(ack.flags.has(Flags::ECE));
        feedback.on_segment(&data(2000, Ecn::Ce), 2000, false);
        assert!(!feedback.is_urgent() && feedback.take_early().is_none());
        feedback.on_segment(&data(3000, Ecn::Ect0), 3000, true);
        let mut early = Segment::default();
        feedback.take_early().unwrap().write(&mut early);
        assert!(early.flags.has(Flags::ECE));
    }

    #[test]
    fn accurate_feedback_reports_the_handshake_once_and_then_the_counter() {
        let mut feedback = MarkFeedback::accurate(true, Some(Flags::AE));
        let ace = |feedback: &mut MarkFeedback| {
            let mut ack = Segment { flags: Flags::ACK.union(Flags::ECE), wire: 52, ..Segment::default() };
            feedback.write(&mut ack);
            (crate::accurate_ecn::value_of(ack.flags), ack.sacks.marked_bytes(), ack.wire)
        };
        assert_eq!(ace(&mut feedback), (0b100, Some(0), 60));
        assert_eq!(ace(&mut feedback), (5, Some(0), 60));
        feedback.on_segment(&data(0, Ecn::Ce), 0, false);
        assert_eq!(ace(&mut feedback), (6, Some(1000), 60));
    }
}
