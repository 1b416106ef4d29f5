//! Random sizes, which are integers of at least one byte, and the statistics that are needed to compute a load.

use aqm_net::{ConfigError, Rng};

use super::{AnyDistribution, Config, Distribution, Unit};
use crate::Packetisation;

/// A distribution of sizes in whole bytes.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Distribution of the sizes, as multiples of `unit` bytes.
    distribution: AnyDistribution,
    unit: u64,
    /// Whether values are rounded up to whole units. Otherwise, values are rounded to the nearest unit.
    rounds_up: bool,
    /// Mean in bytes.
    mean: f64,
}

/// Maximum size in bytes. A larger size is assumed to be a typing error.
const MAX_BYTES: f64 = 1e15;

/// Number of packets over which the mean is computed as a sum. For the remaining packets, an integral replaces the sum.
const SUMMED_PACKETS: u64 = 10_000;

impl Sizes {
    pub(super) fn build(
        config: &Config,
        packetisation: Option<&dyn Packetisation>,
    ) -> Result<Self, ConfigError> {
        let mut unit = if packetisation.is_some() { Unit::BytesOrPackets } else { Unit::Bytes };
        let distribution = config.build(&mut unit)?;
        let packets = unit == Unit::Packets;
        let unit =
            packetisation.filter(|_| packets).map_or(1, |packetisation| packetisation.payload().max(1));
        let greatest = distribution.support().1;
        if greatest.is_finite() && greatest * unit as f64 > MAX_BYTES {
            let most = libm::floor(MAX_BYTES / unit as f64);
            return Err(ConfigError::at("maximum", format!("must be at most {most} (got {greatest})")));
        }
        let rounds_up = packets || distribution.rounds_up();
        let mean = if rounds_up { mean_rounded_up(&distribution) } else { distribution.mean() };
        Ok(Self { distribution, unit, rounds_up, mean: mean * unit as f64 })
    }

    /// Draws a size in bytes.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let value = self.distribution.sample(rng);
        // The conversion with `as` saturates. The maximum integer is so large that no sum of sizes reaches it.
        let units = if self.rounds_up { libm::ceil(value) } else { value + 0.5 } as u64;
        units.max(1).saturating_mul(self.unit)
    }

    /// Draws a size, in bytes, from the size-biased distribution.
    pub fn sample_size_biased(&self, rng: &mut Rng) -> u64 {
        (self.distribution.sample_size_biased(rng) * self.unit as f64 + 0.5) as u64
    }

    /// Returns the mean size in bytes. If sizes are rounded to the nearest byte, this method returns the mean before
    /// rounding, which differs from the mean of the rounded sizes by a fraction of a byte.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the probability that a size is at least `bytes`.
    pub(crate) fn at_least(&self, bytes: u64) -> f64 {
        if bytes <= 1 {
            1.0
        } else if self.rounds_up {
            self.distribution.survival((bytes.div_ceil(self.unit) - 1) as f64)
        } else {
            // Sizes that are smaller than `bytes` by at most half a byte are rounded up to `bytes`.
            self.distribution.survival(bytes as f64 - 0.5)
        }
    }

    /// Returns the integral of the survival function from `from` to `to` bytes, which is the contribution of this range
    /// to the mean size.
    pub(crate) fn survival_between(&self, from: f64, to: f64) -> f64 {
        let unit = self.unit as f64;
        self.distribution.survival_between(from / unit, to / unit) * unit
    }

    /// Returns the minimum size, in bytes.
    pub fn minimum(&self) -> u64 {
        (self.distribution.support().0 as u64).max(1).saturating_mul(self.unit)
    }

    /// Returns the maximum size, in bytes, or the maximum integer if sizes have no maximum.
    pub fn maximum(&self) -> u64 {
        (self.distribution.support().1 as u64).max(1).saturating_mul(self.unit)
    }
}

/// Returns the mean of values that are rounded up, which is the sum of P(X > k) over k = 0, 1, ...
fn mean_rounded_up(distribution: &AnyDistribution) -> f64 {
    if distribution.is_whole() {
        return distribution.mean();
    }
    let (least, most) = distribution.support();
    let (first, last) = (least as u64, libm::ceil(most) as u64);
    let one_by_one = last.min(first.saturating_add(SUMMED_PACKETS));
    let summed: f64 = (first..one_by_one).map(|k| distribution.survival(k as f64)).sum();
    // The remaining terms are approximated with the midpoint rule.
    let rest = if one_by_one < last {
        distribution.survival_between(one_by_one as f64 - 0.5, last as f64 - 0.5)
    } else {
        0.0
    };
    first as f64 + summed + rest
}
