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

    /// Whether a segment must wait at `now`; `wanted` says that the window allows one.
    pub(crate) fn holds(&mut self, wanted: bool, now: Instant) -> bool {
        if !wanted {
            self.open = false;
        } else if !self.open {
            if self.until == Instant::NEVER {
                let wait = self.longest.nanos() as f64 * self.rng.uniform();
                self.until = now + Span::from_nanos(wait as u64);
            }
            self.open = self.until <= now;
            if self.open {
                self.until = Instant::NEVER;
            }
        }
        wanted && !self.open
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
        assert!(!overhead.holds(true, until) && !overhead.holds(true, until), "then both leave");
        assert_eq!(overhead.until(), Instant::NEVER);
        assert!(!overhead.holds(false, until), "there is nothing more to send");
        assert!(overhead.holds(true, at(200)), "so the next one waits again");
    }
}
