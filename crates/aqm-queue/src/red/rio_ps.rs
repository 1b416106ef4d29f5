//! RIO-PS: RIO with preferential treatment of short flows.
//!
//! Guo & Matta, "The War Between Mice and Elephants", International Conference on Network Protocols (ICNP), 2001, and
//! the talk about it. Edge routers label the first packets of every flow as short and the flow's other packets as long.
//! Core routers run RIO on this label. The drop probability of a short packet depends on the average number of queued
//! short packets. The drop probability of a long packet depends on the average of the whole queue. Thresholds are
//! fractions of the buffer.
//!
//! If all packets are long, this queue behaves identically to RED, including the sequence of random numbers.
//!
//! The documentation of [`Config`], which is printed in the reference, lists the differences from the sources and
//! aqmlab's choices where the sources are silent.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Length, Rate, Size, parameters};

use crate::red::core::{EcnRule, Rules};
use crate::red::rio::{self, Class, TotalAverage};
use crate::red::spacing::Spacing;
use crate::{Build, Describe, QueueDiscipline, TestCases};

parameters! {
    /// RIO-PS: RIO with one class for packets of short flows and one for packets of long flows, and with thresholds
    /// that are fractions of the buffer.
    ///
    /// Packets must be labelled as short or long. A packet without a label is long.
    ///
    /// aqmlab's choices where the paper is silent:
    ///
    /// - Thresholds are rounded to whole packets or bytes.
    /// - Packets are marked only while the average is below `max_th`, as in ns-2's RIO.
    /// - The paper does not state whether its averages are those of Clark and Fang or of ns-2, so `total_average` is a
    ///   parameter.
    pub struct Config {
        /// Maximum backlog in packets or bytes (`B`), excluding the packet in transmission.
        pub limit: Length = Length::Packets(500), "Guo & Matta 2001, Table III: 2.5 BDP";
        /// Average below which no packet of either class is dropped early, as a fraction of `limit`.
        pub min_share: f64 = 0.15, "Guo & Matta 2001, Table III";
        /// Average number of queued short packets at which their drop probability reaches `short_max_p`, as a fraction
        /// of `limit`.
        pub short_max_share: f64 = 0.35, "Guo & Matta 2001, Table III";
        /// Average queue at which the drop probability of long packets reaches `long_max_p`, as a fraction of `limit`.
        pub long_max_share: f64 = 0.5, "Guo & Matta 2001, Table III";
        /// Drop probability `p_b` of short packets just below `short_max_share`.
        pub short_max_p: f64 = 0.05, "Guo & Matta 2001, Table III";
        /// Drop probability `p_b` of long packets just below `long_max_share`.
        pub long_max_p: f64 = 0.1, "Guo & Matta 2001, Table III";
        /// Weight of the newest sample in both averages (`w_q`): above 0, at most 1.
        pub weight: f64 = 1.0 / 512.0, "Guo & Matta 2001, Table III";
        /// Typical packet size, which determines how fast the averages decay while the link is idle.
        pub mean_packet: Size = Size::from_bytes(500), "Guo & Matta 2001, Table III";
        /// Treatment of an ECN-capable packet that is selected for an early drop. A selected packet that is not
        /// ECN-capable is always dropped.
        pub ecn: EcnRule = EcnRule::BelowMaxTh, "Guo & Matta 2001, Table III, and ns-2's RIO";
        /// Spacing of the drops of a class, as in RED.
        pub spacing: Spacing = Spacing::Wait, "Guo & Matta 2001, Table III";
        /// Whether the drop probability of a class rises to 1 at twice the upper threshold of the class. If false,
        /// every packet of the class is dropped above this threshold.
        pub gentle: bool = true, "Guo & Matta 2001, Table III";
        /// Arrivals at which the average that applies to long packets gets a sample.
        pub total_average: TotalAverage = TotalAverage::EveryArrival, "Clark & Fang 1998";
    }
}

/// Maximum share. At this share, the upper threshold is so far above the buffer size that the drop function is
/// practically flat.
const MAX_SHARE: f64 = 100.0;

impl Config {
    /// Checks all parameters and returns the equivalent parameters of RIO.
    fn rio(&self) -> Result<rio::Config, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { limit, min_share, weight, mean_packet, ecn, spacing, gentle, total_average, .. } = *self;
        let problem = format_args!("must be at least 0 and below 1 (got {min_share})");
        let is_share = (0.0..1.0).contains(&min_share);
        errors.check(is_share, "min_share", problem);
        let ends = [("short_max_share", self.short_max_share), ("long_max_share", self.long_max_share)];
        for (name, share) in ends {
            let problem =
                format_args!("must exceed min_share ({min_share}) and be at most {MAX_SHARE} (got {share})");
            let is_beyond = (share > min_share || !is_share) && share <= MAX_SHARE;
            errors.check(is_beyond, name, problem);
            let end = part(limit, share);
            let problem = format_args!("is too small: min_share and {name} both round to {end}");
            let is_line = !is_share || !is_beyond || end != part(limit, min_share);
            errors.check(is_line, "limit", problem);
        }
        let has_shares = errors.is_empty();
        let class =
            |share, max_p| Class { min_th: part(limit, min_share), max_th: part(limit, share), max_p };
        let rio = rio::Config {
            classes: vec![
                class(self.short_max_share, self.short_max_p),
                class(self.long_max_share, self.long_max_p),
            ],
            total_average,
            weight,
            limit,
            rules: Rules { mean_packet, gentle, spacing, ecn, ..Rules::default() },
            ..rio::Config::default()
        };
        // Errors must use RIO-PS's parameter names, because RIO's thresholds are derived from RIO-PS's shares.
        for error in rio.check().err().into_iter().flatten() {
            match error.path.as_str() {
                "classes.0.max_p" => errors.add(ConfigError::at("short_max_p", error.problem)),
                "classes.1.max_p" => errors.add(ConfigError::at("long_max_p", error.problem)),
                "limit" | "classes.0.max_th" | "classes.1.max_th" if !has_shares => {}
                _ => errors.add(error),
            }
        }
        errors.finish(rio)
    }
}

impl Build for Config {
    fn build(&self, rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        self.rio()?.build(rate)
    }
}

impl Describe for Config {
    fn drop_curve(&self, average: f64, relative_window: f64, class: u8) -> Option<f64> {
        self.rio().ok()?.drop_curve(average, relative_window, class)
    }

    fn needs_classes(&self) -> bool {
        true
    }
}

impl TestCases for Config {}

/// Returns the given share of `limit`, rounded to whole packets or bytes.
fn part(limit: Length, share: f64) -> Length {
    let part = |whole: u64| libm::round(whole as f64 * share) as u64;
    match limit {
        Length::Packets(packets) => Length::Packets(part(packets)),
        Length::Bytes(bytes) => Length::Bytes(part(bytes)),
    }
}
