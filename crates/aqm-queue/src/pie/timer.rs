//! A timer without a clock: what it would have done is made up on the next call.

use aqm_net::{Instant, Span};

/// Runs out at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    /// When it runs out next.
    due: Instant,
}

impl Timer {
    /// Runs out at `first` for the first time.
    pub(crate) const fn new(first: Instant) -> Self {
        Self { due: first }
    }

    /// Lets it run out as often as it has by `now`, `every` so often: an instant at `now` comes first. `act` changes
    /// `state` at an instant. Where it changes nothing, nothing would be changed up to `now`.
    #[inline]
    pub(crate) fn catch_up<S: Copy + PartialEq>(
        &mut self,
        now: Instant,
        every: Span,
        state: &mut S,
        act: impl FnMut(&mut S, Instant),
    ) {
        if self.due <= now {
            self.make_up(now, every, state, act);
        }
    }

    #[cold]
    fn make_up<S: Copy + PartialEq>(
        &mut self,
        now: Instant,
        every: Span,
        state: &mut S,
        mut act: impl FnMut(&mut S, Instant),
    ) {
        while self.due <= now {
            let before = *state;
            act(state, self.due);
            self.due += every;
            if *state == before && self.due <= now {
                let missed = now.since(self.due).nanos() / every.nanos() + 1;
                self.due += every.saturating_mul(missed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_out_as_often_as_it_would_have() {
        let every = Span::from_nanos(10);
        let mut timer = Timer::new(Instant::from_nanos(25));
        let mut count = 0;
        for (now, expected) in [(24, 0), (25, 1), (34, 1), (35, 2), (74, 5), (75, 6)] {
            timer.catch_up(Instant::from_nanos(now), every, &mut count, |count, _| *count += 1);
            assert_eq!(count, expected, "at {now}");
        }
    }

    #[test]
    fn what_changes_nothing_is_not_repeated_and_the_next_instant_is_right() {
        let every = Span::from_nanos(10);
        let mut timer = Timer::new(Instant::from_nanos(25));
        let (mut state, mut calls) = (3, 0);
        let century = Instant::from_nanos(3_000_000_000_000_000_000);
        timer.catch_up(century, every, &mut state, |state, _| {
            calls += 1;
            *state = (*state - 1).max(0);
        });
        assert_eq!((state, calls), (0, 4));
        assert_eq!(timer, Timer::new(Instant::from_nanos(3_000_000_000_000_000_005)));
    }
}
