//! The estimate of the link's capacity, from the throughput at each overuse (libwebrtc,
//! `goog_cc/link_capacity_estimator.cc`).

/// Weight of a throughput measured at an overuse.
const WEIGHT: f64 = 0.05;
/// Bounds of the normalised variance, in kb/s.
const VARIANCES: (f64, f64) = (0.4, 2.5);
/// Number of standard deviations between the estimate and its bounds.
const DEVIATIONS: f64 = 3.0;

/// The mean and the variance of the throughput at overuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkCapacity {
    estimate_kbps: Option<f64>,
    /// Variance divided by the estimate.
    variance: f64,
}

impl Default for LinkCapacity {
    fn default() -> Self {
        Self { estimate_kbps: None, variance: VARIANCES.0 }
    }
}

impl LinkCapacity {
    /// Returns the estimate in bits per second, if there is one.
    pub(super) fn estimate(&self) -> Option<f64> {
        self.estimate_kbps.map(|kbps| kbps * 1e3)
    }

    /// Forgets the estimate if the throughput is above its upper bound.
    pub(super) fn forget_below(&mut self, throughput_bps: f64) {
        let bound = self.estimate_kbps.map(|kbps| kbps + DEVIATIONS * self.deviation(kbps));
        if bound.is_some_and(|bound| throughput_bps / 1e3 > bound) {
            self.estimate_kbps = None;
        }
    }

    /// Adds the throughput at an overuse. If the throughput is below the lower bound, the previous estimate is
    /// forgotten.
    pub(super) fn add(&mut self, throughput_bps: f64) {
        let sample = throughput_bps / 1e3;
        let bound = self.estimate_kbps.map(|kbps| (kbps - DEVIATIONS * self.deviation(kbps)).max(0.0));
        if bound.is_some_and(|bound| sample < bound) {
            self.estimate_kbps = None;
        }
        let estimate = self.estimate_kbps.map_or(sample, |kbps| (1.0 - WEIGHT) * kbps + WEIGHT * sample);
        let error = estimate - sample;
        let variance = (1.0 - WEIGHT) * self.variance + WEIGHT * error * error / estimate.max(1.0);
        self.variance = variance.clamp(VARIANCES.0, VARIANCES.1);
        self.estimate_kbps = Some(estimate);
    }

    fn deviation(&self, kbps: f64) -> f64 {
        libm::sqrt(self.variance * kbps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_a_moving_average_with_bounds() {
        let mut capacity = LinkCapacity::default();
        capacity.add(1e6);
        capacity.add(980e3);
        assert_eq!(capacity.estimate(), Some(999e3));
        // The bound is 3 sqrt(0.4 * 999) = 60 kb/s above the estimate.
        capacity.forget_below(1.05e6);
        assert!(capacity.estimate().is_some());
        capacity.forget_below(1.07e6);
        assert_eq!(capacity.estimate(), None);
    }

    #[test]
    fn a_throughput_far_below_the_estimate_replaces_the_estimate() {
        let mut capacity = LinkCapacity::default();
        capacity.add(2e6);
        capacity.add(600e3);
        assert_eq!(capacity.estimate(), Some(600e3));
    }
}
