//! A window of a fixed size, which neither acknowledgements nor losses change. This is the simplest congestion control:
//! it is an example for new congestion controls, and tests use it if they need a constant window.

use aqm_net::{ConfigError, parameters};

use super::slow_start::MAX_WINDOW;
use super::{AckInfo, AnyControl, Build, Congestion, CongestionControl, Window};

parameters! {
    /// A window of a fixed size.
    pub struct Config {
        /// Window, in segments.
        pub window: f64 = 10.0, "aqmlab's choice";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        ConfigError::unless(
            (1.0..=MAX_WINDOW).contains(&self.window),
            "window",
            "must be from 1 to 1000000000 segments",
        )
    }

    fn build(&self) -> AnyControl {
        AnyControl::of(Fixed { size: self.window })
    }
}

/// The congestion control of one sender.
struct Fixed {
    size: f64,
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, window: &mut Window, _ack: &AckInfo) {
        window.cwnd = self.size;
    }

    fn reduce(&mut self, window: &mut Window, _congestion: &Congestion) {
        window.cwnd = self.size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion_control::Controller;
    use crate::testing::{ack, loss};

    #[test]
    fn the_window_is_constant() {
        let mut fixed = Controller::new(&Config { window: 4.0 }, 4.0, 100.0);
        fixed.on_ack(&ack(3.0));
        fixed.on_congestion(&loss(4.0));
        assert_eq!((fixed.cwnd(), fixed.ssthresh()), (4.0, 100.0));
    }

    #[test]
    fn a_window_below_a_segment_is_rejected() {
        assert_eq!(Config { window: 0.0 }.check().unwrap_err().path, "window");
    }
}
