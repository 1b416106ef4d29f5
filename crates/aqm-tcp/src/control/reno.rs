//! Reno: add one segment a round trip, halve on loss, start again from one after a time-out.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1 and
//! steps 2 and 4 of section 3.2; V. Jacobson, "Congestion Avoidance and Control", 1988.
//!
//! Ours, where the sources are silent: congestion avoidance uses the RFC's equation (3), so delayed
//! acknowledgements slow it down.

use aqm_net::{ConfigError, Instant, choices, parameters};

use super::slow_start::{LimitedSlowStart, SlowStart, SlowStartEnd, SsthreshRounding};
use super::{AckInfo, Build, Congestion, CongestionControl, Start};

choices! {
    /// How the window grows in congestion avoidance.
    pub enum Growth {
        /// By a fraction of a segment with each acknowledgement (RFC 5681, equation (3)).
        Fractions = "fractions",
        /// By a whole segment when a window of segments is acknowledged; a reduction begins to count anew
        /// (Linux: `tcp_cong_avoid_ai`).
        Segments = "segments",
    }
}

parameters! {
    /// Reno: one segment more a round trip, half on loss, one segment after a time-out.
    pub struct Config {
        /// How the window grows in congestion avoidance.
        pub growth: Growth = Growth::Fractions, "RFC 5681, equation (3)";
        /// What a halved window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 5681, equation (4)";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
        /// The window above which slow start is limited (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
        /// Where Limited Slow-Start works.
        pub limited_slow_start: LimitedSlowStart = LimitedSlowStart::BelowSsthresh, "RFC 3742, section 2";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        SlowStart::check(self.max_ssthresh)
    }

    fn build(&self, start: Start) -> Box<dyn CongestionControl> {
        let slow_start = SlowStart::new(self.slow_start_end, self.max_ssthresh, self.limited_slow_start);
        Box::new(Reno {
            window: start.window,
            ssthresh: slow_start.first_ssthresh(start.ssthresh),
            slow_start,
            rounding: self.ssthresh_rounding,
            growth: self.growth,
            count: 0.0,
        })
    }
}

/// The running law.
pub struct Reno {
    window: f64,
    ssthresh: f64,
    slow_start: SlowStart,
    rounding: SsthreshRounding,
    growth: Growth,
    /// Segments acknowledged towards the next of the window.
    count: f64,
}

impl Reno {
    /// Congestion avoidance: so many segments are acknowledged.
    #[inline]
    fn avoid(&mut self, counted: f64) {
        if self.growth == Growth::Fractions {
            // Equation (3).
            self.window += (counted / self.window).max(self.slow_start.least(self.window));
            return;
        }
        if self.count >= self.window {
            self.count = 0.0;
            self.window += 1.0;
        }
        self.count += counted;
        let more = libm::floor(self.count / self.window);
        self.count -= more * self.window;
        self.window += more;
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_open(&mut self, start: Start) {
        self.window = start.window;
        self.ssthresh = self.slow_start.first_ssthresh(start.ssthresh);
    }

    fn on_ack(&mut self, ack: AckInfo) {
        if !ack.may_grow {
            return;
        }
        let Some(window) = self.slow_start.grow(self.window, self.ssthresh, ack.counted) else {
            return self.avoid(ack.counted);
        };
        let rest = ack.counted - (window - self.window);
        self.window = window;
        if self.growth == Growth::Segments && window >= self.ssthresh && rest > 0.0 {
            self.avoid(rest);
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.slow_start.on_congestion();
        self.count = 0.0;
        (self.window, self.ssthresh) = self.rounding.reduce(congestion.basis / 2.0);
    }

    fn on_timeout(&mut self, congestion: Congestion) {
        self.slow_start.on_timeout();
        self.count = 0.0;
        if !congestion.repeated {
            (_, self.ssthresh) = self.rounding.reduce(congestion.basis / 2.0);
        }
        self.window = 1.0;
    }

    fn cap(&mut self, window: f64, _now: Instant) {
        self.window = self.window.min(window);
    }

    fn restore(&mut self, window: f64, ssthresh: f64) {
        self.window = self.window.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Sign;

    fn reno(config: &Config, window: f64, ssthresh: f64) -> Box<dyn CongestionControl> {
        config.build(Start { window, ssthresh })
    }

    fn ack(counted: f64) -> AckInfo {
        AckInfo { now: Instant::START, acked: counted, counted, may_grow: true, srtt: None }
    }

    fn congestion(basis: f64) -> Congestion {
        Congestion { now: Instant::START, sign: Sign::Loss, basis, repeated: false }
    }

    fn ns2() -> Config {
        Config {
            ssthresh_rounding: SsthreshRounding::Down,
            slow_start_end: SlowStartEnd::PastThreshold,
            ..Config::default()
        }
    }

    #[test]
    fn slow_start_adds_a_segment_an_acknowledgement_up_to_ssthresh() {
        let mut law = reno(&Config::default(), 2.0, 4.5);
        let windows: Vec<f64> = (0..3)
            .map(|_| {
                law.on_ack(ack(1.0));
                law.window()
            })
            .collect();
        assert_eq!(windows, [3.0, 4.0, 4.5]);
        let mut law = reno(&ns2(), 2.5, 3.0);
        law.on_ack(ack(1.0));
        assert_eq!(law.window(), 3.5);
    }

    #[test]
    fn splitting_acknowledgements_gains_nothing() {
        let mut law = reno(&Config::default(), 2.0, 100.0);
        for _ in 0..10 {
            law.on_ack(ack(0.1));
        }
        assert!((law.window() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn congestion_avoidance_adds_at_most_a_segment_a_window() {
        let mut law = reno(&Config::default(), 10.0, 2.0);
        for _ in 0..10 {
            law.on_ack(ack(1.0));
        }
        assert!(law.window() > 10.9 && law.window() <= 11.0, "{}", law.window());
    }

    #[test]
    fn in_segments_a_window_of_acknowledgements_adds_one_and_a_reduction_counts_anew() {
        let config = Config {
            growth: Growth::Segments,
            ssthresh_rounding: SsthreshRounding::Segments,
            ..Config::default()
        };
        let mut law = reno(&config, 3.0, 4.0);
        law.on_ack(ack(3.0));
        assert_eq!(law.window(), 4.0, "one to the threshold, two towards the next");
        let mut windows = Vec::new();
        for _ in 0..7 {
            law.on_ack(ack(1.0));
            windows.push(law.window());
        }
        assert_eq!(windows, [4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0]);
        law.on_ack(ack(1.0));
        law.on_congestion(congestion(7.0));
        assert_eq!((law.window(), law.ssthresh()), (3.0, 3.0));
        law.on_ack(ack(2.0));
        assert_eq!(law.window(), 3.0);
        law.on_ack(ack(1.0));
        assert_eq!(law.window(), 4.0);
    }

    #[test]
    fn a_reduction_is_taken_back_to_what_was_at_least() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_congestion(congestion(20.0));
        law.restore(20.0, 15.0);
        assert_eq!((law.window(), law.ssthresh()), (20.0, 15.0));
        law.restore(2.0, 2.0);
        assert_eq!((law.window(), law.ssthresh()), (20.0, 15.0));
    }

    #[test]
    fn loss_halves_and_a_time_out_starts_from_one() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_congestion(congestion(15.0));
        assert_eq!((law.window(), law.ssthresh()), (7.5, 7.5));
        law.on_timeout(congestion(3.0));
        assert_eq!((law.window(), law.ssthresh()), (1.0, 2.0));
        let mut law = reno(&ns2(), 20.0, 100.0);
        law.on_congestion(congestion(15.0));
        assert_eq!((law.window(), law.ssthresh()), (7.5, 7.0));
        law.on_congestion(congestion(3.0));
        assert_eq!((law.window(), law.ssthresh()), (1.5, 2.0));
    }

    #[test]
    fn a_repeated_time_out_leaves_ssthresh_alone() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_timeout(congestion(20.0));
        law.on_timeout(Congestion { repeated: true, ..congestion(1.0) });
        assert_eq!((law.window(), law.ssthresh()), (1.0, 10.0));
    }

    #[test]
    fn a_cap_closes_the_window_and_leaves_ssthresh() {
        let mut law = reno(&Config::default(), 20.0, 15.0);
        law.cap(30.0, Instant::START);
        assert_eq!(law.window(), 20.0);
        law.cap(4.0, Instant::START);
        assert_eq!((law.window(), law.ssthresh()), (4.0, 15.0));
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_ack(AckInfo { may_grow: false, ..ack(1.0) });
        assert_eq!(law.window(), 20.0);
    }
}
