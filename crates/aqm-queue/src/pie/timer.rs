//! A periodic timer that is evaluated lazily: each call processes all expiries since the previous call.

use aqm_net::{Instant, Span};

/// A timer that expires at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    /// Time of the next expiry.
    next: Instant,
}

impl Timer {
    /// Creates a timer that first expires at `first`.
    pub(crate) const fn new(first: Instant) -> Self {
        Self { next: first }
    }

    /// Processes all expiries up to and including `now`. The time between expiries is `interval`. At each expiry, `act`
    /// updates `state`. If `act` does not change `state`, the remaining expiries up to `now` are skipped, because they
    /// would not change `state` either.
    #[inline]
    pub(crate) fn catch_up<S: Copy + PartialEq>(
        &mut self,
        now: Instant,
        interval: Span,
        state: &mut S,
        act: impl FnMut(&mut S, Instant),
    ) {
        if self.next <= now {
            self.process(now, interval, state, act);
        }
    }

    #[cold]
    fn process<S: Copy + PartialEq>(
        &mut self,
        now: Instant,
        interval: Span,
        state: &mut S,
        mut act: impl FnMut(&mut S, Instant),
    ) {
        while self.next <= now {
            let before = *state;
            act(state, self.next);
            self.next += interval;
            if *state == before && self.next <= now {
                let skipped = now.since(self.next).nanos() / interval.nanos() + 1;
                self.next += interval.saturating_mul(skipped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ticks_up_to_now_are_processed() {
        let interval = Span::from_nanos(10);
        let mut timer = Timer::new(Instant::from_nanos(25));
        let mut count = 0;
        for (now, expected) in [(24, 0), (25, 1), (34, 1), (35, 2), (74, 5), (75, 6)] {
            timer.catch_up(Instant::from_nanos(now), interval, &mut count, |count, _| *count += 1);
            assert_eq!(count, expected, "at {now}");
        }
    }

    #[test]
    fn ticks_without_effect_are_skipped_and_the_next_tick_is_correct() {
        let interval = Span::from_nanos(10);
        let mut timer = Timer::new(Instant::from_nanos(25));
        let (mut state, mut calls) = (3, 0);
        let century = Instant::from_nanos(3_000_000_000_000_000_000);
        timer.catch_up(century, interval, &mut state, |state, _| {
            calls += 1;
            *state = (*state - 1).max(0);
        });
        assert_eq!((state, calls), (0, 4));
        assert_eq!(timer, Timer::new(Instant::from_nanos(3_000_000_000_000_000_005)));
    }
}
