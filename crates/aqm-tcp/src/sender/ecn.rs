//! Determines the sender's response to echoed ECN marks.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1.2; ns-2.35's `tcp-full.cc`, whose differences are
//! described in the comment of each function that uses [`MarkResponse::Ns2Full`]; Linux 6.1's `tcp_input.c`
//! (`tcp_enter_cwr`, `tcp_try_to_open`, `tcp_may_raise_cwnd`).
//!
//! aqmlab's choices where the sources are silent: a mark causes no further reduction if the mark is echoed during a
//! loss recovery, or for data of a window that has already been reduced. A loss also causes no further reduction if a
//! mark has already reduced the window.

use aqm_net::Ecn;

use crate::accurate_ecn::SenderCounters;
use crate::config::ecn::{Feedback, MarkResponse, ResolvedEcn};
use crate::segment::{Flags, Segment};

/// Cause of the last window reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReducedBy {
    Nothing,
    Mark,
    Loss,
    Timeout,
}

/// Feedback of ECN marks that both endpoints agreed to use.
#[derive(Clone, Copy, Debug)]
enum SenderFeedback {
    Classic,
    Dctcp,
    Accurate(SenderCounters),
}

/// State of a sender's response to ECN marks. This state exists only if both endpoints agreed to use ECN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnResponse {
    response: MarkResponse,
    feedback: SenderFeedback,
    codepoint: Ecn,
    /// ECN bits of the received SYN.
    pub(super) syn_ecn: Ecn,
    /// Whether pure acknowledgements and retransmissions are ECN-capable.
    marks_all: bool,
    /// Whether the next segment with new data carries CWR.
    cwr_is_due: bool,
    pub(super) reduced_by: ReducedBy,
    /// Sequence number that followed all sent data when a mark last reduced the window; 0 before the first mark.
    marked_up_to: u64,
    /// Sequence number that followed all sent data when the window was last reduced, regardless of the cause; 0 before
    /// the first reduction.
    reduced_up_to: u64,
}

impl EcnResponse {
    pub fn new(response: MarkResponse, feedback: Feedback, ecn: &ResolvedEcn) -> Self {
        Self {
            response,
            feedback: match feedback {
                Feedback::Classic => SenderFeedback::Classic,
                Feedback::Dctcp => SenderFeedback::Dctcp,
                Feedback::Accurate => SenderFeedback::Accurate(SenderCounters::new()),
            },
            codepoint: ecn.codepoint.ecn(),
            syn_ecn: Ecn::NotEct,
            marks_all: ecn.on_acks,
            cwr_is_due: false,
            reduced_by: ReducedBy::Nothing,
            marked_up_to: 0,
            reduced_up_to: 0,
        }
    }

    /// Whether an acknowledgement reports ECN marks.
    #[inline]
    pub fn has_echo(&self, segment: &Segment) -> bool {
        match &self.feedback {
            SenderFeedback::Classic | SenderFeedback::Dctcp => segment.flags.has(Flags::ECE),
            SenderFeedback::Accurate(counters) => counters.has_news(segment),
        }
    }

    /// Returns how many of the `delivered` bytes, in segments of up to `mss` bytes, an acknowledgement with an echo
    /// newly reports as marked. The result is 0 with classic feedback, because classic feedback does not report the
    /// number of marked bytes.
    pub fn marked(&mut self, segment: &Segment, delivered: u64, mss: u64) -> u64 {
        match &mut self.feedback {
            SenderFeedback::Classic => 0,
            SenderFeedback::Dctcp => delivered,
            SenderFeedback::Accurate(counters) => counters.on_ack(segment, delivered, mss),
        }
    }

    /// Whether the feedback is classic. Classic feedback repeats the echo of a mark until the sender answers with CWR,
    /// so an echo does not show whether the data acknowledged by the same segment was marked.
    pub fn is_classic(&self) -> bool {
        matches!(self.feedback, SenderFeedback::Classic)
    }

    /// Returns the feedback on which both endpoints agreed.
    pub fn feedback(&self) -> Feedback {
        match self.feedback {
            SenderFeedback::Classic => Feedback::Classic,
            SenderFeedback::Dctcp => Feedback::Dctcp,
            SenderFeedback::Accurate(_) => Feedback::Accurate,
        }
    }

    /// Returns the ECN bits with which a pure acknowledgement is sent.
    pub fn of_ack(&self) -> Ecn {
        if self.marks_all { self.codepoint } else { Ecn::NotEct }
    }

    /// Whether an echo is processed if it arrives on an acknowledgement of `acked` new bytes. FullTcp ignores echoes on
    /// acknowledgements that acknowledge no new data.
    #[inline]
    pub fn counts_echo(&self, acked: u64) -> bool {
        acked > 0 || self.response != MarkResponse::Ns2Full
    }

    /// Returns whether a mark is ignored if the mark is echoed while `una` is the oldest unacknowledged byte.
    pub fn ignores_mark(&self, una: u64, in_recovery: bool) -> bool {
        // The receiver echoes the mark until it receives the first segment that was sent after the reduction, because
        // this segment carries CWR. Until this segment is acknowledged, echoes must be ignored.
        let is_reduced = self.reduced_up_to > 0 && una <= self.reduced_up_to;
        match self.response {
            MarkResponse::Rfc3168 | MarkResponse::Linux => is_reduced || in_recovery,
            MarkResponse::Ns2Full => is_reduced && self.reduced_by != ReducedBy::Timeout,
        }
    }

    /// Returns whether the window decreases gradually, as in Linux. If the window decreases gradually, acknowledgements
    /// that echo a mark may also increase the window, except during a reduction. According to RFC 3168 (6.1.2), an
    /// acknowledgement that echoes a mark does not increase the window.
    pub fn reduces_gradually(&self) -> bool {
        self.response == MarkResponse::Linux
    }

    /// Returns whether the window is decreasing. A decrease begins with a mark and ends when data beyond the data sent
    /// before the mark is acknowledged (Linux: `TCP_CA_CWR`).
    pub fn is_reducing(&self, una: u64) -> bool {
        self.reduces_gradually() && self.reduced_by == ReducedBy::Mark && self.is_marked(una)
    }

    /// Records that a mark reduced the window at a time when all data below `sent` had been sent.
    pub fn on_mark(&mut self, sent: u64) {
        self.reduced_by = ReducedBy::Mark;
        self.marked_up_to = sent;
        self.on_reduction(sent);
    }

    /// Records that the window was reduced at a time when all data below `sent` had been sent. The next data segment
    /// reports the reduction to the other endpoint with CWR (RFC 3168, 6.1.2).
    pub fn on_reduction(&mut self, sent: u64) {
        self.reduced_up_to = sent;
        self.cwr_is_due = true;
    }

    /// Records a loss in a window that a mark had already reduced. All data below `sent` had been sent when the loss
    /// was detected, and marks of this data no longer reduce the window.
    pub fn on_loss_after_mark(&mut self, sent: u64) {
        self.reduced_by = ReducedBy::Loss;
        self.reduced_up_to = sent;
    }

    /// Returns whether the data that is being acknowledged belongs to a window that a mark has reduced.
    pub fn is_marked(&self, una: u64) -> bool {
        una < self.marked_up_to || (self.reduces_gradually() && una == self.marked_up_to && una > 0)
    }

    /// Returns whether a loss halves a window that a mark has already reduced.
    pub fn loss_halves_marked(&self) -> bool {
        self.response == MarkResponse::Ns2Full
    }

    /// Returns whether a timeout leaves `ssthresh` unchanged. In FullTcp, a timeout leaves `ssthresh` unchanged if a
    /// mark caused the last reduction.
    pub fn timeout_spares_ssthresh(&self) -> bool {
        self.reduced_by == ReducedBy::Mark && self.response == MarkResponse::Ns2Full
    }

    /// Returns whether a window that marks have reduced below one segment counts as zero until the retransmission timer
    /// expires, as in FullTcp.
    pub fn closes_below_a_segment(&self) -> bool {
        self.timeout_spares_ssthresh()
    }

    /// Returns the ECN bits of a data segment, and whether the segment carries CWR. A retransmission is ECN-capable
    /// only in FullTcp.
    #[inline]
    pub fn on_data(&mut self, is_retransmission: bool) -> (Ecn, bool) {
        if !is_retransmission || self.response == MarkResponse::Ns2Full {
            let is_due = std::mem::take(&mut self.cwr_is_due);
            (self.codepoint, is_due && !matches!(self.feedback, SenderFeedback::Accurate(_)))
        } else {
            (self.of_ack(), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ecn::EcnNeeds;

    fn both() -> [EcnResponse; 2] {
        let ecn = crate::config::ecn::Ecn::default().resolved(EcnNeeds::default());
        [MarkResponse::Rfc3168, MarkResponse::Ns2Full]
            .map(|response| EcnResponse::new(response, Feedback::Classic, &ecn))
    }

    #[test]
    fn a_mark_reduces_once_until_a_segment_after_the_reduction_is_acknowledged() {
        for mut ecn in both() {
            assert!(!ecn.ignores_mark(0, false), "the window was not reduced yet");
            ecn.on_mark(5000);
            assert!(ecn.ignores_mark(0, false) && ecn.ignores_mark(5000, false));
            assert!(!ecn.ignores_mark(5001, false));
            assert!(ecn.is_marked(4999) && !ecn.is_marked(5000));
        }
    }

    #[test]
    fn a_mark_echoed_in_fast_recovery_is_ignored_except_in_full_tcp() {
        assert_eq!(both().map(|ecn| ecn.ignores_mark(9000, true)), [true, false]);
    }

    #[test]
    fn in_full_tcp_the_first_echo_after_a_timeout_counts() {
        let ignored = both().map(|mut ecn| {
            ecn.on_reduction(5000);
            ecn.reduced_by = ReducedBy::Timeout;
            ecn.ignores_mark(1000, false)
        });
        assert_eq!(ignored, [true, false]);
    }

    #[test]
    fn an_echo_counts_on_any_acknowledgement_and_in_full_tcp_on_those_of_new_data() {
        assert_eq!(both().map(|ecn| ecn.counts_echo(0)), [true, false]);
        assert_eq!(both().map(|ecn| ecn.counts_echo(1)), [true, true]);
    }

    #[test]
    fn a_reduction_is_reported_once() {
        for mut ecn in both() {
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, false));
            ecn.on_reduction(5000);
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, true));
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, false));
        }
    }

    #[test]
    fn retransmissions_are_ecn_capable_only_in_full_tcp() {
        let again = both().map(|mut ecn| {
            ecn.on_reduction(5000);
            (ecn.on_data(true), ecn.on_data(false))
        });
        assert_eq!(again[0], ((Ecn::NotEct, false), (Ecn::Ect0, true)), "new data carries CWR");
        assert_eq!(again[1], ((Ecn::Ect0, true), (Ecn::Ect0, false)));
    }

    #[test]
    fn a_window_below_a_segment_closes_only_after_a_mark_in_full_tcp() {
        for (mut ecn, full) in both().into_iter().zip([false, true]) {
            assert!(!ecn.closes_below_a_segment() && !ecn.timeout_spares_ssthresh());
            ecn.on_mark(5000);
            assert_eq!((ecn.closes_below_a_segment(), ecn.loss_halves_marked()), (full, full));
            assert_eq!(ecn.timeout_spares_ssthresh(), full);
            ecn.reduced_by = ReducedBy::Loss;
            assert!(!ecn.closes_below_a_segment() && !ecn.timeout_spares_ssthresh());
        }
    }
}
