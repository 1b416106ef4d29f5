//! The PIE controllers of RFC 8033 and of ns-3.37, without a buffer.
//!
//! The rules of the RFC, by section:
//! - 4.1: an arriving packet is selected with the drop probability. No packet is selected if the delay at the last
//!   update was below half the target and the probability is below 20 %, or if the backlog is at most twice `mtu`.
//! - 4.2: every `tupdate`, the probability changes by alpha times the difference between the delay and the target, plus
//!   beta times the change of the delay since the previous update. The total change is divided by a factor from 2 (if
//!   the probability is below 10 %) to 2048 (below 0.0001 %). If the delays at two successive updates are zero, the
//!   probability is multiplied by 0.98.
//! - 4.3: the delay is the sojourn time of the packet that left last.
//! - 4.4: no packet is selected while burst allowance remains. Each update reduces the allowance by `tupdate`. When a
//!   packet arrives while the probability is zero and the last two delays are below half the target, the allowance is
//!   set to `max_burst`.
//! - 5.2, optional: the delay is the backlog divided by the departure rate, which is measured over `dq_threshold`
//!   bytes.
//! - 5.3, optional: PIE becomes active once a fraction of the buffer is full, and becomes inactive again when the
//!   probability and the delays are zero.
//! - 5.4, optional: no packet is selected while the sum of the probabilities is below 0.85, and a packet is certainly
//!   selected when this sum is at least 8.5.
//! - 5.5, optional: once the probability is at least 10 %, it increases by at most 2 % at each update.
//!
//! ns-3 differs from the RFC as follows. A state machine sets the burst allowance. The probability is zero while burst
//! allowance remains, and the allowance is renewed after at least 1.5 s of low delay. If the limit is in packets, no
//! packet is selected while at most two packets are queued. A mark does not reset the sum of the probabilities. ns-3's
//! estimator of the departure rate is not implemented; the estimator of the RFC is used instead.
//!
//! aqmlab's choices where the RFC is silent or contradictory:
//! - The delay is zero if the queue is empty after a departure, as in Linux and ns-3.
//! - PIE does not become inactive while the backlog is at or above the activation threshold. With the RFC's pseudocode,
//!   PIE would become inactive at once, before a departure rate is known.
//! - Updates occur at multiples of `tupdate` after the first update, even after PIE has become active at another time.
//! - In the appendix, the pseudocode with all options reduces the probability when the delays at two successive updates
//!   are below half the target. In aqmlab, as in section 4.2, the delays at two successive updates must be zero. The
//!   burst allowance is granted according to section 4.4, regardless of which options are on.

use aqm_net::{Backlog, Instant, Length, Rng, Span};

use super::pie::{Controller, Departure, State};
use crate::Evidence;
use crate::pie::timer::Timer;
use crate::start::first_instant;

/// Factor by which the probability is multiplied after two successive delays of zero.
const DECAY: f64 = 0.98;

/// Time of low delay after which ns-3 renews the burst allowance.
const BURST_RESET_TIMEOUT: Span = Span::from_millis(1500);

/// The sum of the probabilities below which no packet is selected, and the sum at or above which every packet is
/// selected.
pub(crate) const ACCUMULATED: (f64, f64) = (0.85, 8.5);

/// The parameters of the controller.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) variant: Variant,
    pub(crate) target: Span,
    pub(crate) tupdate: Span,
    /// Gain in Hz: change of the probability at an update, per second of difference between the delay and the target.
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) max_burst: Span,
    pub(crate) mark_below: f64,
    pub(crate) mtu: u64,
    pub(crate) bytemode: bool,
    pub(crate) derandomise: bool,
    pub(crate) cap_adjustment: bool,
    /// Number of bytes over which the departure rate is measured; `None` if the rate is not estimated.
    pub(crate) estimator: Option<u64>,
    pub(crate) limit: Length,
    /// Backlog at which PIE becomes active.
    pub(crate) active_threshold: Option<f64>,
}

/// The implementation whose rules the controller follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Rfc,
    Ns3,
}

/// The PIE controller of RFC 8033 or ns-3.
#[derive(Clone, Debug)]
pub(crate) struct Rfc {
    rules: Rules,
    timer: Timer,
    vars: Vars,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Vars {
    is_active: bool,
    prob: f64,
    accu_prob: f64,
    /// The queueing delay in seconds.
    qdelay: f64,
    /// The queueing delay at the previous update, in seconds.
    qdelay_old: f64,
    burst_allowance: Span,
    burst: Burst,
    /// Start of the current measurement of the departure rate, and the number of bytes that have left since then.
    measurement: Option<(Instant, u64)>,
    /// Average duration of a measurement, in seconds.
    avg_dq_time: f64,
}

/// The states of a burst in ns-3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    None,
    Protecting,
    /// The burst is over; the value counts the updates with a low delay since the end of the burst.
    Over(u64),
}

/// Returns the divisor for a change of the probability, which depends on `probability`. The divisor is 2048 below
/// 0.0001 %, and is divided by 4 for each further factor of 10. The divisor is 2 from 1 % to 10 %, and 1 above 10 %.
pub(crate) fn damping(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] =
        [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    STEPS.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, divisor)| *divisor)
}

impl Rfc {
    /// Creates a controller whose queue has been idle. `measured` is the duration of a measurement of the departure
    /// rate, if the rate has been estimated.
    pub(crate) fn new(measured: Option<Span>, rules: Rules) -> Self {
        let vars = Vars {
            is_active: rules.active_threshold.is_none(),
            prob: 0.0,
            accu_prob: 0.0,
            qdelay: 0.0,
            qdelay_old: 0.0,
            burst_allowance: Span::ZERO,
            burst: Burst::None,
            measurement: None,
            avg_dq_time: measured.map_or(0.0, Span::seconds),
        };
        Self { timer: Timer::new(Instant::START + rules.tupdate), vars, rules }
    }
}

impl Rules {
    fn is_low(&self, delay: f64) -> bool {
        delay < 0.5 * self.target.seconds()
    }

    /// Returns whether the queue is so short that no packet is selected.
    fn is_short(&self, backlog: Backlog) -> bool {
        match (self.variant, self.limit) {
            (Variant::Ns3, Length::Packets(_)) => backlog.packets <= 2,
            _ => backlog.bytes <= 2 * self.mtu,
        }
    }

    fn update(&self, vars: &mut Vars, backlog: Backlog) {
        if !vars.is_active {
            return;
        }
        if let Some(threshold) = self.estimator {
            vars.qdelay = backlog.bytes as f64 * vars.avg_dq_time / threshold as f64;
        }
        let Vars { qdelay, qdelay_old, .. } = *vars;
        let mut p = vars.prob;
        if self.variant == Variant::Ns3 && !vars.burst_allowance.is_zero() {
            p = 0.0;
        } else {
            let target = self.target.seconds();
            let change = self.alpha * (qdelay - target) + self.beta * (qdelay - qdelay_old);
            let change = change / damping(p);
            p += if self.cap_adjustment && p >= 0.1 { change.min(0.02) } else { change };
        }
        if qdelay == 0.0 && qdelay_old == 0.0 {
            p *= DECAY;
        }
        vars.prob = p.clamp(0.0, 1.0);
        vars.burst_allowance = vars.burst_allowance - self.tupdate;
        if self.variant == Variant::Ns3 {
            self.update_burst(vars);
        }
        vars.qdelay_old = qdelay;
    }

    /// Updates the state of a burst after an update of the probability, as in ns-3.
    fn update_burst(&self, vars: &mut Vars) {
        let is_quiet = self.is_low(vars.qdelay) && self.is_low(vars.qdelay_old) && vars.prob == 0.0;
        let limit = BURST_RESET_TIMEOUT.nanos() / self.tupdate.nanos();
        vars.burst = match vars.burst {
            Burst::None => Burst::None,
            Burst::Protecting if is_quiet && vars.burst_allowance.is_zero() => Burst::Over(0),
            Burst::Protecting => Burst::Protecting,
            Burst::Over(_) if !is_quiet || !vars.burst_allowance.is_zero() => Burst::Over(0),
            Burst::Over(updates) if updates >= limit => Burst::None,
            Burst::Over(updates) => Burst::Over(updates + 1),
        };
    }

    fn measure(&self, vars: &mut Vars, departure: &Departure, threshold: u64) {
        if let Some((start, count)) = &mut vars.measurement {
            *count += u64::from(departure.bytes);
            if *count >= threshold {
                let time = departure.now.since(*start).seconds();
                let weight = if vars.avg_dq_time == 0.0 { 1.0 } else { threshold as f64 / 65536.0 };
                vars.avg_dq_time += weight * (time - vars.avg_dq_time);
                vars.measurement = None;
            }
        }
        if vars.measurement.is_none() && departure.backlog.bytes >= threshold {
            vars.measurement = Some((departure.now, 0));
        }
    }
}

impl Controller for Rfc {
    #[inline]
    fn catch_up(&mut self, backlog: Backlog, now: Instant) {
        let Self { rules, timer, vars } = self;
        timer.catch_up(now, rules.tupdate, vars, |vars, _| rules.update(vars, backlog));
    }

    fn draw_phase(&mut self, chance: &mut Rng) {
        self.timer = Timer::new(first_instant(self.rules.tupdate, chance));
    }

    fn select(&mut self, bytes: u16, backlog: Backlog, rng: &mut Rng) -> Option<Evidence> {
        let Self { rules, vars, .. } = self;
        if !vars.is_active {
            return None;
        }
        let is_quiet = vars.prob == 0.0 && rules.is_low(vars.qdelay) && rules.is_low(vars.qdelay_old);
        if rules.variant == Variant::Rfc && is_quiet {
            vars.burst_allowance = rules.max_burst;
        }
        if !vars.burst_allowance.is_zero() {
            return None;
        }
        if rules.variant == Variant::Ns3 && vars.burst == Burst::None {
            (vars.burst, vars.burst_allowance) = (Burst::Protecting, rules.max_burst);
        }
        if (rules.is_low(vars.qdelay_old) && vars.prob < 0.2) || rules.is_short(backlog) {
            return None;
        }
        let size = f64::from(bytes) / rules.mtu as f64;
        let p = if rules.bytemode { vars.prob * size.min(1.0) } else { vars.prob };
        if rules.derandomise {
            vars.accu_prob = if p == 0.0 { 0.0 } else { vars.accu_prob + p };
            if vars.accu_prob < ACCUMULATED.0 {
                return None;
            }
        }
        let is_certain = rules.derandomise && vars.accu_prob >= ACCUMULATED.1;
        let evidence = if is_certain {
            Evidence::certain()
        } else {
            Evidence::drawn(p, (p > 0.0).then(|| rng.uniform()).filter(|&draw| draw < p)?)
        };
        if rules.variant == Variant::Rfc {
            vars.accu_prob = 0.0;
        }
        Some(evidence)
    }

    fn may_mark(&self) -> bool {
        self.vars.prob < self.rules.mark_below
    }

    fn after_drop(&mut self) {
        self.vars.accu_prob = 0.0;
    }

    fn after_arrival(&mut self, backlog: Backlog, now: Instant) {
        let Self { rules, vars, .. } = self;
        let Some(from) = rules.active_threshold else { return };
        let is_enough = backlog.in_unit_of(rules.limit) as f64 >= from;
        if !vars.is_active && is_enough {
            *vars = Vars {
                is_active: true,
                prob: 0.0,
                accu_prob: 0.0,
                qdelay_old: 0.0,
                burst_allowance: rules.max_burst,
                measurement: Some((now, 0)),
                avg_dq_time: 0.0,
                ..*vars
            };
        }
        if !is_enough && vars.prob == 0.0 && vars.qdelay_old == 0.0 && vars.qdelay == 0.0 {
            (vars.is_active, vars.measurement) = (false, None);
        }
    }

    fn after_departure(&mut self, departure: &Departure) {
        let Self { rules, vars, .. } = self;
        match rules.estimator {
            Some(threshold) => rules.measure(vars, departure, threshold),
            None if departure.backlog.bytes == 0 => vars.qdelay = 0.0,
            None => vars.qdelay = departure.now.since(departure.arrival).seconds(),
        }
    }

    fn state(&self) -> State {
        let Vars { prob, qdelay, burst_allowance, .. } = self.vars;
        State { prob, delay: qdelay, burst: burst_allowance.seconds() }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Rate, Streams};

    use super::*;
    use crate::pie::pie::{Config, Settings};

    /// Creates a derandomised controller without burst allowance, whose probability is `prob` and whose delays are
    /// above the target.
    fn controller(variant: Variant, prob: f64) -> Rfc {
        let pie = Settings { max_burst: Span::ZERO, ..Settings::default() };
        let config = Config { derandomise: Some(true), pie, ..Config::default() };
        let mut rfc = config.rfc(variant, Rate::from_bps(10_000_000));
        rfc.vars = Vars { prob, qdelay: 0.03, qdelay_old: 0.03, ..rfc.vars };
        rfc
    }

    fn backlog(packets: u64) -> Backlog {
        Backlog { packets, bytes: packets * 1514 }
    }

    const VARIANTS: [Variant; 2] = [Variant::Rfc, Variant::Ns3];

    #[test]
    fn probabilities_accumulate_between_drops() {
        let mut rng = Streams::new(1).named("queue", 0);
        for variant in VARIANTS {
            let mut pie = controller(variant, 0.01);
            let mut drops = 0;
            for _ in 0..100_000 {
                let before = pie.vars.accu_prob;
                let is_selected = pie.select(1000, backlog(10), &mut rng).is_some();
                if is_selected {
                    pie.after_drop();
                    drops += 1;
                }
                let expected = if is_selected { 0.0 } else { before + 0.01 };
                assert_eq!(pie.vars.accu_prob, expected);
            }
            // After a drop, 85 packets pass; from then on, the mean number of packets before a drop is 100.
            assert!((510..570).contains(&drops), "{drops}");
        }
    }

    #[test]
    fn no_packet_is_selected_before_the_accumulated_probability_is_high_enough() {
        let mut rng = Streams::new(1).named("queue", 0);
        for variant in VARIANTS {
            for (prob, sum) in [(1.0, -0.16), (0.5, 0.34)] {
                let mut pie = controller(variant, prob);
                for _ in 0..1000 {
                    pie.vars.accu_prob = sum;
                    assert!(pie.select(1000, backlog(10), &mut rng).is_none(), "{sum} + {prob}");
                }
            }
        }
    }

    #[test]
    fn a_packet_that_finds_more_than_two_is_selected_once_the_accumulated_probability_is_too_high() {
        let mut rng = Streams::new(1).named("queue", 0);
        for variant in VARIANTS {
            let mut pie = controller(variant, 0.001);
            for packets in 0..6 {
                pie.vars.accu_prob = 8.6;
                assert_eq!(pie.select(1000, backlog(packets), &mut rng).is_some(), packets > 2, "{packets}");
            }
        }
    }

    #[test]
    fn ns3_renews_the_burst_allowance_after_1500_ms_of_low_delay() {
        let config = Config::default();
        let mut pie = config.rfc(Variant::Ns3, Rate::from_bps(10_000_000));
        let mut rng = Streams::new(1).named("queue", 0);
        let update = |pie: &mut Rfc| pie.rules.clone().update(&mut pie.vars, backlog(0));
        assert!(pie.select(1000, backlog(10), &mut rng).is_none());
        assert_eq!((pie.vars.burst, pie.vars.burst_allowance), (Burst::Protecting, Span::from_millis(150)));
        (0..9).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::Protecting);
        update(&mut pie);
        assert_eq!(pie.vars.burst, Burst::Over(0));
        (0..100).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::Over(100));
        // An update with a higher delay restarts the period of low delay.
        pie.vars.qdelay_old = 0.02;
        update(&mut pie);
        assert_eq!(pie.vars.burst, Burst::Over(0));
        (0..101).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::None);
    }

    #[test]
    fn changes_are_divided_by_the_divisors_of_the_rfc() {
        let steps = [0.0, 9e-7, 9e-6, 9e-5, 9e-4, 9e-3, 0.09, 0.1, 1.0].map(damping);
        assert_eq!(steps, [2048.0, 2048.0, 512.0, 128.0, 32.0, 8.0, 2.0, 1.0, 1.0]);
    }
}
