//! The number of bytes in a sliding window of time.

use std::collections::VecDeque;

use aqm_net::{Instant, Span};

/// Bytes of the last `window`.
#[derive(Clone, Debug)]
pub(super) struct RecentBytes {
    window: Span,
    entries: VecDeque<(Instant, u64)>,
    sum: u64,
}

impl RecentBytes {
    pub(super) fn new(window: Span) -> Self {
        Self { window, entries: VecDeque::new(), sum: 0 }
    }

    /// Adds bytes at the present time.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) {
        self.entries.push_back((now, bytes));
        self.sum += bytes;
    }

    /// Returns the number of bytes in the window that ends at `now`.
    pub(super) fn sum(&mut self, now: Instant) -> u64 {
        while let Some(&(at, bytes)) = self.entries.front()
            && now.since(at) >= self.window
        {
            self.entries.pop_front();
            self.sum -= bytes;
        }
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_the_window() {
        let at = |millis| Instant::START + Span::from_millis(millis);
        let mut recent = RecentBytes::new(Span::from_millis(500));
        recent.add(100, at(0));
        recent.add(200, at(300));
        assert_eq!([499, 500, 799, 800].map(|millis| recent.sum(at(millis))), [300, 200, 200, 0]);
    }
}
