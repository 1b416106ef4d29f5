//! The parameters that Adaptive RED takes from the line: thresholds and weight.
//!
//! S. Floyd, R. Gummadi, S. Shenker, "Adaptive RED: An Algorithm for Increasing the Robustness of
//! RED's Active Queue Management", 2001, as ns-2 has it: with `C` packets of the mean size a
//! second, `min_th = max(5, target_delay C / 2)`, `max_th = 3 min_th`, `weight = 1 - exp(-1 / (10 R C))`.
//! Linux's are those of its command `tc` (its manual page tc-red; the weight is in `tc.rs`).
//!
//! Ours, where the sources are silent:
//! - Automatic thresholds are in the unit of `limit`, and need not be whole.
//! - `R` is a parameter: ns-2 takes three times the delay of the link and of a packet on it, if that is
//!   more than 100 ms, but a queue knows its line's rate only. ns-2's `q_weight_` 0 and -2 are 100 ms and 10 ms.

use aqm_net::{ConfigError, Length, Rate};

use crate::adaptive_red::{Config, Preset};
use crate::tc;

/// The automatic thresholds are never closer to an empty queue, in packets.
const LEAST_MIN_TH: f64 = 5.0;

impl Config {
    /// The thresholds, given or not.
    pub(crate) fn thresholds(&self, rate: Rate) -> Result<Thresholds, ConfigError> {
        let in_bytes = self.min_th.unwrap_or(self.limit).in_bytes();
        if self.max_th.is_some_and(|max_th| max_th.in_bytes() != in_bytes) {
            let (name, like) = self.min_th.map_or(("limit", self.limit), |min_th| ("min_th", min_th));
            return wrong("max_th", format!("must be in the unit of {name}, {like}"));
        }
        let given = |threshold: Option<Length>| threshold.map(|length| length.count() as f64);
        let (min, max) = (given(self.min_th), given(self.max_th));
        if self.preset == Preset::Linux {
            if max.is_none() && self.limit.in_bytes() != in_bytes {
                return wrong("max_th", format!("must be given, as limit, {}, has another unit", self.limit));
            }
            let max = max.unwrap_or((self.limit.count() / 4) as f64);
            if min.is_none() && max < 3.0 {
                return wrong("limit", "must be at least 12p or 12B, or write min_th and max_th".to_owned());
            }
            return Ok(Thresholds { min: min.unwrap_or(libm::floor(max / 3.0)), max, in_bytes });
        }
        let target = self.target_delay.seconds() * self.capacity(rate);
        let unit = if in_bytes { self.mean_packet.bytes() as f64 } else { 1.0 };
        let min = min.unwrap_or(LEAST_MIN_TH.max(target / 2.0) * unit);
        Ok(Thresholds { min, max: max.unwrap_or(3.0 * min), in_bytes })
    }

    /// Packets of the mean size that the line sends in a second (`ptc`).
    fn capacity(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.mean_packet.bytes() as f64
    }

    /// The weight if it is not given.
    pub(crate) fn automatic_weight(&self, thresholds: &Thresholds, rate: Rate) -> Result<f64, ConfigError> {
        if self.preset == Preset::Linux {
            return self.weight_for_burst(thresholds);
        }
        if self.round_trip.is_zero() {
            return wrong("round_trip", "must not be 0s".to_owned());
        }
        Ok(-libm::expm1(-1.0 / (10.0 * self.round_trip.seconds() * self.capacity(rate))))
    }

    /// tc's weight; Linux's thresholds are whole.
    fn weight_for_burst(&self, thresholds: &Thresholds) -> Result<f64, ConfigError> {
        let unit = if thresholds.in_bytes { self.mean_packet.bytes() } else { 1 };
        let log = tc::weight_log(self.burst, thresholds.min as u64, thresholds.max as u64, unit)?;
        Ok(tc::power_of_half(log))
    }
}

/// RED's thresholds, not necessarily whole.
pub(crate) struct Thresholds {
    pub min: f64,
    pub max: f64,
    /// Whether they count bytes.
    pub in_bytes: bool,
}

impl Thresholds {
    /// A number of packets or bytes, as RED's parameters have it.
    pub fn whole(&self, count: f64) -> Length {
        if self.in_bytes { Length::Bytes(count as u64) } else { Length::Packets(count as u64) }
    }
}

/// What is wrong, and where.
pub(crate) fn wrong<T>(place: &str, problem: String) -> Result<T, ConfigError> {
    Err(ConfigError::at(place, problem))
}

#[cfg(test)]
mod tests {
    use aqm_net::{Size, Span};

    use super::*;

    #[test]
    fn automatic_thresholds_follow_rate_and_target_delay() {
        // Rate, mean packet, target delay in ms; thresholds in packets.
        for (bps, mean, delay, min, max) in [
            (10_000_000, 500, 5, 6.25, 18.75),
            (10_000_000, 1000, 5, 5.0, 15.0),
            (10_000_000, 500, 60, 75.0, 225.0),
            (10_000_000, 1000, 60, 37.5, 112.5),
        ] {
            for (limit, unit) in [(Length::Packets(500), 1.0), (Length::Bytes(500_000), mean as f64)] {
                let (mean_packet, target_delay) = (Size::from_bytes(mean), Span::from_millis(delay));
                let config = Config { limit, mean_packet, target_delay, ..Config::default() };
                let found = config.thresholds(Rate::from_bps(bps)).unwrap();
                assert!((found.min - min * unit).abs() < 1e-9 && (found.max - max * unit).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn automatic_weights_are_those_of_the_paper_and_of_tc() {
        let weight = |config: &Config| {
            let rate = Rate::from_bps(10_000_000);
            config.automatic_weight(&config.thresholds(rate).unwrap(), rate).unwrap()
        };
        assert!((weight(&Config::default()) / 4.0e-4 - 1.0).abs() < 1e-3);
        let bigger = Config { mean_packet: Size::from_bytes(1000), ..Config::default() };
        assert!((weight(&bigger) / 8.0e-4 - 1.0).abs() < 1e-3);
        for (min, burst, log) in [(30_000, 52, 5), (30_000, 243, 10), (30_000, 270, 11), (7_500, 14, 4)] {
            let linux = Config {
                preset: Preset::Linux,
                min_th: Some(Length::Bytes(min)),
                max_th: Some(Length::Bytes(3 * min)),
                limit: Length::Bytes(400_000),
                burst: Some(burst),
                ..bigger.clone()
            };
            assert_eq!(weight(&linux), libm::pow(0.5, f64::from(log)), "{min} {burst}");
        }
    }
}
