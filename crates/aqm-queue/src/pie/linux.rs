//! Linux's PIE without a buffer, in the kernel's integer arithmetic: `net/sched/sch_pie.c` and `include/net/pie.h` of
//! Linux 6.1.
//!
//! The parameters ([`Rules`]) and the state ([`Vars`]) are separate, because `fq-pie` has one set of parameters and
//! many states. Times are counted in ticks of 64 ns, and probabilities are in units of 1 / (2^56 - 1).
//!
//! - `pie_calculate_probability`, at each tick of the timer: the probability changes by alpha times the difference
//!   between the delay and the target, plus beta times the change of the delay since the previous update. The total
//!   change is divided by a factor from 2 (if the probability is below 10 %) to 2048 (below 0.0001 %). At a probability
//!   of 10 % or more, an increase is at most 2 %. If the delay is above 250 ms, the probability increases by another 2
//!   %. If the delays at two successive updates are zero, the probability decreases by 1/64. Once the probability is
//!   zero and the delays at two successive updates are below half the target, all state is reset.
//! - `pie_drop_early`, at each arrival: no packet is selected while burst allowance remains, while the delay is below
//!   half the target and the probability is below 20 %, or while the backlog is less than twice `mtu`. In all other
//!   cases, the probabilities of packets are added up. While the sum is below 0.85, no packet is selected. Once the sum
//!   is at least 8.5, every packet is selected. Between these values, packets are selected at random.
//! - `pie_process_dequeue`, at each departure: the delay is the sojourn time of the departing packet, or zero if the
//!   queue is empty afterwards. The burst allowance decreases by the time since the last departure. If the departure
//!   rate is estimated, the delay is the backlog divided by this rate instead.
//!
//! The timer counts the kernel's timer ticks (see [`updates`]).
//!
//! The kernel checks whether the probability overflows at 2^64, not whether it exceeds its maximum. In a long overload,
//! the probability therefore rises above 1, and takes equally long to fall again. aqmlab reproduces this property.

use aqm_net::{Instant, Rng, Span};

use super::pie::Departure;
use crate::Evidence;

/// The probability 1 (`MAX_PROB`).
pub(crate) const MAX_PROB: u64 = u64::MAX >> 8;

/// Binary logarithm of the nanoseconds per tick (`PSCHED_SHIFT`).
const TICK_LOG: u32 = 6;

/// Ticks per second (`PSCHED_TICKS_PER_SEC`).
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> TICK_LOG;

/// Probabilities below which alpha and beta are reduced. Below the first probability, alpha and beta are divided by 2;
/// below each further probability, they are divided by another 4.
const STEPS: [u64; 6] = [
    MAX_PROB / 10,
    MAX_PROB / 100,
    MAX_PROB / 1_000,
    MAX_PROB / 10_000,
    MAX_PROB / 100_000,
    MAX_PROB / 1_000_000,
];

/// Number of fractional bits of the departure rate (`PIE_SCALE`).
const RATE_FRACTION: u32 = 8;

/// Time from the creation of the queue to the first update (`HZ / 2`).
pub(crate) const FIRST_UPDATE: Span = Span::from_millis(500);

/// Timer frequency of the kernel on which runs were recorded, in ticks per second (`CONFIG_HZ`).
pub(crate) const HZ: u32 = 1000;
/// Maximum timer frequency.
pub(crate) const MAX_HZ: u32 = 10_000;

/// Returns the `target` that `tc` shows. The kernel converts whole microseconds to ticks of 64 ns, and back.
pub(crate) fn tc_target(target: Span) -> Span {
    Span::from_nanos((target.nanos() / 1000 * 1000) >> 6 << 6)
}

/// Returns the `tupdate` that `tc` shows. The kernel rounds `tupdate` up to a whole number of ticks, and `hz` is the
/// number of ticks per second. If `hz` is 0, the function returns the exact `tupdate`.
pub(crate) fn tc_tupdate(tupdate: Span, hz: u32) -> Span {
    if hz == 0 { tupdate } else { jiffies(in_jiffies(tupdate, hz), hz) }
}

/// Returns the time of the first update and the time between updates, if the kernel has `hz` ticks per second. The run
/// begins with a kernel tick.
///
/// The timer wheel ensures that a timer never expires early, and therefore rounds up (`kernel/time/timer.c`): timers of
/// less than 64 ticks are increased by one tick, timers of less than 512 ticks are rounded up to the next larger
/// multiple of 8 ticks, and so on.
pub(crate) fn updates(tupdate: Span, hz: u32) -> (Instant, Span) {
    // While timers are running, the timer wheel is one tick ahead.
    let rounded_up = |ticks: u64, ahead: u64| {
        let level = (0..8).find(|level| ticks - ahead < 63 << (3 * level)).unwrap_or(8);
        ((ticks >> (3 * level)) + 1) << (3 * level)
    };
    let first = rounded_up((u64::from(hz) / 2).max(1), 0);
    let period = rounded_up(in_jiffies(tupdate, hz), 1);
    (Instant::START + jiffies(first, hz), jiffies(period, hz))
}

/// Returns the number of kernel ticks in `span`, rounded up, but at least 1.
fn in_jiffies(span: Span, hz: u32) -> u64 {
    let ticks = (u128::from(span.nanos()) * u128::from(hz)).div_ceil(1_000_000_000);
    (ticks as u64).max(1)
}

/// Returns the duration of `ticks` kernel ticks.
fn jiffies(ticks: u64, hz: u32) -> Span {
    Span::from_nanos((u128::from(ticks) * 1_000_000_000 / u128::from(hz)) as u64)
}

/// Returns the number of the 64 ns tick that contains this time.
pub(crate) const fn ticks(moment: Instant) -> u64 {
    moment.nanos() >> TICK_LOG
}

/// Converts a time span to whole ticks of 64 ns, rounded down.
const fn ticks_of(span: Span) -> u64 {
    span.nanos() >> TICK_LOG
}

/// Converts the probability `share` to the kernel's unit, after rounding it to a multiple of 1e-9.
pub(crate) fn probability(share: f64) -> u64 {
    (u128::from(MAX_PROB) * u128::from((share * 1e9 + 0.5) as u64) / 1_000_000_000) as u64
}

/// The parameters in the kernel's units.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    target: u64,
    /// Change of the probability at an update, per tick of difference between the delay and the target.
    alpha: u64,
    beta: u64,
    max_burst: u64,
    mtu: u64,
    bytemode: bool,
    /// Number of bytes over which the departure rate is measured; `None` if the rate is not estimated.
    estimator: Option<u64>,
}

/// The parameters as `tc` passes them to the kernel.
pub(crate) struct TcParams {
    /// Target queueing delay.
    pub(crate) target: Span,
    /// The gain alpha, in sixteenths of a Hz.
    pub(crate) alpha: u32,
    /// The gain beta, in sixteenths of a Hz.
    pub(crate) beta: u32,
    /// Burst allowance: time from the beginning of a burst during which no packet is dropped.
    pub(crate) max_burst: Span,
    /// Size of a full packet in bytes.
    pub(crate) mtu: u64,
    /// Whether smaller packets have a smaller drop probability.
    pub(crate) bytemode: bool,
    /// Number of bytes over which the departure rate is measured; `None` if the rate is not estimated.
    pub(crate) estimator: Option<u64>,
}

/// The state of PIE for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vars {
    /// The drop probability. Values above [`MAX_PROB`] mean 1.
    pub(crate) prob: u64,
    /// Sum of the probabilities since the last drop.
    pub(crate) accu_prob: u64,
    /// The queueing delay in ticks.
    pub(crate) qdelay: u64,
    qdelay_old: u64,
    /// Remaining burst allowance in ticks.
    pub(crate) burst_time: u64,
    /// Time of the last departure or, if the departure rate is estimated, start of the measurement.
    dq_tstamp: Option<u64>,
    /// Bytes that have left during this measurement.
    dq_count: Option<u64>,
    /// Departure rate in bytes per tick, with [`RATE_FRACTION`] fractional bits.
    avg_dq_rate: u32,
}

impl Rules {
    pub(crate) fn new(params: &TcParams) -> Self {
        let per_tick = |sixteenths: u32| (u64::from(sixteenths) * (MAX_PROB / TICKS_PER_SECOND)) >> 4;
        Self {
            target: ticks_of(params.target),
            alpha: per_tick(params.alpha),
            beta: per_tick(params.beta),
            max_burst: ticks_of(params.max_burst),
            mtu: params.mtu,
            bytemode: params.bytemode,
            estimator: params.estimator,
        }
    }

    /// Returns the state of a new queue.
    pub(crate) fn vars(&self) -> Vars {
        Vars {
            prob: 0,
            accu_prob: 0,
            qdelay: 0,
            qdelay_old: 0,
            burst_time: self.max_burst,
            dq_tstamp: None,
            dq_count: None,
            avg_dq_rate: 0,
        }
    }

    /// Returns whether the departure rate is estimated.
    pub(crate) const fn estimates(&self) -> bool {
        self.estimator.is_some()
    }

    /// Returns whether an arriving packet of `bytes` bytes is selected to be dropped or marked.
    pub(crate) fn select(
        &self,
        vars: &mut Vars,
        bytes: u16,
        backlog: u64,
        rng: &mut Rng,
    ) -> Option<Evidence> {
        if vars.burst_time > 0
            || (vars.qdelay < self.target / 2 && vars.prob < MAX_PROB / 5)
            || backlog < 2 * self.mtu
        {
            return None;
        }
        let bytes = u64::from(bytes);
        let prob =
            if self.bytemode && bytes <= self.mtu { bytes * (vars.prob / self.mtu) } else { vars.prob };
        vars.accu_prob = if prob == 0 { 0 } else { vars.accu_prob.wrapping_add(prob) };
        if vars.accu_prob < MAX_PROB / 100 * 85 {
            return None;
        }
        if vars.accu_prob >= MAX_PROB / 2 * 17 {
            return Some(Evidence::certain());
        }
        let draw = rng.bits() >> 8;
        if draw >= prob {
            return None;
        }
        vars.accu_prob = 0;
        let share = |value: u64| (value as f64 / MAX_PROB as f64).min(1.0);
        Some(Evidence::drawn(share(prob), share(draw)))
    }

    /// Updates the state after a departure.
    pub(crate) fn after_departure(&self, vars: &mut Vars, departure: &Departure) {
        let elapsed = match self.estimator {
            None => {
                let now = ticks(departure.now);
                vars.qdelay = if departure.backlog.bytes == 0 { 0 } else { now - ticks(departure.arrival) };
                vars.dq_tstamp.replace(now).map(|last| (now - last) as u32)
            }
            Some(threshold) => vars.measure(departure, threshold),
        };
        vars.burst_time = vars.burst_time.saturating_sub(elapsed.unwrap_or(0).into());
    }

    /// Updates the probability and the burst allowance when the timer expires.
    pub(crate) fn update(&self, vars: &mut Vars, backlog: u64) {
        if self.estimator.is_some() {
            vars.qdelay_old = vars.qdelay;
            let scaled = (backlog as u32) << RATE_FRACTION;
            vars.qdelay = scaled.checked_div(vars.avg_dq_rate).unwrap_or(0).into();
        }
        let Vars { qdelay, qdelay_old, prob, .. } = *vars;
        let below = STEPS.iter().take_while(|&&step| prob < step).count() as u32;
        let shift = (2 * below).saturating_sub(1);
        let change = |gain: u64, from: u64| (gain >> shift).wrapping_mul(qdelay.wrapping_sub(from)) as i64;
        let mut delta = change(self.alpha, self.target).wrapping_add(change(self.beta, qdelay_old));
        if delta > (MAX_PROB / 50) as i64 && prob >= MAX_PROB / 10 {
            delta = (MAX_PROB / 100 * 2) as i64;
        }
        if qdelay > ticks_of(Span::from_millis(250)) {
            delta = delta.wrapping_add((MAX_PROB / 50) as i64);
        }
        let next = prob.wrapping_add_signed(delta);
        let overflows = delta > 0 && next < prob;
        vars.prob = if overflows {
            MAX_PROB
        } else if delta <= 0 && next > prob {
            0
        } else {
            next
        };
        // If packets are queued, a delay of zero means that the queue is very short, not that it is empty.
        if qdelay == 0 && qdelay_old == 0 && backlog == 0 && !overflows {
            vars.prob -= vars.prob / 64;
        }
        let is_low = |delay| delay < self.target / 2;
        if is_low(qdelay)
            && is_low(qdelay_old)
            && vars.prob == 0
            && (self.estimator.is_none() || vars.avg_dq_rate > 0)
        {
            let Vars { qdelay, qdelay_old, .. } = *vars;
            *vars = Vars { qdelay, qdelay_old, ..self.vars() };
        }
        if self.estimator.is_none() {
            vars.qdelay_old = qdelay;
        }
    }
}

impl Vars {
    /// Counts a departure in the measurement of the departure rate over `threshold` bytes. Returns the duration of the
    /// measurement if this departure ends it.
    fn measure(&mut self, departure: &Departure, threshold: u64) -> Option<u32> {
        let (backlog, now) = (departure.backlog.bytes, ticks(departure.now));
        if backlog >= threshold && self.dq_count.is_none() {
            (self.dq_tstamp, self.dq_count) = (Some(now), Some(0));
        }
        let count = self.dq_count? + u64::from(departure.bytes);
        self.dq_count = Some(count);
        if count < threshold {
            return None;
        }
        let elapsed = (now - self.dq_tstamp.unwrap_or(now)) as u32;
        let rate = ((count << RATE_FRACTION) as u32).checked_div(elapsed)?;
        self.avg_dq_rate = match self.avg_dq_rate {
            0 => rate,
            before => before - (before >> 3) + (rate >> 3),
        };
        if backlog < threshold {
            self.dq_count = None;
        } else {
            (self.dq_tstamp, self.dq_count) = (Some(now), Some(0));
        }
        Some(elapsed)
    }

    /// Returns the queueing delay in whole microseconds, as `tc` shows it.
    pub(crate) const fn delay_micros(&self) -> u32 {
        ((self.qdelay << TICK_LOG) as u32) / 1000
    }

    /// Returns the departure rate in bytes per second.
    pub(crate) const fn departure_rate(&self) -> u64 {
        (self.avg_dq_rate as u64 * TICKS_PER_SECOND) >> RATE_FRACTION
    }
}

/// Converts ticks to seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 * ((1 << TICK_LOG) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use aqm_net::{Backlog, Streams};

    use super::*;

    fn params() -> TcParams {
        TcParams {
            target: Span::from_millis(15),
            alpha: 2,
            beta: 20,
            max_burst: Span::from_millis(150),
            mtu: 1514,
            bytemode: false,
            estimator: None,
        }
    }

    fn at_micros(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn departure(bytes: u16, sojourn_us: u64, backlog: u64, now_us: u64) -> Departure {
        let backlog = Backlog { packets: backlog.div_ceil(1000), bytes: backlog };
        Departure { bytes, arrival: at_micros(now_us - sojourn_us), backlog, now: at_micros(now_us) }
    }

    /// Returns the state after two departures, each of which leaves packets in the queue, when no burst allowance
    /// remains.
    fn after_two_departures(rules: &Rules, micros: u64) -> Vars {
        let mut vars = rules.vars();
        rules.after_departure(&mut vars, &departure(1000, micros, 20_000, 1_000_000));
        rules.after_departure(&mut vars, &departure(1000, micros, 20_000, 1_200_000));
        vars
    }

    #[test]
    fn times_are_ticks_and_gains_are_rounded_as_in_the_kernel() {
        let rules = Rules::new(&params());
        // The expected values are (2^56 - 1) / 15,625,000 = 4,611,686,018, multiplied by 2 and by 20, and divided by
        // 16.
        assert_eq!((rules.alpha, rules.beta), (576_460_752, 5_764_607_522));
        assert_eq!((rules.target, rules.max_burst), (234_375, 2_343_750));
        assert_eq!(ticks(Instant::from_nanos(1_000_063)), 15_625);
        assert_eq!((probability(0.1), probability(1.0)), (MAX_PROB / 10, MAX_PROB));
    }

    #[test]
    fn an_update_uses_the_kernels_shifts() {
        let rules = Rules::new(&params());
        let mut vars = after_two_departures(&rules, 30_000);
        assert_eq!((vars.qdelay, vars.burst_time), (468_750, 0));
        rules.update(&mut vars, 20_000);
        // At probabilities below 0.0001 %, alpha and beta are divided by 2048 in integer arithmetic.
        let first = 281_474 * 234_375 + 2_814_749 * 468_750;
        assert_eq!((vars.prob, vars.qdelay_old), (first, 468_750));
        rules.update(&mut vars, 20_000);
        // At probabilities of 0.001 % and more, alpha and beta are divided by 128.
        assert_eq!(vars.prob, first + (576_460_752 / 128) * 234_375);
        vars.prob = MAX_PROB / 10;
        rules.update(&mut vars, 20_000);
        assert_eq!(vars.prob, MAX_PROB / 10 + 576_460_752 * 234_375);
    }

    #[test]
    fn increases_are_limited_to_two_percent_plus_two_above_a_delay_of_250_ms() {
        let rules = Rules::new(&params());
        let rise = |prob: u64, micros: u64| {
            let mut vars = Vars { prob, ..after_two_departures(&rules, micros) };
            rules.update(&mut vars, 20_000);
            vars.prob - prob
        };
        let two_percent = MAX_PROB / 100 * 2;
        assert_eq!(rise(MAX_PROB / 5, 250_000), two_percent);
        assert_eq!(rise(MAX_PROB / 5, 250_064), two_percent + MAX_PROB / 50);
        assert!(rise(MAX_PROB / 20, 250_000) > MAX_PROB / 10, "below 10 % there is no limit");
    }

    #[test]
    fn under_a_lasting_overload_the_probability_rises_above_one() {
        let rules = Rules::new(&params());
        let mut vars = after_two_departures(&rules, 100_000);
        (0..200).for_each(|_| rules.update(&mut vars, 20_000));
        assert!(vars.prob > MAX_PROB + MAX_PROB / 2, "{}", vars.prob as f64 / MAX_PROB as f64);
        (0..100_000).for_each(|_| rules.update(&mut vars, 20_000));
        assert!(vars.prob >= MAX_PROB, "it restarts at 1 when 64 bits overflow");
    }

    #[test]
    fn in_an_empty_queue_the_probability_decays_by_1_64_and_then_the_state_is_reset() {
        let rules = Rules::new(&params());
        let mut vars = Vars { prob: MAX_PROB / 2, accu_prob: 7, ..after_two_departures(&rules, 30_000) };
        rules.after_departure(&mut vars, &departure(1000, 30_000, 0, 1_300_000));
        assert_eq!(vars.qdelay, 0, "the queue is empty after the departure");
        rules.update(&mut vars, 0);
        let before = vars.prob;
        rules.update(&mut vars, 0);
        let decreased = before - 576_460_752 * 234_375;
        assert_eq!(vars.prob, decreased - decreased / 64);
        // If packets are queued, a delay of zero does not mean that the queue is empty.
        let mut standing = Vars { prob: before, ..vars };
        rules.update(&mut standing, 100);
        assert_eq!(standing.prob, decreased);
        let mut updates = 0;
        while vars.prob > 0 {
            rules.update(&mut vars, 0);
            updates += 1;
        }
        assert!((100..600).contains(&updates), "{updates}");
        assert_eq!(vars, rules.vars());
    }

    #[test]
    fn no_packet_is_selected_from_a_short_queue_or_at_a_low_delay() {
        let rules = Rules::new(&params());
        let mut rng = Streams::new(1).named("queue", 0);
        let base = Vars { prob: MAX_PROB, accu_prob: MAX_PROB * 9, ..after_two_departures(&rules, 30_000) };
        let mut selects =
            |vars: Vars, backlog| rules.select(&mut vars.clone(), 1000, backlog, &mut rng).is_some();
        assert!(selects(base, 3028));
        assert!(!selects(base, 3027), "less than two packets");
        assert!(!selects(Vars { burst_time: 1, ..base }, 20_000));
        let low = 234_375 / 2 - 1;
        assert!(!selects(Vars { qdelay: low, prob: MAX_PROB / 5 - 1, ..base }, 20_000));
        assert!(selects(Vars { qdelay: low + 1, prob: MAX_PROB / 5 - 1, ..base }, 20_000));
        assert!(selects(Vars { qdelay: low, ..base }, 20_000));
    }

    #[test]
    fn with_bytemode_a_small_packet_has_a_smaller_probability() {
        let rules = Rules::new(&TcParams { bytemode: true, ..params() });
        let mut rng = Streams::new(1).named("queue", 0);
        let base = Vars { prob: MAX_PROB / 4, ..after_two_departures(&rules, 30_000) };
        let mut added = |bytes| {
            let mut vars = base;
            rules.select(&mut vars, bytes, 20_000, &mut rng);
            vars.accu_prob
        };
        assert_eq!(added(757), 757 * (MAX_PROB / 4 / 1514));
        assert_eq!(added(9000), MAX_PROB / 4, "a larger packet has the full probability");
    }

    #[test]
    fn the_departure_rate_is_an_average_in_bytes_per_tick() {
        let rules = Rules::new(&TcParams { estimator: Some(16_384), ..params() });
        let mut vars = rules.vars();
        // A packet of 1000 bytes departs each millisecond. The 17th packet of a measurement, including its first
        // packet, ends the measurement.
        for k in 0..17 {
            rules.after_departure(&mut vars, &departure(1000, 500, 30_000, 1_000_000 + k * 1000));
        }
        let ticks = 16_000_000 / 64;
        assert_eq!(vars.avg_dq_rate, (17_000 << 8) / ticks);
        assert_eq!(vars.departure_rate(), u64::from(vars.avg_dq_rate) * 15_625_000 / 256);
        assert_eq!(vars.burst_time, 2_343_750 - u64::from(ticks));
        rules.update(&mut vars, 30_000);
        assert_eq!(vars.qdelay, (30_000 << 8) / u64::from(vars.avg_dq_rate));
        let before = vars.avg_dq_rate;
        for k in 0..17 {
            rules.after_departure(&mut vars, &departure(1000, 500, 10_000, 1_018_000 + k * 2000));
        }
        let second = (17_000_u32 << 8) / (34_000_000 / 64);
        assert_eq!(vars.avg_dq_rate, before - before / 8 + second / 8);
        assert_eq!(vars.dq_count, None, "the backlog is too small for another measurement");
    }
}
