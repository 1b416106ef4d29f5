//! Normal distribution. The normal distribution is not in the registry, because sizes, times and counts cannot be
//! negative. It is used by the lognormal and gamma distributions and by PackMime.
//!
//! Values are drawn in pairs (G. Marsaglia & T. A. Bray, "A Convenient Method for Generating Normal Variables", 1964).
//! The number of uniform random numbers used varies from pair to pair.

use aqm_net::Rng;

/// Normal distribution with the mean `mean` and the standard deviation `deviation`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normal {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Normal {
    /// Draws two independent values with mean 0 and variance 1.
    pub(crate) fn pair(rng: &mut Rng) -> [f64; 2] {
        loop {
            let (a, b) = (2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0);
            let square = a * a + b * b;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * libm::log(square) / square).sqrt();
                return [a * scale, b * scale];
            }
        }
    }

    /// Draws a value.
    pub(crate) fn sample(self, rng: &mut Rng) -> f64 {
        self.mean + self.deviation * Self::pair(rng)[0]
    }
}

/// Returns P(X > `x`), where X is normally distributed with mean 0 and variance 1.
pub(super) fn survival(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::{DRAWS, reference};
    use crate::testing::{distance, distance_between};
    use aqm_net::Streams;

    #[test]
    fn the_values_are_those_of_rand_distr_and_follow_the_error_function() {
        let mut rng = Streams::new(5).named("normal", 0);
        let normal = Normal { mean: -4.15, deviation: 1.77 };
        let ours: Vec<f64> = (0..DRAWS).map(|_| normal.sample(&mut rng)).collect();
        let theirs = reference(&rand_distr::Normal::new(-4.15, 1.77).unwrap());
        assert!(distance_between(ours.clone(), theirs) < 1.63);
        assert!(distance(ours, |x| 1.0 - survival((x + 4.15) / 1.77)) < 1.63);
    }

    #[test]
    fn the_values_of_a_pair_are_independent() {
        let mut rng = Streams::new(7).named("normal", 0);
        let products: f64 = (0..DRAWS).map(|_| Normal::pair(&mut rng)).map(|[a, b]| a * b).sum();
        assert!((products / (DRAWS as f64).sqrt()).abs() < 2.58, "{products}");
    }
}
