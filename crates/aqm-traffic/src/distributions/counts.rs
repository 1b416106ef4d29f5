//! Random counts: integers of at least 1.

use aqm_net::{ConfigError, Rng};

use super::{AnyDistribution, Config, Distribution, Unit};

/// A distribution of integers from 1 to a limit.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    distribution: AnyDistribution,
    most: u64,
    mean: f64,
}

impl Counts {
    pub(super) fn build(config: &Config, most: u64) -> Result<Self, ConfigError> {
        let distribution = config.build(&mut Unit::Count)?;
        let (least, greatest) = distribution.support();
        let whole = distribution.is_whole();
        if (whole && least < 1.0) || (greatest.is_finite() && greatest > most as f64) {
            let problem =
                format!("must consist of integers from 1 to {most} (got a range from {least} to {greatest})");
            return Err(ConfigError::at("", problem));
        }
        let mean = if whole && greatest.is_finite() {
            distribution.mean()
        } else {
            1.0 + (2..=most).map(|count| distribution.survival(count as f64 - 0.5)).sum::<f64>()
        };
        Ok(Self { distribution, most, mean })
    }

    /// Draws a count.
    pub(crate) fn sample(&self, rng: &mut Rng) -> u64 {
        ((self.distribution.sample(rng) + 0.5) as u64).clamp(1, self.most)
    }

    /// Returns the mean of the counts.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;
    use serde_json::json;

    fn counts(table: serde_json::Value) -> Result<Counts, ConfigError> {
        Config::read(table).unwrap().counts(20)
    }

    #[test]
    fn the_mean_is_that_of_whole_numbers_between_one_and_the_limit() {
        for table in [
            json!({ "kind": "constant", "value": 3 }),
            json!({ "kind": "discrete-uniform", "minimum": 2, "maximum": 7 }),
            json!({ "kind": "geometric", "mean": 8 }),
            json!({ "kind": "exponential", "mean": 2 }),
            json!({ "kind": "uniform", "minimum": 0, "maximum": 2.5 }),
        ] {
            let counts = counts(table.clone()).unwrap();
            let mut rng = Streams::new(1).named("counts", 0);
            let samples: Vec<f64> = (0..40_000).map(|_| counts.sample(&mut rng) as f64).collect();
            let mean = samples.iter().sum::<f64>() / 40_000.0;
            assert!(samples.iter().all(|count| (1.0..=20.0).contains(count)));
            assert!((mean - counts.mean()).abs() < 3.3 * 6.0 / 200.0, "{table}: {mean} {}", counts.mean());
        }
    }

    #[test]
    fn impossible_numbers_are_rejected() {
        for table in [
            json!({ "kind": "constant", "value": 0 }),
            json!({ "kind": "discrete-uniform", "minimum": 0, "maximum": 3 }),
            json!({ "kind": "discrete-uniform", "minimum": 2, "maximum": 21 }),
        ] {
            let error = counts(table).unwrap_err();
            assert_eq!(error.path, "");
            assert!(
                error.problem.starts_with("must consist of integers from 1 to 20 (got a range from"),
                "{error}"
            );
        }
    }
}
