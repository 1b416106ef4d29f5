//! The target rate of the media (draft, section 4.4) and the pacing rate (draft, section 4.3.2). Rates are in bits per
//! second.

use super::super::MediaFrame;
use super::MSS;

/// Bytes per data unit for which the target rate leaves room (draft: `PACKET_OVERHEAD`).
const OVERHEAD: f64 = 20.0;
/// Weight of the queueing delay at the sender in the adjustment of the rate, and the largest adjustment (draft:
/// `RATE_ADJUST_GAIN`).
const ADJUSTMENT_WEIGHT: f64 = 1.0 / 16.0;
const MAX_ADJUSTMENT: f64 = 0.5;
/// Weight of a frame in the deviation of the frame sizes, and the largest deviation (draft: `FRAME_SIZE_DEV_ALPHA`).
const DEVIATION_WEIGHT: f64 = 1.0 / 64.0;
const MAX_DEVIATION: f64 = 0.2;
/// Ratio between the rate of the window and the target rate, without adjustments.
const MARGIN: f64 = 1.2;
/// Minimum of the target rate in the pacing rate (draft: `RATE_PACE_MIN`).
const MIN_PACED_BPS: f64 = 50_000.0;
/// Ratio between pacing rate and target rate, largest further factor near the maximum rate, and share of the maximum
/// rate from which this factor grows (draft: `PACKET_PACING_HEADROOM`, `MAX_RELAXED_PACING_FACTOR`,
/// `RELAXED_PACING_LIMIT_LOW`).
const PACING: f64 = 1.5;
const MAX_RELAXED: f64 = 4.0;
const RELAXED_FROM: f64 = 0.8;

/// The target rate.
#[derive(Clone, Debug)]
pub(super) struct MediaRate {
    /// Minimum and maximum.
    bounds_bps: (f64, f64),
    target_bps: f64,
    /// Reduction because of the queue at the sender (draft: `rate_adjust_factor`).
    adjustment: f64,
    /// Average by which frames are too large (draft: `frame_size_dev`).
    deviation: f64,
}

impl MediaRate {
    pub(super) fn new(bounds_bps: (f64, f64)) -> Self {
        Self { bounds_bps, target_bps: bounds_bps.0, adjustment: 0.0, deviation: 0.0 }
    }

    /// Returns the target rate.
    pub(super) fn target(&self) -> f64 {
        self.target_bps
    }

    /// Returns whether the target rate is below its maximum.
    pub(super) fn may_grow(&self) -> bool {
        self.target_bps < self.bounds_bps.1
    }

    /// Returns the ratio between the target rate and its maximum.
    pub(super) fn share(&self) -> f64 {
        self.target_bps / self.bounds_bps.1
    }

    /// Returns the maximum of the target rate.
    pub(super) fn maximum(&self) -> f64 {
        self.bounds_bps.1
    }

    /// Handles a new frame.
    pub(super) fn on_frame(&mut self, frame: &MediaFrame) {
        let error = frame.queued.seconds() / frame.interval.seconds() - 0.25;
        self.adjustment = (self.adjustment + error * ADJUSTMENT_WEIGHT).clamp(0.0, MAX_ADJUSTMENT);
        let excess = ((frame.bytes as f64 - frame.nominal_bytes) / frame.nominal_bytes).max(0.0);
        let average = (1.0 - DEVIATION_WEIGHT) * self.deviation + DEVIATION_WEIGHT * excess;
        self.deviation = average.min(MAX_DEVIATION);
    }

    /// Computes the target rate from the reference window and the smoothed round-trip time. `ratio` is the ratio between
    /// the maximum segment size and the window.
    pub(super) fn update(&mut self, window: f64, ratio: f64, rtt_s: f64) {
        let small = 1.0 - (ratio - 0.1).clamp(0.0, 0.2);
        let factor = small * (MSS / (MSS + OVERHEAD)) / (MARGIN + self.adjustment + self.deviation);
        let target = factor * 8.0 * window / rtt_s;
        self.target_bps = target.max(self.bounds_bps.0).min(self.bounds_bps.1);
    }

    /// Returns the pacing rate.
    pub(super) fn pacing(&self) -> f64 {
        let relaxed = ((self.share() - RELAXED_FROM) / (1.0 - RELAXED_FROM)).min(1.0);
        let divisor = (1.0 - relaxed).clamp(1.0 / MAX_RELAXED, 1.0);
        PACING * self.target_bps.max(MIN_PACED_BPS) / divisor
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;

    use super::*;

    fn frame(bytes: u64, queued_millis: u64) -> MediaFrame {
        MediaFrame {
            bytes,
            nominal_bytes: 5000.0,
            queued: Span::from_millis(queued_millis),
            interval: Span::from_millis(40),
        }
    }

    fn rate() -> MediaRate {
        MediaRate::new((50e3, 2e6))
    }

    #[test]
    fn the_target_is_the_window_per_round_trip_with_a_margin() {
        let mut rate = rate();
        rate.update(20_000.0, 0.05, 0.1);
        assert!((rate.target() - 1.6e6 / 1.02 / 1.2).abs() < 1e-6, "{}", rate.target());
        // Windows of 5,000 B and 3,000 B are small: their factors are 0.9 and 0.8.
        rate.update(5000.0, 0.2, 0.1);
        assert!((rate.target() - 0.9 * 400e3 / 1.02 / 1.2).abs() < 1e-6, "{}", rate.target());
        rate.update(3000.0, 1.0 / 3.0, 0.1);
        assert!((rate.target() - 0.8 * 240e3 / 1.02 / 1.2).abs() < 1e-6, "{}", rate.target());
        rate.update(3000.0, 1.0 / 3.0, 10.0);
        assert_eq!(rate.target(), 50e3);
        rate.update(1e6, 0.001, 0.1);
        assert_eq!((rate.target(), rate.may_grow()), (2e6, false));
    }

    #[test]
    fn a_queue_at_the_sender_lowers_the_target() {
        let mut rate = rate();
        // 30 ms are half a frame interval more than a quarter of the interval: 1/32 per frame.
        (0..4).for_each(|_| rate.on_frame(&frame(5000, 30)));
        assert_eq!((rate.adjustment, rate.deviation), (0.125, 0.0));
        rate.update(20_000.0, 0.05, 0.1);
        assert!((rate.target() - 1.6e6 / 1.02 / 1.325).abs() < 1e-6, "{}", rate.target());
        // Without a queue, the adjustment decreases by 1/64 per frame.
        (0..7).for_each(|_| rate.on_frame(&frame(5000, 0)));
        assert_eq!(rate.adjustment, 0.125 - 7.0 / 64.0);
        (0..100).for_each(|_| rate.on_frame(&frame(5000, 0)));
        assert_eq!(rate.adjustment, 0.0);
        (0..100).for_each(|_| rate.on_frame(&frame(5000, 400)));
        assert_eq!(rate.adjustment, 0.5);
    }

    #[test]
    fn large_frames_lower_the_target() {
        let mut rate = rate();
        rate.on_frame(&frame(20_000, 0));
        assert_eq!(rate.deviation, 3.0 / 64.0);
        rate.on_frame(&frame(4000, 0));
        assert_eq!(rate.deviation, 3.0 / 64.0 * 63.0 / 64.0);
        (0..50).for_each(|_| rate.on_frame(&frame(20_000, 0)));
        assert_eq!(rate.deviation, 0.2);
    }

    #[test]
    fn pacing_is_relaxed_near_the_maximum_rate() {
        let pacing = |target_bps: f64| MediaRate { target_bps, ..rate() }.pacing();
        assert_eq!(pacing(20e3), 75e3);
        assert_eq!(pacing(1e6), 1.5e6);
        assert_eq!(pacing(1.6e6), 2.4e6);
        // In the middle between 80 % and 100 %, the rate is doubled; from 95 % on, the factor is 4.
        assert!((pacing(1.8e6) - 5.4e6).abs() < 1e-3, "{}", pacing(1.8e6));
        assert_eq!(pacing(2e6), 12e6);
    }
}
