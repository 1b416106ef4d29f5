//! Connects a run with a watcher. The watcher receives the progress of the run and views of the queues, and can stop
//! the run.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use serde::Serialize;

/// State that a run shares with a watcher in another thread.
#[derive(Debug, Default)]
pub struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    unit: AtomicU8,
    stop: StopRequest,
    view_requested: AtomicBool,
    view: Mutex<Option<View>>,
    is_limited: AtomicBool,
    limit_nanos: Mutex<u64>,
    changed: Condvar,
}

/// Whether a watcher has requested that a run stop. All clones of a request are set at the same time.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<AtomicBool>);

impl StopRequest {
    /// Returns whether the run must stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The state of a run's queues at a given time. For each queue, the view contains the state after the last packet that
/// the queue processed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// Time in seconds since the start of the run.
    pub time_s: f64,
    /// Managed links.
    pub links: Vec<LinkView>,
    /// Lateness of packet deliveries in a live run, as names and values in microseconds.
    pub lateness_us: Vec<(&'static str, f64)>,
}

/// The state of a managed link. All counters count from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkView {
    /// Name of the link.
    pub name: String,
    /// Rate in bits per second.
    pub rate_bps: f64,
    /// Number of queued packets.
    pub length_packets: u64,
    /// Number of queued bytes.
    pub length_bytes: u64,
    /// Number of packets that arrived, including dropped packets.
    pub arrivals: u64,
    /// Number of sent packets.
    pub departures: u64,
    /// Number of sent bytes.
    pub departed_bytes: u64,
    /// Number of marked packets.
    pub marks: u64,
    /// Numbers of dropped packets, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// Gauges of the queue discipline: name, value, and unit if the gauge has one.
    pub gauges: Vec<(&'static str, f64, Option<&'static str>)>,
}

/// Error: the watcher stopped the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of simulated time.
    Nanoseconds,
    /// Bytes read from a file.
    Bytes,
    /// Nanoseconds of a run in real time.
    RealTime,
}

impl Watch {
    /// Returns the completed amount and the total. The total is zero if it is not yet known. The completed amount never
    /// decreases.
    pub fn progress(&self) -> (u64, u64) {
        (self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// Returns the unit of progress.
    pub fn unit(&self) -> Unit {
        match self.unit.load(Relaxed) {
            1 => Unit::Bytes,
            2 => Unit::RealTime,
            _ => Unit::Nanoseconds,
        }
    }

    /// Requests that the run stop soon.
    pub fn stop(&self) {
        self.stop.0.store(true, Relaxed);
        // Once this lock has been acquired, a run that was about to wait has either seen the request or is already
        // waiting and can be woken.
        drop(self.limit_nanos.lock());
        self.changed.notify_all();
    }

    /// Sets the total amount.
    pub fn expect(&self, total: u64, unit: Unit) {
        self.unit.store(unit as u8, Relaxed);
        self.total.store(total, Relaxed);
    }

    /// Sets the completed amount.
    pub fn reach(&self, done: u64) {
        self.done.store(done, Relaxed);
    }

    /// Returns the latest view, if the run has provided a view since the last call, and requests another view.
    pub fn view(&self) -> Option<View> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.view_requested.store(true, Relaxed);
        view
    }

    /// Provides a view of the queues if the watcher has requested a view. This method never waits for the watcher.
    #[inline]
    pub fn show(&self, view: impl FnOnce() -> View) {
        if !self.view_requested.load(Relaxed) {
            return;
        }
        if let Ok(mut shown) = self.view.try_lock() {
            *shown = Some(view());
            self.view_requested.store(false, Relaxed);
        }
    }

    /// Returns whether the run must stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_set()
    }

    /// Returns the request to stop the run, for parts of the run that the watch does not outlive.
    pub fn stop_request(&self) -> StopRequest {
        self.stop.clone()
    }

    /// Returns an error if the run must stop. The check is performed only for one in a few thousand values of `count`,
    /// because a check takes longer than a small event.
    ///
    /// # Errors
    /// Returns [`Stopped`] if the run must stop.
    #[inline]
    pub fn check(&self, count: u64) -> Result<(), Stopped> {
        if Self::is_checked(count) { self.check_now() } else { Ok(()) }
    }

    /// For one in a few thousand values of `count`, sets the completed amount and returns an error if the run must
    /// stop.
    ///
    /// # Errors
    /// Returns [`Stopped`] if the run must stop.
    #[inline]
    pub fn check_at(&self, count: u64, done: impl FnOnce() -> u64) -> Result<(), Stopped> {
        if !Self::is_checked(count) {
            return Ok(());
        }
        self.reach(done());
        self.check_now()
    }

    /// If a watcher [limits](Self::limit) the run, blocks the run until the watcher allows the simulated time `now`, in
    /// nanoseconds, or stops the run.
    pub fn wait_at(&self, now: u64) {
        if !self.is_limited.load(Relaxed) {
            return;
        }
        let mut limit = self.limit_nanos.lock().unwrap_or_else(PoisonError::into_inner);
        while *limit < now && !self.is_stopped() {
            limit = self.changed.wait(limit).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Limits the run to a simulated time of `until` nanoseconds. At the first sample after this time, the run waits
    /// until the limit is raised.
    pub fn limit(&self, until: u64) {
        *self.limit_nanos.lock().unwrap_or_else(PoisonError::into_inner) = until;
        self.is_limited.store(true, Relaxed);
        self.changed.notify_all();
    }

    #[inline]
    fn is_checked(count: u64) -> bool {
        count.is_multiple_of(4096)
    }

    /// Returns an error if the run must stop.
    ///
    /// # Errors
    /// Returns [`Stopped`] if the run must stop.
    #[cold]
    pub fn check_now(&self) -> Result<(), Stopped> {
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_detects_a_stop_within_a_few_thousand_counts() {
        let watch = Watch::default();
        let checks = |from: u64| (from..from + 4096).map(|count| watch.check(count)).collect::<Vec<_>>();
        assert!(checks(3).iter().all(Result::is_ok));
        watch.stop();
        assert_eq!(checks(3).iter().filter(|check| check.is_err()).count(), 1);
        assert_eq!(watch.check(0), Err(Stopped), "a run that is stopped before its start does nothing");
    }

    #[test]
    fn progress_is_the_completed_amount_and_the_total() {
        let watch = Watch::default();
        assert_eq!(watch.progress(), (0, 0));
        watch.expect(100, Unit::Bytes);
        assert_eq!(watch.check_at(1, || panic!("this count is not tested")), Ok(()));
        assert_eq!(watch.check_at(4096, || 30), Ok(()));
        assert_eq!((watch.progress(), watch.unit()), ((30, 100), Unit::Bytes));
    }

    #[test]
    fn a_view_is_created_on_request_and_returned_once() {
        let (watch, view) = (Watch::default(), View { time_s: 2.5, ..View::default() });
        watch.show(|| panic!("no view was requested"));
        assert_eq!(watch.view(), None, "the view was requested only now");
        watch.show(|| view.clone());
        watch.show(|| panic!("only one view is needed"));
        assert_eq!(watch.view(), Some(view));
        assert_eq!(watch.view(), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the watcher is another thread")]
    fn a_limited_run_does_not_exceed_its_limit() {
        let (watch, reached) = (Watch::default(), AtomicU64::new(0));
        watch.wait_at(5);
        watch.limit(10);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for now in [10, 20, 30] {
                    watch.wait_at(now);
                    reached.store(now, Relaxed);
                }
            });
            while reached.load(Relaxed) < 10 {
                std::thread::yield_now();
            }
            watch.limit(25);
            while reached.load(Relaxed) < 20 {
                std::thread::yield_now();
            }
            assert_eq!(reached.load(Relaxed), 20, "30 is above the limit");
            watch.stop();
        });
        assert_eq!(reached.load(Relaxed), 30, "a stopped run does not wait");
    }
}
