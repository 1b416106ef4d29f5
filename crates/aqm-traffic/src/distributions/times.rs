//! Times as they are drawn.

use aqm_net::{Rng, Span};

use super::{AnyDistribution, Distribution};

/// A distribution of times.
#[derive(Clone, Debug)]
pub struct Times {
    distribution: AnyDistribution,
    /// What values are multiplied by.
    factor: f64,
}

impl Times {
    pub(super) fn new(distribution: AnyDistribution, factor: f64) -> Self {
        Self { distribution, factor }
    }

    /// One time, not rounded.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        self.distribution.sample(rng) * self.factor
    }

    /// One time in nanoseconds, rounded to a whole number of them.
    pub(crate) fn sample_span(&self, rng: &mut Rng) -> Span {
        Span::from_nanos((self.sample(rng) + 0.5) as u64)
    }

    /// The mean time.
    pub fn mean(&self) -> f64 {
        self.distribution.mean() * self.factor
    }

    /// Whether all times are the same.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.distribution, AnyDistribution::Constant(_))
    }
}
