//! The pending events of a workload that requests a wake-up only for the earliest event.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use aqm_net::Instant;

use crate::TrafficContext;

/// Pending events. If several events have the same time, the event that was added first occurs first.
#[derive(Clone)]
pub(crate) struct Schedule<E> {
    /// The earliest event is on top.
    events: BinaryHeap<Reverse<Scheduled<E>>>,
    /// Number of events that have been added.
    added: u64,
    /// Time of the earliest requested wake-up.
    next_wake: Instant,
}

#[derive(Clone)]
struct Scheduled<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> Scheduled<E> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Scheduled<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Scheduled<E> {}

impl<E> PartialOrd for Scheduled<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Scheduled<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Schedule<E> {
    pub(crate) fn new() -> Self {
        Self { events: BinaryHeap::new(), added: 0, next_wake: Instant::NEVER }
    }

    /// Adds an event. The caller must call [`request_wake`](Self::request_wake) afterwards.
    pub(crate) fn add(&mut self, at: Instant, event: E) {
        self.events.push(Reverse(Scheduled { at, number: self.added, event }));
        self.added += 1;
    }

    /// Removes and returns the next event that is due at `now`, with its time. The caller calls this method at each
    /// wake-up until no event is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, E)> {
        if self.next_wake <= now {
            self.next_wake = Instant::NEVER;
        }
        self.events.peek().filter(|next| next.0.at <= now)?;
        self.events.pop().map(|Reverse(Scheduled { at, event, .. })| (at, event))
    }

    /// Requests a wake-up for the earliest event, unless an earlier wake-up has been requested.
    pub(crate) fn request_wake(&mut self, cx: &mut dyn TrafficContext) {
        if let Some(Reverse(next)) = self.events.peek().filter(|next| next.0.at < self.next_wake) {
            self.next_wake = next.at;
            cx.wake_at(next.at);
        }
    }
}
