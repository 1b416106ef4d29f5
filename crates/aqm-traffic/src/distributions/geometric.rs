//! Geometric: the number of trials until the first success, with P(X > k) = (1 - 1/`mean`)^k.
//!
//! Values are drawn by inversion (Devroye 1986, X.2). If the mean is 1, all values are 1, and drawing a value does not
//! use a random number.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit};

parameters! {
    /// Geometric: positive integers, where the probability of each integer is a constant multiple of the probability of
    /// the previous integer.
    pub struct Config {
        /// Mean, at least 1.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
    }
}

/// Maximum mean. A larger mean is assumed to be a typing error, and would result in values beyond the range in which an
/// `f64` represents all integers exactly.
const MAX_MEAN: f64 = 1e15;

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        if !(1.0..=MAX_MEAN).contains(&mean) {
            return Err(ConfigError::at("mean", format!("must be between 1 and {MAX_MEAN:e} (got {mean})")));
        }
        Ok(Geometric::new(mean).into())
    }
}

/// Geometric distribution.
#[derive(Clone, Copy, Debug)]
pub struct Geometric {
    mean: f64,
    /// Logarithm of the probability that a trial fails; minus infinity if all trials succeed.
    fails: f64,
}

impl Geometric {
    /// Creates a geometric distribution with this mean, which must be at least 1.
    pub fn new(mean: f64) -> Self {
        Self { mean, fails: libm::log(1.0 - 1.0 / mean) }
    }
}

impl Distribution for Geometric {
    fn sample(&self, rng: &mut Rng) -> f64 {
        if self.fails == f64::NEG_INFINITY {
            return 1.0;
        }
        1.0 + libm::floor(libm::log(rng.uniform_positive()) / self.fails)
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        if x < 1.0 { 1.0 } else { libm::exp(self.fails * libm::floor(x)) }
    }

    fn support(&self) -> (f64, f64) {
        (1.0, if self.mean > 1.0 { f64::INFINITY } else { 1.0 })
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        // The integral from `x` to infinity is the sum of the rest of the step that contains `x` and all later steps.
        let beyond = |x: f64| {
            let step = libm::floor(x);
            libm::exp(self.fails * step) * (step + 1.0 - x + (self.mean - 1.0))
        };
        beyond(from) - beyond(to)
    }

    fn is_whole(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;

    #[test]
    fn each_number_is_as_likely_as_it_should_be() {
        let geometric = Geometric::new(4.0);
        let mut rng = Streams::new(1).named("geometric", 0);
        let samples: Vec<f64> = (0..40_000).map(|_| geometric.sample(&mut rng)).collect();
        for k in 1..10 {
            let k = f64::from(k);
            let n = samples.iter().filter(|&&value| value == k).count() as f64;
            let expected = 40_000.0 * 0.25 * libm::pow(0.75, k - 1.0);
            assert!((n - expected).abs() < 3.3 * expected.sqrt(), "{k}: {n} {expected}");
        }
        let one = Geometric::new(1.0);
        assert!((0..100).all(|_| one.sample(&mut rng) == 1.0) && one.survival(1.0) == 0.0);
    }
}
