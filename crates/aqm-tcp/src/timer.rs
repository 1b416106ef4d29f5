//! The retransmission timer of an end: when it runs out, and what it has learnt of round trips.
//!
//! V. Paxson et al., RFC 6298, 2011, section 5 (when it runs); P. Karn, C. Partridge, 1987 (no sample
//! from a retransmission; without timestamps one a window).

use aqm_net::{Instant, Span};

use crate::config::rto::Rto;
use crate::recovery::TimerContext;
use crate::rtt::Estimator;

/// The timer, its estimator and the segment that is timed.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Timer {
    pub estimator: Estimator,
    /// What acknowledges the segment whose round trip is timed, `NOT_TIMED` if none is.
    timed: u64,
    timed_since: Instant,
    /// Time-outs since the last progress.
    pub retries: u32,
    /// When it runs out; `NEVER` if it is off.
    pub at: Instant,
}

/// No acknowledgement reaches this.
const NOT_TIMED: u64 = u64::MAX;

impl Timer {
    pub fn new(config: &Rto) -> Self {
        Self {
            at: Instant::NEVER,
            timed: NOT_TIMED,
            timed_since: Instant::START,
            estimator: Estimator::new(config),
            retries: 0,
        }
    }

    /// The present, and what it has learnt of the path.
    #[inline]
    pub fn context<'a>(&'a self, now: Instant, config: &'a Rto) -> TimerContext<'a> {
        TimerContext { now, estimator: &self.estimator, config }
    }

    /// Starts it anew.
    #[inline]
    pub fn restart(&mut self, now: Instant, config: &Rto) {
        self.at = config.expiry(now, self.estimator.rto(config));
    }

    /// Starts it if it is off.
    #[inline]
    pub fn start(&mut self, now: Instant, config: &Rto) {
        if self.at == Instant::NEVER {
            self.restart(now, config);
        }
    }

    /// Switches it off; nothing is timed any more.
    pub fn stop(&mut self) {
        self.at = Instant::NEVER;
        self.timed = NOT_TIMED;
    }

    /// Times the round trip of a segment that `ack` will acknowledge, unless another is timed.
    #[inline]
    pub fn time(&mut self, ack: u64, now: Instant) {
        if self.timed == NOT_TIMED {
            self.timed = ack;
            self.timed_since = now;
        }
    }

    /// What is timed may be acknowledged by a retransmission: it is timed no more (Karn).
    pub fn forget(&mut self) {
        self.timed = NOT_TIMED;
    }

    /// `[from, to)` is sent again: if it is what is timed, that is timed no more.
    #[inline]
    pub fn forget_within(&mut self, from: u64, to: u64) {
        if from < self.timed && self.timed <= to {
            self.forget();
        }
    }

    /// When the segment left whose round trip is timed, if `ack` acknowledges it.
    pub fn timed_by(&self, ack: u64) -> Option<Instant> {
        (ack >= self.timed && self.timed != NOT_TIMED).then_some(self.timed_since)
    }

    /// Takes a sample if `ack` acknowledges what is timed; whether it did.
    #[inline]
    pub fn on_ack(&mut self, ack: u64, now: Instant, config: &Rto) -> bool {
        if ack < self.timed || self.timed == NOT_TIMED {
            return false;
        }
        self.timed = NOT_TIMED;
        self.estimator.sample(self.timed_since, now, config);
        true
    }

    /// It ran out, and runs again for longer (RFC 6298, 5.5 and 5.6).
    pub fn back_off(&mut self, now: Instant, config: &Rto) {
        self.retries += 1;
        self.timed = NOT_TIMED;
        self.estimator.back_off(config);
        self.restart(now, config);
    }

    /// Whether it ran out.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.at
    }

    /// The time-out, backed off.
    pub fn rto(&self, config: &Rto) -> Span {
        self.estimator.rto(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_timed_no_more_and_what_lies_beside_it_is() {
        // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted".
        for (from, to, timed) in [(0, 10, true), (10, 20, false), (0, 30, false), (20, 30, true)] {
            let mut timer = Timer::new(&Rto::default());
            timer.time(20, Instant::START);
            timer.forget_within(from, to);
            assert_eq!(timer.timed_by(20).is_some(), timed, "{from} to {to}");
        }
    }
}
