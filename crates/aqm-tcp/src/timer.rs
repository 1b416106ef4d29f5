//! The retransmission timer of an endpoint: its expiry time and its round-trip samples.
//!
//! V. Paxson et al., RFC 6298, 2011, section 5 (management of the timer); P. Karn, C. Partridge, 1987 (no samples from
//! retransmissions; one sample per window without timestamps).

use aqm_net::{Instant, Span};

use crate::config::rto::Rto;
use crate::recovery::TimerContext;
use crate::rtt::Estimator;

/// The retransmission timer, its estimator, and the segment whose round-trip time is being measured.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Timer {
    pub estimator: Estimator,
    /// Acknowledgement number that completes the current round-trip measurement; `NOT_TIMED` if no round-trip time is
    /// being measured.
    timed: u64,
    timed_since: Instant,
    /// Number of timeouts since the sender last made progress.
    pub retries: u32,
    /// Whether the timer is never started, because the loss recovery has a timer of its own.
    is_replaced: bool,
    /// Expiry time; `NEVER` if the timer is not running.
    pub at: Instant,
}

/// Value that no acknowledgement number reaches.
const NOT_TIMED: u64 = u64::MAX;

impl Timer {
    pub fn new(config: &Rto) -> Self {
        Self {
            at: Instant::NEVER,
            timed: NOT_TIMED,
            timed_since: Instant::START,
            estimator: Estimator::new(config),
            retries: 0,
            is_replaced: false,
        }
    }

    /// Returns the current time and the round-trip estimate, for the recovery.
    #[inline]
    pub fn context<'a>(&'a self, now: Instant, config: &'a Rto) -> TimerContext<'a> {
        TimerContext { now, estimator: &self.estimator, config }
    }

    /// Restarts the retransmission timer.
    #[inline]
    pub fn restart(&mut self, now: Instant, config: &Rto) {
        if !self.is_replaced {
            self.at = config.expiry(now, self.estimator.rto());
        }
    }

    /// Stops the timer permanently, because the loss recovery has a timer of its own.
    pub fn replace(&mut self) {
        self.stop();
        self.is_replaced = true;
    }

    /// Starts the timer if it is not running.
    #[inline]
    pub fn start(&mut self, now: Instant, config: &Rto) {
        if self.at == Instant::NEVER {
            self.restart(now, config);
        }
    }

    /// Stops the timer, and cancels any round-trip measurement.
    pub fn stop(&mut self) {
        self.at = Instant::NEVER;
        self.timed = NOT_TIMED;
    }

    /// Starts to measure the round-trip time of a segment that `ack` will acknowledge, unless another measurement is in
    /// progress.
    #[inline]
    pub fn time(&mut self, ack: u64, now: Instant) {
        if self.timed == NOT_TIMED {
            self.timed = ack;
            self.timed_since = now;
        }
    }

    /// Cancels any round-trip measurement, because the acknowledgement may be for a retransmission instead of the
    /// measured segment (Karn's algorithm).
    pub fn forget(&mut self) {
        self.timed = NOT_TIMED;
    }

    /// Cancels the round-trip measurement if the measured segment is within the retransmitted range `[from, to)`.
    #[inline]
    pub fn forget_within(&mut self, from: u64, to: u64) {
        if from < self.timed && self.timed <= to {
            self.forget();
        }
    }

    /// Returns the departure time of the measured segment, if `ack` acknowledges this segment.
    pub fn timed_by(&self, ack: u64) -> Option<Instant> {
        (ack >= self.timed && self.timed != NOT_TIMED).then_some(self.timed_since)
    }

    /// Takes a round-trip sample, if `ack` acknowledges the measured segment. Returns whether a sample was taken.
    #[inline]
    pub fn on_ack(&mut self, ack: u64, now: Instant, config: &Rto) -> bool {
        if ack < self.timed || self.timed == NOT_TIMED {
            return false;
        }
        self.timed = NOT_TIMED;
        self.estimator.sample(self.timed_since, now, config);
        true
    }

    /// Increases the back-off and restarts the timer after the timer has expired (RFC 6298, 5.5 and 5.6).
    pub fn back_off(&mut self, now: Instant, config: &Rto) {
        self.retries += 1;
        self.timed = NOT_TIMED;
        self.estimator.back_off(config);
        self.restart(now, config);
    }

    /// Returns whether the timer has expired.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.at
    }

    /// Returns the retransmission timeout, including the exponential back-off.
    pub fn rto(&self) -> Span {
        self.estimator.rto()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retransmission_ends_the_measurement_of_its_own_segment_only() {
        // RFC 6298, section 3: "RTT samples MUST NOT be made using segments that were retransmitted".
        for (from, to, timed) in [(0, 10, true), (10, 20, false), (0, 30, false), (20, 30, true)] {
            let mut timer = Timer::new(&Rto::default());
            timer.time(20, Instant::START);
            timer.forget_within(from, to);
            assert_eq!(timer.timed_by(20).is_some(), timed, "{from} to {to}");
        }
    }
}
