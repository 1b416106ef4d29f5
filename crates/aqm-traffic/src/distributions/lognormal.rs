//! Lognormal: the logarithm of a value is normally distributed with standard deviation `sigma`. P. Barford & M.
//! Crovella, "Generating Representative Web Workloads for Network and Server Performance Evaluation", 1998, use this
//! distribution for the body of Web file sizes. The number of uniform random numbers used varies from value to value
//! (`normal.rs`).

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Normal, Unit, check_range, normal};

parameters! {
    /// Lognormal: the logarithm of a value is normally distributed.
    pub struct Config {
        /// Mean of the values, not the mean of their logarithms.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
        /// Standard deviation of the natural logarithms of the values.
        pub sigma: f64 = 1.318, "Barford & Crovella 1998: body of Web file sizes";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        check_range("sigma", self.sigma, 0.01, 5.0)?;
        Ok(Lognormal { mu: libm::log(mean) - self.sigma * self.sigma / 2.0, sigma: self.sigma, mean }.into())
    }
}

/// Lognormal distribution.
#[derive(Clone, Copy, Debug)]
pub struct Lognormal {
    /// Mean of the natural logarithms of the values.
    mu: f64,
    /// Standard deviation of the natural logarithms of the values.
    sigma: f64,
    mean: f64,
}

impl Lognormal {
    /// Returns the difference between the logarithm of `x` and the mean of the logarithms, in standard deviations.
    fn score(&self, x: f64) -> f64 {
        (libm::log(x) - self.mu) / self.sigma
    }
}

impl Distribution for Lognormal {
    fn sample(&self, rng: &mut Rng) -> f64 {
        libm::exp(Normal { mean: self.mu, deviation: self.sigma }.sample(rng))
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        if x <= 0.0 { 1.0 } else { normal::survival(self.score(x)) }
    }

    fn support(&self) -> (f64, f64) {
        (0.0, f64::INFINITY)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        // Integration by parts: x P(X > x) plus the contribution of values above x to the mean.
        let beyond = |x: f64| self.mean * normal::survival(self.score(x) - self.sigma);
        let area = |x: f64| x * self.survival(x) - beyond(x);
        area(to) - area(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::assert_like;

    #[test]
    fn the_values_are_those_of_rand_distr() {
        // The parameters 9.357 and 1.318 describe the body of the distribution of Web file sizes.
        let mean = libm::exp(9.357 + 1.318 * 1.318 / 2.0);
        let ours = Lognormal { mu: 9.357, sigma: 1.318, mean };
        assert_like(&ours, &rand_distr::LogNormal::new(9.357, 1.318).unwrap());
    }
}
