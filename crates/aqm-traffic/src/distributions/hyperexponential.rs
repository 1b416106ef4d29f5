//! Hyperexponential: each value is drawn from one of two exponential distributions with different means. One of these
//! two distributions is chosen independently for each value.
//!
//! Sources: P. Morse, "Queues, Inventories and Maintenance", 1958; H. C. Tijms, "Stochastic Models", 1994, appendix B,
//! for balanced means, which are chosen so that the many small values contribute one half of the sum and the few large
//! values contribute the other half.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Exponential, Unit, check_range};

parameters! {
    /// Hyperexponential: each value is drawn from one of two exponential distributions with different means, each of
    /// which contributes half of the sum of all values.
    pub struct Config {
        /// Mean of all values.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
        /// Squared coefficient of variation, which is the variance divided by the square of the mean. If the value is
        /// 1, the distribution is exponential.
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

/// Hyperexponential distribution. Each value uses two uniform random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Hyperexponential {
    /// Probability that a value is drawn from the distribution with the smaller mean.
    small: f64,
    parts: [Exponential; 2],
    mean: f64,
}

impl Hyperexponential {
    /// Returns the weighted mean of the values that a function has for the two exponential distributions.
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
