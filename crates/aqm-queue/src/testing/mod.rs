//! Rigs for tests and benchmarks of disciplines, in this crate and in others.
//!
//! - [`Ignore`] and [`Fates`]: observers; `Ignore` forgets every drop and mark, `Fates` keeps and counts them.
//! - [`Driver`]: a discipline without a line, moved call by call; it keeps the fates of its packets. For tests of
//!   algorithms and of published numbers of drops.
//! - [`packet`] and [`ect`]: packets of a size, without and with ECN.
//! - A discipline *with* a line is a [`Port`](crate::Port): build one and tell [`Fates`] or [`Ignore`].
//! - `tests/line/` of this crate drives a scheduler with random bursts of four flows through a port, for
//!   properties of fair queueing (it needs `proptest`).
//! - [`invariants::watched`] wraps any discipline so that every call is checked; the driver uses it.

pub mod invariants;

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Streams};
use serde_json::Value;

use crate::{Config, Context, Observer, QueueDiscipline, Reason};

/// An observer that forgets what it is told.
#[derive(Clone, Copy, Debug)]
pub struct Ignore;

impl Observer for Ignore {
    fn dropped(&mut self, _: &Packet, _: Reason, _: Instant) {}
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
}

/// An observer that keeps what it is told, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fates {
    /// Every fate.
    pub told: Vec<Fate>,
    /// How many there are of each kind.
    pub counts: Counts,
}

/// A packet that was dropped or marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// The packet, with its mark.
    pub packet: Packet,
    /// Whether it was marked (`true`) or dropped.
    pub is_mark: bool,
    /// Why.
    pub why: Reason,
    /// When.
    pub at: Instant,
}

/// Numbers of drops by reason, and of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Drops by chance.
    pub early: u64,
    /// Drops where the algorithm left no choice.
    pub forced: u64,
    /// Drops for want of room.
    pub overflow: u64,
    /// Drops for any other reason.
    pub other: u64,
    /// Marks, for whatever reason.
    pub marks: u64,
}

impl Counts {
    /// Drops, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.early + self.forced + self.overflow + self.other
    }
}

impl Fates {
    /// The packets dropped, in order.
    pub fn dropped_packets(&self) -> impl Iterator<Item = &Packet> {
        self.told.iter().filter(|fate| !fate.is_mark).map(|fate| &fate.packet)
    }

    /// The packets marked, in order.
    pub fn marked_packets(&self) -> impl Iterator<Item = &Packet> {
        self.told.iter().filter(|fate| fate.is_mark).map(|fate| &fate.packet)
    }
}

impl Observer for Fates {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.told.push(Fate { packet: *packet, is_mark: false, why, at: now });
        match why {
            Reason::Early => self.counts.early += 1,
            Reason::Forced => self.counts.forced += 1,
            Reason::Overflow => self.counts.overflow += 1,
            _ => self.counts.other += 1,
        }
    }

    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.told.push(Fate { packet: *packet, is_mark: true, why, at: now });
        self.counts.marks += 1;
    }
}

/// A discipline moved call by call; the test says what time it is.
pub struct Driver {
    /// The discipline, watched for its invariants.
    pub queue: Box<dyn QueueDiscipline>,
    /// The queue's random stream.
    pub rng: Rng,
    /// What became of packets so far.
    pub fates: Fates,
    /// The time of the next call.
    pub now: Instant,
    next_id: u32,
}

impl Driver {
    /// The discipline that `table` describes, for a line of 10 Mb/s.
    ///
    /// # Panics
    /// If the table is wrong.
    pub fn new(table: Value, seed: u64) -> Self {
        Self::at_rate(table, Rate::from_bps(10_000_000), seed)
    }

    /// The discipline that `table` describes, for a line of this rate.
    ///
    /// # Panics
    /// If the table is wrong.
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

    /// Offers a packet like this one, with an id of its own; `true` if a packet was dropped or marked.
    pub fn offer(&mut self, like: Packet) -> bool {
        let before = self.fates.told.len();
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut self.fates };
        self.queue.enqueue(Packet { id: self.next_id, ..like }, &mut cx);
        self.next_id += 1;
        self.fates.told.len() > before
    }

    /// Takes a packet.
    pub fn take(&mut self) -> Option<Packet> {
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut self.fates };
        self.queue.dequeue(&mut cx)
    }

    /// Offers 20,000 packets of any kind, with pauses: nine in ten arrivals are served; now and then nothing
    /// is, or all, and the line idles. Returns, for each packet, whether a packet was dropped or marked.
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

    /// The value of the gauge `name`.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn gauge(&self, name: &str) -> f64 {
        let mut found = None;
        self.queue.gauges(&mut |gauge| found = found.or((gauge.name == name).then_some(gauge.value)));
        found.unwrap_or_else(|| panic!("there is no gauge {name}"))
    }
}

/// A packet of this size.
pub fn packet(bytes: u16) -> Packet {
    Packet { bytes, ..Packet::default() }
}

/// A packet of this size that may be marked.
pub fn ect(bytes: u16) -> Packet {
    Packet { bytes, ecn: Ecn::Ect0, ..Packet::default() }
}
