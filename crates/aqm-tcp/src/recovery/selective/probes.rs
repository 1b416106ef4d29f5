//! When a tail loss probe leaves, as far as the state of the recovery decides it.
//!
//! RFC 8985, section 7.2, and Linux (`tcp_schedule_loss_probe`); the probe itself is in `rack.rs`.

use aqm_net::{Instant, Span};

use super::Selective;
use crate::recovery::TimerContext;

impl Selective {
    /// When a probe leaves: not in a recovery, nor while SACK tells of holes (RFC 8985, section 7.2).
    #[inline]
    pub(super) fn probe_timer(&self) -> Instant {
        match &self.rack {
            Some(rack) if self.scheduled => rack.probe.at,
            Some(rack) if self.phase.is_open() && self.sent.len() > 0 && self.sent.sacked().segments == 0 => {
                rack.probe.timer_at(self.sent.len() == 1)
            }
            _ => Instant::NEVER,
        }
    }

    /// A probe whose time ran out while another was in flight is not made up for (RFC 8985, section 7.3).
    #[inline]
    pub(super) fn miss_probe(&mut self, now: Instant) {
        let missed = !self.scheduled && self.probe_timer() < now;
        if let Some(rack) = self.rack.as_mut().filter(|_| missed) {
            rack.probe.since = Instant::NEVER;
        }
    }

    /// Sets the timer of the probe again that an acknowledgement has just set: its sample of the round trip counts.
    #[inline]
    pub(super) fn restart_probe(&mut self, at: TimerContext<'_>) {
        if let Some(rack) = self.rack.as_mut().filter(|rack| rack.probe.since == at.now) {
            rack.start(at);
        }
    }

    /// Sets the timer of the probe, for the retransmission timer would run out after `time_out`.
    pub(super) fn schedule_probe(&mut self, time_out: Span, at: TimerContext<'_>) {
        let open = self.phase.is_open() && self.sent.is_plain() && self.sent.len() > 0;
        if let Some(rack) = self.rack.as_mut().filter(|_| open) {
            rack.probe.schedule(self.sent.len() == 1, time_out, at);
        }
    }
}
