//! Lomax, also called the Pareto distribution of the second kind: P(X > x) = (1 + x/scale)^-`shape`, with a minimum and
//! a maximum.
//!
//! Source: K. S. Lomax, "Business Failures: Another Example of the Analysis of Failure Data", 1954, in which the mean
//! is scale/(`shape` - 1). Claypool, Kinicki & Hartling, "Active Queue Management for Web Traffic", 2004, use this
//! distribution for Web objects with a shape of 1.2, a mean of 10 kB, a minimum of 12 B and a maximum of 2 MB
//! (`web.rs`).
//!
//! aqmlab's choices, where the source is silent: how values above the maximum are treated, and whether the mean applies
//! before or after truncation. Parameters select the interpretation in both cases. The choice makes a large difference.
//! With the numbers from Claypool et al., the mean of the truncated values is 7489 B or 6989 B unless the scale
//! compensates for the truncation. Values below the minimum are always raised to the minimum. Rounding to whole bytes
//! changes these means by less than one thousandth of a byte.

use aqm_net::{ConfigError, Rng, choices, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit};

choices! {
    /// Treatment of values above the maximum.
    pub enum Truncation {
        /// The value is reduced to the maximum.
        Clip = "clip",
        /// The value is drawn again.
        Redraw = "redraw",
    }
}

choices! {
    /// Interpretation of the mean.
    pub enum Calibration {
        /// The mean applies after truncation.
        Exact = "exact",
        /// The mean applies before truncation, as in ns-2. The mean of the truncated values is smaller.
        Nominal = "nominal",
    }
}

parameters! {
    /// Lomax (Pareto of the second kind): a heavy-tailed distribution that begins at zero, with a minimum and a
    /// maximum.
    pub struct Config {
        /// Mean.
        pub mean: Option<Amount> = None, "no default: required, except for gaps, whose mean is computed";
        /// Shape of the tail; a smaller value results in a heavier tail.
        pub shape: f64 = 1.2, "SHRED talk, Web model";
        /// Minimum value, to which smaller values are raised; by default, there is no minimum.
        pub minimum: Option<Amount> = None, "aqmlab's choice";
        /// Maximum value; by default, there is no maximum.
        pub maximum: Option<Amount> = None, "aqmlab's choice";
        /// Treatment of values above the maximum.
        pub truncation: Truncation = Truncation::Clip, "aqmlab's choice: the talk does not specify the truncation";
        /// Interpretation of the mean.
        pub calibration: Calibration = Calibration::Exact, "aqmlab's choice: the values have the configured mean";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        Ok(self.lomax(unit)?.into())
    }
}

impl Config {
    /// Checks the parameters and computes the scale.
    fn lomax(&self, unit: &mut Unit) -> Result<Lomax, ConfigError> {
        let mean = unit.read_mean("mean", self.mean)?;
        let minimum = self.minimum.map_or(Ok(0.0), |minimum| unit.read("minimum", minimum))?;
        let maximum = self.maximum.map_or(Ok(f64::INFINITY), |maximum| unit.read("maximum", maximum))?;
        if maximum < minimum {
            return Err(ConfigError::at("maximum", "must be at least the minimum"));
        }
        let unbounded = maximum.is_infinite();
        let least_shape = if unbounded || self.calibration == Calibration::Nominal { 1.0 } else { 0.5 };
        if !(self.shape > least_shape && self.shape <= 100.0) {
            let problem = format!("must be above {least_shape} and at most 100 (got {})", self.shape);
            return Err(ConfigError::at("shape", problem));
        }
        let with_scale = |scale| Lomax {
            shape: self.shape,
            scale,
            minimum,
            maximum,
            truncation: if unbounded { Truncation::Clip } else { self.truncation },
            beyond: survival(maximum / scale, self.shape),
        };
        if self.calibration == Calibration::Nominal {
            return Ok(with_scale(mean * (self.shape - 1.0)));
        }
        if minimum == maximum && mean == minimum {
            return Ok(with_scale(mean));
        }
        // The mean increases with the scale, because a larger scale makes large values more probable.
        let largest = if unbounded { mean } else { maximum };
        let (mut low, mut high) = (libm::log(1e-9), libm::log(1e6 * largest));
        let (least, most) = (with_scale(libm::exp(low)).mean(), with_scale(libm::exp(high)).mean());
        if !(least < mean && mean < most) {
            let (least, most) = (unit.show(least, libm::ceil), unit.show(most, libm::floor));
            let why = "because of the minimum, the maximum and the shape";
            return Err(ConfigError::at("mean", format!("must be above {least} and below {most}, {why}")));
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if with_scale(libm::exp(middle)).mean() < mean { low = middle } else { high = middle }
        }
        Ok(with_scale(libm::exp((low + high) / 2.0)))
    }
}

/// Lomax distribution between a minimum and a maximum.
#[derive(Clone, Copy, Debug)]
pub struct Lomax {
    shape: f64,
    scale: f64,
    minimum: f64,
    maximum: f64,
    truncation: Truncation,
    /// Probability that a value exceeds the maximum before it is truncated.
    beyond: f64,
}

impl Lomax {
    /// Returns the value that is exceeded with probability `p`, ignoring the minimum. This function is the inverse of
    /// the survival function. With `redraw`, it is the inverse of the truncated distribution's survival function, so
    /// that no value has to be drawn again.
    fn exceeded_with(&self, p: f64) -> f64 {
        let p = match self.truncation {
            Truncation::Clip => p,
            Truncation::Redraw => self.beyond + p * self.within(),
        };
        self.scale * libm::expm1(-libm::log(p) / self.shape)
    }

    /// Returns the probability that a value does not exceed the maximum before it is truncated.
    fn within(&self) -> f64 {
        -libm::expm1(-self.shape * libm::log1p(self.maximum / self.scale))
    }
}

impl Distribution for Lomax {
    fn sample(&self, rng: &mut Rng) -> f64 {
        self.exceeded_with(rng.uniform_positive()).clamp(self.minimum, self.maximum)
    }

    fn mean(&self) -> f64 {
        self.minimum + self.survival_between(self.minimum, self.maximum)
    }

    fn survival(&self, x: f64) -> f64 {
        if x < self.minimum {
            return 1.0;
        }
        if x >= self.maximum {
            return 0.0;
        }
        let whole = survival(x / self.scale, self.shape);
        match self.truncation {
            Truncation::Clip => whole,
            Truncation::Redraw => (whole - self.beyond) / self.within(),
        }
    }

    fn support(&self) -> (f64, f64) {
        (self.minimum, self.maximum)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        let area = |x: f64| self.scale * area(x / self.scale, self.shape);
        let whole = area(to) - area(from);
        match self.truncation {
            Truncation::Clip => whole,
            Truncation::Redraw => (whole - (to - from) * self.beyond) / self.within(),
        }
    }
}

/// Returns (1 + `x`)^-`shape`.
fn survival(x: f64, shape: f64) -> f64 {
    libm::exp(-shape * libm::log1p(x))
}

/// Returns the integral of [`survival`] from 0 to `x`.
fn area(x: f64, shape: f64) -> f64 {
    let log = libm::log1p(x);
    if shape == 1.0 { log } else { libm::expm1((1.0 - shape) * log) / (1.0 - shape) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::tests::{DRAWS, reference};
    use crate::distributions::{self, Sizes};
    use crate::testing::{distance, distance_between};
    use aqm_net::Streams;
    use proptest::prelude::*;

    fn size(bytes: u64) -> Option<Amount> {
        Some(Amount::bytes(bytes))
    }

    /// The parameters of the Web model.
    fn web_model() -> Config {
        Config { mean: size(10_000), minimum: size(12), maximum: size(2_000_000), ..Config::default() }
    }

    fn web(truncation: Truncation, calibration: Calibration) -> Lomax {
        lomax(&Config { truncation, calibration, ..web_model() })
    }

    fn lomax(config: &Config) -> Lomax {
        config.lomax(&mut Unit::Bytes).unwrap()
    }

    fn sizes(config: &Config) -> Sizes {
        distributions::Config::lomax(config.clone()).sizes(None).unwrap()
    }

    #[test]
    fn the_four_readings_of_the_web_model_are_those_computed_elsewhere() {
        use Calibration::{Exact, Nominal};
        use Truncation::{Clip, Redraw};
        // For each interpretation, the array contains the scale, the mean, and the fraction of objects below 2000 B,
        // which were computed independently.
        let readings = [
            (Clip, Nominal, 2000.0, 7489.0, 0.565),
            (Redraw, Nominal, 2000.0, 6989.0, 0.565),
            (Clip, Exact, 2729.367, 10000.0, 0.483),
            (Redraw, Exact, 2966.012, 10000.0, 0.461),
        ];
        for (truncation, calibration, scale, mean, mice) in readings {
            let lomax = web(truncation, calibration);
            assert!((lomax.scale / scale - 1.0).abs() < 1e-6, "{lomax:?}");
            assert!((lomax.mean() - mean).abs() < 0.6, "{lomax:?}: {}", lomax.mean());
            let config = Config { truncation, calibration, ..web_model() };
            assert!((1.0 - sizes(&config).at_least(2000) - mice).abs() < 6e-4, "{lomax:?}");
        }
        let median = |truncation| web(truncation, Exact).exceeded_with(0.5);
        assert!((median(Clip) - 2133.81).abs() < 0.01);
        assert!((median(Redraw) - 2317.05).abs() < 0.01);
    }

    #[test]
    fn without_a_minimum_the_scale_is_that_of_the_reference_runs() {
        // In the ns-2 runs, the minimum of 12 B had no effect on the mean of 2729.3763 B.
        let config = Config { minimum: size(1), ..web_model() };
        assert!((lomax(&config).scale - 2729.3763).abs() < 3e-4);
        let difference = web(Truncation::Clip, Calibration::Exact).scale - 2729.3763;
        assert!((-0.02..0.0).contains(&difference), "{difference}");
    }

    #[test]
    fn draws_follow_the_distribution_function() {
        for truncation in [Truncation::Clip, Truncation::Redraw] {
            let config =
                Config { maximum: size(20_000_000_000), mean: size(100_000_000), truncation, ..web_model() };
            let (lomax, sizes) = (lomax(&config), sizes(&config));
            let mut rng = Streams::new(1).named("sizes", 0);
            let samples: Vec<u64> = (0..20_000).map(|_| sizes.sample(&mut rng)).collect();
            let chance = 1.0 - sizes.at_least(sizes.maximum());
            assert_eq!(
                truncation == Truncation::Clip,
                chance < 0.9999,
                "only clipping accumulates values at the maximum"
            );
            // The distribution is continuous below the maximum. With this scale, rounding to bytes is negligible.
            let inner =
                samples.iter().filter(|&&size| size < sizes.maximum()).map(|&size| size as f64).collect();
            assert!(distance(inner, |x| (1.0 - lomax.survival(x)) / chance) < 1.63, "{truncation:?}");
            let piled = samples.iter().filter(|&&size| size == sizes.maximum()).count() as f64;
            let expected = 20_000.0 * (1.0 - chance);
            assert!((piled - expected).abs() <= 3.0 * expected.sqrt(), "{piled} {expected}");
        }
    }

    #[test]
    fn the_mean_of_whole_bytes_is_the_mean_in_closed_form() {
        for truncation in [Truncation::Clip, Truncation::Redraw] {
            let sizes = sizes(&Config { truncation, ..web_model() });
            let sum: f64 = (1..=sizes.maximum()).map(|bytes| sizes.at_least(bytes)).sum();
            assert!((sum - 10_000.0).abs() < 1e-3, "{sum}");
        }
    }

    #[test]
    fn the_mean_of_a_sample_is_the_mean_given() {
        // With a shape of 1.2 and a high maximum, the mean of a sample would not converge.
        let sizes = sizes(&Config { maximum: size(100_000), mean: size(5000), ..web_model() });
        let mut rng = Streams::new(5).named("sizes", 0);
        let samples: Vec<f64> = (0..200_000).map(|_| sizes.sample(&mut rng) as f64).collect();
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|size| (size - mean) * (size - mean)).sum::<f64>() / n;
        assert!((mean - 5000.0).abs() < 3.0 * (variance / n).sqrt(), "{mean}");
    }

    #[test]
    fn before_truncation_the_values_are_those_of_rand_distr() {
        let lomax = lomax(&Config {
            mean: size(1_000_000_000),
            calibration: Calibration::Nominal,
            ..Config::default()
        });
        // The reference is a Pareto distribution of the first kind, shifted so that it begins at zero.
        let pareto = rand_distr::Pareto::new(lomax.scale, 1.2).unwrap();
        let theirs = reference(&pareto).into_iter().map(|value| value - lomax.scale).collect();
        let mut rng = Streams::new(6).named("sizes", 0);
        let ours = (0..DRAWS).map(|_| lomax.sample(&mut rng)).collect();
        assert!(distance_between(ours, theirs) < 1.63);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.lomax(&mut Unit::Bytes).unwrap_err().path;
        assert_eq!(path(Config { shape: 0.0, ..web_model() }), "shape");
        assert_eq!(path(Config { shape: f64::NAN, ..web_model() }), "shape");
        assert_eq!(path(Config { shape: 1.0, maximum: None, ..web_model() }), "shape");
        assert_eq!(path(Config { mean: None, ..web_model() }), "mean");
        let nominal = Calibration::Nominal;
        assert_eq!(path(Config { shape: 1.0, calibration: nominal, ..web_model() }), "shape");
        assert_eq!(path(Config { minimum: size(0), ..web_model() }), "minimum");
        assert_eq!(path(Config { maximum: size(11), ..web_model() }), "maximum");
        assert_eq!(path(Config { mean: size(0), ..web_model() }), "mean");
        assert_eq!(path(Config { mean: size(11), ..web_model() }), "mean");
        assert_eq!(path(Config { mean: size(2_000_000), ..web_model() }), "mean");
        let redraw = Config { mean: size(1_000_001), truncation: Truncation::Redraw, ..web_model() };
        assert!(
            redraw.lomax(&mut Unit::Bytes).unwrap_err().problem.contains("below 999999"),
            "the density of redrawn values is at most uniform"
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
                mean: size(mean),
                shape,
                minimum: size(minimum),
                maximum: size(3 * mean + range),
                truncation: if redraw { Truncation::Redraw } else { Truncation::Clip },
                calibration: Calibration::Exact,
            };
            let sizes = sizes(&config);
            prop_assert!((sizes.mean() / mean as f64 - 1.0).abs() < 1e-6, "{} {:?}", sizes.mean(), sizes);
            let mut rng = Streams::new(range).named("sizes", 0);
            for _ in 0..50 {
                let size = sizes.sample(&mut rng);
                prop_assert!(size >= minimum && size <= sizes.maximum());
            }
        }
    }
}
