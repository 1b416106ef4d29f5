//! TCP Prague: DCTCP's response to marks, adapted to the Internet: the sender paces its segments, the window has a
//! fractional part, and the rate depends less on the round-trip time.
//!
//! K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, "Prague Congestion Control",
//! draft-briscoe-iccrg-prague-congestion-control-04, 2024; L4STeam/linux: `tcp_prague.c` (02573a21), whose rules this
//! file follows. RFC 9331, 2023, section 4.3 (requirements for L4S senders).
//!
//! Assume that marks are random with probability p and that the window is reduced in every round trip. With a
//! round-trip time of at least 25 ms, the window would then be 2(1 - p)/p segments. Below 25 ms, with RTT independence,
//! the rate would be that of a flow with a round-trip time of 25 ms. As with DCTCP, the mean number of round trips
//! between reductions exceeds one, so that the window is larger, at most (1 + √3)(1 - p)/p segments.
//!
//! Versions of `tcp_prague.c` differ in the minimum of the window and in the pacing rate (`profile`). In all versions,
//! the sender enters CWR for a round trip after a mark. If RTT independence is in effect and less than `target_rtt` has
//! passed since the last reduction, the sender enters CWR without a reduction.
//!
//! aqmlab's choices: Rounds are counted by delivered data. Real numbers are used, whereas Linux's numbers have 20
//! fractional bits. Slow start opens the fractional window, as in later versions (L4STeam/tcp-prague, 90aea47f). In
//! 02573a21, slow start leaves the fractional window unchanged, so that a flow that receives no marks keeps the pacing
//! rate of the initial window. The recorded flows behind FQ-CoDel do not show this behaviour.

use aqm_net::{ConfigError, Instant, Span, choices, parameters};

use super::dctcp::MarkedShare;
use super::window::Window;
use super::{
    AckInfo, AnyControl, Build, Congestion, CongestionControl, CongestionSignal, ControlReport, RateSample,
    RecoveryPhase, WindowEvent,
};
use crate::arithmetic::{Limited, ceil, real};
use crate::config::ecn::{Codepoint, EcnNeeds, Feedback};

/// Minimum of the whole window after a reduction, in segments (`MIN_CWND`).
const MIN_WINDOW: f64 = 2.0;
/// Resolution of the fractional window, in segments (`CWND_UNIT`), which is also the minimum of this window.
const RESOLUTION: f64 = 1.0 / (1 << 20) as f64;
/// Maximum smoothed round-trip time at which RTT independence has an effect (`RTT_INDEP` is off above 100 ms).
const MAX_INDEPENDENT: Span = Span::from_millis(100);
/// Score of the classic-queue detector above which the sender falls back, and maximum score.
const CLASSIC_SCORE: f64 = 8.0;
const MAX_SCORE: f64 = 17.0;
/// Round-trip time variation and queue depth at which the score stays constant, in microseconds.
const NEUTRAL_VARIATION_US: f64 = 750.0;
const NEUTRAL_DEPTH_US: f64 = 2000.0;
/// Minimum weight of a new sample in the average round-trip time (`PRAGUE_MAX_SRTT_BITS`).
const MIN_WEIGHT: f64 = 1.0 / (1 << 18) as f64;
/// Minimum of `alpha` in a reduction, for each point by which the score exceeds `CLASSIC_SCORE`.
const CLASSIC_SHARE: f64 = 0.625;

choices! {
    /// Version of `tcp_prague.c`.
    pub enum Profile {
        /// L4STeam/linux, 02573a21: the fractional window has no minimum and determines the pacing rate, so that a
        /// sender can send less than one segment per round trip.
        Draft = "draft",
        /// Kernels of 2020 (Linux 5.4): the window is at least two segments. The whole window determines the growth, the
        /// reduction after a mark and, unless the data in flight is larger, the pacing rate.
        Linux2020 = "linux-2020",
    }
}

choices! {
    /// Detection of a queue that does not support L4S and marks as described in RFC 3168.
    pub enum Fallback {
        /// No detection (Linux: `prague_ecn_fallback` 0).
        Off = "off",
        /// The sender computes a score that increases with the variation of the round-trip time and with the depth of
        /// the queue. If the score is high, the response to marks is at least that of a classic sender (Linux:
        /// `prague_ecn_fallback` 1).
        On = "on",
    }
}

parameters! {
    /// TCP Prague: reduces the window by half of the share of marked data, paces its segments, and depends less on the
    /// round-trip time.
    ///
    /// Requires accurate ECN feedback. If an endpoint does not support this feedback, the sender follows Reno's rules.
    /// Data packets carry ECT(1).
    pub struct Config {
        /// Version of `tcp_prague.c`.
        pub profile: Profile = Profile::Draft, "tcp_prague.c: 02573a21";
        /// Weight of a new sample in the average share of marked data.
        pub gain: f64 = 0.0625, "tcp_prague.c: PRAGUE_SHIFT_G 4";
        /// Target round-trip time (`prague_rtt_target`). A flow with a shorter round-trip time reaches the rate of a
        /// flow with the target round-trip time.
        pub target_rtt: Span = Span::from_millis(25), "tcp_prague.c: prague_rtt_target";
        /// Number of round trips after slow start before RTT independence takes effect (`prague_rtt_transition`).
        pub transition_rounds: u64 = 500, "tcp_prague.c: prague_rtt_transition";
        /// Whether the rate of a flow depends less on its round-trip time (`prague_rtt_scaling`).
        pub rtt_independence: bool = true, "tcp_prague.c: RTT_CONTROL_RATE";
        /// Detection of classic queues.
        pub fallback: Fallback = Fallback::Off, "tcp_prague.c: prague_ecn_fallback 0";
        /// Number of bytes in a packet in addition to the payload, for the computation of the pacing rate.
        pub header_bytes: u64 = 52, "IPv4 and TCP with timestamps; tcp_prague.c: tcp_mss_to_mtu";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(self.gain > 0.0 && self.gain <= 1.0, "gain", "must be above 0 and at most 1")?;
        ConfigError::unless(!self.target_rtt.is_zero(), "target_rtt", "must not be 0s")?;
        ConfigError::unless(self.header_bytes <= 1000, "header_bytes", "must be at most 1000")
    }

    fn uses_rates(&self) -> bool {
        true
    }

    fn ecn(&self) -> EcnNeeds {
        EcnNeeds {
            is_required: true,
            is_scalable: true,
            feedback: Feedback::Accurate,
            codepoint: Codepoint::Ect1,
        }
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Prague {
            config: self.clone(),
            window: 0.0,
            share: MarkedShare::new(self.gain, 1.0),
            has_marks: false,
            round_end: 0,
            rounds: 0,
            updated_at: Instant::START,
            reduced_at: None,
            cwr_end: 0,
            phase: RecoveryPhase::Open,
            before_loss: None,
            is_restored: false,
            detector: Detector::default(),
            pacing_rate: None,
        })
    }
}

/// State of TCP Prague for one sender.
struct Prague {
    config: Config,
    /// The window including its fractional part, in segments (`frac_cwnd`); 0 before the first acknowledgement.
    window: f64,
    share: MarkedShare,
    /// Whether any data has been marked.
    has_marks: bool,
    /// Number of delivered bytes at which the current round ends.
    round_end: u64,
    /// Number of rounds since slow start.
    rounds: u64,
    /// Time of the last update of the share of marked data.
    updated_at: Instant,
    /// Time of the last reduction because of a mark.
    reduced_at: Option<Instant>,
    /// Number of bytes delivered when the sender last entered CWR; 0 if the sender has not entered CWR. CWR ends when
    /// data that was sent later is delivered.
    cwr_end: u64,
    phase: RecoveryPhase,
    /// Window before the last loss.
    before_loss: Option<f64>,
    /// Whether the reduction after the loss was undone, so that the whole window must rise immediately.
    is_restored: bool,
    detector: Detector,
    pacing_rate: Option<f64>,
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, _window: &mut Window, _ack: &AckInfo) {}

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        if congestion.signal == CongestionSignal::Loss {
            self.halve(window);
        }
    }

    fn on_event(&mut self, event: WindowEvent) {
        if event == WindowEvent::Undone
            && let Some(before) = self.before_loss.take()
        {
            self.window = self.window.max(before);
            self.is_restored = true;
        }
    }

    fn on_timeout(&mut self, window: &mut Window, in_flight: u64, mss: u64) {
        self.halve(window);
        window.cwnd = in_flight as f64 / mss as f64 + 1.0;
        self.phase = RecoveryPhase::Loss;
    }

    fn on_rates(&mut self, window: &mut Window, sample: &RateSample) {
        if self.window == 0.0 {
            self.window = window.cwnd;
        }
        self.phase = sample.phase;
        if self.phase == RecoveryPhase::Open {
            self.before_loss = None;
        }
        if let Some(rtt) = sample.rtt {
            self.detector.on_round_trip(rtt);
        }
        if sample.newly_marked > 0 {
            self.has_marks = true;
            self.on_mark(window, sample);
        }
        self.grow(window, sample);
        self.share.count(sample.newly_acked, sample.newly_marked);
        if sample.segment.is_some_and(|it| it.delivered_when_sent >= self.round_end) {
            self.round_end = sample.delivered;
            self.end_round(window, sample);
        }
        self.move_whole_window(window);
        self.set_pacing(window, sample);
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn report(&self) -> ControlReport {
        ControlReport { marked_share: Some(self.share.value()), ..ControlReport::default() }
    }
}

impl Prague {
    /// Halves the window because of a loss.
    fn halve(&mut self, window: &mut Window) {
        if self.window == 0.0 {
            self.window = window.cwnd;
        }
        self.before_loss = Some(self.window);
        self.window = (self.window / 2.0).max(self.min_window());
        window.ssthresh = self.window;
    }

    /// Returns the minimum of the fractional window, in segments.
    fn min_window(&self) -> f64 {
        match self.config.profile {
            Profile::Draft => RESOLUTION,
            Profile::Linux2020 => MIN_WINDOW,
        }
    }

    /// Moves the whole window towards the fractional window by at most one segment. In slow start and after an undo,
    /// the whole window moves to the fractional window immediately.
    fn move_whole_window(&mut self, window: &mut Window) {
        let is_slow_start = window.in_slow_start() && self.phase == RecoveryPhase::Open;
        let goal = ceil(self.window).at_least(1.0);
        let is_restored = std::mem::take(&mut self.is_restored);
        if is_restored {
            window.ssthresh = window.ssthresh.max(goal);
        }
        window.cwnd = if is_restored || is_slow_start {
            goal
        } else if goal < window.cwnd {
            (window.cwnd - 1.0).max(goal).max(MIN_WINDOW.min(window.cwnd))
        } else {
            goal.min(window.cwnd + 1.0)
        };
    }

    /// Returns whether RTT independence is in effect.
    fn is_independent(&self) -> bool {
        self.config.rtt_independence && self.rounds >= self.config.transition_rounds
    }

    /// Updates the share of marked data at the end of a round.
    fn end_round(&mut self, window: &Window, sample: &RateSample) {
        if !window.in_slow_start() {
            self.rounds += 1;
        }
        let is_early = self.is_independent() && sample.now.since(self.updated_at) < self.config.target_rtt;
        if !self.has_marks || is_early {
            return;
        }
        self.share.end_round();
        self.updated_at = sample.now;
        if self.config.fallback == Fallback::On {
            self.detector.end_round();
        }
    }

    /// Opens the window for data that was delivered without marks.
    fn grow(&mut self, window: &Window, sample: &RateSample) {
        let is_repairing = matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss);
        let unmarked = real(sample.newly_acked.saturating_sub(sample.newly_marked)) / real(sample.mss);
        if is_repairing || !sample.is_cwnd_limited || unmarked <= 0.0 {
            return;
        }
        if window.in_slow_start() {
            self.window = (self.window + unmarked).min(window.ssthresh.max(self.window));
            return;
        }
        let segments = match self.config.profile {
            Profile::Draft => ceil(self.window).at_least(1.0),
            Profile::Linux2020 => window.cwnd,
        };
        self.window += unmarked * self.increase(sample.srtt) / segments;
    }

    /// Returns the growth of the window per round trip, in segments.
    fn increase(&self, srtt: Option<Span>) -> f64 {
        match srtt {
            Some(srtt)
                if self.is_independent() && srtt < self.config.target_rtt && srtt <= MAX_INDEPENDENT =>
            {
                let ratio = srtt.seconds() / self.config.target_rtt.seconds();
                ratio * ratio
            }
            _ => 1.0,
        }
    }

    /// Enters CWR, and reduces the window by half of the share of marked data.
    fn on_mark(&mut self, window: &mut Window, sample: &RateSample) {
        let is_in_cwr = self.cwr_end > 0
            && sample.segment.is_none_or(|segment| segment.delivered_when_sent < self.cwr_end);
        if is_in_cwr || matches!(self.phase, RecoveryPhase::Recovery | RecoveryPhase::Loss) {
            return;
        }
        self.cwr_end = sample.delivered;
        let is_early = self.is_independent()
            && self.reduced_at.is_some_and(|at| sample.now.since(at) < self.config.target_rtt);
        if is_early {
            return;
        }
        let share = self.share.value().max(self.detector.least_share());
        let base = match self.config.profile {
            Profile::Draft => self.window,
            Profile::Linux2020 => window.cwnd,
        };
        self.window = (self.window - base * share / 2.0).max(self.min_window());
        window.ssthresh = self.window;
        self.detector.on_reduction(window.ssthresh);
        self.reduced_at = Some(sample.now);
    }

    /// Sets the pacing rate to one window per round trip, or to two windows per round trip while the whole window is
    /// below half of `ssthresh`.
    fn set_pacing(&mut self, window: &Window, sample: &RateSample) {
        let Some(srtt) = sample.srtt.filter(|srtt| !srtt.is_zero()) else { return };
        let ratio = if window.cwnd < window.ssthresh / 2.0 { 2.0 } else { 1.0 };
        let packet = real(sample.mss + self.config.header_bytes);
        let segments = match self.config.profile {
            Profile::Draft => self.window,
            Profile::Linux2020 => window.cwnd.max(sample.in_flight as f64 / sample.mss as f64),
        };
        self.pacing_rate = Some(ratio * segments * packet / srtt.seconds());
    }
}

/// Detector of queues that mark as described in RFC 3168. Deep queues and a varying round-trip time raise the
/// detector's score (`prague_classic_ecn_detection`).
#[derive(Clone, Copy, Debug, Default)]
struct Detector {
    score: f64,
    min_rtt_us: Option<f64>,
    /// Slow averages of the round-trip time and of its variation, in microseconds; 0 before the first sample.
    rtt_us: f64,
    variation_us: f64,
    /// Weight of a new sample in the average round-trip time (`g_srtt_shift`); `None` before the first reduction. The
    /// weight in the average variation is half of this weight.
    weight: Option<f64>,
}

impl Detector {
    /// Adds a round-trip sample to the averages (`prague_rtt_estimator`).
    fn on_round_trip(&mut self, rtt: Span) {
        let rtt = rtt.nanos() as f64 / 1000.0;
        self.min_rtt_us = Some(self.min_rtt_us.map_or(rtt, |least| least.min(rtt)));
        if self.rtt_us == 0.0 {
            (self.rtt_us, self.variation_us) = (rtt, 1.0);
            return;
        }
        let weight = self.weight.unwrap_or(MIN_WEIGHT);
        let error = rtt - self.rtt_us;
        self.rtt_us += error * weight;
        self.variation_us += (error.abs() - self.variation_us) * (weight / 2.0);
    }

    /// Sets the weight of the averages at a reduction, so that the averages cover about one sawtooth of the window
    /// (`prague_update_rtt_scaling`).
    fn on_reduction(&mut self, ssthresh: f64) {
        let log = libm::floor(libm::log2(ssthresh.max(1.0)));
        self.weight = Some(libm::exp2(-(log + libm::floor(log / 2.0) + 1.0)).max(MIN_WEIGHT));
    }

    /// Updates the score at the end of a round.
    fn end_round(&mut self) {
        let (Some(min_rtt), true) = (self.min_rtt_us, self.rtt_us > 0.0) else { return };
        let half_log = |ratio: f64| 0.5 * libm::log2(ratio);
        let of_variation = half_log(self.variation_us.max(1.0) / NEUTRAL_VARIATION_US);
        let of_depth = half_log((self.rtt_us - min_rtt).max(NEUTRAL_DEPTH_US) / NEUTRAL_DEPTH_US);
        self.score = (self.score + of_variation + of_depth).clamp(0.0, MAX_SCORE);
    }

    /// Returns the minimum share of marked data that is used when a mark reduces the window
    /// (`prague_classic_ecn_fallback`).
    fn least_share(&self) -> f64 {
        CLASSIC_SHARE * (self.score - CLASSIC_SCORE).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Rng, Streams};

    use super::*;
    use crate::congestion_control::{Controller, DeliveredSegment};
    use crate::testing::loss;

    const MSS: u64 = 1000;

    /// A sender whose segments arrive one by one after a constant round-trip time, with or without a mark.
    struct Path {
        controller: Controller,
        now: Instant,
        rtt: Span,
        delivered: u64,
        /// Number of bytes that had been delivered when each segment in flight was sent.
        sent: std::collections::VecDeque<u64>,
        phase: RecoveryPhase,
    }

    impl Path {
        fn new(config: &Config, rtt: Span) -> Self {
            let sent = std::iter::repeat_n(0, 10).collect();
            let controller = Controller::new(config, 10.0, 1e9);
            Self { controller, now: Instant::START, rtt, delivered: 0, sent, phase: RecoveryPhase::Open }
        }

        /// Delivers a segment and sends the segments that the window permits.
        fn deliver(&mut self, is_marked: bool) {
            let in_flight = self.sent.len() as u64;
            self.now += Span::from_nanos(self.rtt.nanos() / in_flight);
            let delivered_when_sent = self.sent.pop_front().unwrap();
            self.delivered += MSS;
            let sample = RateSample {
                now: self.now,
                newly_acked: MSS,
                newly_lost: 0,
                newly_marked: if is_marked { MSS } else { 0 },
                delivered: self.delivered,
                lost: 0,
                marked: 0,
                segment: Some(DeliveredSegment {
                    delivered_when_sent,
                    lost_when_sent: 0,
                    marked_when_sent: 0,
                    in_flight_when_sent: in_flight * MSS,
                    is_app_limited: false,
                    delivered: self.delivered - delivered_when_sent,
                    interval: Some(self.rtt),
                }),
                rtt: Some(self.rtt),
                srtt: Some(self.rtt),
                in_flight_before: in_flight * MSS,
                in_flight: (in_flight - 1) * MSS,
                is_cwnd_limited: true,
                phase: self.phase,
                pacing_delay: Span::ZERO,
                mss: MSS,
            };
            self.controller.on_rates(&sample);
            while (self.sent.len() as f64) < self.controller.cwnd().max(1.0) {
                self.sent.push_back(self.delivered);
            }
        }

        /// Returns the pacing rate in segments per round trip.
        fn paced_segments(&self) -> f64 {
            let header_bytes = Config::default().header_bytes;
            self.controller.pacing_rate().unwrap() * self.rtt.seconds() / (MSS + header_bytes) as f64
        }

        /// Delivers `segments` segments, each of which is marked with probability `p`. Returns the mean rate in
        /// segments per second.
        fn rate(&mut self, segments: u64, p: f64, random: &mut Rng) -> f64 {
            let start = self.now;
            for _ in 0..segments {
                self.deliver(random.uniform() < p);
            }
            segments as f64 / self.now.since(start).seconds()
        }
    }

    fn random() -> Rng {
        Streams::new(3).named("marks", 0)
    }

    #[test]
    fn slow_start_doubles_and_the_first_mark_halves_the_window() {
        let mut path = Path::new(&Config::default(), Span::from_millis(30));
        (0..10).for_each(|_| path.deliver(false));
        assert_eq!(path.controller.cwnd(), 20.0);
        (0..20).for_each(|_| path.deliver(false));
        assert_eq!(path.controller.cwnd(), 40.0);
        path.deliver(true);
        assert_eq!(path.controller.ssthresh(), 20.0);
        assert_eq!(path.controller.cwnd(), 39.0, "one segment per acknowledgement");
        (0..19).for_each(|_| path.deliver(true));
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (20.0, 20.0), "once per round trip");
    }

    #[test]
    fn the_share_is_one_until_the_first_mark() {
        let mut path = Path::new(&Config::default(), Span::from_millis(30));
        (0..200).for_each(|_| path.deliver(false));
        assert_eq!(path.controller.report().marked_share, Some(1.0));
    }

    #[test]
    fn with_random_marks_the_window_is_inversely_proportional_to_their_share() {
        for p in [0.01, 0.05, 0.2] {
            let mut path = Path::new(&Config::default(), Span::from_millis(30));
            let mut random = random();
            path.rate(50_000, p, &mut random);
            let window = path.rate(400_000, p, &mut random) * 0.03;
            let product = window * p / (1.0 - p);
            assert!((1.9..2.9).contains(&product), "p = {p}: {window} segments");
        }
    }

    #[test]
    fn after_the_transition_short_round_trips_have_the_rate_of_25_ms() {
        let rate = |millis: u64, transition_rounds: u64| {
            let config = Config { transition_rounds, ..Config::default() };
            let mut path = Path::new(&config, Span::from_millis(millis));
            let mut random = random();
            path.rate(100_000, 0.05, &mut random);
            path.rate(300_000, 0.05, &mut random)
        };
        let independent = [5, 10, 25].map(|millis| rate(millis, 0));
        for rate in independent {
            assert!((rate / independent[2] - 1.0).abs() < 0.15, "{independent:?}");
        }
        let ratio = rate(5, u64::MAX) / rate(25, u64::MAX);
        assert!((ratio / 5.0 - 1.0).abs() < 0.05, "without independence, rates are as 5 to 1: {ratio}");
    }

    #[test]
    fn without_a_minimum_the_window_falls_below_one_segment() {
        let windows = |profile| {
            let mut path = Path::new(&Config { profile, ..Config::default() }, Span::from_millis(100));
            (0..200).for_each(|_| path.deliver(true));
            (path.controller.cwnd(), path.paced_segments())
        };
        assert!(matches!(windows(Profile::Draft), (2.0, segments) if segments < 0.01));
        assert_eq!(windows(Profile::Linux2020), (2.0, 2.0));
    }

    #[test]
    fn a_mark_within_25_ms_of_a_reduction_enters_cwr_without_a_reduction() {
        let config = Config { transition_rounds: 0, ..Config::default() };
        let mut path = Path::new(&config, Span::from_millis(8));
        (0..30).for_each(|_| path.deliver(false));
        path.deliver(true);
        let reduced_at = path.now;
        let mut deliver_until = |millis, is_marked| {
            while path.now.since(reduced_at) < Span::from_millis(millis) {
                path.deliver(is_marked);
            }
            path.controller.ssthresh()
        };
        // The first mark after 15 ms starts CWR, which lasts until 23 ms. The next mark starts CWR again, which then
        // lasts until 31 ms.
        assert_eq!(deliver_until(15, false), 20.0);
        assert_eq!(deliver_until(30, true), 20.0);
        assert!(deliver_until(34, true) < 15.0);
    }

    #[test]
    fn profiles_differ_in_the_pacing_rate() {
        let windows = |profile| {
            let mut path = Path::new(&Config { profile, ..Config::default() }, Span::from_millis(100));
            (0..30).for_each(|_| path.deliver(false));
            let before = path.paced_segments();
            path.deliver(true);
            let (cwnd, ssthresh) = (path.controller.cwnd(), path.controller.ssthresh());
            (before.round(), cwnd, ssthresh, path.paced_segments().round())
        };
        assert_eq!(windows(Profile::Draft), (80.0, 39.0, 20.0, 20.0));
        assert_eq!(
            windows(Profile::Linux2020),
            (80.0, 39.0, 20.0, 39.0),
            "the rate follows the whole window"
        );
    }

    #[test]
    fn each_recovery_halves_the_window_and_an_undo_restores_it() {
        let mut path = Path::new(&Config::default(), Span::from_millis(30));
        (0..30).for_each(|_| path.deliver(false));
        path.phase = RecoveryPhase::Recovery;
        path.controller.on_congestion(&loss(40.0));
        (0..30).for_each(|_| path.deliver(false));
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (20.0, 20.0));
        path.controller.restore(0.0, 0.0);
        path.deliver(false);
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (40.0, 40.0));
    }

    #[test]
    fn a_timeout_restarts_from_the_data_in_flight() {
        let mut path = Path::new(&Config::default(), Span::from_millis(30));
        (0..30).for_each(|_| path.deliver(false));
        path.controller.on_model_timeout(0, MSS);
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (1.0, 20.0));
    }

    #[test]
    fn a_deep_and_varying_queue_raises_the_score_and_a_shallow_one_lowers_it() {
        let mut detector = Detector::default();
        detector.on_reduction(8.0);
        assert_eq!(detector.weight, Some(1.0 / 32.0));
        let round = |detector: &mut Detector, rtts: [u64; 2]| {
            for k in 0..20 {
                detector.on_round_trip(Span::from_nanos(rtts[k % 2] * 1000));
            }
            detector.end_round();
        };
        detector.on_round_trip(Span::from_millis(10));
        for _ in 0..40 {
            round(&mut detector, [20_000, 30_000]);
        }
        assert_eq!(detector.score, MAX_SCORE);
        assert_eq!(detector.least_share(), CLASSIC_SHARE);
        for _ in 0..100 {
            round(&mut detector, [10_300, 10_400]);
        }
        assert_eq!((detector.score, detector.least_share()), (0.0, 0.0));
    }

    #[test]
    fn the_pacing_rate_is_the_window_per_round_trip_and_twice_that_in_early_slow_start() {
        let mut path = Path::new(&Config::default(), Span::from_millis(100));
        path.deliver(false);
        assert_eq!(path.controller.pacing_rate(), Some(2.0 * 11.0 * 1052.0 / 0.1));
        path.deliver(true);
        let expected = 5.5 * 1052.0 / 0.1;
        assert!((path.controller.pacing_rate().unwrap() / expected - 1.0).abs() < 1e-9);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        assert_eq!(path(Config { gain: 0.0, ..Config::default() }), "gain");
        assert_eq!(path(Config { target_rtt: Span::ZERO, ..Config::default() }), "target_rtt");
        assert_eq!(path(Config { header_bytes: 1001, ..Config::default() }), "header_bytes");
    }
}
