//! CUBIC: after a loss, the window returns to its previous size along a cubic function of time. This function is flat
//! near the previous size and steep beyond it.
//!
//! L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert (eds.), "CUBIC for Fast and Long-Distance Networks", RFC 9438, 2023,
//! section 4. HyStart (`hystart.rs`) and growth in whole segments (`cubic_segments.rs`) are optional and follow Linux
//! (`tcp_cubic.c`).
//!
//! The following parts of RFC 9438 are optional here: restoring the curve after a spurious loss (`spurious_loss`,
//! section 4.9.2), HyStart++ (`slow_start_exit`, section 4.10) and PRR (`recovery.reduction`, section 4.6). The
//! following parts are not implemented:
//!
//! - Congestion Window Validation (RFC 7661) for rate-limited senders (section 4.6, optional). Instead, an unused
//!   window does not grow (`cwnd.growth_when_limited`).
//! - The response of RFC 4015 to a spurious timeout, which also adapts the retransmission timer (section 4.9.1,
//!   optional). A spurious timeout restores the same state as a spurious loss.
//! - The use of the retransmission timer to send less than one segment per round trip if marks continue to arrive when
//!   the window is one segment (section 4.6, a MUST in RFC 9438).
//!
//! aqmlab's choices where the source does not specify the behaviour: The time on the curve is the sum of the gaps
//! between acknowledgements. Each gap is limited to the smoothed round-trip time, because a longer gap includes idle
//! time. No time passes while the window may not grow. Therefore, no epoch can begin in the future, and idle time is
//! not counted. An acknowledgement never lowers the window. A call to `cap` ends the epoch, and a new epoch begins with
//! the next acknowledgement in congestion avoidance.

use aqm_net::{ConfigError, Instant, Span, choices, parameters};

use super::cubic_segments::WholeSegments;
use super::hystart::{HyStart, LinuxHyStart};
use super::reno::{Growth, check_beta_ecn};
use super::slow_start::MAX_WINDOW;
use super::window::{Window, WindowRules};
use super::{
    AckInfo, AckSample, AnyControl, Build, Congestion, CongestionControl, CongestionSignal, WindowEvent,
};
use crate::arithmetic::Limited;

choices! {
    /// Curve that the window follows after a reduction is undone.
    pub enum SpuriousLoss {
        /// A new curve begins at the restored window.
        NewCurve = "new-curve",
        /// If the window is still smaller than before the reduction, the curve that applied before the reduction
        /// continues (RFC 9438, section 4.9.2). Requires `growth = "fractions"`.
        Restore = "restore",
    }
}

impl SpuriousLoss {
    /// Returns whether the value is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::NewCurve
    }
}

parameters! {
    /// CUBIC: the window is a cubic function of the time since the last reduction, but at least as large as Reno's.
    pub struct Config {
        /// Steepness of the curve (`C`), in segments per second cubed.
        pub c: f64 = 0.4, "RFC 9438, section 5.1";
        /// Fraction of the window that remains after a loss or mark (`β_cubic`).
        pub beta: f64 = 0.7, "RFC 9438, section 4.6";
        /// Whether the window is at least as large as that of an equivalent Reno sender (`W_est`).
        pub tcp_friendliness: bool = true, "RFC 9438, section 4.3";
        /// Whether a flow that suffers a loss before it reaches its previous window yields bandwidth to new flows.
        pub fast_convergence: bool = true, "RFC 9438, section 4.7";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
        /// Detector that ends slow start before the window reaches `ssthresh` or a loss occurs.
        pub hystart: HyStart = HyStart::Off, "RFC 9438, section 4.10: HyStart++ (`slow_start_exit`) or another detector is recommended";
        /// Growth of the window in congestion avoidance.
        pub growth: Growth = Growth::Fractions, "RFC 9438, sections 4.2 to 4.5";
        /// Fraction of the window that remains after a mark (ABE); by default, `beta`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub beta_ecn: Option<f64> = None, "RFC 9438, section 4.6: `beta`; RFC 8511, 3.1: 0.85 if used";
        /// Curve that the window follows after a reduction is undone (`recovery.undo`, `recovery.frto`).
        #[serde(skip_serializing_if = "SpuriousLoss::is_default")]
        pub spurious_loss: SpuriousLoss = SpuriousLoss::NewCurve, "aqmlab's choice; RFC 9438, section 4.9.2: optional";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(
            self.c > 0.0 && self.c <= MAX_WINDOW,
            "c",
            "must be above 0 and at most 1000000000",
        )?;
        ConfigError::unless(self.beta > 0.0 && self.beta < 1.0, "beta", "must be between 0 and 1")?;
        let has_one_exit = self.hystart == HyStart::Off || self.window.slow_start_exit.is_none();
        ConfigError::unless(has_one_exit, "hystart", "must be off with `slow_start_exit`")?;
        check_beta_ecn(self.beta_ecn)?;
        let has_curve = self.spurious_loss.is_default() || self.growth == Growth::Fractions;
        ConfigError::unless(has_curve, "spurious_loss", "must be new-curve with `growth = \"segments\"`")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn build(&self) -> AnyControl {
        let avoidance = match self.growth {
            Growth::Fractions => Avoidance::Fractions(Fractions::new(self)),
            Growth::Segments => Avoidance::Segments(WholeSegments::new(self)),
        };
        let hystart = (self.hystart == HyStart::Linux).then(LinuxHyStart::new);
        let beta_ecn = self.beta_ecn.unwrap_or(self.beta);
        AnyControl::of(Cubic { beta: self.beta, beta_ecn, avoidance, hystart })
    }
}

/// Minimum window after a mark, in segments (section 4.6).
const MIN_MARKED_WINDOW: f64 = 1.0;

/// The congestion control of one sender.
struct Cubic {
    beta: f64,
    beta_ecn: f64,
    avoidance: Avoidance,
    hystart: Option<LinuxHyStart>,
}

/// Growth of the window in congestion avoidance.
enum Avoidance {
    Fractions(Fractions),
    Segments(WholeSegments),
}

/// Growth by fractions of a segment (RFC 9438).
struct Fractions {
    c: f64,
    beta: f64,
    reno_step: f64,
    tcp_friendliness: bool,
    fast_convergence: bool,
    /// `W_max`; `None` before the first loss and after a timeout.
    w_max: Option<f64>,
    /// `cwnd_prior`, which is the window at the last change of `ssthresh`.
    prior: f64,
    epoch: Option<Epoch>,
    /// State before the last reduction, if the curve is restored when a reduction is undone.
    undo: Option<Undo>,
    restores: bool,
    /// Window after the last acknowledgement or reduction, in segments.
    cwnd: f64,
}

/// State before a reduction (section 4.9.2).
#[derive(Clone, Copy)]
struct Undo {
    cwnd: f64,
    w_max: Option<f64>,
    prior: f64,
    epoch: Option<Epoch>,
}

/// An epoch of congestion avoidance.
#[derive(Clone, Copy)]
struct Epoch {
    /// `W_max`, the plateau of the curve.
    origin: f64,
    /// `K`, the time until the plateau, in seconds.
    k: f64,
    /// `t`.
    time: CurveTime,
    /// `W_est`.
    reno: f64,
}

impl Epoch {
    /// `W_cubic(t)`, section 4.2.
    fn curve(&self, c: f64, time: f64) -> f64 {
        let past = time - self.k;
        c * past * past * past + self.origin
    }
}

/// Total time during which the window was permitted to grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurveTime {
    /// Total time.
    pub total: Span,
    /// Time of the last acknowledgement.
    last: Instant,
}

impl CurveTime {
    /// Starts at the time `now` with a total of zero.
    pub fn from(now: Instant) -> Self {
        Self { total: Span::ZERO, last: now }
    }

    /// Adds the time since the last acknowledgement, but at most one round-trip time. Called for an acknowledgement
    /// that may open the window.
    pub fn advance(&mut self, ack: &AckInfo) {
        let gap = ack.now.since(self.last);
        self.total = self.total + ack.srtt.map_or(gap, |srtt| gap.min(srtt));
        self.last = ack.now;
    }

    /// Excludes the time before an acknowledgement that arrives at `now` and may not open the window.
    pub fn pause(&mut self, now: Instant) {
        self.last = now;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if !ack.may_grow {
            return match &mut self.avoidance {
                Avoidance::Fractions(fractions) => fractions.on_pause(ack.now),
                Avoidance::Segments(segments) => segments.on_pause(ack.now),
            };
        }
        let used = window.slow_start(ack.counted);
        let begins = match &mut self.avoidance {
            Avoidance::Fractions(fractions) => {
                let begins = used.is_none() && fractions.on_ack(window, ack);
                fractions.cwnd = window.cwnd;
                begins
            }
            Avoidance::Segments(segments) => {
                let left = ack.counted - used.unwrap_or(0.0);
                left > 0.0 && !window.in_slow_start() && segments.on_ack(window, ack, left)
            }
        };
        if let Some(hystart) = self.hystart.as_mut().filter(|_| begins) {
            hystart.on_avoidance(ack.now);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        match &mut self.avoidance {
            Avoidance::Fractions(fractions) => fractions.on_reduction(window.cwnd, congestion.signal),
            Avoidance::Segments(segments) => segments.on_reduction(window.cwnd),
        }
        if let Some(hystart) = &mut self.hystart {
            hystart.on_reduction();
        }
        match congestion.signal {
            CongestionSignal::Mark => {
                window.reduce_above(MIN_MARKED_WINDOW, self.beta_ecn * congestion.basis);
            }
            CongestionSignal::Loss | CongestionSignal::Timeout => window.reduce(self.beta * congestion.basis),
        }
        if let Avoidance::Fractions(fractions) = &mut self.avoidance {
            fractions.cwnd = window.cwnd;
        }
    }

    fn on_event(&mut self, event: WindowEvent) {
        let is_timeout = event == WindowEvent::Timeout;
        match &mut self.avoidance {
            Avoidance::Fractions(fractions) => fractions.on_event(event),
            Avoidance::Segments(segments) => segments.on_event(is_timeout),
        }
        if let Some(hystart) = self.hystart.as_mut().filter(|_| is_timeout) {
            hystart.on_timeout();
        }
    }

    fn uses_samples(&self) -> bool {
        self.hystart.is_some() || matches!(self.avoidance, Avoidance::Segments(_))
    }

    fn on_sample(&mut self, window: &mut Window, sample: &AckSample) {
        if let Some(hystart) = &mut self.hystart {
            hystart.on_sample(window, sample);
        }
        if let Avoidance::Segments(segments) = &mut self.avoidance {
            segments.on_sample(sample);
        }
    }
}

impl Fractions {
    fn new(config: &Config) -> Self {
        let Config { c, beta, tcp_friendliness, fast_convergence, .. } = *config;
        let reno_step = 3.0 * (1.0 - beta) / (1.0 + beta); // section 4.3, `α_cubic`
        Self {
            c,
            beta,
            reno_step,
            tcp_friendliness,
            fast_convergence,
            w_max: None,
            prior: 0.0,
            epoch: None,
            undo: None,
            restores: config.spurious_loss == SpuriousLoss::Restore,
            cwnd: 0.0,
        }
    }

    /// Processes an acknowledgement (sections 4.2 to 4.5). Returns whether congestion avoidance begins.
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) -> bool {
        let begins = self.epoch.is_none();
        if begins {
            self.begin(window.cwnd, ack.now);
        }
        let Some(epoch) = &mut self.epoch else { return false };
        epoch.time.advance(ack);
        let step = if epoch.reno >= self.prior { 1.0 } else { self.reno_step };
        epoch.reno += step * ack.acked / window.cwnd;

        let time = epoch.time.total.seconds();
        if self.tcp_friendliness && epoch.curve(self.c, time) < epoch.reno {
            window.cwnd = window.cwnd.at_least(epoch.reno);
        } else {
            let ahead = time + ack.srtt.map_or(0.0, Span::seconds);
            let target = epoch.curve(self.c, ahead).at_least(window.cwnd).at_most(1.5 * window.cwnd);
            window.cwnd += ack.counted * (target - window.cwnd) / window.cwnd;
        }
        begins
    }

    fn on_pause(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.time.pause(now);
        }
    }

    fn on_reduction(&mut self, cwnd: f64, signal: CongestionSignal) {
        self.undo =
            self.restores.then_some(Undo { cwnd, w_max: self.w_max, prior: self.prior, epoch: self.epoch });
        if signal != CongestionSignal::Timeout {
            let converges_fast = self.fast_convergence && cwnd < self.w_max.unwrap_or(0.0);
            self.w_max = Some(if converges_fast { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd });
        }
        self.prior = cwnd;
        self.epoch = None;
    }

    fn on_event(&mut self, event: WindowEvent) {
        match event {
            // Section 4.8: in the next stage, `K` is 0, and `W_max` is the window at the start of the stage.
            WindowEvent::Timeout => (self.epoch, self.w_max, self.cwnd) = (None, None, 1.0),
            WindowEvent::Undone if self.restores => {
                if let Some(undo) = self.undo.take().filter(|undo| self.cwnd < undo.cwnd) {
                    (self.w_max, self.prior, self.epoch) = (undo.w_max, undo.prior, undo.epoch);
                }
            }
            WindowEvent::Undone | WindowEvent::Capped => self.epoch = None,
        }
    }

    /// Begins an epoch with a window of `cwnd` segments.
    #[inline(never)]
    fn begin(&mut self, cwnd: f64, now: Instant) {
        // If no previous window was larger, the curve starts at its plateau.
        let origin = self.w_max.unwrap_or(0.0).max(cwnd);
        self.w_max = Some(origin);
        let k = libm::cbrt((origin - cwnd) / self.c);
        self.epoch = Some(Epoch { origin, k, time: CurveTime::from(now), reno: cwnd });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::Controller;
    use crate::testing::{ack_at, loss, mark, repeated_timeout, timeout};

    const RTT: Span = Span::from_millis(100);

    fn cubic(config: &Config, cwnd: f64) -> Controller {
        Controller::new(config, cwnd, 2.0)
    }

    /// Acknowledges `count` segments, beginning at `now`, at a rate of seventy segments per round trip.
    fn acknowledge(controller: &mut Controller, now: Instant, count: u32) -> Instant {
        let mut now = now;
        for _ in 0..count {
            now += Span::from_nanos(RTT.nanos() / 70);
            controller.on_ack(&ack_at(now, RTT));
        }
        now
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_a_mark_may_leave_one_segment() {
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
    fn with_abe_a_mark_leaves_more_of_the_window_than_a_loss() {
        let mut controller = cubic(&Config { beta_ecn: Some(0.85), ..Config::default() }, 100.0);
        controller.on_congestion(&mark(100.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (85.0, 85.0));
        controller.on_congestion(&loss(80.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (56.0, 56.0));
        let config = Config { beta_ecn: Some(1.0), ..Config::default() };
        assert_eq!(config.check().unwrap_err().path, "beta_ecn");
    }

    #[test]
    fn fast_convergence_lowers_the_plateau_of_a_flow_that_lost_early() {
        let plateau = |fast_convergence| {
            let config = Config { fast_convergence, tcp_friendliness: false, ..Config::default() };
            let mut controller = cubic(&config, 100.0);
            controller.on_congestion(&loss(100.0));
            controller.on_congestion(&loss(70.0));
            // K is 2.97 s with fast convergence and 3.74 s without fast convergence. At 3.3 s, both curves are close to
            // their plateaus.
            acknowledge(&mut controller, Instant::START, 2310);
            controller.cwnd()
        };
        assert!((plateau(true) - 59.5).abs() < 0.3, "{}", plateau(true));
        assert!((plateau(false) - 70.0).abs() < 0.3, "{}", plateau(false));
    }

    #[test]
    fn after_a_timeout_the_curve_begins_at_its_plateau() {
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&timeout(100.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 70.0));
        controller.on_congestion(&repeated_timeout());
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 70.0));
        let now = acknowledge(&mut controller, Instant::START, 69);
        assert_eq!(controller.cwnd(), 70.0);
        acknowledge(&mut controller, now, 701);
        // In one second of congestion avoidance plus one round trip, by which the target is ahead, the window grows by
        // at most C 1.1^3.
        assert!(controller.cwnd() > 70.35 && controller.cwnd() < 70.54, "{}", controller.cwnd());
    }

    #[test]
    fn a_timeout_discards_the_window_of_the_last_loss() {
        // RFC 9438, 4.8: `W_max` is then "the current congestion window size when starting this stage", and not 100.
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&loss(100.0));
        controller.on_congestion(&timeout(70.0));
        let now = acknowledge(&mut controller, Instant::START, 48);
        assert_eq!(controller.cwnd(), 49.0);
        acknowledge(&mut controller, now, 701);
        assert!(controller.cwnd() > 49.3 && controller.cwnd() < 49.54, "{}", controller.cwnd());
    }

    #[test]
    fn an_undone_reduction_begins_a_new_curve() {
        let mut controller = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        controller.on_congestion(&loss(100.0));
        let now = acknowledge(&mut controller, Instant::START, 700);
        assert!(controller.cwnd() > 70.0 && controller.cwnd() < 100.0);
        controller.restore(100.0, 100.0);
        controller.on_ack(&ack_at(now, RTT));
        acknowledge(&mut controller, now, 1401);
        // In two seconds plus one round trip, by which the target is ahead, the window grows by at most C 2.1^3.
        assert!(controller.cwnd() > 103.0 && controller.cwnd() < 103.71, "{}", controller.cwnd());
    }

    #[test]
    fn a_restored_curve_continues_as_if_nothing_had_been_lost() {
        // RFC 9438, 4.9.2: "Restoring the original values ensures that CUBIC's performance is similar to what it would
        // be without spurious losses."
        let run = |spurious_loss, signals: &[Congestion]| {
            let config = Config { spurious_loss, ..Config::default() };
            let mut controller = cubic(&config, 100.0);
            controller.on_congestion(&loss(100.0));
            let now = acknowledge(&mut controller, Instant::START, 700);
            let (cwnd, ssthresh) = (controller.cwnd(), controller.ssthresh());
            for signal in signals {
                controller.on_congestion(signal);
                controller.restore(cwnd, ssthresh);
            }
            acknowledge(&mut controller, now, 1500);
            controller.cwnd()
        };
        let undisturbed = run(SpuriousLoss::Restore, &[]);
        for signals in [&[loss(90.0)][..], &[timeout(90.0)], &[loss(90.0), loss(90.0)]] {
            assert_eq!(run(SpuriousLoss::Restore, signals), undisturbed);
            assert!(run(SpuriousLoss::NewCurve, signals) != undisturbed);
        }
    }

    #[test]
    fn a_window_that_has_outgrown_the_reduction_keeps_its_curve() {
        // RFC 9438, 4.9.2: "CUBIC SHOULD continue to use the current and the most recent values of these variables."
        let run = |spurious_loss, is_undone: bool| {
            let config = Config { spurious_loss, tcp_friendliness: false, ..Config::default() };
            let mut controller = cubic(&config, 10.0);
            controller.on_congestion(&loss(10.0));
            let now = acknowledge(&mut controller, Instant::START, 1400);
            assert!(controller.cwnd() > 10.0);
            if is_undone {
                controller.restore(10.0, 10.0);
            }
            acknowledge(&mut controller, now, 1400);
            controller.cwnd()
        };
        assert_eq!(run(SpuriousLoss::Restore, true), run(SpuriousLoss::Restore, false));
        assert!(run(SpuriousLoss::NewCurve, true) < run(SpuriousLoss::NewCurve, false));
    }

    #[test]
    fn only_growth_by_fractions_can_restore_the_curve() {
        let config =
            Config { spurious_loss: SpuriousLoss::Restore, growth: Growth::Segments, ..Config::default() };
        assert_eq!(config.check().unwrap_err().path, "spurious_loss");
    }

    #[test]
    fn the_reno_window_grows_by_all_acknowledged_segments() {
        // RFC 9438, figure 4: W_est + alpha_cubic * segments_acked / cwnd, where alpha_cubic is 1 once W_est has
        // reached cwnd_prior.
        for acked in [1.0, 2.0, 4.0] {
            let mut controller = cubic(&Config { c: 1e-9, ..Config::default() }, 100.0);
            controller.on_ack(&AckInfo { acked, ..ack_at(Instant::START, RTT) });
            assert_eq!(controller.cwnd(), 100.0 + acked / 100.0);
        }
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
                ack_sent_at: None,
                srtt: Some(RTT),
                delivered: 0,
                marked: 0,
                snd_una,
                snd_nxt: 1000,
                mss: 1448,
            });
            controller.on_ack(&ack_at(now, RTT));
            (controller.cwnd(), controller.ssthresh())
        };
        assert_eq!(tell(1), (41.0, 1e9));
        let (cwnd, ssthresh) = tell(2);
        assert_eq!(ssthresh, 41.0, "2 ms exceeds half of the sum of 2 ms and 1 ms");
        assert!(cwnd > 41.0 && cwnd < 41.1, "{cwnd}");
        let mut plain = cubic_in_slow_start(HyStart::Off, 40.0);
        acknowledge(&mut plain, Instant::START, 100);
        assert_eq!((plain.cwnd(), plain.ssthresh()), (140.0, 1e9));
    }

    fn cubic_in_slow_start(hystart: HyStart, cwnd: f64) -> Controller {
        Controller::new(&Config { hystart, ..Config::default() }, cwnd, 1e9)
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        assert_eq!(path(Config { c: 0.0, ..Config::default() }), "c");
        for beta in [0.0, 1.0] {
            assert_eq!(path(Config { beta, ..Config::default() }), "beta");
        }
        assert!(Config { c: 1e9, ..Config::default() }.check().is_ok(), "the largest valid value");
        let window = WindowRules { max_ssthresh: Some(f64::NAN), ..WindowRules::default() };
        assert_eq!(path(Config { window, ..Config::default() }), "max_ssthresh");
    }
}
