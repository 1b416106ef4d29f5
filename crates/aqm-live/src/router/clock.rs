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
