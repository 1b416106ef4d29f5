//! The delay-based rate: additive increase near the link's capacity, multiplicative increase far from it, and
//! multiplicative decrease at an overuse (draft-ietf-rmcat-gcc-02, section 5.5; libwebrtc,
//! `remote_bitrate_estimator/aimd_rate_control.cc`).

use aqm_net::{Instant, Span};

use super::link_capacity::LinkCapacity;
use super::trendline::Usage;

/// Factor of the throughput after a decrease (draft, section 5.5: beta).
pub(super) const BETA: f64 = 0.85;
/// Factor of the multiplicative increase in one second (draft, section 5.5: eta).
const ETA: f64 = 1.08;
/// Minimum multiplicative increase (draft, section 5.5).
const MIN_STEP_BPS: f64 = 1000.0;
/// Minimum additive increase per second (libwebrtc: `kMinIncreaseRateBpsPerSecond`).
const MIN_SLOPE_BPS: f64 = 4000.0;
/// Frames per second and maximum packet size, from which the mean packet size is computed (libwebrtc,
/// `GetNearMaxIncreaseRateBpsPerSecond`).
const FRAME_RATE: f64 = 30.0;
const PACKET_BITS: f64 = 8.0 * 1200.0;
/// The rate grows to at most this multiple of the throughput, plus a constant (draft, section 5.5: 1.5 R_hat).
const MAX_RATIO: f64 = 1.5;
const MAX_OFFSET_BPS: f64 = 10_000.0;
/// Delay of the overuse detector, which is added to the round-trip time (draft, section 5.5: 100 ms).
const DETECTION_S: f64 = 0.1;
/// Bounds of the interval between two decreases (libwebrtc: `TimeToReduceFurther`).
const REDUCTION: (Span, Span) = (Span::from_millis(10), Span::from_millis(200));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// The delay-based rate.
#[derive(Clone, Debug)]
pub(super) struct DelayBased {
    rate_bps: f64,
    /// Minimum and maximum of the rate.
    bounds_bps: (f64, f64),
    state: State,
    capacity: LinkCapacity,
    changed_at: Option<Instant>,
    rtt: Span,
    /// Latest known throughput.
    throughput_bps: f64,
}

impl DelayBased {
    pub(super) fn new(start_bps: f64, bounds_bps: (f64, f64)) -> Self {
        Self {
            rate_bps: start_bps,
            bounds_bps,
            state: State::Hold,
            capacity: LinkCapacity::default(),
            changed_at: None,
            rtt: REDUCTION.1,
            throughput_bps: start_bps,
        }
    }

    /// Returns the rate.
    pub(super) fn rate(&self) -> f64 {
        self.rate_bps
    }

    /// Sets the round-trip time.
    pub(super) fn set_rtt(&mut self, rtt: Span) {
        self.rtt = rtt;
    }

    /// Sets the rate, for example to the result of a probe.
    pub(super) fn set_rate(&mut self, rate_bps: f64, now: Instant) {
        self.rate_bps = rate_bps.clamp(self.bounds_bps.0, self.bounds_bps.1);
        self.changed_at = Some(now);
    }

    /// Returns whether the rate may be decreased again: one round-trip time after the last change, or when the
    /// throughput is less than half of the rate.
    pub(super) fn may_decrease(&self, throughput_bps: Option<f64>, now: Instant) -> bool {
        let interval = self.rtt.clamp(REDUCTION.0, REDUCTION.1);
        self.changed_at.is_none_or(|at| now.since(at) >= interval)
            || throughput_bps.is_some_and(|bps| bps < self.rate_bps / 2.0)
    }

    /// Updates the rate according to the state of the path and the throughput.
    pub(super) fn update(&mut self, usage: Usage, throughput_bps: Option<f64>, now: Instant) {
        self.throughput_bps = throughput_bps.unwrap_or(self.throughput_bps);
        self.state = match (usage, self.state) {
            (Usage::Overuse, _) => State::Decrease,
            (Usage::Underuse, _) => State::Hold,
            (Usage::Normal, State::Hold) => {
                self.changed_at = Some(now);
                State::Increase
            }
            (Usage::Normal, state) => state,
        };
        match self.state {
            State::Hold => {}
            State::Increase => self.increase(now),
            State::Decrease => self.decrease(now),
        }
    }

    fn increase(&mut self, now: Instant) {
        self.capacity.forget_below(self.throughput_bps);
        let limit = MAX_RATIO * self.throughput_bps + MAX_OFFSET_BPS;
        if self.rate_bps < limit {
            let seconds = self.changed_at.map_or(0.0, |at| now.since(at).seconds());
            let step = if self.capacity.estimate().is_some() {
                seconds * self.additive_slope()
            } else {
                (self.rate_bps * (libm::pow(ETA, seconds.min(1.0)) - 1.0)).max(MIN_STEP_BPS)
            };
            self.set_rate((self.rate_bps + step).min(limit), now);
        }
        self.changed_at = Some(now);
    }

    fn decrease(&mut self, now: Instant) {
        let mut rate = BETA * self.throughput_bps;
        if rate > self.rate_bps
            && let Some(capacity) = self.capacity.estimate()
        {
            rate = BETA * capacity;
        }
        self.capacity.add(self.throughput_bps);
        self.set_rate(rate.min(self.rate_bps), now);
        self.state = State::Hold;
    }

    /// Returns the additive increase per second: one packet of mean size per response time.
    fn additive_slope(&self) -> f64 {
        let frame = self.rate_bps / FRAME_RATE;
        let packet = frame / libm::ceil(frame / PACKET_BITS).max(1.0);
        // libwebrtc doubles the response time for its adaptive threshold.
        let response = 2.0 * (self.rtt.seconds() + DETECTION_S);
        (packet / response).max(MIN_SLOPE_BPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::START + Span::from_seconds(seconds)
    }

    fn control() -> DelayBased {
        DelayBased::new(1e6, (5e3, 30e6))
    }

    #[test]
    fn without_a_capacity_the_rate_grows_by_eight_per_cent_per_second() {
        let mut control = control();
        control.update(Usage::Normal, Some(1e6), at(0.0));
        for step in 1..=20 {
            control.update(Usage::Normal, Some(1e6), at(f64::from(step) * 0.1));
        }
        // The first update adds the minimum of 1000 b/s.
        let expected = 1.001e6 * 1.08 * 1.08;
        assert!((control.rate() / expected - 1.0).abs() < 1e-9, "{}", control.rate());
    }

    #[test]
    fn the_rate_never_exceeds_one_and_a_half_times_the_throughput() {
        let mut control = control();
        for step in 0..1000 {
            control.update(Usage::Normal, Some(500e3), at(f64::from(step) * 0.1));
        }
        assert_eq!(control.rate(), 1e6, "the rate is above the limit already");
        let mut control = self::control();
        for step in 0..1000 {
            control.update(Usage::Normal, Some(800e3), at(f64::from(step) * 0.1));
        }
        assert_eq!(control.rate(), 1.21e6);
    }

    #[test]
    fn an_overuse_sets_the_rate_to_85_per_cent_of_the_throughput() {
        let mut control = control();
        control.update(Usage::Overuse, Some(900e3), at(1.0));
        assert_eq!(control.rate(), 0.85 * 900e3);
        assert_eq!(control.capacity.estimate(), Some(900e3));
        // 0.85 times the throughput is above the rate, so the capacity is used, and the rate does not rise.
        control.update(Usage::Overuse, Some(1.2e6), at(2.0));
        assert_eq!(control.rate(), 0.85 * 900e3);
    }

    #[test]
    fn near_the_capacity_the_rate_grows_by_half_a_packet_per_response_time() {
        let mut control = control();
        control.set_rtt(Span::from_millis(100));
        control.update(Usage::Overuse, Some(1e6), at(1.0));
        control.update(Usage::Underuse, Some(900e3), at(2.0));
        assert_eq!(control.rate(), 850e3, "the rate is held while the queue shrinks");
        control.update(Usage::Normal, Some(900e3), at(3.0));
        control.update(Usage::Normal, Some(900e3), at(4.0));
        // A frame of 28,333 bits consists of 3 packets of 9,444 bits. The response time is 2 * 200 ms.
        assert!((control.rate() - (850e3 + 850e3 / 30.0 / 3.0 / 0.4)).abs() < 1e-6, "{}", control.rate());
    }

    #[test]
    fn decreases_are_a_round_trip_apart_unless_the_throughput_collapses() {
        let mut control = control();
        control.set_rtt(Span::from_millis(100));
        control.update(Usage::Overuse, Some(1e6), at(1.0));
        assert!(!control.may_decrease(Some(800e3), at(1.09)));
        assert!(control.may_decrease(Some(800e3), at(1.1)));
        assert!(control.may_decrease(Some(400e3), at(1.01)));
    }
}
