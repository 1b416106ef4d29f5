//! Delays the transmissions of a host randomly.
//!
//! As with ns-2's `overhead_`, the first segment that the window permits is delayed by a time that is uniformly
//! distributed on [0, overhead]. Segments that the window permits in the meantime are delayed until the same time, and
//! then all segments are sent together.

use aqm_net::{Instant, Rng, Span};

/// State of the delayed transmissions of a host.
pub(crate) struct Overhead {
    max_delay: Span,
    rng: Rng,
    /// Time at which the current delay ends; `NEVER` if no segment is waiting.
    until: Instant,
    /// Whether segments are currently being sent.
    open: bool,
}

impl Overhead {
    pub(crate) fn new(max_delay: Span, rng: Rng) -> Self {
        Self { max_delay, rng, until: Instant::NEVER, open: false }
    }

    /// Ends the current delay if its end is not later than `now`.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        if self.until <= now {
            self.until = Instant::NEVER;
            self.open = true;
        }
    }

    /// Returns whether the next segment must be delayed at `now`. `has_segment` states whether the window permits a
    /// segment.
    pub(crate) fn delays(&mut self, has_segment: bool, now: Instant) -> bool {
        if !has_segment {
            self.close();
        } else if !self.open && self.until == Instant::NEVER {
            let wait = self.max_delay.nanos() as f64 * self.rng.uniform();
            self.until = now + Span::from_nanos(wait as u64);
            self.on_timer(now);
        }
        has_segment && !self.open
    }

    /// Ends the current transmission, so that the next segment is delayed again.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// Returns the time at which the current delay ends; `NEVER` if no segment is waiting.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn segments_permitted_during_the_delay_are_sent_together() {
        let max_delay = Span::from_millis(10);
        let mut overhead = Overhead::new(max_delay, Streams::new(1).named("overhead", 0));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert!(overhead.delays(true, at(100)), "the first segment waits");
        let until = overhead.until();
        assert!(until > at(100) && until <= at(110));
        assert!(overhead.delays(true, at(100)), "a segment permitted during the delay waits, too");
        assert_eq!(overhead.until(), until);
        overhead.on_timer(until);
        assert!(
            !overhead.delays(true, until) && !overhead.delays(true, until),
            "both are sent after the delay"
        );
        assert_eq!(overhead.until(), Instant::NEVER);
        assert!(!overhead.delays(false, until), "nothing remains to be sent");
        assert!(overhead.delays(true, at(200)), "the next segment waits again");
    }

    #[test]
    fn the_timer_stops_when_the_window_closes_during_the_delay() {
        let mut overhead = Overhead::new(Span::from_millis(10), Streams::new(1).named("overhead", 0));
        assert!(overhead.delays(true, Instant::START));
        let until = overhead.until();
        overhead.on_timer(until);
        assert!(!overhead.delays(false, until), "a loss has closed the window");
        assert_eq!(overhead.until(), Instant::NEVER);
    }
}
