//! DCTCP: a mark reduces the window by half of the share of marked data.
//!
//! S. Bensley, D. Thaler, P. Balasubramanian, L. Eggert, G. Judd, "Data Center TCP (DCTCP): TCP Congestion Control for
//! Data Centers", RFC 8257, 2017, sections 3.3 and 3.4; Linux 6.1: `tcp_dctcp.c` (initial share).
//!
//! Assume that marks are random with probability p and that the window is W segments. If the window were reduced in
//! every round trip, W would be 2/p. However, a sender reduces its window at the first mark after the data of the last
//! reduction is acknowledged. This mark arrives on average 1 + 1/(pW) round trips after the reduction, so that W p/2 =
//! 1 + 1/(pW) and W = (1 + √3)/p if the window grows all the time.
//!
//! The sources differ in the arithmetic with which the share is computed (`share_arithmetic`).

use aqm_net::{ConfigError, choices, parameters};

use super::reno::{Growth, Reno};
use super::window::{Window, WindowRules};
use super::{
    AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, CongestionSignal, ControlReport,
};
use crate::config::ecn::{Codepoint, EcnNeeds, Feedback};

choices! {
    /// Arithmetic used for the share of marked data and for the reduction after a mark.
    pub enum ShareArithmetic {
        /// Real numbers.
        Exact = "exact",
        /// The share consists of 1024 parts, and changes of the share are rounded down, so that a share of marks below
        /// 1/64 counts as zero. The removed part of the window is rounded down to whole segments (Linux:
        /// `tcp_dctcp.c`).
        Parts = "parts",
    }
}

parameters! {
    /// DCTCP: a mark reduces the window by half of the share of marked data, and a loss reduces the window by half.
    ///
    /// Requires ECN. Without ECN at both endpoints, the sender follows Reno's rules, as in Linux.
    pub struct Config {
        /// Weight of a new sample in the average share of marked data (`g`).
        pub gain: f64 = 0.0625, "RFC 8257, 4.2";
        /// Initial share of marked data (`DCTCP.Alpha`).
        pub initial_share: f64 = 1.0, "RFC 8257, 3.3; Linux: `dctcp_alpha_on_init`";
        /// Arithmetic used for the share of marked data and for the reduction after a mark.
        pub share_arithmetic: ShareArithmetic = ShareArithmetic::Exact, "RFC 8257, 3.3";
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
        let is_share = (0.0..=1.0).contains(&self.initial_share);
        ConfigError::unless(is_share, "initial_share", "must be from 0 to 1")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn ecn(&self) -> EcnNeeds {
        EcnNeeds {
            is_required: true,
            is_scalable: true,
            feedback: Feedback::Dctcp,
            codepoint: Codepoint::Ect0,
        }
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Dctcp {
            reno: Reno::new(self.growth),
            share: MarkedShare::new(self.gain, self.initial_share),
            arithmetic: self.share_arithmetic,
            round_end: 0,
        })
    }
}

/// State of DCTCP for one sender.
struct Dctcp {
    reno: Reno,
    share: MarkedShare,
    arithmetic: ShareArithmetic,
    /// End of the data that had been sent when the current window of data began (`DCTCP.WindowEnd`).
    round_end: u64,
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        self.reno.on_ack(window, ack);
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        match congestion.signal {
            CongestionSignal::Mark => {
                let removed = window.cwnd * self.share.value() / 2.0;
                window.reduce(match self.arithmetic {
                    ShareArithmetic::Exact => window.cwnd - removed,
                    ShareArithmetic::Parts => window.cwnd - libm::floor(removed),
                });
            }
            CongestionSignal::Loss | CongestionSignal::Timeout => self.reno.reduce(window, congestion),
        }
    }

    fn uses_samples(&self) -> bool {
        true
    }

    fn on_sample(&mut self, _window: &mut Window, sample: &AckSample) {
        self.share.count(sample.delivered, sample.marked);
        if sample.snd_una >= self.round_end {
            match self.arithmetic {
                ShareArithmetic::Exact => self.share.end_round(),
                ShareArithmetic::Parts => self.share.end_round_in_parts(),
            }
            self.round_end = sample.snd_nxt;
        }
    }

    fn report(&self) -> ControlReport {
        ControlReport { marked_share: Some(self.share.value()), ..ControlReport::default() }
    }
}

/// Moving average of the share of marked data (`alpha`).
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedShare {
    gain: f64,
    value: f64,
    /// Numbers of bytes delivered and marked since the last update.
    delivered: u64,
    marked: u64,
}

impl MarkedShare {
    pub fn new(gain: f64, value: f64) -> Self {
        Self { gain, value, delivered: 0, marked: 0 }
    }

    /// Counts the bytes that an acknowledgement reports.
    pub fn count(&mut self, delivered: u64, marked: u64) {
        self.delivered += delivered;
        self.marked += marked;
    }

    /// Returns the average.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Updates the average with the share of marked data since the last update (RFC 8257, section 3.3, steps 5 to 7).
    pub fn end_round(&mut self) {
        if self.delivered == 0 {
            return;
        }
        let share = (self.marked as f64 / self.delivered as f64).min(1.0);
        self.value += self.gain * (share - self.value);
        (self.delivered, self.marked) = (0, 0);
    }
}

/// Number of parts into which the share is divided with `ShareArithmetic::Parts` (`DCTCP_MAX_ALPHA`).
const PARTS: f64 = 1024.0;

impl MarkedShare {
    /// Does the same as `end_round`, but counts in parts of 1/1024 (Linux: `dctcp_update_alpha`).
    fn end_round_in_parts(&mut self) {
        let value = libm::floor(self.value * PARTS);
        let decrease = libm::floor(value * self.gain);
        let marked = libm::floor(PARTS * self.gain * self.marked as f64 / (self.delivered.max(1)) as f64);
        // If the decrease of a share is rounded to zero, the share becomes zero (`min_not_zero`).
        let rest = if decrease > 0.0 { value - decrease } else { 0.0 };
        self.value = (rest + marked).min(PARTS) / PARTS;
        (self.delivered, self.marked) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Rng, Streams};

    use super::*;
    use crate::congestion_control::Controller;
    use crate::testing::{ack, loss, mark};

    fn sample(delivered: u64, marked: u64, snd_una: u64, snd_nxt: u64) -> AckSample {
        let now = Instant::START;
        let (newest, ack_sent_at, srtt) = (None, None, None);
        AckSample { now, newest, ack_sent_at, srtt, delivered, marked, snd_una, snd_nxt, mss: 1000 }
    }

    fn share(controller: &Controller) -> f64 {
        controller.report().marked_share.unwrap()
    }

    #[test]
    fn the_share_is_updated_once_per_window_of_data() {
        let mut controller = Controller::new(&Config::default(), 10.0, 5.0);
        assert_eq!(share(&controller), 1.0);
        controller.on_sample(&sample(1000, 0, 1000, 11_000));
        assert_eq!(share(&controller), 0.9375, "the first acknowledgement ends a window");
        for k in 2..=10 {
            controller.on_sample(&sample(1000, 1000, k * 1000, 20_000));
        }
        assert_eq!(share(&controller), 0.9375);
        controller.on_sample(&sample(1000, 0, 11_000, 21_000));
        assert!((share(&controller) - (0.9375 * 0.9375 + 0.0625 * 0.9)).abs() < 1e-12);
    }

    #[test]
    fn a_mark_removes_half_of_the_share_and_a_loss_half_of_the_window() {
        let config = Config { initial_share: 0.5, ..Config::default() };
        let mut controller = Controller::new(&config, 20.0, 100.0);
        controller.on_congestion(&mark(3.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (15.0, 15.0));
        controller.on_congestion(&loss(15.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (7.5, 7.5));
    }

    #[test]
    fn in_parts_small_shares_and_the_removed_part_are_rounded_down() {
        let config =
            Config { share_arithmetic: ShareArithmetic::Parts, initial_share: 0.5, ..Config::default() };
        let mut controller = Controller::new(&config, 15.0, 5.0);
        controller.on_congestion(&mark(15.0));
        assert_eq!(controller.cwnd(), 12.0, "3.75 segments are rounded down to 3");
        let mut share = MarkedShare::new(0.0625, 0.5);
        share.count(100_000, 1000);
        share.end_round_in_parts();
        assert_eq!(share.value(), (512.0 - 32.0) / 1024.0, "a share of marks of 1 % counts as zero");
        share.count(10_000, 10_000);
        share.end_round_in_parts();
        assert_eq!(share.value(), (480.0 - 30.0 + 64.0) / 1024.0);
        let mut small = MarkedShare::new(0.0625, 15.0 / 1024.0);
        small.end_round_in_parts();
        assert_eq!(small.value(), 0.0);
    }

    #[test]
    fn a_round_without_data_leaves_the_share_unchanged() {
        let mut share = MarkedShare::new(0.0625, 0.5);
        share.end_round();
        assert_eq!(share.value(), 0.5);
        share.count(1000, 0);
        share.end_round();
        assert_eq!(share.value(), 0.46875);
    }

    #[test]
    fn with_random_marks_the_window_is_inversely_proportional_to_their_share() {
        for probability in [0.01, 0.05, 0.2] {
            let mut random: Rng = Streams::new(7).named("marks", 0);
            let mut controller = Controller::new(&Config::default(), 10.0, 5.0);
            let (mut una, mut reduced_up_to, mut round_end) = (0_u64, 0, 0_u64);
            let (mut sum, mut rounds) = (0.0, 0.0);
            for _ in 0..400_000 {
                let marked = random.uniform() < probability;
                una += 1000;
                let nxt = una + (controller.cwnd() as u64).max(1) * 1000;
                controller.on_sample(&sample(1000, if marked { 1000 } else { 0 }, una, nxt));
                if marked && una > reduced_up_to {
                    controller.on_congestion(&mark(controller.cwnd()));
                    reduced_up_to = nxt;
                } else {
                    controller.on_ack(&ack(1.0));
                }
                if una >= round_end {
                    (sum, rounds, round_end) = (sum + controller.cwnd(), rounds + 1.0, nxt);
                }
            }
            let window = sum / rounds;
            let product = window * probability;
            assert!((2.0..1.0 + libm::sqrt(3.0)).contains(&product), "p = {probability}: {window} segments");
        }
    }
}
