//! Aggregation of acknowledgements: data acknowledged in excess of the bandwidth, because a link or a host delays
//! acknowledgements and releases many at once. BBR enlarges the window by the excess.
//!
//! Linux 6.1: `bbr_update_ack_aggregation`; draft-ietf-ccwg-bbr, section "BBR.extra_acked".

use aqm_net::Instant;

/// Interval in which data is acknowledged faster than the bandwidth.
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

    /// Restarts the time of the interval, but not its data.
    pub fn restart_time(&mut self, now: Instant) {
        self.start = now;
    }

    /// Records `acked` newly acknowledged data. Returns the data acknowledged in excess of `bandwidth`. The interval
    /// restarts if there was no excess before.
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

/// Maximum over the current and the previous of two windows of some rounds (Linux: `extra_acked`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoWindowMax {
    /// Maxima of the current and of the previous window.
    maxima: [f64; 2],
    rounds: u32,
}

impl TwoWindowMax {
    /// Counts a round; the current window ends after `length` rounds.
    pub fn on_round(&mut self, length: u32) {
        self.rounds += 1;
        if self.rounds >= length {
            *self = Self { maxima: [0.0, self.maxima[0]], rounds: 0 };
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, value: f64) {
        self.maxima[0] = self.maxima[0].max(value);
    }

    /// Returns the maximum of both windows.
    pub fn get(&self) -> f64 {
        self.maxima[0].max(self.maxima[1])
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
        // 1000 per second: ten units after 10 ms of silence, in two acknowledgements.
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
