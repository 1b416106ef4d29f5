//! How a sender answers the echo of marks.
//!
//! K. Ramakrishnan, S. Floyd, D. Black, RFC 3168, 2001, section 6.1.2, and ns-2.35's `tcp-full.cc`, which differs
//! from it in what each function here says of [`MarkResponse::Ns2Full`], and Linux 6.1's `tcp_input.c`
//! (`tcp_enter_cwr`, `tcp_try_to_open`, `tcp_may_raise_cwnd`).
//!
//! Ours, where the sources are silent: a mark echoed while a loss is repaired, or for data of a window that was
//! reduced already, reduces no further; nor does a loss in a window that a mark reduced.

use aqm_net::Ecn;

use crate::config::ecn::MarkResponse;

/// What reduced the window last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReducedBy {
    Nothing,
    Mark,
    Loss,
    Timeout,
}

/// What a sender remembers of marks and of reductions, if both ends agreed that packets may be marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EcnResponse {
    response: MarkResponse,
    /// The other end is to be told that the window was reduced (CWR).
    cwr_is_due: bool,
    pub(super) reduced_by: ReducedBy,
    /// The end of everything sent when a mark last reduced the window; 0 for never.
    marked_up_to: u64,
    /// The end of everything sent when anything did; 0 for never.
    reduced_up_to: u64,
}

impl EcnResponse {
    pub fn new(response: MarkResponse) -> Self {
        Self {
            response,
            cwr_is_due: false,
            reduced_by: ReducedBy::Nothing,
            marked_up_to: 0,
            reduced_up_to: 0,
        }
    }

    /// Whether an echo counts on an acknowledgement of `acked` new bytes: on any, or in FullTcp only if it
    /// acknowledges something.
    #[inline]
    pub fn counts_echo(&self, acked: u64) -> bool {
        acked > 0 || self.response != MarkResponse::Ns2Full
    }

    /// Whether the sender need not answer a mark that is echoed with `una`, the oldest byte not acknowledged.
    pub fn ignores_mark(&self, una: u64, in_recovery: bool) -> bool {
        // Until the first segment behind is acknowledged, which tells of the reduction, the echo goes on.
        let answered = self.reduced_up_to > 0 && una <= self.reduced_up_to;
        match self.response {
            MarkResponse::Rfc3168 | MarkResponse::Linux => answered || in_recovery,
            MarkResponse::Ns2Full => answered && self.reduced_by != ReducedBy::Timeout,
        }
    }

    /// Whether the window comes down by degrees, and opens otherwise even with an echo: in Linux. By RFC 3168 (6.1.2)
    /// an acknowledgement with an echo opens no window.
    pub fn descends(&self) -> bool {
        self.response == MarkResponse::Linux
    }

    /// Whether the window is on its way down, from a mark until more than what had been sent then is acknowledged
    /// (Linux: `TCP_CA_CWR`).
    pub fn falls(&self, una: u64) -> bool {
        self.descends() && self.reduced_by == ReducedBy::Mark && self.is_marked(una)
    }

    /// A mark reduced the window when everything below `sent` had been sent.
    pub fn on_mark(&mut self, sent: u64) {
        self.reduced_by = ReducedBy::Mark;
        self.marked_up_to = sent;
        self.on_reduction(sent);
    }

    /// The window was reduced when everything below `sent` had been sent: the other end is told (RFC 3168,
    /// 6.1.2).
    pub fn on_reduction(&mut self, sent: u64) {
        self.reduced_up_to = sent;
        self.cwr_is_due = true;
    }

    /// A loss was found in a window that a mark had reduced, when everything below `sent` had been sent: marks of
    /// this data reduce the window no more.
    pub fn on_loss_behind_mark(&mut self, sent: u64) {
        self.reduced_by = ReducedBy::Loss;
        self.reduced_up_to = sent;
    }

    /// Whether a mark reduced the window of data that is being acknowledged.
    pub fn is_marked(&self, una: u64) -> bool {
        una < self.marked_up_to || (self.descends() && una == self.marked_up_to && una > 0)
    }

    /// Whether a loss halves a window that a mark reduced already.
    pub fn loss_halves_marked(&self) -> bool {
        self.response == MarkResponse::Ns2Full
    }

    /// Whether a time-out leaves `ssthresh` alone: in FullTcp, if a mark was the last to reduce the window.
    pub fn timeout_spares_ssthresh(&self) -> bool {
        self.reduced_by == ReducedBy::Mark && self.response == MarkResponse::Ns2Full
    }

    /// Whether less than a segment that marks left of the window counts as nothing until the retransmission timer
    /// runs out: in FullTcp.
    pub fn closes_below_a_segment(&self) -> bool {
        self.timeout_spares_ssthresh()
    }

    /// The ECN bits of a data segment, and whether it tells of a reduction; `again` if it was sent before,
    /// which only FullTcp lets be marked.
    #[inline]
    pub fn on_data(&mut self, again: bool) -> (Ecn, bool) {
        if !again || self.response == MarkResponse::Ns2Full {
            (Ecn::Ect0, std::mem::take(&mut self.cwr_is_due))
        } else {
            (Ecn::NotEct, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [EcnResponse; 2] {
        [MarkResponse::Rfc3168, MarkResponse::Ns2Full].map(EcnResponse::new)
    }

    #[test]
    fn a_mark_is_answered_once_until_a_segment_behind_the_reduction_is_acknowledged() {
        for mut ecn in both() {
            assert!(!ecn.ignores_mark(0, false), "nothing was reduced yet");
            ecn.on_mark(5000);
            assert!(ecn.ignores_mark(0, false) && ecn.ignores_mark(5000, false));
            assert!(!ecn.ignores_mark(5001, false));
            assert!(ecn.is_marked(4999) && !ecn.is_marked(5000));
        }
    }

    #[test]
    fn a_mark_echoed_in_fast_recovery_is_no_further_sign_except_in_full_tcp() {
        assert_eq!(both().map(|ecn| ecn.ignores_mark(9000, true)), [true, false]);
    }

    #[test]
    fn in_full_tcp_the_first_echo_after_a_time_out_counts() {
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
    fn a_reduction_is_told_once() {
        for mut ecn in both() {
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, false));
            ecn.on_reduction(5000);
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, true));
            assert_eq!(ecn.on_data(false), (Ecn::Ect0, false));
        }
    }

    #[test]
    fn what_is_sent_again_may_be_marked_only_in_full_tcp() {
        let again = both().map(|mut ecn| {
            ecn.on_reduction(5000);
            (ecn.on_data(true), ecn.on_data(false))
        });
        assert_eq!(again[0], ((Ecn::NotEct, false), (Ecn::Ect0, true)), "new data tells of it");
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
