//! Spaces RED's drops according to the count of packets since the last drop.
//!
//! Floyd & Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993, sections 4 and 7. The spacing
//! `wait` is from ns-2.
//!
//! aqmlab's choices where the paper is silent: if `count * p_b` is at least 1 (or 2 with `wait`), the packet is
//! certainly selected, because the printed formula would become infinite or negative. With a probability of zero, no
//! packet is selected and no random number is drawn.

use aqm_net::{Rng, Size, choices};

choices! {
    /// The spacing of drops.
    pub enum Spacing {
        /// `p_a = p_b / (1 - count p_b)`: gaps between drops are uniformly distributed from 1 to `1/p_b` packets.
        NoWait = "no-wait",
        /// No packet is dropped until `count p_b` is 1; then `p_a = p_b / (2 - count p_b)`. Gaps between drops are
        /// uniformly distributed from `1/p_b` to `2/p_b` packets.
        Wait = "wait",
        /// Like `no-wait`, but after `count p_b` has exceeded 1, no packet is selected at random until the average has
        /// left the range between the thresholds. ns-2's dsRED behaves in this way, because its formula becomes
        /// negative.
        Unguarded = "unguarded",
        /// `p_a = p_b`, independently for each packet: gaps between drops are geometrically distributed.
        Independent = "none",
    }
}

choices! {
    /// The dependence of the drop probability on the packet size.
    pub enum PacketScaling {
        /// The drop probability does not depend on the packet size.
        None = "none",
        /// `p_b` is multiplied by the ratio of the packet size to `mean_packet` before spacing, as in the paper.
        BeforeCount = "before-count",
        /// `p_a` is multiplied by the ratio of the packet size to `mean_packet`, and the count is in units of
        /// `mean_packet`, as in the byte mode of ns-2.
        AfterCount = "after-count",
    }
}

/// The selection of packets to drop at a given `p_b`, with RED's count of packets since the last drop.
#[derive(Clone, Debug)]
pub(crate) struct DropSpacing {
    spacing: Spacing,
    spare_first: bool,
    scaling: PacketScaling,
    mean_packet: u64,
    /// The latest `p_b`.
    pub probability: f64,
    /// Whether the average was above `min` at the last arrival.
    inside: bool,
    count: u64,
    count_bytes: u64,
    /// The numbers that led to the latest selection.
    selection: Selection,
}

/// The numbers that led to the selection of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection {
    /// `p_a`.
    pub probability: f64,
    /// The packets that were counted since the last drop, including the selected packet; if `scaling` is
    /// `after-count`, in units of `mean_packet`.
    pub count: u64,
    /// The random number, which was below `p_a`.
    pub draw: f64,
}

impl DropSpacing {
    /// Creates the state before the first packet.
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
            selection: Selection::default(),
        }
    }

    /// Returns the numbers that led to the latest selection.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Restarts the count after a drop or a mark.
    pub fn restart(&mut self) {
        self.count = 0;
        self.count_bytes = 0;
    }

    /// Records that the average is below all thresholds, so that the next packet above a threshold counts as the first
    /// packet.
    pub fn leave_range(&mut self) {
        self.inside = false;
    }

    /// Returns whether a packet of `bytes` bytes is selected at random.
    pub fn selects(&mut self, bytes: u64, rng: &mut Rng) -> bool {
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
        let p = self.drop_probability(bytes);
        if p > 0.0
            && let draw = rng.uniform()
            && draw < p
        {
            self.record_selection(p, draw);
            return true;
        }
        false
    }

    /// Records the numbers that led to a selection. Selections are rare, so that this function is not inlined.
    #[cold]
    #[inline(never)]
    fn record_selection(&mut self, probability: f64, draw: f64) {
        self.selection = Selection { probability, count: self.counted(), draw };
    }

    /// Returns the count on which `p_a` depends.
    fn counted(&self) -> u64 {
        // As in ns-2, the count is in whole packets of the mean size.
        if self.scaling == PacketScaling::AfterCount {
            self.count_bytes / self.mean_packet
        } else {
            self.count
        }
    }

    /// Returns `p_a`, which is at most 1.
    fn drop_probability(&self, bytes: u64) -> f64 {
        let relative_size = || bytes as f64 / self.mean_packet as f64;
        let (p_b, count) = match self.scaling {
            PacketScaling::None => (self.probability, self.count),
            PacketScaling::BeforeCount => (self.probability * relative_size(), self.count),
            // As in ns-2, the count is in whole packets of the mean size.
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
    fn p_a_stays_a_probability_beyond_its_pole() {
        for spacing in [Spacing::NoWait, Spacing::Wait, Spacing::Unguarded, Spacing::Independent] {
            for p_b in [0.0, 1e-9, 0.007, 0.05, 0.3, 0.5, 0.9999, 1.0] {
                for count in 0..500 {
                    let p = self::spacing(p_b, spacing, count).drop_probability(974);
                    assert!((0.0..=1.0).contains(&p), "{spacing:?} {p_b} {count}: {p}");
                    let pole = if spacing == Spacing::Wait { 2.0 } else { 1.0 };
                    let past = count as f64 * p_b > pole && spacing == Spacing::Unguarded;
                    if spacing != Spacing::Independent && count as f64 * p_b >= pole {
                        let expected = if past { 0.0 } else { 1.0 };
                        assert_eq!(p, expected, "{spacing:?} {p_b} {count}");
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
        assert!((0..100).all(|_| !state.selects(974, &mut rng)));
        assert_eq!(rng.bits(), untouched);
    }

    /// Returns the minimum, over many random streams, of the position of the first packet that is selected.
    fn earliest(begin: &DropSpacing, bytes: u64) -> usize {
        let first = |seed| {
            let mut rng = aqm_net::Streams::new(seed).named("earliest", 0);
            let mut state = begin.clone();
            (1..).find(|_| state.selects(bytes, &mut rng)).unwrap()
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
