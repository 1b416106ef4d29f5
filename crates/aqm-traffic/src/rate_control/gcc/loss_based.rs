//! The loss-based rate (draft-ietf-rmcat-gcc-02, section 6; libwebrtc, `goog_cc/send_side_bandwidth_estimation.cc`,
//! the first version of its loss-based control). The rate grows by 8 % per second at a loss of at most 2 %, is held up
//! to a loss of 10 %, and is multiplied by 1 - loss/2 above 10 %. The delay-based rate is its upper limit.
//!
//! libwebrtc enables a second version (`LossBasedBweV2`) by default, which distinguishes inherent losses from congestion
//! (`loss_estimator.rs`). With the second version, the published rule applies only until the estimator has enough
//! observations.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

use super::loss_estimator::{LossEstimator, Outcome};

/// Loss up to which the rate grows, and loss above which the rate falls (draft, section 6).
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.1;
/// Factor of the increase in one second, and a constant in bits per second (libwebrtc, `UpdateEstimate`; the draft's
/// factor is 1.05).
const INCREASE: f64 = 1.08;
const INCREASE_BPS: f64 = 1000.0;
/// Interval of an increase (libwebrtc: `kBweIncreaseInterval`).
const INCREASE_INTERVAL: Span = Span::from_millis(1000);
/// Minimum interval between two decreases, in addition to the round-trip time (libwebrtc: `kBweDecreaseInterval`).
const DECREASE_INTERVAL: Span = Span::from_millis(300);
/// Interval at which the loss is evaluated (libwebrtc: `kLossUpdateInterval`), and minimum number of packets (libwebrtc:
/// `kLimitNumPackets`).
const LOSS_INTERVAL: Span = Span::from_millis(1000);
const LEAST_PACKETS: u32 = 20;
/// Time after which a loss is out of date (libwebrtc: 1.2 * `kMaxRtcpFeedbackInterval`).
const LOSS_EXPIRES: Span = Span::from_millis(6000);
/// Initial phase, in which the rate follows the delay-based rate while there is no loss (libwebrtc: `kStartPhase`).
const START_PHASE: Span = Span::from_millis(2000);
/// Without feedback for this time, the rate is multiplied by `SILENCE_FACTOR` once per `SILENCE_INTERVAL` (libwebrtc:
/// `RttBasedBackoff`).
const SILENCE: Span = Span::from_millis(3000);
const SILENCE_FACTOR: f64 = 0.8;
const SILENCE_INTERVAL: Span = Span::from_millis(1000);

/// The loss-based rate, which is also the target rate of the whole control.
#[derive(Clone, Debug)]
pub(super) struct LossBased {
    rate_bps: f64,
    /// Minimum and maximum of the rate.
    bounds_bps: (f64, f64),
    delay_limit_bps: f64,
    rtt: Span,
    first_feedback: Option<Instant>,
    last_feedback: Option<Instant>,
    last_sent: Instant,
    loss: f64,
    loss_known_at: Option<Instant>,
    next_loss_at: Instant,
    packets: u32,
    lost: u32,
    /// The smallest rates of the last second, in ascending order.
    smallest: VecDeque<(Instant, f64)>,
    decreased_at: Option<Instant>,
    /// Whether the rate has been decreased because of the current value of `loss`.
    has_decreased: bool,
    /// The second version of the control; `None` if the published rule applies.
    estimator: Option<LossEstimator>,
}

impl LossBased {
    /// Creates a control. `estimates` selects the second version.
    pub(super) fn new(start_bps: f64, bounds_bps: (f64, f64), estimates: bool) -> Self {
        Self {
            rate_bps: start_bps,
            bounds_bps,
            delay_limit_bps: f64::INFINITY,
            rtt: Span::ZERO,
            first_feedback: None,
            last_feedback: None,
            last_sent: Instant::START,
            loss: 0.0,
            loss_known_at: None,
            next_loss_at: Instant::START,
            packets: 0,
            lost: 0,
            smallest: VecDeque::new(),
            decreased_at: None,
            has_decreased: false,
            estimator: estimates.then(|| LossEstimator::new(bounds_bps)),
        }
    }

    /// Returns the rate.
    pub(super) fn rate(&self) -> f64 {
        self.rate_bps
    }

    /// Handles a sent packet.
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    /// Sets the rate to the result of a probe.
    pub(super) fn set_rate(&mut self, rate_bps: f64) {
        self.set(rate_bps);
        self.smallest.clear();
    }

    /// Sets the delay-based rate, which limits the rate.
    pub(super) fn limit(&mut self, delay_based_bps: f64) {
        self.delay_limit_bps = delay_based_bps;
        self.set(self.rate_bps);
    }

    /// Handles feedback about `packets` packets, of which `lost` packets were lost.
    pub(super) fn on_feedback(&mut self, packets: u32, lost: u32, rtt: Option<Span>, now: Instant) {
        self.first_feedback.get_or_insert(now);
        self.last_feedback = Some(now);
        self.rtt = rtt.unwrap_or(self.rtt);
        self.packets += packets;
        self.lost += lost;
        if now < self.next_loss_at {
            return;
        }
        self.next_loss_at = now + LOSS_INTERVAL;
        if self.packets < LEAST_PACKETS {
            return;
        }
        self.loss = f64::from(self.lost) / f64::from(self.packets);
        self.loss_known_at = Some(now);
        self.has_decreased = false;
        (self.packets, self.lost) = (0, 0);
        self.update(now);
    }

    /// Handles what feedback tells about each packet. `throughput_bps` is the acknowledged throughput without an
    /// application-limited period.
    pub(super) fn on_outcomes(
        &mut self,
        outcomes: &[Outcome],
        throughput_bps: impl FnOnce() -> Option<f64>,
        now: Instant,
    ) {
        let Some(estimator) = &mut self.estimator else { return };
        estimator.on_feedback(outcomes, self.delay_limit_bps.min(self.bounds_bps.1), throughput_bps);
        self.update(now);
    }

    /// Updates the rate.
    pub(super) fn update(&mut self, now: Instant) {
        if self.is_silent(now) {
            let due = self.decreased_at.is_none_or(|at| now.since(at) >= SILENCE_INTERVAL);
            if due {
                self.decreased_at = Some(now);
                self.set(self.rate_bps * SILENCE_FACTOR);
            }
            return;
        }
        let starts = self.first_feedback.is_none_or(|first| now.since(first) < START_PHASE);
        if starts && self.loss == 0.0 {
            if self.delay_limit_bps.is_finite() && self.delay_limit_bps > self.rate_bps {
                self.set_rate(self.delay_limit_bps);
            }
            return;
        }
        self.note_smallest(now);
        if let Some(rate_bps) = self.estimator.as_ref().and_then(LossEstimator::rate) {
            self.set(rate_bps);
            return;
        }
        if self.loss_known_at.is_none_or(|at| now.since(at) >= LOSS_EXPIRES) {
            return;
        }
        if self.loss <= LOW_LOSS {
            let smallest = self.smallest.front().map_or(self.rate_bps, |one| one.1);
            self.set(smallest * INCREASE + INCREASE_BPS);
        } else if self.loss > HIGH_LOSS && !self.has_decreased {
            let interval = DECREASE_INTERVAL + self.rtt;
            if self.decreased_at.is_none_or(|at| now.since(at) >= interval) {
                self.decreased_at = Some(now);
                self.has_decreased = true;
                self.set(self.rate_bps * (1.0 - 0.5 * self.loss));
            }
        }
    }

    /// Returns whether packets were sent, but no feedback arrived for a long time.
    fn is_silent(&self, now: Instant) -> bool {
        let Some(last) = self.last_feedback else { return false };
        now > last && self.last_sent.since(last) + self.rtt > SILENCE
    }

    fn set(&mut self, rate_bps: f64) {
        self.rate_bps = rate_bps.min(self.delay_limit_bps).clamp(self.bounds_bps.0, self.bounds_bps.1);
    }

    fn note_smallest(&mut self, now: Instant) {
        while self.smallest.front().is_some_and(|one| now.since(one.0) >= INCREASE_INTERVAL) {
            self.smallest.pop_front();
        }
        while self.smallest.back().is_some_and(|one| self.rate_bps <= one.1) {
            self.smallest.pop_back();
        }
        self.smallest.push_back((now, self.rate_bps));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::START + Span::from_seconds(seconds)
    }

    /// Runs a control that starts at 1 Mb/s for some seconds with feedback about 10 packets every 100 ms, of which
    /// `lost` are lost.
    fn run(seconds: u32, lost: u32) -> LossBased {
        let mut control = LossBased::new(1e6, (5e3, 30e6), false);
        control.limit(30e6);
        control.set_rate(1e6);
        // The start phase is over.
        control.first_feedback = Some(at(0.0));
        for step in 0..seconds * 40 {
            let now = at(10.0 + f64::from(step) * 0.025);
            control.on_sent(now);
            if step % 4 == 0 {
                control.on_feedback(10, lost, Some(Span::from_millis(100)), now);
            }
            control.update(now);
        }
        control
    }

    #[test]
    fn without_loss_the_rate_grows_by_eight_per_cent_per_second() {
        // The loss is known from the second second on.
        let control = run(11, 0);
        let expected = libm::pow(1.08, 10.0) * 1e6;
        assert!((control.rate() / expected - 1.0).abs() < 0.1, "{}", control.rate());
    }

    #[test]
    fn at_ten_per_cent_loss_the_rate_is_held() {
        assert_eq!(run(11, 1).rate(), 1e6);
    }

    #[test]
    fn at_fifty_per_cent_loss_the_rate_falls_by_a_quarter_per_report() {
        // Reports are due at 0, 1, .. 4 s, but the first has too few packets.
        let control = run(5, 5);
        let expected = 1e6 * libm::pow(0.75, 4.0);
        assert!((control.rate() - expected).abs() < 1.0, "{}", control.rate());
    }

    #[test]
    fn the_delay_based_rate_is_the_limit() {
        let mut control = run(2, 0);
        control.limit(700e3);
        assert_eq!(control.rate(), 700e3);
    }

    #[test]
    fn without_feedback_the_rate_falls_by_a_fifth_per_second() {
        let mut control = run(2, 1);
        let before = control.rate();
        for step in 0..240 {
            let now = at(12.0 + f64::from(step) * 0.025);
            control.on_sent(now);
            control.update(now);
        }
        // The last feedback arrived at 11.9 s, and the round-trip time counts as silence. The rate falls at 14.825 s and
        // in each of the three following seconds.
        let expected = before * libm::pow(0.8, 4.0);
        assert!((control.rate() - expected).abs() < 1.0, "{} {expected}", control.rate());
    }
}
