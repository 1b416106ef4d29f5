//! What a host does before it sends: a random time in which the window's permission waits.
//!
//! ns-2's `overhead_`: the first segment that the window allows waits for a time uniform on
//! [0, overhead]; what the window allows meanwhile waits with it, and all leave together.

use aqm_net::{Instant, Rng, Span};

/// Permissions to send, on their way through a host.
pub(crate) struct Overhead {
    longest: Span,
    rng: Rng,
    /// When what waits may leave; `NEVER` if nothing waits.
    until: Instant,
    /// Whether segments are leaving.
    open: bool,
}

impl Overhead {
    pub(crate) fn new(longest: Span, rng: Rng) -> Self {
        Self { longest, rng, until: Instant::NEVER, open: false }
    }

    /// Time has passed; what waited long enough may leave.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        if self.until <= now {
            self.until = Instant::NEVER;
            self.open = true;
        }
    }

    /// Whether a segment must wait at `now`; `wanted` says that the window allows one.
    pub(crate) fn holds(&mut self, wanted: bool, now: Instant) -> bool {
        if !wanted {
            self.close();
        } else if !self.open && self.until == Instant::NEVER {
            let wait = self.longest.nanos() as f64 * self.rng.uniform();
            self.until = now + Span::from_nanos(wait as u64);
            self.on_timer(now);
        }
        wanted && !self.open
    }

    /// What may leave has left.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    /// When what waits may leave; `NEVER` if nothing waits.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    #[test]
    fn what_the_window_allows_meanwhile_leaves_together() {
        let longest = Span::from_millis(10);
        let mut overhead = Overhead::new(longest, Streams::new(1).named("overhead", 0));
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        assert!(overhead.holds(true, at(100)), "the first segment waits");
        let until = overhead.until();
        assert!(until > at(100) && until <= at(110));
        assert!(overhead.holds(true, at(100)), "and so does one allowed meanwhile");
        assert_eq!(overhead.until(), until);
        overhead.on_timer(until);
        assert!(!overhead.holds(true, until) && !overhead.holds(true, until), "then both leave");
        assert_eq!(overhead.until(), Instant::NEVER);
        assert!(!overhead.holds(false, until), "there is nothing more to send");
        assert!(overhead.holds(true, at(200)), "so the next one waits again");
    }

    #[test]
    fn a_permission_that_is_withdrawn_leaves_no_timer_behind() {
        let mut overhead = Overhead::new(Span::from_millis(10), Streams::new(1).named("overhead", 0));
        assert!(overhead.holds(true, Instant::START));
        let until = overhead.until();
        overhead.on_timer(until);
        assert!(!overhead.holds(false, until), "a loss has closed the window meanwhile");
        assert_eq!(overhead.until(), Instant::NEVER);
    }
}
