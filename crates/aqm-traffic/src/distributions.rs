//! Laws of chance that workloads draw from: uniform, exponential, Weibull, normal and gamma.
//!
//! The first three by inversion, L. Devroye, "Non-Uniform Random Variate Generation", 1986, section II.2:
//! one uniform value makes one draw, so two runs with the same seed stay in step whatever the parameters
//! are. Normal values in pairs, by G. Marsaglia & T. A. Bray, "A Convenient Method for Generating Normal
//! Variables", 1964; gamma by G. Marsaglia & W. W. Tsang, "A Simple Method for Generating Gamma Variables",
//! 2000. Logarithms and powers are libm's, so that results agree on every platform.

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

/// Weibull, with distribution function 1 - exp(-(x/`scale`)^`shape`).
#[derive(Clone, Copy, Debug)]
pub struct Weibull {
    /// Below 1 the tail is heavier than that of the exponential law.
    pub shape: f64,
    /// The value exceeded with chance 1/e.
    pub scale: f64,
}

impl Weibull {
    /// The value that is exceeded with chance `p`.
    pub(crate) fn exceeded_with(self, p: f64) -> f64 {
        self.scale * libm::exp(libm::log(-libm::log(p)) / self.shape)
    }

    /// One value, zero or more.
    pub fn draw(self, rng: &mut Rng) -> f64 {
        self.exceeded_with(rng.uniform_positive())
    }
}

/// Normal with this mean and standard deviation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Normal {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Normal {
    /// Two independent values with mean 0 and variance 1.
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

    /// One value.
    pub(crate) fn draw(self, rng: &mut Rng) -> f64 {
        self.mean + self.deviation * Self::pair(rng)[0]
    }
}

/// Gamma with this shape, at least 1, and mean 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gamma {
    pub(crate) shape: f64,
}

impl Gamma {
    /// One value.
    pub(crate) fn draw(self, rng: &mut Rng) -> f64 {
        let d = self.shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = Normal::pair(rng)[0];
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let v = root * root * root;
            if libm::log(rng.uniform_positive()) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
                return d * v / self.shape;
            }
        }
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
    fn weibull_normal_and_gamma_are_those_of_rand_distr() {
        let mut rng = Streams::new(5).named("laws", 0);
        let mut other = Xoshiro256PlusPlus::seed_from_u64(6);
        let mut check = |ours: &mut dyn FnMut() -> f64, law: &dyn Fn(&mut Xoshiro256PlusPlus) -> f64| {
            let ours = (0..DRAWS).map(|_| ours()).collect();
            let theirs = (0..DRAWS).map(|_| law(&mut other)).collect();
            assert!(distance_between(ours, theirs) < 1.63);
        };
        let weibull = rand_distr::Weibull::new(305.0, 0.63).unwrap();
        check(&mut || Weibull { shape: 0.63, scale: 305.0 }.draw(&mut rng), &|other| weibull.sample(other));
        let normal = rand_distr::Normal::new(-4.15, 1.77).unwrap();
        check(&mut || Normal { mean: -4.15, deviation: 1.77 }.draw(&mut rng), &|other| normal.sample(other));
        let gamma = rand_distr::Gamma::new(2.35, 1.0 / 2.35).unwrap();
        check(&mut || Gamma { shape: 2.35 }.draw(&mut rng), &|other| gamma.sample(other));
        let pairs = |pick: usize| {
            let mut rng = Streams::new(7).named("laws", 0);
            (0..DRAWS).map(|_| Normal::pair(&mut rng)[pick]).collect::<Vec<f64>>()
        };
        let products: f64 = pairs(0).iter().zip(pairs(1)).map(|(a, b)| a * b).sum();
        assert!((products / (DRAWS as f64).sqrt()).abs() < 2.58, "the values of a pair are independent");
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
