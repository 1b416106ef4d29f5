//! Tools for tests and benchmarks of queue disciplines, in this crate and in other crates.
//!
//! - [`Ignore`] and [`Fates`] are observers. `Ignore` discards reports on drops and marks, and `Fates` records and
//!   counts drops and marks.
//! - [`Driver`] contains a discipline without a link, and a record of dropped and marked packets. A test controls the
//!   discipline call by call. Use the driver to test algorithms, and to reproduce published numbers of drops.
//! - [`packet`] and [`ect`] return packets of a given size: `packet` returns packets that are not ECN-capable, and
//!   `ect` returns ECN-capable packets.
//! - To test a discipline *with* a link, build a `Port` (crate `aqm-link`) and pass [`Fates`] or [`Ignore`] to the
//!   port.
//! - The tests in this crate's `tests/line/` folder send random bursts of four flows through a scheduler at a port, in
//!   order to test properties of fair queueing (requires `proptest`).
//! - [`invariants::watched`] wraps any discipline, and checks every call. The driver uses this wrapper.

pub mod invariants;

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Streams};
use serde_json::Value;

use crate::{Config, Context, Evidence, Observer, QueueDiscipline, Reason};

/// An observer that discards all reports on drops and marks.
#[derive(Clone, Copy, Debug)]
pub struct Ignore;

impl Observer for Ignore {
    fn dropped(&mut self, _: &Packet, _: Reason, _: Instant) {}
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
}

/// An observer that records all drops and marks in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fates {
    /// All drops and marks, in order.
    pub list: Vec<Fate>,
    /// The number of drops and the number of marks.
    pub counts: Counts,
    /// The numbers that led to drops, in order. A drop without such numbers has no entry.
    pub evidence: Vec<Evidence>,
}

/// A packet that was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// The packet, including its mark.
    pub packet: Packet,
    /// Whether the packet was marked (`true`) or dropped (`false`).
    pub is_mark: bool,
    /// The reason for the drop or mark.
    pub why: Reason,
    /// The time of the drop or mark.
    pub at: Instant,
}

/// The number of drops for each reason, and the number of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Drops of randomly selected packets before the queue was full.
    pub early: u64,
    /// Drops while the algorithm was dropping every packet, for example because RED's average was above `max_th`.
    pub forced: u64,
    /// Drops because the queue was full.
    pub overflow: u64,
    /// Drops for any other reason.
    pub other: u64,
    /// Marks, for any reason.
    pub marks: u64,
}

impl Counts {
    /// Returns the number of drops, for any reason.
    pub fn drops(&self) -> u64 {
        self.early + self.forced + self.overflow + self.other
    }
}

impl Fates {
    /// Returns the dropped packets, in order.
    pub fn dropped_packets(&self) -> impl Iterator<Item = &Packet> {
        self.list.iter().filter(|fate| !fate.is_mark).map(|fate| &fate.packet)
    }

    /// Returns the marked packets, in order.
    pub fn marked_packets(&self) -> impl Iterator<Item = &Packet> {
        self.list.iter().filter(|fate| fate.is_mark).map(|fate| &fate.packet)
    }
}

impl Observer for Fates {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.list.push(Fate { packet: *packet, is_mark: false, why, at: now });
        match why {
            Reason::Early => self.counts.early += 1,
            Reason::Forced => self.counts.forced += 1,
            Reason::Overflow => self.counts.overflow += 1,
            _ => self.counts.other += 1,
        }
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.list.push(Fate { packet: *packet, is_mark: true, why, at: now });
        self.counts.marks += 1;
    }

    fn evidence(&mut self, evidence: &Evidence) {
        self.evidence.push(*evidence);
    }
}

/// A discipline that a test controls call by call. The test also sets the time.
pub struct Driver {
    /// The discipline, with invariant checks.
    pub queue: Box<dyn QueueDiscipline>,
    /// The random stream that the discipline uses.
    pub rng: Rng,
    /// The drops and marks so far.
    pub fates: Fates,
    /// The time of the next call.
    pub now: Instant,
    next_id: u32,
}

impl Driver {
    /// Builds the discipline that `table` describes, for a link rate of 10 Mb/s.
    ///
    /// # Panics
    /// Panics if the table is invalid.
    pub fn new(table: Value, seed: u64) -> Self {
        Self::at_rate(table, Rate::from_bps(10_000_000), seed)
    }

    /// Builds the discipline that `table` describes, for a link with this rate.
    ///
    /// # Panics
    /// Panics if the table is invalid.
    pub fn at_rate(table: Value, rate: Rate, seed: u64) -> Self {
        let queue = Config::read(table).and_then(|config| invariants::watched(&config, rate));
        Self {
            queue: queue.unwrap_or_else(|error| panic!("{error}")),
            rng: Streams::new(seed).named("queue", 0),
            fates: Fates::default(),
            now: Instant::START,
            next_id: 0,
        }
    }

    /// Enqueues a copy of `like` that has a unique id. Returns `true` if a packet was dropped or marked by this call.
    pub fn offer(&mut self, like: Packet) -> bool {
        let before = self.fates.list.len();
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut self.fates };
        self.queue.enqueue(Packet { id: self.next_id, ..like }, &mut cx);
        self.next_id += 1;
        self.fates.list.len() > before
    }

    /// Dequeues and returns a packet, or returns `None` if there is none.
    pub fn take(&mut self) -> Option<Packet> {
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut self.fates };
        self.queue.dequeue(&mut cx)
    }

    /// Enqueues 20,000 packets that are created by the function `like`. Nine in ten arrivals are followed by a
    /// departure. From time to time, there are no departures for a while, or the queue is emptied and the link becomes
    /// idle. Returns, for each arrival, whether a packet was dropped or marked.
    pub fn offer_irregularly(&mut self, like: impl Fn(u32) -> Packet) -> Vec<bool> {
        let mut fates = Vec::new();
        for k in 0..20_000_u32 {
            self.now = Instant::from_nanos(u64::from(k) * 700_000);
            fates.push(self.offer(like(k)));
            if k % 10 != 0 && k % 4000 > 1500 {
                self.take();
            }
            if k % 4000 == 3999 {
                while self.take().is_some() {}
            }
        }
        fates
    }

    /// Returns the value of the gauge `name`.
    ///
    /// # Panics
    /// Panics if there is no gauge with this name.
    pub fn gauge(&self, name: &str) -> f64 {
        let mut value = None;
        self.queue.gauges(&mut |gauge| value = value.or((gauge.name == name).then_some(gauge.value)));
        value.unwrap_or_else(|| panic!("there is no gauge {name}"))
    }
}

/// Returns a packet of this size.
pub fn packet(bytes: u16) -> Packet {
    Packet { bytes, ..Packet::default() }
}

/// Returns an ECN-capable packet of this size.
pub fn ect(bytes: u16) -> Packet {
    Packet { bytes, ecn: Ecn::Ect0, ..Packet::default() }
}
