//! Sizes as they are drawn: whole bytes, at least one, and what a load needs to know of them.

use aqm_net::{ConfigError, Rng};

use super::{AnyDistribution, Config, Distribution, Unit};
use crate::Packetisation;

/// A distribution of sizes in whole bytes.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// In units of so many bytes.
    distribution: AnyDistribution,
    unit: u64,
    /// Whether values are rounded up to whole units, or else to the nearest.
    rounds_up: bool,
    /// In bytes.
    mean: f64,
}

/// More bytes than this are taken for a slip of the pen.
const MOST_BYTES: f64 = 1e15;

/// After so many packets the sum for the mean becomes an integral.
const ONE_BY_ONE: u64 = 10_000;

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
        if greatest.is_finite() && greatest * unit as f64 > MOST_BYTES {
            let most = libm::floor(MOST_BYTES / unit as f64);
            return Err(ConfigError::at("maximum", format!("must be at most {most}, is {greatest}")));
        }
        let rounds_up = packets || distribution.rounds_up();
        let mean = if rounds_up { mean_rounded_up(&distribution) } else { distribution.mean() };
        Ok(Self { distribution, unit, rounds_up, mean: mean * unit as f64 })
    }

    /// One size in bytes.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let value = self.distribution.sample(rng);
        // `as` saturates, and no sum of sizes comes near its end.
        let units = if self.rounds_up { libm::ceil(value) } else { value + 0.5 } as u64;
        units.max(1).saturating_mul(self.unit)
    }

    /// One size of the size-biased distribution, in bytes.
    pub fn sample_size_biased(&self, rng: &mut Rng) -> u64 {
        (self.distribution.sample_size_biased(rng) * self.unit as f64 + 0.5) as u64
    }

    /// The mean size in bytes: of sizes rounded to the nearest byte the one before rounding, from which it
    /// differs by a fraction of a byte.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The chance that a size is at least `bytes`.
    pub(crate) fn at_least(&self, bytes: u64) -> f64 {
        if bytes <= 1 {
            1.0
        } else if self.rounds_up {
            self.distribution.survival((bytes.div_ceil(self.unit) - 1) as f64)
        } else {
            // Sizes from here half a byte down are rounded up to here.
            self.distribution.survival(bytes as f64 - 0.5)
        }
    }

    /// The integral of the survival function from `from` to `to` bytes: what is expected of the sizes in that
    /// range.
    pub(crate) fn survival_between(&self, from: f64, to: f64) -> f64 {
        let unit = self.unit as f64;
        self.distribution.survival_between(from / unit, to / unit) * unit
    }

    /// The least size, in bytes.
    pub fn minimum(&self) -> u64 {
        (self.distribution.support().0 as u64).max(1).saturating_mul(self.unit)
    }

    /// The greatest size, in bytes; saturates where there is none.
    pub fn maximum(&self) -> u64 {
        (self.distribution.support().1 as u64).max(1).saturating_mul(self.unit)
    }
}

/// The mean of values that are rounded up: the sum of P(X > k) over k = 0, 1, ...
fn mean_rounded_up(distribution: &AnyDistribution) -> f64 {
    if distribution.is_whole() {
        return distribution.mean();
    }
    let (least, most) = distribution.support();
    let (first, last) = (least as u64, libm::ceil(most) as u64);
    let one_by_one = last.min(first.saturating_add(ONE_BY_ONE));
    let summed: f64 = (first..one_by_one).map(|k| distribution.survival(k as f64)).sum();
    // The midpoint rule for the rest.
    let rest = if one_by_one < last {
        distribution.survival_between(one_by_one as f64 - 0.5, last as f64 - 0.5)
    } else {
        0.0
    };
    first as f64 + summed + rest
}
