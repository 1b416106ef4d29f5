//! The clock of a live run: nanoseconds since its beginning, read from the system's monotonic clock.

use std::time::Duration;

use aqm_net::Instant;

/// Tells how long a run has lasted.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A run begins now.
    pub fn start() -> Self {
        Self { start: std::time::Instant::now() }
    }

    /// The present moment.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// The system's moment that is `at` of this run.
    pub fn moment(&self, at: Instant) -> std::time::Instant {
        self.start + Duration::from_nanos(at.nanos())
    }
}
