//! Scalable TCP: a fixed step an acknowledgement, an eighth off on loss, so recovery takes the same time at
//! any rate.
//!
//! T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM Computer
//! Communication Review 33(2), 2003. With one loss every 1/p segments the window, averaged
//! over time, is a / (-ln(1 - b)) / p: 0.0749/p.
//!
//! Ours, where the source is silent: after a time-out `ssthresh` is half the basis, as RFC 5681 has it.

use aqm_net::{ConfigError, Instant, parameters};

use super::slow_start::{LimitedSlowStart, MAX_WINDOW, SlowStart, SlowStartEnd, SsthreshRounding, check};
use super::{AckInfo, Build, Congestion, CongestionControl, Start};

parameters! {
    /// Scalable TCP: the window grows by a fixed step an acknowledgement and loses a fixed share on loss;
    /// a small window follows Reno.
    pub struct Config {
        /// What an acknowledgement adds (`a`), in segments.
        pub increase: f64 = 0.01, "Kelly 2003";
        /// The share of the window that a loss takes (`b`).
        pub decrease: f64 = 0.125, "Kelly 2003";
        /// The legacy window (`lwnd`), in segments: up to it, the law is Reno's.
        pub legacy_window: f64 = 16.0, "Kelly 2003";
        /// What a reduced window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 5681, equation (4)";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
        /// The window above which slow start is limited (`max_ssthresh`), in segments.
        pub max_ssthresh: Option<f64> = None, "RFC 3742, section 2: optional, 100 if used";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        check(self.increase > 0.0 && self.increase <= 1.0, "increase", "must be above 0, at most 1")?;
        check(self.decrease > 0.0 && self.decrease < 1.0, "decrease", "must be between 0 and 1")?;
        let sensible = (0.0..=MAX_WINDOW).contains(&self.legacy_window);
        check(sensible, "legacy_window", "must be 0 to 1000000000 segments")?;
        SlowStart::check(self.max_ssthresh)
    }

    fn build(&self, start: Start) -> Box<dyn CongestionControl> {
        let limited = LimitedSlowStart::BelowSsthresh;
        Box::new(Scalable {
            window: start.window,
            ssthresh: start.ssthresh,
            slow_start: SlowStart::new(self.slow_start_end, self.max_ssthresh, limited),
            rounding: self.ssthresh_rounding,
            increase: self.increase,
            decrease: self.decrease,
            legacy_window: self.legacy_window,
        })
    }
}

/// The running law.
pub struct Scalable {
    window: f64,
    ssthresh: f64,
    slow_start: SlowStart,
    rounding: SsthreshRounding,
    increase: f64,
    decrease: f64,
    legacy_window: f64,
}

impl CongestionControl for Scalable {
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
    }

    fn on_ack(&mut self, ack: AckInfo) {
        if !ack.may_grow {
            return;
        }
        self.window = match self.slow_start.grow(self.window, self.ssthresh, ack.counted) {
            Some(window) => window,
            None if self.window <= self.legacy_window => self.window + ack.counted / self.window,
            None => self.window + self.increase * ack.counted,
        };
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        let share = if self.window <= self.legacy_window { 0.5 } else { self.decrease };
        let left = congestion.basis - share * congestion.basis;
        (self.window, self.ssthresh) = self.rounding.reduce(left);
    }

    fn on_timeout(&mut self, congestion: Congestion) {
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

    fn law(window: f64) -> Box<dyn CongestionControl> {
        Config::default().build(Start { window, ssthresh: 2.0 })
    }

    fn ack(counted: f64) -> AckInfo {
        AckInfo { now: Instant::START, acked: counted, counted, may_grow: true, srtt: None }
    }

    fn loss(basis: f64) -> Congestion {
        Congestion { now: Instant::START, sign: Sign::Loss, basis, repeated: false }
    }

    #[test]
    fn a_hundred_acknowledgements_add_a_segment_and_a_loss_takes_an_eighth() {
        let mut law = law(200.0);
        for _ in 0..100 {
            law.on_ack(ack(1.0));
        }
        assert!((law.window() - 201.0).abs() < 1e-9);
        law.on_congestion(loss(200.0));
        assert_eq!((law.window(), law.ssthresh()), (175.0, 175.0));
        law.on_timeout(loss(100.0));
        assert_eq!((law.window(), law.ssthresh()), (1.0, 50.0));
    }

    #[test]
    fn a_window_up_to_the_legacy_window_follows_reno() {
        let mut law = law(16.0);
        law.on_ack(ack(1.0));
        assert_eq!(law.window(), 16.0625);
        law.cap(10.0, Instant::START);
        law.on_congestion(loss(10.0));
        assert_eq!((law.window(), law.ssthresh()), (5.0, 5.0));
    }

    #[test]
    fn a_share_that_leaves_nothing_is_refused() {
        let place = |config: Config| config.check().unwrap_err().place;
        assert_eq!(place(Config { decrease: 1.0, ..Config::default() }), "decrease");
        assert_eq!(place(Config { increase: f64::NAN, ..Config::default() }), "increase");
        assert_eq!(place(Config { legacy_window: -1.0, ..Config::default() }), "legacy_window");
        assert_eq!(place(Config { max_ssthresh: Some(0.0), ..Config::default() }), "max_ssthresh");
    }
}
