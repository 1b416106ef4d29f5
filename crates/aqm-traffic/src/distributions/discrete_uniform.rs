//! Discrete uniform: all integers from a minimum to a maximum, including both bounds, with equal probability.
//!
//! Values are drawn with integer arithmetic, without bias (D. Lemire, "Fast Random Integer Generation in an Interval",
//! 2019).

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit, read_bounds};

parameters! {
    /// Discrete uniform: all integers from a minimum to a maximum, including both bounds, with equal probability.
    pub struct Config {
        /// Minimum value.
        pub minimum: Option<Amount> = None, "no default: required";
        /// Maximum value.
        pub maximum: Option<Amount> = None, "no default: required";
    }
}

impl Config {
    /// Returns the parameters of a uniform distribution of the integers from `minimum` to `maximum`.
    pub const fn of(minimum: u32, maximum: u32) -> Self {
        let [minimum, maximum] = [Amount::Number(minimum as f64), Amount::Number(maximum as f64)];
        Self { minimum: Some(minimum), maximum: Some(maximum) }
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let (minimum, maximum) = read_bounds(unit, self.minimum, self.maximum)?;
        for (path, value) in [("minimum", minimum), ("maximum", maximum)] {
            if value != libm::trunc(value) || value > 1e15 {
                return Err(ConfigError::at(path, format!("must be an integer up to 1e15 (got {value})")));
            }
        }
        Ok(DiscreteUniform { minimum: minimum as u64, maximum: maximum as u64 }.into())
    }
}

/// All integers between two bounds with equal probability.
#[derive(Clone, Copy, Debug)]
pub struct DiscreteUniform {
    minimum: u64,
    maximum: u64,
}

impl DiscreteUniform {
    /// Returns the number of possible values.
    fn numbers(&self) -> u64 {
        self.maximum - self.minimum + 1
    }
}

impl Distribution for DiscreteUniform {
    fn sample(&self, rng: &mut Rng) -> f64 {
        (self.minimum + rng.below(self.numbers())) as f64
    }

    fn mean(&self) -> f64 {
        (self.minimum + self.maximum) as f64 / 2.0
    }

    fn survival(&self, x: f64) -> f64 {
        let beyond = self.maximum as f64 - libm::floor(x);
        (beyond / self.numbers() as f64).clamp(0.0, 1.0)
    }

    fn support(&self) -> (f64, f64) {
        (self.minimum as f64, self.maximum as f64)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        // The integral from the minimum to `x` is the sum of all complete steps before `x` and part of the last step.
        let up_to = |x: f64| {
            let x = x.min(self.maximum as f64) - self.minimum as f64;
            let (steps, n) = (libm::floor(x), self.numbers() as f64);
            (steps * (n - 1.0) - steps * (steps - 1.0) / 2.0 + (x - steps) * (n - 1.0 - steps)) / n
        };
        up_to(to) - up_to(from)
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
    fn every_number_comes_as_often_as_any_other() {
        let mut rng = Streams::new(1).named("discrete-uniform", 0);
        let mut counts = [0_u32; 8];
        for _ in 0..60_000 {
            counts[DiscreteUniform { minimum: 2, maximum: 7 }.sample(&mut rng) as usize] += 1;
        }
        assert_eq!(counts[..2], [0, 0]);
        let squared: f64 =
            counts[2..].iter().map(|&n| (f64::from(n) - 1e4) * (f64::from(n) - 1e4) / 1e4).sum();
        // The limit is the 99 % quantile of the chi-squared distribution with five degrees of freedom.
        assert!(squared < 15.09, "{counts:?}");
    }
}
