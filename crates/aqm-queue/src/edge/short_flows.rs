//! Classifies packets by the packet count of their flow: the first `L_t` packets of every flow are short, and the
//! threshold `L_t` adapts to the traffic.
//!
//! L. Guo and I. Matta, "The War Between Mice and Elephants", ICNP 2001. An edge has a soft-state packet counter for
//! each flow, and a threshold `L_t` that is either static or controlled by the ratio of active short flows to active
//! long flows (`SLR`). Inactive flows are removed after a period `T_u`, and the threshold is updated after each period
//! `T_c`. The values in table III of the paper are an SLR of about 3, T_u = 1 s and T_c = 10 s.
//!
//! aqmlab's choices where the paper is silent:
//! - The initial value of the threshold, the bounds of the threshold and the rule by which the threshold changes are
//!   aqmlab's choices. The `steered` rule halves the threshold if there are too many short flows, and adds `step` if
//!   there are too few. The `quantile` rule sets the threshold to the packet count at which the ratio of active short
//!   flows to active long flows is SLR.
//! - Inactive flows are removed at multiples of T_u: a flow's entry is removed if the flow has not sent a packet since
//!   the last scan, so the entry is removed after a silence of T_u to 2 T_u. This is aqmlab's interpretation of "every
//!   T_u". `purge = "at-age"` removes each flow after exactly T_u instead.
//! - The threshold is updated at multiples of T_c, after the flows that are inactive at this time have been removed.
//!   When the ratio is computed, a flow is considered short if its packet count is at most the previous threshold.
//! - If no flow is active, the ratio is undefined and the threshold does not change.
//! - If actions are due at the time when a packet passes, these actions are performed before the packet is counted.
//! - Every packet is counted, including retransmissions, because an edge cannot recognise retransmissions.
//! - Memory is bounded: if `max_flows` flows are remembered, a new flow replaces the flow that has been silent longest.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Packet, Rng, Span, choices, parameters};

use super::{Build, Edge, LONG, SHORT, Table};
use crate::Gauge;

parameters! {
    /// Short flows by packet count: the first `threshold` packets of every flow are short, and the threshold changes
    /// until the ratio of short to long flows reaches a target.
    pub struct Config {
        /// Initial threshold: number of packets at the start of each flow that are classified as short (`L_t`).
        pub threshold: u32 = 20, "aqmlab's choice: the paper is silent";
        /// The rule by which the threshold changes.
        pub threshold_rule: ThresholdRule = ThresholdRule::Steered,
            "Guo & Matta 2001: a dynamic threshold; the rule is aqmlab's choice";
        /// Target number of active short flows per active long flow (`SLR`).
        pub short_to_long: f64 = 3.0, "Guo & Matta 2001, table III";
        /// Duration of silence after which a flow is forgotten (`T_u`). `none`: flows are never forgotten.
        pub expiry: Option<Span> = Some(Span::from_millis(1000)), "Guo & Matta 2001, table III";
        /// Times at which silent flows are removed.
        pub purge: Purge = Purge::AtScans, "Guo & Matta 2001, as aqmlab interprets it";
        /// Interval between changes of the threshold (`T_c`).
        pub update: Span = Span::from_millis(10_000), "Guo & Matta 2001, table III";
        /// Number of packets by which the `steered` rule increases the threshold if there are too few short flows.
        pub step: u32 = 5, "aqmlab's choice: the paper is silent";
        /// Lower bound of the threshold.
        pub min_threshold: u32 = 1, "aqmlab's choice: the paper is silent";
        /// Upper bound of the threshold.
        pub max_threshold: u32 = 1000, "aqmlab's choice: the paper is silent";
        /// Maximum number of remembered flows. A new flow replaces the flow that has been silent longest.
        pub max_flows: u32 = 1_000_000, "aqmlab's choice: the paper is silent";
    }
}

choices! {
    /// The rule by which the threshold changes.
    pub enum ThresholdRule {
        /// The threshold is constant.
        Static = "static",
        /// The threshold is halved if there are more than `short_to_long` short flows per long flow, or if there is no
        /// long flow. Otherwise, the threshold increases by `step`.
        Steered = "steered",
        /// The threshold is set to the smallest packet count that at least a fraction SLR / (SLR + 1) of the active
        /// flows do not exceed.
        Quantile = "quantile",
    }
}

choices! {
    /// The times at which silent flows are removed.
    pub enum Purge {
        /// At each multiple of `expiry`, the flows that have not sent a packet since the previous multiple are removed.
        AtScans = "at-scans",
        /// A flow is removed as soon as it has been silent for longer than `expiry`.
        AtAge = "at-age",
    }
}

/// The shortest period allowed. With shorter periods, the first call after a long pause would be slow.
const MIN_PERIOD: Span = Span::from_millis(1);

impl Build for Config {
    fn build(&self, _rng: Rng) -> Result<Box<dyn Edge>, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        for (name, period) in [("expiry", self.expiry), ("update", Some(self.update))] {
            let problem = format_args!("must be at least {MIN_PERIOD}");
            errors.check(period.is_none_or(|period| period >= MIN_PERIOD), name, problem);
        }
        let ratio = self.short_to_long;
        let problem = format_args!("must be above 0 and at most 1e9 (got {ratio})");
        errors.check(ratio > 0.0 && ratio <= 1e9, "short_to_long", problem);
        errors.check(self.step > 0, "step", "must be at least 1");
        let (min, max) = (self.min_threshold, self.max_threshold);
        let problem = format_args!("must be at most max_threshold, {max}");
        errors.check(min <= max, "min_threshold", problem);
        // The threshold cannot be compared with invalid bounds.
        let is_unchecked = min > max || self.threshold_rule == ThresholdRule::Static;
        let problem = format_args!("must be from min_threshold, {min}, to max_threshold, {max}");
        errors.check(is_unchecked || (min..=max).contains(&self.threshold), "threshold", problem);
        let edge = errors.take(ShortFlows::new(self));
        Ok(Box::new(errors.finish_some(edge)?))
    }
}

/// An edge that counts the packets of each flow.
#[derive(Clone)]
pub struct ShortFlows {
    config: Config,
    threshold: u32,
    /// Packet count of each active flow.
    counts: Table<u32>,
    next_scan: Instant,
    next_update: Instant,
    /// Buffer for computing the quantile.
    sorted: Vec<u32>,
}

impl Edge for ShortFlows {
    fn classify(&mut self, packet: &Packet, now: Instant) -> u8 {
        self.catch_up(now);
        let count = self.counts.touch(u64::from(packet.flow), now);
        *count = count.saturating_add(1);
        if *count <= self.threshold { SHORT } else { LONG }
    }

    fn catch_up(&mut self, now: Instant) {
        while self.next_scan.min(self.next_update) <= now {
            let due = self.next_scan.min(self.next_update);
            if self.counts.is_empty() || due == Instant::NEVER {
                // As long as the table is empty, nothing changes, so all periods up to `now` are skipped.
                (self.next_scan, self.next_update) = self.due_after(now);
                break;
            }
            if let Some(expiry) = self.config.expiry
                && (due == self.next_scan || self.config.purge == Purge::AtAge)
            {
                self.counts.expire_before(due.earlier_by(expiry));
            }
            if due == self.next_update {
                self.threshold = self.new_threshold();
            }
            (self.next_scan, self.next_update) = self.due_after(due);
        }
        if let (Some(expiry), Purge::AtAge) = (self.config.expiry, self.config.purge) {
            self.counts.expire_before(now.earlier_by(expiry));
        }
    }

    fn gauges(&self, show: &mut dyn FnMut(Gauge)) {
        show(Gauge::new("flows", f64::from(self.counts.len()), "flows"));
        show(Gauge::new("threshold", f64::from(self.threshold), "packets"));
        show(Gauge::new("evicted", self.counts.evicted() as f64, "flows"));
    }
}

impl ShortFlows {
    fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut edge = Self {
            config: config.clone(),
            threshold: config.threshold,
            counts: Table::new(config.max_flows)?,
            next_scan: Instant::NEVER,
            next_update: Instant::NEVER,
            sorted: Vec::new(),
        };
        (edge.next_scan, edge.next_update) = edge.due_after(Instant::START);
        Ok(edge)
    }

    /// Returns the times of the next scan and the next update.
    fn due_after(&self, now: Instant) -> (Instant, Instant) {
        let scan = self.config.expiry.filter(|_| self.config.purge == Purge::AtScans);
        let update = (self.config.threshold_rule != ThresholdRule::Static).then_some(self.config.update);
        let next = |period: Option<Span>| period.map_or(Instant::NEVER, |period| now.next_multiple(period));
        (next(scan), next(update))
    }

    /// Computes the new threshold from the flows that are currently active, according to the configured rule.
    fn new_threshold(&mut self) -> u32 {
        if self.counts.is_empty() {
            return self.threshold;
        }
        let threshold = match self.config.threshold_rule {
            ThresholdRule::Static => return self.threshold,
            ThresholdRule::Steered => self.steered(),
            ThresholdRule::Quantile => {
                self.sorted.clear();
                self.sorted.extend(self.counts.values());
                quantile(&mut self.sorted, self.config.short_to_long)
            }
        };
        threshold.clamp(self.config.min_threshold, self.config.max_threshold)
    }

    fn steered(&self) -> u32 {
        let short = self.counts.values().filter(|count| **count <= self.threshold).count();
        let long = self.counts.len() as usize - short;
        if long == 0 || short as f64 / long as f64 > self.config.short_to_long {
            self.threshold / 2
        } else {
            self.threshold.saturating_add(self.config.step)
        }
    }
}

/// Returns the smallest value of `counts` that at least a fraction `ratio` / (`ratio` + 1) of the values do not exceed.
fn quantile(counts: &mut [u32], ratio: f64) -> u32 {
    let rank = libm::ceil(counts.len() as f64 * ratio / (ratio + 1.0)) as usize;
    *counts.select_nth_unstable(rank.clamp(1, counts.len()) - 1).1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn edge(config: &Config) -> ShortFlows {
        ShortFlows::new(config).unwrap()
    }

    fn millis(ms: u64) -> Instant {
        Instant::START + Span::from_millis(ms)
    }

    fn class(edge: &mut ShortFlows, flow: u32, now: Instant) -> u8 {
        edge.classify(&Packet { flow, ..Packet::default() }, now)
    }

    /// Sends `count` packets of `flow` at `now`.
    fn send(edge: &mut ShortFlows, flow: u32, count: u32, now: Instant) {
        (0..count).for_each(|_| _ = class(edge, flow, now));
    }

    fn fixed(threshold: u32) -> Config {
        Config { threshold, threshold_rule: ThresholdRule::Static, ..Config::default() }
    }

    proptest! {
        #[test]
        fn with_a_static_threshold_and_no_expiry_each_flow_has_its_first_packets_short(
            flows in prop::collection::vec((0_u32..60, 0_u64..3000), 1..600), threshold in 0_u32..30,
        ) {
            let mut edge = edge(&Config { expiry: None, ..fixed(threshold) });
            let (mut packets, mut short, mut now) = (BTreeMap::<u32, u32>::new(), 0, 0);
            for (flow, pause) in flows {
                now += pause;
                *packets.entry(flow).or_default() += 1;
                short += u32::from(class(&mut edge, flow, millis(now)) == SHORT);
            }
            prop_assert_eq!(short, packets.values().map(|count| (*count).min(threshold)).sum::<u32>());
        }

        #[test]
        fn the_quantile_is_that_of_a_sort(
            mut counts in prop::collection::vec(0_u32..50, 1..200), ratio in 1_usize..10,
        ) {
            let found = quantile(&mut counts.clone(), ratio as f64);
            counts.sort_unstable();
            prop_assert_eq!(found, counts[(counts.len() * ratio).div_ceil(ratio + 1) - 1]);
        }
    }

    #[test]
    fn a_flow_silent_for_longer_than_the_expiry_is_short_again() {
        let mut at_age = edge(&Config { purge: Purge::AtAge, ..fixed(1) });
        let marks = [0, 1, 1001, 2002, 2003].map(|ms| class(&mut at_age, 7, millis(ms)));
        assert_eq!(marks, [SHORT, LONG, LONG, SHORT, LONG], "only 1001 ms exceed 1 s");
        // The flow's last packet was sent at 100 ms. The flow is removed by the scan at 2 s, but not by the scan at 1
        // s.
        let mut at_scans = edge(&fixed(1));
        let marks = [99, 100, 1999, 2100, 4000].map(|ms| class(&mut at_scans, 7, millis(ms)));
        assert_eq!(marks, [SHORT, LONG, LONG, LONG, SHORT]);
    }

    #[test]
    fn the_steered_threshold_halves_with_too_many_short_flows_and_grows_with_too_few() {
        let config = Config { expiry: None, short_to_long: 3.0, ..Config::default() };
        let mut edge = edge(&config);
        let moved = |edge: &mut ShortFlows, seconds: u64| {
            edge.catch_up(millis(seconds * 1000));
            edge.threshold
        };
        // Four flows have sent 3, 3, 3 and 30 packets. The ratio of three short flows to one long flow equals the
        // target.
        (0..3).for_each(|flow| send(&mut edge, flow, 3, millis(0)));
        send(&mut edge, 3, 30, millis(0));
        assert_eq!(moved(&mut edge, 9), 20, "before the first update");
        assert_eq!(moved(&mut edge, 10), 25, "a ratio of 3 does not exceed 3");
        // With a fourth short flow, the ratio is 4, which is too high until the threshold is below 3.
        send(&mut edge, 4, 3, millis(10_001));
        assert_eq!([20, 30, 40, 50].map(|s| moved(&mut edge, s)), [12, 6, 3, 1]);
        assert_eq!(moved(&mut edge, 60), 6, "none of the five flows is short");
        assert_eq!(moved(&mut edge, 70), 3);
        // All flows are short, so the threshold is halved until it reaches its lower bound.
        let mut edge = self::edge(&config);
        send(&mut edge, 1, 1, millis(0));
        assert_eq!(moved(&mut edge, 1000), 1);
        // All flows are long, so the threshold increases until it reaches its upper bound.
        send(&mut edge, 1, 5000, millis(1_000_001));
        assert_eq!([1010, 1020, 3000, 9000].map(|s| moved(&mut edge, s)), [6, 11, 1000, 1000]);
    }

    #[test]
    fn the_quantile_threshold_yields_the_target_ratio() {
        let config = Config { expiry: None, threshold_rule: ThresholdRule::Quantile, ..Config::default() };
        let mut edge = edge(&config);
        (1..=8).for_each(|flow| send(&mut edge, flow, flow * 10, millis(0)));
        edge.catch_up(millis(10_000));
        assert_eq!(edge.threshold, 60, "6 short, 2 long");
        send(&mut edge, 9, 2000, millis(10_001));
        (10..40).for_each(|flow| send(&mut edge, flow, 1001, millis(10_001)));
        edge.catch_up(millis(20_000));
        assert_eq!(edge.threshold, 1000, "bounded");
    }

    #[test]
    fn the_threshold_is_constant_without_active_flows() {
        for threshold_rule in [ThresholdRule::Steered, ThresholdRule::Quantile] {
            let mut edge = edge(&Config { threshold_rule, ..Config::default() });
            edge.catch_up(millis(100_000));
            assert_eq!(edge.threshold, 20);
            // The flow is inactive when the update occurs at 110 s, which is also the time of a scan.
            send(&mut edge, 1, 50, millis(108_500));
            edge.catch_up(millis(200_000));
            assert_eq!((edge.threshold, edge.counts.len()), (20, 0), "{threshold_rule:?}");
        }
    }

    #[test]
    fn a_pause_of_a_century_is_skipped_at_once() {
        let century = Instant::from_nanos(3_200_000_000_000_000_000);
        for now in [century, Instant::NEVER] {
            for purge in [Purge::AtScans, Purge::AtAge] {
                let tiny = Span::from_millis(1);
                let mut edge = edge(&Config { purge, expiry: Some(tiny), update: tiny, ..Config::default() });
                send(&mut edge, 1, 50, millis(7));
                assert_eq!(class(&mut edge, 1, now), SHORT);
                assert_eq!(edge.counts.len(), 1);
            }
        }
    }

    #[test]
    fn in_a_full_table_the_longest_silent_flow_is_replaced() {
        let mut edge = edge(&Config { max_flows: 2, ..fixed(1) });
        let marks = [1, 2, 1, 3, 1, 2].map(|flow| class(&mut edge, flow, millis(0)));
        assert_eq!(
            marks,
            [SHORT, SHORT, LONG, SHORT, LONG, SHORT],
            "flow 3 replaced flow 2, and flow 2 replaced flow 3"
        );
        assert_eq!(edge.counts.evicted(), 2);
    }
}
