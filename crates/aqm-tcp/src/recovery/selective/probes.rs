//! Controls the timer of the tail loss probe, to the extent that the timer depends on the state of the recovery.
//!
//! RFC 8985, section 7.2, and Linux (`tcp_schedule_loss_probe`); `rack.rs` implements the probe itself.

use aqm_net::{Instant, Span};

use super::Selective;
use crate::recovery::TimerContext;

impl Selective {
    /// Returns the departure time of the next probe. No probe is sent during a recovery or while SACK blocks report
    /// holes (RFC 8985, section 7.2).
    #[inline]
    pub(super) fn probe_timer(&self) -> Instant {
        match &self.rack {
            Some(rack) if self.linux_timers => rack.probe.at,
            Some(rack) if self.phase.is_open() && self.sent.len() > 0 && self.sent.sacked().segments == 0 => {
                rack.probe.timer_at(self.sent.len() == 1)
            }
            _ => Instant::NEVER,
        }
    }

    /// Discards a probe that became due while another probe was in flight (RFC 8985, section 7.3).
    #[inline]
    pub(super) fn miss_probe(&mut self, now: Instant) {
        let missed = !self.linux_timers && self.probe_timer() < now;
        if let Some(rack) = self.rack.as_mut().filter(|_| missed) {
            rack.probe.since = Instant::NEVER;
        }
    }

    /// Sets the probe timer again if an acknowledgement has just set the timer, so that the timer takes the
    /// acknowledgement's round-trip sample into account.
    #[inline]
    pub(super) fn restart_probe(&mut self, at: TimerContext<'_>) {
        if let Some(rack) = self.rack.as_mut().filter(|rack| rack.probe.since == at.now) {
            rack.start(at);
        }
    }

    /// Sets the probe timer. `timeout` is the remaining time until the retransmission timer would expire.
    pub(super) fn schedule_probe(&mut self, timeout: Span, at: TimerContext<'_>) {
        let open = self.phase.is_open() && self.sent.is_plain() && self.sent.len() > 0;
        if let Some(rack) = self.rack.as_mut().filter(|_| open) {
            rack.probe.schedule(self.sent.len() == 1, timeout, at);
        }
    }
}
