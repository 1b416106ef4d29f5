//! Hands that move a discipline, and eyes that count what it does.

use aqm_net::{Ecn, Instant, Packet, Rate, Rng, Streams};
use aqm_queue::{Config, Context, Observer, QueueDiscipline, Reason, invariants};
use serde_json::Value;

/// What was told, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub early: u64,
    pub forced: u64,
    pub overflow: u64,
    pub marks: u64,
}

impl Observer for Counts {
    fn dropped(&mut self, _: &Packet, why: Reason, _: Instant) {
        match why {
            Reason::Early => self.early += 1,
            Reason::Forced => self.forced += 1,
            Reason::Overflow => self.overflow += 1,
        }
    }
    fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {
        self.marks += 1;
    }
}

impl Counts {
    pub fn fates(&self) -> u64 {
        self.early + self.forced + self.overflow + self.marks
    }
}

/// Counts, and keeps what was dropped.
struct Keeper<'a>(&'a mut Counts, &'a mut Vec<Packet>);

impl Observer for Keeper<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.0.dropped(packet, why, now);
        self.1.push(*packet);
    }
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.0.marked(packet, why, now);
    }
}

/// A discipline in the hand.
pub struct Hand {
    pub queue: Box<dyn QueueDiscipline>,
    pub rng: Rng,
    pub counts: Counts,
    /// Packets dropped so far, in order.
    pub dropped: Vec<Packet>,
    pub now: Instant,
    next_id: u32,
}

impl Hand {
    /// The discipline that `table` describes, for a line of 10 Mb/s; it is watched for its laws.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub fn new(table: Value, seed: u64) -> Self {
        Self::at_rate(table, Rate::from_bps(10_000_000), seed)
    }

    /// The same for a line of another rate.
    pub fn at_rate(table: Value, rate: Rate, seed: u64) -> Self {
        let config = Config::read(table).unwrap();
        let queue = invariants::watched(&config, rate).unwrap();
        let rng = Streams::new(seed).named("queue", 0);
        Self { queue, rng, counts: Counts::default(), dropped: Vec::new(), now: Instant::START, next_id: 0 }
    }

    /// Offers a packet like this one; returns whether chance or law chose it.
    pub fn offer(&mut self, like: Packet) -> bool {
        let before = self.counts.fates();
        let mut keeper = Keeper(&mut self.counts, &mut self.dropped);
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut keeper };
        self.queue.enqueue(Packet { id: self.next_id, ..like }, &mut cx);
        self.next_id += 1;
        self.counts.fates() > before
    }

    /// Takes a packet.
    pub fn take(&mut self) -> Option<Packet> {
        let mut keeper = Keeper(&mut self.counts, &mut self.dropped);
        let mut cx = Context { now: self.now, rng: &mut self.rng, observer: &mut keeper };
        self.queue.dequeue(&mut cx)
    }

    /// Offers 20,000 packets of any kind, with pauses: nine in ten arrivals are served; now and then nothing
    /// is, or all, and the line idles. Returns, for each packet, whether it was chosen.
    #[allow(dead_code, reason = "not every test file needs it")]
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

    /// The value of a gauge.
    #[allow(dead_code, reason = "not every test file needs it")]
    pub fn gauge(&self, name: &str) -> f64 {
        let mut found = None;
        self.queue.gauges(&mut |gauge| {
            if gauge.name == name {
                found = Some(gauge.value);
            }
        });
        found.unwrap()
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
