//! LEDBAT: a congestion control that yields to other traffic. LEDBAT opens the window while the measured queueing delay
//! is below a target, and reduces the window while the delay is above the target.
//!
//! S. Shalunov, G. Hazel, J. Iyengar, M. Kühlewind, "Low Extra Delay Background Transport (LEDBAT)", RFC 6817, 2012,
//! sections 2.4.2 (the sender) and 2.5 (parameters); for slow start and round-trip delays, P. Balasubramanian et al.,
//! "LEDBAT++", draft-irtf-iccrg-ledbat-plus-plus. With each acknowledgement:
//!
//! - `queueing delay = FILTER(current delays) - MIN(base delays)`, with a minimum as the filter,
//! - `off_target = (TARGET - queueing delay) / TARGET`,
//! - `cwnd += GAIN * off_target * acknowledged * MSS / cwnd`, at most `flightsize + ALLOWED_INCREASE * MSS`, and at
//!   least `MIN_CWND * MSS`;
//!
//! A loss halves the window, but to at least `MIN_CWND * MSS`, and a timeout sets the window to one segment. A base
//! delay is the minimum delay in one minute.
//!
//! With `delay = "one-way"`, segments carry their departure times (RFC 7323). In this case, a delay sample is the time
//! from the departure of the newest acknowledged segment to the departure of its acknowledgement. The sample therefore
//! includes the delay of a delayed acknowledgement, as in TCP. In contrast to real hosts, the clocks of both endpoints
//! agree. With `round-trip`, a queue on the return path has the same effect as a queue on the forward path. Without
//! SACK, one segment per window is measured.
//!
//! aqmlab's choices where the source does not specify the behaviour: A sample that is older than a round trip leaves
//! the filter only when a newer sample arrives. The window does not open if the sender left part of the window unused
//! or if a mark was echoed. A mark halves the window in the same way as a loss. RFC 6817 has no slow start. If the
//! parameter `slow_start` is set, slow start ends at a queueing delay of three quarters of the target, as in LEDBAT++.

use std::collections::VecDeque;

use aqm_net::{ConfigError, Instant, Span, choices, parameters};

use super::slow_start::MAX_WINDOW;
use super::window::WindowRules;
use super::{AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, Window};

choices! {
    /// How the path's delay is measured.
    pub enum Delay {
        /// As the time from the departure of a segment to the departure of its acknowledgement, which is the delay of
        /// the forward path.
        OneWay = "one-way",
        /// As the time from the departure of a segment to the arrival of its acknowledgement, which is the delay of
        /// both directions.
        RoundTrip = "round-trip",
    }
}

parameters! {
    /// LEDBAT: a less-than-best-effort service, which maintains a queueing delay of `target` when it is alone on the
    /// link, and yields to other traffic.
    pub struct Config {
        /// Target for the queueing delay (TARGET). RFC 7928, section 5.4, uses 5 ms.
        pub target: Span = Span::from_millis(100), "RFC 6817, 2.5: 100 ms or less";
        /// Speed at which the window changes (GAIN): its growth in segments per round trip if there is no queue, which
        /// is also its decrease if the queueing delay is twice the target. RFC 6817 requires 1 or less, and 1 is Reno's
        /// speed. Larger values are also valid, because RFC 7928, section 5.4, uses 10.
        pub gain: f64 = 1.0, "RFC 6817, 2.5: 1 or less";
        /// How the path's delay is measured.
        pub delay: Delay = Delay::OneWay, "RFC 6817, 2.2; LEDBAT++: round-trip";
        /// Number of minutes for which minimum delays are kept (BASE_HISTORY). The smallest of these delays is used as
        /// the delay of the path without queueing.
        pub base_history: u32 = 10, "RFC 6817, 2.5";
        /// Number of samples from the last round trip whose minimum is used as the current delay (CURRENT_FILTER).
        pub current_filter: u32 = 4, "RFC 6817, 2.4.2: at least 4";
        /// Number of segments by which the window may exceed the data in flight (ALLOWED_INCREASE).
        pub allowed_increase: f64 = 1.0, "RFC 6817, 2.5";
        /// Minimum window after reductions because of delay or losses (MIN_CWND), in segments.
        pub min_cwnd: f64 = 2.0, "RFC 6817, 2.5";
        /// Whether slow start is used at the beginning of a connection and after a timeout. Slow start ends at a
        /// queueing delay of three quarters of the target, or at a loss.
        pub slow_start: bool = false, "RFC 6817 has no slow start; LEDBAT++, 4.3";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
    }
}

/// Fraction of the target at which the queueing delay ends slow start.
const SLOW_START_END: f64 = 0.75;

/// Period over which a base delay is the minimum, in nanoseconds.
const MINUTE: u64 = 60_000_000_000;

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        let target = self.target;
        ConfigError::unless(
            !target.is_zero() && target <= Span::from_millis(100),
            "target",
            "must be above 0s and at most 100ms",
        )?;
        ConfigError::unless(
            self.gain > 0.0 && self.gain <= 100.0,
            "gain",
            "must be above 0 and at most 100",
        )?;
        let minutes = (1..=1000).contains(&self.base_history);
        ConfigError::unless(minutes, "base_history", "must be from 1 to 1000 minutes")?;
        let samples = (1..=1000).contains(&self.current_filter);
        ConfigError::unless(samples, "current_filter", "must be from 1 to 1000 samples")?;
        let increase = self.allowed_increase > 0.0 && self.allowed_increase <= MAX_WINDOW;
        ConfigError::unless(increase, "allowed_increase", "must be above 0 and at most 1000000000 segments")?;
        let least = (1.0..=MAX_WINDOW).contains(&self.min_cwnd);
        ConfigError::unless(least, "min_cwnd", "must be from 1 to 1000000000 segments")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn has_timestamps(&self) -> bool {
        self.delay == Delay::OneWay
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Ledbat {
            target: self.target.seconds(),
            gain: self.gain,
            delay: self.delay,
            allowed_increase: self.allowed_increase,
            min_cwnd: self.min_cwnd,
            slow_start: self.slow_start,
            base: BaseDelays { minima: VecDeque::new(), max_len: self.base_history as usize, minute: None },
            current: CurrentDelays { samples: VecDeque::new(), max_len: self.current_filter as usize },
            acknowledged: 0,
            flight: 0.0,
        })
    }
}

/// The congestion control of one sender.
struct Ledbat {
    /// Target for the queueing delay, in seconds.
    target: f64,
    gain: f64,
    delay: Delay,
    allowed_increase: f64,
    min_cwnd: f64,
    slow_start: bool,
    base: BaseDelays,
    current: CurrentDelays,
    /// `SND.UNA` after the most recent acknowledgement.
    acknowledged: u64,
    /// Data in flight before the most recent acknowledgement (`flightsize`), in segments.
    flight: f64,
}

impl Ledbat {
    /// Returns the difference between the target and the queueing delay, as a fraction of the target. The result is 1
    /// if there is no queue, and is negative if the delay is above the target. Returns `None` before the first delay
    /// sample.
    fn off_target(&self) -> Option<f64> {
        let queueing = self.current.least()?.nanos().saturating_sub(self.base.least()?.nanos());
        Some(1.0 - Span::from_nanos(queueing).seconds() / self.target)
    }

    /// Lowers `ssthresh` to the window, so that other modules no longer consider the window to be in slow start.
    fn leave_slow_start(window: &mut Window) {
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        let off_target = self.off_target();
        if self.slow_start && window.in_slow_start() {
            if off_target.is_none_or(|off| off > 1.0 - SLOW_START_END) {
                if ack.may_grow {
                    window.slow_start(ack.counted);
                }
                return;
            }
            Self::leave_slow_start(window);
        }
        let off_target = off_target.unwrap_or(0.0);
        if off_target < 0.0 || ack.may_grow {
            window.cwnd += self.gain * off_target * ack.counted / window.cwnd;
        }
        window.cwnd = window.cwnd.min(self.flight + self.allowed_increase).max(self.min_cwnd);
        Self::leave_slow_start(window);
    }

    fn reduce(&mut self, window: &mut Window, _congestion: &Congestion) {
        let left = (window.cwnd / 2.0).max(self.min_cwnd).min(window.cwnd);
        window.reduce_above(1.0, left);
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, _window: &mut Window, sample: &AckSample) {
        self.flight = sample.snd_nxt.saturating_sub(self.acknowledged) as f64 / sample.mss as f64;
        self.acknowledged = sample.snd_una;
        let end = match self.delay {
            Delay::OneWay => sample.ack_sent_at,
            Delay::RoundTrip => Some(sample.now),
        };
        if let (Some(sent), Some(end)) = (sample.newest, end) {
            let delay = end.since(sent);
            self.base.add(delay, sample.now);
            self.current.add(delay, sample.now, sample.srtt);
        }
    }
}

/// Minimum delay in each of the last minutes, with the newest minute last.
struct BaseDelays {
    minima: VecDeque<Span>,
    max_len: usize,
    /// Number of the minute to which the newest delay belongs.
    minute: Option<u64>,
}

impl BaseDelays {
    fn add(&mut self, delay: Span, now: Instant) {
        let minute = Some(now.nanos() / MINUTE);
        match self.minima.back_mut() {
            Some(least) if minute == self.minute => *least = delay.min(*least),
            _ => {
                if self.minima.len() == self.max_len {
                    self.minima.pop_front();
                }
                self.minima.push_back(delay);
                self.minute = minute;
            }
        }
    }

    fn least(&self) -> Option<Span> {
        self.minima.iter().min().copied()
    }
}

/// The newest delays and their times, with the newest delay last.
struct CurrentDelays {
    samples: VecDeque<(Instant, Span)>,
    max_len: usize,
}

impl CurrentDelays {
    fn add(&mut self, delay: Span, now: Instant, srtt: Option<Span>) {
        let is_old = |&(seen, _): &(Instant, Span)| srtt.is_some_and(|srtt| now.since(seen) > srtt);
        while self.samples.len() == self.max_len || self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, delay));
    }

    fn least(&self) -> Option<Span> {
        self.samples.iter().map(|&(_, delay)| delay).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::Controller;
    use crate::testing::{ack, loss, mark, timeout};

    const MSS: u64 = 1000;

    /// A sender that uses its full window, with segments of 1000 bytes. The delay of a segment is the path delay of 50
    /// ms plus a queueing delay.
    struct Bench {
        controller: Controller,
        una: u64,
        now: Instant,
    }

    impl Bench {
        fn new(config: &Config, cwnd: f64) -> Self {
            Self { controller: Controller::new(config, cwnd, 1e9), una: 0, now: Instant::START }
        }

        /// Reports a delay sample `millis` milliseconds after the previous sample, when `flight` segments are in
        /// flight.
        fn sample(&mut self, millis: u64, queue: u64, flight: u64) {
            self.now += Span::from_millis(millis);
            let newest = self.now.earlier_by(Span::from_millis(70 + queue));
            self.una += MSS;
            self.controller.on_sample(&AckSample {
                now: self.now,
                newest: Some(newest),
                ack_sent_at: Some(newest + Span::from_millis(50 + queue)),
                srtt: Some(Span::from_millis(70)),
                delivered: 0,
                marked: 0,
                snd_una: self.una,
                snd_nxt: self.una - MSS + flight * MSS,
                mss: MSS,
            });
        }

        /// Acknowledges a segment with a queueing delay of `queue` ms. Returns the window.
        fn ack(&mut self, queue: u64) -> f64 {
            let flight = self.controller.cwnd() as u64;
            self.sample(1, queue, flight);
            self.controller.on_ack(&ack(1.0));
            self.controller.cwnd()
        }

        /// Calls `ack` for `segments` consecutive segments.
        fn acks(&mut self, segments: u64, queue: u64) {
            for _ in 0..segments {
                self.ack(queue);
            }
        }
    }

    fn near(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-12, "{seen}, expected {expected}");
    }

    /// Returns a bench that has measured the path without a queue, and has then filled the filter with queueing delays
    /// of `queue` ms.
    fn seen(config: &Config, cwnd: f64, queue: u64) -> Bench {
        let mut bench = Bench::new(config, cwnd);
        bench.sample(1, 0, 10);
        for _ in 0..config.current_filter {
            bench.sample(1, queue, 10);
        }
        bench
    }

    #[test]
    fn the_window_changes_in_proportion_to_the_distance_from_the_target() {
        let config = Config::default();
        for (queue, step) in [(0, 0.1), (25, 0.075), (100, 0.0), (150, -0.05), (300, -0.2)] {
            near(seen(&config, 10.0, queue).ack(queue), 10.0 + step);
        }
        // RFC 7928, section 5.4: the change is 10 * (5 - 8) / 5 / 10 segments.
        let eager = Config { target: Span::from_millis(5), gain: 10.0, ..config };
        near(seen(&eager, 10.0, 8).ack(8), 9.4);
    }

    #[test]
    fn without_a_queue_it_adds_a_segment_per_round_trip_and_nothing_at_the_target() {
        let mut bench = Bench::new(&Config::default(), 10.0);
        bench.acks(10, 0);
        assert!(bench.controller.cwnd() > 10.9 && bench.controller.cwnd() <= 11.0);
        let before = bench.controller.cwnd();
        bench.acks(4, 100); // until then, the least of four samples is that of the empty path
        let full = bench.controller.cwnd();
        assert!(full > before);
        near(bench.ack(100), full);
    }

    #[test]
    fn the_minimum_of_the_newest_samples_counts_unless_older_than_a_round_trip() {
        let mut bench = seen(&Config::default(), 10.0, 200);
        near(bench.ack(50), 10.05);
        let after = bench.controller.cwnd();
        near(bench.ack(200), after + 0.5 / after);
        bench.sample(71, 200, 10);
        let before = bench.controller.cwnd();
        bench.controller.on_ack(&ack(1.0));
        near(bench.controller.cwnd(), before - 1.0 / before);
    }

    #[test]
    fn the_minimum_delay_of_the_history_is_the_base_delay() {
        let config = Config { base_history: 2, current_filter: 1, ..Config::default() };
        let mut bench = Bench::new(&config, 10.0);
        bench.sample(1, 0, 10);
        // The path delay increases by 40 ms. For the rest of this minute and the whole next minute, the increase is
        // mistaken for a queueing delay.
        for (millis, queue) in [(59_000, 40), (60_000, 40)] {
            bench.sample(millis, 40, 10);
            let before = bench.controller.cwnd();
            bench.controller.on_ack(&ack(1.0));
            near(bench.controller.cwnd(), before + (100.0 - queue as f64) / 100.0 / before);
        }
        bench.sample(60_000, 40, 10);
        let before = bench.controller.cwnd();
        bench.controller.on_ack(&ack(1.0));
        near(bench.controller.cwnd(), before + 1.0 / before);
        // A decrease in the path delay takes effect immediately.
        bench.sample(1, 0, 10);
        bench.sample(1, 40, 10);
        let before = bench.controller.cwnd();
        bench.controller.on_ack(&ack(1.0));
        near(bench.controller.cwnd(), before + 0.6 / before);
    }

    #[test]
    fn the_window_exceeds_the_data_in_flight_by_at_most_the_allowed_increase() {
        let mut bench = Bench::new(&Config::default(), 10.0);
        bench.sample(1, 0, 5);
        bench.controller.on_ack(&ack(1.0));
        assert_eq!(bench.controller.cwnd(), 6.0);
        let more = Config { allowed_increase: 3.0, ..Config::default() };
        let mut bench = Bench::new(&more, 10.0);
        bench.sample(1, 0, 5);
        bench.controller.on_ack(&ack(1.0));
        assert_eq!(bench.controller.cwnd(), 8.0);
    }

    #[test]
    fn a_long_queue_leaves_the_minimum_window() {
        let mut bench = seen(&Config::default(), 3.0, 1000);
        bench.acks(20, 1000);
        assert_eq!(bench.controller.cwnd(), 2.0);
    }

    #[test]
    fn an_unused_window_does_not_open_but_a_queue_closes_it() {
        for (queue, expected) in [(0, 10.0), (200, 9.9)] {
            let mut bench = seen(&Config::default(), 10.0, queue);
            bench.controller.on_ack(&AckInfo { may_grow: false, ..ack(1.0) });
            near(bench.controller.cwnd(), expected);
        }
    }

    #[test]
    fn a_loss_or_a_mark_halves_the_window_and_a_timeout_leaves_one_segment() {
        let mut bench = Bench::new(&Config::default(), 20.0);
        bench.controller.on_congestion(&loss(20.0));
        assert_eq!(bench.controller.cwnd(), 10.0);
        bench.controller.on_congestion(&mark(10.0));
        assert_eq!(bench.controller.cwnd(), 5.0);
        bench.controller.on_congestion(&loss(5.0));
        bench.controller.on_congestion(&loss(2.5));
        assert_eq!(bench.controller.cwnd(), 2.0);
        bench.controller.on_congestion(&timeout(2.0));
        assert_eq!(bench.controller.cwnd(), 1.0);
        bench.controller.on_congestion(&loss(1.0));
        assert_eq!(bench.controller.cwnd(), 1.0, "a loss does not open the window");
        assert_eq!(bench.ack(0), 2.0);
        assert!(!bench.controller.in_slow_start());
    }

    #[test]
    fn slow_start_ends_at_a_queue_of_three_quarters_of_the_target() {
        let mut bench = Bench::new(&Config { slow_start: true, ..Config::default() }, 4.0);
        assert_eq!([0, 74, 74, 74, 74].map(|queue| bench.ack(queue)), [5.0, 6.0, 7.0, 8.0, 9.0]);
        bench.acks(3, 76); // fills the filter
        let before = bench.controller.cwnd();
        near(bench.ack(76), before + 0.24 / before);
        assert!(!bench.controller.in_slow_start());
        let mut without = Bench::new(&Config::default(), 4.0);
        near(without.ack(0), 4.25);
    }

    #[test]
    fn a_queue_on_the_return_path_counts_only_with_round_trip() {
        let step = |delay| {
            let mut controller = Controller::new(&Config { delay, ..Config::default() }, 10.0, 1e9);
            for back in [0, 100, 100, 100, 100] {
                let now = Instant::from_nanos(1_000_000_000);
                let answered = now.earlier_by(Span::from_millis(20 + back));
                let newest = Some(answered.earlier_by(Span::from_millis(50)));
                let (ack_sent_at, srtt) = (Some(answered), None);
                let sample = AckSample {
                    now,
                    newest,
                    ack_sent_at,
                    srtt,
                    delivered: 0,
                    marked: 0,
                    snd_una: 0,
                    snd_nxt: 10 * MSS,
                    mss: MSS,
                };
                controller.on_sample(&sample);
            }
            controller.on_ack(&ack(1.0));
            controller.cwnd() - 10.0
        };
        near(step(Delay::OneWay), 0.1);
        near(step(Delay::RoundTrip), 0.0);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        for target in [Span::ZERO, Span::from_millis(101)] {
            assert_eq!(path(Config { target, ..Config::default() }), "target");
        }
        for gain in [0.0, -1.0, f64::NAN, 101.0] {
            assert_eq!(path(Config { gain, ..Config::default() }), "gain");
        }
        assert_eq!(path(Config { base_history: 0, ..Config::default() }), "base_history");
        assert_eq!(path(Config { current_filter: 0, ..Config::default() }), "current_filter");
        assert_eq!(path(Config { allowed_increase: 0.0, ..Config::default() }), "allowed_increase");
        assert_eq!(path(Config { min_cwnd: 0.5, ..Config::default() }), "min_cwnd");
        let window = WindowRules { max_ssthresh: Some(0.0), ..WindowRules::default() };
        assert_eq!(path(Config { window, ..Config::default() }), "max_ssthresh");
        let rfc7928 = Config { target: Span::from_millis(5), gain: 10.0, ..Config::default() };
        assert!(rfc7928.check().is_ok());
    }
}
