//! Adaptive RED: RED that adjusts `max_p` to keep the average queue near a target.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of RED's Active Queue
//! Management", 2001. `adaptation.rs` adjusts `max_p`; all other parts are those of RED (`red.rs`). If the scenario
//! omits the thresholds or the weight, they are derived from the link rate, as in ns-2: if `C` is the rate in packets
//! of the mean size per second, `min_th = max(5, target_delay C / 2)`, `max_th = 3 min_th` and `weight = 1 - exp(-1 /
//! (10 R C))`.
//!
//! The defaults are those of the paper. The packet mode of ns-2 in the versions of 2002 to 2004 corresponds to
//! `adapts_on = "arrivals"`, `bounds = "passed"`, `gentle_line = "stale"`, `spacing = "wait"`, and `bottom` set to 80
//! kb/s divided by the link rate if this ratio is below 0.01 (one lost packet per window, with packets of 1000 bytes
//! and a round-trip time of 100 ms). With ECN, the packet mode also corresponds to `ecn = "unless-forced"` and `mark_p
//! = 0.1`. The algorithm of Linux is `linux-red` with `adaptive` (`linux_red.rs`). The algorithm that Feng et al.
//! proposed in 1999 is in `self_configuring_red.rs`.
//!
//! With a constant `max_p`, this queue behaves identically to RED, including the sequence of random numbers.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources and
//! aqmlab's choices where the sources are silent.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, Rng, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::red::adaptation::{Adaptation, AdaptsOn, Bounds, Rule, check_bounds};
use crate::red::core::Rules;
use crate::red::curve::Curve;
use crate::red::red::{self, Red};
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// Adaptive RED: RED that adjusts `max_p` so that the average queue stays midway between the thresholds, and that
    /// derives the thresholds and the weight from the link rate.
    ///
    /// aqmlab's choices where the sources are silent:
    ///
    /// - Automatic thresholds have the unit of `limit` and need not be integers.
    /// - `round_trip` is a parameter. ns-2 uses three times the sum of the link's delay and the transmission time of a
    ///   packet, but at least 100 ms; in aqmlab, a queue knows only the rate of its link. The values 0 and -2 of ns-2's
    ///   `q_weight_` correspond to round-trip times of 100 ms and 10 ms.
    pub struct Config {
        /// Maximum backlog in packets or bytes (`B`), excluding the packet in transmission. Automatic thresholds have
        /// the unit of `limit`.
        pub limit: Length = Length::Packets(225), "as `red`";
        /// Average queue below which no packet is dropped early (`min_th`). Default: derived from `target_delay`.
        pub min_th: Option<Length> = None, "automatic";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`). Default: three times `min_th`.
        pub max_th: Option<Length> = None, "automatic";
        /// Target queueing delay: the automatic `min_th` is the number of packets sent in half of this time, but at
        /// least 5 packets.
        pub target_delay: Span = Span::from_millis(5), "ns-2: `targetdelay_`";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1. Default: derived from
        /// `round_trip`.
        pub weight: Option<f64> = None, "automatic";
        /// Round-trip time (`R`); with the automatic `weight`, the average covers about ten round-trip times.
        pub round_trip: Span = Span::from_millis(100), "Floyd, Gummadi & Shenker 2001; ns-2's minimum";
        /// Initial `max_p`.
        pub max_p: f64 = 0.1, "ns-2: `linterm_` 10";
        /// Events at which `max_p` may change.
        pub adapts_on: AdaptsOn = AdaptsOn::Clock, "Floyd, Gummadi & Shenker 2001";
        /// Time between changes of `max_p`.
        pub interval: Span = Span::from_millis(500), "Floyd, Gummadi & Shenker 2001";
        /// Lower end of the target range of the average, as a fraction of the distance from `min_th` to `max_th`.
        pub target_low: f64 = 0.4, "Floyd, Gummadi & Shenker 2001";
        /// Upper end of the target range of the average, as a fraction of the distance from `min_th` to `max_th`.
        pub target_high: f64 = 0.6, "Floyd, Gummadi & Shenker 2001";
        /// Increment of `max_p` (`alpha`), limited to a quarter of `max_p`.
        pub alpha: f64 = 0.01, "Floyd, Gummadi & Shenker 2001";
        /// Factor by which `max_p` is multiplied when it decreases (`beta`).
        pub beta: f64 = 0.9, "Floyd, Gummadi & Shenker 2001";
        /// Minimum of `max_p` (`bottom_`).
        pub bottom: f64 = 0.01, "Floyd, Gummadi & Shenker 2001";
        /// Maximum of `max_p` (`top_`).
        pub top: f64 = 0.5, "Floyd, Gummadi & Shenker 2001";
        /// Treatment of a step of `max_p` that would cross `bottom` or `top`.
        pub bounds: Bounds = Bounds::Kept, "Floyd, Gummadi & Shenker 2001";
        /// Rules for drops and marks.
        #[serde(flatten)]
        pub rules: Rules = Rules { mean_packet: Size::from_bytes(500), ..Rules::default() };
        /// Drop probability at which the gentle part of the drop function begins after `max_p` has changed.
        pub gentle_line: GentleLine = GentleLine::Refreshed, "aqmlab's choice: no jump in the drop function";
        /// State of the queue at the start of the run. `settled`: `max_p` has decreased to its minimum during an idle
        /// period before the run, and the clock has been running. `fresh`: `max_p` has its initial value, and the clock
        /// starts at the beginning of the run.
        pub start: Start = Start::Settled, "aqmlab's choice";
    }
}

choices! {
    /// The drop probability at which the gentle part of the drop function begins, at an average of `max_th`.
    pub enum GentleLine {
        /// The current `max_p`, so that the drop function has no jump.
        Refreshed = "refreshed",
        /// The initial `max_p`, as in ns-2 and ns-3. The drop function then has a jump at `max_th`, which is a downward
        /// jump if `max_p` has increased.
        Stale = "stale",
    }
}

/// Shortest interval allowed. This minimum limits the number of ticks that must be processed after a long time without
/// packets.
const MIN_INTERVAL: Span = Span::from_millis(1);

/// Minimum of an automatic `min_th`, in packets.
const SMALLEST_MIN_TH: f64 = 5.0;

/// RED's thresholds, which need not be integers.
#[derive(Clone, Copy)]
struct Thresholds {
    min: f64,
    max: f64,
    /// Whether the thresholds are in bytes.
    in_bytes: bool,
}

impl Thresholds {
    /// Returns `count` as an integer number of packets or bytes, as RED's parameters require.
    fn whole(self, count: f64) -> Length {
        if self.in_bytes { Length::Bytes(count as u64) } else { Length::Packets(count as u64) }
    }
}

impl Config {
    /// Checks all parameters and builds the queue.
    fn discipline(&self, rate: Rate) -> Result<AdaptiveRed, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.take(self.check_adaptation());
        errors.check_effect(self.min_th.is_none(), self, &["target_delay"], "if min_th is set");
        errors.check_effect(self.weight.is_none(), self, &["round_trip"], "if weight is set");
        let red = errors.take(self.red(rate));
        let (thresholds, config, red) = errors.finish_some(red)?;
        let Thresholds { min, max, .. } = thresholds;
        Ok(AdaptiveRed {
            red,
            curve: Curve { min, max, ..config.curve() },
            gentle_line: self.gentle_line,
            adaptation: match self.start {
                Start::Settled => Adaptation::settled(self.rule(thresholds), self.max_p),
                Start::Fresh => Adaptation::new(self.rule(thresholds), self.max_p),
            },
            start: self.start,
        })
    }

    /// Returns the thresholds before rounding, the parameters of RED, and the RED queue with the initial `max_p`.
    fn red(&self, rate: Rate) -> Result<(Thresholds, red::Config, Red), ConfigErrors> {
        // Thresholds and weight depend on the transmission time of a packet of this size.
        ConfigError::unless(self.rules.mean_packet.bytes() > 0, "mean_packet", "must be at least 1B")?;
        let mut errors = ErrorCollector::default();
        let (thresholds, weight) = (errors.take(self.thresholds(rate)), errors.take(self.weight(rate)));
        let (thresholds, weight) = errors.finish_some(thresholds.zip(weight))?;
        let red = red::Config {
            min_th: thresholds.whole(libm::floor(thresholds.min)),
            max_th: thresholds.whole(libm::ceil(thresholds.max)),
            max_p: self.max_p,
            weight,
            limit: self.limit,
            rules: self.rules.clone(),
        };
        let discipline = red.discipline(rate)?;
        Ok((thresholds, red, discipline))
    }

    /// Returns the configured or automatic thresholds.
    fn thresholds(&self, rate: Rate) -> Result<Thresholds, ConfigError> {
        let in_bytes = self.min_th.unwrap_or(self.limit).in_bytes();
        if self.max_th.is_some_and(|max_th| max_th.in_bytes() != in_bytes) {
            let (name, like) = self.min_th.map_or(("limit", self.limit), |min_th| ("min_th", min_th));
            return Err(ConfigError::at("max_th", format!("must have the same unit as {name} ({like})")));
        }
        let unit = if in_bytes { self.rules.mean_packet.bytes() as f64 } else { 1.0 };
        let automatic = || {
            let target = self.target_delay.seconds() * self.capacity(rate);
            SMALLEST_MIN_TH.max(target / 2.0) * unit
        };
        let min = self.min_th.map_or_else(automatic, |length| length.count() as f64);
        let max = self.max_th.map_or(3.0 * min, |length| length.count() as f64);
        Ok(Thresholds { min, max, in_bytes })
    }

    /// Returns the configured or automatic weight.
    fn weight(&self, rate: Rate) -> Result<f64, ConfigError> {
        match self.weight {
            Some(weight) => Ok(weight),
            None if self.round_trip.is_zero() => Err(ConfigError::at("round_trip", "must not be 0s")),
            None => Ok(-libm::expm1(-1.0 / (10.0 * self.round_trip.seconds() * self.capacity(rate)))),
        }
    }

    /// Returns the link rate in packets of the mean size per second (`ptc`).
    fn capacity(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.rules.mean_packet.bytes() as f64
    }

    /// Checks the times and sizes of the steps of `max_p`.
    fn check_adaptation(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { target_low, target_high, alpha, beta, bottom, top, interval, .. } = *self;
        let problem = format_args!("must be from 0 to 1 (got {target_low})");
        let is_share = (0.0..=1.0).contains(&target_low);
        errors.check(is_share, "target_low", problem);
        let problem = format_args!("must be from target_low ({target_low}) to 1 (got {target_high})");
        let is_beyond = (target_high >= target_low || !is_share) && target_high <= 1.0;
        errors.check(is_beyond, "target_high", problem);
        let problem = format_args!("must be above 0 and at most 1 (got {alpha})");
        errors.check(alpha > 0.0 && alpha <= 1.0, "alpha", problem);
        let problem = format_args!("must be above 0 and below 1 (got {beta})");
        errors.check(beta > 0.0 && beta < 1.0, "beta", problem);
        errors.take(check_bounds(bottom, top));
        let problem = format_args!("must be at least {MIN_INTERVAL} (got {interval})");
        errors.check(interval >= MIN_INTERVAL, "interval", problem);
        errors.finish(())
    }

    /// Returns the times and sizes of the steps of `max_p`.
    fn rule(&self, thresholds: Thresholds) -> Rule {
        let Self { target_low, target_high, alpha, beta, bottom, top, bounds, adapts_on, interval, .. } =
            *self;
        let Thresholds { min, max, .. } = thresholds;
        let low = min + target_low * (max - min);
        let high = min + target_high * (max - min);
        Rule { low, high, alpha, beta, bottom, top, bounds, adapts_on, interval }
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        Ok(Box::new(self.discipline(rate)?))
    }
}

impl Describe for Config {
    /// Returns the drop function with the initial `max_p`, or `None` if the thresholds depend on the link rate.
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        self.min_th?;
        // Any rate is suitable, because the rate affects only how fast the average changes, not the drop function.
        let any_rate = Rate::from_bps(10_000_000);
        Some(self.discipline(any_rate).ok()?.curve.probability(average))
    }

    fn derived(&self, rate: Rate) -> Vec<Derived> {
        let mut derived = Vec::new();
        if let Ok(Thresholds { min, max, in_bytes }) = self.thresholds(rate) {
            let unit = if in_bytes { "bytes" } else { "packets" };
            derived.extend(self.min_th.is_none().then(|| Derived::new("min_th", min, unit)));
            derived.extend(self.max_th.is_none().then(|| Derived::new("max_th", max, unit)));
        }
        if self.weight.is_none() {
            derived.extend(self.weight(rate).map(|weight| Derived::new("weight", weight, "")));
        }
        derived
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        vec![
            json!({"weight": 0.2, "ecn": "always"}),
            json!({
                "limit": "60kB", "packet_scaling": "after-count", "ecn": "unless-forced", "mark_p": 0.1,
                "adapts_on": "arrivals", "bounds": "passed", "spacing": "wait", "weight": 0.2,
            }),
            json!({
                "min_th": "3p", "max_th": "9p", "limit": "24p", "interval": "1ms", "gentle_line": "stale",
                "weight": 0.2,
            }),
        ]
    }
}

/// An Adaptive RED queue: the RED queue, and the state that adjusts `max_p`.
#[derive(Clone)]
pub struct AdaptiveRed {
    red: Red,
    curve: Curve,
    gentle_line: GentleLine,
    adaptation: Adaptation,
    start: Start,
}

impl QueueDiscipline for AdaptiveRed {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        self.adaptation.catch_up(self.red.average(), cx.now);
        self.red.observe(cx.now);
        self.adaptation.on_arrival(self.red.average().value, cx.now);
        self.update_curve();
        self.red.admit(packet, self.curve, self.curve.min, cx);
    }

    fn dequeue(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.adaptation.catch_up(self.red.average(), cx.now);
        self.red.dequeue(cx)
    }

    fn backlog(&self) -> Backlog {
        self.red.backlog()
    }

    fn on_start(&mut self, chance: &mut Rng) {
        if self.start.is_settled() {
            self.adaptation.draw_phase(chance);
        }
    }
}

impl Report for AdaptiveRed {
    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        self.red.gauges(show);
        show(Gauge::number("max_p", self.adaptation.max_p));
    }
}

impl AdaptiveRed {
    /// Sets the drop function to the current `max_p`.
    fn update_curve(&mut self) {
        let max_p = self.adaptation.max_p;
        self.curve.max_p = max_p;
        if self.gentle_line == GentleLine::Refreshed {
            self.curve.gentle_from = max_p;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_MBPS: Rate = Rate::from_bps(10_000_000);

    #[test]
    fn the_drop_function_has_no_jump_at_any_max_p_unless_its_gentle_line_is_stale() {
        for gentle_line in [GentleLine::Refreshed, GentleLine::Stale] {
            let mut queue = Config { gentle_line, ..Config::default() }.discipline(TEN_MBPS).unwrap();
            for max_p in [0.01, 0.05, 0.1, 0.3, 0.5] {
                queue.adaptation.max_p = max_p;
                queue.update_curve();
                let Curve { max, .. } = queue.curve;
                let (below, at) = (queue.curve.probability(max * (1.0 - 1e-9)), queue.curve.probability(max));
                assert!((below - max_p).abs() < 1e-8);
                let expected = if gentle_line == GentleLine::Refreshed { max_p } else { 0.1 };
                assert!((at - expected).abs() < 1e-12, "{gentle_line:?} {max_p}: {at}");
                assert_eq!(queue.curve.probability(2.0 * max), 1.0);
            }
        }
    }

    #[test]
    fn automatic_thresholds_follow_rate_and_target_delay() {
        // Each row contains the mean packet size, the target delay in ms, and the thresholds in packets.
        for (mean, delay, min, max) in
            [(500, 5, 6.25, 18.75), (1000, 5, 5.0, 15.0), (500, 60, 75.0, 225.0), (1000, 60, 37.5, 112.5)]
        {
            for (limit, unit) in [(Length::Packets(500), 1.0), (Length::Bytes(500_000), mean as f64)] {
                let target_delay = Span::from_millis(delay);
                let rules = Rules { mean_packet: Size::from_bytes(mean), ..Rules::default() };
                let config = Config { limit, rules, target_delay, ..Config::default() };
                let thresholds = config.thresholds(TEN_MBPS).unwrap();
                assert!(
                    (thresholds.min - min * unit).abs() < 1e-9 && (thresholds.max - max * unit).abs() < 1e-9
                );
                let derived = config.derived(TEN_MBPS);
                let shown: Vec<_> = derived
                    .iter()
                    .map(|derived| (derived.name.as_str(), derived.value, derived.unit))
                    .collect();
                let unit = if limit.in_bytes() { "bytes" } else { "packets" };
                assert_eq!(shown[..2], [("min_th", thresholds.min, unit), ("max_th", thresholds.max, unit)]);
            }
        }
    }

    #[test]
    fn automatic_weights_match_the_paper() {
        let weight = |config: &Config| config.weight(TEN_MBPS).unwrap();
        assert!((weight(&Config::default()) / 4.0e-4 - 1.0).abs() < 1e-3);
        let rules = Rules { mean_packet: Size::from_bytes(1000), ..Rules::default() };
        let bigger = Config { rules, ..Config::default() };
        assert!((weight(&bigger) / 8.0e-4 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn configured_values_are_not_listed_as_derived() {
        let (min_th, max_th) = (Some(Length::Packets(20)), Some(Length::Packets(60)));
        let config = Config { min_th, max_th, weight: Some(0.1), ..Config::default() };
        assert_eq!(config.derived(TEN_MBPS), []);
    }
}
