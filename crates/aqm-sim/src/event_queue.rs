//! Events in order of time, ties by the one written rule.
//!
//! Packets over links of the same delay mostly arrive in the order they were sent, so they wait in
//! a few shared first-in-first-out lanes, in which a packet may pass a few others; one that would
//! have to pass many, and every timer, goes to the exact wheel behind them. Taking the next event compares the
//! heads of the lanes and asks the wheel only for what lies before them.
//!
//! The order of events of one instant is the tie rule of the module `event`.

use aqm_net::{Instant, Packet};

use crate::event::{Event, Key, SAMPLERS, Timer, rank_of_processing};
use crate::ring::Ring;
use crate::wheel::Wheel;

/// The lane of those that have none, and use the wheel.
pub(crate) const NO_LANE: u8 = u8::MAX;

/// How many packets of its lane a packet may pass; jitter makes neighbours change places.
const MOST_PASSED: usize = 12;

/// The order of a run's ties: the rule, or the rule upside down to see how much ties matter.
/// Samplers come last either way.
#[derive(Clone, Copy, Debug)]
struct TieOrder {
    flip: u32,
    offset: u32,
}

impl TieOrder {
    const fn new(reversed: bool) -> Self {
        // Together they make of a rank below the samplers what is missing to the greatest of those.
        if reversed { Self { flip: !0, offset: SAMPLERS } } else { Self { flip: 0, offset: 0 } }
    }

    const fn of_packet(self, rank: u32) -> u32 {
        (rank ^ self.flip).wrapping_add(self.offset)
    }

    /// The place of one of so many lanes: as the ranks of its links turn round, so does its place.
    const fn of_lane(self, lane: u8, lanes: usize) -> usize {
        if self.flip == 0 || lane == NO_LANE { lane as usize } else { lanes - 1 - lane as usize }
    }

    const fn of_timer(self, rank: u32) -> u32 {
        if rank < SAMPLERS { self.of_packet(rank) } else { rank }
    }
}

/// A packet and its key, flat, because lanes are most of what a run writes to memory.
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

/// Packets in order of time; `tail` is the key of the last one that joined.
struct Lane {
    waiting: Ring<Entry>,
    tail: Key,
}

/// The head of a lane: its time above the place of the lane, so that the least head names its lane.
/// Lanes stand in the order of the ranks of their links, so that this settles ties, too. The clock
/// keeps 61 bits, which are 73 years.
type Head = u64;

const LANE_BITS: u32 = 3;
const NOTHING: Head = Head::MAX;

/// The most lanes there are, and how many of them are looked at if no more are in use.
const LANES: usize = 8;
const FEW: usize = 4;

/// How many lanes links may have.
pub(crate) const LINK_LANES: usize = LANES - 1;

/// All that is due.
pub(crate) struct EventQueue {
    heads: [Head; LANES],
    lanes: [Lane; LANES],
    wheel: Wheel,
    ties: TieOrder,
    /// How many lanes are in use. Behind those of links is that of packets that hosts work on, because they come
    /// after those on links.
    in_use: usize,
    /// The place of the lane of packets that hosts work on.
    held_lane: usize,
    taken: u64,
    /// The lane of the last packet taken from one.
    lane: usize,
}

const fn head(time: u64, lane: usize) -> Head {
    time << LANE_BITS | lane as Head
}

impl EventQueue {
    /// One with so many lanes for links, at most [`LINK_LANES`].
    pub(crate) fn new(reversed: bool, link_lanes: usize) -> Self {
        let (ties, in_use) = (TieOrder::new(reversed), link_lanes + 1);
        Self {
            heads: [NOTHING; LANES],
            lanes: std::array::from_fn(|_| Lane { waiting: Ring::new(), tail: Key::new(0, 0) }),
            wheel: Wheel::new(),
            ties,
            in_use,
            held_lane: ties.of_lane(link_lanes as u8, in_use),
            taken: 0,
            lane: 0,
        }
    }

    /// A packet that is due soon: so many places behind the last one, in the same lane.
    #[inline]
    pub(crate) fn ahead(&self, distance: usize) -> Option<&Packet> {
        self.lanes[self.lane].waiting.after(distance).map(|entry| &entry.packet)
    }

    /// How many events were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Where packets of a lane wait, or those of none.
    pub(crate) fn place(&self, lane: u8) -> u8 {
        self.ties.of_lane(lane, self.in_use) as u8
    }

    /// A packet is due at `at`; `place` is where those like it wait.
    #[inline(always)]
    pub(crate) fn put_packet(&mut self, place: u8, at: Instant, rank: u32, packet: Packet) {
        let key = Key::new(at.nanos(), self.ties.of_packet(rank));
        if usize::from(place) >= LANES {
            return self.put_in_wheel(key, packet);
        }
        self.join(place.into(), key, packet);
    }

    #[cold]
    fn put_in_wheel(&mut self, key: Key, packet: Packet) {
        self.wheel.push(key, Event::Packet(packet));
    }

    /// A host has processed `packet` at `at`.
    pub(crate) fn put_held(&mut self, at: Instant, packet: Packet) {
        let key = Key::new(at.nanos(), self.ties.of_packet(rank_of_processing(packet.flow)));
        self.join(self.held_lane, key, packet);
    }

    /// A packet joins a lane.
    #[inline(always)]
    fn join(&mut self, lane: usize, key: Key, packet: Packet) {
        let queue = &mut self.lanes[lane];
        if self.heads[lane] == NOTHING {
            self.heads[lane] = head(key.time, lane);
        } else if key < queue.tail {
            return self.put_early(lane, Entry { time: key.time, rank: key.rank, packet });
        }
        queue.tail = key;
        // Field by field: a whole entry would first be put together elsewhere, and reading it back at once
        // in larger pieces than it was written in stalls the processor.
        let entry = queue.waiting.next_place();
        entry.time = key.time;
        entry.rank = key.rank;
        entry.packet = packet;
    }

    /// A packet that is due before the last one of its lane passes a few, or else goes to the wheel.
    #[cold]
    fn put_early(&mut self, lane: usize, entry: Entry) {
        let key = entry.key();
        let queue = &mut self.lanes[lane].waiting;
        if !queue.insert(entry, MOST_PASSED, |other| key < other.key()) {
            let Entry { packet, .. } = entry;
            let event = if lane == self.held_lane { Event::Held(packet) } else { Event::Packet(packet) };
            return self.wheel.push(key, event);
        }
        if let Some(first) = queue.first() {
            self.heads[lane] = head(first.time, lane);
        }
    }

    /// A timer expires at `at`.
    #[inline]
    pub(crate) fn put_timer(&mut self, at: Instant, rank: u32, timer: Timer) {
        let key = Key::new(at.nanos(), self.ties.of_timer(rank));
        self.wheel.push(key, Event::Timer(timer));
    }

    /// No event is due before this moment; it may be a little before the first one.
    pub(crate) fn next_due(&self) -> Instant {
        let least = self.least();
        let in_lanes = if least == NOTHING { u64::MAX } else { least >> LANE_BITS };
        Instant::from_nanos(in_lanes.min(self.wheel.bound()))
    }

    /// The least head.
    #[inline(always)]
    fn least(&self) -> Head {
        let [a, b, c, d, e, f, g, h] = self.heads;
        let least = a.min(b).min(c.min(d));
        if self.in_use <= FEW { least } else { least.min(e.min(f).min(g.min(h))) }
    }

    /// Hands out all packets that are due by `until`, where nothing but packets waits and none joins meanwhile.
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
            self.taken += (waited - queue.len()) as u64;
            self.heads[lane] = queue.first().map_or(NOTHING, |next| head(next.time, lane));
        }
    }

    /// The lane whose packets come next, one at least; the head of what comes after them, and how many there may be.
    fn next_run(&mut self, until: Instant) -> Option<(usize, Head, usize)> {
        let least = self.least();
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        if self.wheel.may_precede(time.min(until.nanos())) {
            let end = Key::new(until.nanos(), u32::MAX);
            let limit = self.lanes[lane].waiting.first().map_or(end, |first| first.key().min(end));
            if let Some((key, Event::Packet(packet))) = self.wheel.pop_before(limit) {
                self.lanes[lane].waiting.push_front(Entry { time: key.time, rank: key.rank, packet });
                let first = head(key.time, lane);
                self.heads[lane] = first;
                return Some((lane, first + 1, 1));
            }
        }
        if time > until.nanos() {
            return None;
        }
        self.heads[lane] = NOTHING;
        let others = self.least();
        self.heads[lane] = least;
        if self.wheel.may_precede(time) {
            // Of the same nanosecond: after each packet its rank is looked at.
            return Some((lane, least + 1, 1));
        }
        let end = head(self.wheel.bound().min(until.nanos().saturating_add(1)), 0);
        Some((lane, others.min(end), usize::MAX))
    }

    /// Takes the next event, unless it lies after `until`; then the time has come to `until`.
    #[inline]
    pub(crate) fn next(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let least = self.least();
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        let queue = &mut self.lanes[lane].waiting;
        if self.wheel.may_precede(time.min(until.nanos())) {
            let end = Key::new(until.nanos(), u32::MAX);
            let limit = queue.first().map_or(end, |first| first.key().min(end));
            if let Some((key, event)) = self.wheel.pop_before(limit) {
                self.taken += 1;
                return Some((Instant::from_nanos(key.time), event));
            }
        }
        if time > until.nanos() {
            return None;
        }
        let first = queue.take_first()?;
        self.lane = lane;
        self.heads[lane] = queue.first().map_or(NOTHING, |next| head(next.time, lane));
        self.taken += 1;
        let event =
            if lane == self.held_lane { Event::Held(first.packet) } else { Event::Packet(first.packet) };
        Some((Instant::from_nanos(first.time), event))
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;
    use proptest::prelude::*;

    use super::*;
    use crate::event::{rank_of_link, rank_of_timer};
    use crate::side::Side;

    fn packet(id: u32) -> Packet {
        Packet { id, ..Packet::default() }
    }

    fn id(event: Event) -> u32 {
        match event {
            Event::Packet(packet) | Event::Held(packet) => packet.id,
            Event::Timer(Timer::End(Side::Sender, slot)) => slot,
            Event::Timer(other) => panic!("no such timer was set: {other:?}"),
        }
    }

    /// Pushes and pops at random; what comes out must be what a sorted list gives.
    fn agrees_with_a_sorted_list(seed: u64, spread: u64, reversed: bool) {
        let mut rng = Streams::new(seed).named("event_queue", 0);
        let mut event_queue = EventQueue::new(reversed, LINK_LANES);
        let mut list: Vec<(Key, u32)> = Vec::new();
        let mut now = 0;
        for round in 0..2_000_u32 {
            for _ in 0..rng.below(4) {
                let time = now + rng.below(spread) * (1 + rng.below(3) * rng.below(spread));
                let (lane, at) = (rng.below(10) as u8, Instant::from_nanos(time));
                let number = list.len() as u32 + round * 16;
                // Links of a lane have neighbouring numbers; those without a lane may have any.
                let link =
                    if lane < 8 { u32::from(lane) * 8 + rng.below(8) as u32 } else { rng.below(99) as u32 };
                let timer = Timer::End(Side::Sender, number);
                let rank = match lane {
                    7 => rank_of_processing(link),
                    9 => rank_of_timer(timer, link),
                    _ => rank_of_link(link),
                };
                let key = Key::new(time, TieOrder::new(reversed).of_timer(rank));
                // A link delivers one packet at a time.
                if list.iter().any(|(other, _)| *other == key) {
                    continue;
                }
                match lane {
                    7 => event_queue.put_held(at, Packet { flow: link, ..packet(number) }),
                    9 => event_queue.put_timer(at, rank, timer),
                    8 => event_queue.put_packet(NO_LANE, at, rank, packet(number)),
                    _ => event_queue.put_packet(event_queue.place(lane), at, rank, packet(number)),
                }
                list.push((key, number));
            }
            for _ in 0..rng.below(4) {
                let until = now + rng.below(2 * spread);
                list.sort_by_key(|(key, _)| *key);
                match event_queue.next(Instant::from_nanos(until)) {
                    Some((at, event)) => {
                        let (key, number) = list.remove(0);
                        assert_eq!((at.nanos(), id(event)), (key.time, number));
                        now = key.time;
                    }
                    None => {
                        assert!(list.first().is_none_or(|(key, _)| key.time > until));
                        now = until;
                    }
                }
            }
        }
    }

    /// Packets of few moments, so that many tie, in lanes and without one, taken in batches.
    fn batches_agree_with_a_sorted_list(seed: u64, lanes: usize, reversed: bool) {
        let mut rng = Streams::new(seed).named("batches", 0);
        let mut event_queue = EventQueue::new(reversed, lanes);
        let mut list: Vec<(Key, u32)> = Vec::new();
        let (mut now, mut number) = (0, 0);
        for _ in 0..400 {
            for _ in 0..rng.below(30) {
                let (time, lane) = (now + 1 + rng.below(25), rng.below(lanes as u64 + 1) as u8);
                let link = u32::from(lane) * 8 + rng.below(8) as u32;
                let (place, link) = match usize::from(lane) < lanes {
                    true => (event_queue.place(lane), link),
                    false => (NO_LANE, rng.below(8 * lanes as u64) as u32),
                };
                let key = Key::new(time, TieOrder::new(reversed).of_packet(rank_of_link(link)));
                if list.iter().all(|(other, _)| *other != key) {
                    event_queue.put_packet(
                        place,
                        Instant::from_nanos(time),
                        rank_of_link(link),
                        packet(number),
                    );
                    list.push((key, number));
                    number += 1;
                }
            }
            now += rng.below(20);
            list.sort_by_key(|(key, _)| *key);
            let due = list.partition_point(|(key, _)| key.time <= now);
            let expected: Vec<(u64, u32)> =
                list.drain(..due).map(|(key, number)| (key.time, number)).collect();
            let mut taken = Vec::new();
            let until = Instant::from_nanos(now);
            event_queue.take_packets(until, |at, packet| taken.push((at.nanos(), packet.id)));
            assert_eq!(taken, expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn events_come_in_order_of_time_and_rank(seed: u64, exponent in 1..40_u32, reversed: bool) {
            agrees_with_a_sorted_list(seed, 1 << (exponent / 2), reversed);
        }

        #[test]
        fn batches_come_in_order_of_time_and_rank(seed: u64, lanes in 1..LANES, reversed: bool) {
            batches_agree_with_a_sorted_list(seed, lanes, reversed);
        }
    }
}
