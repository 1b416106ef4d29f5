//! Random times.

use aqm_net::{Rng, Span};

use super::{AnyDistribution, Distribution};

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Times {
    distribution: AnyDistribution,
    /// Factor by which the values of the distribution are multiplied.
    factor: f64,
}

impl Times {
    pub(super) fn new(distribution: AnyDistribution, factor: f64) -> Self {
        Self { distribution, factor }
    }

    /// Draws a time. The time is not rounded.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        self.distribution.sample(rng) * self.factor
    }

    /// Draws a time in nanoseconds, rounded to a whole nanosecond.
    pub(crate) fn sample_span(&self, rng: &mut Rng) -> Span {
        Span::from_nanos((self.sample(rng) + 0.5) as u64)
    }

    /// Returns the mean time.
    pub fn mean(&self) -> f64 {
        self.distribution.mean() * self.factor
    }

    /// Returns whether all times are equal.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.distribution, AnyDistribution::Constant(_))
    }
}
