//! Values looked at in regular intervals, in constant memory: when there are too many, every other one goes
//! and the interval doubles.

use aqm_net::{Instant, Span};

/// So many are kept at most.
const MOST: usize = 20_000;

/// The values, at multiples of the interval.
pub(crate) struct Samples<T> {
    every: Span,
    next: Instant,
    rows: Vec<(Instant, T)>,
}

impl<T> Samples<T> {
    /// None at all if `every` is zero.
    pub(crate) fn new(every: Span) -> Self {
        let next = if every.is_zero() { Instant::NEVER } else { Instant::START };
        Self { every, next, rows: Vec::new() }
    }

    /// When to look next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// What was seen then.
    pub(crate) fn push(&mut self, row: T) {
        if self.rows.len() == MOST {
            self.every = self.every.saturating_mul(2);
            let every = self.every.nanos();
            self.rows.retain(|(at, _)| at.nanos().is_multiple_of(every));
        }
        if self.next.nanos().is_multiple_of(self.every.nanos()) {
            self.rows.push((self.next, row));
        }
        self.next = self.next.next_multiple(self.every);
    }

    /// Nobody wants to know.
    pub(crate) fn skip(&mut self) {
        self.next = self.next.next_multiple(self.every);
    }

    pub(crate) fn into_rows(self) -> Vec<T> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_is_looked_at_less_often_and_still_evenly() {
        let mut samples = Samples::new(Span::from_nanos(10));
        while samples.next() < Instant::from_nanos(1_000_000) {
            let now = samples.next().nanos();
            samples.push(now);
            assert!(samples.rows.len() <= MOST);
        }
        let rows = samples.into_rows();
        let gap = rows[1] - rows[0];
        assert_eq!((rows[0], gap), (0, 80));
        assert!(rows.windows(2).all(|two| two[1] - two[0] == gap));
        assert!(rows.last().unwrap() + gap >= 1_000_000);
    }

    #[test]
    fn never_is_never() {
        assert_eq!(Samples::<u64>::new(Span::ZERO).next(), Instant::NEVER);
    }
}
