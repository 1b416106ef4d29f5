//! Bounded Pareto: a heavy-tailed distribution between two bounds.
//!
//! Sources: M. Harchol-Balter, M. Crovella & C. Murta, "On Choosing a Task Assignment Policy for a Distributed Server
//! System", 1999. In the paper by Harchol-Balter et al., the bounds and the shape determine the distribution and its
//! mean. L. Guo & I. Matta, "The War Between Mice and Elephants", 2001, use this distribution for Web files of 4 to
//! 200,000 packets with a shape of 1.2; these numbers are taken from the authors' talk (`sessions`). Sizes are rounded
//! up to whole bytes or whole packets.

use aqm_net::{ConfigError, Rng, parameters};

use super::{Amount, AnyDistribution, Build, Distribution, Unit, check_range, read_bounds};

parameters! {
    /// Bounded Pareto: a heavy-tailed distribution between two bounds.
    ///
    /// Sizes are rounded up to whole bytes or whole packets.
    pub struct Config {
        /// Shape of the tail; a smaller value results in a heavier tail.
        pub shape: f64 = 1.2, "Guo & Matta talk, Web model";
        /// Minimum value.
        pub minimum: Option<Amount> = None, "no default: required";
        /// Maximum value, in the same unit as the minimum.
        pub maximum: Option<Amount> = None, "no default: required";
    }
}

impl Build for Config {
    fn build(&self, unit: &mut Unit) -> Result<AnyDistribution, ConfigError> {
        check_range("shape", self.shape, 0.01, 100.0)?;
        let (minimum, maximum) = read_bounds(unit, self.minimum, self.maximum)?;
        if minimum == 0.0 {
            return Err(ConfigError::at("minimum", "must be above zero"));
        }
        let ratio = libm::log(minimum / maximum);
        let (beyond, within) = (libm::exp(self.shape * ratio), -libm::expm1(self.shape * ratio));
        Ok(BoundedPareto { shape: self.shape, minimum, maximum, beyond, within }.into())
    }
}

/// Pareto distribution between two bounds.
#[derive(Clone, Copy, Debug)]
pub struct BoundedPareto {
    shape: f64,
    minimum: f64,
    maximum: f64,
    /// Probability that a value of an unbounded Pareto distribution exceeds the maximum.
    beyond: f64,
    /// Probability that a value of an unbounded Pareto distribution does not exceed the maximum.
    within: f64,
}

impl Distribution for BoundedPareto {
    fn sample(&self, rng: &mut Rng) -> f64 {
        let p = self.beyond + rng.uniform_positive() * self.within;
        (self.minimum * libm::exp(-libm::log(p) / self.shape)).clamp(self.minimum, self.maximum)
    }

    fn mean(&self) -> f64 {
        self.minimum + self.survival_between(self.minimum, self.maximum)
    }

    fn survival(&self, x: f64) -> f64 {
        if x >= self.maximum {
            0.0
        } else if x <= self.minimum {
            1.0
        } else {
            let log = libm::log(self.minimum / x);
            (libm::exp(self.shape * log) - self.beyond) / self.within
        }
    }

    fn support(&self) -> (f64, f64) {
        (self.minimum, self.maximum)
    }

    fn rounds_up(&self) -> bool {
        true
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        if self.minimum == self.maximum {
            return 0.0;
        }
        let (log, rest) = (libm::log(to / from), 1.0 - self.shape);
        let grown = if rest == 0.0 { log } else { libm::expm1(rest * log) / rest };
        let whole = self.minimum * libm::exp(rest * libm::log(from / self.minimum)) * grown;
        (whole - (to - from) * self.beyond) / self.within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packetisation;
    use crate::distributions::{self, Sizes};
    use crate::testing::{FullPackets, ShortLast, distance};
    use crate::wire::Wire;
    use aqm_net::Streams;

    fn table(shape: f64, minimum: Amount, maximum: Amount) -> Config {
        Config { shape, minimum: Some(minimum), maximum: Some(maximum) }
    }

    fn sizes(shape: f64, minimum: Amount, maximum: Amount) -> Sizes {
        let config = distributions::Config::bounded_pareto(table(shape, minimum, maximum));
        config.sizes(Some(&FullPackets)).unwrap()
    }

    fn bounded_pareto(shape: f64, minimum: Amount, maximum: Amount) -> AnyDistribution {
        table(shape, minimum, maximum).build(&mut Unit::BytesOrPackets).unwrap()
    }

    const WEB: [Amount; 2] = [Amount::Packets(4), Amount::Packets(200_000)];

    #[test]
    fn the_mean_of_the_web_model_is_21_packets() {
        // This is the published closed form of the mean.
        let (a, low, high) = (1.2, 4.0, 200_000.0);
        let power = |base: f64, exponent: f64| libm::pow(base, exponent);
        let mean = power(low, a) / (1.0 - power(low / high, a)) * a / (a - 1.0)
            * (power(low, 1.0 - a) - power(high, 1.0 - a));
        let web = bounded_pareto(1.2, WEB[0], WEB[1]);
        assert!((web.survival_between(0.0, high) / mean - 1.0).abs() < 1e-12, "{mean}");
        assert!((mean - 21.243_172_752).abs() < 1e-8, "{mean}");
        // Sizes are rounded up to whole packets. The expected sum was computed independently.
        let packets = sizes(1.2, WEB[0], WEB[1]).mean() / 934.0;
        assert!((packets - 21.767_995_06).abs() < 1e-7, "{packets}");
    }

    #[test]
    fn most_files_are_mice_and_most_bytes_are_in_elephants() {
        let web = bounded_pareto(1.2, WEB[0], WEB[1]);
        let area = |from: f64| web.survival_between(from, 200_000.0);
        let bytes_above = |x: f64| (area(x) + x * web.survival(x)) / area(0.0);
        // Files of at most 10 packets account for 67 % of the files and 19 % of the bytes.
        assert!((1.0 - web.survival(10.0) - 0.66698).abs() < 1e-5);
        assert!((1.0 - bytes_above(10.0) - 0.18918).abs() < 1e-5);
        // Files of more than 100 packets account for 2.1 % of the files and 46 % of the bytes; files of more than 1000
        // packets account for 0.13 % of the files and 24 % of the bytes.
        assert!((web.survival(100.0) - 0.02101).abs() < 1e-5 && (bytes_above(100.0) - 0.46370).abs() < 1e-5);
        assert!((web.survival(1000.0) - 0.001_323).abs() < 1e-6);
        assert!((bytes_above(1000.0) - 0.24468).abs() < 1e-5);
    }

    #[test]
    fn draws_follow_the_distribution_function() {
        // The sizes are so large that rounding to bytes has no effect.
        for shape in [0.5, 1.0, 1.2, 3.0] {
            let bounds = [Amount::bytes(1_000_000), Amount::bytes(100_000_000)];
            let (sizes, exact) =
                (sizes(shape, bounds[0], bounds[1]), bounded_pareto(shape, bounds[0], bounds[1]));
            let mut rng = Streams::new(1).named("sizes", 0);
            let samples = (0..20_000).map(|_| sizes.sample(&mut rng) as f64).collect();
            assert!(distance(samples, |x| 1.0 - exact.survival(x)) < 1.63, "{shape}");
        }
    }

    #[test]
    fn sizes_in_packets_are_full_packets_between_the_bounds() {
        let sizes = sizes(1.2, Amount::Packets(4), Amount::Packets(40));
        let mut rng = Streams::new(2).named("sizes", 0);
        let mut seen = [0_u32; 41];
        for _ in 0..20_000 {
            let bytes = sizes.sample(&mut rng);
            assert_eq!(bytes % 934, 0);
            seen[(bytes / 934) as usize] += 1;
        }
        assert!(seen[..5].iter().all(|&n| n == 0) && seen[5..].iter().all(|&n| n > 0), "{seen:?}");
        let expected = |packets: u64| sizes.at_least(packets * 934) - sizes.at_least(packets * 934 + 1);
        for packets in [5, 6, 10, 40] {
            let (n, p) = (f64::from(seen[packets as usize]), expected(packets));
            assert!((n - 20_000.0 * p).abs() < 3.3 * (20_000.0 * p).sqrt(), "{packets}: {n} {p}");
        }
    }

    #[test]
    fn the_mean_and_the_mean_on_the_wire_are_sums_over_all_sizes() {
        let packets = |shape| (sizes(shape, WEB[0], WEB[1]), 934);
        let bytes = (sizes(1.2, Amount::bytes(3000), Amount::bytes(2_000_000)), 1);
        for (sizes, unit) in [packets(0.8), packets(1.0), packets(1.2), packets(2.5), bytes] {
            for packetisation in [&FullPackets as &dyn Packetisation, &ShortLast] {
                let (mut size, mut wire, mut above) = (0.0, 0.0, 1.0);
                for units in sizes.minimum() / unit..=sizes.maximum() / unit {
                    let bytes = units * unit;
                    let beyond = sizes.at_least(bytes + 1);
                    size += (above - beyond) * bytes as f64;
                    wire += (above - beyond) * packetisation.wire_bytes(bytes) as f64;
                    above = beyond;
                }
                assert_eq!(above, 0.0);
                assert!((sizes.mean() / size - 1.0).abs() < 1e-8, "{sizes:?} {size}");
                if unit == packetisation.payload() || unit == 1 {
                    let mean = Wire::of(packetisation).mean(&sizes);
                    assert!((mean / wire - 1.0).abs() < 1e-7, "{sizes:?} {mean} {wire}");
                }
            }
        }
    }

    #[test]
    fn sizes_in_bytes_are_rounded_up() {
        let (sizes, exact) = (
            sizes(1.2, Amount::bytes(100), Amount::bytes(200)),
            bounded_pareto(1.2, Amount::bytes(100), Amount::bytes(200)),
        );
        let (mut ours, mut same) = (Streams::new(1).named("sizes", 0), Streams::new(1).named("sizes", 0));
        for _ in 0..1000 {
            assert_eq!(sizes.sample(&mut ours) as f64, libm::ceil(exact.sample(&mut same)));
        }
        assert!((sizes.mean() - exact.mean() - 0.5).abs() < 0.002, "{}", sizes.mean());
    }

    #[test]
    fn equal_bounds_leave_one_size() {
        let sizes = sizes(1.2, Amount::Packets(7), Amount::Packets(7));
        let mut rng = Streams::new(2).named("sizes", 0);
        assert!((0..100).all(|_| sizes.sample(&mut rng) == 7 * 934));
        assert_eq!((sizes.mean(), sizes.maximum()), (7.0 * 934.0, 7 * 934));
        assert_eq!(Wire::of(&FullPackets).mean(&sizes), 40.0 + 7.0 * 974.0);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |shape, minimum, maximum| {
            let config = distributions::Config::bounded_pareto(table(shape, minimum, maximum));
            config.sizes(Some(&FullPackets)).unwrap_err().path
        };
        let (packets, bytes) = (Amount::Packets, Amount::bytes);
        for shape in [0.0, -1.0, 101.0, f64::NAN] {
            assert_eq!(path(shape, packets(4), packets(5)), "shape");
        }
        assert_eq!(path(1.2, packets(0), packets(5)), "minimum");
        assert_eq!(path(1.2, packets(6), packets(5)), "maximum");
        assert_eq!(path(1.2, packets(4), bytes(5)), "maximum");
        assert_eq!(path(1.2, packets(4), packets(1_000_000_000_000_000)), "maximum");
    }
}
