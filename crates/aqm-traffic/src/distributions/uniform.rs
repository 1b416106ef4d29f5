//! Uniform: all values between two bounds have the same probability density.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit, read_bounds};

parameters! {
    /// Uniform: all values between two bounds have the same probability density.
    pub struct Config {
        /// Minimum value.
        pub minimum: Option<Amount> = None, "no default: required";
        /// Maximum value.
        pub maximum: Option<Amount> = None, "no default: required";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let (minimum, maximum) = read_bounds(unit, self.minimum, self.maximum)?;
        Ok(Uniform { minimum, maximum }.into())
    }
}

/// Uniform distribution between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// The minimum.
    pub minimum: f64,
    /// The upper bound of the values.
    pub maximum: f64,
}

impl Uniform {
    /// Creates a uniform distribution on [0, `width`).
    pub const fn below(width: f64) -> Self {
        Self { minimum: 0.0, maximum: width }
    }
}

impl Distribution for Uniform {
    fn sample(&self, rng: &mut Rng) -> f64 {
        self.minimum + rng.uniform() * (self.maximum - self.minimum)
    }

    fn mean(&self) -> f64 {
        (self.minimum + self.maximum) / 2.0
    }

    fn survival(&self, x: f64) -> f64 {
        if x < self.minimum {
            1.0
        } else if x >= self.maximum {
            0.0
        } else {
            (self.maximum - x) / (self.maximum - self.minimum)
        }
    }

    fn support(&self) -> (f64, f64) {
        (self.minimum, self.maximum)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        if self.minimum == self.maximum {
            return 0.0;
        }
        let left = |x: f64| (self.maximum - x).max(0.0);
        (left(from) * left(from) - left(to) * left(to)) / (2.0 * (self.maximum - self.minimum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::assert_like;

    #[test]
    fn the_values_are_those_of_rand_distr() {
        let other = rand_distr::Uniform::new(2.0, 5.0).unwrap();
        assert_like(&Uniform { minimum: 2.0, maximum: 5.0 }, &other);
    }
}
