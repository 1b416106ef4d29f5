//! Adaptive RED: RED that moves its `max_p` to hold the average queue where it should be.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of
//! RED's Active Queue Management", 2001. How `max_p` moves is in `adaptation.rs`; all else is RED (`red.rs`).
//! Thresholds and weight that are left out follow from the line, as in ns-2: with `C` packets of the mean size a
//! second, `min_th = max(5, target_delay C / 2)`, `max_th = 3 min_th`, `weight = 1 - exp(-1 / (10 R C))`.
//!
//! Defaults are the paper's. ns-2 in packet mode, as in 2002 to 2004, is `adapts_on = "arrivals"`, `bounds =
//! "passed"`, `gentle_line = "stale"`, `spacing = "wait"`, `bottom` 80 kb/s over the rate of the line if that is less
//! than 0.01 (one packet lost in a window of 1000-byte packets and 100 ms), and with ECN `ecn = "unless-forced"`,
//! `mark_p = 0.1`. Linux's is `linux-red` with `adaptive` (`linux_red.rs`); what Feng et al. proposed in 1999 is
//! another algorithm (`self_configuring_red.rs`).
//!
//! Where `max_p` does not move, this is RED, draw for draw.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{
    Backlog, ConfigError, ConfigErrors, ErrorCollector, Length, Packet, Rate, Rng, Size, Span, choices,
    parameters,
};
use serde_json::{Value, json};

use crate::red::adaptation::{Adaptation, AdaptsOn, Bounds, Rule, check_bounds};
use crate::red::core::EcnRule;
use crate::red::curve::Curve;
use crate::red::red::{self, Red};
use crate::red::spacing::{PacketScaling, Spacing};
use crate::start::Start;
use crate::{Build, Context, Derived, Describe, Gauge, QueueDiscipline, Report, TestCases};

parameters! {
    /// Adaptive RED: RED that moves `max_p` so that the average queue stays midway between the
    /// thresholds, and chooses thresholds and weight by itself.
    ///
    /// Where the sources are silent:
    ///
    /// - Automatic thresholds are in the unit of `limit`, and need not be whole.
    /// - `round_trip` is a parameter: ns-2 takes three times the delay of the link and of a packet on it, if that is
    ///   more than 100 ms, but a queue knows the rate of its line only. `q_weight_` 0 and -2 of ns-2 are 100 ms and 10
    ///   ms.
    pub struct Config {
        /// The most that may wait, in packets or bytes (`B`); the packet on the line is not counted.
        /// Automatic thresholds are in its unit.
        pub limit: Length = Length::Packets(225), "as `red`";
        /// Typical size of a packet (`mean_pktsize_`): makes the rate of the line a rate of packets, and is the
        /// size that `packet_scaling` compares with.
        pub mean_packet: Size = Size::from_bytes(500), "ns-2";
        /// Average queue below which nothing is dropped early (`min_th`). Left out: from `target_delay`.
        pub min_th: Option<Length> = None, "automatic";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`). Left out: three times
        /// `min_th`.
        pub max_th: Option<Length> = None, "automatic";
        /// Time in the queue to aim at: automatic `min_th` is half of it, but at least 5 packets.
        pub target_delay: Span = Span::from_millis(5), "ns-2: `targetdelay_`";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1. Left out: from
        /// `round_trip`.
        pub weight: Option<f64> = None, "automatic";
        /// Round trip (`R`) of which automatic `weight` averages over ten.
        pub round_trip: Span = Span::from_millis(100), "Floyd, Gummadi & Shenker 2001; ns-2's least";
        /// Where `max_p` begins.
        pub max_p: f64 = 0.1, "ns-2: `linterm_` 10";
        /// When `max_p` may move.
        pub adapts_on: AdaptsOn = AdaptsOn::Clock, "Floyd, Gummadi & Shenker 2001";
        /// How often `max_p` may move.
        pub interval: Span = Span::from_millis(500), "Floyd, Gummadi & Shenker 2001";
        /// Where the target of the average begins, as a share of the way from `min_th` to `max_th`.
        pub target_low: f64 = 0.4, "Floyd, Gummadi & Shenker 2001";
        /// Where the target ends.
        pub target_high: f64 = 0.6, "Floyd, Gummadi & Shenker 2001";
        /// Step upwards (`alpha`), but never more than a quarter of `max_p`.
        pub alpha: f64 = 0.01, "Floyd, Gummadi & Shenker 2001";
        /// Factor of a step downwards (`beta`).
        pub beta: f64 = 0.9, "Floyd, Gummadi & Shenker 2001";
        /// Least `max_p` (`bottom_`).
        pub bottom: f64 = 0.01, "Floyd, Gummadi & Shenker 2001";
        /// Largest `max_p` (`top_`).
        pub top: f64 = 0.5, "Floyd, Gummadi & Shenker 2001";
        /// Whether the last step may lead beyond these bounds.
        pub bounds: Bounds = Bounds::Kept, "Floyd, Gummadi & Shenker 2001";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false).
        pub gentle: bool = true, "Floyd, Gummadi & Shenker 2001";
        /// Where the gentle line begins once `max_p` has moved.
        pub gentle_line: GentleLine = GentleLine::Refreshed, "ours, to have no jump";
        /// How drops are spaced, as in RED.
        pub spacing: Spacing = Spacing::NoWait, "as `red`";
        /// Whether the first packet after the average has crossed `min_th` always passes.
        pub spare_first: bool = true, "ns-2";
        /// Whether big packets are dropped more often than small ones.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode";
        /// What happens to an ECN-capable packet that is to be dropped early; others are always dropped.
        pub ecn: EcnRule = EcnRule::Off, "as `red`";
        /// Mark only while `p_b` is at most this, and drop above it (`mark_p_`). Left out: no such bound.
        pub mark_p: Option<f64> = None, "as `red`";
        /// Whether `max_p` has fallen to its least value in an idle time before the run and the clock is running
        /// (`settled`), or `max_p` begins at the value given and the clock with the run.
        pub start: Start = Start::Settled, "ours";
    }
}

choices! {
    /// Where the gentle line begins at `max_th`.
    pub enum GentleLine {
        /// At `max_p` as it is now: the drop function has no jump.
        Refreshed = "refreshed",
        /// At the `max_p` of the beginning, as in ns-2 and ns-3: beyond `max_th` the probability jumps, down if
        /// `max_p` has risen.
        Stale = "stale",
    }
}

/// The shortest interval: whoever returns after a long time must catch up with every one.
const SHORTEST: Span = Span::from_millis(1);

/// Automatic thresholds are never closer to an empty queue, in packets.
const LEAST_MIN_TH: f64 = 5.0;

/// RED's thresholds, not necessarily whole.
#[derive(Clone, Copy)]
struct Thresholds {
    min: f64,
    max: f64,
    /// Whether they count bytes.
    in_bytes: bool,
}

impl Thresholds {
    /// A whole number of packets or bytes, as RED's parameters have it.
    fn whole(self, count: f64) -> Length {
        if self.in_bytes { Length::Bytes(count as u64) } else { Length::Packets(count as u64) }
    }
}

impl Config {
    /// The running queue, all checks made.
    fn running(&self, rate: Rate) -> Result<AdaptiveRed, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        errors.take(self.check_adaptation());
        errors.check_effect(self.min_th.is_none(), self, &["target_delay"], "where min_th is given");
        errors.check_effect(self.weight.is_none(), self, &["round_trip"], "where weight is given");
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

    /// The RED that it is for now, with its thresholds as they are before they are rounded.
    fn red(&self, rate: Rate) -> Result<(Thresholds, red::Config, Red), ConfigErrors> {
        // Thresholds and weight follow from the time that such a packet takes.
        ConfigError::unless(self.mean_packet.bytes() > 0, "mean_packet", "must be at least 1B")?;
        let mut errors = ErrorCollector::default();
        let (thresholds, weight) = (errors.take(self.thresholds(rate)), errors.take(self.weight(rate)));
        let (thresholds, weight) = errors.finish_some(thresholds.zip(weight))?;
        let red = red::Config {
            min_th: thresholds.whole(libm::floor(thresholds.min)),
            max_th: thresholds.whole(libm::ceil(thresholds.max)),
            max_p: self.max_p,
            weight,
            limit: self.limit,
            mean_packet: self.mean_packet,
            gentle: self.gentle,
            spacing: self.spacing,
            spare_first: self.spare_first,
            packet_scaling: self.packet_scaling,
            ecn: self.ecn,
            mark_p: self.mark_p,
        };
        let running = red.running(rate)?;
        Ok((thresholds, red, running))
    }

    /// The thresholds, given or not.
    fn thresholds(&self, rate: Rate) -> Result<Thresholds, ConfigError> {
        let in_bytes = self.min_th.unwrap_or(self.limit).in_bytes();
        if self.max_th.is_some_and(|max_th| max_th.in_bytes() != in_bytes) {
            let (name, like) = self.min_th.map_or(("limit", self.limit), |min_th| ("min_th", min_th));
            return Err(ConfigError::at("max_th", format!("must be in the unit of {name}, {like}")));
        }
        let unit = if in_bytes { self.mean_packet.bytes() as f64 } else { 1.0 };
        let automatic = || {
            let target = self.target_delay.seconds() * self.capacity(rate);
            LEAST_MIN_TH.max(target / 2.0) * unit
        };
        let min = self.min_th.map_or_else(automatic, |length| length.count() as f64);
        let max = self.max_th.map_or(3.0 * min, |length| length.count() as f64);
        Ok(Thresholds { min, max, in_bytes })
    }

    /// The weight, given or not.
    fn weight(&self, rate: Rate) -> Result<f64, ConfigError> {
        match self.weight {
            Some(weight) => Ok(weight),
            None if self.round_trip.is_zero() => Err(ConfigError::at("round_trip", "must not be 0s")),
            None => Ok(-libm::expm1(-1.0 / (10.0 * self.round_trip.seconds() * self.capacity(rate)))),
        }
    }

    /// Packets of the mean size that the line sends in a second (`ptc`).
    fn capacity(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.mean_packet.bytes() as f64
    }

    /// Checks when and how far `max_p` moves.
    fn check_adaptation(&self) -> Result<(), ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { target_low, target_high, alpha, beta, bottom, top, interval, .. } = *self;
        let problem = format_args!("must be from 0 to 1, not {target_low}");
        let is_share = (0.0..=1.0).contains(&target_low);
        errors.check(is_share, "target_low", problem);
        let problem = format_args!("must be from target_low, {target_low}, to 1, not {target_high}");
        let is_beyond = (target_high >= target_low || !is_share) && target_high <= 1.0;
        errors.check(is_beyond, "target_high", problem);
        let problem = format_args!("must be above 0 and at most 1, not {alpha}");
        errors.check(alpha > 0.0 && alpha <= 1.0, "alpha", problem);
        let problem = format_args!("must be above 0 and below 1, not {beta}");
        errors.check(beta > 0.0 && beta < 1.0, "beta", problem);
        errors.take(check_bounds(bottom, top));
        errors.check(interval >= SHORTEST, "interval", format_args!("must be at least {SHORTEST}"));
        errors.finish(())
    }

    /// When and how far `max_p` moves.
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
        Ok(Box::new(self.running(rate)?))
    }
}

impl Describe for Config {
    /// With `max_p` where it begins. `None` if the thresholds depend on the rate of the line.
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        self.min_th?;
        // The rate decides how the average moves, not what it means.
        let any_rate = Rate::from_bps(10_000_000);
        Some(self.running(any_rate).ok()?.curve.probability(average))
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

/// The running discipline.
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
        self.bend();
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
    /// Bends the drop function to `max_p` as it is now.
    fn bend(&mut self) {
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
    fn the_drop_function_has_no_jump_wherever_max_p_has_gone_unless_the_line_is_stale() {
        for gentle_line in [GentleLine::Refreshed, GentleLine::Stale] {
            let mut queue = Config { gentle_line, ..Config::default() }.running(TEN_MBPS).unwrap();
            for max_p in [0.01, 0.05, 0.1, 0.3, 0.5] {
                queue.adaptation.max_p = max_p;
                queue.bend();
                let Curve { max, .. } = queue.curve;
                let (below, at) = (queue.curve.probability(max * (1.0 - 1e-9)), queue.curve.probability(max));
                assert!((below - max_p).abs() < 1e-8);
                let begin = if gentle_line == GentleLine::Refreshed { max_p } else { 0.1 };
                assert!((at - begin).abs() < 1e-12, "{gentle_line:?} {max_p}: {at}");
                assert_eq!(queue.curve.probability(2.0 * max), 1.0);
            }
        }
    }

    #[test]
    fn automatic_thresholds_follow_rate_and_target_delay() {
        // Mean packet, target delay in ms; thresholds in packets.
        for (mean, delay, min, max) in
            [(500, 5, 6.25, 18.75), (1000, 5, 5.0, 15.0), (500, 60, 75.0, 225.0), (1000, 60, 37.5, 112.5)]
        {
            for (limit, unit) in [(Length::Packets(500), 1.0), (Length::Bytes(500_000), mean as f64)] {
                let (mean_packet, target_delay) = (Size::from_bytes(mean), Span::from_millis(delay));
                let config = Config { limit, mean_packet, target_delay, ..Config::default() };
                let found = config.thresholds(TEN_MBPS).unwrap();
                assert!((found.min - min * unit).abs() < 1e-9 && (found.max - max * unit).abs() < 1e-9);
                let derived = config.derived(TEN_MBPS);
                let told: Vec<_> =
                    derived.iter().map(|one| (one.name.as_str(), one.value, one.unit)).collect();
                let unit = if limit.in_bytes() { "bytes" } else { "packets" };
                assert_eq!(told[..2], [("min_th", found.min, unit), ("max_th", found.max, unit)]);
            }
        }
    }

    #[test]
    fn automatic_weights_are_those_of_the_paper() {
        let weight = |config: &Config| config.weight(TEN_MBPS).unwrap();
        assert!((weight(&Config::default()) / 4.0e-4 - 1.0).abs() < 1e-3);
        let bigger = Config { mean_packet: Size::from_bytes(1000), ..Config::default() };
        assert!((weight(&bigger) / 8.0e-4 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_was_given_is_not_told_as_derived() {
        let (min_th, max_th) = (Some(Length::Packets(20)), Some(Length::Packets(60)));
        let config = Config { min_th, max_th, weight: Some(0.1), ..Config::default() };
        assert_eq!(config.derived(TEN_MBPS), []);
    }
}
