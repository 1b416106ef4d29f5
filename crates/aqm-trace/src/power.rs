//! A power law between two ends: density proportional to x^(-1-exponent). A bounded Pareto law if the
//! exponent is positive, log-uniform if it is zero; exact for any exponent, so that laws weighted by size
//! or by duration, which are power laws again, can be drawn from too.

use aqm_net::Rng;

/// The law.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Power {
    pub(crate) exponent: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Power {
    /// One value, by inversion.
    pub(crate) fn draw(self, rng: &mut Rng) -> f64 {
        let (p, log) = (rng.uniform(), self.log_ratio());
        if self.exponent.abs() * log < 1e-9 {
            return self.least * libm::exp(p * log);
        }
        let within = libm::expm1(-self.exponent * log);
        self.least * libm::exp(-libm::log1p(p * within) / self.exponent)
    }

    /// The mean.
    pub(crate) fn mean(self) -> f64 {
        self.least * self.integral(-1.0) / self.integral(0.0)
    }

    /// The mean of one over the value.
    pub(crate) fn mean_inverse(self) -> f64 {
        self.integral(1.0) / self.integral(0.0) / self.least
    }

    /// The law whose density is this one's times x^`power`.
    pub(crate) fn weighted(self, power: f64) -> Self {
        Self { exponent: self.exponent - power, ..self }
    }

    /// The least and the greatest mean of one over the value that any exponent can give.
    pub(crate) fn mean_inverses(self) -> [f64; 2] {
        let most = self.most_exponent();
        [-most, most].map(|exponent| Self { exponent, ..self }.mean_inverse())
    }

    /// The law with the exponent for which the mean of one over the value is `wanted`.
    pub(crate) fn with_mean_inverse(self, wanted: f64) -> Self {
        let most = self.most_exponent();
        let (mut low, mut high) = (-most, most);
        for _ in 0..80 {
            let exponent = (low + high) / 2.0;
            if (Self { exponent, ..self }).mean_inverse() < wanted {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Self { exponent: (low + high) / 2.0, ..self }
    }

    /// Beyond this nearly all mass lies at one end, and powers overflow.
    fn most_exponent(self) -> f64 {
        (500.0 / self.log_ratio()).min(100.0)
    }

    fn log_ratio(self) -> f64 {
        libm::log(self.most / self.least)
    }

    /// The integral of x^(-1-exponent-`more`) from 1 to the ratio of the ends.
    fn integral(self, more: f64) -> f64 {
        let (exponent, log) = (self.exponent + more, self.log_ratio());
        if exponent.abs() * log < 1e-9 { log } else { -libm::expm1(-exponent * log) / exponent }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn draws_have_the_means_that_the_law_tells_and_stay_within_its_ends() {
        for exponent in [-1.5, 0.0, 0.3, 2.0] {
            let law = Power { exponent, least: 2.0, most: 50.0 };
            let mut rng = Streams::new(1).named("power", 0);
            let drawn: Vec<f64> = (0..100_000).map(|_| law.draw(&mut rng)).collect();
            assert!(drawn.iter().all(|value| (2.0..=50.000_001).contains(value)));
            let mean = drawn.iter().sum::<f64>() / 1e5;
            let inverse = drawn.iter().map(|value| 1.0 / value).sum::<f64>() / 1e5;
            assert!((mean / law.mean() - 1.0).abs() < 0.02, "{exponent}: {mean} {}", law.mean());
            assert!((inverse / law.mean_inverse() - 1.0).abs() < 0.02, "{exponent}: {inverse}");
        }
    }

    #[test]
    fn a_law_weighted_by_its_value_has_the_second_moment_over_the_first_as_its_mean() {
        let law = Power { exponent: 0.5, least: 1.0, most: 100.0 };
        // The integrals of x^1.5-1.5 and x^0.5-1.5 from 1 to 100, by hand.
        let (second, first) = ((1000.0 - 1.0) / 1.5, (10.0 - 1.0) / 0.5);
        assert!((law.weighted(1.0).mean() / (second / first) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_wanted_mean_of_the_inverse_is_found() {
        let law = Power { exponent: 0.0, least: 1e4, most: 1e7 };
        let [least, most] = law.mean_inverses();
        assert!(least < 1.02e-7 && most > 9.8e-5, "{least} {most}");
        for wanted in [least, 1.1e-7, 1e-6, 1.4e-5, 5e-5, 9.5e-5, most] {
            let found = law.with_mean_inverse(wanted).mean_inverse();
            assert!((found / wanted - 1.0).abs() < 1e-9, "{wanted}: {found}");
        }
    }
}
