//! How Adaptive RED moves `max_p`.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of
//! RED's Active Queue Management", 2001: every `interval` a step up if the average is above
//! its target, a step down if it is below.
//!
//! Ours, where the source is silent:
//! - The clock's first instant is one interval after the run begins if the queue is fresh, and at any moment before if
//!   it is settled. An instant that meets an arrival or a departure comes first, and sees the average as it has fallen if
//!   the line idles, as in Linux.
//! - With the clock a settled queue has the `max_p` to which it falls while the line idles. On arrivals nothing moves
//!   it then, so it begins where it does in a fresh queue; but the interval since the last step is over.
//! - On arrivals the average is taken with the arrival's own sample, and the interval is counted from the
//!   last step, not from the last look: the first arrival after a long time inside the target that
//!   finds the average outside moves `max_p` at once (ns-2, ns-3).

use aqm_net::{ConfigErrors, ErrorCollector, Instant, Rng, Span, choices};

use crate::red::average::Average;
use crate::start::first_instant;

choices! {
    /// When `max_p` may move.
    pub enum AdaptsOn {
        /// At every `interval`, packets or not.
        Clock = "clock",
        /// At an arrival more than an `interval` after the last step; without arrivals it stands still.
        Arrivals = "arrivals",
    }
}

choices! {
    /// Whether the last step may lead beyond a bound.
    pub enum Bounds {
        /// No: it ends at the bound.
        Kept = "kept",
        /// Yes: a bound only forbids to go on from there, as in the code of ns-2 and Linux.
        Passed = "passed",
    }
}

/// When and how far `max_p` moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The target of the average begins here; below, `max_p` falls.
    pub low: f64,
    /// The target ends here; above, `max_p` rises.
    pub high: f64,
    /// The step upwards, at most a quarter of `max_p`.
    pub alpha: f64,
    /// The factor of a step downwards.
    pub beta: f64,
    /// The least `max_p`.
    pub bottom: f64,
    /// The largest `max_p`.
    pub top: f64,
    /// Whether the last step may lead beyond `bottom` or `top`.
    pub bounds: Bounds,
    /// When a step may come.
    pub adapts_on: AdaptsOn,
    /// The time from step to step.
    pub interval: Span,
}

/// Checks the least and the largest `max_p`.
///
/// # Errors
/// Each that is no bound.
pub(crate) fn check_bounds(bottom: f64, top: f64) -> Result<(), ConfigErrors> {
    let mut errors = ErrorCollector::default();
    let problem = format_args!("must be above 0 and at most 1, not {bottom}");
    let is_share = bottom > 0.0 && bottom <= 1.0;
    errors.check(is_share, "bottom", problem);
    let problem = format_args!("must be from bottom, {bottom}, to 1, not {top}");
    errors.check((top >= bottom || !is_share) && top <= 1.0, "top", problem);
    errors.finish(())
}

/// `max_p`, which moves.
#[derive(Clone, Debug)]
pub(crate) struct Adaptation {
    rule: Rule,
    /// The value now.
    pub max_p: f64,
    /// The clock's next instant, or the one that an arrival must exceed.
    due: Instant,
}

impl Adaptation {
    /// Begins at `max_p`.
    pub fn new(rule: Rule, max_p: f64) -> Self {
        Self { rule, max_p, due: Instant::START + rule.interval }
    }

    /// The same after long service and an idle time.
    pub fn settled(rule: Rule, max_p: f64) -> Self {
        let mut settled = Self::new(rule, max_p);
        match rule.adapts_on {
            AdaptsOn::Arrivals => settled.due = Instant::START,
            AdaptsOn::Clock if max_p > rule.bottom && rule.low > 0.0 && rule.beta < 1.0 => {
                let steps = libm::ceil(libm::log(rule.bottom / max_p) / libm::log(rule.beta));
                let kept = rule.bounds == Bounds::Kept;
                settled.max_p = if kept { rule.bottom } else { max_p * libm::pow(rule.beta, steps) };
            }
            AdaptsOn::Clock => {}
        }
        settled
    }

    /// The clock has been running for long: its first instant is drawn from one interval.
    pub fn draw_phase(&mut self, chance: &mut Rng) {
        if self.rule.adapts_on == AdaptsOn::Clock {
            self.due = first_instant(self.rule.interval, chance);
        }
    }

    /// Catches up with the clock, if that is what moves `max_p`; up to `now` nothing has happened to
    /// `average` but that the line may idle.
    #[inline]
    pub fn catch_up(&mut self, average: &Average, now: Instant) {
        if self.due <= now && self.rule.adapts_on == AdaptsOn::Clock {
            self.step_until(average, now);
        }
    }

    #[cold]
    fn step_until(&mut self, average: &Average, now: Instant) {
        while self.due <= now {
            self.step(average.after_idle(self.due));
            self.due += self.rule.interval;
        }
    }

    /// An arrival at `now` has led to this `average`.
    pub fn on_arrival(&mut self, average: f64, now: Instant) {
        if self.rule.adapts_on == AdaptsOn::Arrivals && now > self.due {
            let before = self.max_p;
            self.step(average);
            if self.max_p != before {
                self.due = now + self.rule.interval;
            }
        }
    }

    fn step(&mut self, average: f64) {
        let Rule { low, high, alpha, beta, bottom, top, bounds, .. } = self.rule;
        let kept = bounds == Bounds::Kept;
        if average < low && self.max_p > bottom {
            let fallen = self.max_p * beta;
            self.max_p = if kept { fallen.max(bottom) } else { fallen };
        } else if average > high && self.max_p < top {
            let risen = self.max_p + alpha.min(self.max_p / 4.0);
            self.max_p = risen.min(if kept { top } else { 1.0 });
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

    /// `max_p` after each of so many steps of the clock with the average pinned.
    fn pinned(average: f64, bounds: Bounds, steps: u64) -> Vec<f64> {
        let mut adaptation = Adaptation::new(Rule { bounds, ..rule(54.0, 66.0, AdaptsOn::Clock) }, 0.1);
        let mut held = Average::new(1.0, Size::from_bytes(1000), Rate::from_bps(1000));
        held.busy();
        held.value = average;
        (1..=steps)
            .map(|step| {
                adaptation.catch_up(&held, at(500 * step - 1));
                let before = adaptation.max_p;
                adaptation.catch_up(&held, at(500 * step));
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
    fn a_bound_that_may_be_passed_is_passed_by_less_than_a_step() {
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
    fn an_idle_line_lets_the_clock_see_the_average_fall() {
        // A packet takes a second, so the average halves each second: 64 at 0 s, 32 at 1 s, and so on.
        let mut adaptation = Adaptation::new(rule(10.0, 20.0, AdaptsOn::Clock), 0.1);
        let mut average = Average::new(0.5, Size::from_bytes(125), Rate::from_bps(1000));
        average.value = 64.0;
        adaptation.catch_up(&average, at(1999));
        assert!((adaptation.max_p - 0.13).abs() < 1e-12, "three instants above the target");
        adaptation.catch_up(&average, at(4000));
        assert!((adaptation.max_p - 0.13 * 0.729).abs() < 1e-12, "two inside, and three below");
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
        assert_eq!(after(5.5, 9000), 0.11, "a look that moves nothing does not start an interval");
        assert_eq!(after(9.0, 9001), 0.12);
        assert_eq!(after(0.0, 9501), 0.12);
        assert_eq!(after(0.0, 9502), 0.12 * 0.9);
    }
}
