//! The clock of a live run, which uses the system's monotonic clock to count the nanoseconds since the beginning of the
//! run.

use std::time::Duration;

use aqm_net::Instant;

/// A clock that measures the time since the beginning of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// Starts the clock of a run.
    pub fn start() -> Self {
        Self { start: std::time::Instant::now() }
    }

    /// Returns the current time, relative to the beginning of the run.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Returns the system time that corresponds to the time `at` of the run.
    pub fn system_time(&self, at: Instant) -> std::time::Instant {
        self.start + Duration::from_nanos(at.nanos())
    }
}

/// The clock of the router. In virtual time, the clock stands still while the router processes packets, because reading
/// the clock of a kernel in virtual time takes longer than processing a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouterClock {
    clock: Clock,
    virtual_time: bool,
    held: Option<Instant>,
}

impl RouterClock {
    /// Returns a clock for a run in virtual time or in real time.
    pub(crate) fn new(clock: Clock, virtual_time: bool) -> Self {
        Self { clock, virtual_time, held: None }
    }

    /// Lets the clock of a run in virtual time stand still at the current time, until the next call.
    pub(crate) fn hold(&mut self) {
        if self.virtual_time {
            self.held = Some(self.clock.now());
        }
    }

    /// Returns the current time, relative to the beginning of the run.
    pub(crate) fn now(&self) -> Instant {
        self.held.unwrap_or_else(|| self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_router_stands_still_only_in_virtual_time() {
        for virtual_time in [false, true] {
            let mut clock = RouterClock::new(Clock::start(), virtual_time);
            clock.hold();
            let first = clock.now();
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(clock.now() == first, virtual_time);
            clock.hold();
            assert!(clock.now() >= first + aqm_net::Span::from_millis(1));
        }
    }
}
