//! Exponential: P(X > x) = exp(-x/`mean`). For example, the gaps of a Poisson process are exponential. If sizes are
//! exponential, the number of flows in progress has the same distribution under processor sharing as under
//! first-in-first-out service (L. Kleinrock, "Queueing Systems" II, 1976, section 4.4).

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit};

parameters! {
    /// Exponential: the distribution of the gaps of a Poisson process, for example.
    pub struct Config {
        /// Mean.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
    }
}

impl Config {
    /// Returns the parameters of an exponential distribution with this mean.
    pub const fn of(mean: Amount) -> Self {
        Self { mean: Some(mean) }
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        Ok(Exponential { mean: unit.read_mean("mean", self.mean)? }.into())
    }
}

/// Exponential distribution.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// The mean.
    pub mean: f64,
}

impl Distribution for Exponential {
    fn sample(&self, rng: &mut Rng) -> f64 {
        -libm::log(rng.uniform_positive()) * self.mean
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        libm::exp(-x / self.mean)
    }

    fn support(&self) -> (f64, f64) {
        (0.0, f64::INFINITY)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        self.mean * (self.survival(from) - self.survival(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::assert_like;

    #[test]
    fn the_values_are_those_of_rand_distr() {
        assert_like(&Exponential { mean: 0.25 }, &rand_distr::Exp::new(4.0).unwrap());
    }
}
