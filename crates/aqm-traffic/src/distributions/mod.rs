//! Distributions of sizes, times and numbers, and the registry of their kinds.
//!
//! A kind is one file with a `Config`, a struct that implements [`Distribution`], and one line in the
//! registry below. All workloads, the flow level and made-up traces draw from these and from no others.
//!
//! One `Config` serves sizes, times and numbers: its parameters are [`Amount`]s, and who builds it says in
//! which [`Unit`] they are read. So a kind is written and documented once; a parameter in the wrong unit is
//! refused when the scenario is read. What is drawn is a [`Sizes`], [`Times`] or [`Counts`], which rounds:
//! - sizes in bytes to the nearest byte, at least 1 B, where a kind does not say that they are rounded up; sizes
//!   in packets up to full packets, as in ns-2's Web traffic;
//! - times to the nearest nanosecond;
//! - counts to the nearest whole number, at least 1.
//!
//! Values are drawn by inversion (L. Devroye, "Non-Uniform Random Variate Generation", 1986, section II.2),
//! a fixed number of uniform values for each, unless a kind says otherwise. Logarithms and powers are libm's,
//! so that values agree on every platform.

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

/// What every kind of distribution can do.
pub trait Distribution {
    /// One value.
    fn sample(&self, rng: &mut Rng) -> f64;

    /// The mean of the values.
    fn mean(&self) -> f64;

    /// The survival function, P(X > `x`).
    fn survival(&self, x: f64) -> f64;

    /// The least and the greatest value; the greatest may be infinite.
    fn support(&self) -> (f64, f64);

    /// The integral of the survival function between two points, the first of which is not below the least
    /// value.
    fn integral(&self, from: f64, to: f64) -> f64;

    /// The integral of the survival function between any two points that are not negative.
    fn survival_between(&self, from: f64, to: f64) -> f64 {
        // No value is below the least one.
        let certain = (self.support().0 - from).clamp(0.0, to - from);
        let from = from + certain;
        if from >= to { certain } else { certain + self.integral(from, to) }
    }

    /// Whether all values are whole numbers, so that rounding leaves them as they are.
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether sizes in bytes are rounded up, as sizes in packets always are.
    fn rounds_up(&self) -> bool {
        false
    }

    /// One value of the size-biased distribution, whose density is this one's times the value: what is met
    /// where large values are met in proportion to their size.
    fn sample_size_biased(&self, rng: &mut Rng) -> f64 {
        let (mean, (mut low, most)) = (self.mean(), self.support());
        let wanted = rng.uniform_positive() * mean;
        // E[X; X > x], which falls with x.
        let beyond = |x: f64| x * self.survival(x) + mean - self.survival_between(0.0, x);
        let mut high = most;
        if high.is_infinite() {
            high = mean.max(low);
            while high < f64::MAX / 2.0 && beyond(high) > wanted {
                high *= 2.0;
            }
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if beyond(middle) > wanted { low = middle } else { high = middle }
        }
        high
    }
}

/// What every kind's `Config` can do.
pub trait Build {
    /// Checks all parameters, reads them in `unit` and makes the distribution.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError>;
}

/// Lists the kinds: the registry of their parameters, and one type that is any of them, so that a value is
/// drawn without a call through a pointer.
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
    /// Sizes in bytes; sizes in packets are allowed where `packetisation` says how large a packet is.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn sizes(&self, packetisation: Option<&dyn Packetisation>) -> Result<Sizes, ConfigError> {
        Sizes::build(self, packetisation)
    }

    /// Times in nanoseconds.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn times(&self) -> Result<Times, ConfigError> {
        Ok(Times::new(self.build(&mut Unit::Nanoseconds)?, 1.0))
    }

    /// Times in seconds, not rounded.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn seconds(&self) -> Result<Times, ConfigError> {
        Ok(Times::new(self.build(&mut Unit::Seconds)?, 1.0))
    }

    /// Times that have this mean, in any unit of time, whatever the mean of the distribution: only its form
    /// counts, and its parameters are plain numbers.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn times_with_mean(&self, mean: f64) -> Result<Times, ConfigError> {
        let distribution = self.build(&mut Unit::Form)?;
        let own = distribution.mean();
        if !(own > 0.0 && own.is_finite()) {
            return Err(ConfigError::at(
                "",
                format!("must have a mean that is above 0 and finite, has {own}"),
            ));
        }
        Ok(Times::new(distribution, mean / own))
    }

    /// Whole numbers from 1 to `most`.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub(crate) fn counts(&self, most: u64) -> Result<Counts, ConfigError> {
        Counts::build(self, most)
    }
}

/// Checks a parameter that must lie in a range.
fn check_range(place: &'static str, value: f64, least: f64, most: f64) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::at(place, format!("must be between {least} and {most}, is {value}")))
}

/// Reads two bounds, the second of which is not below the first.
fn read_bounds(
    unit: &mut Unit,
    minimum: Option<Amount>,
    maximum: Option<Amount>,
) -> Result<(f64, f64), ConfigError> {
    let least = unit.read_given("minimum", minimum)?;
    let most = unit.read_given("maximum", maximum)?;
    if most < least {
        let least = minimum.map_or_else(String::new, |minimum| format!(", {minimum}"));
        return Err(ConfigError::at("maximum", format!("must be at least the minimum{least}")));
    }
    Ok((least, most))
}
