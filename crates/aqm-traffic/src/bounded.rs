//! How big files are: the bounded Pareto law, between a least and a greatest size, in packets or in
//! bytes.
//!
//! M. Harchol-Balter, M. Crovella & C. Murta, "On Choosing a Task Assignment Policy for a
//! Distributed Server System", 1999: the law has no mean of its own, its bounds and its shape say
//! everything. A size in packets is a whole number of full packets, rounded up, as in ns-2's Web
//! traffic. From 4 to 200,000 packets, shape 1.2: L. Guo & I. Matta, "The War Between Mice and
//! Elephants", 2001, whose talk gives these numbers. Drawn by inversion (Devroye 1986, II.2).
//!
//! Ours, where the source is silent: the unit is the packet, because as bytes these numbers leave
//! every file in one packet. The law before rounding has a mean of 21.2 packets, that of the sizes in
//! use is half a packet more, and it is the one that a load is computed from.

use aqm_net::{ConfigError, Length, Rng, parameters};

use crate::Packetization;
use crate::sizes::Law;

parameters! {
    /// Sizes after the bounded Pareto law.
    pub struct Config {
        /// How heavy the tail is: the smaller, the heavier.
        pub shape: f64 = 1.2, "Guo & Matta talk, Web model";
        /// The least size; packets are full packets.
        pub minimum: Length = Length::Packets(4), "Guo & Matta talk, Web model; the unit is ours";
        /// The greatest size, in the same unit.
        pub maximum: Length = Length::Packets(200_000), "Guo & Matta talk, Web model; the unit is ours";
    }
}

/// More bytes than this are taken for a slip of the pen.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

impl Config {
    /// Checks the parameters; `cut` says how big a packet is.
    ///
    /// # Errors
    /// The field that is wrong, and what is allowed.
    pub fn build(&self, cut: &dyn Packetization) -> Result<BoundedPareto, ConfigError> {
        let wrong = |place, problem: String| Err(ConfigError::at(place, problem));
        if !(self.shape >= 0.01 && self.shape <= 100.0) {
            return wrong("shape", format!("must be between 0.01 and 100, is {}", self.shape));
        }
        let (minimum, maximum) = (self.minimum.count(), self.maximum.count());
        if minimum == 0 {
            return wrong("minimum", format!("must be at least 1, is {}", self.minimum));
        }
        if self.minimum.in_bytes() != self.maximum.in_bytes() {
            return wrong("maximum", format!("must be in the unit of the minimum, {}", self.minimum));
        }
        if maximum < minimum {
            return wrong("maximum", format!("must be at least the minimum, {}", self.minimum));
        }
        let unit = unit(self.maximum, cut);
        if maximum > MOST_BYTES / unit {
            return wrong("maximum", format!("must be at most {}", MOST_BYTES / unit));
        }
        let ratio = libm::log(minimum as f64 / maximum as f64);
        let mut law = BoundedPareto {
            shape: self.shape,
            minimum,
            maximum,
            unit,
            beyond: libm::exp(self.shape * ratio),
            within: -libm::expm1(self.shape * ratio),
            mean: 0.0,
        };
        law.mean = law.whole_mean() * unit as f64;
        Ok(law)
    }
}

/// Bytes of one of what `length` counts.
pub(crate) fn unit(length: Length, cut: &dyn Packetization) -> u64 {
    if length.in_bytes() { 1 } else { cut.payload().max(1) }
}

/// A law of sizes in whole units of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct BoundedPareto {
    shape: f64,
    /// In units, as the maximum.
    minimum: u64,
    maximum: u64,
    /// Bytes of a unit.
    unit: u64,
    /// The chance of exceeding the maximum before the cut.
    beyond: f64,
    /// The chance of not exceeding it.
    within: f64,
    /// The mean in bytes.
    mean: f64,
}

impl BoundedPareto {
    /// One size in bytes; it takes one uniform value whatever the parameters are.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let units = libm::ceil(self.exceeded_with(rng.uniform_positive()));
        units.clamp(self.minimum as f64, self.maximum as f64) as u64 * self.unit
    }

    /// The number of units that is exceeded with chance `p`, before rounding.
    fn exceeded_with(&self, p: f64) -> f64 {
        self.minimum as f64 * libm::exp(-libm::log(self.beyond + p * self.within) / self.shape)
    }

    /// P(X > `x`) of units before rounding.
    fn survival(&self, x: f64) -> f64 {
        if x <= self.minimum as f64 {
            1.0
        } else if x >= self.maximum as f64 {
            0.0
        } else {
            let log = libm::log(self.minimum as f64 / x);
            (libm::exp(self.shape * log) - self.beyond) / self.within
        }
    }

    /// The integral of [`survival`](Self::survival) between two numbers of units.
    fn area(&self, from: f64, to: f64) -> f64 {
        let minimum = self.minimum as f64;
        let certain = (minimum - from).clamp(0.0, to - from);
        let from = from + certain;
        if from >= to || self.minimum == self.maximum {
            return certain;
        }
        let (log, rest) = (libm::log(to / from), 1.0 - self.shape);
        let grown = if rest == 0.0 { log } else { libm::expm1(rest * log) / rest };
        let whole = minimum * libm::exp(rest * libm::log(from / minimum)) * grown;
        certain + (whole - (to - from) * self.beyond) / self.within
    }

    /// The mean of whole units: the sum of P(X > k) over k = 0, 1, ...
    fn whole_mean(&self) -> f64 {
        let one_by_one = self.maximum.min(self.minimum.saturating_add(ONE_BY_ONE));
        let summed: f64 = (self.minimum..one_by_one).map(|k| self.survival(k as f64)).sum();
        // The midpoint rule for the rest.
        let rest = self.area(one_by_one as f64 - 0.5, self.maximum as f64 - 0.5);
        self.minimum as f64 + summed + if one_by_one < self.maximum { rest } else { 0.0 }
    }
}

/// After so many units the sum for the mean becomes an integral.
const ONE_BY_ONE: u64 = 10_000;

impl Law for BoundedPareto {
    fn mean(&self) -> f64 {
        self.mean
    }

    fn at_least(&self, bytes: u64) -> f64 {
        match bytes.div_ceil(self.unit) {
            0 => 1.0,
            units if units > self.maximum => 0.0,
            units => self.survival((units - 1) as f64),
        }
    }

    fn survival_between(&self, from: f64, to: f64) -> f64 {
        let unit = self.unit as f64;
        self.area(from / unit, to / unit) * unit
    }

    fn maximum(&self) -> u64 {
        self.maximum * self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FullPackets, ShortLast, distance};
    use crate::wire::Wire;
    use aqm_net::Streams;

    fn law(shape: f64, minimum: Length, maximum: Length) -> BoundedPareto {
        Config { shape, minimum, maximum }.build(&FullPackets).unwrap()
    }

    fn web() -> BoundedPareto {
        Config::default().build(&FullPackets).unwrap()
    }

    #[test]
    fn the_mean_of_the_web_model_is_21_packets() {
        // In closed form, written out as it stands in the literature.
        let (a, low, high) = (1.2, 4.0, 200_000.0);
        let power = |base: f64, exponent: f64| libm::pow(base, exponent);
        let mean = power(low, a) / (1.0 - power(low / high, a)) * a / (a - 1.0)
            * (power(low, 1.0 - a) - power(high, 1.0 - a));
        let law = web();
        assert!((law.area(0.0, high) / mean - 1.0).abs() < 1e-12, "{mean}");
        assert!((mean - 21.243_172_752).abs() < 1e-8, "{mean}");
        // Rounded up to whole packets, summed up elsewhere.
        assert!((law.mean() / 934.0 - 21.767_995_06).abs() < 1e-7, "{}", law.mean() / 934.0);
    }

    #[test]
    fn most_files_are_mice_and_most_bytes_are_in_elephants() {
        let law = web();
        let bytes_above = |x: f64| (law.area(x, 200_000.0) + x * law.survival(x)) / law.area(0.0, 200_000.0);
        // At most 10 packets: 67 % of the files, 19 % of the bytes.
        assert!((1.0 - law.survival(10.0) - 0.66698).abs() < 1e-5);
        assert!((1.0 - bytes_above(10.0) - 0.18918).abs() < 1e-5);
        // More than 100 packets: 2.1 % and 46 %; more than 1000: 0.13 % and 24 %.
        assert!((law.survival(100.0) - 0.02101).abs() < 1e-5 && (bytes_above(100.0) - 0.46370).abs() < 1e-5);
        assert!((law.survival(1000.0) - 0.001_323).abs() < 1e-6);
        assert!((bytes_above(1000.0) - 0.24468).abs() < 1e-5);
    }

    #[test]
    fn draws_follow_the_distribution_function() {
        // Bytes are fine enough that rounding does not matter.
        for shape in [0.5, 1.0, 1.2, 3.0] {
            let law = law(shape, Length::Bytes(1_000_000), Length::Bytes(100_000_000));
            let mut rng = Streams::new(1).named("sizes", 0);
            let drawn = (0..20_000).map(|_| law.draw(&mut rng) as f64).collect();
            assert!(distance(drawn, |x| 1.0 - law.survival(x)) < 1.63, "{shape}");
        }
    }

    #[test]
    fn sizes_in_packets_are_full_packets_between_the_bounds() {
        let law = law(1.2, Length::Packets(4), Length::Packets(40));
        let mut rng = Streams::new(2).named("sizes", 0);
        let mut seen = [0_u32; 41];
        for _ in 0..20_000 {
            let bytes = law.draw(&mut rng);
            assert_eq!(bytes % 934, 0);
            seen[(bytes / 934) as usize] += 1;
        }
        assert!(seen[..5].iter().all(|&n| n == 0) && seen[5..].iter().all(|&n| n > 0), "{seen:?}");
        let expected = |packets: u64| law.at_least(packets * 934) - law.at_least(packets * 934 + 1);
        for packets in [5, 6, 10, 40] {
            let (n, p) = (f64::from(seen[packets as usize]), expected(packets));
            assert!((n - 20_000.0 * p).abs() < 3.3 * (20_000.0 * p).sqrt(), "{packets}: {n} {p}");
        }
    }

    #[test]
    fn the_mean_and_the_mean_on_the_wire_are_sums_over_all_sizes() {
        let packets = |shape| law(shape, Length::Packets(4), Length::Packets(200_000));
        let bytes = law(1.2, Length::Bytes(3000), Length::Bytes(2_000_000));
        let laws = [packets(0.8), packets(1.0), packets(1.2), packets(2.5), bytes];
        for law in laws {
            for cut in [&FullPackets as &dyn Packetization, &ShortLast] {
                let (mut size, mut wire, mut above) = (0.0, 0.0, 1.0);
                for units in law.minimum..=law.maximum {
                    let bytes = units * law.unit;
                    let beyond = law.at_least(bytes + 1);
                    size += (above - beyond) * bytes as f64;
                    wire += (above - beyond) * cut.wire_bytes(bytes) as f64;
                    above = beyond;
                }
                assert_eq!(above, 0.0);
                assert!((law.mean() / size - 1.0).abs() < 1e-8, "{law:?} {size}");
                if law.unit == cut.payload() || law.unit == 1 {
                    let mean = Wire::of(cut).mean(&law);
                    assert!((mean / wire - 1.0).abs() < 1e-7, "{law:?} {mean} {wire}");
                }
            }
        }
    }

    #[test]
    fn equal_bounds_leave_one_size() {
        let law = law(1.2, Length::Packets(7), Length::Packets(7));
        let mut rng = Streams::new(2).named("sizes", 0);
        assert!((0..100).all(|_| law.draw(&mut rng) == 7 * 934));
        assert_eq!((law.mean(), law.maximum()), (7.0 * 934.0, 7 * 934));
        assert_eq!(Wire::of(&FullPackets).mean(&law), 40.0 + 7.0 * 974.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let place = |shape, minimum, maximum| {
            Config { shape, minimum, maximum }.build(&FullPackets).unwrap_err().place
        };
        let (packets, bytes) = (Length::Packets, Length::Bytes);
        for shape in [0.0, -1.0, 101.0, f64::NAN] {
            assert_eq!(place(shape, packets(4), packets(5)), "shape");
        }
        assert_eq!(place(1.2, packets(0), packets(5)), "minimum");
        assert_eq!(place(1.2, packets(6), packets(5)), "maximum");
        assert_eq!(place(1.2, packets(4), bytes(5)), "maximum");
        assert_eq!(place(1.2, packets(4), packets(1_000_000_000_000_000)), "maximum");
    }
}
