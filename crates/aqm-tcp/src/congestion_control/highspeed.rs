//! HighSpeed TCP: the larger the window, the faster the window increases and the less a loss decreases it.
//!
//! S. Floyd, "HighSpeed TCP for Large Congestion Windows", RFC 3649, 2003, sections 5 and 7, appendix B. An
//! acknowledgement adds a(w)/w to the window w, and a loss removes b(w) w. b(w) decreases from 0.5 to `high_decrease`
//! and is linear in ln w. a(w) = w² p(w) 2 b(w) / (2 - b(w)), so that the window stays near w at a loss rate of p(w).
//!
//! aqmlab's choices where the source does not specify the behaviour: a(w) is at least 1, which is Reno's value, and
//! b(w) is at least `high_decrease`. A timeout sets `ssthresh` to half of the basis of the reduction, as in RFC 5681.
//! b(w) is computed from the window and is applied to this basis. a(w) is recomputed at every acknowledgement, with one
//! logarithm and one exponential, as in ns-2 by default (`cwnd_range_ 0`).

use aqm_net::{ConfigError, choices, parameters};

use super::slow_start::{LimitedSlowStart, MAX_WINDOW};
use super::window::{Window, WindowRules};
use super::{AckInfo, AnyControl, Build, Congestion, CongestionControl, CongestionSignal};

choices! {
    /// Loss rate p(w) at which the window stays near w.
    pub enum LossRate {
        /// A straight line, on logarithmic scales, from `low_p` at `low_window` to `high_p` at `high_window`.
        TwoPoints = "two-points",
        /// 0.078/w^1.2, which is the line for the default points with rounded coefficients. The table in the RFC is
        /// computed with this formula.
        Rounded = "rounded",
        /// A straight line from 1.5/`low_window`², which is Reno's own loss rate, so that a(w) increases from 1 without
        /// a step (ns-2).
        Continuous = "continuous",
    }
}

choices! {
    /// Size of a reduction of the window.
    pub enum Decrease {
        /// The fraction b(w) of the window, as in congestion avoidance.
        ByWindow = "by-window",
        /// Half of the window, regardless of its size.
        Half = "half",
    }
}

choices! {
    /// Size of the reduction if the window is at most `low_window`.
    pub enum LowWindowReduction {
        /// Half of the window.
        Half = "half",
        /// One minus b(w) of the last reduction above `low_window`. For example, after a reduction by a fraction of 0.3
        /// above `low_window`, a reduction below `low_window` leaves a fraction of 0.3 of the window (ns-2, where
        /// `decrease_num_` is used as the remaining fraction but set to the removed fraction).
        AllButLast = "all-but-last",
    }
}

parameters! {
    /// HighSpeed TCP: behaves like Reno up to `low_window`; above `low_window`, increases are larger and decreases are
    /// smaller.
    pub struct Config {
        /// Window up to which the window increases and decreases as with Reno (`Low_Window`), in segments.
        pub low_window: f64 = 38.0, "RFC 3649, section 5";
        /// Loss rate at `low_window` (`Low_P`); used only by `two-points`.
        pub low_p: f64 = 1e-3, "RFC 3649, section 5";
        /// Window at the loss rate `high_p` (`High_Window`), in segments.
        pub high_window: f64 = 83_000.0, "RFC 3649, section 5";
        /// Loss rate at `high_window` (`High_P`).
        pub high_p: f64 = 1e-7, "RFC 3649, section 5";
        /// Fraction of the window that a loss removes at `high_window` (`High_Decrease`).
        pub high_decrease: f64 = 0.1, "RFC 3649, section 7";
        /// Loss rate p(w) at which the window stays near w.
        pub loss_rate: LossRate = LossRate::TwoPoints, "RFC 3649, section 5";
        /// Size of the first reduction of a connection, and of any reduction in slow start.
        pub slow_start_reduction: Decrease = Decrease::ByWindow, "RFC 3649, section 7; ns-2: half";
        /// Size of the reduction of `ssthresh` at a timeout.
        pub timeout_reduction: Decrease = Decrease::Half, "RFC 5681, equation (4)";
        /// Size of the reduction if the window is at most `low_window`.
        pub low_window_reduction: LowWindowReduction = LowWindowReduction::Half, "RFC 3649, section 7";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
        /// Phases in which Limited Slow-Start applies.
        pub limited_slow_start: LimitedSlowStart = LimitedSlowStart::BelowSsthresh, "RFC 3742, section 2";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        let low = self.low_window;
        ConfigError::unless(
            (1.0..MAX_WINDOW).contains(&low),
            "low_window",
            "must be from 1 to 1000000000 segments",
        )?;
        let above = self.high_window > low && self.high_window <= MAX_WINDOW;
        ConfigError::unless(
            above,
            "high_window",
            "must be above low_window and at most 1000000000 segments",
        )?;
        ConfigError::unless(self.low_p > 0.0 && self.low_p < 1.0, "low_p", "must be between 0 and 1")?;
        let falls = self.high_p > 0.0 && self.high_p < self.low_loss();
        ConfigError::unless(falls, "high_p", "must be above 0 and below the loss rate at low_window")?;
        let decrease = self.high_decrease > 0.0 && self.high_decrease <= 0.5;
        ConfigError::unless(decrease, "high_decrease", "must be above 0 and at most 0.5")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn limited_slow_start(&self) -> LimitedSlowStart {
        self.limited_slow_start
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(HighSpeed {
            response: Response::new(self),
            is_reduced: false,
            last_share: 0.5,
            slow_start_reduction: self.slow_start_reduction,
            timeout_reduction: self.timeout_reduction,
            low_window_reduction: self.low_window_reduction,
        })
    }
}

impl Config {
    /// Returns a(w), the increase per round trip of a window of `window` segments, in segments.
    pub fn increase(&self, window: f64) -> f64 {
        Response::new(self).increase(window)
    }

    /// Returns b(w), the fraction of a window of `window` segments that a loss removes.
    pub fn decrease(&self, window: f64) -> f64 {
        Response::new(self).decrease(window)
    }

    /// Returns the loss rate at `low_window`.
    fn low_loss(&self) -> f64 {
        match self.loss_rate {
            LossRate::Continuous => 1.5 / (self.low_window * self.low_window),
            LossRate::TwoPoints | LossRate::Rounded => self.low_p,
        }
    }
}

/// The congestion control of one sender.
struct HighSpeed {
    response: Response,
    /// Whether the window has already been reduced.
    is_reduced: bool,
    /// b(w) at the last reduction above `low_window`.
    last_share: f64,
    slow_start_reduction: Decrease,
    timeout_reduction: Decrease,
    low_window_reduction: LowWindowReduction,
}

impl CongestionControl for HighSpeed {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if ack.may_grow && window.slow_start(ack.counted).is_none() {
            window.add(ack.counted * self.response.increase(window.cwnd) / window.cwnd);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        let is_early = !self.is_reduced || window.in_slow_start();
        let rule = match congestion.signal {
            CongestionSignal::Timeout => self.timeout_reduction,
            _ if is_early => self.slow_start_reduction,
            _ => Decrease::ByWindow,
        };
        self.is_reduced = true;
        let by_window = self.share(window.cwnd);
        let share = if rule == Decrease::Half { 0.5 } else { by_window };
        window.reduce(congestion.basis - share * congestion.basis);
    }
}

impl HighSpeed {
    /// Returns the fraction by which a window of `cwnd` segments is reduced in congestion avoidance.
    fn share(&mut self, cwnd: f64) -> f64 {
        if cwnd > self.response.low_window {
            self.last_share = self.response.decrease(cwnd);
            return self.last_share;
        }
        match self.low_window_reduction {
            LowWindowReduction::Half => 0.5,
            LowWindowReduction::AllButLast => 1.0 - self.last_share,
        }
    }
}

/// The functions a(w) and b(w). ln p(w) and b(w) are both linear in ln w.
struct Response {
    low_window: f64,
    high_decrease: f64,
    /// b(w) = `decrease` + `decrease_slope` ln w.
    decrease: f64,
    decrease_slope: f64,
    /// ln p(w) = `loss` + `loss_slope` ln w.
    loss: f64,
    loss_slope: f64,
}

impl Response {
    fn new(config: &Config) -> Self {
        let low = libm::log(config.low_window);
        let width = libm::log(config.high_window) - low;
        let decrease_slope = (config.high_decrease - 0.5) / width;
        let (loss, loss_slope) = match config.loss_rate {
            LossRate::Rounded => (libm::log(0.078), -1.2),
            LossRate::TwoPoints | LossRate::Continuous => {
                let low_loss = libm::log(config.low_loss());
                let slope = (libm::log(config.high_p) - low_loss) / width;
                (low_loss - slope * low, slope)
            }
        };
        Self {
            low_window: config.low_window,
            high_decrease: config.high_decrease,
            decrease: 0.5 - decrease_slope * low,
            decrease_slope,
            loss,
            loss_slope,
        }
    }

    fn decrease(&self, window: f64) -> f64 {
        if window <= self.low_window { 0.5 } else { self.decrease_at(libm::log(window)) }
    }

    #[inline]
    fn increase(&self, window: f64) -> f64 {
        if window <= self.low_window {
            return 1.0;
        }
        let log = libm::log(window);
        let loss = libm::exp(self.loss + self.loss_slope * log);
        // 2b / (2 - b), computed with one division.
        (window * window * loss / (1.0 / self.decrease_at(log) - 0.5)).max(1.0)
    }

    /// Returns b(w) for a window w above `low_window`. `log` is ln w.
    fn decrease_at(&self, log: f64) -> f64 {
        (self.decrease + self.decrease_slope * log).max(self.high_decrease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::{Controller, SlowStartEnd, SsthreshRounding};
    use crate::testing::{ack, loss, repeated_timeout, timeout};

    /// Returns the options that correspond to the source code of ns-2.
    fn ns2() -> Config {
        let window = WindowRules {
            ssthresh_rounding: SsthreshRounding::Down,
            slow_start_end: SlowStartEnd::PastThreshold,
            ..WindowRules::default()
        };
        Config {
            loss_rate: LossRate::Continuous,
            slow_start_reduction: Decrease::Half,
            low_window_reduction: LowWindowReduction::AllButLast,
            window,
            ..Config::default()
        }
    }

    fn state(controller: &Controller) -> (f64, f64) {
        (controller.cwnd(), controller.ssthresh())
    }

    #[test]
    fn a_reduction_removes_the_share_of_the_window_size() {
        let mut controller = Controller::new(&Config::default(), 1000.0, 1e9);
        controller.on_congestion(&loss(1000.0));
        let left = 1000.0 * (1.0 - Config::default().decrease(1000.0));
        assert!(
            (controller.cwnd() - left).abs() < 1e-9 && controller.ssthresh() == controller.cwnd(),
            "{}",
            controller.cwnd()
        );
        controller.on_congestion(&timeout(600.0));
        assert_eq!(state(&controller), (1.0, 300.0));
        controller.on_congestion(&repeated_timeout());
        assert_eq!(state(&controller), (1.0, 300.0));
    }

    #[test]
    fn the_form_of_ns_2_halves_first_and_in_slow_start() {
        let mut controller = Controller::new(&ns2(), 1001.0, 2.0);
        controller.on_congestion(&loss(1001.0));
        assert_eq!(state(&controller), (500.5, 500.0));
        controller.on_congestion(&loss(500.5));
        let left = 500.5 * (1.0 - ns2().decrease(500.5));
        assert!((controller.cwnd() - left).abs() < 1e-9, "{}", controller.cwnd());
        assert_eq!(controller.ssthresh(), libm::floor(left));
        controller.cap(100.0);
        controller.on_congestion(&loss(100.0));
        assert_eq!(state(&controller), (50.0, 50.0));
    }

    #[test]
    fn the_form_of_ns_2_leaves_the_last_share_of_a_low_window() {
        let mut controller = Controller::new(&ns2(), 2000.0, 2.0);
        controller.on_congestion(&loss(2000.0));
        // The reduction at a timeout counts as the last reduction, although the timeout halves the window.
        let share = ns2().decrease(1000.0);
        controller.on_congestion(&timeout(60.0));
        controller.cap(30.0);
        while controller.cwnd() < controller.ssthresh() {
            controller.on_ack(&ack(1.0));
        }
        assert_eq!(state(&controller), (30.0, 30.0));
        controller.on_congestion(&loss(30.0));
        assert!((controller.cwnd() - share * 30.0).abs() < 1e-9, "{}", controller.cwnd());
    }

    #[test]
    fn timeouts_remove_b_of_w_with_by_window() {
        let config = Config { timeout_reduction: Decrease::ByWindow, ..Config::default() };
        let mut controller = Controller::new(&config, 1000.0, 2.0);
        controller.on_congestion(&timeout(1000.0));
        assert!((controller.ssthresh() - 1000.0 * (1.0 - config.decrease(1000.0))).abs() < 1e-9);
    }

    #[test]
    fn invalid_points_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        assert_eq!(path(Config { low_window: 0.0, ..Config::default() }), "low_window");
        assert_eq!(path(Config { high_window: 38.0, ..Config::default() }), "high_window");
        assert_eq!(path(Config { low_p: f64::NAN, ..Config::default() }), "low_p");
        assert_eq!(path(Config { high_p: 1e-2, ..Config::default() }), "high_p");
        assert_eq!(path(Config { high_decrease: 0.6, ..Config::default() }), "high_decrease");
        for low_p in [0.0, 1.0] {
            assert_eq!(path(Config { low_p, ..Config::default() }), "low_p", "{low_p}");
        }
        for high_p in [0.0, Config::default().low_p] {
            assert_eq!(path(Config { high_p, ..Config::default() }), "high_p", "{high_p}");
        }
        assert_eq!(path(Config { high_decrease: 0.0, ..Config::default() }), "high_decrease");
        let widest = Config { high_window: 1e9, high_decrease: 0.5, ..Config::default() };
        assert!(widest.check().is_ok(), "the largest valid values");
        assert!(Config::default().check().is_ok() && ns2().check().is_ok());
    }
}
