//! The event queue, which returns events in chronological order. The tie rule in the module `event` determines the
//! order of events that have the same time.
//!
//! Packets on links with the same delay mostly arrive in the order in which they were sent. These packets are therefore
//! stored in a few shared first-in-first-out lanes, in which a new packet may overtake a few other packets. Timers, and
//! packets that would have to overtake many other packets, are stored in an exact timing wheel. To find the next event,
//! the queue compares the heads of the lanes, and searches the wheel only for events that precede these heads.

use aqm_net::{Instant, Packet};

use crate::engine::event::{Event, Key, SAMPLERS, Timer, rank_of_processing};
use crate::engine::prefetch::prefetch_value;
use crate::engine::ring::Ring;
use crate::engine::wheel::Wheel;

/// The lane number of packets that have no lane and are stored in the wheel.
pub(crate) const NO_LANE: u8 = u8::MAX;

/// The lanes that contain the packets on a class of links. One lane is for packets that arrived at an idle link, and
/// the other lane is for packets that waited until their link was free. If there are very many links, many packets that
/// did not wait overtake packets that waited, but the packets that waited stay in chronological order among themselves.
#[derive(Clone, Copy)]
pub(crate) struct LanePair {
    pub(crate) unqueued: u8,
    pub(crate) queued: u8,
}

impl LanePair {
    /// A pair without lanes.
    pub(crate) const NONE: Self = Self { unqueued: NO_LANE, queued: NO_LANE };

    #[inline(always)]
    pub(crate) const fn lane(self, waited: bool) -> u8 {
        if waited { self.queued } else { self.unqueued }
    }
}

/// Maximum number of packets in a lane that a new packet may overtake. The number is small because jitter reorders only
/// adjacent packets.
const MAX_PASSED: usize = 12;

/// The order, within a run, of events that have the same time. The order follows either the tie rule or the reversed
/// tie rule; a run with the reversed rule shows how strongly ties affect the results. Sampling timers come last in both
/// cases.
#[derive(Clone, Copy, Debug)]
struct TieOrder {
    flip: u32,
    offset: u32,
}

impl TieOrder {
    const fn new(reversed: bool) -> Self {
        // In the reversed order, these values map a rank below the sampling timers to the distance of the rank from the
        // lowest rank of the sampling timers.
        if reversed { Self { flip: !0, offset: SAMPLERS } } else { Self { flip: 0, offset: 0 } }
    }

    const fn of_packet(self, rank: u32) -> u32 {
        (rank ^ self.flip).wrapping_add(self.offset)
    }

    /// Returns the position of a lane. If the tie rule is reversed, the order of lanes is also reversed.
    const fn of_lane(self, lane: usize, lanes: usize) -> usize {
        if self.flip == 0 { lane } else { lanes - 1 - lane }
    }

    const fn of_timer(self, rank: u32) -> u32 {
        if rank < SAMPLERS { self.of_packet(rank) } else { rank }
    }
}

/// The next event. The packet of the event is returned separately, because copying a packet repeatedly would be
/// expensive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextEvent {
    /// A packet reaches the end of its link.
    Packet,
    /// A host has processed a packet.
    Processed,
    /// A timer expires.
    Timer(Timer),
}

/// An event in the near future.
pub(crate) enum Upcoming<'a> {
    Packet(&'a Packet),
    Processed(&'a Packet),
    Timer(&'a Timer),
}

/// A packet and its key. The structure is flat, because lanes account for most memory writes of a run.
#[derive(Clone, Copy, Default)]
struct Entry {
    time: u64,
    rank: u32,
    packet: Packet,
}

impl Entry {
    const fn key(&self) -> Key {
        Key::new(self.time, self.rank)
    }
}

/// Packets in chronological order. `tail` is the key of the last packet in the lane.
struct Lane {
    waiting: Ring<Entry>,
    tail: Key,
}

/// The head of a lane: the time of the first packet in the upper 61 bits, and the position of the lane in the lower
/// bits, so that the smallest head identifies the lane. Lanes are sorted by the ranks of their links, so comparing
/// heads also resolves ties, except within a pair of lanes. A 61-bit clock covers 73 years.
type Head = u64;

const LANE_BITS: u32 = 3;
const EMPTY: Head = Head::MAX;

/// Maximum number of lanes.
const LANES: usize = 8;
const FEW: usize = 4;

/// Maximum number of lanes for packets on links.
pub(crate) const LINK_LANES: usize = LANES - 1;
pub(crate) const LINK_PAIRS: usize = LANES / 2 - 1;

/// The event queue.
pub(crate) struct EventQueue {
    heads: [Head; LANES],
    lanes: [Lane; LANES],
    wheel: Wheel,
    ties: TieOrder,
    /// Number of lanes in use. The last lane contains the packets that hosts process, because, according to the tie
    /// rule, these packets come after the packets on links.
    in_use: usize,
    /// Whether each class of links has a pair of adjacent lanes.
    in_pairs: bool,
    /// Position of the lane that contains the packets that hosts process.
    host_lane: usize,
    handled: u64,
    /// Source of the last event: the position of a lane, or [`WHEEL`].
    source: usize,
}

/// The value of `source` for events that are not from a lane.
const WHEEL: usize = LANES;

const fn head(time: u64, lane: usize) -> Head {
    time << LANE_BITS | lane as Head
}

impl EventQueue {
    /// Creates the queue for a number of link classes. As many classes as possible get a lane or, if `in_pairs` is
    /// true, a pair of lanes.
    pub(crate) fn new(reversed: bool, classes: usize, in_pairs: bool) -> Self {
        let ties = TieOrder::new(reversed);
        let (host_lane, in_use) = match in_pairs {
            true => (2 * classes.min(LINK_PAIRS), 2 * classes.min(LINK_PAIRS) + 2),
            false => (classes.min(LINK_LANES), classes.min(LINK_LANES) + 1),
        };
        Self {
            heads: [EMPTY; LANES],
            lanes: std::array::from_fn(|_| Lane { waiting: Ring::new(), tail: Key::new(0, 0) }),
            wheel: Wheel::new(),
            ties,
            in_use,
            in_pairs,
            host_lane: ties.of_lane(host_lane, in_use),
            handled: 0,
            source: WHEEL,
        }
    }

    /// Returns an event in the near future: the event that is `distance` positions after the last event from the same
    /// source.
    #[inline(always)]
    pub(crate) fn ahead(&self, distance: usize) -> Option<Upcoming<'_>> {
        if self.source == WHEEL {
            return self.wheel.after(distance).map(|event| match event {
                Event::Packet(packet) => Upcoming::Packet(packet),
                Event::Processed(packet) => Upcoming::Processed(packet),
                Event::Timer(timer) => Upcoming::Timer(timer),
            });
        }
        let packet = &self.lanes[self.source].waiting.after(distance)?.packet;
        Some(if self.source == self.host_lane {
            Upcoming::Processed(packet)
        } else {
            Upcoming::Packet(packet)
        })
    }

    /// Prefetches the event that [`ahead`](Self::ahead) will soon return.
    #[inline]
    pub(crate) fn prefetch(&self, distance: usize) {
        if self.source != WHEEL
            && let Some(entry) = self.lanes[self.source].waiting.after(distance)
        {
            prefetch_value(entry);
        }
    }

    /// Returns the number of events that have been removed from the queue.
    pub(crate) fn handled(&self) -> u64 {
        self.handled
    }

    /// Returns the lanes of packets on the class of links with this number.
    pub(crate) fn lanes(&self, class: usize) -> LanePair {
        let position = |lane: usize| self.ties.of_lane(lane, self.in_use) as u8;
        if !self.in_pairs && class < LINK_LANES {
            LanePair { unqueued: position(class), queued: position(class) }
        } else if self.in_pairs && class < LINK_PAIRS {
            LanePair { unqueued: position(2 * class), queued: position(2 * class + 1) }
        } else {
            LanePair::NONE
        }
    }

    /// Adds a packet that arrives at `at` to a lane.
    #[inline(always)]
    pub(crate) fn put_packet(&mut self, lane: u8, at: Instant, rank: u32, packet: Packet) {
        let key = Key::new(at.nanos(), self.ties.of_packet(rank));
        if usize::from(lane) >= LANES {
            return self.put_in_wheel(key, packet);
        }
        self.join(lane.into(), key, packet);
    }

    #[cold]
    fn put_in_wheel(&mut self, key: Key, packet: Packet) {
        self.wheel.push(key, Event::Packet(packet));
    }

    /// Adds an event at the time `at`, when a host will have processed `packet`.
    pub(crate) fn put_processed(&mut self, at: Instant, packet: Packet) {
        let key = Key::new(at.nanos(), self.ties.of_packet(rank_of_processing(packet.flow)));
        self.join(self.host_lane, key, packet);
    }

    /// Adds a packet to a lane.
    #[inline(always)]
    fn join(&mut self, lane: usize, key: Key, packet: Packet) {
        let queue = &mut self.lanes[lane];
        if self.heads[lane] == EMPTY {
            self.heads[lane] = head(key.time, lane);
        } else if key < queue.tail {
            return self.put_early(lane, Entry { time: key.time, rank: key.rank, packet });
        }
        queue.tail = key;
        // The fields of the entry are written directly to the lane. If the entry were first assembled elsewhere, the
        // processor would stall, because the entry would immediately be read back in larger units than those in which
        // it was written.
        let entry = queue.waiting.next_slot();
        entry.time = key.time;
        entry.rank = key.rank;
        entry.packet = packet;
    }

    /// Adds a packet that precedes the last packet of its lane. If the packet would have to overtake too many packets
    /// in the lane, the packet is stored in the wheel.
    #[cold]
    fn put_early(&mut self, lane: usize, entry: Entry) {
        let key = entry.key();
        let queue = &mut self.lanes[lane].waiting;
        if !queue.insert(entry, MAX_PASSED, |other| key < other.key()) {
            let Entry { packet, .. } = entry;
            let event = if lane == self.host_lane { Event::Processed(packet) } else { Event::Packet(packet) };
            return self.wheel.push(key, event);
        }
        if let Some(first) = queue.first() {
            self.heads[lane] = head(first.time, lane);
        }
    }

    /// Adds a timer that expires at `at`.
    #[inline]
    pub(crate) fn put_timer(&mut self, at: Instant, rank: u32, timer: Timer) {
        let key = Key::new(at.nanos(), self.ties.of_timer(rank));
        self.wheel.push(key, Event::Timer(timer));
    }

    /// Returns a time before which no event is due. This time may be slightly earlier than the time of the first event.
    pub(crate) fn next_due(&self) -> Instant {
        let least = self.least();
        let in_lanes = if least == EMPTY { u64::MAX } else { least >> LANE_BITS };
        Instant::from_nanos(in_lanes.min(self.wheel.bound()))
    }

    /// Returns the smallest head.
    #[inline(always)]
    fn least(&self) -> Head {
        let [a, b, c, d, e, f, g, h] = self.heads;
        let least = a.min(b).min(c.min(d));
        if self.in_use <= FEW && !self.in_pairs {
            return least;
        }
        let least = least.min(e.min(f).min(g.min(h)));
        let pair = (least as usize % LANES) ^ 1;
        if self.heads[pair] ^ least < LANES as Head { self.lower_rank(least, pair) } else { least }
    }

    /// Returns the head whose packet has the lower rank, for two lanes of a pair whose first packets have the same
    /// time. The ranks must be compared because the links of the two lanes in a pair are not sorted by rank.
    #[cold]
    fn lower_rank(&self, least: Head, pair: usize) -> Head {
        let rank = |lane: usize| self.lanes[lane].waiting.first().map(|first| first.rank);
        if rank(pair) < rank(least as usize % LANES) { self.heads[pair] } else { least }
    }

    /// Removes all packets that are due at or before `until`, and passes them to `take`. The queue must contain only
    /// packets, and `take` must not add packets to the queue.
    #[inline(always)]
    pub(crate) fn take_packets(&mut self, until: Instant, mut take: impl FnMut(Instant, Packet)) {
        while let Some((lane, end, most)) = self.next_run(until) {
            let queue = &mut self.lanes[lane].waiting;
            let waited = queue.len();
            queue.take_while(
                most,
                |entry| head(entry.time, lane) < end,
                |entry| take(Instant::from_nanos(entry.time), entry.packet),
            );
            self.handled += (waited - queue.len()) as u64;
            self.heads[lane] = queue.first().map_or(EMPTY, |next| head(next.time, lane));
        }
    }

    /// Returns the lane that contains the next packets, the head at which this sequence of packets ends, and the
    /// maximum number of packets in the sequence. The lane contains at least one packet.
    fn next_run(&mut self, until: Instant) -> Option<(usize, Head, usize)> {
        let least = self.least();
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        if let Some((key, Event::Packet(packet))) = self.take_from_wheel(least, until) {
            self.lanes[lane].waiting.push_front(Entry { time: key.time, rank: key.rank, packet });
            let first = head(key.time, lane);
            self.heads[lane] = first;
            return Some((lane, first + 1, 1));
        }
        if time > until.nanos() {
            return None;
        }
        self.heads[lane] = EMPTY;
        let others = self.least();
        self.heads[lane] = least;
        let of_pair = if self.in_pairs { self.heads[lane ^ 1] >> LANE_BITS } else { u64::MAX };
        let end = of_pair.min(self.wheel.bound());
        if end <= time {
            // Other events have the same time, so the ranks must be compared after each packet.
            return Some((lane, least + 1, 1));
        }
        Some((lane, others.min(head(end.min(until.nanos().saturating_add(1)), 0)), usize::MAX))
    }

    /// Removes and returns the first entry of the wheel if this entry is due at or before `until` and precedes the
    /// packet at the head `least`.
    #[inline(always)]
    fn take_from_wheel(&mut self, least: Head, until: Instant) -> Option<(Key, Event)> {
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        if !self.wheel.may_precede(time.min(until.nanos())) {
            return None;
        }
        let end = Key::new(until.nanos(), u32::MAX);
        let first = self.lanes[lane].waiting.first();
        self.wheel.pop_before(first.map_or(end, |first| first.key().min(end)))
    }

    /// Removes and returns the next event, unless the event is later than `until`. If the event concerns a packet, the
    /// packet is stored in `packet`.
    #[inline(always)]
    pub(crate) fn next(&mut self, until: Instant, packet: &mut Packet) -> Option<(Instant, NextEvent)> {
        let least = self.least();
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        if let Some((key, event)) = self.take_from_wheel(least, until) {
            self.handled += 1;
            self.source = WHEEL;
            let due = match event {
                Event::Packet(of_event) => {
                    *packet = of_event;
                    NextEvent::Packet
                }
                Event::Processed(of_event) => {
                    *packet = of_event;
                    NextEvent::Processed
                }
                Event::Timer(timer) => NextEvent::Timer(timer),
            };
            return Some((Instant::from_nanos(key.time), due));
        }
        if time > until.nanos() {
            return None;
        }
        let queue = &mut self.lanes[lane].waiting;
        *packet = queue.first()?.packet;
        queue.drop_first();
        self.source = lane;
        self.heads[lane] = queue.first().map_or(EMPTY, |next| head(next.time, lane));
        self.handled += 1;
        Some((
            Instant::from_nanos(time),
            if lane == self.host_lane { NextEvent::Processed } else { NextEvent::Packet },
        ))
    }
}

#[cfg(test)]
mod tests;
