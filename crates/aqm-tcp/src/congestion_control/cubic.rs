//! CUBIC: after a loss, back to the old window along a cubic curve of time, flat near it, steep beyond.
//!
//! L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert (eds.), "CUBIC for Fast and Long-Distance Networks", RFC 9438,
//! 2023, section 4. HyStart++ (4.10) and the response to spurious events (4.9) are not here. As in Linux
//! (`tcp_cubic.c`), if the parameters say so: HyStart (`hystart.rs`), and a least growth while no loss has shown `W_max`.
//!
//! Ours, where the source is silent: time on the curve is summed up from acknowledgement to
//! acknowledgement, each step at most the smoothed round-trip time (a longer one was idle time in part) and
//! none while the window may not grow, so no epoch can begin in the future and no idle time counts; an
//! acknowledgement never closes the window; a cap ends the epoch, and a new one begins with the next acknowledgement
//! in congestion avoidance.

use aqm_net::{ConfigError, Instant, Span, choices, parameters};

use super::hystart::{HyStart, LinuxHyStart};
use super::slow_start::{MAX_WINDOW, SlowStart, SlowStartEnd};
use super::window::{SsthreshRounding, Window, WindowRules};
use super::{
    AckInfo, AckSample, Build, Congestion, CongestionControl, CongestionSignal, Controller, WindowEvent,
};

choices! {
    /// How the window of an equivalent Reno (`W_est`) grows.
    pub enum WEst {
        /// By less than a segment a round trip (`α_cubic`), which makes up for the smaller reduction; from the window
        /// before the reduction on by a whole one (RFC 9438, section 4.3).
        Rfc9438 = "rfc-9438",
        /// By less than a segment a round trip all the time (RFC 8312, section 4.2; Linux).
        Rfc8312 = "rfc-8312",
    }
}

parameters! {
    /// CUBIC: the window is a cubic curve of the time since the last reduction, and never less than
    /// Reno's would be.
    pub struct Config {
        /// How steep the curve is (`C`), in segments per second cubed.
        pub c: f64 = 0.4, "RFC 9438, section 5.1";
        /// The share of the window that is left after a loss or mark (`β_cubic`).
        pub beta: f64 = 0.7, "RFC 9438, section 4.6";
        /// Whether the window is at least that of an equivalent Reno (`W_est`).
        pub tcp_friendliness: bool = true, "RFC 9438, section 4.3";
        /// How the window of that Reno grows.
        pub w_est: WEst = WEst::Rfc9438, "RFC 9438, section 4.3";
        /// Whether a flow that loses before its old window leaves room for newcomers.
        pub fast_convergence: bool = true, "RFC 9438, section 4.7";
        /// What a reduced window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 9438, section 4.6";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
        /// The window above which slow start is limited (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
        /// What ends slow start before `ssthresh` or a loss does.
        pub hystart: HyStart = HyStart::Off, "RFC 9438, section 4.10: HyStart++ or another, recommended";
        /// The least growth in congestion avoidance while no loss has shown how large the window may be, that is after
        /// slow start ended early and after a time-out: segments per acknowledged segment.
        pub initial_growth: Option<f64> = None, "RFC 9438, figure 2: the curve alone; Linux 0.05";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(
            self.c > 0.0 && self.c <= MAX_WINDOW,
            "c",
            "must be above 0, at most 1000000000",
        )?;
        ConfigError::unless(self.beta > 0.0 && self.beta < 1.0, "beta", "must be between 0 and 1")?;
        let growth = self.initial_growth.is_none_or(|share| share > 0.0 && share <= MAX_INITIAL_GROWTH);
        ConfigError::unless(growth, "initial_growth", "must be above 0, at most 0.5")?;
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

    fn build(&self, window: Window) -> Box<Controller> {
        Controller::of(
            window,
            Cubic {
                c: self.c,
                beta: self.beta,
                reno_step: 3.0 * (1.0 - self.beta) / (1.0 + self.beta), // section 4.3, `α_cubic`
                tcp_friendliness: self.tcp_friendliness,
                w_est: self.w_est,
                fast_convergence: self.fast_convergence,
                w_max: None,
                prior: 0.0,
                epoch: None,
                initial_growth: self.initial_growth.unwrap_or(0.0),
                has_lost: false,
                hystart: (self.hystart == HyStart::Linux).then(LinuxHyStart::new),
            },
        )
    }
}

/// The least window that marks leave, in segments (section 4.6).
const MIN_MARKED_WINDOW: f64 = 1.0;

/// The most growth that the curve allows, too: half a window a round trip (section 4.4).
const MAX_INITIAL_GROWTH: f64 = 0.5;

/// The running congestion control.
struct Cubic {
    c: f64,
    beta: f64,
    reno_step: f64,
    tcp_friendliness: bool,
    w_est: WEst,
    fast_convergence: bool,
    /// `W_max`; `None` before the first loss and after a time-out.
    w_max: Option<f64>,
    /// `cwnd_prior`: the window when `ssthresh` was last set.
    prior: f64,
    epoch: Option<Epoch>,
    /// 0 if there is none.
    initial_growth: f64,
    /// Whether a loss or mark has shown how large the window may be, since the last time-out.
    has_lost: bool,
    hystart: Option<LinuxHyStart>,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Copy)]
struct Epoch {
    /// Where the curve is flat: `W_max`.
    origin: f64,
    /// `K`: when it gets there, in seconds.
    k: f64,
    /// `t`: how long the window could grow.
    time: Span,
    /// The last acknowledgement.
    last: Instant,
    /// `W_est`.
    reno: f64,
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if !ack.may_grow {
            if let Some(epoch) = &mut self.epoch {
                epoch.last = ack.now;
            }
        } else if window.slow_start(ack.counted).is_none() {
            self.avoid_congestion(window, ack);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        if congestion.signal != CongestionSignal::Timeout {
            let yields = self.fast_convergence && window.cwnd < self.w_max.unwrap_or(0.0);
            self.w_max = Some(if yields { window.cwnd * (1.0 + self.beta) / 2.0 } else { window.cwnd });
        }
        self.prior = window.cwnd;
        self.epoch = None;
        self.has_lost = true;
        if let Some(hystart) = &mut self.hystart {
            hystart.on_reduction();
        }
        let left = self.beta * congestion.basis;
        match congestion.signal {
            CongestionSignal::Mark => window.reduce_above(MIN_MARKED_WINDOW, left),
            CongestionSignal::Loss | CongestionSignal::Timeout => window.reduce(left),
        }
    }

    fn on_event(&mut self, event: WindowEvent) {
        self.epoch = None;
        if event == WindowEvent::Timeout {
            // Section 4.8: the next stage begins with `K` = 0 and `W_max` as its own first window.
            self.w_max = None;
            self.has_lost = false;
            if let Some(hystart) = &mut self.hystart {
                hystart.on_timeout();
            }
        }
    }

    fn wants_samples(&self) -> bool {
        self.hystart.is_some()
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_sample(window, sample);
        }
    }
}

impl Cubic {
    /// Sections 4.2 to 4.5.
    fn avoid_congestion(&mut self, window: &mut Window, ack: &AckInfo) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(window.cwnd, ack.now));
        let gap = ack.now.since(epoch.last);
        epoch.time = epoch.time + ack.srtt.map_or(gap, |srtt| gap.min(srtt));
        epoch.last = ack.now;
        let is_past = epoch.reno >= self.prior && self.w_est == WEst::Rfc9438;
        let step = if is_past { 1.0 } else { self.reno_step };
        epoch.reno += step * ack.acked / window.cwnd;

        let least = if self.has_lost { 0.0 } else { self.initial_growth * ack.counted };
        let least = window.cwnd + least;

        let time = epoch.time.seconds();
        if self.tcp_friendliness && self.curve(&epoch, time) < epoch.reno {
            window.cwnd = window.cwnd.max(epoch.reno);
        } else {
            let ahead = time + ack.srtt.map_or(0.0, Span::seconds);
            let target = self.curve(&epoch, ahead).clamp(window.cwnd, 1.5 * window.cwnd);
            window.cwnd += ack.counted * (target - window.cwnd) / window.cwnd;
        }
        window.cwnd = window.cwnd.max(least);
        self.epoch = Some(epoch);
    }

    /// A new epoch from a window of `cwnd` segments.
    fn begin(&mut self, cwnd: f64, now: Instant) -> Epoch {
        // Without an older and larger window, the curve starts where it is flat.
        let origin = self.w_max.unwrap_or(0.0).max(cwnd);
        self.w_max = Some(origin);
        if let Some(hystart) = &mut self.hystart {
            hystart.on_avoidance(now);
        }
        let k = libm::cbrt((origin - cwnd) / self.c);
        Epoch { origin, k, time: Span::ZERO, last: now, reno: cwnd }
    }

    /// `W_cubic(t)`, section 4.2.
    fn curve(&self, epoch: &Epoch, time: f64) -> f64 {
        let past = time - epoch.k;
        self.c * past * past * past + epoch.origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, loss, mark, repeated_timeout, timeout};

    const RTT: Span = Span::from_millis(100);

    fn cubic(config: &Config, cwnd: f64) -> Box<Controller> {
        Controller::new(config, cwnd, 2.0)
    }

    /// Acknowledges `count` segments from `now` on, seventy a round trip.
    fn acknowledge(controller: &mut Controller, now: Instant, count: u32) -> Instant {
        let mut now = now;
        for _ in 0..count {
            now += Span::from_nanos(RTT.nanos() / 70);
            controller.on_ack(&ack_at(now, RTT));
        }
        now
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_a_mark_may_leave_a_segment() {
        let mut controller = cubic(&Config::default(), 100.0);
        controller.on_congestion(&loss(50.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (35.0, 35.0));
        controller.on_congestion(&loss(2.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (2.0, 2.0));
        controller.on_congestion(&mark(2.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.4, 2.0));
        controller.on_congestion(&mark(1.4));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 2.0));
    }

    #[test]
    fn fast_convergence_lowers_the_plateau_of_a_flow_that_lost_early() {
        let plateau = |fast_convergence| {
            let config = Config { fast_convergence, tcp_friendliness: false, ..Config::default() };
            let mut controller = cubic(&config, 100.0);
            controller.on_congestion(&loss(100.0));
            controller.on_congestion(&loss(70.0));
            // K is 2.97 s with fast convergence and 3.74 s without; 3.3 s is on the plateau of both.
            acknowledge(&mut controller, Instant::START, 2310);
            controller.cwnd()
        };
        assert!((plateau(true) - 59.5).abs() < 0.3, "{}", plateau(true));
        assert!((plateau(false) - 70.0).abs() < 0.3, "{}", plateau(false));
    }

    #[test]
    fn after_a_time_out_the_curve_is_flat_at_its_beginning() {
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&timeout(100.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 70.0));
        controller.on_congestion(&repeated_timeout());
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 70.0));
        let now = acknowledge(&mut controller, Instant::START, 69);
        assert_eq!(controller.cwnd(), 70.0);
        acknowledge(&mut controller, now, 701);
        // A second of congestion avoidance, and a round trip ahead: C 1.1^3 at most.
        assert!(controller.cwnd() > 70.35 && controller.cwnd() < 70.54, "{}", controller.cwnd());
    }

    #[test]
    fn a_time_out_forgets_the_window_of_the_last_loss() {
        // RFC 9438, 4.8: "the current congestion window size when starting this stage" is `W_max` then, not 100.
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&loss(100.0));
        controller.on_congestion(&timeout(70.0));
        let now = acknowledge(&mut controller, Instant::START, 48);
        assert_eq!(controller.cwnd(), 49.0);
        acknowledge(&mut controller, now, 701);
        assert!(controller.cwnd() > 49.3 && controller.cwnd() < 49.54, "{}", controller.cwnd());
    }

    #[test]
    fn a_reduction_that_is_taken_back_begins_a_new_curve() {
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&loss(100.0));
        let now = acknowledge(&mut controller, Instant::START, 700);
        assert!(controller.cwnd() > 70.0 && controller.cwnd() < 100.0);
        controller.restore(100.0, 100.0);
        controller.on_ack(&ack_at(now, RTT));
        acknowledge(&mut controller, now, 1401);
        // Two seconds, and a round trip ahead: C 2.1^3 at most.
        assert!(controller.cwnd() > 103.0 && controller.cwnd() < 103.71, "{}", controller.cwnd());
    }

    #[test]
    fn the_window_of_reno_grows_by_all_that_an_acknowledgement_tells_of() {
        // RFC 9438, figure 4: W_est + alpha_cubic * segments_acked / cwnd, with alpha_cubic 1 from cwnd_prior on.
        for acked in [1.0, 2.0, 4.0] {
            let mut controller = cubic(&Config { c: 1e-9, ..Config::default() }, 100.0);
            controller.on_ack(&AckInfo { acked, ..ack_at(Instant::START, RTT) });
            assert_eq!(controller.cwnd(), 100.0 + acked / 100.0);
        }
    }

    #[test]
    fn the_window_of_reno_keeps_its_pace_by_rfc_8312() {
        // 3 (1 - 0.7) / (1 + 0.7) of a segment a round trip, where by RFC 9438 it is a whole one.
        let grown = |w_est| {
            let mut controller = cubic(&Config { c: 1e-9, w_est, ..Config::default() }, 100.0);
            controller.on_ack(&ack_at(Instant::START, RTT));
            100.0 * (controller.cwnd() - 100.0)
        };
        assert!((grown(WEst::Rfc9438) - 1.0).abs() < 1e-9);
        assert!((grown(WEst::Rfc8312) - 0.9 / 1.7).abs() < 1e-9);
    }

    #[test]
    fn until_a_loss_shows_the_window_it_grows_by_the_share_that_is_set() {
        let config = Config { initial_growth: Some(0.05), ..Config::default() };
        let mut controller = cubic(&config, 100.0);
        let mut now = acknowledge(&mut controller, Instant::START, 20);
        assert!((controller.cwnd() - 101.0).abs() < 1e-9, "a segment for each 20: {}", controller.cwnd());
        controller.on_congestion(&loss(101.0));
        now = acknowledge(&mut controller, now, 1);
        assert!(controller.cwnd() < 101.0 * 0.7 + 0.04, "{}", controller.cwnd());
        // A time-out forgets what the loss has shown.
        controller.on_congestion(&timeout(101.0));
        now = acknowledge(&mut controller, now, 100);
        let before = controller.cwnd();
        acknowledge(&mut controller, now, 20);
        assert!((controller.cwnd() - before - 1.0).abs() < 1e-9, "{before} to {}", controller.cwnd());
    }

    #[test]
    fn a_curve_that_is_steeper_than_the_first_growth_is_followed() {
        let grown = |initial_growth| {
            let mut controller = cubic(&Config { c: 1e3, initial_growth, ..Config::default() }, 100.0);
            acknowledge(&mut controller, Instant::START, 700);
            controller.cwnd()
        };
        let (curve, both) = (grown(None), grown(Some(0.01)));
        assert!(curve > 300.0 && (both / curve - 1.0).abs() < 0.01, "{curve} {both}");
    }

    #[test]
    fn hystart_ends_slow_start_and_the_curve_begins_with_the_same_acknowledgement() {
        let mut controller = cubic_in_slow_start(HyStart::Linux, 40.0);
        let mut now = Instant::START;
        let mut tell = |snd_una| {
            now += Span::from_millis(2);
            let newest = Some(now.earlier_by(Span::from_millis(2)));
            controller.on_sample(&AckSample {
                now,
                newest,
                srtt: Some(RTT),
                snd_una,
                snd_nxt: 1000,
                mss: 1448,
            });
            controller.on_ack(&ack_at(now, RTT));
            (controller.cwnd(), controller.ssthresh())
        };
        assert_eq!(tell(1), (41.0, 1e9));
        let (cwnd, ssthresh) = tell(2);
        assert_eq!(ssthresh, 41.0, "2 ms are more than half of 2 ms and 1 ms");
        assert!(cwnd > 41.0 && cwnd < 41.1, "{cwnd}");
        let mut plain = cubic_in_slow_start(HyStart::Off, 40.0);
        acknowledge(&mut plain, Instant::START, 100);
        assert_eq!((plain.cwnd(), plain.ssthresh()), (140.0, 1e9));
    }

    fn cubic_in_slow_start(hystart: HyStart, cwnd: f64) -> Box<Controller> {
        Controller::new(&Config { hystart, ..Config::default() }, cwnd, 1e9)
    }

    #[test]
    fn what_makes_no_curve_is_refused() {
        let place = |config: Config| config.check().unwrap_err().place;
        assert_eq!(place(Config { c: 0.0, ..Config::default() }), "c");
        for beta in [0.0, 1.0] {
            assert_eq!(place(Config { beta, ..Config::default() }), "beta");
        }
        assert!(Config { c: 1e9, ..Config::default() }.check().is_ok(), "the last that is allowed");
        for growth in [0.0, 0.6, f64::NAN] {
            assert_eq!(place(Config { initial_growth: Some(growth), ..Config::default() }), "initial_growth");
        }
        assert_eq!(place(Config { max_ssthresh: Some(f64::NAN), ..Config::default() }), "max_ssthresh");
    }
}
