//! A constant value, which is a distribution with zero variance.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit};

parameters! {
    /// A constant value.
    pub struct Config {
        /// The value.
        pub value: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
    }
}

impl Config {
    /// Returns the parameters of a constant `value`.
    pub const fn of(value: Amount) -> Self {
        Self { value: Some(value) }
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        Ok(Constant { value: unit.read_mean("value", self.value)? }.into())
    }
}

/// A constant value. Drawing a value does not use a random number.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The value.
    pub value: f64,
}

impl Distribution for Constant {
    fn sample(&self, _: &mut Rng) -> f64 {
        self.value
    }

    fn mean(&self) -> f64 {
        self.value
    }

    fn survival(&self, x: f64) -> f64 {
        if x < self.value { 1.0 } else { 0.0 }
    }

    fn support(&self) -> (f64, f64) {
        (self.value, self.value)
    }

    fn integral(&self, _: f64, _: f64) -> f64 {
        0.0
    }

    fn is_whole(&self) -> bool {
        self.value == libm::trunc(self.value)
    }
}
