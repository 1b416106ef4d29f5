//! How an acknowledgement is taken in.
//!
//! Most acknowledge the next data and tell nothing else. Of what follows from those the compiler makes a short way
//! through the same rules (header prediction, V. Jacobson, 1990), one for each recovery that it knows.

use aqm_net::Instant;

use super::Sender;
use super::congestion::Heard;
use crate::config::CheckedConfig;
use crate::recovery::{AnyRecovery, Apart, LossRecovery, ReceivedAck};
use crate::segment::{Flags, Segment};

impl Sender {
    /// An acknowledgement arrived; `bare` if it carries neither payload nor FIN.
    #[inline]
    pub fn on_ack(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        match self.recovery {
            AnyRecovery::Counting(_) => self.on_ack_in_place(segment, bare, now, tcp),
            AnyRecovery::Apart(_) => self.on_ack_apart(segment, bare, now, tcp),
        }
    }

    /// As `on_ack`, of a recovery that is in place.
    #[inline(never)]
    fn on_ack_in_place(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let used = self.recovery.outstanding();
        if !self.hears_echo(segment)
            && let AnyRecovery::Counting(counting) = &mut self.recovery
            && let Some(outcome) = counting.on_expected_ack(segment.ack)
        {
            self.apply(outcome, Heard { used: Some(used), answered: segment.sent }, now, tcp);
            self.wait_if_closed(false, now, tcp);
        } else {
            self.on_any_ack(segment, bare, now, tcp);
        }
    }

    /// As `on_ack`, of a recovery that is not.
    #[inline(never)]
    fn on_ack_apart(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let used = self.recovery.outstanding();
        let received = ReceivedAck { ack: segment.ack, sacks: &segment.sacks, bare, echo: segment.echo };
        let at = self.timer.context(now, &tcp.config.rto);
        if !self.hears_echo(segment)
            && let AnyRecovery::Apart(Apart::Selective(selective)) = &mut self.recovery
            && let Some(outcome) = selective.on_expected_ack(&received, at)
        {
            self.apply(outcome, Heard { used: Some(used), answered: segment.sent }, now, tcp);
            self.wait_if_closed(false, now, tcp);
        } else {
            self.on_any_ack(segment, bare, now, tcp);
        }
    }

    /// As `on_ack`, whatever the acknowledgement tells.
    #[inline(never)]
    fn on_any_ack(&mut self, segment: &Segment, bare: bool, now: Instant, tcp: &CheckedConfig) {
        let echo = self.hears_echo(segment);
        let used = self.recovery.outstanding();
        let received = ReceivedAck { ack: segment.ack, sacks: &segment.sacks, bare, echo: segment.echo };
        let at = self.timer.context(now, &tcp.config.rto);
        let outcome = self.recovery.on_ack(&received, at, &tcp.config);
        if echo {
            self.on_echo(&outcome, tcp);
        }
        let held = echo && self.ecn.as_ref().is_some_and(|ecn| !ecn.descends());
        let used = (!held && !self.is_falling()).then_some(used);
        let heard = Heard { used, answered: segment.sent };
        self.apply(outcome, heard, now, tcp);
        self.wait_if_closed(echo, now, tcp);
    }

    /// Whether an acknowledgement tells of a mark.
    #[inline]
    fn hears_echo(&self, segment: &Segment) -> bool {
        self.ecn.is_some() && segment.flags.has(Flags::ECE)
    }

    /// A window that marks have closed opens again when the timer runs out, from the last `echo` on.
    #[inline(always)]
    fn wait_if_closed(&mut self, echo: bool, now: Instant, tcp: &CheckedConfig) {
        if self.is_closed() && (echo || self.timer.at == Instant::NEVER) {
            self.timer.restart(now, &tcp.config.rto);
        }
    }
}
