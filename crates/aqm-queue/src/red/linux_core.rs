//! What every RED of the kernel is made of: its average, and where its next drop is.
//!
//! `include/net/red.h` of Linux 6.1. What is set up once (`red_parms`) and what moves (`red_vars`) are apart, since SFQ
//! has one of the former and many of the latter, and GRED judges by averages that are not its own. Lengths are in
//! bytes, in CHOKe in packets.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Rng};

use crate::Reason;
use crate::red::curve::Curve;
use crate::red::tc::{self, IdleTable};

/// The bits of an average that the kernel keeps times `2^Wlog` in 32 bits with a sign.
const AVERAGE_BITS: u32 = 31;

/// What `tc` is told of a RED, apart from how its average falls on an idle line.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub min: u64,
    pub max: u64,
    /// The letter of their unit: `p` or `B`.
    pub unit: char,
    pub probability: f64,
    pub burst: Option<u32>,
    /// In bytes.
    pub avpkt: u64,
}

impl Asked {
    /// What one of the thresholds' unit takes in bytes.
    fn unit_bytes(&self) -> u64 {
        if self.unit == 'p' { self.avpkt } else { 1 }
    }

    /// What the kernel is told.
    ///
    /// # Errors
    /// What `tc` cannot tell it.
    pub fn parms(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let weight_log = errors.take(self.weight_log());
        let max_p = errors.take(self.max_p());
        let (weight_log, max_p) = errors.finish_some(weight_log.zip(max_p))?;
        Ok(Parms::new(self.min, self.max, weight_log, max_p))
    }

    /// The weight of the average, as its logarithm.
    ///
    /// # Errors
    /// If `burst` allows for none, or the average would not fit.
    pub fn weight_log(&self) -> Result<u32, ConfigError> {
        let Self { min, max, unit, avpkt, .. } = *self;
        let bytes = |length: u64| length.saturating_mul(self.unit_bytes());
        let weight_log = tc::weight_log(self.burst, bytes(min), bytes(max), avpkt)?;
        let (beyond, weight) = (1_u64 << (AVERAGE_BITS - weight_log), 1_u64 << weight_log);
        let problem =
            format_args!("must be below {beyond}{unit} with weight 1/{weight}, for it is kept in 32 bits");
        ConfigError::unless(max < beyond, "max", problem)?;
        Ok(weight_log)
    }

    /// The drop probability at `max`, which must not be 1.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn max_p(&self) -> Result<MaxP, ConfigError> {
        let probability = self.probability;
        let problem = format_args!("must be above 0 and at most 1, not {probability}");
        ConfigError::unless(probability > 0.0 && probability <= 1.0, "probability", problem)?;
        self.probability_log()?;
        let remedy = "must be below 1, which tc cannot tell the kernel";
        ConfigError::unless(probability < 1.0, "probability", remedy)?;
        let value = libm::ldexp(probability, 32) as u64;
        Ok(MaxP { value, slope: (value / (self.max - self.min)).max(1) })
    }

    /// The smallest power of two beyond the thresholds' distance in bytes over `probability`, as its logarithm.
    ///
    /// # Errors
    /// If it does not fit into 32 bits.
    pub fn probability_log(&self) -> Result<u32, ConfigError> {
        tc::probability_log(self.probability, (self.max - self.min).saturating_mul(self.unit_bytes()))
    }
}

/// The drop probability at `max`, and how steeply `p_b` rises to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxP {
    /// In units of 2^-32 (`max_P`).
    pub value: u64,
    /// What `p_b` rises by for each byte or packet, in units of 2^-32 (`max_p_delta`).
    pub slope: u64,
}

impl MaxP {
    /// The drop function between these thresholds.
    pub fn curve(self, min: u64, max: u64) -> Curve {
        let max_p = libm::ldexp((self.slope * (max - min)) as f64, -32);
        Curve { min: min as f64, max: max as f64, max_p, gentle: false, gentle_from: max_p }
    }
}

/// What is set up (`red_parms`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parms {
    pub min: u64,
    pub max: u64,
    pub weight_log: u32,
    pub max_p: MaxP,
    /// The averages, times `2^weight_log`, from which on chance chooses, and nothing passes.
    from: u64,
    until: u64,
}

impl Parms {
    /// Thresholds are part of what is above them.
    pub fn new(min: u64, max: u64, weight_log: u32, max_p: MaxP) -> Self {
        Self { min, max, weight_log, max_p, from: min << weight_log, until: max << weight_log }
    }

    /// The same where thresholds are part of what is below them.
    pub fn beyond(self) -> Self {
        Self { from: self.from + 1, until: self.until + 1, ..self }
    }

    /// Whether chance has no part in it: the average is below all thresholds.
    #[inline]
    pub fn spares(&self, average: u64) -> bool {
        average < self.from
    }

    /// An arrival finds this `queue`; where it ends an idle time, what is `left` of the average takes its place.
    #[inline]
    pub fn observe(&self, vars: &mut Vars, queue: u64, left: Option<u64>) {
        match left {
            Some(left) => vars.average = left,
            None => self.sample(vars, queue),
        }
    }

    /// An arrival finds this `queue`.
    #[inline]
    pub fn sample(&self, vars: &mut Vars, queue: u64) {
        vars.average = vars.average + queue - (vars.average >> self.weight_log);
    }

    /// Why the packet that arrives must go, judged by the average and what `others` add to it; none if it may pass
    /// (`red_action`).
    #[inline]
    pub fn decide(&self, vars: &mut Vars, others: u64, rng: &mut Rng) -> Option<Reason> {
        let average = vars.average + others;
        if self.spares(average) {
            vars.count = None;
            return None;
        }
        if average >= self.until {
            vars.count = None;
            return Some(Reason::Forced);
        }
        let above = (average - (self.min << self.weight_log)) >> self.weight_log;
        let chosen = match vars.count {
            Some(count) if above * (count + 1) < vars.draw => {
                vars.count = Some(count + 1);
                return None;
            }
            Some(_) => Some(Reason::Early),
            None => None,
        };
        vars.count = Some(0);
        vars.draw = (rng.bits() >> 32) / self.max_p.slope;
        chosen
    }

    /// The average as a length.
    pub fn length(&self, average: u64) -> f64 {
        average as f64 * tc::power_of_half(self.weight_log)
    }

    /// The drop function.
    pub fn curve(&self) -> Curve {
        self.max_p.curve(self.min, self.max)
    }
}

/// What moves (`red_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vars {
    /// The average queue, times `2^weight_log` (`qavg`).
    pub average: u64,
    /// Packets since the last drop or the first packet within the thresholds; none outside (`qcount`).
    count: Option<u64>,
    /// What the length above `min` times `count` must reach (`qR`).
    draw: u64,
}

impl Vars {
    /// What is left of the average at `now` on a line that has idled since then.
    pub fn after_idle(&self, idle: &IdleTable, since: Instant, now: Instant) -> u64 {
        idle.after(self.average, now.since(since).nanos() / 1000)
    }
}

/// The thresholds where `tc` takes them from a limit called `place`: `max` a quarter of it, `min` a third of `max`.
///
/// # Errors
/// If they are none.
pub(crate) fn thresholds(
    limit: (&str, u64),
    min: Option<u64>,
    max: Option<u64>,
    unit: char,
) -> Result<(u64, u64), ConfigErrors> {
    let (place, limit) = limit;
    let largest = u64::from(u32::MAX);
    let in_range = (1..=largest).contains(&limit);
    ConfigError::unless(in_range, place, format_args!("must be from 1{unit} to {largest}{unit}"))?;
    let mut errors = ErrorCollector::default();
    let is_met = max.unwrap_or(limit / 4) <= limit;
    errors.check(is_met, "max", format_args!("must be at most {place}, {limit}{unit}"));
    let (remedy_of_max, max) =
        max.map_or((" and is a quarter of the limit: write it", limit / 4), |max| ("", max));
    let (remedy, min) = min.map_or((" and is a third of max: write it", max / 3), |min| ("", min));
    errors.check(min > 0, "min", format_args!("must be at least 1{unit}{remedy}"));
    errors.check(min == 0 || max > min, "max", format_args!("must exceed min, {min}{unit},{remedy_of_max}"));
    errors.finish((min, max))
}
