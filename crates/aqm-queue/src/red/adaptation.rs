//! Adjusts `max_p` in Adaptive RED.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue
//! Management", 2001: in every `interval`, `max_p` increases by one step if the average queue is above its target, and
//! decreases by one step if the average is below its target.
//!
//! aqmlab's choices where the paper is silent:
//! - The first tick of the clock occurs one interval after the start of the run if the queue is fresh, and at a random
//!   time within the first interval if the queue is settled. A tick that is due at the same time as an arrival or a
//!   departure is processed first. While the link is idle, a tick uses the average queue length after it has decayed
//!   during the idle time, as in Linux.
//! - If a clock adjusts `max_p`, a settled queue starts with the `max_p` that is reached after a long idle time. If
//!   arrivals adjust `max_p`, `max_p` does not change while the link is idle, so a settled queue starts with the same
//!   `max_p` as a fresh queue. In a settled queue, however, the interval since the last step has already passed.
//! - If arrivals adjust `max_p`, the average includes the sample of the arrival, and the interval starts at the last
//!   step, not at the last check. If the average has been inside the target range for a long time, the first arrival at
//!   which the average is outside this range changes `max_p` at once, as in ns-2 and ns-3.

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Rng, Span, choices};

use crate::red::average::Average;
use crate::start::first_instant;

choices! {
    /// Events at which `max_p` may change.
    pub enum AdaptsOn {
        /// A clock tick once per `interval`, with or without traffic.
        Clock = "clock",
        /// An arrival, if more than one `interval` has passed since the last step. Without arrivals, `max_p` does not
        /// change.
        Arrivals = "arrivals",
    }
}

choices! {
    /// Treatment of a step that would cross a bound of `max_p`.
    pub enum Bounds {
        /// The step ends at the bound.
        Kept = "kept",
        /// The step may cross the bound, but the next step in the same direction is not taken, as in the code of ns-2
        /// and Linux.
        Passed = "passed",
    }
}

/// Times and sizes of the steps of `max_p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Lower end of the target range. `max_p` decreases while the average is below this value.
    pub low: f64,
    /// Upper end of the target range. `max_p` increases while the average is above this value.
    pub high: f64,
    /// Increment of `max_p`, limited to a quarter of `max_p`.
    pub alpha: f64,
    /// Factor by which `max_p` is multiplied when it decreases.
    pub beta: f64,
    /// Minimum of `max_p`.
    pub bottom: f64,
    /// Maximum of `max_p`.
    pub top: f64,
    /// Whether the last step may cross `bottom` or `top`.
    pub bounds: Bounds,
    /// Events at which a step is possible.
    pub adapts_on: AdaptsOn,
    /// Time between steps.
    pub interval: Span,
}

/// Checks the minimum and the maximum of `max_p`.
///
/// # Errors
/// Returns an error for each bound that is out of range.
pub(crate) fn check_bounds(bottom: f64, top: f64) -> Result<(), ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let problem = format_args!("must be above 0 and at most 1 (got {bottom})");
    let is_share = bottom > 0.0 && bottom <= 1.0;
    errors.check(is_share, "bottom", problem);
    let problem = format_args!("must be from bottom ({bottom}) to 1 (got {top})");
    errors.check((top >= bottom || !is_share) && top <= 1.0, "top", problem);
    errors.finish(())
}

/// The current `max_p` and the time of its next step.
#[derive(Clone, Debug)]
pub(crate) struct Adaptation {
    rule: Rule,
    /// The current value of `max_p`.
    pub max_p: f64,
    /// Time of the next clock tick, or the time after which an arrival may change `max_p`.
    next_step: Instant,
}

impl Adaptation {
    /// Creates the state of a fresh queue, which starts with `max_p`.
    pub fn new(rule: Rule, max_p: f64) -> Self {
        Self { rule, max_p, next_step: Instant::START + rule.interval }
    }

    /// Creates the state of a queue that has been in use for a long time and then idle for a long time.
    pub fn settled(rule: Rule, max_p: f64) -> Self {
        let mut settled = Self::new(rule, max_p);
        match rule.adapts_on {
            AdaptsOn::Arrivals => settled.next_step = Instant::START,
            AdaptsOn::Clock if max_p > rule.bottom && rule.low > 0.0 && rule.beta < 1.0 => {
                let steps = libm::ceil(libm::log(rule.bottom / max_p) / libm::log(rule.beta));
                let is_limited = rule.bounds == Bounds::Kept;
                settled.max_p = if is_limited { rule.bottom } else { max_p * libm::pow(rule.beta, steps) };
            }
            AdaptsOn::Clock => {}
        }
        settled
    }

    /// Draws the time of the first clock tick at random within one interval, because the clock has been running for a
    /// long time.
    pub fn draw_phase(&mut self, chance: &mut Rng) {
        if self.rule.adapts_on == AdaptsOn::Clock {
            self.next_step = first_instant(self.rule.interval, chance);
        }
    }

    /// Processes all clock ticks up to `now`, if a clock adjusts `max_p`. Since the last call, `average` must not have
    /// changed, except by decay during idle time.
    #[inline]
    pub fn catch_up(&mut self, average: &Average, now: Instant) {
        if self.next_step <= now && self.rule.adapts_on == AdaptsOn::Clock {
            self.step_until(average, now);
        }
    }

    #[cold]
    fn step_until(&mut self, average: &Average, now: Instant) {
        while self.next_step <= now {
            self.step(average.after_idle(self.next_step));
            self.next_step += self.rule.interval;
        }
    }

    /// Processes an arrival at `now`, whose sample is included in `average`.
    pub fn on_arrival(&mut self, average: f64, now: Instant) {
        if self.rule.adapts_on == AdaptsOn::Arrivals && now > self.next_step {
            let before = self.max_p;
            self.step(average);
            if self.max_p != before {
                self.next_step = now + self.rule.interval;
            }
        }
    }

    fn step(&mut self, average: f64) {
        let Rule { low, high, alpha, beta, bottom, top, bounds, .. } = self.rule;
        let is_limited = bounds == Bounds::Kept;
        if average < low && self.max_p > bottom {
            let decreased = self.max_p * beta;
            self.max_p = if is_limited { decreased.max(bottom) } else { decreased };
        } else if average > high && self.max_p < top {
            let increased = self.max_p + alpha.min(self.max_p / 4.0);
            self.max_p = increased.min(if is_limited { top } else { 1.0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Rate, Size};

    use super::*;

    fn rule(low: f64, high: f64, adapts_on: AdaptsOn) -> Rule {
        let (bottom, top, interval) = (0.01, 0.5, Span::from_millis(500));
        Rule { low, high, alpha: 0.01, beta: 0.9, bottom, top, bounds: Bounds::Kept, adapts_on, interval }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Returns `max_p` after each of `steps` clock ticks with a constant average.
    fn pinned(average: f64, bounds: Bounds, steps: u64) -> Vec<f64> {
        let mut adaptation = Adaptation::new(Rule { bounds, ..rule(54.0, 66.0, AdaptsOn::Clock) }, 0.1);
        let mut constant = Average::new(1.0, Size::from_bytes(1000), Rate::from_bps(1000));
        constant.busy();
        constant.value = average;
        (1..=steps)
            .map(|step| {
                adaptation.catch_up(&constant, at(500 * step - 1));
                let before = adaptation.max_p;
                adaptation.catch_up(&constant, at(500 * step));
                assert!(before != adaptation.max_p || step > 20 || (54.0..=66.0).contains(&average));
                adaptation.max_p
            })
            .collect()
    }

    #[test]
    fn above_its_target_the_average_lifts_max_p_by_hundredths_to_one_half() {
        let steps = pinned(67.0, Bounds::Kept, 60);
        for (k, max_p) in steps.iter().enumerate() {
            let expected = (0.1 + 0.01 * (k as f64 + 1.0)).min(0.5);
            assert!((max_p - expected).abs() < 1e-12, "{k}: {max_p}");
        }
        assert_eq!(steps[59], 0.5);
    }

    #[test]
    fn below_its_target_the_average_lowers_max_p_by_tenths_to_one_hundredth() {
        let steps = pinned(53.0, Bounds::Kept, 60);
        for (k, max_p) in steps.iter().enumerate() {
            let expected = (0.1 * libm::pow(0.9, k as f64 + 1.0)).max(0.01);
            assert!((max_p - expected).abs() < 1e-12, "{k}: {max_p}");
        }
        assert_eq!(steps[59], 0.01);
    }

    #[test]
    fn within_its_target_nothing_moves() {
        for average in [54.0, 60.0, 66.0] {
            assert_eq!(pinned(average, Bounds::Kept, 5), [0.1; 5]);
        }
    }

    #[test]
    fn a_bound_that_may_be_crossed_is_crossed_by_less_than_one_step() {
        let (low, high) = (pinned(0.0, Bounds::Passed, 60)[59], pinned(90.0, Bounds::Passed, 60)[59]);
        assert!(low < 0.01 && low > 0.009, "{low}");
        assert!((0.5..0.51).contains(&high), "{high}");
    }

    #[test]
    fn a_small_max_p_rises_by_a_quarter_at_most() {
        let mut adaptation = Adaptation::new(rule(5.0, 6.0, AdaptsOn::Arrivals), 0.02);
        adaptation.on_arrival(7.0, at(501));
        assert_eq!(adaptation.max_p, 0.025);
    }

    #[test]
    fn the_clock_uses_the_average_that_decays_while_the_link_is_idle() {
        // The transmission of a packet takes one second, so the average halves every second: it is 64 at 0 s, 32 at 1
        // s, and so on.
        let mut adaptation = Adaptation::new(rule(10.0, 20.0, AdaptsOn::Clock), 0.1);
        let mut average = Average::new(0.5, Size::from_bytes(125), Rate::from_bps(1000));
        average.value = 64.0;
        adaptation.catch_up(&average, at(1999));
        assert!((adaptation.max_p - 0.13).abs() < 1e-12, "three ticks above the target");
        adaptation.catch_up(&average, at(4000));
        assert!((adaptation.max_p - 0.13 * 0.729).abs() < 1e-12, "two ticks inside the target, three below");
        assert_eq!(average.value, 64.0);
    }

    #[test]
    fn arrivals_do_not_move_max_p_within_an_interval_of_a_step() {
        let mut adaptation = Adaptation::new(rule(5.0, 6.0, AdaptsOn::Arrivals), 0.1);
        let mut after = |average, millis| {
            adaptation.on_arrival(average, at(millis));
            adaptation.max_p
        };
        assert_eq!(after(9.0, 500), 0.1);
        assert_eq!(after(9.0, 501), 0.11);
        assert_eq!(after(9.0, 1001), 0.11);
        assert_eq!(after(5.5, 1002), 0.11);
        assert_eq!(after(5.5, 9000), 0.11, "a check without a step does not start an interval");
        assert_eq!(after(9.0, 9001), 0.12);
        assert_eq!(after(0.0, 9501), 0.12);
        assert_eq!(after(0.0, 9502), 0.12 * 0.9);
    }
}
