//! LEDBAT: a transport that yields. It opens the window while the queue that it finds is below a target, closes it
//! above, and so gives way to whatever fills the queue further.
//!
//! S. Shalunov, G. Hazel, J. Iyengar, M. Kühlewind, "Low Extra Delay Background Transport (LEDBAT)", RFC 6817, 2012,
//! section 2.4.2 (what the sender does) and 2.5 (parameters); for slow start, and delays there and back, P. Balasubramanian
//! et al., "LEDBAT++", draft-irtf-iccrg-ledbat-plus-plus. With each acknowledgement
//!
//! - `queueing delay = FILTER(current delays) - MIN(base delays)`, the filter a minimum,
//! - `off_target = (TARGET - queueing delay) / TARGET`,
//! - `cwnd += GAIN * off_target * acknowledged * MSS / cwnd`, at most `flightsize + ALLOWED_INCREASE * MSS`, and at least
//!   `MIN_CWND * MSS`;
//!
//! a loss halves the window (at least `MIN_CWND * MSS`), and after a time-out it is one segment. A base delay is the least
//! of a minute.
//!
//! With `delay = "one-way"` segments tell when they were sent (RFC 7323), and a delay is that from the sending of the
//! newest segment that is acknowledged to the moment at which its acknowledgement leaves: so it holds the wait of a
//! delayed acknowledgement, as it does in TCP, and the clocks of both ends agree, as those of hosts need not. With
//! `round-trip` a queue on the way back is taken for one on the way there. Without SACK one segment of a window is timed.
//!
//! Ours, where the source is silent: what is older than a round trip leaves the filter only when something newer has
//! come; the window does not open where the sender left part of it unused or a mark was echoed; a mark halves the window
//! as a loss does. RFC 6817 knows no slow start; with it, a queue of three quarters of the target ends it, as in LEDBAT++.

use std::collections::VecDeque;

use aqm_net::{ConfigError, Instant, Span, choices, parameters};

use super::slow_start::{MAX_WINDOW, SlowStart, SlowStartEnd};
use super::window::{SsthreshRounding, WindowRules};
use super::{AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, Window};

choices! {
    /// What is taken for the delay of the path.
    pub enum Delay {
        /// From the sending of a segment to that of its acknowledgement: the way there.
        OneWay = "one-way",
        /// From the sending of a segment to the arrival of its acknowledgement: there and back.
        RoundTrip = "round-trip",
    }
}

parameters! {
    /// LEDBAT: less than best effort, with a queue of `target` if it is alone, and way given to others.
    pub struct Config {
        /// The queueing delay that it aims at (TARGET). RFC 7928, section 5.4, says 5 ms.
        pub target: Span = Span::from_millis(100), "RFC 6817, 2.5: 100 ms or less";
        /// How fast the window moves (GAIN): segments a round trip where no queue is, and as many fewer at twice the
        /// target. RFC 6817 demands 1 or less, which is Reno's pace; RFC 7928, section 5.4, says 10, so more is allowed.
        pub gain: f64 = 1.0, "RFC 6817, 2.5: 1 or less";
        /// What is taken for the delay.
        pub delay: Delay = Delay::OneWay, "RFC 6817, 2.2; LEDBAT++: round-trip";
        /// Of how many minutes the least delays are kept (BASE_HISTORY), the least of which counts as that of an empty
        /// path.
        pub base_history: u32 = 10, "RFC 6817, 2.5";
        /// Of how many samples of the last round trip the least counts as the present delay (CURRENT_FILTER).
        pub current_filter: u32 = 4, "RFC 6817, 2.4.2: at least 4";
        /// By how many segments the window may exceed what is under way (ALLOWED_INCREASE).
        pub allowed_increase: f64 = 1.0, "RFC 6817, 2.5";
        /// The least window that delay and losses leave (MIN_CWND), in segments.
        pub min_cwnd: f64 = 2.0, "RFC 6817, 2.5";
        /// Whether a connection, and what follows a time-out, begins with slow start, which a queueing delay of three
        /// quarters of the target ends, or a loss.
        pub slow_start: bool = false, "RFC 6817 has none; LEDBAT++, 4.3";
        /// What a reduced window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 5681, equation (4)";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
        /// The window above which slow start is limited (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
    }
}

/// The share of the target at which a queue ends slow start.
const SLOW_START_ENDS: f64 = 0.75;

/// A base delay is the least of so long.
const MINUTE: u64 = 60_000_000_000;

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        let target = self.target;
        ConfigError::unless(
            !target.is_zero() && target <= Span::from_millis(100),
            "target",
            "must be above 0s, at most 100ms",
        )?;
        ConfigError::unless(self.gain > 0.0 && self.gain <= 100.0, "gain", "must be above 0, at most 100")?;
        let minutes = (1..=1000).contains(&self.base_history);
        ConfigError::unless(minutes, "base_history", "must be 1 to 1000 minutes")?;
        let samples = (1..=1000).contains(&self.current_filter);
        ConfigError::unless(samples, "current_filter", "must be 1 to 1000 samples")?;
        let increase = self.allowed_increase > 0.0 && self.allowed_increase <= MAX_WINDOW;
        ConfigError::unless(increase, "allowed_increase", "must be above 0, at most 1000000000 segments")?;
        let least = (1.0..=MAX_WINDOW).contains(&self.min_cwnd);
        ConfigError::unless(least, "min_cwnd", "must be 1 to 1000000000 segments")?;
        SlowStart::check(self.max_ssthresh)
    }

    fn window_rules(&self) -> WindowRules {
        WindowRules {
            rounding: self.ssthresh_rounding,
            slow_start_end: self.slow_start_end,
            max_ssthresh: self.max_ssthresh,
            ..WindowRules::default()
        }
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
            base: BaseDelays { minima: VecDeque::new(), most: self.base_history as usize, minute: None },
            current: CurrentDelays { samples: VecDeque::new(), most: self.current_filter as usize },
            acknowledged: 0,
            flight: 0.0,
        })
    }
}

/// The running congestion control.
struct Ledbat {
    /// In seconds.
    target: f64,
    gain: f64,
    delay: Delay,
    allowed_increase: f64,
    min_cwnd: f64,
    slow_start: bool,
    base: BaseDelays,
    current: CurrentDelays,
    /// `SND.UNA` after the newest acknowledgement.
    acknowledged: u64,
    /// What was under way before the newest acknowledgement (`flightsize`), in segments.
    flight: f64,
}

impl Ledbat {
    /// What the queue is off the target, as a share of it: 1 if there is none, negative if it is too long. Nothing if
    /// nothing is known of delays.
    fn off_target(&self) -> Option<f64> {
        let queueing = self.current.least()?.nanos().saturating_sub(self.base.least()?.nanos());
        Some(1.0 - Span::from_nanos(queueing).seconds() / self.target)
    }

    /// Keeps others from taking the window for one in slow start.
    fn stay_out_of_slow_start(window: &mut Window) {
        window.ssthresh = window.ssthresh.min(window.cwnd);
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        let off_target = self.off_target();
        if self.slow_start && window.in_slow_start() {
            if off_target.is_none_or(|off| off > 1.0 - SLOW_START_ENDS) {
                if ack.may_grow {
                    window.slow_start(ack.counted);
                }
                return;
            }
            Self::stay_out_of_slow_start(window);
        }
        let off_target = off_target.unwrap_or(0.0);
        if off_target < 0.0 || ack.may_grow {
            window.cwnd += self.gain * off_target * ack.counted / window.cwnd;
        }
        window.cwnd = window.cwnd.min(self.flight + self.allowed_increase).max(self.min_cwnd);
        Self::stay_out_of_slow_start(window);
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

/// The least delay of each of the last minutes, the newest last.
struct BaseDelays {
    minima: VecDeque<Span>,
    most: usize,
    /// The minute of the newest.
    minute: Option<u64>,
}

impl BaseDelays {
    fn add(&mut self, delay: Span, now: Instant) {
        let minute = Some(now.nanos() / MINUTE);
        match self.minima.back_mut() {
            Some(least) if minute == self.minute => *least = delay.min(*least),
            _ => {
                if self.minima.len() == self.most {
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

/// The newest delays and when they were seen, the newest last.
struct CurrentDelays {
    samples: VecDeque<(Instant, Span)>,
    most: usize,
}

impl CurrentDelays {
    fn add(&mut self, delay: Span, now: Instant, srtt: Option<Span>) {
        let is_old = |&(seen, _): &(Instant, Span)| srtt.is_some_and(|srtt| now.since(seen) > srtt);
        while self.samples.len() == self.most || self.samples.front().is_some_and(is_old) {
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

    /// A sender whose window is full, in segments of 1000 bytes, and whose delay is that of the path, 50 ms, and a queue.
    struct Bench {
        controller: Controller,
        una: u64,
        now: Instant,
    }

    impl Bench {
        fn new(config: &Config, cwnd: f64) -> Self {
            Self { controller: Controller::new(config, cwnd, 1e9), una: 0, now: Instant::START }
        }

        /// Tells of a delay, `millis` after the last one, at which so many segments were under way.
        fn sample(&mut self, millis: u64, queue: u64, flight: u64) {
            self.now += Span::from_millis(millis);
            let newest = self.now.earlier_by(Span::from_millis(70 + queue));
            self.una += MSS;
            self.controller.on_sample(&AckSample {
                now: self.now,
                newest: Some(newest),
                ack_sent_at: Some(newest + Span::from_millis(50 + queue)),
                srtt: Some(Span::from_millis(70)),
                snd_una: self.una,
                snd_nxt: self.una - MSS + flight * MSS,
                mss: MSS,
            });
        }

        /// A segment is acknowledged that has met a queue of `queue` ms; returns the window.
        fn ack(&mut self, queue: u64) -> f64 {
            let flight = self.controller.cwnd() as u64;
            self.sample(1, queue, flight);
            self.controller.on_ack(&ack(1.0));
            self.controller.cwnd()
        }

        /// As `ack`, of so many segments one after the other.
        fn acks(&mut self, segments: u64, queue: u64) {
            for _ in 0..segments {
                self.ack(queue);
            }
        }
    }

    fn near(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-12, "{seen}, expected {expected}");
    }

    /// A bench that has seen the empty path, and since then queues of `queue` ms in the whole filter.
    fn seen(config: &Config, cwnd: f64, queue: u64) -> Bench {
        let mut bench = Bench::new(config, cwnd);
        bench.sample(1, 0, 10);
        for _ in 0..config.current_filter {
            bench.sample(1, queue, 10);
        }
        bench
    }

    #[test]
    fn the_window_moves_by_what_the_queue_is_off_the_target() {
        let config = Config::default();
        for (queue, step) in [(0, 0.1), (25, 0.075), (100, 0.0), (150, -0.05), (300, -0.2)] {
            near(seen(&config, 10.0, queue).ack(queue), 10.0 + step);
        }
        // RFC 7928, section 5.4: 10 * (5 - 8) / 5 / 10 segments.
        let eager = Config { target: Span::from_millis(5), gain: 10.0, ..config };
        near(seen(&eager, 10.0, 8).ack(8), 9.4);
    }

    #[test]
    fn alone_it_adds_a_segment_a_round_trip_at_most_and_nothing_at_the_target() {
        let mut bench = Bench::new(&Config::default(), 10.0);
        bench.acks(10, 0);
        assert!(bench.controller.cwnd() > 10.9 && bench.controller.cwnd() <= 11.0);
        let before = bench.controller.cwnd();
        bench.acks(4, 100); // the least of four is the empty path's until then
        let full = bench.controller.cwnd();
        assert!(full > before);
        near(bench.ack(100), full);
    }

    #[test]
    fn the_least_of_the_newest_samples_counts_unless_they_are_older_than_a_round_trip() {
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
    fn the_least_delay_of_so_many_minutes_is_that_of_the_empty_path() {
        let config = Config { base_history: 2, current_filter: 1, ..Config::default() };
        let mut bench = Bench::new(&config, 10.0);
        bench.sample(1, 0, 10);
        // The path becomes longer by 40 ms: for the rest of this minute and all of the next that is a queue.
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
        // One that becomes shorter is noticed at once.
        bench.sample(1, 0, 10);
        bench.sample(1, 40, 10);
        let before = bench.controller.cwnd();
        bench.controller.on_ack(&ack(1.0));
        near(bench.controller.cwnd(), before + 0.6 / before);
    }

    #[test]
    fn the_window_exceeds_what_is_under_way_by_the_allowed_increase_at_most() {
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
    fn a_queue_takes_all_but_the_least_window() {
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
    fn a_loss_or_a_mark_halves_the_window_and_a_time_out_leaves_one_segment() {
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
    fn slow_start_if_it_is_on_ends_with_a_queue_of_three_quarters_of_the_target() {
        let mut bench = Bench::new(&Config { slow_start: true, ..Config::default() }, 4.0);
        assert_eq!([0, 74, 74, 74, 74].map(|queue| bench.ack(queue)), [5.0, 6.0, 7.0, 8.0, 9.0]);
        bench.acks(3, 76); // the filter
        let before = bench.controller.cwnd();
        near(bench.ack(76), before + 0.24 / before);
        assert!(!bench.controller.in_slow_start());
        let mut without = Bench::new(&Config::default(), 4.0);
        near(without.ack(0), 4.25);
    }

    #[test]
    fn a_queue_on_the_way_back_counts_only_where_round_trips_do() {
        let step = |delay| {
            let mut controller = Controller::new(&Config { delay, ..Config::default() }, 10.0, 1e9);
            for back in [0, 100, 100, 100, 100] {
                let now = Instant::from_nanos(1_000_000_000);
                let answered = now.earlier_by(Span::from_millis(20 + back));
                let newest = Some(answered.earlier_by(Span::from_millis(50)));
                let (ack_sent_at, srtt) = (Some(answered), None);
                let sample =
                    AckSample { now, newest, ack_sent_at, srtt, snd_una: 0, snd_nxt: 10 * MSS, mss: MSS };
                controller.on_sample(&sample);
            }
            controller.on_ack(&ack(1.0));
            controller.cwnd() - 10.0
        };
        near(step(Delay::OneWay), 0.1);
        near(step(Delay::RoundTrip), 0.0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let place = |config: Config| config.check().unwrap_err().place;
        for target in [Span::ZERO, Span::from_millis(101)] {
            assert_eq!(place(Config { target, ..Config::default() }), "target");
        }
        for gain in [0.0, -1.0, f64::NAN, 101.0] {
            assert_eq!(place(Config { gain, ..Config::default() }), "gain");
        }
        assert_eq!(place(Config { base_history: 0, ..Config::default() }), "base_history");
        assert_eq!(place(Config { current_filter: 0, ..Config::default() }), "current_filter");
        assert_eq!(place(Config { allowed_increase: 0.0, ..Config::default() }), "allowed_increase");
        assert_eq!(place(Config { min_cwnd: 0.5, ..Config::default() }), "min_cwnd");
        assert_eq!(place(Config { max_ssthresh: Some(0.0), ..Config::default() }), "max_ssthresh");
        let rfc7928 = Config { target: Span::from_millis(5), gain: 10.0, ..Config::default() };
        assert!(rfc7928.check().is_ok());
    }
}
