//! Limits the congestion window of a sender that does not use its whole window.
//!
//! M. Welzl, T. Henderson, G. Fairhurst, M. Tahiliani, "Increase of the Congestion Window when the Sender Is
//! Rate-Limited", draft-ietf-ccwg-ratelimited-increase-11, 2026, section 3 (the working group's repository, commit
//! 235b6eb). The window grows up to `limit(maxFS)`. `maxFS` is the largest amount of data in flight since the last
//! reduction of the window, and `limit(maxFS)` is the window that results from the successful transmission of this
//! amount: `2 maxFS` in slow start, and `maxFS + SMSS` in congestion avoidance.
//!
//! aqmlab's choices where the source is silent: the limit never reduces a window, for example when slow start ends with
//! a window of `2 maxFS`. In congestion avoidance, the limit is the same for all congestion controls, because the
//! amount of data in flight grows with the window if the sender uses its whole window. The amount of data in flight is
//! measured before each acknowledgement that may increase the window. While the limit prevents growth, CUBIC's clock
//! does not advance.

/// Maximum amount of data in flight since the last window reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaxFlight {
    /// Maximum number of segments in flight (`maxFS`).
    max: f64,
    /// Window after the last acknowledgement, in segments. If the current window is smaller, the window has been
    /// reduced.
    cwnd: f64,
}

impl MaxFlight {
    /// Creates the state for an initial window of `initial` segments.
    pub fn new(initial: f64) -> Self {
        Self { max: initial, cwnd: initial }
    }

    /// Records that `flight` segments were in flight before an acknowledgement arrived, and that the window is `cwnd`
    /// segments. Returns the maximum window, in segments.
    pub fn limit(&mut self, flight: f64, cwnd: f64, in_slow_start: bool) -> f64 {
        if cwnd < self.cwnd {
            self.max = 0.0;
        }
        self.max = self.max.max(flight);
        self.cwnd = cwnd;
        if in_slow_start { 2.0 * self.max } else { self.max + 1.0 }
    }

    /// Records the window after an acknowledgement, in segments.
    pub fn on_growth(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_counts_as_flight_until_a_reduction() {
        let mut flight = MaxFlight::new(10.0);
        assert_eq!(flight.limit(4.0, 10.0, true), 20.0);
        assert_eq!(flight.limit(12.0, 11.0, true), 24.0);
        assert_eq!(flight.limit(3.0, 12.0, false), 13.0);
        flight.on_growth(13.0);
        assert_eq!(flight.limit(3.0, 6.5, false), 4.0, "the window was halved");
        assert_eq!(flight.limit(6.0, 6.5, false), 7.0);
        assert_eq!(flight.limit(2.0, 6.5, false), 7.0);
    }
}
