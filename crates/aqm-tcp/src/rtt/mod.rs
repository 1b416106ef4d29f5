//! How long to wait for an acknowledgement: round-trip estimate and retransmission time-out.
//!
//! V. Paxson, M. Allman, J. Chu, M. Sargent, "Computing TCP's Retransmission Timer", RFC 6298,
//! 2011; `ticks` is the integer arithmetic of V. Jacobson, "Congestion Avoidance and Control",
//! 1988, appendix A, as ns-2.35 runs it (`tcp.cc`: `rtt_update`, `rtt_timeout`, `rtt_backoff`);
//! `linux` is P. Sarolahti, A. Kuznetsov, "Congestion Control in Linux TCP", 2002, section 4.1, and
//! `tcp_rtt_estimator`; `wheel` is the timer wheel of Linux since 4.8 (`kernel/time/timer.c`).
//!
//! Ours, where the sources are silent: `exact` keeps nanoseconds as floating point numbers and
//! rounds only the time-out.
//!
//! The file is long because two fifths of it are tests.

use aqm_net::{Instant, Span};

use crate::config::rto::{MinRto, Rto, RtoArithmetic, TimerClock};

impl Rto {
    /// When a timer runs out that is set for `wait` at `now`.
    #[inline]
    pub fn expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.slot(now, wait.nanos().div_ceil(self.tick.nanos())),
        }
    }

    /// The same for a wait that must not be mistaken for nothing: 2 ms longer on the wheel (Linux:
    /// `TCP_TIMEOUT_MIN_US`).
    pub fn late_expiry(&self, now: Instant, wait: Span) -> Instant {
        match self.clock {
            TimerClock::Exact => now + wait,
            TimerClock::Wheel => self.expiry(now, wait + LEAST_WAIT),
        }
    }

    /// How often the clock has ticked.
    pub fn ticked(&self, now: Instant) -> u64 {
        (now.nanos() + self.tick_phase.nanos()) / self.tick.nanos()
    }

    /// The end of the slot of the wheel that a wait of that many ticks falls into (`timer.c`, `calc_index`).
    fn slot(&self, now: Instant, ticks: u64) -> Instant {
        let expires = self.ticked(now) + ticks;
        let level = (0..8).find(|level| ticks < 63 << (3 * level)).unwrap_or(8);
        let end = ((expires >> (3 * level)) + 1) << (3 * level);
        Instant::from_nanos(end * self.tick.nanos() - self.tick_phase.nanos())
    }
}

/// SRTT, RTTVAR and the time-out that follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimator {
    smoothed: Smoothed,
    /// The time-out before minimum, back-off and maximum.
    base: Span,
    backoff: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Smoothed {
    /// There was no sample; everything below `sent` has been sent.
    Nothing {
        sent: u64,
    },
    Exact {
        srtt: f64,
        rttvar: f64,
    },
    /// `srtt` in eighths, `rttvar` in quarters of a tick; an `srtt` of zero is no estimate.
    Ticks {
        srtt: i64,
        rttvar: i64,
    },
    Linux(Box<Linux>),
}

/// What Linux keeps: all but `srtt` are four times the deviation they stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Linux {
    srtt: f64,
    deviation: f64,
    /// Of this round trip the largest.
    largest: f64,
    rttvar: f64,
    /// This round trip is over when more than this is acknowledged.
    until: u64,
    /// What is acknowledged, and the end of what is sent.
    reach: (u64, u64),
    /// The least round trip.
    least: Span,
}

/// What a probe, or a late decision about a loss, waits at least (Linux: `TCP_TIMEOUT_MIN_US`).
pub(crate) const LEAST_WAIT: Span = Span::from_millis(2);

/// Back-off never needs more: the greatest time-out is reached long before.
const MAX_BACKOFF: u32 = 1 << 30;

impl Estimator {
    /// An estimator without a sample.
    pub fn new(config: &Rto) -> Self {
        Self { smoothed: Smoothed::Nothing { sent: 0 }, base: config.initial, backoff: 1 }
    }

    /// Everything below `acknowledged` is acknowledged, everything below `sent` has been sent: round trips are
    /// counted by it with `linux`.
    pub fn reach(&mut self, acknowledged: u64, sent: u64) {
        match &mut self.smoothed {
            Smoothed::Nothing { sent: newest } => *newest = sent,
            Smoothed::Linux(linux) => linux.reach = (acknowledged, sent),
            _ => {}
        }
    }

    /// A segment sent at `sent` and never retransmitted was acknowledged at `now`. Ends the
    /// back-off (RFC 6298, section 5, note after 5.7; Karn's algorithm).
    pub fn sample(&mut self, sent: Instant, now: Instant, config: &Rto) {
        self.backoff = 1;
        match config.arithmetic {
            RtoArithmetic::Exact => self.sample_exact(now.since(sent).nanos() as f64, config),
            RtoArithmetic::Ticks => self.sample_ticks(sent, now, config),
            RtoArithmetic::Linux => self.sample_linux(now.since(sent).nanos() as f64, config),
        }
    }

    /// The time-out passed without an acknowledgement (RFC 6298, 5.5).
    pub fn back_off(&mut self, config: &Rto) {
        if self.backoff < 64 || self.rto(config) < config.max {
            self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        }
        if let Smoothed::Ticks { srtt, rttvar } = &mut self.smoothed
            && self.backoff > 8
        {
            *rttvar += *srtt >> 3;
            *srtt = 0;
        }
    }

    /// Ends the back-off without a sample.
    pub fn end_back_off(&mut self) {
        self.backoff = 1;
    }

    /// Starts again from `base`, without back-off (RFC 6298, 5.7).
    pub fn restart_from(&mut self, base: Span) {
        self.base = self.base.max(base);
        self.backoff = 1;
    }

    /// Whether more time than the time-out, without its minimum and back-off, has passed since `then`.
    pub fn has_passed(&self, then: Instant, now: Instant, config: &Rto) -> bool {
        match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => now.since(then) > self.base,
            RtoArithmetic::Ticks => config.tick.saturating_mul(ticks(then, now, config)) > self.base,
        }
    }

    /// The time-out, backed off and within its limits.
    #[inline]
    pub fn rto(&self, config: &Rto) -> Span {
        let backoff = u64::from(self.backoff);
        let rto = match config.min_applies {
            _ if backoff == 1 => self.base.max(config.min),
            MinRto::BeforeBackOff => self.base.max(config.min).saturating_mul(backoff),
            MinRto::AfterBackOff => self.base.saturating_mul(backoff).max(config.min),
        };
        let rto = rto.min(config.max);
        match config.arithmetic {
            RtoArithmetic::Exact | RtoArithmetic::Linux => rto,
            RtoArithmetic::Ticks => rto.max(config.tick.saturating_mul(2)),
        }
    }

    /// The least round trip of all samples, that of the handshake too; only with `linux`.
    pub fn least(&self) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Linux(linux) => Some(linux.least),
            _ => None,
        }
    }

    /// By what the time-out is multiplied.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The smoothed round-trip time, if there is an estimate; with `ticks` in whole ticks.
    pub fn srtt(&self, config: &Rto) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Nothing { .. } | Smoothed::Ticks { srtt: 0, .. } => None,
            Smoothed::Exact { srtt, .. } => Some(nanos(*srtt)),
            Smoothed::Linux(linux) => Some(nanos(linux.srtt)),
            Smoothed::Ticks { srtt, .. } => Some(config.tick.saturating_mul(*srtt as u64 >> 3)),
        }
    }

    /// The round-trip time's variation, if there was a sample.
    pub fn rttvar(&self, config: &Rto) -> Option<Span> {
        match &self.smoothed {
            Smoothed::Nothing { .. } => None,
            Smoothed::Exact { rttvar, .. } => Some(nanos(*rttvar)),
            Smoothed::Linux(linux) => Some(nanos(linux.rttvar / 4.0)),
            Smoothed::Ticks { rttvar, .. } => {
                Some(Span::from_nanos(config.tick.saturating_mul(*rttvar as u64).nanos() / 4))
            }
        }
    }

    fn sample_exact(&mut self, rtt: f64, config: &Rto) {
        let (srtt, rttvar) = match self.smoothed {
            Smoothed::Exact { srtt, rttvar } => {
                let distance = (srtt - rtt).abs();
                // 2.3: RTTVAR first, with the old SRTT.
                let rttvar = rttvar + config.rttvar_gain * (distance - rttvar);
                (srtt + config.srtt_gain * (rtt - srtt), rttvar)
            }
            _ => (rtt, rtt / 2.0), // 2.2
        };
        self.smoothed = Smoothed::Exact { srtt, rttvar };
        self.base = nanos(srtt + (4.0 * rttvar).max(config.tick.nanos() as f64));
    }

    fn sample_linux(&mut self, rtt: f64, config: &Rto) {
        let floor = config.min.nanos() as f64;
        let begun = if let Smoothed::Nothing { sent } = self.smoothed { sent } else { 0 };
        let Smoothed::Linux(linux) = &mut self.smoothed else {
            let deviation = 2.0 * rtt;
            let largest = deviation.max(floor);
            let first = Linux {
                srtt: rtt,
                deviation,
                largest,
                rttvar: largest,
                until: begun,
                reach: (0, 0),
                least: nanos(rtt),
            };
            self.smoothed = Smoothed::Linux(Box::new(first));
            self.base = nanos(rtt + largest);
            return;
        };
        let (acknowledged, sent) = linux.reach;
        linux.least = linux.least.min(nanos(rtt));
        let error = rtt - linux.srtt;
        let mut change = error.abs() - linux.deviation / 4.0;
        if error < 0.0 && change > 0.0 {
            change /= 8.0;
        }
        linux.srtt += error / 8.0;
        linux.deviation += change;
        linux.largest = linux.largest.max(linux.deviation);
        linux.rttvar = linux.rttvar.max(linux.largest);
        if acknowledged > linux.until {
            linux.rttvar -= (linux.rttvar - linux.largest) / 4.0;
            linux.largest = floor;
            linux.until = sent;
        }
        self.base = nanos(linux.srtt + linux.rttvar.max(floor));
    }

    fn sample_ticks(&mut self, sent: Instant, now: Instant, config: &Rto) {
        let rtt = ticks(sent, now, config).max(1) as i64;
        let (srtt, rttvar) = match self.smoothed {
            Smoothed::Ticks { srtt, rttvar } if srtt != 0 => {
                let error = rtt - (srtt >> 3);
                let rttvar = rttvar + error.abs() - (rttvar >> 2);
                ((srtt + error).max(1), rttvar.max(1))
            }
            _ => (rtt << 3, rtt << 1),
        };
        self.smoothed = Smoothed::Ticks { srtt, rttvar };
        self.base = config.tick.saturating_mul(((rttvar << 3) + srtt) as u64 >> 3);
    }
}

/// How often a clock ticks between two moments.
fn ticks(from: Instant, to: Instant, config: &Rto) -> u64 {
    let tick = config.tick.nanos();
    let past_tick = (from.nanos() + config.tick_phase.nanos()) % tick;
    (to.since(from).nanos() + past_tick) / tick
}

fn nanos(value: f64) -> Span {
    Span::from_nanos((value + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(config: &Rto, samples: &[u64]) -> Vec<(f64, f64)> {
        let mut estimator = Estimator::new(config);
        let millis = |span: Option<Span>| span.unwrap().nanos() as f64 / 1e6;
        let step = |&rtt: &u64| {
            estimator.sample(Instant::START, Instant::START + Span::from_millis(rtt), config);
            (millis(estimator.srtt(config)), millis(estimator.rttvar(config)))
        };
        samples.iter().map(step).collect()
    }

    #[test]
    fn the_time_out_of_linux_is_never_below_srtt_and_the_least() {
        let config = Rto { arithmetic: RtoArithmetic::Linux, min: Span::from_millis(200), ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        let mut now = Instant::START;
        let mut rounds = 0;
        let mut rto_after = |rtt: u64, times: usize| {
            for _ in 0..times {
                let sent = now;
                now += Span::from_millis(rtt);
                rounds += 1;
                estimator.reach(rounds, rounds);
                estimator.sample(sent, now, &config);
            }
            (estimator.rto(&config).nanos() + 500_000) / 1_000_000
        };
        assert_eq!(rto_after(100, 1), 300, "first sample: SRTT and four times its half");
        assert_eq!(rto_after(100, 200), 300);
        assert_eq!(
            rto_after(400, 1),
            438,
            "SRTT rises by an eighth of 300 ms, the variation's term to 300 ms"
        );
        assert_eq!(rto_after(400, 200), 600);
        assert_eq!(rto_after(100, 1), 563, "a much shorter round trip moves SRTT only");
    }

    #[test]
    fn published_samples_give_published_estimates() {
        assert_eq!(
            after(&Rto::default(), &[1000, 1200, 900]),
            [(1000., 500.), (1025., 425.), (1009.375, 350.)]
        );
        let gains = |gain| Rto { srtt_gain: gain, rttvar_gain: gain, ..Rto::default() };
        assert_eq!(after(&gains(0.1), &[1200, 950, 1400]), [(1200., 600.), (1175., 565.), (1197.5, 531.)]);
        assert_eq!(after(&gains(0.0), &[1000, 2000, 3000]), [(1000., 500.); 3]);
        assert_eq!(after(&gains(1.0), &[1000, 2500, 7000]), [(1000., 500.), (2500., 1500.), (7000., 4500.)]);
    }

    #[test]
    fn before_any_sample_the_time_out_is_the_initial_one() {
        let estimator = Estimator::new(&Rto::default());
        assert_eq!(estimator.rto(&Rto::default()), Span::from_millis(1000));
        assert_eq!((estimator.srtt(&Rto::default()), estimator.rttvar(&Rto::default())), (None, None));
    }

    #[test]
    fn the_time_out_is_srtt_and_four_variations_within_its_limits() {
        let wide = Rto { min: Span::from_millis(1), ..Rto::default() };
        let mut estimator = Estimator::new(&wide);
        estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &wide);
        assert_eq!(estimator.rto(&wide), Span::from_millis(300));
        assert_eq!(estimator.rto(&Rto::default()), Span::from_millis(1000));
        let coarse = Rto { tick: Span::from_millis(500), ..wide };
        estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &coarse);
        assert_eq!(estimator.rto(&coarse), Span::from_millis(600), "4 RTTVAR counts as no less than a tick");
    }

    #[test]
    fn the_back_off_doubles_until_the_maximum_and_ends_with_a_sample() {
        for arithmetic in [RtoArithmetic::Exact, RtoArithmetic::Ticks] {
            let config = Rto { arithmetic, tick: Span::from_millis(10), ..Rto::default() };
            let mut estimator = Estimator::new(&config);
            let mut seconds = Vec::new();
            for _ in 0..60 {
                seconds.push(estimator.rto(&config).nanos() / 1_000_000_000);
                estimator.back_off(&config);
            }
            assert_eq!(seconds[..9], [1, 2, 4, 8, 16, 32, 60, 60, 60]);
            assert_eq!(seconds[59], 60);
            estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &config);
            assert_eq!((estimator.backoff(), estimator.rto(&config)), (1, Span::from_millis(1000)));
        }
    }

    #[test]
    fn the_least_time_out_is_backed_off_or_bounds_the_backed_off_one() {
        let seconds = |min_applies| {
            let config = Rto { min_applies, ..Rto::default() };
            let mut estimator = Estimator::new(&config);
            estimator.sample(Instant::START, Instant::START + Span::from_millis(100), &config);
            [(); 4].map(|()| {
                let rto = estimator.rto(&config);
                estimator.back_off(&config);
                rto.nanos() as f64 / 1e9
            })
        };
        assert_eq!(seconds(MinRto::BeforeBackOff), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(seconds(MinRto::AfterBackOff), [1.0, 1.0, 1.2, 2.4], "0.3 s, doubled three times");
    }

    #[test]
    fn a_timer_on_the_wheel_runs_out_on_a_tick_later_the_coarser_the_longer_it_waits() {
        let millis = Span::from_millis;
        let at = |clock, phase, now, wait| {
            let config = Rto { clock, tick: millis(10), tick_phase: millis(phase), ..Rto::default() };
            config.expiry(Instant::START + millis(now), millis(wait)).nanos() / 1_000_000
        };
        let wheel = |now, wait| at(TimerClock::Wheel, 0, now, wait);
        assert_eq!(at(TimerClock::Exact, 0, 13, 41), 54);
        assert_eq!([wheel(0, 40), wheel(9, 40), wheel(9, 41), wheel(10, 40)], [50, 50, 60, 60]);
        assert_eq!(
            [wheel(0, 620), wheel(0, 630), wheel(0, 640)],
            [630, 640, 720],
            "each 8th tick from 63 on"
        );
        assert_eq!([wheel(0, 5030), wheel(0, 5040)], [5040, 5120], "each 64th from 504 on");
        assert_eq!(at(TimerClock::Wheel, 75, 0, 40), 45, "the tick at 120 ms after 75");
    }

    #[test]
    fn in_linux_a_round_trip_is_over_when_what_was_sent_in_it_is_acknowledged() {
        let config = Rto { arithmetic: RtoArithmetic::Linux, min: Span::from_millis(200), ..Rto::default() };
        let rto = |acknowledged: u64| {
            let mut estimator = Estimator::new(&config);
            for rtt in [400, 400, 400] {
                estimator.reach(acknowledged, 10);
                estimator.sample(Instant::START, Instant::START + Span::from_millis(rtt), &config);
            }
            estimator.rto(&config).nanos() / 1_000_000
        };
        assert_eq!(rto(10), 1200, "the first variation lasts");
        assert!(rto(11) < 1200);
    }

    #[test]
    fn ticks_count_from_the_phase_of_the_clock() {
        let with = |phase| Rto {
            arithmetic: RtoArithmetic::Ticks,
            tick: Span::from_millis(10),
            tick_phase: Span::from_millis(phase),
            min: Span::from_millis(200),
            ..Rto::default()
        };
        let srtt = |config: Rto| {
            let mut estimator = Estimator::new(&config);
            estimator.sample(Instant::START, Instant::from_nanos(44_768_000), &config);
            estimator.srtt(&config).unwrap()
        };
        assert_eq!(srtt(with(5)), Span::from_millis(40));
        assert_eq!(srtt(with(6)), Span::from_millis(50));
    }

    #[test]
    fn in_ticks_a_long_back_off_forgets_the_estimate() {
        let config = Rto { arithmetic: RtoArithmetic::Ticks, tick: Span::from_millis(10), ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        estimator.sample(Instant::START, Instant::START + Span::from_millis(300), &config);
        for _ in 0..3 {
            estimator.back_off(&config);
            assert_eq!(estimator.srtt(&config), Some(Span::from_millis(300)));
        }
        estimator.back_off(&config);
        assert_eq!(estimator.srtt(&config), None);
        estimator.sample(Instant::START, Instant::START + Span::from_millis(50), &config);
        assert_eq!(estimator.srtt(&config), Some(Span::from_millis(50)));
    }

    #[test]
    fn in_ticks_nothing_is_shorter_than_a_tick_and_no_time_out_than_two() {
        let millis = Span::from_millis;
        let config =
            Rto { arithmetic: RtoArithmetic::Ticks, tick: millis(10), min: millis(1), ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        estimator.sample(Instant::START, Instant::START + millis(1), &config);
        assert_eq!(estimator.srtt(&config), Some(millis(10)));
        let short = Rto { initial: millis(1), ..config };
        assert_eq!(Estimator::new(&short).rto(&short), millis(20));
    }

    #[test]
    fn the_back_off_itself_goes_to_64_even_beyond_the_maximum() {
        let config = Rto { max: Span::from_millis(2000), ..Rto::default() };
        let mut estimator = Estimator::new(&config);
        (0..20).for_each(|_| estimator.back_off(&config));
        assert_eq!((estimator.backoff(), estimator.rto(&config)), (64, config.max));
    }
}
