//! Selects the packets to mark or drop, either at random, as in the kernel, or at even intervals, as the RFC prefers.
//! This file also contains the native AQM of the L4S queue, which depends only on the L4S queue.

use aqm_net::{Rng, Span};

use super::controller::{Base, MAX_PROB};

/// The method by which packets are selected.
#[derive(Clone, Debug)]
pub(super) enum Chooser {
    /// A packet is selected if a random 32-bit number does not exceed the probability. For the probability `p'^2`,
    /// neither of two random numbers may exceed `p'`.
    Random,
    /// A packet is selected when the sum of the probabilities of successive packets exceeds one (`recur`).
    InTurn(Counts),
}

/// For each kind of decision: the sum of the probabilities, minus the number of selected packets (`q.count`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    classic: f64,
    l4s: f64,
    l4s_drop: f64,
}

/// Adds `likelihood` to `count` and returns whether the packet is selected, like the RFC's `recur` function.
#[inline]
fn recur(count: &mut f64, likelihood: f64) -> bool {
    *count += likelihood;
    let is_chosen = *count > 1.0;
    if is_chosen {
        *count -= 1.0;
    }
    is_chosen
}

/// Returns a random 32-bit number, like the kernel's `dualpi2_roll`.
#[inline]
fn roll(rng: &mut Rng) -> u32 {
    (rng.bits() >> 32) as u32
}

/// The reasons for which a packet of the L4S queue is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkDecision {
    /// Whether the packet is marked because of the controller's coupled probability.
    pub coupled: bool,
    /// Whether the packet is marked by the native AQM.
    pub native: bool,
}

impl Chooser {
    /// Draws the initial sums at random, because the queue has been in service for a long time.
    pub fn draw_sums(&mut self, chance: &mut Rng) {
        if let Self::InTurn(counts) = self {
            let mut draw = || chance.uniform_positive();
            *counts = Counts { classic: draw(), l4s: draw(), l4s_drop: draw() };
        }
    }

    /// Returns whether to mark or drop a packet of the Classic queue. The probability of `true` is `p_C`.
    #[inline]
    pub fn classic(&mut self, base: &Base, rng: &mut Rng) -> bool {
        match self {
            Self::Random => squared(base, rng),
            Self::InTurn(counts) => recur(&mut counts.classic, base.classic),
        }
    }

    /// Returns whether to drop a packet of a saturated L4S queue. The probability of `true` is `p_C`.
    pub fn saturated(&mut self, base: &Base, rng: &mut Rng) -> bool {
        match self {
            Self::Random => squared(base, rng),
            Self::InTurn(counts) => recur(&mut counts.l4s_drop, base.classic),
        }
    }

    /// Decides whether to mark a packet of the L4S queue. The marking probability is the coupled probability or the
    /// `native` probability, whichever is larger. If `base` is `None`, the coupled probability is not used.
    #[inline]
    pub fn l4s(&mut self, base: Option<&Base>, native: f64, rng: &mut Rng) -> MarkDecision {
        match self {
            Self::Random => {
                let coupled = base.map(|base| base.coupled_prob);
                let (native_prob, is_certain) = (native * f64::from(MAX_PROB), native >= 1.0);
                if coupled.is_none() && (native == 0.0 || is_certain) {
                    return MarkDecision { coupled: false, native: is_certain };
                }
                let drawn = roll(rng);
                let coupled = coupled.is_some_and(|prob| u64::from(drawn) <= prob);
                MarkDecision { coupled, native: native > 0.0 && f64::from(drawn) <= native_prob }
            }
            Self::InTurn(counts) => {
                let coupled = base.map_or(0.0, |base| base.coupled);
                let is_chosen = recur(&mut counts.l4s, coupled.max(native).min(1.0));
                let is_native = native > coupled;
                MarkDecision { coupled: is_chosen && !is_native, native: is_chosen && is_native }
            }
        }
    }
}

/// Returns `true` with probability `p'^2`.
#[inline]
fn squared(base: &Base, rng: &mut Rng) -> bool {
    roll(rng) <= base.prob && roll(rng) <= base.prob
}

/// The native AQM of the L4S queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Native {
    /// Marks packets that have waited longer than this time.
    Step(Span),
    /// Marks packets behind which more than this many packets remain in the queue.
    StepInPackets(u64),
    /// Marks packets with a probability that rises from 0 at a waiting time of `min_th` to 1 at `max_th`.
    Ramp {
        /// The waiting time at which the probability begins to rise.
        min_th: Span,
        /// The waiting time at which the probability reaches 1.
        max_th: Span,
    },
}

impl Native {
    /// Returns the marking probability of a packet that has waited for the time `waited`, if `behind` packets remain in
    /// the queue behind this packet.
    #[inline]
    pub fn probability(self, waited: Span, behind: u64) -> f64 {
        match self {
            Self::Step(threshold) => f64::from(u8::from(waited > threshold)),
            Self::StepInPackets(threshold) => f64::from(u8::from(behind > threshold)),
            Self::Ramp { max_th, .. } if waited >= max_th => 1.0,
            Self::Ramp { min_th, max_th } if waited > min_th => {
                (waited - min_th).nanos() as f64 / (max_th - min_th).nanos() as f64
            }
            Self::Ramp { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    fn rng() -> Rng {
        Streams::new(5).named("queue", 0)
    }

    fn base(p: f64) -> Base {
        let prob = (p * f64::from(MAX_PROB)) as u32;
        let coupled_prob = 2 * u64::from(prob);
        Base { p, prob, classic: p * p, coupled: 2.0 * p, coupled_prob, ..Base::default() }
    }

    #[test]
    fn recur_chooses_packets_at_exact_intervals() {
        let mut count = 0.0;
        let chosen: Vec<u32> = (0..4000).filter(|_| recur(&mut count, 1.0 / 64.0)).collect();
        assert!(chosen.windows(2).all(|pair| pair[1] - pair[0] == 64));
        assert_eq!(chosen.len(), 62);
    }

    #[test]
    fn the_classic_share_is_the_square_of_the_l4s_share_over_k() {
        for mut chooser in [Chooser::Random, Chooser::InTurn(Counts::default())] {
            for p in [0.02, 0.1, 0.3, 0.5] {
                let (base, mut rng) = (base(p), rng());
                let of = |chosen: u32| f64::from(chosen) / 400_000.0;
                let classic = of((0..400_000).map(|_| u32::from(chooser.classic(&base, &mut rng))).sum());
                let l4s = of((0..400_000)
                    .map(|_| u32::from(chooser.l4s(Some(&base), 0.0, &mut rng).coupled))
                    .sum());
                assert!((l4s - 2.0 * p).abs() < 0.003, "{p}: {l4s}");
                assert!((classic - (l4s / 2.0) * (l4s / 2.0)).abs() < 0.003, "{p}: {classic}");
            }
        }
    }

    #[test]
    fn a_saturated_queue_drops_exactly_the_square_with_either_method() {
        // If there were one count for both marks and drops, as in the pseudocode, 47 % of the packets would be dropped
        // at a base probability of 0.6, because marks would increase the count beyond one, and this excess would cause
        // drops.
        for mut chooser in [Chooser::Random, Chooser::InTurn(Counts::default())] {
            let (base, mut rng) = (base(0.6), rng());
            let drops: u32 = (0..400_000).map(|_| u32::from(chooser.saturated(&base, &mut rng))).sum();
            assert!((f64::from(drops) / 400_000.0 - 0.36).abs() < 0.003, "{drops}");
        }
    }

    #[test]
    fn the_larger_probability_applies_and_is_named() {
        for mut chooser in [Chooser::Random, Chooser::InTurn(Counts::default())] {
            let mut rng = rng();
            for (p, native, share) in [(0.1, 0.6, 0.6), (0.3, 0.1, 0.6), (0.3, 1.0, 1.0), (0.0, 0.0, 0.0)] {
                let base = base(p);
                let marks: u32 = (0..100_000)
                    .map(|_| {
                        let decision = chooser.l4s(Some(&base), native, &mut rng);
                        u32::from(decision.coupled || decision.native)
                    })
                    .sum();
                assert!((f64::from(marks) / 1e5 - share).abs() < 0.006, "{p} {native}: {marks}");
            }
            let alone: u32 = (0..100_000).map(|_| u32::from(chooser.l4s(None, 0.25, &mut rng).native)).sum();
            assert!((f64::from(alone) / 1e5 - 0.25).abs() < 0.006, "{alone}");
        }
    }

    #[test]
    fn the_ramp_starts_above_its_lower_end_and_reaches_one_at_its_upper_end() {
        let us = |micros: u64| Span::from_nanos(micros * 1000);
        let ramp = Native::Ramp { min_th: us(800), max_th: us(1200) };
        let at = |micros| ramp.probability(us(micros), 9);
        assert_eq!(
            [at(0), at(800), at(900), at(1000), at(1199), at(1200), at(9000)],
            [0.0, 0.0, 0.25, 0.5, 0.9975, 1.0, 1.0]
        );
        // A ramp of width zero is a step. At exactly the threshold, packets are marked according to the RFC, but not by
        // the kernel.
        let edge = Native::Ramp { min_th: us(1000), max_th: us(1000) };
        assert_eq!([edge.probability(us(999), 9), edge.probability(us(1000), 9)], [0.0, 1.0]);
        let step = Native::Step(us(1000));
        assert_eq!([step.probability(us(1000), 9), step.probability(us(1001), 9)], [0.0, 1.0]);
        let packets = Native::StepInPackets(9);
        assert_eq!([packets.probability(us(9), 9), packets.probability(us(9), 10)], [0.0, 1.0]);
    }
}
