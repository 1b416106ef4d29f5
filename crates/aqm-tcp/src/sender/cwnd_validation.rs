//! Records how much of the congestion window is used, because an unused window does not grow.
//!
//! G. Fairhurst, A. Sathiaseelan, R. Secchi, "Updating TCP to Support Rate-Limited Traffic", RFC 7661, 2015, section 4
//! (rationale); Linux: `tcp_cwnd_validate` and `tcp_is_cwnd_limited` (implementation).

/// Use of the congestion window during the last round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CwndUsage {
    /// Whether the whole window was used (`is_cwnd_limited`).
    is_limited: bool,
    /// Maximum number of bytes in flight in this round trip (`max_packets_out`).
    max_in_flight: u64,
    /// Sequence number until which `is_limited` and `max_in_flight` are valid. Both fields expire when all data below
    /// this number is acknowledged (`cwnd_usage_seq`).
    until: u64,
    /// Sequence number that followed all sent data when `note` was last called.
    sent: u64,
}

impl CwndUsage {
    /// Records the use of the window after all permitted data has been sent. All data below `sent` has been sent, and
    /// all data below `una` has been acknowledged. `is_full` states whether the window is full.
    pub fn note(&mut self, una: u64, sent: u64, is_full: bool) {
        if !is_full && sent == self.sent {
            return;
        }
        self.sent = sent;
        let in_flight = sent - una;
        if una >= self.until || is_full || (!self.is_limited && in_flight > self.max_in_flight) {
            *self = Self { is_limited: is_full, max_in_flight: in_flight, until: sent, sent };
        }
    }

    /// Returns whether a window of `cwnd` bytes may grow. The window may grow if the whole window was used. In slow
    /// start, the window may also grow if more than half of the window was used.
    pub fn may_grow(&self, in_slow_start: bool, cwnd: u64) -> bool {
        self.is_limited || (in_slow_start && cwnd < 2 * self.max_in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_was_full_may_grow_until_that_round_trip_is_acknowledged() {
        let mut usage = CwndUsage::default();
        usage.note(0, 10_000, true);
        usage.note(4000, 10_500, false);
        assert!(usage.may_grow(false, 10_000), "the round trip has not ended");
        usage.note(10_000, 12_000, false);
        assert!(!usage.may_grow(false, 10_000), "the next round trip used 2000 of 10000");
    }

    #[test]
    fn in_slow_start_more_than_half_of_the_window_is_enough() {
        let mut usage = CwndUsage::default();
        usage.note(0, 5000, false);
        assert!(usage.may_grow(true, 9999) && !usage.may_grow(true, 10_000));
        assert!(!usage.may_grow(false, 9999));
    }

    #[test]
    fn the_maximum_in_flight_counts_and_not_the_last_value() {
        let mut usage = CwndUsage::default();
        usage.note(0, 6000, false);
        usage.note(5000, 7000, false);
        assert!(usage.may_grow(true, 11_999));
        usage.note(5500, 12_000, false);
        assert!(usage.may_grow(true, 12_999) && !usage.may_grow(true, 13_000));
    }

    #[test]
    fn without_new_data_the_usage_is_unchanged() {
        let mut usage = CwndUsage::default();
        usage.note(0, 6000, false);
        usage.note(6000, 6000, false);
        assert!(usage.may_grow(true, 11_999), "an acknowledgement alone does not end the round trip");
    }

    #[test]
    fn an_equal_amount_in_flight_does_not_extend_the_round_trip() {
        let mut usage = CwndUsage::default();
        usage.note(0, 6000, false);
        usage.note(500, 6500, false);
        usage.note(6000, 7000, false);
        assert!(
            usage.may_grow(true, 1999) && !usage.may_grow(true, 2000),
            "a new round trip, which used 1000"
        );
    }
}
