//! How far a replay is, for whoever waits for it, who may also stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::packets::Failure;

/// Shared by a replay and whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

impl Watch {
    /// How much is done, and of how much: bytes of a file, nanoseconds of a generated trace. Of zero if
    /// that is not known yet.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Asks the replay to stop soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Fails if the replay is to stop. It looks at one count in a few thousand, since a look costs more than
    /// a packet's parsing.
    #[inline]
    pub(crate) fn check(&self, count: u64) -> Result<(), Failure> {
        if count.is_multiple_of(4096) && self.stopped.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        Ok(())
    }

    pub(crate) fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn reach(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}
