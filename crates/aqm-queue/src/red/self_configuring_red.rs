//! Self-Configuring RED: RED that changes `max_p` once each time the average queue length crosses a threshold.
//!
//! W. Feng, D. Kandlur, D. Saha, K. Shin, "A Self-Configuring RED Gateway", IEEE INFOCOM 1999: when the average falls
//! below `min_th`, `max_p` is divided by `alpha`; when the average rises above `max_th`, `max_p` is multiplied by
//! `beta`. All other parts are those of RED (`red.rs`). Adaptive RED by Floyd, Gummadi and Shenker (2001) is a
//! different algorithm (`adaptive_red.rs`).
//!
//! The documentation of [`Config`], which is printed in the reference, lists aqmlab's choices where the paper is
//! silent.

use aqm_net::{Backlog, ConfigErrors, ErrorCollector, Packet, Rate, parameters};
use serde_json::{Value, json};

use crate::red::adaptation::check_bounds;
use crate::red::curve::Curve;
use crate::red::red::{self, Red};
use crate::{Build, Context, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// Self-Configuring RED (Feng et al. 1999): RED that divides `max_p` by a constant when the average queue falls
    /// below `min_th`, and multiplies it by a constant when the average rises above `max_th`.
    ///
    /// aqmlab's choices where the paper is silent:
    ///
    /// - `max_p` is limited to a range. The paper does not define a range.
    /// - The first arrival, which finds an average below `min_th`, counts as a crossing (ns-2, ns-3).
    /// - The gentle part of the drop function, which is not in the paper, begins at the current `max_p`, so that the
    ///   drop function has no jump.
    pub struct Config {
        /// Parameters of the RED queue; its `max_p` is the initial value.
        pub red: red::Config = red::Config::default(), "as `red`";
        /// Divisor of `max_p` when the average falls below `min_th` (`alpha`). The divisor must be above 1.
        pub alpha: f64 = 3.0, "Feng et al. 1999";
        /// Factor by which `max_p` is multiplied when the average rises above `max_th` (`beta`). The factor must be
        /// above 1.
        pub beta: f64 = 2.0, "Feng et al. 1999";
        /// Minimum of `max_p`.
        pub bottom: f64 = 0.0001, "aqmlab's choice";
        /// Maximum of `max_p`.
        pub top: f64 = 1.0, "aqmlab's choice";
    }
}

impl Config {
    /// Checks all parameters and builds the queue.
    fn discipline(&self, rate: Rate) -> Result<SelfConfiguringRed, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { alpha, beta, bottom, top, .. } = *self;
        for (name, factor) in [("alpha", alpha), ("beta", beta)] {
            let problem = format_args!("must be above 1 (got {factor})");
            errors.check(factor > 1.0 && factor.is_finite(), name, problem);
        }
        errors.take(check_bounds(bottom, top));
        let red = errors.take(self.red.discipline(rate).map_err(|errors| errors.within("red")));
        let red = errors.finish_some(red)?;
        let curve = self.red.curve();
        Ok(SelfConfiguringRed { red, curve, side: Side::Above, alpha, beta, bottom, top })
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.discipline(rate)?))
    }
}

impl Describe for Config {
    /// Returns the drop function with the initial `max_p`.
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        // Any rate is suitable, because the rate affects only how fast the average changes, not the drop function.
        let any_rate = Rate::from_bps(10_000_000);
        Some(self.discipline(any_rate).ok()?.curve.probability(average))
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        red::corners().into_iter().map(|red| json!({"red": red})).collect()
    }
}

/// Position of the average relative to the thresholds. While the average equals a threshold, the previous position
/// remains.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Below,
    Between,
    Above,
}

/// A Self-Configuring RED queue: the RED queue, and the state that changes `max_p`.
#[derive(Clone)]
pub struct SelfConfiguringRed {
    red: Red,
    /// The current drop function.
    curve: Curve,
    side: Side,
    alpha: f64,
    beta: f64,
    bottom: f64,
    top: f64,
}

impl SelfConfiguringRed {
    /// Changes `max_p` if `average` has crossed a threshold since the previous call.
    fn adapt(&mut self, average: f64) {
        let Curve { min, max, max_p, .. } = self.curve;
        let side = if average < min {
            Side::Below
        } else if average > max {
            Side::Above
        } else if min < average && average < max {
            Side::Between
        } else {
            self.side
        };
        if side != self.side {
            self.side = side;
            self.curve.max_p = match side {
                Side::Below if max_p > self.bottom => (max_p / self.alpha).max(self.bottom),
                Side::Above if max_p < self.top => (max_p * self.beta).min(self.top),
                _ => max_p,
            };
            self.curve.gentle_from = self.curve.max_p;
        }
    }
}

impl QueueDiscipline for SelfConfiguringRed {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.red.observe(cx.now);
        self.adapt(self.red.average().value);
        self.red.admit(packet, self.curve, self.curve.min, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.red.dequeue(cx)
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }
}

impl Report for SelfConfiguringRed {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.red.gauges(show);
        show(Gauge::number("max_p", self.curve.max_p));
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Length;

    use super::*;

    #[test]
    fn max_p_changes_once_per_crossing() {
        let (min_th, max_th) = (Length::Packets(5), Length::Packets(15));
        let red = red::Config { min_th, max_th, max_p: 0.3, ..red::Config::default() };
        let config = Config { red, bottom: 0.01, top: 0.5, ..Config::default() };
        let mut queue = config.discipline(Rate::from_bps(10_000_000)).unwrap();
        let mut after = |average| {
            queue.adapt(average);
            assert_eq!(queue.curve.gentle_from, queue.curve.max_p);
            queue.curve.max_p
        };
        assert!((after(1.0) - 0.1).abs() < 1e-12, "the first arrival counts as a fall from above");
        let low = after(4.0);
        assert!((low - 0.1).abs() < 1e-12);
        assert_eq!((after(5.0), after(10.0), after(15.0)), (low, low, low));
        assert_eq!((after(16.0), after(99.0)), (2.0 * low, 2.0 * low));
        assert_eq!((after(10.0), after(20.0)), (2.0 * low, 4.0 * low));
        assert_eq!((after(10.0), after(20.0)), (4.0 * low, 0.5), "max_p stays within its bounds");
        assert!((after(0.0) - 0.5 / 3.0).abs() < 1e-12);
    }
}
