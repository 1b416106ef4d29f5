//! The trendline filter and the overuse detector: the slope of the queueing delay over the last groups is compared with
//! an adaptive threshold (draft-ietf-rmcat-gcc-02, sections 5.3 and 5.4; libwebrtc, `goog_cc/trendline_estimator.cc`,
//! which replaced the draft's Kalman filter).

use std::collections::VecDeque;

use aqm_net::Instant;

use super::arrival_groups::Deltas;

/// Number of groups over which the line is fitted (`kDefaultTrendlineWindowSize`).
const WINDOW: usize = 20;
/// Weight of the previous value in the smoothed delay (`kDefaultTrendlineSmoothingCoeff`).
const SMOOTHING: f64 = 0.9;
/// Factor of the slope (`kDefaultTrendlineThresholdGain`).
const GAIN: f64 = 4.0;
/// Number of groups from which the slope has its full weight (`kMinNumDeltas`).
const FULL_WEIGHT: u32 = 60;
/// Initial threshold in milliseconds (draft, section 5.4: del_var_th(0)).
const INITIAL_THRESHOLD_MS: f64 = 12.5;
/// Bounds of the threshold in milliseconds (draft, section 5.4).
const THRESHOLDS_MS: (f64, f64) = (6.0, 600.0);
/// Speed at which the threshold rises and falls, per millisecond (draft, section 5.4: K_u and K_d; libwebrtc's values).
const K_UP: f64 = 0.0087;
const K_DOWN: f64 = 0.039;
/// The threshold is not adapted to a slope that exceeds the threshold by more than these milliseconds (draft, section
/// 5.4).
const MAX_ADAPTED_MS: f64 = 15.0;
/// Maximum time between two adaptations that is counted, in milliseconds (libwebrtc: `kMaxTimeDeltaMs`).
const MAX_STEP_MS: f64 = 100.0;
/// Minimum duration of overuse, in milliseconds (draft, section 5.4: overuse_time_th).
const OVERUSE_MS: f64 = 10.0;

/// State of the path according to the detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    /// The size of the trend is at most the threshold.
    #[default]
    Normal,
    /// The trend has exceeded the threshold for long enough: the queue grows.
    Overuse,
    /// The trend is below the negative threshold: the queue shrinks.
    Underuse,
}

/// The trendline filter and the overuse detector.
#[derive(Clone, Debug)]
pub(super) struct Trendline {
    /// Arrival time and smoothed delay of each of the last groups, in milliseconds.
    points: VecDeque<(f64, f64)>,
    groups: u32,
    delay_ms: f64,
    smoothed_ms: f64,
    slope: f64,
    threshold_ms: f64,
    adapted_at: Option<Instant>,
    overuse: Option<Overuse>,
    usage: Usage,
}

/// An overuse in progress.
#[derive(Clone, Copy, Debug)]
struct Overuse {
    millis: f64,
    groups: u32,
}

impl Default for Trendline {
    fn default() -> Self {
        Self {
            points: VecDeque::with_capacity(WINDOW + 1),
            groups: 0,
            delay_ms: 0.0,
            smoothed_ms: 0.0,
            slope: 0.0,
            threshold_ms: INITIAL_THRESHOLD_MS,
            adapted_at: None,
            overuse: None,
            usage: Usage::Normal,
        }
    }
}

impl Trendline {
    /// Adds the differences between two groups. `arrival` is the arrival time of the packet that completed the second
    /// group.
    pub(super) fn add(&mut self, deltas: Deltas, arrival: Instant) {
        self.groups = self.groups.saturating_add(1);
        self.delay_ms += deltas.arrival_ms - deltas.send_ms;
        self.smoothed_ms = SMOOTHING * self.smoothed_ms + (1.0 - SMOOTHING) * self.delay_ms;
        self.points.push_back((arrival.nanos() as f64 / 1e6, self.smoothed_ms));
        if self.points.len() > WINDOW {
            self.points.pop_front();
        }
        let slope = if self.points.len() == WINDOW { self.fit() } else { None };
        self.detect(slope.unwrap_or(self.slope), deltas.send_ms, arrival);
    }

    /// Returns the state of the path.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the slope of the least-squares line through the points; `None` if all points have the same time.
    fn fit(&self) -> Option<f64> {
        let count = self.points.len() as f64;
        let (x, y) = self.points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (x, y) = (x / count, y / count);
        let covariance: f64 = self.points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let variance: f64 = self.points.iter().map(|point| (point.0 - x) * (point.0 - x)).sum();
        (variance > 0.0).then(|| covariance / variance)
    }

    fn detect(&mut self, slope: f64, send_ms: f64, now: Instant) {
        if self.groups < 2 {
            return;
        }
        let trend_ms = f64::from(self.groups.min(FULL_WEIGHT)) * slope * GAIN;
        if trend_ms > self.threshold_ms {
            // The overuse is assumed to have begun in the middle between the last two groups.
            let overuse = match self.overuse {
                None => Overuse { millis: send_ms / 2.0, groups: 1 },
                Some(one) => Overuse { millis: one.millis + send_ms, groups: one.groups + 1 },
            };
            self.overuse = Some(overuse);
            if overuse.millis > OVERUSE_MS && overuse.groups > 1 && slope >= self.slope {
                self.overuse = None;
                self.usage = Usage::Overuse;
            }
        } else {
            self.overuse = None;
            self.usage = if trend_ms < -self.threshold_ms { Usage::Underuse } else { Usage::Normal };
        }
        self.slope = slope;
        self.adapt(trend_ms.abs(), now);
    }

    /// Moves the threshold towards the absolute trend, slowly upwards and faster downwards.
    fn adapt(&mut self, trend_ms: f64, now: Instant) {
        let since = self.adapted_at.replace(now).map_or(0.0, |then| now.since(then).nanos() as f64 / 1e6);
        if trend_ms > self.threshold_ms + MAX_ADAPTED_MS {
            return;
        }
        let speed = if trend_ms < self.threshold_ms { K_DOWN } else { K_UP };
        let step = speed * (trend_ms - self.threshold_ms) * since.min(MAX_STEP_MS);
        self.threshold_ms = (self.threshold_ms + step).clamp(THRESHOLDS_MS.0, THRESHOLDS_MS.1);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Span;

    use super::*;

    /// Adds groups that are sent every 20 ms and arrive every `arrival_ms`.
    fn feed(trendline: &mut Trendline, now: &mut Instant, groups: usize, arrival_ms: f64) {
        for _ in 0..groups {
            *now += Span::from_seconds(arrival_ms / 1e3);
            trendline.add(Deltas { send_ms: 20.0, arrival_ms }, *now);
        }
    }

    #[test]
    fn the_slope_is_the_growth_of_the_delay_per_time() {
        let (mut trendline, mut now) = (Trendline::default(), Instant::START);
        // The delay grows by 0.1 ms every 20.1 ms. The smoothed delay grows at the same rate after some time.
        feed(&mut trendline, &mut now, 200, 20.1);
        assert!((trendline.slope - 0.1 / 20.1).abs() < 1e-6, "{}", trendline.slope);
        feed(&mut trendline, &mut now, 200, 20.0);
        assert!(trendline.slope.abs() < 1e-6, "{}", trendline.slope);
    }

    #[test]
    fn a_growing_queue_is_overuse_and_a_shrinking_queue_underuse() {
        let (mut trendline, mut now) = (Trendline::default(), Instant::START);
        feed(&mut trendline, &mut now, 100, 20.0);
        assert_eq!(trendline.usage(), Usage::Normal);
        // A link at 2/3 of the sending rate.
        feed(&mut trendline, &mut now, 8, 30.0);
        assert_eq!(trendline.usage(), Usage::Overuse);
        feed(&mut trendline, &mut now, 40, 15.0);
        assert_eq!(trendline.usage(), Usage::Underuse);
        feed(&mut trendline, &mut now, 60, 20.0);
        assert_eq!(trendline.usage(), Usage::Normal);
    }

    #[test]
    fn the_threshold_falls_to_its_minimum_and_rises_slowly_with_the_trend() {
        let (mut trendline, mut now) = (Trendline::default(), Instant::START);
        feed(&mut trendline, &mut now, 3, 20.0);
        // Two steps of 20 ms at the speed 0.039 per ms, each by 78 % of the distance.
        let expected: f64 = 12.5 * (1.0 - 0.039 * 20.0) * (1.0 - 0.039 * 20.0);
        assert!((trendline.threshold_ms - expected.max(6.0)).abs() < 1e-9, "{}", trendline.threshold_ms);
        feed(&mut trendline, &mut now, 100, 20.0);
        assert_eq!(trendline.threshold_ms, 6.0);
        trendline.adapt(16.0, now + Span::from_millis(10));
        assert!((trendline.threshold_ms - (6.0 + 0.0087 * 10.0 * 10.0)).abs() < 1e-9);
        let before = trendline.threshold_ms;
        trendline.adapt(before + 15.1, now + Span::from_millis(50));
        assert_eq!(trendline.threshold_ms, before, "a trend far above the threshold is ignored");
    }

    #[test]
    fn a_single_late_group_is_no_overuse() {
        let (mut trendline, mut now) = (Trendline::default(), Instant::START);
        feed(&mut trendline, &mut now, 100, 20.0);
        feed(&mut trendline, &mut now, 1, 100.0);
        assert_eq!(trendline.usage(), Usage::Normal);
    }
}
