//! Empirical: measured values, given as points of their distribution function. The points are connected by straight
//! lines, as in ns-2's and ns-3's `EmpiricalRandomVariable` with interpolation.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit};

parameters! {
    /// Empirical: measured values, given as points of their distribution function.
    pub struct Config {
        /// Two or more points, in ascending order of their values. The probability of the last point must be 1. If the
        /// probability of the first point is greater than 0, a value equals the value of the first point with exactly
        /// this probability.
        pub points: Vec<Point> = Vec::new(), "no default: required";
    }
}

parameters! {
    /// A point of a distribution function.
    pub struct Point {
        /// Value of the point.
        pub value: Option<Amount> = None, "no default: required";
        /// Probability that a value is less than or equal to this point's value.
        pub chance: f64 = 1.0, "that of the last point";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        let read =
            |point: &Point| unit.read_given("value", point.value).map_err(|error| error.within("points"));
        let values = self.points.iter().map(read).collect::<Result<Vec<f64>, _>>()?;
        let chances: Vec<f64> = self.points.iter().map(|point| point.chance).collect();
        let greater = values.len() >= 2 && values.windows(2).all(|pair| pair[0] < pair[1]);
        let problem = "must have two or more points in ascending order of their values";
        ConfigError::unless(greater, "points", problem)?;
        let rising = chances.windows(2).all(|pair| pair[0] <= pair[1]);
        let up_to_one = rising && chances[0] >= 0.0 && chances[chances.len() - 1] == 1.0;
        let problem = "must have ascending probabilities of at least 0; the last probability must be 1";
        ConfigError::unless(up_to_one, "points", problem)?;
        let mut empirical = Empirical { values, chances, mean: 0.0 };
        empirical.mean = empirical.survival_between(0.0, empirical.support().1);
        Ok(empirical.into())
    }
}

/// Measured values.
#[derive(Clone, Debug)]
pub struct Empirical {
    values: Vec<f64>,
    /// For each point, the probability that a value is less than or equal to the point's value.
    chances: Vec<f64>,
    mean: f64,
}

/// Returns the value, at `x`, of the straight line through two points.
fn line([x0, y0]: [f64; 2], [x1, y1]: [f64; 2], x: f64) -> f64 {
    y0 + (x - x0) * (y1 - y0) / (x1 - x0)
}

impl Distribution for Empirical {
    fn sample(&self, rng: &mut Rng) -> f64 {
        let p = rng.uniform();
        let after = self.chances.partition_point(|&chance| chance <= p);
        if after == 0 {
            return self.values[0];
        }
        let point = |index: usize| [self.chances[index], self.values[index]];
        line(point(after - 1), point(after), p)
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    fn survival(&self, x: f64) -> f64 {
        let after = self.values.partition_point(|&value| value <= x);
        if after == 0 {
            return 1.0;
        }
        if after == self.values.len() {
            return 0.0;
        }
        let point = |index: usize| [self.values[index], 1.0 - self.chances[index]];
        line(point(after - 1), point(after), x)
    }

    fn support(&self) -> (f64, f64) {
        (self.values[0], self.values[self.values.len() - 1])
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        let trapezoid = |a: f64, b: f64, ends: [f64; 2]| (b - a) * (ends[0] + ends[1]) / 2.0;
        let part = |index: usize| {
            let [low, high] = [index, index + 1].map(|index| [self.values[index], 1.0 - self.chances[index]]);
            let (a, b) = (from.max(low[0]), to.min(high[0]));
            if a < b { trapezoid(a, b, [line(low, high, a), line(low, high, b)]) } else { 0.0 }
        };
        (0..self.values.len() - 1).map(part).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Streams;

    fn points(points: &[(f64, f64)]) -> Config {
        let point = |&(value, chance): &(f64, f64)| Point { value: Some(Amount::Number(value)), chance };
        Config { points: points.iter().map(point).collect() }
    }

    #[test]
    fn a_first_chance_above_zero_is_that_of_the_first_value() {
        let config = points(&[(10.0, 0.25), (20.0, 0.5), (40.0, 1.0)]);
        let empirical = config.build(&mut Unit::Count).unwrap();
        let mut rng = Streams::new(1).named("empirical", 0);
        let samples: Vec<f64> = (0..20_000).map(|_| empirical.sample(&mut rng)).collect();
        let firsts = samples.iter().filter(|&&value| value == 10.0).count() as f64;
        assert!((firsts - 5000.0).abs() < 3.3 * f64::sqrt(3750.0), "{firsts}");
        // One quarter of the values are equal to 10, another quarter have a mean of 15, and the remaining half have a
        // mean of 30.
        assert!((empirical.mean() - 21.25).abs() < 1e-12, "{}", empirical.mean());
        let survival = [9.0, 10.0, 15.0, 30.0, 40.0].map(|x| empirical.survival(x));
        assert_eq!(survival, [1.0, 0.75, 0.625, 0.25, 0.0]);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for wrong in [
            &[][..],
            &[(1.0, 1.0)],
            &[(1.0, 0.0), (1.0, 1.0)],
            &[(2.0, 0.0), (1.0, 1.0)],
            &[(1.0, 0.0), (2.0, 0.9)],
            &[(1.0, -0.1), (2.0, 1.0)],
            &[(1.0, f64::NAN), (2.0, 1.0)],
            &[(1.0, 0.5), (2.0, 0.4), (3.0, 1.0)],
        ] {
            let error = points(wrong).build(&mut Unit::Count).unwrap_err();
            assert_eq!(error.path, "points", "{wrong:?}");
        }
    }
}
