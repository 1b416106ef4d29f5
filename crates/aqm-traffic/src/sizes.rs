//! How big Web objects are: the Pareto law of the second kind (Lomax), cut off at both ends; and
//! what a workload must know of any law of sizes.
//!
//! K. S. Lomax, "Business Failures: Another Example of the Analysis of Failure Data", 1954, with
//! survival function P(X > x) = (1 + x/`scale`)^-`shape` and mean `scale`/(`shape` - 1). Web
//! objects of shape 1.2, mean 10 kB, at least 12 B and at most 2 MB: Claypool, Kinicki & Hartling,
//! "Active Queue Management for Web Traffic", 2004. Drawn by inversion (Devroye 1986, II.2).
//!
//! Ours, where the source is silent: what happens at the maximum (both readings are here), and
//! whether the mean is meant before or after it. It matters: with the numbers above the mean after
//! the cut is 7489 B or 6989 B unless the scale makes up for it. Sizes below the minimum become the
//! minimum in both readings. Sizes are rounded to whole bytes; the means given here are those
//! before rounding, which moves them by less than a thousandth of a byte.

use aqm_net::{ConfigError, Rng, Size, choices, parameters};

choices! {
    /// What becomes of a size above the maximum.
    pub enum Truncation {
        /// It becomes the maximum.
        Clip = "clip",
        /// It is drawn again.
        Redraw = "redraw",
    }
}

choices! {
    /// Which mean is meant.
    pub enum Calibration {
        /// That of the sizes in use, after both cuts.
        Exact = "exact",
        /// That of the law before the cuts, as in ns-2: the sizes in use have a smaller one.
        Nominal = "nominal",
    }
}

parameters! {
    /// Sizes after the Pareto law of the second kind (Lomax), with a minimum and a maximum.
    pub struct Config {
        /// The mean size.
        pub mean: Size = Size::from_bytes(10_000), "SHRED talk, Web model";
        /// How heavy the tail is: the smaller, the heavier.
        pub shape: f64 = 1.2, "SHRED talk, Web model";
        /// The least size.
        pub minimum: Size = Size::from_bytes(12), "SHRED talk, Web model";
        /// The greatest size.
        pub maximum: Size = Size::from_bytes(2_000_000), "SHRED talk, Web model";
        /// What becomes of a size above the maximum.
        pub truncation: Truncation = Truncation::Clip, "ours: the talk does not say";
        /// Which mean is meant.
        pub calibration: Calibration = Calibration::Exact, "ours: so that the mean is what it says";
    }
}

impl Config {
    /// Checks the parameters and finds the scale.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn build(&self) -> Result<Sizes, ConfigError> {
        let wrong = |place, problem| Err(ConfigError::at(place, problem));
        if self.minimum.bytes() == 0 {
            return wrong("minimum", "must be at least 1B".to_owned());
        }
        if self.maximum < self.minimum {
            return wrong("maximum", format!("must be at least the minimum, {}", self.minimum));
        }
        let least_shape = if self.calibration == Calibration::Nominal { 1.0 } else { 0.5 };
        if !(self.shape > least_shape && self.shape <= 100.0) {
            return wrong("shape", format!("must be above {least_shape} and at most 100, is {}", self.shape));
        }
        if self.mean.bytes() == 0 {
            return wrong("mean", "must be at least 1B".to_owned());
        }
        let law = |scale| Sizes {
            shape: self.shape,
            scale,
            minimum: self.minimum.bytes(),
            maximum: self.maximum.bytes(),
            truncation: self.truncation,
            beyond: survival(self.maximum.bytes() as f64 / scale, self.shape),
        };
        let mean = self.mean.bytes() as f64;
        if self.calibration == Calibration::Nominal {
            return Ok(law(mean * (self.shape - 1.0)));
        }
        if self.minimum == self.maximum && self.mean == self.minimum {
            return Ok(law(mean));
        }
        // The mean grows with the scale: the larger scale gives the larger likelihood of large sizes.
        let (mut low, mut high) = (libm::log(1e-9), libm::log(1e6 * self.maximum.bytes() as f64));
        let (least, most) = (law(libm::exp(low)).mean(), law(libm::exp(high)).mean());
        if !(least < mean && mean < most) {
            let range = format!("must be above {} and below {}", least.ceil(), most.floor());
            return wrong(
                "mean",
                format!("{range} bytes, which the minimum, the maximum and the shape allow"),
            );
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if law(libm::exp(middle)).mean() < mean { low = middle } else { high = middle }
        }
        Ok(law(libm::exp((low + high) / 2.0)))
    }
}

/// A law of sizes in whole bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    shape: f64,
    scale: f64,
    minimum: u64,
    maximum: u64,
    truncation: Truncation,
    /// The chance of exceeding the maximum before the cut.
    beyond: f64,
}

/// A law of sizes in whole bytes: what those need who weigh its sizes on the wire.
pub trait Law {
    /// The mean size.
    fn mean(&self) -> f64;

    /// The chance that a size is at least `bytes`.
    fn at_least(&self, bytes: u64) -> f64;

    /// The integral of the survival function from `from` to `to`, no more than the maximum: what is
    /// expected of the sizes in that range.
    fn survival_between(&self, from: f64, to: f64) -> f64;

    /// The largest size there is.
    fn maximum(&self) -> u64;
}

impl Law for Sizes {
    fn mean(&self) -> f64 {
        let (minimum, maximum) = (self.minimum as f64, self.maximum as f64);
        minimum + self.survival_between(minimum, maximum)
    }

    fn at_least(&self, bytes: u64) -> f64 {
        if bytes <= self.minimum {
            1.0
        } else if bytes > self.maximum {
            0.0
        } else {
            // Sizes from here half a byte down are rounded up to here.
            self.survival(bytes as f64 - 0.5)
        }
    }

    fn survival_between(&self, from: f64, to: f64) -> f64 {
        // No size is below the minimum.
        let certain = (self.minimum as f64 - from).clamp(0.0, to - from);
        let from = from + certain;
        let area = |x: f64| self.scale * area(x / self.scale, self.shape);
        let whole = area(to) - area(from);
        match self.truncation {
            Truncation::Clip => certain + whole,
            Truncation::Redraw => certain + (whole - (to - from) * self.beyond) / self.within(),
        }
    }

    fn maximum(&self) -> u64 {
        self.maximum
    }
}

impl Sizes {
    /// One size; it takes one uniform value whatever the parameters are.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let size = libm::floor(self.exceeded_with(rng.uniform_positive()) + 0.5);
        size.clamp(self.minimum as f64, self.maximum as f64) as u64
    }

    /// P(X > `x`) for an `x` between minimum and maximum.
    fn survival(&self, x: f64) -> f64 {
        let whole = survival(x / self.scale, self.shape);
        match self.truncation {
            Truncation::Clip => whole,
            Truncation::Redraw => (whole - self.beyond) / self.within(),
        }
    }

    /// The value that is exceeded with chance `p`: the inverse of the survival function. To draw
    /// again what exceeds the maximum is to draw from the rest of the law, without trying twice.
    fn exceeded_with(&self, p: f64) -> f64 {
        let p = match self.truncation {
            Truncation::Clip => p,
            Truncation::Redraw => self.beyond + p * self.within(),
        };
        self.scale * libm::expm1(-libm::log(p) / self.shape)
    }

    /// The chance of not exceeding the maximum before the cut.
    fn within(&self) -> f64 {
        -libm::expm1(-self.shape * libm::log1p(self.maximum as f64 / self.scale))
    }
}

/// (1 + `x`)^-`shape`.
fn survival(x: f64, shape: f64) -> f64 {
    libm::exp(-shape * libm::log1p(x))
}

/// The integral of [`survival`] from 0 to `x`.
fn area(x: f64, shape: f64) -> f64 {
    let log = libm::log1p(x);
    if shape == 1.0 { log } else { libm::expm1((1.0 - shape) * log) / (1.0 - shape) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{distance, distance_between};
    use aqm_net::Streams;
    use proptest::prelude::*;
    use rand_distr::Distribution;
    use rand_xoshiro::{Xoshiro256PlusPlus, rand_core::SeedableRng};

    fn web(truncation: Truncation, calibration: Calibration) -> Sizes {
        Config { truncation, calibration, ..Config::default() }.build().unwrap()
    }

    #[test]
    fn the_four_readings_of_the_web_model_are_those_computed_elsewhere() {
        use Calibration::{Exact, Nominal};
        use Truncation::{Clip, Redraw};
        // Scale, mean, and the share of objects below 2000 B; computed independently.
        let readings = [
            (Clip, Nominal, 2000.0, 7489.0, 0.565),
            (Redraw, Nominal, 2000.0, 6989.0, 0.565),
            (Clip, Exact, 2729.367, 10000.0, 0.483),
            (Redraw, Exact, 2966.012, 10000.0, 0.461),
        ];
        for (truncation, calibration, scale, mean, mice) in readings {
            let law = web(truncation, calibration);
            assert!((law.scale / scale - 1.0).abs() < 1e-6, "{law:?}");
            assert!((law.mean() - mean).abs() < 0.6, "{law:?}: {}", law.mean());
            assert!((1.0 - law.at_least(2000) - mice).abs() < 6e-4, "{law:?}");
        }
        let median = |truncation| web(truncation, Exact).exceeded_with(0.5);
        assert!((median(Clip) - 2133.81).abs() < 0.01);
        assert!((median(Redraw) - 2317.05).abs() < 0.01);
    }

    #[test]
    fn without_a_minimum_the_scale_is_that_of_the_reference_runs() {
        // The runs in ns-2 left the minimum of 12 B out of the mean: 2729.3763.
        let config = Config { minimum: Size::from_bytes(1), ..Config::default() };
        assert!((config.build().unwrap().scale - 2729.3763).abs() < 3e-4);
        let difference = web(Truncation::Clip, Calibration::Exact).scale - 2729.3763;
        assert!((-0.02..0.0).contains(&difference), "{difference}");
    }

    #[test]
    fn draws_follow_the_distribution_function() {
        for truncation in [Truncation::Clip, Truncation::Redraw] {
            let config = Config {
                maximum: Size::from_bytes(20_000_000_000),
                mean: Size::from_bytes(100_000_000),
                truncation,
                ..Config::default()
            };
            let law = config.build().unwrap();
            let mut rng = Streams::new(1).named("sizes", 0);
            let drawn: Vec<u64> = (0..20_000).map(|_| law.draw(&mut rng)).collect();
            let chance = 1.0 - law.at_least(law.maximum);
            assert_eq!(
                truncation == Truncation::Clip,
                chance < 0.9999,
                "only clipping piles up at the maximum"
            );
            // The law is continuous below the maximum; bytes are fine enough at this scale.
            let inner = drawn.iter().filter(|&&size| size < law.maximum).map(|&size| size as f64).collect();
            assert!(distance(inner, |x| (1.0 - law.survival(x)) / chance) < 1.63, "{truncation:?}");
            let piled = drawn.iter().filter(|&&size| size == law.maximum).count() as f64;
            let expected = 20_000.0 * (1.0 - chance);
            assert!((piled - expected).abs() <= 3.0 * expected.sqrt(), "{piled} {expected}");
        }
    }

    #[test]
    fn the_mean_of_whole_bytes_is_the_mean_in_closed_form() {
        for truncation in [Truncation::Clip, Truncation::Redraw] {
            let law = web(truncation, Calibration::Exact);
            let sum: f64 = (1..=law.maximum).map(|bytes| law.at_least(bytes)).sum();
            assert!((sum - 10_000.0).abs() < 1e-3, "{sum}");
        }
    }

    #[test]
    fn the_mean_of_a_sample_is_the_mean_of_the_law() {
        // With a shape of 1.2 no sample is long enough without a low maximum.
        let config =
            Config { maximum: Size::from_bytes(100_000), mean: Size::from_bytes(5000), ..Config::default() };
        let law = config.build().unwrap();
        let mut rng = Streams::new(5).named("sizes", 0);
        let sizes: Vec<f64> = (0..200_000).map(|_| law.draw(&mut rng) as f64).collect();
        let n = sizes.len() as f64;
        let mean = sizes.iter().sum::<f64>() / n;
        let variance = sizes.iter().map(|size| (size - mean) * (size - mean)).sum::<f64>() / n;
        assert!((mean - 5000.0).abs() < 3.0 * (variance / n).sqrt(), "{mean}");
    }

    #[test]
    fn the_law_before_the_cuts_is_that_of_rand_distr() {
        let config = Config {
            mean: Size::from_bytes(1_000_000_000),
            maximum: Size::from_bytes(1_000_000_000_000_000),
            minimum: Size::from_bytes(1),
            calibration: Calibration::Nominal,
            ..Config::default()
        };
        let law = config.build().unwrap();
        let mut rng = Streams::new(6).named("sizes", 0);
        let ours = (0..20_000).map(|_| law.draw(&mut rng) as f64).collect();
        // A Pareto law of the first kind, moved to begin at zero.
        let pareto = rand_distr::Pareto::new(law.scale, 1.2).unwrap();
        let mut other = Xoshiro256PlusPlus::seed_from_u64(4);
        let theirs = (0..20_000).map(|_| pareto.sample(&mut other) - law.scale).collect();
        assert!(distance_between(ours, theirs) < 1.63);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let place = |config: Config| config.build().unwrap_err().place;
        let size = Size::from_bytes;
        assert_eq!(place(Config { shape: 0.0, ..Config::default() }), "shape");
        assert_eq!(place(Config { shape: f64::NAN, ..Config::default() }), "shape");
        let nominal = Calibration::Nominal;
        assert_eq!(place(Config { shape: 1.0, calibration: nominal, ..Config::default() }), "shape");
        assert_eq!(place(Config { minimum: size(0), ..Config::default() }), "minimum");
        assert_eq!(place(Config { maximum: size(11), ..Config::default() }), "maximum");
        assert_eq!(place(Config { mean: size(0), ..Config::default() }), "mean");
        assert_eq!(place(Config { mean: size(11), ..Config::default() }), "mean");
        assert_eq!(place(Config { mean: size(2_000_000), ..Config::default() }), "mean");
        let redraw = Config { mean: size(1_000_001), truncation: Truncation::Redraw, ..Config::default() };
        assert!(
            redraw.build().unwrap_err().problem.contains("below 999999"),
            "a redrawn law is at most uniform"
        );
    }

    proptest! {
        #[test]
        fn the_exact_mean_is_the_mean_and_sizes_stay_between_the_cuts(
            shape in 0.51_f64..5.0,
            minimum in 1_u64..1000,
            above in 10_u64..100_000,
            range in 1_u64..100_000_000,
            redraw in any::<bool>(),
        ) {
            let mean = minimum + above;
            let config = Config {
                mean: Size::from_bytes(mean),
                shape,
                minimum: Size::from_bytes(minimum),
                maximum: Size::from_bytes(3 * mean + range),
                truncation: if redraw { Truncation::Redraw } else { Truncation::Clip },
                calibration: Calibration::Exact,
            };
            let law = config.build().unwrap();
            prop_assert!((law.mean() / mean as f64 - 1.0).abs() < 1e-6, "{} {:?}", law.mean(), law);
            let mut rng = Streams::new(range).named("sizes", 0);
            for _ in 0..50 {
                let size = law.draw(&mut rng);
                prop_assert!(size >= law.minimum && size <= law.maximum);
            }
        }
    }
}
