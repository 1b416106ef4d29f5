//! The two token buckets of a class: what it may send by itself, and what it may send at all.
//!
//! Tokens are nanoseconds of sending at the rate of the bucket, as in the kernel; both may be in debt, since a
//! packet is sent whole as soon as there is no debt.

use aqm_net::{Instant, Pace, Rate, Size};

/// What a class may do (`htb_cmode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing: it has sent what its `ceil` allows.
    CannotSend,
    /// Send what the class above it lends: it has sent what its `rate` allows.
    MayBorrow,
    /// Send.
    CanSend,
}

/// Longest time for which a bucket remembers debt or absence, as in the kernel.
const MEMORY: i64 = 60_000_000_000;

/// A bucket.
#[derive(Clone, Debug)]
struct Bucket {
    pace: Pace,
    most: i64,
    tokens: i64,
}

impl Bucket {
    fn new(rate: Rate, burst: Size) -> Self {
        let pace = rate.pace();
        let most = pace.time_for(burst.bytes()).nanos() as i64;
        Self { pace, most, tokens: most }
    }

    fn take(&mut self, bytes: u64, elapsed: i64) {
        let tokens = (self.tokens + elapsed).min(self.most) - self.pace.time_for(bytes).nanos() as i64;
        self.tokens = tokens.max(1 - MEMORY);
    }
}

/// Both buckets of a class, and the mode that follows from them.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    rate: Bucket,
    ceil: Bucket,
    changed_at: Instant,
    /// What the class may do, as far as it was looked at.
    pub mode: Mode,
    hysteresis: bool,
}

impl Buckets {
    /// Full buckets.
    pub fn new([rate, ceil]: [Rate; 2], [burst, cburst]: [Size; 2], hysteresis: bool) -> Self {
        Self {
            rate: Bucket::new(rate, burst),
            ceil: Bucket::new(ceil, cburst),
            changed_at: Instant::START,
            mode: Mode::CanSend,
            hysteresis,
        }
    }

    /// Takes `bytes` out of both buckets; of the `ceil` bucket alone if they were borrowed.
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

    /// The mode at `now`, and the nanoseconds until it may change by itself (`htb_class_mode`): 0
    /// if it will not.
    pub fn class_mode(&self, now: Instant) -> (Mode, i64) {
        let elapsed = self.elapsed(now);
        // With hysteresis a class leaves a mode only when it is a whole burst in debt.
        let kept = |keeps: bool, bucket: &Bucket| if self.hysteresis && keeps { -bucket.most } else { 0 };
        let ceil = self.ceil.tokens + elapsed;
        if ceil < kept(self.mode != Mode::CannotSend, &self.ceil) {
            return (Mode::CannotSend, -ceil);
        }
        let rate = self.rate.tokens + elapsed;
        if rate >= kept(self.mode == Mode::CanSend, &self.rate) {
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
    fn a_class_sends_by_itself_then_borrows_then_stops_and_recovers_in_turn() {
        let mut class = buckets(false);
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        // 1000 B take 1 ms of its rate and 0.5 ms of its ceil; bursts are 1.6 ms and 0.8 ms.
        class.charge(1000, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        class.charge(1000, false, at(0));
        assert_eq!(class.class_mode(at(0)), (Mode::CannotSend, 200_000));
        assert_eq!(class.class_mode(at(200)), (Mode::MayBorrow, 200_000));
        assert_eq!(class.class_mode(at(400)).0, Mode::CanSend);
    }

    #[test]
    fn what_is_borrowed_is_not_paid_from_the_rate() {
        let mut class = buckets(false);
        class.charge(1000, true, at(0));
        class.charge(600, true, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend);
        class.charge(1, true, at(0));
        assert_eq!(class.class_mode(at(0)), (Mode::CannotSend, 500));
    }

    #[test]
    fn with_hysteresis_a_class_overruns_by_up_to_its_burst() {
        let mut class = buckets(true);
        class.charge(3200, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CanSend, "in debt by a burst, no more");
        class.charge(1, false, at(0));
        assert_eq!(class.class_mode(at(0)).0, Mode::CannotSend);
        class.mode = Mode::CannotSend;
        assert_eq!(class.class_mode(at(799)).0, Mode::CannotSend, "once stopped it waits for all tokens");
    }

    #[test]
    fn no_more_than_a_burst_is_saved_up() {
        let mut class = buckets(false);
        class.charge(1600, false, at(60_000_000));
        class.charge(1, false, at(60_000_000));
        assert_eq!(class.class_mode(at(60_000_000)), (Mode::CannotSend, 500));
    }
}
