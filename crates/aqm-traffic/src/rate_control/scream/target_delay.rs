//! The target of the queueing delay, which can rise beside flows that respond only to losses (draft, section 4.5.4).

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

/// Numbers of samples of the variance and of the average (draft: `qdelay_norm_history(200)`, `qdelay_norm_history(50)`).
const VARIANCE_SAMPLES: usize = 200;
const AVERAGE_SAMPLES: usize = 50;
/// Interval of samples, for which the draft has no value (reference implementation: `kSlowUpdateInterval_ntp`).
const INTERVAL: Span = Span::from_millis(50);
/// Weight of a round trip in the rate of losses, for which the draft has no value (reference implementation: 0.02 in
/// `updateCwnd`).
const ROUND_WEIGHT: f64 = 0.02;
/// Rate of losses from which flows that respond only to losses are assumed, and factor of the target (draft).
const LOSS_RATE: f64 = 0.002;
const LOSS_FACTOR: f64 = 1.5;
/// Variance below which the target can rise (draft).
const MAX_VARIANCE: f64 = 0.2;
/// Factors by which the target falls (draft).
const FAST: f64 = 0.5;
const SLOW: f64 = 0.9;

/// The target of the queueing delay.
#[derive(Clone, Debug)]
pub(super) struct TargetDelay {
    /// Minimum and maximum in seconds (draft: `QDELAY_TARGET_LO`, `QDELAY_TARGET_HI`).
    bounds_s: (f64, f64),
    target_s: f64,
    /// The last samples of the queueing delay, as multiples of the minimum; `None` if the target is constant.
    samples: Option<VecDeque<f64>>,
    sampled_at: Instant,
    /// Share of round trips with losses (draft: `loss_event_rate`).
    loss_rate: f64,
    lost: bool,
    round_began: Instant,
}

impl TargetDelay {
    pub(super) fn new(bounds_s: (f64, f64), adapts: bool) -> Self {
        Self {
            bounds_s,
            target_s: bounds_s.0,
            samples: adapts.then(|| VecDeque::from([0.0; VARIANCE_SAMPLES])),
            sampled_at: Instant::START,
            loss_rate: 0.0,
            lost: false,
            round_began: Instant::START,
        }
    }

    /// Returns the target in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.target_s
    }

    /// Handles feedback: the queueing delay, and whether units were lost.
    pub(super) fn add(&mut self, delay_s: f64, lost: bool, rtt_s: f64, now: Instant) {
        let Some(samples) = &mut self.samples else { return };
        self.lost |= lost;
        if now.since(self.round_began).seconds() >= rtt_s {
            let event = f64::from(u8::from(std::mem::take(&mut self.lost)));
            self.loss_rate = (1.0 - ROUND_WEIGHT) * self.loss_rate + ROUND_WEIGHT * event;
            self.round_began = now;
        }
        if now.since(self.sampled_at) < INTERVAL {
            return;
        }
        self.sampled_at = now;
        samples.pop_front();
        samples.push_back(delay_s / self.bounds_s.0);
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / count;
        let average = samples.iter().rev().take(AVERAGE_SAMPLES).sum::<f64>() / AVERAGE_SAMPLES as f64;
        let target = self.bounds_s.0 * (average + variance.sqrt());
        self.target_s = if self.loss_rate > LOSS_RATE {
            LOSS_FACTOR * target
        } else if variance < MAX_VARIANCE {
            target
        } else if target < self.bounds_s.0 {
            target.max(FAST * self.target_s)
        } else {
            SLOW * self.target_s
        }
        .clamp(self.bounds_s.0, self.bounds_s.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds samples of a queueing delay in milliseconds, one every 50 ms.
    fn add(target: &mut TargetDelay, samples: u64, millis: f64, lost: bool) {
        for _ in 0..samples {
            let now = target.sampled_at + INTERVAL;
            target.add(millis / 1e3, lost, 0.05, now);
        }
    }

    #[test]
    fn without_adaptation_the_target_is_constant() {
        let mut target = TargetDelay::new((0.06, 0.4), false);
        add(&mut target, 400, 300.0, true);
        assert_eq!(target.seconds(), 0.06);
    }

    #[test]
    fn a_constant_long_delay_raises_the_target() {
        let mut target = TargetDelay::new((0.06, 0.4), true);
        add(&mut target, 200, 150.0, false);
        // All samples are equal: the average is 150 ms, and the variance zero.
        assert!((target.seconds() - 0.15).abs() < 1e-9, "{}", target.seconds());
        add(&mut target, 200, 900.0, false);
        assert_eq!(target.seconds(), 0.4);
    }

    #[test]
    fn losses_raise_the_target_by_half() {
        let mut target = TargetDelay::new((0.06, 0.4), true);
        add(&mut target, 200, 120.0, true);
        assert!((target.seconds() - 0.18).abs() < 1e-9, "{}", target.seconds());
    }

    #[test]
    fn a_changing_delay_lowers_the_target() {
        let mut target = TargetDelay::new((0.06, 0.4), true);
        add(&mut target, 200, 300.0, false);
        assert!((target.seconds() - 0.3).abs() < 1e-9);
        // The variance of 1 sample of 0 and 199 samples of 5 is 0.124; with 2 samples of 0, the variance is 0.2475.
        add(&mut target, 1, 0.0, false);
        let risen = target.seconds();
        assert!((risen - 0.06 * (4.9 + 0.124375_f64.sqrt())).abs() < 1e-9, "{risen}");
        add(&mut target, 1, 0.0, false);
        assert!((target.seconds() - 0.9 * risen).abs() < 1e-9, "{}", target.seconds());
        add(&mut target, 300, 0.0, false);
        assert_eq!(target.seconds(), 0.06);
    }
}
