//! Adaptive RED: RED that moves its `max_p` to hold the average queue where it should be.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of
//! RED's Active Queue Management", 2001. Before it, W. Feng, D. Kandlur, D. Saha, K. Shin, "A
//! Self-Configuring RED Gateway", IEEE INFOCOM 1999. The laws that move `max_p` are in `adaptation.rs`; all
//! else is RED (`red.rs`). What a scenario leaves out is as a named system has it (`preset`); thresholds and
//! weight that are left out follow from the line (`automatic.rs`).
//!
//! Ours, where the sources are silent:
//! - The law of 1999 has RED's automatic parameters too; the paper sets them by hand.
//! - Linux computes in integers and with a table for idle times; this is done here in the manner of RED.
//!
//! Where `max_p` does not move, this is RED, draw for draw.

use aqm_net::{Backlog, ConfigError, Length, Packet, Rate, Size, Span, choices, parameters};

use crate::adaptation::{Adaptation, AdaptsOn, Bounds, Law, Rule};
use crate::automatic::{Thresholds, wrong};
use crate::curve::Curve;
use crate::red::{self, EcnRule, Red};
use crate::spacing::{PacketScaling, Spacing};
use crate::{Build, Context, Gauge, QueueDiscipline};

parameters! {
    /// Adaptive RED: RED that moves `max_p` so that the average queue stays midway between the
    /// thresholds, and chooses thresholds and weight by itself.
    pub struct Config {
        /// Whose values hold for all that is left out below.
        pub preset: Preset = Preset::Paper, "Floyd, Gummadi & Shenker 2001";
        /// The most that may wait, in packets or bytes (`B`); the packet on the line is not counted.
        /// Automatic thresholds are in its unit.
        pub limit: Length = Length::Packets(225), "as `red`";
        /// Typical size of a packet (`mean_pktsize_`, `avpkt`): makes the rate of the line a rate of
        /// packets, and is the size that `packet_scaling` compares with.
        pub mean_packet: Size = Size::from_bytes(500), "ns-2";
        /// Average queue below which nothing is dropped early (`min_th`). Left out: from `target_delay`;
        /// with `linux` a third of `max_th`.
        pub min_th: Option<Length> = None, "automatic";
        /// Average queue at which the drop probability reaches `max_p` (`max_th`). Left out: three times
        /// `min_th`; with `linux` a quarter of `limit`.
        pub max_th: Option<Length> = None, "automatic";
        /// Time in the queue to aim at: automatic `min_th` is half of it, but at least 5 packets.
        pub target_delay: Span = Span::from_millis(5), "ns-2: `targetdelay_`";
        /// Weight of the newest sample in the average queue (`w_q`): above 0, at most 1. Left out: from
        /// `round_trip`; with `linux` from `burst`.
        pub weight: Option<f64> = None, "automatic";
        /// Round trip (`R`) of which automatic `weight` averages over ten.
        pub round_trip: Span = Span::from_millis(100), "Floyd, Gummadi & Shenker 2001; ns-2's least";
        /// Packets of a burst that should pass, from which `linux` takes its weight, a power of 1/2. Left
        /// out: `(2 min_th + max_th) / (3 mean_packet)`.
        pub burst: Option<u32> = None, "tc-red";
        /// Where `max_p` begins. Left out: 0.1; with `linux` 0.02.
        pub max_p: Option<f64> = None, "ns-2: `linterm_` 10; tc-red: `probability`";
        /// When `max_p` may move. Left out: `clock` with `paper` and `linux`, else `arrivals`.
        pub adapts_on: Option<AdaptsOn> = None, "Floyd, Gummadi & Shenker 2001; ns-2; Linux";
        /// How often `max_p` may move. Left out: 500ms. Without meaning on arrivals with `feng`.
        pub interval: Option<Span> = None, "Floyd, Gummadi & Shenker 2001";
        /// Where the target of the average begins, as a share of the way from `min_th` to `max_th`.
        /// Left out: 0.4. Without meaning with `feng`.
        pub target_low: Option<f64> = None, "Floyd, Gummadi & Shenker 2001";
        /// Where it ends. Left out: 0.6. Without meaning with `feng`.
        pub target_high: Option<f64> = None, "Floyd, Gummadi & Shenker 2001";
        /// Step upwards (`alpha`), but never more than a quarter of `max_p`; with `feng` the divisor of a step
        /// downwards. Left out: 0.01; with `feng` 3.
        pub alpha: Option<f64> = None, "Floyd, Gummadi & Shenker 2001; Feng et al. 1999";
        /// Factor of a step downwards (`beta`); with `feng` of one upwards. Left out: 0.9; with `feng` 2.
        pub beta: Option<f64> = None, "Floyd, Gummadi & Shenker 2001; Feng et al. 1999";
        /// Least `max_p` (`bottom_`). Left out: 0.01; with `ns-2.2003` 80 kb/s over the rate of the line if
        /// that is less; with `feng` 0.0001.
        pub bottom: Option<f64> = None, "Floyd, Gummadi & Shenker 2001; ns-2; ours with `feng`";
        /// Largest `max_p` (`top_`). Left out: 0.5; with `feng` 1.
        pub top: Option<f64> = None, "Floyd, Gummadi & Shenker 2001; ours with `feng`";
        /// Whether the last step may lead beyond these bounds. Left out: `passed` with `ns-2.2003` and
        /// `linux`, else `kept`.
        pub bounds: Option<Bounds> = None, "Floyd, Gummadi & Shenker 2001; ns-2; Linux";
        /// Above `max_th`, whether the probability rises on to 1 at twice `max_th` (true), or every
        /// packet is dropped (false). Left out: false with `linux` and `feng`, else true.
        pub gentle: Option<bool> = None, "Floyd, Gummadi & Shenker 2001; ns-2; Linux";
        /// Where the gentle line begins once `max_p` has moved. Left out: `stale` with `ns-2.2003`, else
        /// `refreshed`.
        pub gentle_line: Option<GentleLine> = None, "ns-2's `red.cc`; ours, to have no jump";
        /// How drops are spaced, as in RED. Left out: `wait` with `ns-2.2003`, else `no-wait`.
        pub spacing: Option<Spacing> = None, "as `red`; ns-2; Linux";
        /// Whether the first packet after the average has crossed `min_th` always passes.
        pub spare_first: bool = true, "ns-2; Linux";
        /// Whether big packets are dropped more often than small ones.
        pub packet_scaling: PacketScaling = PacketScaling::None, "ns-2 in packet mode; Linux";
        /// What happens to an ECN-capable packet that the law chose; others are always dropped. ns-2 of 2003
        /// is `unless-forced`, Linux `always`.
        pub ecn: EcnRule = EcnRule::Off, "as `red`";
        /// Mark only while `p_b` is at most this, and drop above it (`mark_p_`). Left out: 0.1 with
        /// `ns-2.2003`, else no such bound.
        pub mark_p: Option<f64> = None, "ns-2 since 2002";
    }
}

choices! {
    /// Systems that have an Adaptive RED.
    pub enum Preset {
        /// The paper of 2001: by the clock, within its bounds.
        Paper = "paper",
        /// ns-2 in packet mode, as in 2002 to 2004: on arrivals, `wait`, a stale gentle line, marks up to 0.1.
        Ns2 = "ns-2.2003",
        /// `tc ... red ... adaptive`: by the clock, not gentle, thresholds from `limit`, weight from `burst`.
        Linux = "linux",
        /// The gateway of 1999: a third when the average falls below `min_th`, twice when it rises above `max_th`.
        Feng = "feng",
    }
}

choices! {
    /// Where the gentle line begins at `max_th`.
    pub enum GentleLine {
        /// At `max_p` as it is now: the drop function has no jump.
        Refreshed = "refreshed",
        /// At the `max_p` of the beginning: beyond `max_th` the probability jumps, down if `max_p` has risen.
        Stale = "stale",
    }
}

/// All that a preset decides.
struct Values {
    max_p: f64,
    adapts_on: AdaptsOn,
    alpha: f64,
    beta: f64,
    bottom: f64,
    top: f64,
    bounds: Bounds,
    gentle: bool,
    gentle_line: GentleLine,
    spacing: Spacing,
    mark_p: Option<f64>,
}

impl Preset {
    fn values(self, rate: Rate) -> Values {
        let paper = Values {
            max_p: 0.1,
            adapts_on: AdaptsOn::Clock,
            alpha: 0.01,
            beta: 0.9,
            bottom: 0.01,
            top: 0.5,
            bounds: Bounds::Kept,
            gentle: true,
            gentle_line: GentleLine::Refreshed,
            spacing: Spacing::NoWait,
            mark_p: None,
        };
        match self {
            Self::Paper => paper,
            Self::Ns2 => Values {
                adapts_on: AdaptsOn::Arrivals,
                // One packet lost in a window of 1000-byte packets and 100 ms.
                bottom: (80_000.0 / rate.bps() as f64).min(0.01),
                bounds: Bounds::Passed,
                gentle_line: GentleLine::Stale,
                spacing: Spacing::Wait,
                mark_p: Some(0.1),
                ..paper
            },
            Self::Linux => Values { max_p: 0.02, bounds: Bounds::Passed, gentle: false, ..paper },
            Self::Feng => Values {
                adapts_on: AdaptsOn::Arrivals,
                alpha: 3.0,
                beta: 2.0,
                bottom: 0.0001,
                top: 1.0,
                gentle: false,
                ..paper
            },
        }
    }
}

/// The shortest interval: whoever returns after a long time must catch up with every one.
const SHORTEST: Span = Span::from_millis(1);

impl Config {
    /// The running queue, all checks made.
    fn design(&self, rate: Rate) -> Result<AdaptiveRed, ConfigError> {
        if self.mean_packet.bytes() == 0 {
            return wrong("mean_packet", "must be at least 1B".to_owned());
        }
        if self.burst.is_some() && (self.preset != Preset::Linux || self.weight.is_some()) {
            let remedy = "has an effect only if preset is \"linux\" and weight is left out: leave it out";
            return wrong("burst", remedy.to_owned());
        }
        let values = self.preset.values(rate);
        let thresholds = self.thresholds(rate)?;
        let max_p = self.max_p.unwrap_or(values.max_p);
        let gentle = self.gentle.unwrap_or(values.gentle);
        let red = red::Parameters {
            min_th: thresholds.whole(libm::floor(thresholds.min)),
            max_th: thresholds.whole(libm::ceil(thresholds.max)),
            max_p,
            weight: self.weight.map_or_else(|| self.automatic_weight(&thresholds, rate), Ok)?,
            limit: self.limit,
            mean_packet: self.mean_packet,
            gentle,
            spacing: self.spacing.unwrap_or(values.spacing),
            spare_first: self.spare_first,
            packet_scaling: self.packet_scaling,
            ecn: self.ecn,
            mark_p: self.mark_p.or(values.mark_p.filter(|_| self.ecn != EcnRule::Off)),
        };
        let rule = self.rule(&values, &thresholds)?;
        let Thresholds { min, max, .. } = thresholds;
        Ok(AdaptiveRed {
            red: red.running(rate)?,
            curve: Curve { min, max, max_p, gentle, gentle_from: max_p },
            gentle_line: self.gentle_line.unwrap_or(values.gentle_line),
            adaptation: Adaptation::new(rule, max_p),
        })
    }

    fn rule(&self, values: &Values, thresholds: &Thresholds) -> Result<Rule, ConfigError> {
        let is_feng = self.preset == Preset::Feng;
        let rule = Rule {
            law: if is_feng {
                Law::Crossings { min: thresholds.min, max: thresholds.max }
            } else {
                self.target(thresholds)?
            },
            alpha: self.alpha.unwrap_or(values.alpha),
            beta: self.beta.unwrap_or(values.beta),
            bottom: self.bottom.unwrap_or(values.bottom),
            top: self.top.unwrap_or(values.top),
            bounds: self.bounds.unwrap_or(values.bounds),
            adapts_on: self.adapts_on.unwrap_or(values.adapts_on),
            interval: self.interval.unwrap_or(Span::from_millis(500)),
        };
        let useless = "has no effect with preset \"feng\": leave it out".to_owned();
        for (place, given) in [
            ("target_low", self.target_low.is_some()),
            ("target_high", self.target_high.is_some()),
            ("interval", self.interval.is_some() && rule.adapts_on == AdaptsOn::Arrivals),
        ] {
            if is_feng && given {
                return wrong(place, useless);
            }
        }
        check_rule(&rule, is_feng)?;
        Ok(rule)
    }

    fn target(&self, thresholds: &Thresholds) -> Result<Law, ConfigError> {
        let (low, high) = (self.target_low.unwrap_or(0.4), self.target_high.unwrap_or(0.6));
        if !(0.0..=1.0).contains(&low) {
            return wrong("target_low", format!("must be from 0 to 1, not {low}"));
        }
        if !(high >= low && high <= 1.0) {
            return wrong("target_high", format!("must be from target_low, {low}, to 1, not {high}"));
        }
        let Thresholds { min, max, .. } = *thresholds;
        Ok(Law::Target { low: min + low * (max - min), high: min + high * (max - min) })
    }
}

fn check_rule(rule: &Rule, is_feng: bool) -> Result<(), ConfigError> {
    let &Rule { alpha, beta, bottom, top, interval, .. } = rule;
    let least = if is_feng { 1.0 } else { 0.0 };
    if !(alpha > least && alpha.is_finite() && (is_feng || alpha <= 1.0)) {
        let most = if is_feng { "" } else { " and at most 1" };
        return wrong("alpha", format!("must be above {least}{most}, not {alpha}"));
    }
    if !(beta > least && beta.is_finite() && (is_feng || beta < 1.0)) {
        let most = if is_feng { "" } else { " and below 1" };
        return wrong("beta", format!("must be above {least}{most}, not {beta}"));
    }
    if !(bottom > 0.0 && bottom <= 1.0) {
        return wrong("bottom", format!("must be above 0 and at most 1, not {bottom}"));
    }
    if !(top >= bottom && top <= 1.0) {
        return wrong("top", format!("must be from bottom, {bottom}, to 1, not {top}"));
    }
    if interval < SHORTEST {
        return wrong("interval", format!("must be at least {SHORTEST}"));
    }
    Ok(())
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigError> {
        Ok(Box::new(self.design(rate)?))
    }

    /// With `max_p` where it begins. Nothing if the thresholds depend on the rate of the line.
    fn drop_curve(&self, average: f64, _relative_window: f64, _class: u8) -> Option<f64> {
        if self.min_th.is_none() && self.preset != Preset::Linux {
            return None;
        }
        // The rate decides how the average moves, not what it means.
        let any_rate = Rate::from_bps(10_000_000);
        Some(self.design(any_rate).ok()?.curve.probability(average))
    }
}

/// The running discipline.
#[derive(Clone)]
pub struct AdaptiveRed {
    red: Red,
    curve: Curve,
    gentle_line: GentleLine,
    adaptation: Adaptation,
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

    #[test]
    fn the_drop_function_has_no_jump_wherever_max_p_has_gone_unless_the_line_is_stale() {
        for preset in [Preset::Paper, Preset::Ns2] {
            let mut queue =
                Config { preset, ..Config::default() }.design(Rate::from_bps(10_000_000)).unwrap();
            for max_p in [0.01, 0.05, 0.1, 0.3, 0.5] {
                queue.adaptation.max_p = max_p;
                queue.bend();
                let Curve { max, .. } = queue.curve;
                let (below, at) = (queue.curve.probability(max * (1.0 - 1e-9)), queue.curve.probability(max));
                assert!((below - max_p).abs() < 1e-8);
                let begin = if preset == Preset::Paper { max_p } else { 0.1 };
                assert!((at - begin).abs() < 1e-12, "{preset:?} {max_p}: {at}");
                assert_eq!(queue.curve.probability(2.0 * max), 1.0);
            }
        }
    }
}
