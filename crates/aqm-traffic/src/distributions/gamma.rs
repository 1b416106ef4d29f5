//! Gamma: the density is proportional to x^(`shape`-1) exp(-`shape` x/`mean`). If the shape is an integer, the gamma
//! distribution is an Erlang distribution.
//!
//! Source: G. Marsaglia & T. W. Tsang, "A Simple Method for Generating Gamma Variables", 2000; for shapes below 1, the
//! method of section 6 of the paper is used. The number of uniform random numbers used varies from value to value.

use aqm_net::{ConfigError, Rng, parameters};

use super::incomplete_gamma::{lower, upper};
use super::{Amount, AnyDistribution, Build, Distribution, Normal, Unit, check_range};

parameters! {
    /// Gamma: for shapes above 1, a distribution between constant and exponential; if the shape is an integer, an
    /// Erlang distribution.
    pub struct Config {
        /// Mean.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
        /// Inverse of the squared coefficient of variation. If the value is 1, the distribution is exponential.
        pub shape: f64 = 2.0, "aqmlab's choice";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        check_range("shape", self.shape, 0.01, 1000.0)?;
        Ok(Gamma { shape: self.shape, mean }.into())
    }
}

/// Gamma distribution.
#[derive(Clone, Copy, Debug)]
pub struct Gamma {
    /// Inverse of the squared coefficient of variation.
    pub shape: f64,
    /// The mean.
    pub mean: f64,
}

impl Gamma {
    /// Returns `x` as a multiple of the scale.
    fn scaled(&self, x: f64) -> f64 {
        x * self.shape / self.mean
    }
}

/// Draws a value for a shape of at least 1, as a multiple of the scale.
fn standard(shape: f64, rng: &mut Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = Normal::pair(rng)[0];
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if libm::log(rng.uniform_positive()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return d * v;
        }
    }
}

impl Distribution for Gamma {
    fn sample(&self, rng: &mut Rng) -> f64 {
        let value = if self.shape >= 1.0 {
            standard(self.shape, rng)
        } else {
            let power = libm::exp(libm::log(rng.uniform_positive()) / self.shape);
            standard(self.shape + 1.0, rng) * power
        };
        value / self.shape * self.mean
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        upper(self.shape, self.scaled(x))
    }

    fn support(&self) -> (f64, f64) {
        (0.0, f64::INFINITY)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        // Integration by parts: x P(X > x) plus the contribution of values below x to the mean.
        let up_to = |x: f64| x * self.survival(x) + self.mean * lower(self.shape + 1.0, self.scaled(x));
        up_to(to) - up_to(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::assert_like;

    #[test]
    fn the_values_are_those_of_rand_distr() {
        for shape in [0.4, 1.0, 2.35, 30.0] {
            assert_like(&Gamma { shape, mean: 1.0 }, &rand_distr::Gamma::new(shape, 1.0 / shape).unwrap());
        }
    }
}
