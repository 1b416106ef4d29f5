//! The application of the server, which passes a file to the library.

use aqm_net::{Instant, Span};

/// The application of the server. The application has the whole file from the beginning, or produces the file in bursts of
/// equal size at equal intervals.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// Bytes that the application has not yet passed to the library.
    left: u64,
    /// Bytes of `left` that the application has produced.
    ready: u64,
    burst: u64,
    interval: Span,
    /// Time of the next burst; `None` if the application has produced the whole file.
    next: Option<Instant>,
}

impl Source {
    /// Returns an application that has a file of `size` bytes.
    pub const fn file(size: u64) -> Self {
        Self { left: size, ready: size, burst: 0, interval: Span::ZERO, next: None }
    }

    /// Returns an application that produces `burst` bytes at time 0 and after each `interval`, until the file of `size`
    /// bytes is complete.
    pub const fn bursts(size: u64, burst: u64, interval: Span) -> Self {
        Self { left: size, ready: 0, burst, interval, next: Some(Instant::START) }
    }

    /// Produces the bursts that are due at `now`. Returns whether there are bursts.
    pub fn advance(&mut self, now: Instant) -> bool {
        let mut is_due = false;
        while let Some(next) = self.next.filter(|next| *next <= now) {
            is_due = true;
            self.ready = self.ready.saturating_add(self.burst).min(self.left);
            self.next = (self.ready < self.left).then(|| next + self.interval);
        }
        is_due
    }

    /// Returns the time of the next burst.
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the number of bytes that the application can pass to the library.
    pub const fn ready(&self) -> u64 {
        self.ready
    }

    /// Removes bytes that the application passed to the library, at most [`ready`](Self::ready).
    pub const fn pass(&mut self, bytes: u64) {
        self.ready -= bytes;
        self.left -= bytes;
    }

    /// Returns whether the application has passed the whole file to the library.
    pub const fn is_complete(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_produced_at_equal_intervals() {
        let at = Instant::from_nanos;
        let mut source = Source::bursts(250, 100, Span::from_nanos(10));
        assert!(source.advance(at(0)));
        assert_eq!((source.ready(), source.next()), (100, Some(at(10))));
        source.pass(100);
        assert!(!source.advance(at(9)));
        assert!(source.advance(at(25)));
        assert_eq!((source.ready(), source.next()), (150, None));
        source.pass(150);
        assert!(source.is_complete());
    }
}
