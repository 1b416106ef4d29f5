//! The PI controller that both queues share. The controller changes one base probability `p'` (`pi2_prob` in the
//! kernel) so that the queueing delay reaches a target. Packets of the Classic queue are dropped or marked with
//! probability `p'^2`, and packets of the L4S queue are marked with probability `k p'`.

use aqm_net::{Instant, Rng, Span};

use crate::start::first_instant;

/// The largest 32-bit number, which represents a probability of 1 in the kernel (`MAX_PROB`).
pub(super) const MAX_PROB: u32 = u32::MAX;

/// The controller's gains, in floating-point or fixed-point arithmetic.
#[derive(Clone, Debug)]
pub(super) enum Gains {
    /// The RFC's gains, as real numbers.
    Real {
        /// Increase of `p'` for each second by which the delay exceeds the target.
        alpha: f64,
        /// Increase of `p'` for each second by which the delay has grown since the last update.
        beta: f64,
    },
    /// The kernel's gains, for `p'` in units of 2^-32.
    Fixed {
        /// Increase of `p'` for each 64 ns by which the delay exceeds the target.
        alpha: u32,
        /// Increase of `p'` for each 64 ns by which the delay has grown since the last update.
        beta: u32,
    },
}

impl Gains {
    /// Converts gains from units of 1/256 Hz to the form in which the kernel stores gains.
    pub fn fixed(alpha_256: u32, beta_256: u32) -> Self {
        let scaled = |param: u32| (u64::from(param) * u64::from(MAX_PROB) / 4 / 1_000_000_000) as u32;
        Self::Fixed { alpha: scaled(alpha_256), beta: scaled(beta_256) }
    }

    /// Returns the gains that the kernel reports, in units of 1/256 Hz. The reported gains are slightly too small
    /// because of rounding.
    pub fn tc_gains(self) -> Option<[u32; 2]> {
        let Self::Fixed { alpha, beta } = self else { return None };
        Some([alpha, beta].map(|gain| (u64::from(gain) * 4_000_000_000 / u64::from(MAX_PROB)) as u32))
    }
}

/// The base probability, and the values that are derived from the base probability once per update.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    /// The base probability `p'`, from 0 to 1.
    pub p: f64,
    /// The base probability `p'` in units of 2^-32.
    pub prob: u32,
    /// The probability `p_C` of the Classic queue: `p'^2`.
    pub classic: f64,
    /// The probability `p_CL` of the L4S queue: `k p'`, which may exceed 1.
    pub coupled: f64,
    /// The probability `p_CL` in units of 2^-32.
    pub coupled_prob: u64,
    /// Whether `p_CL` has reached its maximum. If so, the L4S queue drops packets.
    pub saturates: bool,
    /// Whether `p_C` is so high that the Classic queue drops packets regardless of their ECN bits.
    pub disables_ecn: bool,
}

/// The PI controller, which does not access the queues.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    pub gains: Gains,
    pub target: Span,
    pub tupdate: Span,
    /// The coupling factor `k`.
    pub coupling: f64,
    /// Whether the queues drop packets in persistent overload. If not, `p'` is limited to the value at which `p_CL` is
    /// 1.
    pub drops_on_overload: bool,
    pub base: Base,
    /// The time of the next update.
    due: Instant,
    /// The queueing delay at the last update.
    previous: Span,
}

impl Controller {
    /// Creates a controller in its initial state. The first update takes place one `tupdate` after the start.
    pub fn new(gains: Gains, target: Span, tupdate: Span, coupling: f64, drops_on_overload: bool) -> Self {
        let due = Instant::START + tupdate;
        let (base, previous) = (Base::default(), Span::ZERO);
        Self { gains, target, tupdate, coupling, drops_on_overload, base, due, previous }
    }

    /// Draws the phase of a timer that has been running for a long time: the time of the first update is uniformly
    /// distributed over one `tupdate`.
    pub fn draw_phase(&mut self, chance: &mut Rng) {
        self.due = first_instant(self.tupdate, chance);
    }

    /// Returns whether an update is due at `now`.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Performs the updates that are due up to `now`. Since the last call, `oldest` has been the arrival time of the
    /// older of the two head packets.
    pub fn catch_up(&mut self, oldest: Option<Instant>, now: Instant) {
        while self.due <= now {
            if oldest.is_none() && self.previous.is_zero() && self.base.prob == 0 && self.base.p == 0.0 {
                // Updates have no effect while the queues are empty and `p'` is zero.
                self.due = self.due + after(now.since(self.due), self.tupdate);
                break;
            }
            let delay = oldest.map_or(Span::ZERO, |arrival| self.due.since(arrival));
            self.base = self.derive(self.updated(delay));
            self.previous = delay;
            self.due += self.tupdate;
        }
    }

    /// Returns `p'` after an update with this `delay`, as a real number and in units of 2^-32.
    fn updated(&self, delay: Span) -> (f64, u32) {
        let (delay, previous, target) = (delay.nanos(), self.previous.nanos(), self.target.nanos());
        match self.gains {
            Gains::Real { alpha, beta } => {
                let seconds = |more: u64, less: u64| (more as f64 - less as f64) * 1e-9;
                let p = self.base.p + alpha * seconds(delay, target) + beta * seconds(delay, previous);
                let p =
                    p.clamp(0.0, if self.drops_on_overload { 1.0 } else { (1.0 / self.coupling).min(1.0) });
                (p, (p * f64::from(MAX_PROB)) as u32)
            }
            Gains::Fixed { alpha, beta } => {
                let prob = fixed_step(self.base.prob, [delay, target, previous], [alpha, beta]);
                let capped = prob.min(MAX_PROB / (self.coupling as u32).max(1));
                let prob = if self.drops_on_overload { prob } else { capped };
                (f64::from(prob) * (1.0 / f64::from(MAX_PROB)), prob)
            }
        }
    }

    /// Computes the values that are derived from `p'`.
    fn derive(&self, (p, prob): (f64, u32)) -> Base {
        let (classic, coupled) = (p * p, self.coupling * p);
        let (coupled_prob, saturates, disables_ecn) = match self.gains {
            Gains::Real { .. } => {
                let max = (1.0 / (self.coupling * self.coupling)).min(1.0);
                let coupled_prob = (coupled * f64::from(MAX_PROB)) as u64;
                (coupled_prob, coupled >= 1.0, classic >= max)
            }
            Gains::Fixed { .. } => {
                let coupled_prob = u64::from(prob) * self.coupling as u64;
                let overload = coupled_prob > u64::from(MAX_PROB);
                (coupled_prob, overload, overload)
            }
        };
        let drops = self.drops_on_overload;
        Base {
            p,
            prob,
            classic,
            coupled,
            coupled_prob,
            saturates: drops && saturates,
            disables_ecn: drops && disables_ecn,
        }
    }
}

/// Returns the smallest multiple of `period` that exceeds `passed`.
fn after(passed: Span, period: Span) -> Span {
    period.saturating_mul(passed.nanos() / period.nanos() + 1)
}

/// Computes the kernel's update of the base probability. The products are 64-bit numbers and their sum is a 32-bit
/// number, in units of 2^-32. As in the kernel, an overflow or underflow is detected only by the sign of the change.
fn fixed_step(prob: u32, [delay, target, previous]: [u64; 3], [alpha, beta]: [u32; 2]) -> u32 {
    let product = |more: u64, less: u64, gain: u32| {
        (more as i64).wrapping_sub(less as i64).wrapping_mul(i64::from(gain))
    };
    let delta = product(delay, target, alpha).wrapping_add(product(delay, previous, beta));
    if delta > 0 {
        let updated = prob.wrapping_add((delta as u64 / 64) as u32);
        if updated < prob { MAX_PROB } else { updated }
    } else {
        let updated = prob.wrapping_sub((delta.wrapping_neg() as u64 / 64) as u32);
        if updated > prob { 0 } else { updated }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(gains: Gains, coupling: f64, drops_on_overload: bool) -> Controller {
        Controller::new(gains, Span::from_millis(15), Span::from_millis(16), coupling, drops_on_overload)
    }

    /// Returns the base probabilities after updates with these queueing delays.
    fn path(controller: &mut Controller, delays: &[u64]) -> Vec<f64> {
        // The update takes place so late that the delay can have any of these values.
        controller.due = Instant::from_nanos(100_000_000_000);
        let update = |delay: &u64| {
            let due = controller.due;
            let oldest = (*delay > 0).then(|| due.earlier_by(Span::from_nanos(*delay)));
            controller.catch_up(oldest, Instant::from_nanos(due.nanos() - 1));
            controller.catch_up(oldest, due);
            controller.base.p
        };
        delays.iter().map(update).collect()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn the_probability_is_constant_at_the_target_and_a_millisecond_above_it_adds_the_gains() {
        for gains in [Gains::Real { alpha: 0.16, beta: 3.2 }, Gains::fixed(41, 819)] {
            // Because of rounding, the kernel's gains deviate by 0.05 % and 0.07 %.
            let near = if matches!(gains, Gains::Real { .. }) { 1e-12 } else { 3e-6 };
            let mut pi = controller(gains, 2.0, true);
            let p = path(&mut pi, &[20 * MS, 15 * MS, 15 * MS, 15 * MS, 16 * MS, 16 * MS, 16 * MS]);
            assert_eq!((p[2], p[3]), (p[1], p[1]));
            assert!((p[4] - p[3] - (0.16 * 0.001 + 3.2 * 0.001)).abs() < near, "{p:?}");
            assert!((p[5] - p[4] - 0.16 * 0.001).abs() < near && (p[6] - p[5] - 0.16 * 0.001).abs() < near);
        }
    }

    #[test]
    fn the_classic_probability_is_the_square_and_the_coupled_one_k_times_the_base() {
        for (coupling, gains) in [(2.0, Gains::fixed(41, 819)), (1.6, Gains::Real { alpha: 0.16, beta: 3.2 })]
        {
            let mut pi = controller(gains, coupling, true);
            let p = path(&mut pi, &[90 * MS])[0];
            let Base { classic, coupled, coupled_prob, .. } = pi.base;
            assert!((classic - p * p).abs() < 1e-15 && (coupled - coupling * p).abs() < 1e-15);
            assert!((classic - (coupled / coupling) * (coupled / coupling)).abs() < 1e-15);
            assert!((coupled_prob as f64 / f64::from(MAX_PROB) - coupled).abs() < 1e-9);
        }
    }

    #[test]
    fn the_probability_is_limited_to_0_and_1_or_to_a_coupled_probability_of_1() {
        for gains in [Gains::Real { alpha: 0.16, beta: 3.2 }, Gains::fixed(41, 819)] {
            let mut pi = controller(gains.clone(), 2.0, true);
            // Each change of the delay is small enough for the kernel's 32-bit arithmetic.
            let p = path(&mut pi, &[250 * MS, 500 * MS, 300 * MS, 100 * MS, 0]);
            assert_eq!((p[1], p[4]), (1.0, 0.0), "{p:?}");
            assert!(!pi.base.saturates && !pi.base.disables_ecn);
            let mut pi = controller(gains, 2.0, false);
            let p = path(&mut pi, &[250 * MS, 500 * MS]);
            assert!((p[1] - 0.5).abs() < 1e-9 && !pi.base.saturates && !pi.base.disables_ecn, "{p:?}");
        }
    }

    #[test]
    fn overload_begins_where_the_coupled_probability_is_one() {
        for (gains, delay) in
            [(Gains::Real { alpha: 0.0, beta: 3.2 }, 156_250_000), (Gains::fixed(1, 819), 156_200_000)]
        {
            for (delay, is_over) in [(delay - 200_000, false), (delay + 200_000, true)] {
                let mut pi = controller(gains.clone(), 2.0, true);
                path(&mut pi, &[delay]);
                assert_eq!((pi.base.saturates, pi.base.disables_ecn), (is_over, is_over), "{:?}", pi.base);
            }
        }
    }

    #[test]
    fn the_updates_of_an_idle_time_are_executed_later() {
        for gains in [Gains::Real { alpha: 0.16, beta: 3.2 }, Gains::fixed(41, 819)] {
            let (mut often, mut seldom) =
                (controller(gains.clone(), 2.0, true), controller(gains, 2.0, true));
            for pi in [&mut often, &mut seldom] {
                path(pi, &[100 * MS, 100 * MS]);
            }
            for k in 1..=4000 {
                often.catch_up(None, Instant::from_nanos(100_032_000_000 + k * 1_234_567));
            }
            seldom.catch_up(None, Instant::from_nanos(100_032_000_000 + 4000 * 1_234_567));
            assert_eq!(
                (often.base.p, often.due, often.previous),
                (seldom.base.p, seldom.due, seldom.previous)
            );
            assert_eq!((often.base.p, often.base.prob), (0.0, 0));
        }
    }

    #[test]
    fn the_kernels_gains_are_returned_as_tc_prints_them() {
        // `tc qdisc show` prints these gains as 0.156250 and 3.195312.
        assert_eq!(Gains::fixed(41, 819).tc_gains(), Some([40, 818]));
    }

    #[test]
    fn a_sum_of_more_than_32_bits_is_truncated() {
        // The product of a gain of 44 and a delay of 16 s minus 15 ms is 2^32 * 2.56, of which only the fractional
        // part, 0.56, remains. A comment in the kernel states that the computation overflows if the delay exceeds a few
        // seconds.
        let prob = fixed_step(0, [16_000 * MS, 15 * MS, 16_000 * MS], [44, 879]);
        assert_eq!(prob, ((15_985 * MS * 44 / 64) & u64::from(MAX_PROB)) as u32);
        assert_eq!(fixed_step(7, [0, 15 * MS, 0], [44, 879]), 0);
    }
}
