//! How far a run is and what its queues look like, for whoever waits for it, who may also stop it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};

use serde::Serialize;

/// Shared by a run and whoever watches it from another thread.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    unit: AtomicU8,
    stopped: AtomicBool,
    wants_view: AtomicBool,
    view: Mutex<Option<View>>,
    held: AtomicBool,
    allowed: Mutex<u64>,
    moved: Condvar,
}

/// What the queues of a run look like at a moment, as of the last packet that each of them met.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// The moment, in seconds since the run began.
    pub time_s: f64,
    /// The managed links.
    pub links: Vec<LinkView>,
    /// In a live run, how late packets are handed over: names and values, in microseconds.
    pub lateness_us: Vec<(&'static str, f64)>,
}

/// What a managed link looks like; what is counted is counted since the run began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkView {
    /// Its name.
    pub name: String,
    /// Its rate, in bits per second.
    pub rate_bps: f64,
    /// Packets waiting.
    pub length_packets: u64,
    /// Bytes waiting.
    pub length_bytes: u64,
    /// Packets that arrived, the dropped ones included.
    pub arrivals: u64,
    /// Packets sent.
    pub departures: u64,
    /// Bytes sent.
    pub departed_bytes: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// The gauges of its discipline: name, value, and unit if it has one.
    pub gauges: Vec<(&'static str, f64, Option<&'static str>)>,
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
    /// Nanoseconds of a run in real time.
    RealTime,
}

impl Watch {
    /// How much is done, and of how much; of zero if that is not known yet. What is done never becomes less.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// In what progress is counted.
    pub fn unit(&self) -> Unit {
        match self.unit.load(Relaxed) {
            1 => Unit::Bytes,
            2 => Unit::RealTime,
            _ => Unit::Nanoseconds,
        }
    }

    /// Asks the run to stop soon.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        // Whoever is about to wait has seen it, or is woken.
        drop(self.allowed.lock());
        self.moved.notify_all();
    }

    /// Says how much there is to do.
    pub fn expect(&self, total: u64, unit: Unit) {
        self.unit.store(unit as u8, Relaxed);
        self.total.store(total, Relaxed);
    }

    /// Says how much is done.
    pub fn reach(&self, done: u64) {
        self.done.store(done, Relaxed);
    }

    /// The last view that the run has shown, if it has shown one since the last call; asks for another one.
    pub fn view(&self) -> Option<View> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wants_view.store(true, Relaxed);
        view
    }

    /// Shows what the queues look like, if somebody asked. It never waits for whoever looks.
    #[inline]
    pub fn show(&self, view: impl FnOnce() -> View) {
        if !self.wants_view.load(Relaxed) {
            return;
        }
        if let Ok(mut shown) = self.view.try_lock() {
            *shown = Some(view());
            self.wants_view.store(false, Relaxed);
        }
    }

    /// Whether the run is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
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

    /// A run that has come to `now` nanoseconds waits here until it is allowed to be there, if somebody
    /// [holds](Self::hold) it, or stopped.
    pub fn meet(&self, now: u64) {
        if !self.held.load(Relaxed) {
            return;
        }
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        while *allowed < now && !self.is_stopped() {
            allowed = self.moved.wait(allowed).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// From now on the run goes no further than `until` nanoseconds, or to its next sample behind, until it is
    /// allowed more.
    pub fn hold(&self, until: u64) {
        *self.allowed.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.held.store(true, Relaxed);
        self.moved.notify_all();
    }

    #[inline]
    fn is_turn(count: u64) -> bool {
        count.is_multiple_of(4096)
    }

    #[cold]
    fn go_on(&self) -> Result<(), Stopped> {
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
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

    #[test]
    fn a_view_is_made_when_somebody_asked_for_one_and_is_seen_once() {
        let (watch, view) = (Watch::default(), View { time_s: 2.5, ..View::default() });
        watch.show(|| panic!("nobody asked for one"));
        assert_eq!(watch.view(), None, "it is asked for only now");
        watch.show(|| view.clone());
        watch.show(|| panic!("one is enough"));
        assert_eq!(watch.view(), Some(view));
        assert_eq!(watch.view(), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "whoever holds a run is another thread")]
    fn a_run_that_is_held_goes_no_further_than_it_is_allowed() {
        let (watch, reached) = (Watch::default(), AtomicU64::new(0));
        watch.meet(5);
        watch.hold(10);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for now in [10, 20, 30] {
                    watch.meet(now);
                    reached.store(now, Relaxed);
                }
            });
            while reached.load(Relaxed) < 10 {
                std::thread::yield_now();
            }
            watch.hold(25);
            while reached.load(Relaxed) < 20 {
                std::thread::yield_now();
            }
            assert_eq!(reached.load(Relaxed), 20, "30 is not allowed");
            watch.stop();
        });
        assert_eq!(reached.load(Relaxed), 30, "one that is stopped waits no longer");
    }
}
