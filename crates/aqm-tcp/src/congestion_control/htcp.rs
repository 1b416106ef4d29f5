//! H-TCP: the more time has passed since the last loss, the faster the window grows, and a loss empties the
//! bottleneck's queue.
//!
//! R. Shorten, D. Leith, "H-TCP: TCP for High-Speed and Long-Distance Networks", PFLDnet 2004, sections 3 and 4; D.
//! Leith, "H-TCP: TCP Congestion Control for High Bandwidth-Delay Product Paths", draft-leith-tcp-htcp-06, 2008; Linux
//! 6: `tcp_htcp.c` (limits, measurement of the throughput). In the following, `t` is the time since the end of the last
//! congestion event, in seconds:
//!
//! - Each acknowledgement adds `alpha / cwnd`, where `alpha = 2 (1 - beta) f(t)`. For up to one second, `f(t)` is 1;
//!   afterwards, `f(t)` is `1 + 10 (t - 1) + ((t - 1) / 2)^2`.
//! - With `rtt_scaling`, `f` is multiplied by `RTTmin / 100 ms`, which is limited to the range from 0.1 to 2. The
//!   product is at least 1.
//! - After a congestion event, the fraction `beta = RTTmin / RTTmax` of the window remains, where `beta` is limited to
//!   the range from 0.5 to 0.8. If the maximum throughput has changed by more than a fifth since the previous event,
//!   `beta` is 0.5.
//!
//! As in Linux, `beta` adapts only from the second congestion event on, and only if `RTTmin` is above 10 ms. `RTTmax`
//! grows by at most 20 ms per sample and moves 5 % of the way towards `RTTmin` at each event. Undoing a reduction
//! restores the state before the reduction.
//!
//! Differences from Linux: Real numbers are used instead of integers, and `alpha` changes with every acknowledgement. A
//! congestion event ends when all data that was sent before the event is acknowledged. As in `cubic.rs`, `t` excludes
//! idle time and time in which the window may not grow.

use aqm_net::{ConfigError, Instant, Span, parameters};

use super::cubic::CurveTime;
use super::window::{Window, WindowRules};
use super::{
    AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, ControlReport, WindowEvent,
};

parameters! {
    /// H-TCP: the more time has passed since the last loss, the faster the window grows; a loss empties the
    /// bottleneck's queue.
    pub struct Config {
        /// Time after a congestion event during which the window grows as with Reno (`Delta_L`).
        pub delta_low: Span = Span::from_millis(1000), "Shorten and Leith 2004: 1 s";
        /// Minimum fraction of the window that remains after a congestion event.
        pub beta_min: f64 = 0.5, "Linux: `BETA_MIN`";
        /// Maximum fraction of the window that remains after a congestion event.
        pub beta_max: f64 = 0.8, "Linux: `BETA_MAX`";
        /// Whether growth is proportional to the round-trip time, so that flows with different round-trip times get
        /// equal shares.
        pub rtt_scaling: bool = true, "Linux: `use_rtt_scaling`";
        /// Whether the fraction that remains is reset to `beta_min` if the throughput has changed between two
        /// congestion events.
        pub bandwidth_switch: bool = true, "Linux: `use_bandwidth_switch`";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
    }
}

/// Round-trip time at which scaling has no effect, in seconds.
const REFERENCE_RTT: f64 = 0.1;
/// Limits of the ratio of the reference round-trip time to the minimum round-trip time.
const SCALE: (f64, f64) = (0.5, 10.0);
/// Minimum round-trip time above which `beta` adapts.
const MIN_ADAPTIVE_RTT: Span = Span::from_millis(10);
/// Maximum increase of the maximum round-trip time per sample.
const MAX_RTT_STEP: Span = Span::from_millis(20);
/// Fraction of the difference between the maximum and the minimum round-trip time that remains after a congestion
/// event.
const MAX_RTT_MEMORY: f64 = 0.95;
/// Range of the ratio of the maximum throughput to the maximum throughput before the previous congestion event in which
/// the throughput is considered unchanged.
const SAME_THROUGHPUT: (f64, f64) = (0.8, 1.2);
/// Number of round trips after a congestion event in which a throughput sample replaces the average.
const FRESH_ROUNDS: u64 = 3;
/// Weight of a new throughput sample.
const THROUGHPUT_GAIN: f64 = 0.25;

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        let is_time = self.delta_low <= Span::from_millis(3_600_000);
        ConfigError::unless(is_time, "delta_low", "must be at most 3600s")?;
        let is_share = |value: f64| value > 0.0 && value < 1.0;
        ConfigError::unless(is_share(self.beta_min), "beta_min", "must be between 0 and 1")?;
        let is_above = is_share(self.beta_max) && self.beta_max >= self.beta_min;
        ConfigError::unless(is_above, "beta_max", "must be at least beta_min, and below 1")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(HTcp::new(self))
    }
}

/// State of H-TCP for one sender.
struct HTcp {
    config: Config,
    /// Fraction of the window that remained after the last congestion event (`beta`).
    beta: f64,
    /// Whether `beta` may adapt at the next congestion event (`modeswitch`).
    is_adaptive: bool,
    min_rtt: Option<Span>,
    throughput: Throughput,
    event: Event,
    /// State before the last congestion event; `None` once this event has ended.
    undo: Option<Event>,
    /// End of the data that was sent before the last congestion event; `None` once this data is acknowledged.
    recover: Option<u64>,
    /// End of the data that had been sent when the last acknowledgement arrived (`SND.NXT`).
    snd_nxt: u64,
    /// Time of the last acknowledgement.
    now: Instant,
}

/// State that is restored when a reduction is undone.
#[derive(Clone, Copy)]
struct Event {
    /// Time since the end of the last congestion event (`last_cong`).
    time: CurveTime,
    max_rtt: Option<Span>,
    /// Maximum throughput before the previous congestion event (`old_maxB`).
    previous_throughput: f64,
}

/// Measured throughput, in segments per second.
#[derive(Clone, Copy)]
struct Throughput {
    /// Start of the current interval.
    start: Instant,
    /// Number of segments delivered in the current interval.
    delivered: f64,
    /// Moving average (`Bi`).
    average: f64,
    /// Maximum since the last congestion event (`maxB`).
    max: f64,
}

impl HTcp {
    fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            beta: config.beta_min,
            is_adaptive: false,
            min_rtt: None,
            throughput: Throughput { start: Instant::START, delivered: 0.0, average: 0.0, max: 0.0 },
            event: Event { time: CurveTime::from(Instant::START), max_rtt: None, previous_throughput: 0.0 },
            undo: None,
            recover: None,
            snd_nxt: 0,
            now: Instant::START,
        }
    }

    /// Returns the growth per round trip, in segments, at the time `since` after the last congestion event.
    fn alpha(&self, since: Span) -> f64 {
        let mut factor = increase(since.seconds() - self.config.delta_low.seconds());
        if let Some(min_rtt) = self.min_rtt.filter(|_| self.config.rtt_scaling) {
            let (least, most) = SCALE;
            factor = (factor / (REFERENCE_RTT / min_rtt.seconds()).clamp(least, most)).max(1.0);
        }
        2.0 * (1.0 - self.beta) * factor
    }

    /// Adapts `beta` at a congestion event.
    fn adapt(&mut self) {
        let Config { beta_min, beta_max, bandwidth_switch, .. } = self.config;
        if bandwidth_switch {
            let (least, most) = SAME_THROUGHPUT;
            let previous = std::mem::replace(&mut self.event.previous_throughput, self.throughput.max);
            if !(least * previous..=most * previous).contains(&self.throughput.max) {
                (self.beta, self.is_adaptive) = (beta_min, false);
                return;
            }
        }
        self.beta = match (self.min_rtt, self.event.max_rtt) {
            (Some(min), Some(max)) if self.is_adaptive && min > MIN_ADAPTIVE_RTT => {
                (min.seconds() / max.seconds()).clamp(beta_min, beta_max)
            }
            _ => beta_min,
        };
        self.is_adaptive = true;
    }

    /// Processes a round-trip sample.
    fn measure_rtt(&mut self, rtt: Span) {
        let min = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min);
        if self.recover.is_none() {
            let max = self.event.max_rtt.map_or(min, |most| most.max(min));
            self.event.max_rtt = Some(if rtt <= max + MAX_RTT_STEP { max.max(rtt) } else { max });
        }
    }

    /// Counts delivered segments. An interval ends when at least a window of segments has been delivered and at least
    /// one round-trip time has passed.
    fn measure_throughput(&mut self, cwnd: f64, now: Instant, delivered: f64) {
        let Throughput { start, delivered: before, average, max } = self.throughput;
        let (total, interval) = (before + delivered, now.since(start));
        self.throughput.delivered = total;
        let since = self.event.time.total;
        let Some(min_rtt) = self.min_rtt.filter(|&rtt| interval >= rtt && !interval.is_zero()) else {
            return;
        };
        if total < cwnd - self.alpha(since).max(1.0) {
            return;
        }
        let sample = total / interval.seconds();
        let (average, max) = if since.nanos() / min_rtt.nanos().max(1) <= FRESH_ROUNDS {
            (sample, sample)
        } else {
            let average = average + THROUGHPUT_GAIN * (sample - average);
            (average, max.max(average))
        };
        self.throughput = Throughput { start: now, delivered: 0.0, average, max };
    }
}

/// Returns the growth per round trip relative to Reno (`f`). `excess` is the time since the end of the period in which
/// the window grows as with Reno, in seconds.
fn increase(excess: f64) -> f64 {
    if excess <= 0.0 { 1.0 } else { 1.0 + 10.0 * excess + (excess / 2.0) * (excess / 2.0) }
}

impl CongestionControl for HTcp {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if !ack.may_grow {
            return self.event.time.pause(ack.now);
        }
        self.event.time.advance(ack);
        if window.slow_start(ack.counted).is_none() {
            window.add(self.alpha(self.event.time.total) * ack.counted / window.cwnd);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        self.undo = Some(self.event);
        self.recover = Some(self.snd_nxt);
        self.event.time = CurveTime::from(self.now);
        self.adapt();
        if let (Some(min), Some(max)) = (self.min_rtt, self.event.max_rtt) {
            let queueing = max.nanos().saturating_sub(min.nanos()) as f64;
            self.event.max_rtt = Some(min + Span::from_nanos((MAX_RTT_MEMORY * queueing) as u64));
        }
        window.reduce(self.beta * congestion.basis);
    }

    fn on_event(&mut self, event: WindowEvent) {
        if let Some(before) = self.undo.take_if(|_| event == WindowEvent::Undone) {
            (self.event, self.recover) = (before, None);
        }
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        (self.now, self.snd_nxt) = (sample.now, sample.snd_nxt);
        if let Some(sent) = sample.newest {
            self.measure_rtt(sample.now.since(sent).max(Span::from_nanos(1)));
        }
        match self.recover {
            Some(recover) if sample.snd_una < recover => {}
            Some(_) => (self.recover, self.undo) = (None, None),
            None => {
                let delivered = sample.delivered as f64 / sample.mss as f64;
                return self.measure_throughput(window.cwnd, sample.now, delivered);
            }
        }
        // The congestion event ends with the last acknowledgement of data that was sent before the event.
        self.event.time = CurveTime::from(sample.now);
        (self.throughput.start, self.throughput.delivered) = (sample.now, 0.0);
    }

    fn report(&self) -> ControlReport {
        ControlReport { min_rtt: self.min_rtt, ..ControlReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bottleneck, ack, loss};

    const fn ms(millis: u64) -> Span {
        Span::from_millis(millis)
    }

    fn htcp(config: &Config) -> HTcp {
        HTcp { min_rtt: Some(ms(100)), ..HTcp::new(config) }
    }

    #[test]
    fn growth_is_renos_for_a_second_and_then_a_quadratic_function_of_time() {
        // Shorten and Leith 2004: alpha = 1 + 10 (t - 1) + ((t - 1) / 2)^2 if a reduction halves the window.
        let control = htcp(&Config::default());
        let alphas = [0, 1000, 1100, 2000, 3000, 11_000].map(|millis| control.alpha(ms(millis)));
        assert_eq!(alphas[..2], [1.0, 1.0]);
        for (alpha, expected) in alphas[2..].iter().zip([2.0025, 11.25, 22.0, 126.0]) {
            assert!((alpha - expected).abs() < 1e-9, "{alpha}, expected {expected}");
        }
        let after_08 = HTcp { beta: 0.8, ..htcp(&Config::default()) };
        assert!((after_08.alpha(ms(2000)) - 0.4 * 11.25).abs() < 1e-9, "2 (1 - beta)");
    }

    #[test]
    fn growth_is_proportional_to_the_round_trip_within_limits() {
        let alpha = |millis: u64, rtt_scaling: bool| {
            let config = Config { rtt_scaling, ..Config::default() };
            HTcp { min_rtt: Some(ms(millis)), ..HTcp::new(&config) }.alpha(ms(11_000))
        };
        for (millis, expected) in
            [(5, 12.6), (10, 12.6), (50, 63.0), (100, 126.0), (200, 252.0), (400, 252.0)]
        {
            assert!((alpha(millis, true) - expected).abs() < 1e-6, "{millis} ms");
            assert_eq!(alpha(millis, false), 126.0);
        }
        let short = HTcp { min_rtt: Some(ms(10)), ..HTcp::new(&Config::default()) };
        assert_eq!(short.alpha(ms(500)), 1.0, "at least Reno's");
    }

    /// Returns `beta` after a congestion event with the given round-trip times, if the maximum throughput is
    /// `throughput` now and was `previous` before the previous event.
    fn beta(min: u64, max: u64, previous: f64, throughput: f64) -> f64 {
        let mut control = htcp(&Config::default());
        (control.min_rtt, control.event.max_rtt) = (Some(ms(min)), Some(ms(max)));
        (control.is_adaptive, control.event.previous_throughput) = (true, previous);
        control.throughput.max = throughput;
        control.adapt();
        control.beta
    }

    #[test]
    fn the_reduction_is_the_ratio_of_the_round_trips_within_limits() {
        for (max, expected) in [(100, 0.8), (110, 0.8), (140, 1.0 / 1.4), (180, 1.0 / 1.8), (300, 0.5)] {
            assert!((beta(100, max, 50.0, 50.0) - expected).abs() < 1e-12, "{max} ms");
        }
        assert_eq!(beta(10, 12, 50.0, 50.0), 0.5, "10 ms is too short");
    }

    #[test]
    fn a_change_of_the_throughput_by_more_than_a_fifth_halves_the_window() {
        for (throughput, expected) in [(39.9, 0.5), (40.1, 0.8), (59.9, 0.8), (60.1, 0.5)] {
            assert_eq!(beta(100, 110, 50.0, throughput), expected, "{throughput}");
        }
    }

    #[test]
    fn the_first_congestion_event_halves_the_window_and_later_ones_empty_the_queue() {
        // The rate is ten segments per millisecond and the round-trip time is 50 ms, so the path holds 500 segments.
        // The window is reduced when it reaches 700 segments and the round-trip time is 70 ms.
        let mut path = Bottleneck::new(&Config::default(), 10.0, ms(50));
        path.controller.open(10.0, 600.0);
        let mut left = Vec::new();
        for _ in 0..15 {
            while path.controller.cwnd() < 700.0 {
                path.step();
            }
            let before = path.controller.cwnd();
            path.controller.on_congestion(&loss(before));
            left.push(path.controller.cwnd() / before);
        }
        assert_eq!(left[0], 0.5);
        // The effect of the long round-trip times of slow start fades.
        for share in &left[12..] {
            assert!((share - 50.1 / 70.0).abs() < 0.005, "{left:?}");
        }
    }

    #[test]
    fn an_undone_event_restores_the_clock_and_the_maximum_round_trip() {
        let mut path = Bottleneck::new(&Config::default(), 10.0, ms(50));
        path.controller.open(10.0, 600.0);
        while path.now < Instant::START + ms(5000) {
            path.step();
        }
        let (before, ssthresh) = (path.controller.cwnd(), path.controller.ssthresh());
        path.step();
        let growth = path.controller.cwnd() - before;
        let before = path.controller.cwnd();
        path.controller.on_congestion(&loss(before));
        path.controller.restore(before, ssthresh);
        path.step();
        let again = path.controller.cwnd() - before;
        assert!((again / growth - 1.0).abs() < 0.01, "{growth}, then {again}");
        path.controller.on_congestion(&loss(before));
        let left = path.controller.cwnd();
        path.controller.on_ack(&AckInfo { now: path.now, ..ack(1.0) });
        assert!((path.controller.cwnd() - left) * left < 2.0, "Reno's growth after an event");
    }

    #[test]
    fn parameters_out_of_range_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        assert_eq!(path(Config { beta_max: 0.4, ..Config::default() }), "beta_max");
        assert_eq!(path(Config { beta_min: 0.0, ..Config::default() }), "beta_min");
        assert_eq!(path(Config { delta_low: ms(3_600_001), ..Config::default() }), "delta_low");
    }
}
