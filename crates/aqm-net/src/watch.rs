//! How far a run is, for whoever waits for it, who may also stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Shared by a run and whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    counts_bytes: AtomicBool,
    stopped: AtomicBool,
}

/// Whoever watches asked the run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// In what progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of simulated time.
    Nanoseconds,
    /// Bytes of a file that is read.
    Bytes,
}

impl Watch {
    /// How much is done, and of how much; of zero if that is not known yet. What is done never becomes less.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// In what progress is counted.
    pub fn unit(&self) -> Unit {
        if self.counts_bytes.load(Relaxed) { Unit::Bytes } else { Unit::Nanoseconds }
    }

    /// Asks the run to stop soon.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Says how much there is to do.
    pub fn expect(&self, total: u64, unit: Unit) {
        self.counts_bytes.store(unit == Unit::Bytes, Relaxed);
        self.total.store(total, Relaxed);
    }

    /// Says how much is done.
    pub fn reach(&self, done: u64) {
        self.done.store(done, Relaxed);
    }

    /// Fails if the run is to stop. It looks at one `count` in a few thousand, since a look costs more than a
    /// small event.
    ///
    /// # Errors
    /// If the run is to stop.
    #[inline]
    pub fn check(&self, count: u64) -> Result<(), Stopped> {
        if Self::is_turn(count) { self.go_on() } else { Ok(()) }
    }

    /// Says how much is done, one `count` in a few thousand, and fails if the run is to stop.
    ///
    /// # Errors
    /// If the run is to stop.
    #[inline]
    pub fn check_at(&self, count: u64, done: impl FnOnce() -> u64) -> Result<(), Stopped> {
        if !Self::is_turn(count) {
            return Ok(());
        }
        self.reach(done());
        self.go_on()
    }

    #[inline]
    fn is_turn(count: u64) -> bool {
        count.is_multiple_of(4096)
    }

    #[cold]
    fn go_on(&self) -> Result<(), Stopped> {
        if self.stopped.load(Relaxed) { Err(Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_to_stop_learns_it_within_a_few_thousand_counts() {
        let watch = Watch::default();
        let checks = |from: u64| (from..from + 4096).map(|count| watch.check(count)).collect::<Vec<_>>();
        assert!(checks(3).iter().all(Result::is_ok));
        watch.stop();
        assert_eq!(checks(3).iter().filter(|check| check.is_err()).count(), 1);
        assert_eq!(watch.check(0), Err(Stopped), "one that is stopped before it begins does nothing");
    }

    #[test]
    fn progress_is_what_was_reached_of_what_was_expected() {
        let watch = Watch::default();
        assert_eq!(watch.progress(), (0, 0));
        watch.expect(100, Unit::Bytes);
        assert_eq!(watch.check_at(1, || panic!("it is not the turn")), Ok(()));
        assert_eq!(watch.check_at(4096, || 30), Ok(()));
        assert_eq!((watch.progress(), watch.unit()), ((30, 100), Unit::Bytes));
    }
}
