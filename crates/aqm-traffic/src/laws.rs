//! Two laws of chance that workloads draw from: uniform and exponential.
//!
//! Both by inversion, L. Devroye, "Non-Uniform Random Variate Generation", 1986, section II.2: one
//! uniform value makes one draw, so two runs with the same seed stay in step whatever the
//! parameters are. The logarithm is libm's, so that results agree on every platform.

use aqm_net::Rng;

/// Uniform on [0, `width`).
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    /// Where it ends.
    pub width: f64,
}

impl Uniform {
    /// One value.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        rng.uniform() * self.width
    }
}

/// Exponential: the gaps of a Poisson process.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    /// Its mean.
    pub mean: f64,
}

impl Exponential {
    /// One value, zero or more.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        -libm::log(rng.uniform_positive()) * self.mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{distance, distance_between};
    use aqm_net::Streams;
    use rand_distr::Distribution;
    use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};

    const DRAWS: usize = 20_000;

    #[test]
    fn the_draws_follow_their_distribution_function() {
        let mut rng = Streams::new(2).named("laws", 0);
        let exponential = (0..DRAWS).map(|_| Exponential { mean: 3.0 }.draw(&mut rng)).collect();
        assert!(distance(exponential, |x| 1.0 - libm::exp(-x / 3.0)) < 1.63);
        let uniform = (0..DRAWS).map(|_| Uniform { width: 5.0 }.draw(&mut rng)).collect();
        assert!(distance(uniform, |x| x / 5.0) < 1.63);
    }

    #[test]
    fn the_exponential_law_is_that_of_rand_distr() {
        let mut rng = Streams::new(3).named("laws", 0);
        let ours = (0..DRAWS).map(|_| Exponential { mean: 0.25 }.draw(&mut rng)).collect();
        let law = rand_distr::Exp::new(4.0).unwrap();
        let mut other = Xoshiro256PlusPlus::seed_from_u64(4);
        let theirs = (0..DRAWS).map(|_| law.sample(&mut other)).collect();
        assert!(distance_between(ours, theirs) < 1.63);
    }
}
