//! RIO-PS: RIO with preferential treatment to short flows.
//!
//! Guo & Matta, "The War Between Mice and Elephants", International Conference on Network Protocols
//! (ICNP), 2001, and the talk about it. Edge routers mark the first packets of every flow short and
//! the rest long; core routers run RIO on the mark. A short packet is judged by the average number
//! of short packets waiting, a long one by the average of the whole queue; thresholds are shares of
//! the buffer.
//!
//! If all packets are long this is RED, draw for draw.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Length, Rate, Size, parameters};

use crate::red::core::EcnRule;
use crate::red::rio::{self, Class, TotalAverage};
use crate::red::spacing::Spacing;
use crate::{Build, Describe, QueueDiscipline, TestCases};

parameters! {
    /// RIO-PS: RIO with two classes, packets of short and of long flows, whose thresholds are shares
    /// of the buffer.
    ///
    /// Packets must be marked short or long; those without a mark are long.
    ///
    /// Where the paper is silent:
    ///
    /// - Thresholds are rounded to whole packets or bytes.
    /// - ECN marks are made below `max_th` only, as in the RIO of ns-2.
    /// - Whether the averages of the paper were those of Clark and Fang or of ns-2 is unknown: `total_average` is a
    ///   choice.
    pub struct Config {
        /// The most that may wait, in packets or bytes (`B`); the packet on the line is not counted.
        pub limit: Length = Length::Packets(500), "Guo & Matta 2001, Table III: 2.5 BDP";
        /// Average below which nothing is dropped early, as a share of `limit`; both classes.
        pub min_share: f64 = 0.15, "Guo & Matta 2001, Table III";
        /// Average of the short packets waiting at which their probability reaches `short_max_p`, as a
        /// share of `limit`.
        pub short_max_share: f64 = 0.35, "Guo & Matta 2001, Table III";
        /// Average queue at which the probability of long packets reaches `long_max_p`, as a share of
        /// `limit`.
        pub long_max_share: f64 = 0.5, "Guo & Matta 2001, Table III";
        /// Drop probability `p_b` of short packets at the end of their line.
        pub short_max_p: f64 = 0.05, "Guo & Matta 2001, Table III";
        /// Drop probability `p_b` of long packets at the end of their line.
        pub long_max_p: f64 = 0.1, "Guo & Matta 2001, Table III";
        /// Weight of the newest sample in both averages (`w_q`): above 0, at most 1.
        pub weight: f64 = 1.0 / 512.0, "Guo & Matta 2001, Table III";
        /// Typical size of a packet: tells how fast the averages fall while the line is idle.
        pub mean_packet: Size = Size::from_bytes(500), "Guo & Matta 2001, Table III";
        /// What happens to an ECN-capable packet that is to be dropped early. Others are always dropped.
        pub ecn: EcnRule = EcnRule::BelowMaxTh, "Guo & Matta 2001, Table III, and ns-2's RIO";
        /// How the drops of a class are spaced, as in RED.
        pub spacing: Spacing = Spacing::Wait, "Guo & Matta 2001, Table III";
        /// Above the end of its line, whether the probability of a class rises on to 1 at twice that
        /// average (true), or every packet is dropped (false).
        pub gentle: bool = true, "Guo & Matta 2001, Table III";
        /// When the average queue that judges long packets takes a sample.
        pub total_average: TotalAverage = TotalAverage::EveryArrival, "Clark & Fang 1998";
    }
}

/// The largest share: a line that ends so far beyond the buffer is all but flat.
const MOST: f64 = 100.0;

impl Config {
    /// The RIO that this is, all checks made.
    fn rio(&self) -> Result<rio::Config, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let Self { limit, min_share, weight, mean_packet, ecn, spacing, gentle, total_average, .. } = *self;
        let problem = format_args!("must be at least 0 and below 1, not {min_share}");
        let is_share = (0.0..1.0).contains(&min_share);
        errors.check(is_share, "min_share", problem);
        let ends = [("short_max_share", self.short_max_share), ("long_max_share", self.long_max_share)];
        for (place, share) in ends {
            let problem =
                format_args!("must exceed min_share, {min_share}, and be at most {MOST}, not {share}");
            let is_beyond = (share > min_share || !is_share) && share <= MOST;
            errors.check(is_beyond, place, problem);
            let end = part(limit, share);
            let problem = format_args!("is too small: min_share and {place} both round to {end}");
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
            mean_packet,
            gentle,
            spacing,
            ecn,
            ..rio::Config::default()
        };
        // The names a user knows; thresholds follow from the shares.
        for error in rio.check().err().into_iter().flatten() {
            match error.place.as_str() {
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

/// This share of `limit`, in whole packets or bytes.
fn part(limit: Length, share: f64) -> Length {
    let part = |whole: u64| libm::round(whole as f64 * share) as u64;
    match limit {
        Length::Packets(packets) => Length::Packets(part(packets)),
        Length::Bytes(bytes) => Length::Bytes(part(bytes)),
    }
}
