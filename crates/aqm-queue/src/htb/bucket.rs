//! The two token buckets of a class: one bucket for the guaranteed rate, and one bucket for the ceiling.
//!
//! As in the kernel, tokens are counted in nanoseconds of transmission time at the bucket's rate. A bucket may go into
//! debt, because a whole packet may be sent whenever the bucket is not in debt.

use aqm_net::{Instant, Pace, Rate, Size};

/// The state of a class (`htb_cmode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The class has used up its `ceil` tokens and cannot send.
    CannotSend,
    /// The class has used up its `rate` tokens, and sends with tokens that are borrowed from its parent.
    MayBorrow,
    /// The class sends with its own tokens.
    CanSend,
}

/// The maximum debt of a bucket, and the maximum idle time for which a bucket accumulates tokens, in nanoseconds, as in
/// the kernel.
const MEMORY: i64 = 60_000_000_000;

/// A token bucket.
#[derive(Clone, Debug)]
struct Bucket {
    pace: Pace,
    capacity: i64,
    tokens: i64,
}

impl Bucket {
    fn new(rate: Rate, burst: Size) -> Self {
        let pace = rate.pace();
        let capacity = pace.time_for(burst.bytes()).nanos() as i64;
        Self { pace, capacity, tokens: capacity }
    }

    fn take(&mut self, bytes: u64, elapsed: i64) {
        let tokens = (self.tokens + elapsed).min(self.capacity) - self.pace.time_for(bytes).nanos() as i64;
        self.tokens = tokens.max(1 - MEMORY);
    }
}

/// The two buckets of a class, and the class's mode.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    rate: Bucket,
    ceil: Bucket,
    changed_at: Instant,
    /// The mode of the class when the mode was last checked.
    pub mode: Mode,
    hysteresis: bool,
}

impl Buckets {
    /// Creates full buckets.
    pub fn new([rate, ceil]: [Rate; 2], [burst, cburst]: [Size; 2], hysteresis: bool) -> Self {
        Self {
            rate: Bucket::new(rate, burst),
            ceil: Bucket::new(ceil, cburst),
            changed_at: Instant::START,
            mode: Mode::CanSend,
            hysteresis,
        }
    }

    /// Removes tokens for `bytes` from both buckets, or only from the `ceil` bucket if the class sent with borrowed
    /// tokens.
    pub fn charge(&mut self, bytes: u64, borrowed: bool, now: Instant) {
        let elapsed = self.elapsed(now);
        if borrowed {
            self.rate.tokens += elapsed;
        } else {
            self.rate.take(bytes, elapsed);
        }
        self.ceil.take(bytes, elapsed);
        self.changed_at = now;
    }

    /// Returns the mode at `now`, and the number of nanoseconds after which the mode may change if no further packets
    /// are sent (`htb_class_mode`). The number is 0 if the mode will not change.
    pub fn class_mode(&self, now: Instant) -> (Mode, i64) {
        let elapsed = self.elapsed(now);
        // With hysteresis, a class leaves a mode only when its debt reaches a whole burst.
        let threshold =
            |has_mode: bool, bucket: &Bucket| if self.hysteresis && has_mode { -bucket.capacity } else { 0 };
        let ceil = self.ceil.tokens + elapsed;
        if ceil < threshold(self.mode != Mode::CannotSend, &self.ceil) {
            return (Mode::CannotSend, -ceil);
        }
        let rate = self.rate.tokens + elapsed;
        if rate >= threshold(self.mode == Mode::CanSend, &self.rate) {
            return (Mode::CanSend, 0);
        }
        (Mode::MayBorrow, -rate)
    }

    fn elapsed(&self, now: Instant) -> i64 {
        (now.since(self.changed_at).nanos() as i64).min(MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(hysteresis: bool) -> Buckets {
        let (rate, ceil) = (Rate::from_bps(8_000_000), Rate::from_bps(16_000_000));
        Buckets::new([rate, ceil], [Size::from_bytes(1600); 2], hysteresis)
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_class_sends_then_borrows_then_stops_and_recovers_in_reverse_order() {
        let mut class = buckets(false);
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        // The transmission of 1000 B takes 1 ms at the class's `rate` and 0.5 ms at the class's `ceil`. The burst sizes
        // correspond to 1.6 ms at `rate` and 0.8 ms at `ceil`.
        class.charge(1000, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        class.charge(1000, false, at(0));
        assert_eq!(class.class_mode(at(0)), (Mode::CannotSend, 200_000));
        assert_eq!(class.class_mode(at(200)), (Mode::MayBorrow, 200_000));
        assert_eq!(class.class_mode(at(400)).0, Mode::CanSend);
    }

    #[test]
    fn borrowed_bytes_use_no_tokens_of_the_rate_bucket() {
        let mut class = buckets(false);
        class.charge(1000, true, at(0));
        class.charge(600, true, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        class.charge(1, true, at(0));
        assert_eq!(class.class_mode(at(0)), (Mode::CannotSend, 500));
    }

    #[test]
    fn with_hysteresis_a_class_exceeds_its_rate_by_up_to_its_burst() {
        let mut class = buckets(true);
        class.charge(3200, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend, "a debt of exactly one burst");
        class.charge(1, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CannotSend);
        class.mode = Mode::CannotSend;
        assert_eq!(
            class.class_mode(at(799)).0,
            Mode::CannotSend,
            "a stopped class waits until its debt is repaid"
        );
    }

    #[test]
    fn at_most_one_burst_of_tokens_accumulates() {
        let mut class = buckets(false);
        class.charge(1600, false, at(60_000_000));
        class.charge(1, false, at(60_000_000));
        assert_eq!(class.class_mode(at(60_000_000)), (Mode::CannotSend, 500));
    }
}
