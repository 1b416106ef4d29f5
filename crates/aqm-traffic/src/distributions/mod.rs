//! Distributions of sizes, times and counts, and the registry of the kinds of distributions.
//!
//! Each kind consists of an entry in the registry below, and a file that contains a `Config` and a struct that
//! implements [`Distribution`]. All workloads, the flow level and generated traces use only these distributions.
//!
//! The same `Config` is used for sizes, for times and for counts. The parameters of a `Config` are [`Amount`]s, and the
//! caller of `build` selects the [`Unit`] into which the parameters are converted. Each kind is therefore implemented
//! and documented only once, and a parameter in the wrong unit is rejected when the scenario is read. Values are drawn
//! from [`Sizes`], [`Times`] or [`Counts`], which round the values:
//! - sizes in bytes are rounded to the nearest byte, and to at least 1 B, unless the kind rounds up; sizes in packets
//!   are rounded up to full-sized packets, as in ns-2's Web traffic;
//! - times are rounded to the nearest nanosecond;
//! - counts are rounded to the nearest integer, and to at least 1.
//!
//! Unless the documentation of a kind states otherwise, values are drawn by inversion (L. Devroye, "Non-Uniform Random
//! Variate Generation", 1986, section II.2), and each value uses a fixed number of uniform random numbers. Logarithms
//! and powers are computed by the functions of libm, so that values are identical on every platform.

mod amount;
pub mod bounded_pareto;
pub mod constant;
mod counts;
pub mod discrete_uniform;
pub mod empirical;
pub mod exponential;
pub mod gamma;
pub mod geometric;
pub mod hyperexponential;
mod incomplete_gamma;
pub mod lognormal;
pub mod lomax;
mod normal;
pub mod power_law;
mod sizes;
#[cfg(test)]
mod tests;
mod times;
pub mod uniform;
pub mod weibull;

pub use amount::{Amount, Unit};
pub use constant::Constant;
pub(crate) use counts::Counts;
pub use exponential::Exponential;
pub(crate) use gamma::Gamma;
pub use geometric::Geometric;
pub(crate) use normal::Normal;
pub use sizes::Sizes;
pub use times::Times;
pub use uniform::Uniform;
pub use weibull::Weibull;

use aqm_net::{ConfigError, Rng, registry};

use crate::Packetisation;

/// Operations that every distribution supports.
pub trait Distribution {
    /// Draws a value.
    fn sample(&self, rng: &mut Rng) -> f64;

    /// Returns the mean of the values.
    fn mean(&self) -> f64;

    /// Returns the survival function, P(X > `x`).
    fn survival(&self, x: f64) -> f64;

    /// Returns the minimum and the maximum; the maximum may be infinite.
    fn support(&self) -> (f64, f64);

    /// Returns the integral of the survival function from `from` to `to`, where `from` must not be below the minimum.
    fn integral(&self, from: f64, to: f64) -> f64;

    /// Returns the integral of the survival function from `from` to `to`, which may be any non-negative numbers.
    fn survival_between(&self, from: f64, to: f64) -> f64 {
        // The survival function is 1 below the minimum.
        let certain = (self.support().0 - from).clamp(0.0, to - from);
        let from = from + certain;
        if from >= to { certain } else { certain + self.integral(from, to) }
    }

    /// Returns whether all values are integers, which are not changed by rounding.
    fn is_whole(&self) -> bool {
        false
    }

    /// Returns whether sizes in bytes are rounded up. Sizes in packets are always rounded up.
    fn rounds_up(&self) -> bool {
        false
    }

    /// Draws a value from the size-biased distribution, whose density at each value is proportional to the value times
    /// this distribution's density. For example, the size of the flow that contains a randomly chosen byte is
    /// size-biased.
    fn sample_size_biased(&self, rng: &mut Rng) -> f64 {
        let (mean, (mut low, most)) = (self.mean(), self.support());
        let target = rng.uniform_positive() * mean;
        // The function `beyond` computes E[X; X > x], which decreases as x increases.
        let beyond = |x: f64| x * self.survival(x) + mean - self.survival_between(0.0, x);
        let mut high = most;
        if high.is_infinite() {
            high = mean.max(low);
            while high < f64::MAX / 2.0 && beyond(high) > target {
                high *= 2.0;
            }
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if beyond(middle) > target { low = middle } else { high = middle }
        }
        high
    }
}

/// Operations that the `Config` of every kind supports.
pub trait Build {
    /// Checks all parameters, converts them into `unit`, and creates the distribution.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError>;
}

/// Lists the kinds. The macro creates a registry of the parameters of all kinds, and an enum of all kinds, so that
/// drawing a value does not require dynamic dispatch.
macro_rules! kinds {
    ($( $kind:literal => $module:ident::$name:ident, )+) => {
        registry! {
            /// The parameters of a distribution of any kind.
            pub enum Config: Build, "distributions" = "distribution" {
                $( $kind => $module, )+
            }
        }

        /// A distribution of any kind.
        #[derive(Clone, Debug)]
        #[allow(missing_docs)]
        pub enum AnyDistribution {
            $( $name($module::$name), )+
        }

        $(
            impl From<$module::$name> for AnyDistribution {
                fn from(distribution: $module::$name) -> Self {
                    Self::$name(distribution)
                }
            }
        )+

        impl Distribution for AnyDistribution {
            fn sample(&self, rng: &mut Rng) -> f64 {
                match self { $( Self::$name(it) => it.sample(rng), )+ }
            }
            fn mean(&self) -> f64 {
                match self { $( Self::$name(it) => it.mean(), )+ }
            }
            fn survival(&self, x: f64) -> f64 {
                match self { $( Self::$name(it) => it.survival(x), )+ }
            }
            fn support(&self) -> (f64, f64) {
                match self { $( Self::$name(it) => it.support(), )+ }
            }
            fn integral(&self, from: f64, to: f64) -> f64 {
                match self { $( Self::$name(it) => it.integral(from, to), )+ }
            }
            fn is_whole(&self) -> bool {
                match self { $( Self::$name(it) => it.is_whole(), )+ }
            }
            fn rounds_up(&self) -> bool {
                match self { $( Self::$name(it) => it.rounds_up(), )+ }
            }
            fn sample_size_biased(&self, rng: &mut Rng) -> f64 {
                match self { $( Self::$name(it) => it.sample_size_biased(rng), )+ }
            }
        }
    };
}

kinds! {
    "constant" => constant::Constant,
    "uniform" => uniform::Uniform,
    "discrete-uniform" => discrete_uniform::DiscreteUniform,
    "geometric" => geometric::Geometric,
    "exponential" => exponential::Exponential,
    "hyperexponential" => hyperexponential::Hyperexponential,
    "weibull" => weibull::Weibull,
    "gamma" => gamma::Gamma,
    "lognormal" => lognormal::Lognormal,
    "lomax" => lomax::Lomax,
    "bounded-pareto" => bounded_pareto::BoundedPareto,
    "power-law" => power_law::PowerLaw,
    "empirical" => empirical::Empirical,
}

impl Config {
    /// Builds a distribution of sizes in bytes. Sizes in packets are allowed only if `packetisation`, which defines the
    /// size of a packet, is given.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    pub fn sizes(&self, packetisation: Option<&dyn Packetisation>) -> Result<Sizes, ConfigError> {
        Sizes::build(self, packetisation)
    }

    /// Builds a distribution of times in nanoseconds.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    pub fn times(&self) -> Result<Times, ConfigError> {
        Ok(Times::new(self.build(&mut Unit::Nanoseconds)?, 1.0))
    }

    /// Builds a distribution of times in seconds. The times are not rounded.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    pub fn seconds(&self) -> Result<Times, ConfigError> {
        Ok(Times::new(self.build(&mut Unit::Seconds)?, 1.0))
    }

    /// Builds a distribution of times with the mean `mean`, which may be in any unit of time. Only the shape of this
    /// distribution is used, and its parameters are plain numbers.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    pub fn times_with_mean(&self, mean: f64) -> Result<Times, ConfigError> {
        let distribution = self.build(&mut Unit::Form)?;
        let own_mean = distribution.mean();
        if !(own_mean > 0.0 && own_mean.is_finite()) {
            return Err(ConfigError::at("", format!("must have a finite mean above 0 (got {own_mean})")));
        }
        Ok(Times::new(distribution, mean / own_mean))
    }

    /// Builds a distribution of integers from 1 to `most`.
    ///
    /// # Errors
    /// Returns the path of the invalid field and the allowed values.
    pub(crate) fn counts(&self, most: u64) -> Result<Counts, ConfigError> {
        Counts::build(self, most)
    }
}

/// Checks that a parameter is within its range.
fn check_range(path: &'static str, value: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::at(path, format!("must be between {least} and {most} (got {value})")))
}

/// Converts a minimum and a maximum, and checks that the maximum is not below the minimum.
fn read_bounds(
    unit: &mut Unit,
    minimum: Option<Amount>,
    maximum: Option<Amount>,
) -> Result<(f64, f64), ConfigError> {
    let least = unit.read_given("minimum", minimum)?;
    let most = unit.read_given("maximum", maximum)?;
    if most < least {
        let least = minimum.map_or_else(String::new, |minimum| format!(" of {minimum}"));
        return Err(ConfigError::at("maximum", format!("must be at least the minimum{least}")));
    }
    Ok((least, most))
}
