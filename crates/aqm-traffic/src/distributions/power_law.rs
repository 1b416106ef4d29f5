//! Power law: a distribution between two bounds with a density proportional to x^(-1-`exponent`). The distribution is
//! bounded Pareto if the exponent is positive, and log-uniform if the exponent is zero. The formulas are exact for all
//! exponents. Therefore, size-biased values, which also follow a power law, can be drawn as well.
//!
//! In this distribution, inversion starts at the lower bound, whereas in `bounded-pareto`, it starts at the upper
//! bound. Generated traces use the power law.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit, check_range, read_bounds};

parameters! {
    /// Power law between two bounds: bounded Pareto, log-uniform, or a distribution whose density increases.
    pub struct Config {
        /// Exponent. The density is proportional to x^(-1-exponent); if the exponent is 0, the distribution is
        /// log-uniform.
        pub exponent: f64 = 1.2, "aqmlab's choice";
        /// Minimum value.
        pub minimum: Option<Amount> = None, "no default: required";
        /// Maximum value, in the same unit as the minimum.
        pub maximum: Option<Amount> = None, "no default: required";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        check_range("exponent", self.exponent, -10.0, 10.0)?;
        let (least, most) = read_bounds(unit, self.minimum, self.maximum)?;
        if !(least > 0.0 && least < most) {
            return Err(ConfigError::at(
                "maximum",
                "must be greater than the minimum; the minimum must be greater than zero",
            ));
        }
        Ok(PowerLaw { exponent: self.exponent, least, most }.into())
    }
}

/// Power law between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct PowerLaw {
    /// Exponent. The density is proportional to x^(-1-`exponent`).
    pub exponent: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
}

impl Distribution for PowerLaw {
    fn sample(&self, rng: &mut Rng) -> f64 {
        let (p, log) = (rng.uniform(), self.log_ratio());
        if self.exponent.abs() * log < 1e-9 {
            return self.least * libm::exp(p * log);
        }
        let within = libm::expm1(-self.exponent * log);
        self.least * libm::exp(-libm::log1p(p * within) / self.exponent)
    }

    fn mean(&self) -> f64 {
        self.least * self.moment(-1.0) / self.moment(0.0)
    }

    fn survival(&self, x: f64) -> f64 {
        if x < self.least {
            return 1.0;
        }
        if x >= self.most {
            return 0.0;
        }
        1.0 - integral(self.exponent, libm::log(x / self.least)) / self.moment(0.0)
    }

    fn support(&self) -> (f64, f64) {
        (self.least, self.most)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        // Integration by parts: x P(X > x) plus the contribution of values below x to the mean.
        let up_to = |x: f64| {
            let below = self.least * integral(self.exponent - 1.0, libm::log(x / self.least));
            x * self.survival(x) + below / self.moment(0.0)
        };
        up_to(to.min(self.most)) - up_to(from)
    }

    fn sample_size_biased(&self, rng: &mut Rng) -> f64 {
        self.weighted(1.0).sample(rng)
    }
}

impl PowerLaw {
    /// Returns the mean of 1/X.
    pub fn mean_inverse(&self) -> f64 {
        self.moment(1.0) / self.moment(0.0) / self.least
    }

    /// Returns the power law whose density is proportional to this distribution's density multiplied by x^`power`.
    #[must_use]
    pub fn weighted(self, power: f64) -> Self {
        Self { exponent: self.exponent - power, ..self }
    }

    /// Returns the smallest and the largest mean of 1/X that any allowed exponent yields.
    pub fn mean_inverses(self) -> [f64; 2] {
        let most = self.most_exponent();
        [-most, most].map(|exponent| Self { exponent, ..self }.mean_inverse())
    }

    /// Returns the power law whose exponent is chosen so that the mean of 1/X is `target`.
    #[must_use]
    pub fn with_mean_inverse(self, target: f64) -> Self {
        let most = self.most_exponent();
        let (mut low, mut high) = (-most, most);
        for _ in 0..80 {
            let exponent = (low + high) / 2.0;
            if (Self { exponent, ..self }).mean_inverse() < target {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Self { exponent: (low + high) / 2.0, ..self }
    }

    /// Returns the maximum exponent. With a larger exponent, nearly all values would be at one of the bounds, and
    /// powers would overflow.
    fn most_exponent(self) -> f64 {
        (500.0 / self.log_ratio()).min(100.0)
    }

    fn log_ratio(self) -> f64 {
        libm::log(self.most / self.least)
    }

    /// Returns the integral of x^(-1-exponent-`more`) from 1 to the ratio of the bounds.
    fn moment(self, more: f64) -> f64 {
        integral(self.exponent + more, self.log_ratio())
    }
}

/// Returns the integral of x^(-1-`exponent`) from 1 to the number whose logarithm is `log`.
fn integral(exponent: f64, log: f64) -> f64 {
    if exponent.abs() * log < 1e-9 { log } else { -libm::expm1(-exponent * log) / exponent }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn values_have_the_computed_means_and_stay_within_the_bounds() {
        for exponent in [-1.5, 0.0, 0.3, 2.0] {
            let power_law = PowerLaw { exponent, least: 2.0, most: 50.0 };
            let mut rng = Streams::new(1).named("power-law", 0);
            let samples: Vec<f64> = (0..100_000).map(|_| power_law.sample(&mut rng)).collect();
            assert!(samples.iter().all(|value| (2.0..=50.000_001).contains(value)));
            let mean = samples.iter().sum::<f64>() / 1e5;
            let inverse = samples.iter().map(|value| 1.0 / value).sum::<f64>() / 1e5;
            assert!((mean / power_law.mean() - 1.0).abs() < 0.02, "{exponent}: {mean} {}", power_law.mean());
            assert!((inverse / power_law.mean_inverse() - 1.0).abs() < 0.02, "{exponent}: {inverse}");
        }
    }

    #[test]
    fn weighted_by_its_value_it_has_the_second_moment_over_the_first_as_its_mean() {
        let power_law = PowerLaw { exponent: 0.5, least: 1.0, most: 100.0 };
        // These are the integrals of x^1.5-1.5 and x^0.5-1.5 from 1 to 100, computed by hand.
        let (second, first) = ((1000.0 - 1.0) / 1.5, (10.0 - 1.0) / 0.5);
        assert!((power_law.weighted(1.0).mean() / (second / first) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_exponent_gives_the_requested_mean_inverse() {
        let power_law = PowerLaw { exponent: 0.0, least: 1e4, most: 1e7 };
        let [least, most] = power_law.mean_inverses();
        assert!(least < 1.02e-7 && most > 9.8e-5, "{least} {most}");
        for target in [least, 1.1e-7, 1e-6, 1.4e-5, 5e-5, 9.5e-5, most] {
            let actual = power_law.with_mean_inverse(target).mean_inverse();
            assert!((actual / target - 1.0).abs() < 1e-9, "{target}: {actual}");
        }
    }
}
