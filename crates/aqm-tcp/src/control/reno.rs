//! Reno: add one segment a round trip, halve on loss, start again from one after a time-out.
//!
//! M. Allman, V. Paxson, E. Blanton, "TCP Congestion Control", RFC 5681, 2009, section 3.1 and
//! steps 2 and 4 of section 3.2; V. Jacobson, "Congestion Avoidance and Control", 1988.
//!
//! Ours, where the sources are silent: slow start stops at `ssthresh` exactly, as many stacks do;
//! congestion avoidance uses the RFC's equation (3), so delayed acknowledgements slow it down.

use aqm_net::{ConfigError, choices, parameters};

use super::{Ack, Build, Congestion, CongestionControl, Start};

choices! {
    /// What a halved window becomes.
    pub enum SsthreshRounding {
        /// `ssthresh` is half the basis, at least 2 segments, and the window falls to it.
        Exact = "exact",
        /// `ssthresh` is half the basis rounded down to whole segments, at least 2; the window
        /// keeps its fraction and may be below 2 (ns-2: `precisionReduce_ true`).
        Down = "down",
    }
}

choices! {
    /// What the acknowledgement does that takes slow start past `ssthresh`.
    pub enum SlowStartEnd {
        /// It opens the window no further than `ssthresh`.
        AtThreshold = "at-threshold",
        /// It opens the window by a whole segment (ns-2).
        PastThreshold = "past-threshold",
    }
}

parameters! {
    /// Reno: one segment more a round trip, half on loss, one segment after a time-out.
    pub struct Config {
        /// What a halved window becomes.
        pub ssthresh_rounding: SsthreshRounding = SsthreshRounding::Exact, "RFC 5681, equation (4)";
        /// Whether the last step of slow start may pass `ssthresh`.
        pub slow_start_end: SlowStartEnd = SlowStartEnd::AtThreshold, "ours; ns-3 does the same";
    }
}

impl Build for Config {
    fn check(&self) -> Result<(), ConfigError> {
        Ok(()) // every combination of its two choices makes sense
    }

    fn build(&self, start: Start) -> Box<dyn CongestionControl> {
        Box::new(Reno {
            window: start.window,
            ssthresh: start.ssthresh,
            rounding: self.ssthresh_rounding,
            end: self.slow_start_end,
        })
    }
}

/// The running law.
pub struct Reno {
    window: f64,
    ssthresh: f64,
    rounding: SsthreshRounding,
    end: SlowStartEnd,
}

/// The least `ssthresh`, in segments (RFC 5681, equation (4)).
const MIN_SSTHRESH: f64 = 2.0;

impl CongestionControl for Reno {
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

    fn on_ack(&mut self, ack: Ack) {
        if !ack.may_grow {
            return;
        }
        // At most one segment an acknowledgement, so splitting acknowledgements gains nothing.
        let acked = ack.acked.min(1.0);
        if self.window >= self.ssthresh {
            self.window += acked / self.window; // equation (3)
        } else if self.end == SlowStartEnd::AtThreshold {
            self.window = (self.window + acked).min(self.ssthresh); // equation (2)
        } else {
            self.window += acked;
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.halve(congestion.basis);
    }

    fn on_timeout(&mut self, congestion: Congestion) {
        if !congestion.repeated {
            self.halve(congestion.basis);
        }
        self.window = 1.0;
    }
}

impl Reno {
    fn halve(&mut self, basis: f64) {
        let half = basis / 2.0;
        match self.rounding {
            SsthreshRounding::Exact => {
                self.ssthresh = half.max(MIN_SSTHRESH);
                self.window = self.ssthresh;
            }
            SsthreshRounding::Down => {
                self.ssthresh = libm::floor(half).max(MIN_SSTHRESH);
                self.window = half;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm_net::Instant;

    fn reno(config: &Config, window: f64, ssthresh: f64) -> Box<dyn CongestionControl> {
        config.build(Start { window, ssthresh })
    }

    fn ack(acked: f64) -> Ack {
        Ack { now: Instant::START, acked, may_grow: true }
    }

    fn congestion(basis: f64) -> Congestion {
        Congestion { now: Instant::START, basis, repeated: false }
    }

    fn ns2() -> Config {
        Config { ssthresh_rounding: SsthreshRounding::Down, slow_start_end: SlowStartEnd::PastThreshold }
    }

    #[test]
    fn slow_start_adds_a_segment_an_acknowledgement_up_to_ssthresh() {
        let mut law = reno(&Config::default(), 2.0, 4.5);
        let windows: Vec<f64> = (0..3)
            .map(|_| {
                law.on_ack(ack(2.0));
                law.window()
            })
            .collect();
        assert_eq!(windows, [3.0, 4.0, 4.5]);
        let mut law = reno(&ns2(), 2.5, 3.0);
        law.on_ack(ack(1.0));
        assert_eq!(law.window(), 3.5);
    }

    #[test]
    fn splitting_acknowledgements_gains_nothing() {
        let mut law = reno(&Config::default(), 2.0, 100.0);
        for _ in 0..10 {
            law.on_ack(ack(0.1));
        }
        assert!((law.window() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn congestion_avoidance_adds_at_most_a_segment_a_window() {
        let mut law = reno(&Config::default(), 10.0, 2.0);
        for _ in 0..10 {
            law.on_ack(ack(1.0));
        }
        assert!(law.window() > 10.9 && law.window() <= 11.0, "{}", law.window());
    }

    #[test]
    fn loss_halves_and_a_time_out_starts_from_one() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_congestion(congestion(15.0));
        assert_eq!((law.window(), law.ssthresh()), (7.5, 7.5));
        law.on_timeout(congestion(3.0));
        assert_eq!((law.window(), law.ssthresh()), (1.0, 2.0));
        let mut law = reno(&ns2(), 20.0, 100.0);
        law.on_congestion(congestion(15.0));
        assert_eq!((law.window(), law.ssthresh()), (7.5, 7.0));
        law.on_congestion(congestion(3.0));
        assert_eq!((law.window(), law.ssthresh()), (1.5, 2.0));
    }

    #[test]
    fn a_repeated_time_out_leaves_ssthresh_alone() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_timeout(congestion(20.0));
        law.on_timeout(Congestion { repeated: true, ..congestion(1.0) });
        assert_eq!((law.window(), law.ssthresh()), (1.0, 10.0));
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let mut law = reno(&Config::default(), 20.0, 100.0);
        law.on_ack(Ack { may_grow: false, ..ack(1.0) });
        assert_eq!(law.window(), 20.0);
    }
}
