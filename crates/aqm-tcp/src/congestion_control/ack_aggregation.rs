//! Aggregation of acknowledgements: if a link or a host delays acknowledgements and then releases many at once, more
//! data is acknowledged than the bandwidth allows. BBR enlarges the window by this excess.
//!
//! Linux 6.1: `bbr_update_ack_aggregation`; draft-ietf-ccwg-bbr, section "BBR.extra_acked".

use aqm_net::Instant;

use crate::arithmetic::Limited;

/// Interval in which data is acknowledged at a higher rate than the bandwidth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckInterval {
    start: Instant,
    acked: f64,
}

impl AckInterval {
    /// Restarts the interval.
    pub fn restart(&mut self, now: Instant) {
        *self = Self { start: now, acked: 0.0 };
    }

    /// Restarts the clock of the interval, but keeps the acknowledged data.
    pub fn restart_time(&mut self, now: Instant) {
        self.start = now;
    }

    /// Records the newly acknowledged data `acked`, and returns the amount of data acknowledged in excess of
    /// `bandwidth`. If there was no excess before, the interval restarts.
    pub fn excess(&mut self, now: Instant, acked: f64, bandwidth: f64) -> f64 {
        let mut expected = bandwidth * now.since(self.start).seconds();
        if self.acked <= expected {
            self.restart(now);
            expected = 0.0;
        }
        self.acked += acked;
        self.acked - expected
    }
}

/// Maximum over the current and the previous window, where each window spans several rounds (Linux: `extra_acked`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoWindowMax {
    /// Maxima of the current and of the previous window.
    maxima: [f64; 2],
    rounds: u32,
}

impl TwoWindowMax {
    /// Counts a round. The current window ends after `length` rounds.
    pub fn on_round(&mut self, length: u32) {
        self.rounds += 1;
        if self.rounds >= length {
            *self = Self { maxima: [0.0, self.maxima[0]], rounds: 0 };
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, value: f64) {
        self.maxima[0] = self.maxima[0].at_least(value);
    }

    /// Returns the maximum over both windows.
    pub fn get(&self) -> f64 {
        self.maxima[0].at_least(self.maxima[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_excess_is_that_of_a_burst_and_ends_when_the_bandwidth_has_caught_up() {
        let mut interval = AckInterval::default();
        interval.restart(at(0));
        // The bandwidth is 1000 units per second. After 10 ms of silence, ten units arrive in two acknowledgements.
        assert_eq!(
            interval.excess(at(10), 5.0, 1000.0),
            5.0,
            "the interval restarts with the acknowledgement"
        );
        assert_eq!(interval.excess(at(10), 5.0, 1000.0), 10.0);
        assert_eq!(interval.excess(at(15), 1.0, 1000.0), 6.0);
        assert_eq!(interval.excess(at(30), 2.0, 1000.0), 2.0, "11 are fewer than the expected 20");
        interval.restart_time(at(40));
        assert_eq!(interval.excess(at(40), 3.0, 1000.0), 5.0);
    }

    #[test]
    fn a_maximum_lasts_for_one_to_two_windows() {
        let mut filter = TwoWindowMax::default();
        filter.add(7.0);
        for _ in 0..9 {
            filter.on_round(5);
            filter.add(1.0);
            assert_eq!(filter.get(), 7.0);
        }
        filter.on_round(5);
        assert_eq!(filter.get(), 1.0);
    }
}
