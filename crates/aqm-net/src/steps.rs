//! A value that changes at given times, for example the rate or delay of a link.

use std::sync::Arc;

use crate::{Instant, Span};

/// A value that changes at given times, once or periodically. Queries must be in ascending order of time.
#[derive(Clone, Debug)]
pub struct Steps<T> {
    /// Value before the first step.
    first: T,
    /// Steps in ascending order of time. Each step consists of a time within a period and the value that applies from
    /// this time onwards.
    steps: Arc<[(Span, T)]>,
    /// Duration of a period; zero if the steps are not repeated.
    period: Span,
    /// The current value, the index of the next step, and the start of the period that contains the next step.
    value: T,
    next: usize,
    round: Instant,
}

impl<T: Copy> Steps<T> {
    /// Creates a value that is `first` until the first of `steps`. The steps are repeated with the period `repeat`.
    ///
    /// # Panics
    /// Panics if the steps are not in ascending order of time, or if a step is not before the end of the period.
    pub fn new(first: T, steps: impl Into<Arc<[(Span, T)]>>, repeat: Option<Span>) -> Self {
        let (steps, period) = (steps.into(), repeat.unwrap_or(Span::ZERO));
        assert!(steps.is_sorted_by_key(|&(at, _)| at), "steps must be in ascending order of time");
        let last = steps.last().map_or(Span::ZERO, |&(at, _)| at);
        assert!(repeat.is_none_or(|period| last < period), "steps must be within the period");
        // If there are no steps, there is nothing to repeat.
        let period = if steps.is_empty() { Span::ZERO } else { period };
        Self { first, steps, period, value: first, next: 0, round: Instant::START }
    }

    /// Returns the value at `now`, and the earliest time after `now` at which the value may change. The times of
    /// consecutive calls must not decrease.
    #[inline]
    pub fn at(&mut self, now: Instant) -> (T, Instant) {
        let until = self.next_step();
        if now < until { (self.value, until) } else { self.advance(now) }
    }

    /// Returns the value at `now`; consecutive calls may query times in any order.
    pub fn value_at(&self, now: Instant) -> T {
        let rounds = now.nanos().checked_div(self.period.nanos()).unwrap_or(0);
        let since = Span::from_nanos(now.nanos() - rounds * self.period.nanos());
        match self.steps[..self.steps_until(since)].last().or(self.steps.last().filter(|_| rounds > 0)) {
            Some(&(_, value)) => value,
            None => self.first,
        }
    }

    /// Returns all values. The same value may be returned more than once.
    pub fn values(&self) -> impl Iterator<Item = T> {
        let begins_with_step = self.steps.first().is_some_and(|(at, _)| at.is_zero());
        let first = (!begins_with_step).then_some(self.first);
        first.into_iter().chain(self.steps.iter().map(|&(_, value)| value))
    }

    /// Returns the steps in ascending order of time, as times and values. The iterator is infinite if the steps are
    /// repeated.
    pub fn steps(&self) -> impl Iterator<Item = (Instant, T)> {
        let rounds = if self.period.is_zero() { 1 } else { u64::MAX };
        let of_round = |number| {
            let round = Instant::START + self.period.saturating_mul(number);
            self.steps.iter().map(move |&(at, value)| (round + at, value))
        };
        (0..rounds).flat_map(of_round)
    }

    /// Returns the number of steps that occur within `since` after the start of a period.
    fn steps_until(&self, since: Span) -> usize {
        self.steps.partition_point(|&(at, _)| at <= since)
    }

    fn next_step(&self) -> Instant {
        self.steps.get(self.next).map_or(Instant::NEVER, |&(at, _)| self.round + at)
    }

    /// Advances to the latest step at or before `now`.
    #[cold]
    fn advance(&mut self, now: Instant) -> (T, Instant) {
        if let Some(rounds @ 1..) = now.since(self.round).nanos().checked_div(self.period.nanos()) {
            self.round += self.period.saturating_mul(rounds);
            self.value = self.steps[self.steps.len() - 1].1;
        }
        self.next = self.steps_until(now.since(self.round));
        if let Some(&(_, value)) = self.steps[..self.next].last() {
            self.value = value;
        }
        if self.next == self.steps.len() && !self.period.is_zero() {
            self.next = 0;
            self.round += self.period;
        }
        (self.value, self.next_step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn steps(steps: &[(u64, char)], repeat: Option<u64>) -> Steps<char> {
        let steps: Vec<(Span, char)> = steps.iter().map(|&(at, v)| (Span::from_nanos(at), v)).collect();
        Steps::new('-', steps, repeat.map(Span::from_nanos))
    }

    #[test]
    fn a_value_lasts_until_the_next_step() {
        let mut once = steps(&[(5, 'a'), (9, 'b')], None);
        assert_eq!(once.at(at(0)), ('-', at(5)));
        assert_eq!(once.at(at(4)), ('-', at(5)));
        assert_eq!(once.at(at(5)), ('a', at(9)));
        assert_eq!(once.at(at(1000)), ('b', Instant::NEVER));
        assert_eq!(steps(&[], None).at(at(7)), ('-', Instant::NEVER));
        assert_eq!(steps(&[], Some(3)).at(at(7)), ('-', Instant::NEVER));
    }

    #[test]
    fn steps_are_repeated_after_every_period() {
        let mut again = steps(&[(2, 'a'), (6, 'b')], Some(10));
        let seen: Vec<(char, u64)> = [0, 2, 6, 11, 12, 16, 25]
            .map(|now| again.at(at(now)))
            .map(|(v, until)| (v, until.nanos()))
            .into();
        let expected = [('-', 2), ('a', 6), ('b', 12), ('b', 12), ('a', 16), ('b', 22), ('a', 26)];
        assert_eq!(seen, expected);
        assert_eq!(again.at(at(1_000_001)), ('b', at(1_000_002)));
    }

    #[test]
    fn rare_and_frequent_queries_return_equal_values() {
        for repeat in [None, Some(20), Some(23)] {
            let one = steps(&[(0, 'a'), (3, 'b'), (3, 'c'), (11, 'd'), (19, 'e')], repeat);
            let mut often = one.clone();
            for now in 0..100 {
                let (value, until) = often.at(at(now));
                assert_eq!(one.clone().at(at(now)), (value, until), "{repeat:?} {now}");
                assert_eq!(one.value_at(at(now)), value, "{repeat:?} {now}");
                assert!(until > at(now));
            }
        }
    }

    #[test]
    fn all_values_are_listed() {
        assert_eq!(steps(&[(2, 'a'), (6, 'b')], None).values().collect::<String>(), "-ab");
        assert_eq!(steps(&[(0, 'a'), (6, 'b')], None).values().collect::<String>(), "ab");
    }

    #[test]
    fn every_step_of_every_round_is_listed() {
        let listed = |of: Steps<char>| of.steps().take(5).collect::<Vec<_>>();
        let written = [(2, 'a'), (6, 'b')];
        assert_eq!(listed(steps(&written, None)), [(at(2), 'a'), (at(6), 'b')]);
        let again = [(2, 'a'), (6, 'b'), (12, 'a'), (16, 'b'), (22, 'a')];
        assert_eq!(listed(steps(&written, Some(10))), again.map(|(nanos, value)| (at(nanos), value)));
        assert_eq!(listed(steps(&[], Some(10))), []);
    }
}
