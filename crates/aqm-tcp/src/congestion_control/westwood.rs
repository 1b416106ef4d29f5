//! Westwood+: after a loss, the window is the product of the measured bandwidth and the minimum round-trip time.
//!
//! S. Mascolo, C. Casetti, M. Gerla, M. Sanadidi, R. Wang, "TCP Westwood: Bandwidth Estimation for Enhanced Transport
//! over Wireless Links", MobiCom 2001, section 2 (reduction); L. Grieco, S. Mascolo, "Performance Evaluation and
//! Comparison of Westwood+, New Reno, and Vegas TCP Congestion Control", ACM Computer Communication Review 34(2), 2004,
//! section 2 (one bandwidth sample per round trip); Linux 6: `tcp_westwood.c` (filter, minimum interval). The window
//! grows as with Reno. A loss, a mark or a timeout sets `ssthresh = BWE * RTTmin`. This reduction empties the
//! bottleneck's queue, and leaves the window unchanged if the loss was not caused by congestion. After a timeout, the
//! next round-trip sample replaces `RTTmin`.
//!
//! Each bandwidth sample is the amount of data delivered in an interval, divided by the length of the interval. An
//! interval is at least as long as the last round trip and at least 50 ms long. Two identical low-pass filters in
//! series smooth the samples.
//!
//! Differences from Linux: Real numbers are used instead of integers. The amount of delivered data is known from the
//! loss recovery, and is not estimated from duplicate acknowledgements. The window is reduced at the beginning of a
//! recovery instead of at its end. aqmlab's choices where the sources do not specify the behaviour: The reduction never
//! enlarges the window. Before the first bandwidth sample, a loss halves the window.

use aqm_net::{ConfigError, Instant, Span, parameters};

use super::reno::{Growth, Reno};
use super::window::{Window, WindowRules};
use super::{
    AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, CongestionSignal, ControlReport,
};

parameters! {
    /// Westwood+: behaves like Reno, except that after a loss the window is the product of the measured bandwidth and
    /// the minimum round-trip time.
    pub struct Config {
        /// Weight of a new sample in each of the two bandwidth filters.
        pub gain: f64 = 0.125, "Linux: `westwood_do_filter`";
        /// Minimum interval of a bandwidth sample.
        pub min_interval: Span = Span::from_millis(50), "Linux: `TCP_WESTWOOD_RTT_MIN`";
        /// Growth of the window in congestion avoidance.
        pub growth: Growth = Growth::Fractions, "RFC 5681, equation (3)";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(self.gain > 0.0 && self.gain <= 1.0, "gain", "must be above 0 and at most 1")?;
        let is_interval = !self.min_interval.is_zero() && self.min_interval <= Span::from_millis(60_000);
        ConfigError::unless(is_interval, "min_interval", "must be above 0s and at most 60s")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Westwood {
            reno: Reno::new(self.growth),
            bandwidth: Bandwidth::new(self.gain, self.min_interval),
            rtt: None,
            rtt_min: None,
            resets_rtt_min: false,
            mss: 1,
        })
    }
}

/// State of Westwood+ for one sender.
struct Westwood {
    reno: Reno,
    bandwidth: Bandwidth,
    /// Most recent round-trip sample.
    rtt: Option<Span>,
    /// Minimum round-trip time (`RTTmin`).
    rtt_min: Option<Span>,
    /// Whether the next round-trip sample replaces the minimum.
    resets_rtt_min: bool,
    /// Payload of a full segment, in bytes.
    mss: u64,
}

impl CongestionControl for Westwood {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        self.reno.on_ack(window, ack);
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        self.resets_rtt_min |= congestion.signal == CongestionSignal::Timeout;
        let (Some(bandwidth), Some(rtt_min)) = (self.bandwidth.estimate(), self.rtt_min) else {
            return self.reno.reduce(window, congestion);
        };
        let before = window.cwnd;
        window.reduce(bandwidth * rtt_min.seconds() / self.mss as f64);
        window.cwnd = window.cwnd.min(before);
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, _window: &mut Window, sample: &AckSample) {
        self.mss = sample.mss;
        if let Some(sent) = sample.newest {
            let rtt = sample.now.since(sent);
            let previous = self.rtt_min.filter(|_| !self.resets_rtt_min);
            self.rtt_min = Some(previous.map_or(rtt, |least| least.min(rtt)));
            (self.rtt, self.resets_rtt_min) = (Some(rtt), false);
        }
        self.bandwidth.on_delivery(sample.now, sample.delivered, self.rtt);
    }

    fn report(&self) -> ControlReport {
        ControlReport {
            bandwidth: self.bandwidth.estimate(),
            min_rtt: self.rtt_min,
            ..ControlReport::default()
        }
    }
}

/// Estimate of the bandwidth (`BWE`), in bytes per second.
#[derive(Clone, Debug)]
struct Bandwidth {
    gain: f64,
    min_interval: Span,
    /// Start of the current interval; `None` before the first acknowledgement.
    start: Option<Instant>,
    /// Number of bytes delivered in the current interval (`bk`).
    delivered: u64,
    /// Outputs of the first and the second filter (`bw_ns_est`, `bw_est`).
    filtered: Option<(f64, f64)>,
}

impl Bandwidth {
    fn new(gain: f64, min_interval: Span) -> Self {
        Self { gain, min_interval, start: None, delivered: 0, filtered: None }
    }

    /// Returns the estimate; `None` before the first sample.
    fn estimate(&self) -> Option<f64> {
        self.filtered.map(|(_, estimate)| estimate)
    }

    /// Counts `delivered` bytes. If the current interval is longer than the round-trip time `rtt`, the interval ends
    /// before these bytes.
    fn on_delivery(&mut self, now: Instant, delivered: u64, rtt: Option<Span>) {
        let start = *self.start.get_or_insert(now);
        let interval = now.since(start);
        if rtt.is_some_and(|rtt| interval > rtt.max(self.min_interval)) {
            self.filter(self.delivered as f64 / interval.seconds());
            (self.start, self.delivered) = (Some(now), 0);
        }
        self.delivered += delivered;
    }

    /// Adds a sample. The first sample sets the output of both filters.
    fn filter(&mut self, sample: f64) {
        let gain = self.gain;
        self.filtered = Some(self.filtered.map_or((sample, sample), |(first, second)| {
            let first = first + gain * (sample - first);
            (first, second + gain * (first - second))
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bottleneck, loss, mark, timeout};

    const RTT: Span = Span::from_millis(60);

    #[test]
    fn two_filters_in_series_follow_a_step() {
        let mut bandwidth = Bandwidth::new(0.125, Span::from_millis(50));
        bandwidth.filter(1000.0);
        assert_eq!(bandwidth.estimate(), Some(1000.0), "the first sample");
        for step in 1..=20 {
            bandwidth.filter(2000.0);
            // The response of two identical first-order filters in series to a unit step is 1 - a^n (1 + n (1 - a)).
            let n = f64::from(step);
            let expected = 1000.0 + 1000.0 * (1.0 - libm::pow(0.875, n) * (1.0 + n * 0.125));
            assert!((bandwidth.estimate().unwrap() - expected).abs() < 1e-6, "{step}");
        }
    }

    #[test]
    fn an_interval_is_longer_than_a_round_trip_and_50_ms() {
        let samples = |rtt: u64| {
            let mut bandwidth = Bandwidth::new(0.125, Span::from_millis(50));
            let rtt = Some(Span::from_millis(rtt));
            (0..=1000_u64)
                .find(|&millis| {
                    bandwidth.on_delivery(Instant::START + Span::from_millis(millis), 1000, rtt);
                    bandwidth.estimate().is_some()
                })
                .map(|millis| (millis, libm::round(bandwidth.estimate().unwrap())))
        };
        assert_eq!(samples(10), Some((51, 1e6)));
        assert_eq!(samples(200), Some((201, 1e6)));
    }

    #[test]
    fn a_loss_leaves_what_the_path_holds_without_a_queue() {
        // At ten segments of 1000 bytes per millisecond and a round-trip time of 60 ms, the path holds 600 segments.
        let mut path = Bottleneck::new(&Config::default(), 10.0, RTT);
        path.controller.open(10.0, 900.0);
        for _ in 0..100_000 {
            path.step();
        }
        let report = path.controller.report();
        let bandwidth = report.bandwidth.unwrap();
        assert!((bandwidth / 1e7 - 1.0).abs() < 0.001, "{bandwidth}");
        assert_eq!(report.min_rtt, Some(RTT + Span::from_nanos(100_000)));
        let before = path.controller.cwnd();
        path.controller.on_congestion(&loss(before));
        let expected = bandwidth * report.min_rtt.unwrap().seconds() / 1000.0;
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (expected, expected));
        assert!((expected - 601.0).abs() < 1.0, "{expected}");
        // Further losses that are not caused by congestion leave the window unchanged, and a smaller window is not
        // enlarged.
        path.controller.on_congestion(&mark(expected));
        assert_eq!(path.controller.cwnd(), expected);
        path.controller.cap(100.0);
        path.controller.on_congestion(&loss(100.0));
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (100.0, expected));
        path.controller.on_congestion(&timeout(100.0));
        assert_eq!((path.controller.cwnd(), path.controller.ssthresh()), (1.0, expected));
    }

    #[test]
    fn after_a_timeout_the_next_round_trip_is_the_minimum() {
        let mut path = Bottleneck::new(&Config::default(), 10.0, RTT);
        while path.controller.cwnd() < 1000.0 {
            path.step();
        }
        path.controller.on_congestion(&timeout(1000.0));
        path.step();
        assert!(path.controller.report().min_rtt.unwrap() > RTT + Span::from_millis(10));
    }

    #[test]
    fn before_the_first_sample_the_window_is_halved() {
        let mut path = Bottleneck::new(&Config::default(), 10.0, RTT);
        path.controller.on_congestion(&loss(10.0));
        assert_eq!(path.controller.cwnd(), 5.0);
    }

    #[test]
    fn parameters_out_of_range_are_rejected() {
        let config = Config { gain: 0.0, ..Config::default() };
        assert_eq!(config.check().unwrap_err().path, "gain");
        let config = Config { min_interval: Span::ZERO, ..Config::default() };
        assert_eq!(config.check().unwrap_err().path, "min_interval");
    }
}
