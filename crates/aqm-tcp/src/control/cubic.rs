//! CUBIC: after a loss, back to the old window along a cubic curve of time, flat near it, steep beyond.
//!
//! L. Xu, S. Ha, I. Rhee, V. Goel, L. Eggert (eds.), "CUBIC for Fast and Long-Distance Networks", RFC 9438,
//! 2023, section 4. HyStart++ (4.10) and the response to spurious events (4.9) are not here.
//!
//! Ours, where the source is silent: time on the curve is summed up from acknowledgement to
//! acknowledgement, each step at most the smoothed round-trip time (a longer one was idle time in part) and
//! none while the window may not grow, so no epoch can begin in the future and no idle time counts; an
//! acknowledgement never closes the window; a cap ends the epoch, and a new one begins with the next acknowledgement
//! in congestion avoidance.

use aqm_net::{ConfigError, Instant, Span, parameters};

use super::slow_start::{
    LimitedSlowStart, MAX_WINDOW, MIN_SSTHRESH, SlowStart, SlowStartEnd, SsthreshRounding, check,
};
use super::{AckInfo, Build, Congestion, CongestionControl, Sign, Start};

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
        /// Whether a flow that loses before its old window leaves room for newcomers.
        pub fast_convergence: bool = true, "RFC 9438, section 4.7";
        /// What a reduced window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 9438, section 4.6";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
        /// The window above which slow start is limited (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        check(self.c > 0.0 && self.c <= MAX_WINDOW, "c", "must be above 0, at most 1000000000")?;
        check(self.beta > 0.0 && self.beta < 1.0, "beta", "must be between 0 and 1")?;
        SlowStart::check(self.max_ssthresh)
    }

    fn build(&self, start: Start) -> Box<dyn CongestionControl> {
        let limited = LimitedSlowStart::BelowSsthresh;
        Box::new(Cubic {
            window: start.window,
            ssthresh: start.ssthresh,
            slow_start: SlowStart::new(self.slow_start_end, self.max_ssthresh, limited),
            c: self.c,
            beta: self.beta,
            rounding: self.ssthresh_rounding,
            reno_step: 3.0 * (1.0 - self.beta) / (1.0 + self.beta), // section 4.3, `α_cubic`
            tcp_friendliness: self.tcp_friendliness,
            fast_convergence: self.fast_convergence,
            w_max: None,
            prior: 0.0,
            epoch: None,
        })
    }
}

/// The running law.
pub struct Cubic {
    window: f64,
    ssthresh: f64,
    slow_start: SlowStart,
    c: f64,
    beta: f64,
    rounding: SsthreshRounding,
    reno_step: f64,
    tcp_friendliness: bool,
    fast_convergence: bool,
    /// `W_max`; `None` before the first loss and after a time-out.
    w_max: Option<f64>,
    /// `cwnd_prior`: the window when `ssthresh` was last set.
    prior: f64,
    epoch: Option<Epoch>,
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
    #[inline]
    fn window(&self) -> f64 {
        self.window
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_open(&mut self, start: Start) {
        self.window = start.window;
        self.ssthresh = start.ssthresh;
        (self.w_max, self.prior, self.epoch) = (None, 0.0, None);
    }

    fn on_ack(&mut self, ack: AckInfo) {
        if !ack.may_grow {
            if let Some(epoch) = &mut self.epoch {
                epoch.last = ack.now;
            }
            return;
        }
        match self.slow_start.grow(self.window, self.ssthresh, ack.counted) {
            Some(window) => self.window = window,
            None => self.avoid(ack),
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        let before = self.w_max.unwrap_or(0.0);
        let yields = self.fast_convergence && self.window < before;
        self.w_max = Some(if yields { self.window * (1.0 + self.beta) / 2.0 } else { self.window });
        let reduced = self.reduce(congestion.basis);
        // Section 4.6: marks alone may take the window down to a segment.
        let floor = if congestion.sign == Sign::Mark { 1.0 } else { MIN_SSTHRESH };
        let exact = self.rounding == SsthreshRounding::Exact;
        self.window = if exact { (self.beta * congestion.basis).max(floor) } else { reduced };
    }

    fn on_timeout(&mut self, congestion: Congestion) {
        if !congestion.repeated {
            self.reduce(congestion.basis);
        }
        // Section 4.8: the next stage begins with `K` = 0 and `W_max` as its own first window.
        self.w_max = None;
        self.epoch = None;
        self.window = 1.0;
    }

    fn cap(&mut self, window: f64, _now: Instant) {
        self.window = self.window.min(window);
        self.epoch = None;
    }

    fn restore(&mut self, window: f64, ssthresh: f64) {
        self.window = self.window.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.epoch = None;
    }
}

impl Cubic {
    /// Sets `ssthresh` (section 4.6) and ends the epoch; returns the window that rounding leaves.
    fn reduce(&mut self, basis: f64) -> f64 {
        self.prior = self.window;
        let (window, ssthresh) = self.rounding.reduce(self.beta * basis);
        self.ssthresh = ssthresh;
        self.epoch = None;
        window
    }

    /// Congestion avoidance: sections 4.2 to 4.5.
    fn avoid(&mut self, ack: AckInfo) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin(ack.now));
        let gap = ack.now.since(epoch.last);
        epoch.time = epoch.time + ack.srtt.map_or(gap, |srtt| gap.min(srtt));
        epoch.last = ack.now;
        let step = if epoch.reno >= self.prior { 1.0 } else { self.reno_step };
        epoch.reno += step * ack.acked / self.window;

        let time = epoch.time.seconds();
        if self.tcp_friendliness && self.curve(&epoch, time) < epoch.reno {
            self.window = self.window.max(epoch.reno);
        } else {
            let ahead = time + ack.srtt.map_or(0.0, Span::seconds);
            let target = self.curve(&epoch, ahead).clamp(self.window, 1.5 * self.window);
            self.window += ack.counted * (target - self.window) / self.window;
        }
        self.epoch = Some(epoch);
    }

    /// A new epoch from the present window.
    fn begin(&mut self, now: Instant) -> Epoch {
        // Without an older and larger window, the curve starts where it is flat.
        let origin = self.w_max.unwrap_or(0.0).max(self.window);
        self.w_max = Some(origin);
        let k = libm::cbrt((origin - self.window) / self.c);
        Epoch { origin, k, time: Span::ZERO, last: now, reno: self.window }
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

    const RTT: Span = Span::from_millis(100);

    fn cubic(config: &Config, window: f64) -> Box<dyn CongestionControl> {
        config.build(Start { window, ssthresh: 2.0 })
    }

    fn loss(basis: f64) -> Congestion {
        Congestion { now: Instant::START, sign: Sign::Loss, basis, repeated: false }
    }

    /// Acknowledges `count` segments from `now` on, seventy a round trip.
    fn acknowledge(law: &mut dyn CongestionControl, now: Instant, count: u32) -> Instant {
        let mut now = now;
        for _ in 0..count {
            now += Span::from_nanos(RTT.nanos() / 70);
            law.on_ack(AckInfo { now, acked: 1.0, counted: 1.0, may_grow: true, srtt: Some(RTT) });
        }
        now
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_a_mark_may_leave_a_segment() {
        let mut law = cubic(&Config::default(), 100.0);
        law.on_congestion(loss(50.0));
        assert_eq!((law.window(), law.ssthresh()), (35.0, 35.0));
        law.on_congestion(loss(2.0));
        assert_eq!((law.window(), law.ssthresh()), (2.0, 2.0));
        law.on_congestion(Congestion { sign: Sign::Mark, ..loss(2.0) });
        assert_eq!((law.window(), law.ssthresh()), (1.4, 2.0));
        law.on_congestion(Congestion { sign: Sign::Mark, ..loss(1.4) });
        assert_eq!((law.window(), law.ssthresh()), (1.0, 2.0));
    }

    #[test]
    fn fast_convergence_lowers_the_plateau_of_a_flow_that_lost_early() {
        let plateau = |fast_convergence| {
            let config = Config { fast_convergence, tcp_friendliness: false, ..Config::default() };
            let mut law = cubic(&config, 100.0);
            law.on_congestion(loss(100.0));
            law.on_congestion(loss(70.0));
            // K is 2.97 s with fast convergence and 3.74 s without; 3.3 s is on the plateau of both.
            acknowledge(&mut *law, Instant::START, 2310);
            law.window()
        };
        assert!((plateau(true) - 59.5).abs() < 0.3, "{}", plateau(true));
        assert!((plateau(false) - 70.0).abs() < 0.3, "{}", plateau(false));
    }

    #[test]
    fn after_a_time_out_the_curve_is_flat_at_its_beginning() {
        let mut law = cubic(&Config { tcp_friendliness: false, ..Config::default() }, 100.0);
        law.on_timeout(loss(100.0));
        assert_eq!((law.window(), law.ssthresh()), (1.0, 70.0));
        law.on_timeout(Congestion { repeated: true, ..loss(1.0) });
        assert_eq!((law.window(), law.ssthresh()), (1.0, 70.0));
        let now = acknowledge(&mut *law, Instant::START, 69);
        assert_eq!(law.window(), 70.0);
        acknowledge(&mut *law, now, 701);
        // A second of congestion avoidance, and a round trip ahead: C 1.1^3 at most.
        assert!(law.window() > 70.35 && law.window() < 70.54, "{}", law.window());
    }

    #[test]
    fn what_makes_no_curve_is_refused() {
        let place = |config: Config| config.check().unwrap_err().place;
        assert_eq!(place(Config { c: 0.0, ..Config::default() }), "c");
        assert_eq!(place(Config { beta: 1.0, ..Config::default() }), "beta");
        assert_eq!(place(Config { max_ssthresh: Some(f64::NAN), ..Config::default() }), "max_ssthresh");
    }
}
