//! How RED spaces its drops: the count of packets since the last one.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993, sections 4
//! and 7; `wait` is ns-2's.
//!
//! Ours, where the paper is silent: where `count * p_b` reaches 1 (2 with `wait`) the packet is
//! chosen for certain, since the printed formula would turn negative; and a probability of zero chooses
//! nothing, whatever the draw.

use aqm_net::{Rng, Size, choices};

choices! {
    /// How drops are spaced.
    pub enum Spacing {
        /// `p_a = p_b / (1 - count p_b)`: gaps uniform on 1 to `1/p_b`.
        NoWait = "no-wait",
        /// No drop until `count p_b` is 1, then `p_a = p_b / (2 - count p_b)`: gaps uniform on `1/p_b` to `2/p_b`.
        Wait = "wait",
        /// As `no-wait`, but once `count p_b` has jumped past 1 chance chooses nothing until the average has left
        /// the range: ns-2's dsRED, where the formula turns negative.
        Unguarded = "unguarded",
        /// `p_a = p_b`, each packet by itself: geometric gaps.
        Independent = "none",
    }
}

choices! {
    /// Where the size of a packet enters its drop probability.
    pub enum PacketScaling {
        /// All sizes alike.
        None = "none",
        /// `p_b` times size over `mean_packet`, before it is spaced, as in the paper.
        BeforeCount = "before-count",
        /// `p_a` times size over `mean_packet`, and the count in units of `mean_packet`, as ns-2 in byte mode.
        AfterCount = "after-count",
    }
}

/// Which packets are dropped, given `p_b`: RED's count.
#[derive(Clone, Debug)]
pub(crate) struct DropSpacing {
    spacing: Spacing,
    spare_first: bool,
    scaling: PacketScaling,
    mean_packet: u64,
    /// The last `p_b`.
    pub probability: f64,
    /// Whether the average was above `min` at the last arrival.
    inside: bool,
    count: u64,
    count_bytes: u64,
}

impl DropSpacing {
    /// The state before the first packet.
    pub fn new(spacing: Spacing, scaling: PacketScaling, spare_first: bool, mean_packet: Size) -> Self {
        Self {
            spacing,
            spare_first,
            scaling,
            mean_packet: mean_packet.bytes(),
            probability: 0.0,
            inside: false,
            count: 0,
            count_bytes: 0,
        }
    }

    /// A drop or a mark: the count begins anew.
    pub fn restart(&mut self) {
        self.count = 0;
        self.count_bytes = 0;
    }

    /// The average is below all thresholds: the next packet above them is the first.
    pub fn leave(&mut self) {
        self.inside = false;
    }

    /// Whether chance picks this packet of `bytes` bytes.
    pub fn chooses(&mut self, bytes: u64, rng: &mut Rng) -> bool {
        if !self.inside {
            self.inside = true;
            self.restart();
            if self.spare_first {
                self.count = 1;
                self.count_bytes = bytes;
                return false;
            }
        } else {
            self.count += 1;
            self.count_bytes += bytes;
        }
        let p = self.spaced(bytes);
        p > 0.0 && rng.chance(p)
    }

    /// `p_a`: never above 1.
    fn spaced(&self, bytes: u64) -> f64 {
        let relative_size = || bytes as f64 / self.mean_packet as f64;
        let (p_b, count) = match self.scaling {
            PacketScaling::None => (self.probability, self.count),
            PacketScaling::BeforeCount => (self.probability * relative_size(), self.count),
            // Whole packets of the mean size, as in ns-2.
            PacketScaling::AfterCount => (self.probability, self.count_bytes / self.mean_packet),
        };
        let reach = count as i64 as f64 * p_b;
        let p_a = match self.spacing {
            Spacing::NoWait | Spacing::Unguarded if reach < 1.0 => p_b / (1.0 - reach),
            Spacing::Unguarded if reach > 1.0 => 0.0,
            Spacing::Wait if reach < 1.0 => 0.0,
            Spacing::Wait if reach < 2.0 => p_b / (2.0 - reach),
            Spacing::NoWait | Spacing::Unguarded | Spacing::Wait => 1.0,
            Spacing::Independent => p_b,
        };
        if self.scaling == PacketScaling::AfterCount && p_a < 1.0 {
            (p_a * relative_size()).min(1.0)
        } else {
            p_a.min(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spacing(probability: f64, spacing: Spacing, count: u64) -> DropSpacing {
        let mut state = DropSpacing::new(spacing, PacketScaling::None, true, Size::from_bytes(974));
        (state.probability, state.count) = (probability, count);
        state
    }

    #[test]
    fn p_a_stays_a_probability_past_its_pole() {
        for spacing in [Spacing::NoWait, Spacing::Wait, Spacing::Unguarded, Spacing::Independent] {
            for p_b in [0.0, 1e-9, 0.007, 0.05, 0.3, 0.5, 0.9999, 1.0] {
                for count in 0..500 {
                    let p = self::spacing(p_b, spacing, count).spaced(974);
                    assert!((0.0..=1.0).contains(&p), "{spacing:?} {p_b} {count}: {p}");
                    let pole = if spacing == Spacing::Wait { 2.0 } else { 1.0 };
                    let past = count as f64 * p_b > pole && spacing == Spacing::Unguarded;
                    if spacing != Spacing::Independent && count as f64 * p_b >= pole {
                        let sure = if past { 0.0 } else { 1.0 };
                        assert_eq!(p, sure, "{spacing:?} {p_b} {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_probability_of_zero_drops_nothing_and_draws_nothing() {
        let mut rng = aqm_net::Streams::new(1).named("zero", 0);
        let untouched = rng.clone().bits();
        let mut state = spacing(0.0, Spacing::NoWait, 0);
        assert!((0..100).all(|_| !state.chooses(974, &mut rng)));
        assert_eq!(rng.bits(), untouched);
    }

    /// The smallest number of offers up to the first choice, over many streams.
    fn earliest(begin: &DropSpacing, bytes: u64) -> usize {
        let first = |seed| {
            let mut rng = aqm_net::Streams::new(seed).named("earliest", 0);
            let mut state = begin.clone();
            (1..).find(|_| state.chooses(bytes, &mut rng)).unwrap()
        };
        (0..2000).map(first).min().unwrap()
    }

    #[test]
    fn the_packet_that_crosses_the_threshold_counts_although_it_is_spared() {
        assert_eq!(earliest(&spacing(0.05, Spacing::Wait, 0), 974), 20);
        assert_eq!(earliest(&spacing(0.05, Spacing::NoWait, 0), 974), 2);
    }

    #[test]
    fn the_count_of_ns2_in_byte_mode_is_in_mean_packets() {
        let mut state = spacing(0.05, Spacing::Wait, 0);
        assert_eq!(earliest(&state, 487), 20);
        state.scaling = PacketScaling::AfterCount;
        assert_eq!(earliest(&state, 487), 40);
    }
}
