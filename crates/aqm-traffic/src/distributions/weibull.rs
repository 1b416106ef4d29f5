//! Weibull: P(X > x) = exp(-(x/scale)^`shape`). For shapes below 1, the tail is heavier than that of an exponential
//! distribution and lighter than that of a Pareto distribution.

use aqm_net::{ConfigError, Rng, parameters};

use super::incomplete_gamma::lower;
use super::{Amount, AnyDistribution, Build, Distribution, Unit, check_range};

parameters! {
    /// Weibull: for shapes below 1, a distribution whose tail is heavier than an exponential tail and lighter than a
    /// Pareto tail.
    pub struct Config {
        /// Mean.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
        /// Shape of the tail. A smaller value results in a heavier tail; if the value is 1, the distribution is
        /// exponential.
        pub shape: f64 = 0.5, "aqmlab's choice";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        check_range("shape", self.shape, 0.2, 10.0)?;
        let scale = mean / libm::tgamma(1.0 + 1.0 / self.shape);
        Ok(Weibull { shape: self.shape, scale }.into())
    }
}

/// Weibull distribution.
#[derive(Clone, Copy, Debug)]
pub struct Weibull {
    /// Shape of the tail. If the value is below 1, the tail is heavier than that of an exponential distribution.
    pub shape: f64,
    /// The value that is exceeded with probability 1/e.
    pub scale: f64,
}

impl Weibull {
    /// Returns the value that is exceeded with probability `p`. This function is the inverse of the survival function.
    pub(crate) fn exceeded_with(self, p: f64) -> f64 {
        self.scale * libm::exp(libm::log(-libm::log(p)) / self.shape)
    }

    /// Returns (`x`/scale)^shape.
    fn power(self, x: f64) -> f64 {
        libm::exp(libm::log(x / self.scale) * self.shape)
    }
}

impl Distribution for Weibull {
    fn sample(&self, rng: &mut Rng) -> f64 {
        self.exceeded_with(rng.uniform_positive())
    }

    fn mean(&self) -> f64 {
        self.scale * libm::tgamma(1.0 + 1.0 / self.shape)
    }

    fn survival(&self, x: f64) -> f64 {
        libm::exp(-self.power(x))
    }

    fn support(&self) -> (f64, f64) {
        (0.0, f64::INFINITY)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        let up_to = |x: f64| lower(1.0 / self.shape, self.power(x));
        self.mean() * (up_to(to) - up_to(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::assert_like;

    #[test]
    fn the_values_are_those_of_rand_distr() {
        let other = rand_distr::Weibull::new(305.0, 0.63).unwrap();
        assert_like(&Weibull { shape: 0.63, scale: 305.0 }, &other);
    }
}
