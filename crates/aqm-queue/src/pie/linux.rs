//! Linux's PIE without a buffer, in the kernel's integers: `net/sched/sch_pie.c` and `include/net/pie.h` of Linux 6.1.
//!
//! [`Rules`] are the parameters, [`Vars`] what changes; `fq-pie` has one of the former and many of the latter. Times
//! are ticks of 64 ns, and a probability counts in units of 1 / (2^56 - 1).
//!
//! - `pie_calculate_probability`, at each instant of the timer: the delay off the target times alpha, and the delay
//!   off the one before times beta, are added to the probability, both divided by 2 to 2048 as long as it is below
//!   10 % to 0.0001 %; from 10 % on at most 2 % at a time. Beyond 250 ms there are 2 % more. After two delays of
//!   zero a 64th goes. Once the probability is zero and both delays are below half the target, all begins anew.
//! - `pie_drop_early`, at each arrival: nothing while burst allowance is left, nor while the delay is below half the
//!   target and the probability below 20 %, nor with less than two packets' bytes waiting. Otherwise the
//!   probability is added up; below 0.85 nothing happens, from 8.5 on a drop is sure, in between chance decides.
//! - `pie_process_dequeue`, at each departure: the delay is that of the packet that leaves, but zero if it leaves
//!   nothing behind; the time since the last departure comes off the burst allowance. With the estimator of the
//!   departure rate, the delay is what waits over that rate instead.
//!
//! The timer counts ticks of the kernel: [`updates`].
//!
//! The overflow of the probability is looked for at 2^64, no longer at its maximum: under a lasting overload it goes on
//! beyond 1, and takes as long to come back. So it is here.

use aqm_net::{Instant, Rng, Span};

use super::pie::Departed;

/// The probability 1 (`MAX_PROB`).
pub(crate) const MAX_PROB: u64 = u64::MAX >> 8;

/// Nanoseconds of a tick, as a logarithm (`PSCHED_SHIFT`).
const TICK_LOG: u32 = 6;

/// Ticks of a second (`PSCHED_TICKS_PER_SEC`).
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> TICK_LOG;

/// Below each of these alpha and beta are halved once, then divided by four again and again.
const STEPS: [u64; 6] = [
    MAX_PROB / 10,
    MAX_PROB / 100,
    MAX_PROB / 1_000,
    MAX_PROB / 10_000,
    MAX_PROB / 100_000,
    MAX_PROB / 1_000_000,
];

/// Binary places of the departure rate (`PIE_SCALE`).
const RATE_FRACTION: u32 = 8;

/// When the timer would run out first, after the queue was made (`HZ / 2`).
pub(crate) const FIRST_UPDATE: Span = Span::from_millis(500);

/// Ticks of the kernel's timers per second (`CONFIG_HZ`) of the recorded runs, and the most there may be here.
pub(crate) const HZ: u32 = 1000;
pub(crate) const MOST_HZ: u32 = 10_000;

/// What `tc` shows of this `tupdate`: whole ticks of so many per second, exact without any.
pub(crate) fn told_tupdate(tupdate: Span, hz: u32) -> Span {
    if hz == 0 { tupdate } else { jiffies(in_jiffies(tupdate, hz), hz) }
}

/// When the timer runs out first with so many ticks per second, and the time from then on; the run begins with a tick.
///
/// The timer wheel makes sure that a timer is never early, and rounds up beyond it: by one tick for those of less than
/// 64 ticks, to the next multiple of 8 beyond for those of less than 512, and so on (`kernel/time/timer.c`).
pub(crate) fn updates(tupdate: Span, hz: u32) -> (Instant, Span) {
    // While timers run, the wheel is a tick ahead.
    let rounded_up = |ticks: u64, ahead: u64| {
        let level = (0..8).find(|level| ticks - ahead < 63 << (3 * level)).unwrap_or(8);
        ((ticks >> (3 * level)) + 1) << (3 * level)
    };
    let first = rounded_up((u64::from(hz) / 2).max(1), 0);
    let period = rounded_up(in_jiffies(tupdate, hz), 1);
    (Instant::START + jiffies(first, hz), jiffies(period, hz))
}

/// Whole ticks of so many per second, rounded up; at least one.
fn in_jiffies(span: Span, hz: u32) -> u64 {
    let ticks = (u128::from(span.nanos()) * u128::from(hz)).div_ceil(1_000_000_000);
    (ticks as u64).max(1)
}

/// How long so many ticks take.
fn jiffies(ticks: u64, hz: u32) -> Span {
    Span::from_nanos((u128::from(ticks) * 1_000_000_000 / u128::from(hz)) as u64)
}

/// The tick that this moment is in.
pub(crate) const fn ticks(moment: Instant) -> u64 {
    moment.nanos() >> TICK_LOG
}

/// A length of time in whole ticks.
const fn ticks_of(span: Span) -> u64 {
    span.nanos() >> TICK_LOG
}

/// A share of the largest probability, to the billionth.
pub(crate) fn probability(share: f64) -> u64 {
    (u128::from(MAX_PROB) * u128::from((share * 1e9 + 0.5) as u64) / 1_000_000_000) as u64
}

/// The parameters, as the kernel has them.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    target: u64,
    /// What a tick of delay adds to the probability.
    alpha: u64,
    beta: u64,
    max_burst: u64,
    mtu: u64,
    bytemode: bool,
    /// Bytes over which the departure rate is measured, if it is estimated.
    estimator: Option<u64>,
}

/// What [`Rules`] are made of.
pub(crate) struct Told {
    /// The delay to hold.
    pub(crate) target: Span,
    /// In sixteenths per second.
    pub(crate) alpha: u32,
    /// Likewise.
    pub(crate) beta: u32,
    /// How long a burst may last.
    pub(crate) max_burst: Span,
    /// The largest packet.
    pub(crate) mtu: u64,
    /// Whether small packets have less to fear.
    pub(crate) bytemode: bool,
    /// Bytes over which the departure rate is measured, if it is estimated.
    pub(crate) estimator: Option<u64>,
}

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vars {
    /// The probability; above [`MAX_PROB`] it is 1.
    pub(crate) prob: u64,
    /// Probabilities since the last drop.
    pub(crate) accu_prob: u64,
    /// The delay.
    pub(crate) qdelay: u64,
    qdelay_old: u64,
    /// Burst allowance that is left.
    pub(crate) burst_time: u64,
    /// When the last packet left, or when the measurement began.
    dq_tstamp: Option<u64>,
    /// Bytes that left in this measurement.
    dq_count: Option<u64>,
    /// Bytes per tick, with [`RATE_FRACTION`] binary places.
    avg_dq_rate: u32,
}

impl Rules {
    pub(crate) fn new(told: &Told) -> Self {
        let per_tick = |sixteenths: u32| (u64::from(sixteenths) * (MAX_PROB / TICKS_PER_SECOND)) >> 4;
        Self {
            target: ticks_of(told.target),
            alpha: per_tick(told.alpha),
            beta: per_tick(told.beta),
            max_burst: ticks_of(told.max_burst),
            mtu: told.mtu,
            bytemode: told.bytemode,
            estimator: told.estimator,
        }
    }

    /// What a new queue has.
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

    /// Whether the departure rate is estimated.
    pub(crate) const fn estimates(&self) -> bool {
        self.estimator.is_some()
    }

    /// Whether chance picks the packet of so many `bytes` that arrives.
    pub(crate) fn picks(&self, vars: &mut Vars, bytes: u16, backlog: u64, rng: &mut Rng) -> bool {
        if vars.burst_time > 0
            || (vars.qdelay < self.target / 2 && vars.prob < MAX_PROB / 5)
            || backlog < 2 * self.mtu
        {
            return false;
        }
        let bytes = u64::from(bytes);
        let prob =
            if self.bytemode && bytes <= self.mtu { bytes * (vars.prob / self.mtu) } else { vars.prob };
        vars.accu_prob = if prob == 0 { 0 } else { vars.accu_prob.wrapping_add(prob) };
        if vars.accu_prob < MAX_PROB / 100 * 85 {
            return false;
        }
        if vars.accu_prob >= MAX_PROB / 2 * 17 {
            return true;
        }
        let is_picked = rng.bits() >> 8 < prob;
        if is_picked {
            vars.accu_prob = 0;
        }
        is_picked
    }

    /// A packet has left.
    pub(crate) fn after_departure(&self, vars: &mut Vars, departed: &Departed) {
        let elapsed = match self.estimator {
            None => {
                let now = ticks(departed.now);
                vars.qdelay = if departed.left.bytes == 0 { 0 } else { now - ticks(departed.joined) };
                vars.dq_tstamp.replace(now).map(|last| (now - last) as u32)
            }
            Some(threshold) => vars.measure(departed, threshold),
        };
        vars.burst_time = vars.burst_time.saturating_sub(elapsed.unwrap_or(0).into());
    }

    /// The timer has run out.
    pub(crate) fn update(&self, vars: &mut Vars, backlog: u64) {
        if self.estimator.is_some() {
            vars.qdelay_old = vars.qdelay;
            let scaled = (backlog as u32) << RATE_FRACTION;
            vars.qdelay = scaled.checked_div(vars.avg_dq_rate).unwrap_or(0).into();
        }
        let Vars { qdelay, qdelay_old, prob, .. } = *vars;
        let below = STEPS.iter().take_while(|&&step| prob < step).count() as u32;
        let shift = (2 * below).saturating_sub(1);
        let moved = |gain: u64, from: u64| (gain >> shift).wrapping_mul(qdelay.wrapping_sub(from)) as i64;
        let mut delta = moved(self.alpha, self.target).wrapping_add(moved(self.beta, qdelay_old));
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
        // A delay of zero although something waits is that of a very short queue.
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
    /// A packet has left: measures the departure rate over `threshold` bytes at a time, and returns how long a
    /// measurement took that ends.
    fn measure(&mut self, departed: &Departed, threshold: u64) -> Option<u32> {
        let (backlog, now) = (departed.left.bytes, ticks(departed.now));
        if backlog >= threshold && self.dq_count.is_none() {
            (self.dq_tstamp, self.dq_count) = (Some(now), Some(0));
        }
        let count = self.dq_count? + u64::from(departed.bytes);
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

    /// The delay in whole microseconds, as `tc` shows it.
    pub(crate) const fn delay_micros(&self) -> u32 {
        ((self.qdelay << TICK_LOG) as u32) / 1000
    }

    /// The departure rate in bytes per second.
    pub(crate) const fn departure_rate(&self) -> u64 {
        (self.avg_dq_rate as u64 * TICKS_PER_SECOND) >> RATE_FRACTION
    }
}

/// So many ticks in seconds.
pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 * ((1 << TICK_LOG) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use aqm_net::{Backlog, Streams};

    use super::*;

    fn told() -> Told {
        Told {
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

    fn departed(bytes: u16, waited_us: u64, left: u64, now_us: u64) -> Departed {
        let left = Backlog { packets: left.div_ceil(1000), bytes: left };
        Departed { bytes, joined: at_micros(now_us - waited_us), left, now: at_micros(now_us) }
    }

    /// After two departures, which leave a queue, the burst allowance spent.
    fn waited(rules: &Rules, micros: u64) -> Vars {
        let mut vars = rules.vars();
        rules.after_departure(&mut vars, &departed(1000, micros, 20_000, 1_000_000));
        rules.after_departure(&mut vars, &departed(1000, micros, 20_000, 1_200_000));
        vars
    }

    #[test]
    fn times_are_ticks_and_gains_are_rounded_as_in_the_kernel() {
        let rules = Rules::new(&told());
        // (2^56 - 1) / 15,625,000 = 4,611,686,018, times 2 and 20, over 16.
        assert_eq!((rules.alpha, rules.beta), (576_460_752, 5_764_607_522));
        assert_eq!((rules.target, rules.max_burst), (234_375, 2_343_750));
        assert_eq!(ticks(Instant::from_nanos(1_000_063)), 15_625);
        assert_eq!((probability(0.1), probability(1.0)), (MAX_PROB / 10, MAX_PROB));
    }

    #[test]
    fn an_update_adds_what_the_kernels_shifts_leave() {
        let rules = Rules::new(&told());
        let mut vars = waited(&rules, 30_000);
        assert_eq!((vars.qdelay, vars.burst_time), (468_750, 0));
        rules.update(&mut vars, 20_000);
        // Below 0.0001 %: alpha and beta over 2048, in whole units.
        let first = 281_474 * 234_375 + 2_814_749 * 468_750;
        assert_eq!((vars.prob, vars.qdelay_old), (first, 468_750));
        rules.update(&mut vars, 20_000);
        // From 0.001 % on: over 128.
        assert_eq!(vars.prob, first + (576_460_752 / 128) * 234_375);
        vars.prob = MAX_PROB / 10;
        rules.update(&mut vars, 20_000);
        assert_eq!(vars.prob, MAX_PROB / 10 + 576_460_752 * 234_375);
    }

    #[test]
    fn rises_end_at_two_percent_but_for_two_more_beyond_a_quarter_of_a_second() {
        let rules = Rules::new(&told());
        let rise = |prob: u64, micros: u64| {
            let mut vars = Vars { prob, ..waited(&rules, micros) };
            rules.update(&mut vars, 20_000);
            vars.prob - prob
        };
        let two_percent = MAX_PROB / 100 * 2;
        assert_eq!(rise(MAX_PROB / 5, 250_000), two_percent);
        assert_eq!(rise(MAX_PROB / 5, 250_064), two_percent + MAX_PROB / 50);
        assert!(rise(MAX_PROB / 20, 250_000) > MAX_PROB / 10, "below 10 % there is no end");
    }

    #[test]
    fn under_a_lasting_overload_the_probability_goes_on_beyond_one() {
        let rules = Rules::new(&told());
        let mut vars = waited(&rules, 100_000);
        (0..200).for_each(|_| rules.update(&mut vars, 20_000));
        assert!(vars.prob > MAX_PROB + MAX_PROB / 2, "{}", vars.prob as f64 / MAX_PROB as f64);
        (0..100_000).for_each(|_| rules.update(&mut vars, 20_000));
        assert!(vars.prob >= MAX_PROB, "it begins at 1 again when 64 bits are full");
    }

    #[test]
    fn an_empty_queue_forgets_by_a_64th_and_then_begins_anew() {
        let rules = Rules::new(&told());
        let mut vars = Vars { prob: MAX_PROB / 2, accu_prob: 7, ..waited(&rules, 30_000) };
        rules.after_departure(&mut vars, &departed(1000, 30_000, 0, 1_300_000));
        assert_eq!(vars.qdelay, 0, "it leaves nothing behind");
        rules.update(&mut vars, 0);
        let before = vars.prob;
        rules.update(&mut vars, 0);
        let fallen = before - 576_460_752 * 234_375;
        assert_eq!(vars.prob, fallen - fallen / 64);
        // With a backlog a delay of zero is not that of an empty queue.
        let mut standing = Vars { prob: before, ..vars };
        rules.update(&mut standing, 100);
        assert_eq!(standing.prob, fallen);
        let mut updates = 0;
        while vars.prob > 0 {
            rules.update(&mut vars, 0);
            updates += 1;
        }
        assert!((100..600).contains(&updates), "{updates}");
        assert_eq!(vars, rules.vars());
    }

    #[test]
    fn little_that_waits_and_a_low_delay_are_left_alone() {
        let rules = Rules::new(&told());
        let mut rng = Streams::new(1).named("queue", 0);
        let base = Vars { prob: MAX_PROB, accu_prob: MAX_PROB * 9, ..waited(&rules, 30_000) };
        let mut picks = |vars: Vars, backlog| rules.picks(&mut vars.clone(), 1000, backlog, &mut rng);
        assert!(picks(base, 3028));
        assert!(!picks(base, 3027), "less than two packets");
        assert!(!picks(Vars { burst_time: 1, ..base }, 20_000));
        let low = 234_375 / 2 - 1;
        assert!(!picks(Vars { qdelay: low, prob: MAX_PROB / 5 - 1, ..base }, 20_000));
        assert!(picks(Vars { qdelay: low + 1, prob: MAX_PROB / 5 - 1, ..base }, 20_000));
        assert!(picks(Vars { qdelay: low, ..base }, 20_000));
    }

    #[test]
    fn with_bytemode_a_small_packet_has_less_to_fear() {
        let rules = Rules::new(&Told { bytemode: true, ..told() });
        let mut rng = Streams::new(1).named("queue", 0);
        let base = Vars { prob: MAX_PROB / 4, ..waited(&rules, 30_000) };
        let mut added = |bytes| {
            let mut vars = base;
            rules.picks(&mut vars, bytes, 20_000, &mut rng);
            vars.accu_prob
        };
        assert_eq!(added(757), 757 * (MAX_PROB / 4 / 1514));
        assert_eq!(added(9000), MAX_PROB / 4, "a larger one has as much as there is");
    }

    #[test]
    fn the_departure_rate_is_an_average_in_bytes_per_tick() {
        let rules = Rules::new(&Told { estimator: Some(16_384), ..told() });
        let mut vars = rules.vars();
        // 1000 bytes each millisecond: the 17th of a measurement, which counts from the first on, ends it.
        for k in 0..17 {
            rules.after_departure(&mut vars, &departed(1000, 500, 30_000, 1_000_000 + k * 1000));
        }
        let ticks = 16_000_000 / 64;
        assert_eq!(vars.avg_dq_rate, (17_000 << 8) / ticks);
        assert_eq!(vars.departure_rate(), u64::from(vars.avg_dq_rate) * 15_625_000 / 256);
        assert_eq!(vars.burst_time, 2_343_750 - u64::from(ticks));
        rules.update(&mut vars, 30_000);
        assert_eq!(vars.qdelay, (30_000 << 8) / u64::from(vars.avg_dq_rate));
        let before = vars.avg_dq_rate;
        for k in 0..17 {
            rules.after_departure(&mut vars, &departed(1000, 500, 10_000, 1_018_000 + k * 2000));
        }
        let second = (17_000_u32 << 8) / (34_000_000 / 64);
        assert_eq!(vars.avg_dq_rate, before - before / 8 + second / 8);
        assert_eq!(vars.dq_count, None, "too little waits to begin another");
    }
}
