//! How big flows are: the laws, and the registry of them.
//!
//! A law is one file with a `Config`, and one line in the registry below. Sizes are whole bytes, at least
//! one; rounding moves a mean by less than a byte. The flow level draws from them, and so do streams of
//! datagrams.

mod exponential;
mod fixed;
mod hyperexponential;
mod pareto;
mod weibull;

use aqm_net::{ConfigError, Rng, Size, registry};
use dyn_clone::DynClone;

registry! {
    /// The parameters of any law of sizes.
    pub enum Config: Build, "sizes" = "size law" {
        "fixed" => fixed,
        "exponential" => exponential,
        "hyperexponential" => hyperexponential,
        "pareto" => pareto,
        "weibull" => weibull,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::exponential(exponential::Config::default())
    }
}

/// What every law's `Config` can do.
pub trait Build {
    /// Checks all parameters and makes the law.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    fn build(&self) -> Result<Box<dyn Law>, ConfigError>;
}

/// A law of sizes.
pub trait Law: DynClone + Send + Sync {
    /// One size in bytes, at least one.
    fn draw(&self, rng: &mut Rng) -> u64;

    /// The mean size in bytes.
    fn mean(&self) -> f64;
}

dyn_clone::clone_trait_object!(Law);

/// A mean beyond this is taken for a slip of the pen.
const MOST_MEAN: u64 = 1_000_000_000_000;

/// Checks the parameter `mean`; returns it in bytes.
fn check_mean(mean: Size) -> Result<f64, ConfigError> {
    if (1..=MOST_MEAN).contains(&mean.bytes()) {
        return Ok(mean.bytes() as f64);
    }
    Err(ConfigError::at("mean", format!("must be between 1B and 1000GB, is {mean}")))
}

/// A size as it is used: whole, at least one byte.
fn whole(bytes: f64) -> u64 {
    // `as` saturates, and no sum of sizes comes near its end.
    ((bytes + 0.5) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;
    use serde_json::json;

    #[test]
    fn samples_have_the_mean_that_the_law_tells() {
        for config in Config::every() {
            let law = config.build().unwrap();
            let mut rng = Streams::new(3).named("sizes", 0);
            let sizes: Vec<f64> = (0..400_000).map(|_| law.draw(&mut rng) as f64).collect();
            let n = sizes.len() as f64;
            let mean = sizes.iter().sum::<f64>() / n;
            let variance = sizes.iter().map(|size| (size - mean) * (size - mean)).sum::<f64>() / n;
            let off = (mean - law.mean()).abs();
            assert!(off <= 3.3 * (variance / n).sqrt(), "{}: {mean} {}", config.kind(), law.mean());
            assert!(sizes.iter().all(|&size| size >= 1.0));
        }
    }

    #[test]
    fn the_squared_variation_of_a_hyperexponential_law_is_the_one_given() {
        let config = Config::read(json!({"kind": "hyperexponential", "variation": 4.0})).unwrap();
        let law = config.build().unwrap();
        let mut rng = Streams::new(4).named("sizes", 0);
        let squares: Vec<f64> =
            (0..400_000).map(|_| law.draw(&mut rng) as f64 / law.mean() - 1.0).map(|off| off * off).collect();
        let found = squares.iter().sum::<f64>() / squares.len() as f64;
        assert!((found / 4.0 - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (table, place) in [
            (json!({"kind": "fixed", "mean": "0B"}), "mean"),
            (json!({"kind": "exponential", "mean": "2000GB"}), "mean"),
            (json!({"kind": "hyperexponential", "variation": 0.5}), "variation"),
            (json!({"kind": "weibull", "shape": 0.0}), "shape"),
            (json!({"kind": "pareto", "shape": 0.4}), "shape"),
        ] {
            let error = Config::read(table).unwrap().build().err().unwrap();
            assert_eq!(error.place, place, "{error}");
            assert!(error.problem.contains("must be"), "{error}");
        }
    }
}
