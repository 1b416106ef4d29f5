//! Reno: the window grows by one segment per round trip, is halved after a loss, and restarts from one segment after a
//! timeout.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1 and steps 2 and 4 of section
//! 3.2; V. Jacobson, "Congestion Avoidance and Control", 1988.
//!
//! aqmlab's choice where the sources are silent: congestion avoidance uses equation (3) of RFC 5681, so that delayed
//! acknowledgements slow the growth down.

use aqm_net::{ConfigError, choices, parameters};

use super::slow_start::LimitedSlowStart;
use super::window::{Window, WindowRules};
use super::{AckInfo, AnyControl, Build, Congestion, CongestionControl};

choices! {
    /// Growth of the window in congestion avoidance.
    pub enum Growth {
        /// With each acknowledgement, the window grows by a fraction of a segment (RFC 5681, equation (3)).
        Fractions = "fractions",
        /// The window grows by one segment when a whole window of segments has been acknowledged. With CUBIC, the curve
        /// determines the whole number of acknowledged segments that open the window by one segment. A reduction resets
        /// the count of acknowledged segments (Linux: `tcp_cong_avoid_ai`, `bictcp_update`).
        Segments = "segments",
    }
}

parameters! {
    /// Reno: one segment more per round trip, half the window after a loss, one segment after a timeout.
    pub struct Config {
        /// Growth of the window in congestion avoidance.
        pub growth: Growth = Growth::Fractions, "RFC 5681, equation (3)";
        /// Slow start and the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
        /// Scope of Limited Slow-Start.
        pub limited_slow_start: LimitedSlowStart = LimitedSlowStart::BelowSsthresh, "RFC 3742, section 2";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn limited_slow_start(&self) -> LimitedSlowStart {
        self.limited_slow_start
    }

    fn build(&self) -> AnyControl {
        AnyControl::Reno(Reno { growth: self.growth })
    }
}

/// The congestion control of a running sender.
pub struct Reno {
    growth: Growth,
}

impl Reno {
    /// Reno with the given growth in congestion avoidance.
    pub(super) fn new(growth: Growth) -> Self {
        Self { growth }
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if !ack.may_grow {
            return;
        }
        match (window.slow_start(ack.counted), self.growth) {
            (None, Growth::Fractions) => window.add(ack.counted / window.cwnd), // equation (3)
            (None, Growth::Segments) => window.add_one_for_each(window.cwnd, ack.counted),
            (Some(used), Growth::Segments) if used < ack.counted && !window.in_slow_start() => {
                window.add_one_for_each(window.cwnd, ack.counted - used);
            }
            (Some(_), _) => {}
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        window.reduce(congestion.basis / 2.0); // equation (4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::{Controller, SlowStartEnd, SsthreshRounding};
    use crate::testing::{ack, loss, repeated_timeout, timeout};

    fn reno(config: &Config, cwnd: f64, ssthresh: f64) -> Controller {
        Controller::new(config, cwnd, ssthresh)
    }

    fn ns2() -> Config {
        let window = WindowRules {
            ssthresh_rounding: SsthreshRounding::Down,
            slow_start_end: SlowStartEnd::PastThreshold,
            ..WindowRules::default()
        };
        Config { window, ..Config::default() }
    }

    #[test]
    fn slow_start_adds_a_segment_an_acknowledgement_up_to_ssthresh() {
        let mut controller = reno(&Config::default(), 2.0, 4.5);
        let windows: Vec<f64> = (0..3)
            .map(|_| {
                controller.on_ack(&ack(1.0));
                controller.cwnd()
            })
            .collect();
        assert_eq!(windows, [3.0, 4.0, 4.5]);
        let mut controller = reno(&ns2(), 2.5, 3.0);
        controller.on_ack(&ack(1.0));
        assert_eq!(controller.cwnd(), 3.5);
    }

    #[test]
    fn splitting_acknowledgements_gains_nothing() {
        let mut controller = reno(&Config::default(), 2.0, 100.0);
        for _ in 0..10 {
            controller.on_ack(&ack(0.1));
        }
        assert!((controller.cwnd() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn congestion_avoidance_adds_at_most_a_segment_a_window() {
        let mut controller = reno(&Config::default(), 10.0, 2.0);
        for _ in 0..10 {
            controller.on_ack(&ack(1.0));
        }
        assert!(controller.cwnd() > 10.9 && controller.cwnd() <= 11.0, "{}", controller.cwnd());
    }

    #[test]
    fn in_segments_a_window_of_acknowledgements_adds_one_and_a_reduction_resets_the_count() {
        let window = WindowRules { ssthresh_rounding: SsthreshRounding::Segments, ..WindowRules::default() };
        let config = Config { growth: Growth::Segments, window, ..Config::default() };
        let mut controller = reno(&config, 3.0, 4.0);
        controller.on_ack(&ack(3.0));
        assert_eq!(controller.cwnd(), 4.0, "one segment up to the threshold, two towards the next");
        let mut windows = Vec::new();
        for _ in 0..7 {
            controller.on_ack(&ack(1.0));
            windows.push(controller.cwnd());
        }
        assert_eq!(windows, [4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0]);
        controller.on_ack(&ack(1.0));
        controller.on_congestion(&loss(7.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (3.0, 3.0));
        controller.on_ack(&ack(2.0));
        assert_eq!(controller.cwnd(), 3.0);
        controller.on_ack(&ack(1.0));
        assert_eq!(controller.cwnd(), 4.0);
    }

    #[test]
    fn restore_raises_the_window_and_ssthresh_to_at_least_the_given_values() {
        let mut controller = reno(&Config::default(), 20.0, 100.0);
        controller.on_congestion(&loss(20.0));
        controller.restore(20.0, 15.0);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (20.0, 15.0));
        controller.restore(2.0, 2.0);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (20.0, 15.0));
    }

    #[test]
    fn a_loss_halves_the_window_and_a_timeout_restarts_from_one() {
        let mut controller = reno(&Config::default(), 20.0, 100.0);
        controller.on_congestion(&loss(15.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (7.5, 7.5));
        controller.on_congestion(&timeout(3.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 2.0));
        let mut controller = reno(&ns2(), 20.0, 100.0);
        controller.on_congestion(&loss(15.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (7.5, 7.0));
        controller.on_congestion(&loss(3.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.5, 2.0));
    }

    #[test]
    fn a_repeated_timeout_leaves_ssthresh_unchanged() {
        let mut controller = reno(&Config::default(), 20.0, 100.0);
        controller.on_congestion(&timeout(20.0));
        controller.on_congestion(&repeated_timeout());
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 10.0));
    }

    #[test]
    fn a_cap_lowers_the_window_and_leaves_ssthresh_unchanged() {
        let mut controller = reno(&Config::default(), 20.0, 15.0);
        controller.cap(30.0);
        assert_eq!(controller.cwnd(), 20.0);
        controller.cap(4.0);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (4.0, 15.0));
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut controller = reno(&Config::default(), 20.0, 100.0);
        controller.on_ack(&AckInfo { may_grow: false, ..ack(1.0) });
        assert_eq!(controller.cwnd(), 20.0);
    }
}
