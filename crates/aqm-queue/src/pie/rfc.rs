//! PIE as RFC 8033 has it, and as ns-3 3.37 has it, without a buffer.
//!
//! The rules of the RFC, by section:
//! - 4.1: an arrival is picked with the probability, but never if the delay at the last update was below half the
//!   target and the probability is below 20 %, nor with at most two packets' bytes waiting.
//! - 4.2: every `tupdate` the delay off the target times alpha and the delay off the one before times beta are added
//!   to the probability, both divided by 2 to 2048 as long as it is below 10 % to 0.0001 %. After two delays of zero
//!   it is multiplied by 0.98.
//! - 4.3: the delay is that of the packet that left last.
//! - 4.4: nothing is picked while burst allowance is left; `tupdate` comes off it at each update, and an arrival that
//!   finds the probability zero and both delays below half the target sets it to `max_burst`.
//! - 5.2, optional: the delay is what waits over the departure rate, which is measured over `dq_threshold` bytes.
//! - 5.3, optional: PIE acts once a share of the buffer is full, and rests again with nothing to do.
//! - 5.4, optional: below an accumulated probability of 0.85 nothing is picked, from 8.5 on every packet is.
//! - 5.5, optional: from 10 % on the probability rises by at most 2 % at a time.
//!
//! ns-3 differs: the burst allowance is set by a state machine and holds the probability at zero, it is granted again
//! after 1.5 s of quiet at the earliest; a couple of packets are two packets if the limit counts packets; a mark does
//! not end the accumulation. Its estimator of the departure rate is not followed: that of the RFC takes its place.
//!
//! Ours, where the RFC is silent:
//! - The delay is zero once a packet leaves nothing behind, as in Linux and in ns-3.
//! - PIE does not rest while as much waits as wakes it. The pseudocode would put it to rest at once, before it can know
//!   a departure rate.
//! - Updates are at multiples of `tupdate` from the first one on, also after PIE has been woken.
//! - The pseudocode of the appendix that has all options decays when both delays are below half the target; section
//!   4.2 says zero, and so it is here. Burst allowance is granted by 4.4 with every option.

use aqm_net::{Backlog, Instant, Length, Rng, Span};

use super::pie::{Controller, Departed, State};
use crate::pie::timer::Timer;
use crate::start::first_instant;

/// What two delays of zero multiply the probability by.
const DECAY: f64 = 0.98;

/// Quiet after which ns-3 grants burst allowance again.
const BURST_RESET_TIMEOUT: Span = Span::from_millis(1500);

/// Below which accumulated probability nothing is picked, and from which every packet is.
pub(crate) const ACCUMULATED: (f64, f64) = (0.85, 8.5);

/// The parameters.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) dialect: Dialect,
    pub(crate) target: Span,
    pub(crate) tupdate: Span,
    /// Per second of delay.
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
    pub(crate) max_burst: Span,
    pub(crate) mark_below: f64,
    pub(crate) mtu: u64,
    pub(crate) bytemode: bool,
    pub(crate) derandomise: bool,
    pub(crate) cap_adjustment: bool,
    /// Bytes over which the departure rate is measured, if it is estimated.
    pub(crate) estimator: Option<u64>,
    pub(crate) limit: Length,
    /// How much must wait before PIE acts.
    pub(crate) active_from: Option<f64>,
}

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Rfc,
    Ns3,
}

/// The controller.
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
    /// The delay in seconds, and that of the update before.
    qdelay: f64,
    qdelay_old: f64,
    burst_allowance: Span,
    burst: Burst,
    /// Of a measurement of the departure rate: when it began, and the bytes that have left since.
    measurement: Option<(Instant, u64)>,
    /// How long the bytes of a measurement took.
    avg_dq_time: f64,
}

/// ns-3's states of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Burst {
    None,
    Protecting,
    /// It has been quiet for so many updates.
    Over(u64),
}

/// By what a change of a `probability` is divided: 2048 below 0.0001 %, and a quarter of that for each ten times as
/// much, but 2 below 10 % and 1 beyond.
pub(crate) fn damping(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] =
        [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    STEPS.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, divisor)| *divisor)
}

impl Rfc {
    /// At rest; `measured` is how long the bytes of a measurement took, if the departure rate has been estimated.
    pub(crate) fn new(measured: Option<Span>, rules: Rules) -> Self {
        let vars = Vars {
            is_active: rules.active_from.is_none(),
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

    /// Whether a couple of packets wait at most.
    fn is_short(&self, waiting: Backlog) -> bool {
        match (self.dialect, self.limit) {
            (Dialect::Ns3, Length::Packets(_)) => waiting.packets <= 2,
            _ => waiting.bytes <= 2 * self.mtu,
        }
    }

    fn update(&self, vars: &mut Vars, waiting: Backlog) {
        if !vars.is_active {
            return;
        }
        if let Some(threshold) = self.estimator {
            vars.qdelay = waiting.bytes as f64 * vars.avg_dq_time / threshold as f64;
        }
        let Vars { qdelay, qdelay_old, .. } = *vars;
        let mut p = vars.prob;
        if self.dialect == Dialect::Ns3 && !vars.burst_allowance.is_zero() {
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
        if self.dialect == Dialect::Ns3 {
            self.follow_burst(vars);
        }
        vars.qdelay_old = qdelay;
    }

    /// ns-3: the state of a burst after an update.
    fn follow_burst(&self, vars: &mut Vars) {
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

    fn measure(&self, vars: &mut Vars, departed: &Departed, threshold: u64) {
        if let Some((start, count)) = &mut vars.measurement {
            *count += u64::from(departed.bytes);
            if *count >= threshold {
                let time = departed.now.since(*start).seconds();
                let weight = if vars.avg_dq_time == 0.0 { 1.0 } else { threshold as f64 / 65536.0 };
                vars.avg_dq_time += weight * (time - vars.avg_dq_time);
                vars.measurement = None;
            }
        }
        if vars.measurement.is_none() && departed.left.bytes >= threshold {
            vars.measurement = Some((departed.now, 0));
        }
    }
}

impl Controller for Rfc {
    #[inline]
    fn catch_up(&mut self, waiting: Backlog, now: Instant) {
        let Self { rules, timer, vars } = self;
        timer.catch_up(now, rules.tupdate, vars, |vars, _| rules.update(vars, waiting));
    }

    fn draw_phase(&mut self, chance: &mut Rng) {
        self.timer = Timer::new(first_instant(self.rules.tupdate, chance));
    }

    fn picks(&mut self, bytes: u16, waiting: Backlog, rng: &mut Rng) -> bool {
        let Self { rules, vars, .. } = self;
        if !vars.is_active {
            return false;
        }
        let is_quiet = vars.prob == 0.0 && rules.is_low(vars.qdelay) && rules.is_low(vars.qdelay_old);
        if rules.dialect == Dialect::Rfc && is_quiet {
            vars.burst_allowance = rules.max_burst;
        }
        if !vars.burst_allowance.is_zero() {
            return false;
        }
        if rules.dialect == Dialect::Ns3 && vars.burst == Burst::None {
            (vars.burst, vars.burst_allowance) = (Burst::Protecting, rules.max_burst);
        }
        if (rules.is_low(vars.qdelay_old) && vars.prob < 0.2) || rules.is_short(waiting) {
            return false;
        }
        let size = f64::from(bytes) / rules.mtu as f64;
        let p = if rules.bytemode { vars.prob * size.min(1.0) } else { vars.prob };
        if rules.derandomise {
            vars.accu_prob = if p == 0.0 { 0.0 } else { vars.accu_prob + p };
            if vars.accu_prob < ACCUMULATED.0 {
                return false;
            }
        }
        let is_sure = rules.derandomise && vars.accu_prob >= ACCUMULATED.1;
        let is_picked = is_sure || (p > 0.0 && rng.chance(p));
        if is_picked && rules.dialect == Dialect::Rfc {
            vars.accu_prob = 0.0;
        }
        is_picked
    }

    fn may_mark(&self) -> bool {
        self.vars.prob < self.rules.mark_below
    }

    fn after_drop(&mut self) {
        self.vars.accu_prob = 0.0;
    }

    fn after_arrival(&mut self, waiting: Backlog, now: Instant) {
        let Self { rules, vars, .. } = self;
        let Some(from) = rules.active_from else { return };
        let is_enough = waiting.in_unit_of(rules.limit) as f64 >= from;
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

    fn after_departure(&mut self, departed: &Departed) {
        let Self { rules, vars, .. } = self;
        match rules.estimator {
            Some(threshold) => rules.measure(vars, departed, threshold),
            None if departed.left.bytes == 0 => vars.qdelay = 0.0,
            None => vars.qdelay = departed.now.since(departed.joined).seconds(),
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

    /// A derandomised controller without burst allowance, which has met such delays and this probability.
    fn controller(dialect: Dialect, prob: f64) -> Rfc {
        let config = crate::pie::pie::Config {
            derandomise: Some(true),
            max_burst: Span::ZERO,
            ..crate::pie::pie::Config::default()
        };
        let mut rfc = config.rfc(dialect, Rate::from_bps(10_000_000));
        rfc.vars = Vars { prob, qdelay: 0.03, qdelay_old: 0.03, ..rfc.vars };
        rfc
    }

    fn backlog(packets: u64) -> Backlog {
        Backlog { packets, bytes: packets * 1514 }
    }

    const DIALECTS: [Dialect; 2] = [Dialect::Rfc, Dialect::Ns3];

    #[test]
    fn probabilities_add_up_from_drop_to_drop() {
        let mut rng = Streams::new(1).named("queue", 0);
        for dialect in DIALECTS {
            let mut pie = controller(dialect, 0.01);
            let mut drops = 0;
            for _ in 0..100_000 {
                let before = pie.vars.accu_prob;
                let is_picked = pie.picks(1000, backlog(10), &mut rng);
                if is_picked {
                    pie.after_drop();
                    drops += 1;
                }
                let expected = if is_picked { 0.0 } else { before + 0.01 };
                assert_eq!(pie.vars.accu_prob, expected);
            }
            // 85 packets pass, and then chance waits for 100 more in the mean.
            assert!((510..570).contains(&drops), "{drops}");
        }
    }

    #[test]
    fn nothing_is_picked_before_the_sum_is_high_enough() {
        let mut rng = Streams::new(1).named("queue", 0);
        for dialect in DIALECTS {
            for (prob, sum) in [(1.0, -0.16), (0.5, 0.34)] {
                let mut pie = controller(dialect, prob);
                for _ in 0..1000 {
                    pie.vars.accu_prob = sum;
                    assert!(!pie.picks(1000, backlog(10), &mut rng), "{sum} + {prob}");
                }
            }
        }
    }

    #[test]
    fn a_packet_that_finds_more_than_two_is_picked_once_the_sum_is_too_high() {
        let mut rng = Streams::new(1).named("queue", 0);
        for dialect in DIALECTS {
            let mut pie = controller(dialect, 0.001);
            for packets in 0..6 {
                pie.vars.accu_prob = 8.6;
                assert_eq!(pie.picks(1000, backlog(packets), &mut rng), packets > 2, "{packets}");
            }
        }
    }

    #[test]
    fn ns3_grants_a_burst_again_after_a_second_and_a_half_of_quiet() {
        let config = crate::pie::pie::Config::default();
        let mut pie = config.rfc(Dialect::Ns3, Rate::from_bps(10_000_000));
        let mut rng = Streams::new(1).named("queue", 0);
        let update = |pie: &mut Rfc| pie.rules.clone().update(&mut pie.vars, backlog(0));
        assert!(!pie.picks(1000, backlog(10), &mut rng));
        assert_eq!((pie.vars.burst, pie.vars.burst_allowance), (Burst::Protecting, Span::from_millis(150)));
        (0..9).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::Protecting);
        update(&mut pie);
        assert_eq!(pie.vars.burst, Burst::Over(0));
        (0..100).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::Over(100));
        // A busy update starts it anew.
        pie.vars.qdelay_old = 0.02;
        update(&mut pie);
        assert_eq!(pie.vars.burst, Burst::Over(0));
        (0..101).for_each(|_| update(&mut pie));
        assert_eq!(pie.vars.burst, Burst::None);
    }

    #[test]
    fn changes_are_divided_by_the_steps_of_the_rfc() {
        let steps = [0.0, 9e-7, 9e-6, 9e-5, 9e-4, 9e-3, 0.09, 0.1, 1.0].map(damping);
        assert_eq!(steps, [2048.0, 2048.0, 512.0, 128.0, 32.0, 8.0, 2.0, 1.0, 1.0]);
    }
}
