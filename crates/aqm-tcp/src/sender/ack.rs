//! Processes acknowledgements.
//!
//! Most acknowledgements acknowledge only the next data and report nothing else. For acknowledgements of this kind, the
//! compiler generates a short path from the same rules (header prediction, V. Jacobson, 1990). There is one short path
//! for each recovery whose type is known at compile time.

use aqm_net::Instant;

use super::Sender;
use super::congestion::AckContext;
use crate::config::CheckedConfig;
use crate::recovery::{AnyRecovery, BoxedRecovery, LossRecovery, ReceivedAck};
use crate::segment::Segment;

impl Sender {
    /// Processes an acknowledgement. `bare` states whether the segment carries neither a payload nor a FIN.
    #[inline]
    pub fn on_ack(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        match self.recovery {
            AnyRecovery::Counting(_) => self.on_ack_inline(segment, bare, now, tcp),
            AnyRecovery::Boxed(_) => self.on_ack_boxed(segment, bare, now, tcp),
        }
    }

    /// Like `on_ack`, for a recovery that is stored without a box.
    #[inline(never)]
    fn on_ack_inline(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let in_flight = self.recovery.outstanding();
        if !self.has_echo(segment)
            && let AnyRecovery::Counting(counting) = &mut self.recovery
            && let Some(outcome) = counting.on_expected_ack(segment.ack)
        {
            self.apply(outcome, AckContext::unmarked(in_flight, segment.sent), now, tcp);
            self.wait_if_closed(false, now, tcp);
        } else {
            self.on_any_ack(segment, bare, now, tcp);
        }
    }

    /// Like `on_ack`, for a recovery that is stored in a box.
    #[inline(never)]
    fn on_ack_boxed(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        self.check_app_limited(tcp);
        let in_flight = self.recovery.outstanding();
        let received = ReceivedAck { ack: segment.ack, sacks: &segment.sacks, bare, echo: segment.echo };
        let at = self.timer.context(now, &tcp.config.rto);
        if !self.has_echo(segment)
            && let AnyRecovery::Boxed(BoxedRecovery::Selective(selective)) = &mut self.recovery
            && let Some(outcome) = selective.on_expected_ack(&received, at)
        {
            self.apply(outcome, AckContext::unmarked(in_flight, segment.sent), now, tcp);
            self.wait_if_closed(false, now, tcp);
        } else {
            self.on_any_ack(segment, bare, now, tcp);
        }
    }

    /// Like `on_ack`, but without a short path.
    #[inline(never)]
    fn on_any_ack(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let echo = self.has_echo(segment);
        let in_flight = self.recovery.outstanding();
        let received = ReceivedAck { ack: segment.ack, sacks: &segment.sacks, bare, echo: segment.echo };
        let at = self.timer.context(now, &tcp.config.rto);
        let outcome = self.recovery.on_ack(&received, at, &tcp.config);
        let mut context = AckContext::unmarked(in_flight, segment.sent);
        let mut keeps_window = false;
        if let Some(ecn) = self.ecn.as_mut().filter(|_| echo) {
            context.marked = ecn.marked(segment, outcome.delivered, tcp.mss);
            let is_classic = ecn.is_classic();
            keeps_window = is_classic && !ecn.reduces_gradually();
            if !is_classic && self.uses_samples {
                // The fraction of marked data must include this acknowledgement before the fraction is used to reduce
                // the window.
                self.report_sample(&outcome, &context, now, tcp);
                context.is_sampled = true;
            }
            self.on_echo(&outcome, tcp);
        }
        context.may_grow = !keeps_window && !self.is_reducing();
        self.apply(outcome, context, now, tcp);
        self.wait_if_closed(echo, now, tcp);
    }

    /// Whether an acknowledgement reports ECN marks.
    #[inline]
    fn has_echo(&self, segment: &Segment) -> bool {
        self.ecn.as_ref().is_some_and(|ecn| ecn.has_echo(segment))
    }

    /// If ECN marks have closed the window, starts the timer that reopens the window. If `echo` is true, a running
    /// timer is restarted.
    #[inline(always)]
    fn wait_if_closed(&mut self, echo: bool, now: Instant, tcp: &CheckedConfig) {
        if self.is_closed() && (echo || self.timer.at == Instant::NEVER) {
            self.timer.restart(now, &tcp.config.rto);
        }
    }
}
