//! Scalable TCP: each acknowledgement adds a fixed step to the window, and a loss removes an eighth of the window, so
//! that the recovery time does not depend on the rate.
//!
//! T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks", ACM Computer Communication Review
//! 33(2), 2003. If a loss occurs once every 1/p segments, the time average of the window is a / (-ln(1 - b)) / p =
//! 0.0749/p.
//!
//! aqmlab's choice where the source does not specify the behaviour: after a timeout, `ssthresh` is half of the basis of
//! the reduction, as in RFC 5681.

use aqm_net::{ConfigError, parameters};

use super::slow_start::MAX_WINDOW;
use super::window::{Window, WindowRules};
use super::{AckInfo, AnyControl, Build, Congestion, CongestionControl, CongestionSignal};

parameters! {
    /// Scalable TCP: each acknowledgement adds a fixed step to the window, and a loss removes a fixed fraction of the
    /// window; a small window behaves as with Reno.
    pub struct Config {
        /// Growth per acknowledgement (`a`), in segments.
        pub increase: f64 = 0.01, "Kelly 2003";
        /// Fraction of the window that a loss removes (`b`).
        pub decrease: f64 = 0.125, "Kelly 2003";
        /// Legacy window (`lwnd`), in segments: up to this size, the window grows and is reduced as with Reno.
        pub legacy_window: f64 = 16.0, "Kelly 2003";
        /// Rules for slow start and for the rounding of a reduced window.
        #[serde(flatten)]
        pub window: WindowRules = WindowRules::default();
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(
            self.increase > 0.0 && self.increase <= 1.0,
            "increase",
            "must be above 0 and at most 1",
        )?;
        ConfigError::unless(
            self.decrease > 0.0 && self.decrease < 1.0,
            "decrease",
            "must be between 0 and 1",
        )?;
        let sensible = (0.0..=MAX_WINDOW).contains(&self.legacy_window);
        ConfigError::unless(sensible, "legacy_window", "must be from 0 to 1000000000 segments")?;
        self.window.check()
    }

    fn window_rules(&self) -> WindowRules {
        self.window.clone()
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Scalable {
            increase: self.increase,
            decrease: self.decrease,
            legacy_window: self.legacy_window,
        })
    }
}

/// The congestion control of one sender.
struct Scalable {
    increase: f64,
    decrease: f64,
    legacy_window: f64,
}

impl CongestionControl for Scalable {
    fn on_ack(&mut self, window: &mut Window, ack: &AckInfo) {
        if !ack.may_grow || window.slow_start(ack.counted).is_some() {
            return;
        }
        if window.cwnd <= self.legacy_window {
            window.add(ack.counted / window.cwnd);
        } else {
            window.add(self.increase * ack.counted);
        }
    }

    fn reduce(&mut self, window: &mut Window, congestion: &Congestion) {
        let is_legacy = congestion.signal == CongestionSignal::Timeout || window.cwnd <= self.legacy_window;
        let share = if is_legacy { 0.5 } else { self.decrease };
        window.reduce(congestion.basis - share * congestion.basis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::Controller;
    use crate::testing::{ack, loss, timeout};

    fn scalable(cwnd: f64) -> Controller {
        Controller::new(&Config::default(), cwnd, 2.0)
    }

    #[test]
    fn a_hundred_acknowledgements_add_a_segment_and_a_loss_removes_an_eighth() {
        let mut controller = scalable(200.0);
        for _ in 0..100 {
            controller.on_ack(&ack(1.0));
        }
        assert!((controller.cwnd() - 201.0).abs() < 1e-9);
        controller.on_congestion(&loss(200.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (175.0, 175.0));
        controller.on_congestion(&timeout(100.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 50.0));
    }

    #[test]
    fn a_window_up_to_the_legacy_window_follows_reno() {
        let mut controller = scalable(16.0);
        controller.on_ack(&ack(1.0));
        assert_eq!(controller.cwnd(), 16.0625);
        controller.cap(10.0);
        controller.on_congestion(&loss(10.0));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (5.0, 5.0));
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let path = |config: Config| config.check().unwrap_err().path;
        assert_eq!(path(Config { decrease: 1.0, ..Config::default() }), "decrease");
        assert_eq!(path(Config { increase: f64::NAN, ..Config::default() }), "increase");
        assert_eq!(path(Config { legacy_window: -1.0, ..Config::default() }), "legacy_window");
        let window = WindowRules { max_ssthresh: Some(0.0), ..WindowRules::default() };
        assert_eq!(path(Config { window, ..Config::default() }), "max_ssthresh");
    }
}
