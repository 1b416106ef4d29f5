//! Samples at regular intervals, stored in constant memory. If the number of samples exceeds the maximum, every second
//! sample is removed and the interval doubles.

use aqm_net::{Instant, Span};

/// Maximum number of samples.
const MAX_SAMPLES: usize = 20_000;

/// Samples at multiples of the interval.
pub(crate) struct Samples<T> {
    every: Span,
    next: Instant,
    rows: Vec<(Instant, T)>,
}

impl<T> Samples<T> {
    /// Creates a set of samples, which remains empty if `every` is zero.
    pub(crate) fn new(every: Span) -> Self {
        let next = if every.is_zero() { Instant::NEVER } else { Instant::START };
        Self { every, next, rows: Vec::new() }
    }

    /// Returns the time of the next sample.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Adds the next sample.
    pub(crate) fn push(&mut self, row: T) {
        if self.rows.len() == MAX_SAMPLES {
            self.every = self.every.saturating_mul(2);
            let every = self.every.nanos();
            self.rows.retain(|(at, _)| at.nanos().is_multiple_of(every));
        }
        if self.next.nanos().is_multiple_of(self.every.nanos()) {
            self.rows.push((self.next, row));
        }
        self.next = self.next.next_multiple(self.every);
    }

    /// Skips the next sample.
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
    fn a_long_trace_is_sampled_at_a_longer_regular_interval() {
        let mut samples = Samples::new(Span::from_nanos(10));
        while samples.next() < Instant::from_nanos(1_000_000) {
            let now = samples.next().nanos();
            samples.push(now);
            assert!(samples.rows.len() <= MAX_SAMPLES);
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
