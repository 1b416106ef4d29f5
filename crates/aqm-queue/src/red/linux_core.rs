//! The parts that all RED queues of the kernel share: the average queue length, and the selection of the next packet to
//! drop.
//!
//! The source is `include/net/red.h` of Linux 6.1. The parameters (`red_parms`) and the state (`red_vars`) are stored
//! separately, because SFQ has one set of parameters and many states, and GRED also uses the averages of other queues.
//! Lengths are in bytes, except in CHOKe, where lengths are in packets.

use aqm_net::{ConfigError, ConfigErrors, ErrorCollector, Instant, Rate, Rng, Size, parameters};

use crate::red::curve::Curve;
use crate::red::tc::{self, IdleTable};
use crate::tc::Qdisc;
use crate::{Evidence, Reason};

/// Number of usable bits of an average. The kernel stores the average times `2^Wlog` in a signed 32-bit integer.
const AVERAGE_BITS: u32 = 31;

parameters! {
    /// The parameters of `tc` for a RED queue, except the thresholds.
    pub struct TcRed {
        /// Drop probability that RED reaches at `max` (`max_P`): above 0, below 1.
        pub probability: f64 = 0.02, "tc-red, tc-choke, tc-gred, tc-sfq";
        /// Burst size, in packets, that should pass without drops. As in `tc`, the weight of the average, a power of
        /// 1/2, is derived from this size. Default: `(2 min + max) / 3`, in packets of `avpkt`.
        pub burst: Option<u32> = None, "tc-red, tc-choke, tc-gred, tc-sfq";
        /// Typical packet size. This size is assumed for the packets of `burst`, and for the packets that the link
        /// could have sent during an idle period, which determine how far the average decays.
        pub avpkt: Size = Size::from_bytes(1000), "tc-choke, tc-sfq; tc-red has no default: \"1000 is a good value\"";
        /// Whether RED marks ECN-capable packets instead of dropping them. If the queue is full, packets are dropped
        /// nevertheless.
        pub ecn: bool = false, "tc-red, tc-choke, tc-gred, tc-sfq";
    }
}

impl TcRed {
    /// Reports an invalid `avpkt`. Returns whether `avpkt` is valid.
    pub(crate) fn check_packet(&self, errors: &mut ErrorCollector) -> bool {
        let in_range = (1..=u32::MAX.into()).contains(&self.avpkt.bytes());
        let problem = format_args!("must be from 1B to 4294967295B (got {})", self.avpkt);
        errors.check(in_range, "avpkt", problem);
        in_range
    }

    /// Returns the options of `tc` with the given thresholds, whose unit is `p` or `B`.
    pub(crate) fn options(&self, (min, max): (u64, u64), unit: char) -> TcOptions {
        let Self { probability, burst, .. } = *self;
        TcOptions { min, max, unit, probability, burst, avpkt: self.avpkt.bytes() }
    }
}

/// The options of `tc` for a RED queue, except those for the decay of the average on an idle link.
#[derive(Clone, Copy)]
pub(crate) struct TcOptions {
    pub min: u64,
    pub max: u64,
    /// The letter of the thresholds' unit: `p` or `B`.
    pub unit: char,
    pub probability: f64,
    pub burst: Option<u32>,
    /// Average packet size in bytes.
    pub avpkt: u64,
}

impl TcOptions {
    /// Returns the number of bytes that one unit of the thresholds represents.
    fn unit_bytes(&self) -> u64 {
        if self.unit == 'p' { self.avpkt } else { 1 }
    }

    /// Adds the arguments of `tc`. `bandwidth` is the rate at which the average decays while the link is idle; `None` if
    /// the discipline has no such argument.
    pub fn add_tc(&self, qdisc: Qdisc, bandwidth: Option<Rate>) -> Qdisc {
        let Self { min, max, avpkt, probability, .. } = *self;
        // `tc` computes the same burst if the argument is missing.
        let automatic =
            (2 * u128::from(min) + u128::from(max)) * u128::from(self.unit_bytes()) / (3 * u128::from(avpkt));
        let burst = self.burst.map_or(automatic.try_into().unwrap_or(u64::MAX), u64::from);
        let thresholds = qdisc.count("min", min).count("max", max).count("avpkt", avpkt);
        let red = thresholds.count("burst", burst);
        let red = match bandwidth {
            Some(rate) => red.short_rate("bandwidth", rate),
            None => red,
        };
        red.with("probability", probability)
    }

    /// Returns the parameters as the kernel stores them.
    ///
    /// # Errors
    /// Returns an error for each option that `tc` cannot convert.
    pub fn parms(&self) -> Result<Parms, ConfigErrors> {
        let mut errors = ErrorCollector::default();
        let weight_log = errors.take(self.weight_log());
        let max_p = errors.take(self.max_p());
        let (weight_log, max_p) = errors.finish_some(weight_log.zip(max_p))?;
        Ok(Parms::new(self.min, self.max, weight_log, max_p))
    }

    /// Returns the weight of the average, as a negative binary logarithm.
    ///
    /// # Errors
    /// Returns an error if no weight exists for `burst`, or if the average does not fit into 32 bits.
    pub fn weight_log(&self) -> Result<u32, ConfigError> {
        let Self { min, max, unit, avpkt, .. } = *self;
        let bytes = |length: u64| length.saturating_mul(self.unit_bytes());
        let weight_log = tc::weight_log(self.burst, bytes(min), bytes(max), avpkt)?;
        let (beyond, weight) = (1_u64 << (AVERAGE_BITS - weight_log), 1_u64 << weight_log);
        let problem = format_args!(
            "must be below {beyond}{unit} with weight 1/{weight}, because the kernel stores the average in 32 \
             bits (got {max}{unit})"
        );
        ConfigError::unless(max < beyond, "max", problem)?;
        Ok(weight_log)
    }

    /// Returns the drop probability at `max`, which must be below 1.
    ///
    /// # Errors
    /// Returns an error if the probability is out of range or does not fit into 32 bits.
    pub fn max_p(&self) -> Result<MaxP, ConfigError> {
        let probability = self.probability;
        let problem = format_args!("must be above 0 and at most 1 (got {probability})");
        ConfigError::unless(probability > 0.0 && probability <= 1.0, "probability", problem)?;
        self.probability_log()?;
        let remedy = "must be below 1, because tc cannot pass 1 to the kernel";
        ConfigError::unless(probability < 1.0, "probability", remedy)?;
        let value = libm::ldexp(probability, 32) as u64;
        Ok(MaxP { value, slope: (value / (self.max - self.min)).max(1) })
    }

    /// Returns the binary logarithm of the smallest power of two that exceeds the difference between the thresholds, in
    /// bytes, divided by `probability`.
    ///
    /// # Errors
    /// Returns an error if the power does not fit into 32 bits.
    pub fn probability_log(&self) -> Result<u32, ConfigError> {
        tc::probability_log(self.probability, (self.max - self.min).saturating_mul(self.unit_bytes()))
    }
}

/// The drop probability at `max`, and the slope of `p_b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxP {
    /// Drop probability at `max` in units of 2^-32 (`max_P`).
    pub value: u64,
    /// Increase of `p_b` per byte or packet, in units of 2^-32 (`max_p_delta`).
    pub slope: u64,
}

impl MaxP {
    /// Returns the drop function with the given thresholds.
    pub fn curve(self, min: u64, max: u64) -> Curve {
        let max_p = libm::ldexp((self.slope * (max - min)) as f64, -32);
        Curve { min: min as f64, max: max as f64, max_p, gentle: false, gentle_from: max_p }
    }
}

/// The parameters of RED (`red_parms`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parms {
    pub min: u64,
    pub max: u64,
    pub weight_log: u32,
    pub max_p: MaxP,
    /// Lowest average, times `2^weight_log`, at which packets are dropped at random.
    early_from: u64,
    /// Lowest average, times `2^weight_log`, at which every packet is dropped.
    forced_from: u64,
}

impl Parms {
    /// Creates parameters for which an average that equals a threshold belongs to the range above the threshold.
    pub fn new(min: u64, max: u64, weight_log: u32, max_p: MaxP) -> Self {
        Self { min, max, weight_log, max_p, early_from: min << weight_log, forced_from: max << weight_log }
    }

    /// Returns these parameters, changed so that an average that equals a threshold belongs to the range below the
    /// threshold.
    pub fn with_exclusive_thresholds(self) -> Self {
        Self { early_from: self.early_from + 1, forced_from: self.forced_from + 1, ..self }
    }

    /// Returns whether the average is below all thresholds, so that no packet is dropped.
    #[inline]
    pub fn is_below_thresholds(&self, average: u64) -> bool {
        average < self.early_from
    }

    /// Updates the average at an arrival. `queue` is the queue length before the arrival. If the arrival ends an idle
    /// time, `decayed` is the average after it has decayed during the idle time, and becomes the new average.
    #[inline]
    pub fn observe(&self, vars: &mut Vars, queue: u64, decayed: Option<u64>) {
        match decayed {
            Some(decayed) => vars.average = decayed,
            None => self.sample(vars, queue),
        }
    }

    /// Adds the sample of an arrival. `queue` is the queue length before the arrival.
    #[inline]
    pub fn sample(&self, vars: &mut Vars, queue: u64) {
        vars.average = vars.average + queue - (vars.average >> self.weight_log);
    }

    /// Decides whether an arriving packet is dropped or marked (`red_action`), based on the sum of the average and
    /// `others`, which is the sum of the averages of other queues. Returns the reason why the packet is dropped or
    /// marked, or `None` if the packet passes.
    #[inline]
    pub fn decide(&self, vars: &mut Vars, others: u64, rng: &mut Rng) -> Option<Reason> {
        let average = vars.average + others;
        if self.is_below_thresholds(average) {
            vars.count = None;
            return None;
        }
        if average >= self.forced_from {
            vars.count = None;
            return Some(Reason::Forced);
        }
        let above = (average - (self.min << self.weight_log)) >> self.weight_log;
        let reason = match vars.count {
            Some(count) if above * (count + 1) < vars.draw => {
                vars.count = Some(count + 1);
                return None;
            }
            Some(count) => {
                vars.selection = Selection { above, count: count + 1, draw: vars.draw };
                Some(Reason::Early)
            }
            None => None,
        };
        vars.count = Some(0);
        vars.draw = (rng.bits() >> 32) / self.max_p.slope;
        reason
    }

    /// Returns the numbers that led to the drop of an arriving packet. `others` is the argument of
    /// [`decide`](Self::decide). The kernel selects a packet when the product of `p_b` and the count reaches the draw.
    #[cold]
    pub fn evidence(&self, vars: &Vars, others: u64, reason: Reason) -> Evidence {
        let average = Some(self.length(vars.average + others));
        if reason != Reason::Early {
            return Evidence { average, ..Evidence::default() };
        }
        let Selection { above, count, draw } = vars.selection;
        let part = |units: u64| libm::ldexp((units * self.max_p.slope) as f64, -32);
        Evidence { average, count: Some(count), ..Evidence::drawn(part(above), part(draw)) }
    }

    /// Converts `average` to a length in the unit of the thresholds.
    pub fn length(&self, average: u64) -> f64 {
        average as f64 * tc::power_of_half(self.weight_log)
    }

    /// Returns the drop function.
    pub fn curve(&self) -> Curve {
        self.max_p.curve(self.min, self.max)
    }
}

/// The state of RED (`red_vars`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vars {
    /// The average queue, times `2^weight_log` (`qavg`).
    pub average: u64,
    /// Packets since the last drop or since the first packet between the thresholds; `None` while the average is not
    /// between the thresholds (`qcount`).
    count: Option<u64>,
    /// Random threshold for the product of `count` and the length above `min` (`qR`).
    draw: u64,
    selection: Selection,
}

/// The numbers that led to the latest selection of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Selection {
    /// Average above `min`, in the unit of the thresholds.
    above: u64,
    count: u64,
    draw: u64,
}

impl Vars {
    /// Returns the average at `now`, if the link has been idle since `since`.
    pub fn after_idle(&self, idle: &IdleTable, since: Instant, now: Instant) -> u64 {
        idle.after(self.average, now.since(since).nanos() / 1000)
    }
}

/// Returns the thresholds. As in `tc`, thresholds that are not set are derived from the limit that is named `path`:
/// `max` is a quarter of the limit, and `min` is a third of `max`.
///
/// # Errors
/// Returns an error if the limit is out of range or the thresholds are not in ascending order.
pub(crate) fn thresholds(
    limit: (&str, u64),
    min: Option<u64>,
    max: Option<u64>,
    unit: char,
) -> Result<(u64, u64), ConfigErrors> {
    let (path, limit) = limit;
    let largest = u64::from(u32::MAX);
    let in_range = (1..=largest).contains(&limit);
    let problem = format_args!("must be from 1{unit} to {largest}{unit} (got {limit}{unit})");
    ConfigError::unless(in_range, path, problem)?;
    let mut errors = ErrorCollector::default();
    let is_effective = max.unwrap_or(limit / 4) <= limit;
    errors.check(is_effective, "max", format_args!("must be at most {path} ({limit}{unit})"));
    let (max_default, max) = max
        .map_or(("; the default of max is a quarter of the limit, so set max", limit / 4), |max| ("", max));
    let (min_default, min) =
        min.map_or(("; the default is a third of max, so set min", max / 3), |min| ("", min));
    errors.check(min > 0, "min", format_args!("must be at least 1{unit}{min_default}"));
    errors.check(min == 0 || max > min, "max", format_args!("must exceed min ({min}{unit}){max_default}"));
    errors.finish((min, max))
}
