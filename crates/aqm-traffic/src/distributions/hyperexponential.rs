//! Hyperexponential: each value is exponential with one of two means, which is chosen independently for each value.
//!
//! Sources: P. Morse, "Queues, Inventories and Maintenance", 1958; for balanced means, with which many small values and
//! few large values contribute half of the sum each, H. C. Tijms, "Stochastic Models", 1994, appendix B.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Exponential, Unit, check_range};

parameters! {
    /// Hyperexponential: exponential with one of two means; small and large values contribute half of the sum each.
    pub struct Config {
        /// Mean of all values.
        pub mean: Option<Amount> = None, "no default: it must be given, except for gaps, whose mean is known";
        /// Squared coefficient of variation: the variance divided by the square of the mean; 1 is exponential.
        pub scv: f64 = 10.0, "aqmlab's choice";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        check_range("scv", self.scv, 1.0, 1000.0)?;
        let small = 0.5 * (1.0 + ((self.scv - 1.0) / (self.scv + 1.0)).sqrt());
        let half_over = |share: f64| Exponential { mean: mean / (2.0 * share) };
        Ok(Hyperexponential { small, parts: [half_over(small), half_over(1.0 - small)], mean }.into())
    }
}

/// Hyperexponential distribution. Each value uses two uniform values.
#[derive(Clone, Copy, Debug)]
pub struct Hyperexponential {
    /// Probability of the smaller mean.
    small: f64,
    parts: [Exponential; 2],
    mean: f64,
}

impl Hyperexponential {
    /// Returns the weighted mean of a function over the two parts.
    fn mix(&self, of: impl Fn(&Exponential) -> f64) -> f64 {
        self.small * of(&self.parts[0]) + (1.0 - self.small) * of(&self.parts[1])
    }
}

impl Distribution for Hyperexponential {
    fn sample(&self, rng: &mut Rng) -> f64 {
        let which = usize::from(!rng.chance(self.small));
        self.parts[which].sample(rng)
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        self.mix(|part| part.survival(x))
    }

    fn support(&self) -> (f64, f64) {
        (0.0, f64::INFINITY)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        self.mix(|part| part.integral(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;

    #[test]
    fn the_squared_coefficient_of_variation_is_the_one_given() {
        let config = Config { mean: Some(Amount::bytes(100_000)), scv: 4.0 };
        let distribution = config.build(&mut Unit::Bytes).unwrap();
        let mut rng = Streams::new(4).named("sizes", 0);
        let squares: Vec<f64> = (0..400_000)
            .map(|_| distribution.sample(&mut rng) / distribution.mean() - 1.0)
            .map(|off| off * off)
            .collect();
        let actual = squares.iter().sum::<f64>() / squares.len() as f64;
        assert!((actual / 4.0 - 1.0).abs() < 0.05, "{actual}");
    }
}
