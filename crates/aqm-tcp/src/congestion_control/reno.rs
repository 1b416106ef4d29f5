//! Reno: the window grows by one segment per round trip, is halved after a loss, and restarts from one segment after a
//! timeout.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1 and steps 2 and 4 of section
//! 3.2; V. Jacobson, "Congestion Avoidance and Control", 1988. The smaller reduction after a mark (`beta_ecn`) is
//! specified in N. Khademi, M. Welzl, G. Armitage, G. Fairhurst, "TCP Alternative Backoff with ECN (ABE)", RFC 8511,
//! 2018, section 3. If a loss occurs in a window that a mark has already reduced, the window is not reduced again, as
//! without ABE.
//!
//! aqmlab's choice where the sources do not specify the behaviour: congestion avoidance uses equation (3) of RFC 5681,
//! so that delayed acknowledgements slow down the growth.

use aqm_net::{ConfigError, choices, parameters};

use super::slow_start::LimitedSlowStart;
use super::window::{Window, WindowRules};
use super::{AckInfo, AnyControl, Build, Congestion, CongestionControl, CongestionSignal};

choices! {
    /// Growth of the window in congestion avoidance.
    pub enum Growth {
        /// With each acknowledgement, the window grows by a fraction of a segment (RFC 5681, equation (3)).
        Fractions = "fractions",
        /// The window grows by one segment when a whole window of segments has been acknowledged. With CUBIC, the curve
        /// determines the number of acknowledged segments that are needed to open the window by one segment, and this
        /// number is an integer. A reduction resets the count of acknowledged segments (Linux: `tcp_cong_avoid_ai`,
        /// `bictcp_update`).
        Segments = "segments",
    }
}

parameters! {
    /// Reno: the window grows by one segment per round trip, is halved after a loss, and restarts from one segment
    /// after a timeout.
    pub struct Config {
        /// Growth of the window in congestion avoidance.
        pub growth: Growth = Growth::Fractions, "RFC 5681, equation (3)";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
        /// Phases in which Limited Slow-Start applies.
        pub limited_slow_start: LimitedSlowStart = LimitedSlowStart::BelowSsthresh, "RFC 3742, section 2";
        /// Fraction of the window that remains after a mark (`beta_ecn`, ABE); by default, the fraction that remains
        /// after a loss.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub beta_ecn: Option<f64> = None, "RFC 3168, 6.1.2: as after a loss; RFC 8511, 3.1: 0.8 if used";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        check_beta_ecn(self.beta_ecn)?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn limited_slow_start(&self) -> LimitedSlowStart {
        self.limited_slow_start
    }

    fn build(&self) -> AnyControl {
        let reno = Reno { growth: self.growth };
        match self.beta_ecn {
            None => AnyControl::Reno(reno),
            Some(beta_ecn) => AnyControl::of(AlternativeBackoff { reno, beta_ecn }),
        }
    }
}

/// Checks the fraction of the window that remains after a mark.
pub(super) fn check_beta_ecn(beta_ecn: Option<f64>) -> Result<(), ConfigError> {
    let is_share = beta_ecn.is_none_or(|beta| beta > 0.0 && beta < 1.0);
    ConfigError::unless(is_share, "beta_ecn", "must be between 0 and 1")
}

/// The congestion control of one sender.
pub struct Reno {
    growth: Growth,
}

impl Reno {
    /// Creates Reno with the given growth in congestion avoidance.
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

/// Reno with ABE (Alternative Backoff with ECN).
struct AlternativeBackoff {
    reno: Reno,
    beta_ecn: f64,
}

impl CongestionControl for AlternativeBackoff {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        self.reno.on_ack(window, ack);
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        match congestion.signal {
            CongestionSignal::Mark => window.reduce(self.beta_ecn * congestion.basis),
            CongestionSignal::Loss | CongestionSignal::Timeout => self.reno.reduce(window, congestion),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::{Controller, SlowStartEnd, SsthreshRounding};
    use crate::testing::{ack, loss, mark, repeated_timeout, timeout};

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
    fn with_abe_a_mark_leaves_four_fifths_and_a_loss_half() {
        let mut controller = reno(&Config { beta_ecn: Some(0.8), ..Config::default() }, 20.0, 100.0);
        controller.on_congestion(&mark(20.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (16.0, 16.0));
        controller.on_ack(&ack(1.0));
        assert_eq!(controller.cwnd(), 16.0 + 1.0 / 16.0);
        controller.on_congestion(&loss(16.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (8.0, 8.0));
        controller.on_congestion(&mark(2.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (2.0, 2.0), "at least 2 segments");
        controller.on_congestion(&timeout(10.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 5.0));
        let mut controller = reno(&Config::default(), 20.0, 100.0);
        controller.on_congestion(&mark(20.0));
        assert_eq!(controller.cwnd(), 10.0, "off by default");
    }

    #[test]
    fn a_share_of_0_or_1_after_a_mark_is_rejected() {
        for beta_ecn in [0.0, 1.0, f64::NAN] {
            let config = Config { beta_ecn: Some(beta_ecn), ..Config::default() };
            assert_eq!(config.check().unwrap_err().path, "beta_ecn");
        }
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
