//! The stations of an access point.

use std::collections::VecDeque;

use aqm_net::{Instant, Pace, Packet, Rate, Span};

use crate::label_filter::Filters;
use crate::{ClassCounters, QueueDiscipline};

/// A station.
#[derive(Clone)]
pub(super) struct Station {
    pub name: String,
    /// The path to the parameters of the station's queue.
    pub queue_path: String,
    pub pace: Pace,
    pub filters: Filters,
    /// The queue of the station; `None` if all stations share a queue.
    pub queue: Option<Box<dyn QueueDiscipline>>,
    /// Packets that have left the queue but have not been sent.
    pub ready: VecDeque<Packet>,
    /// Airtime in nanoseconds that the station may use before its turn ends.
    pub deficit: i64,
    /// Time that the station's transmissions have lasted so far.
    pub airtime: Span,
    pub aggregates: u64,
    pub ledger: Ledger,
}

/// The counters of a station's packets.
#[derive(Clone, Default)]
pub(super) struct Ledger {
    counters: ClassCounters,
    /// The sum of the times at which packets left, minus the sum of the times at which packets arrived, in nanoseconds
    /// and modulo 2^128.
    left_less_arrived: u128,
}

impl Ledger {
    pub fn arrive(&mut self, now: Instant) {
        self.counters.arrivals += 1;
        self.left_less_arrived = self.left_less_arrived.wrapping_sub(now.nanos().into());
    }

    pub fn drop(&mut self, now: Instant) {
        self.counters.drops += 1;
        self.left_less_arrived = self.left_less_arrived.wrapping_add(now.nanos().into());
    }

    pub fn depart(&mut self, bytes: u16, now: Instant) {
        self.counters.departures += 1;
        self.counters.departed_bytes += u64::from(bytes);
        self.left_less_arrived = self.left_less_arrived.wrapping_add(now.nanos().into());
    }

    /// Returns the counters up to `now`.
    pub fn counters(&self, now: Instant) -> ClassCounters {
        let ClassCounters { arrivals, departures, drops, .. } = self.counters;
        let queued = u128::from(arrivals - departures - drops);
        let waited = self.left_less_arrived.wrapping_add(queued * u128::from(now.nanos()));
        ClassCounters { packet_nanos: waited, ..self.counters }
    }
}

impl Station {
    pub fn new(
        name: &str,
        queue_path: String,
        rate: Rate,
        filters: Filters,
        queue: Option<Box<dyn QueueDiscipline>>,
        quantum: Span,
    ) -> Self {
        Self {
            name: name.to_owned(),
            queue_path,
            pace: rate.pace(),
            filters,
            queue,
            ready: VecDeque::new(),
            deficit: quantum.nanos() as i64,
            airtime: Span::ZERO,
            aggregates: 0,
            ledger: Ledger::default(),
        }
    }

    /// Returns whether packets are queued that the scheduler can send.
    pub fn has_packets(&self) -> bool {
        !self.ready.is_empty() || self.queue.as_ref().is_some_and(|queue| queue.backlog().packets > 0)
    }
}
