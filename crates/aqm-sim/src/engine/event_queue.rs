//! Events in order of time, ties by the one written rule.
//!
//! Packets over links of the same delay mostly arrive in the order they were sent, so they wait in
//! a few shared first-in-first-out lanes, in which a packet may pass a few others; one that would
//! have to pass many, and every timer, goes to the exact wheel behind them. Taking the next event compares the
//! heads of the lanes and asks the wheel only for what lies before them.
//!
//! The order of events of one instant is the tie rule of the module `event`.

use aqm_net::{Instant, Packet};

use crate::engine::event::{Event, Key, SAMPLERS, Timer, rank_of_processing};
use crate::engine::prefetch::prefetch_value;
use crate::engine::ring::Ring;
use crate::engine::wheel::Wheel;

/// The lane of those that have none, and use the wheel.
pub(crate) const NO_LANE: u8 = u8::MAX;

/// Where packets wait that come over the lines of a class: those that found their line free, and those that had to
/// wait for it. With very many lines many others pass the latter, which are in order of time among themselves.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub(crate) at_once: u8,
    pub(crate) late: u8,
}

impl Places {
    /// In no lane.
    pub(crate) const NONE: Self = Self { at_once: NO_LANE, late: NO_LANE };

    #[inline(always)]
    pub(crate) const fn of(self, is_late: bool) -> u8 {
        if is_late { self.late } else { self.at_once }
    }
}

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
    const fn of_lane(self, lane: usize, lanes: usize) -> usize {
        if self.flip == 0 { lane } else { lanes - 1 - lane }
    }

    const fn of_timer(self, rank: u32) -> u32 {
        if rank < SAMPLERS { self.of_packet(rank) } else { rank }
    }
}

/// What is due now. A packet is not part of it, because it would be copied from hand to hand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// A packet reaches the end of its link.
    Packet,
    /// A host has processed a packet.
    Held,
    /// A timer expires.
    Timer(Timer),
}

/// An event that will come.
pub(crate) enum Soon<'a> {
    Packet(&'a Packet),
    Held(&'a Packet),
    Timer(&'a Timer),
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
/// Lanes stand in the order of the ranks of their links, so that this settles ties, too, but for those of a pair. The
/// clock keeps 61 bits, which are 73 years.
type Head = u64;

const LANE_BITS: u32 = 3;
const NOTHING: Head = Head::MAX;

/// The most lanes there are, and how many of them are looked at if no more are in use.
const LANES: usize = 8;
const FEW: usize = 4;

/// How many lanes links may have, and how many pairs of lanes.
pub(crate) const LINK_LANES: usize = LANES - 1;
pub(crate) const LINK_PAIRS: usize = LANES / 2 - 1;

/// All that is due.
pub(crate) struct EventQueue {
    heads: [Head; LANES],
    lanes: [Lane; LANES],
    wheel: Wheel,
    ties: TieOrder,
    /// How many lanes are in use. Behind those of links is that of packets that hosts work on, because they come
    /// after those on links.
    in_use: usize,
    /// Whether two lanes that stand side by side belong to one class of links.
    in_pairs: bool,
    /// The place of the lane of packets that hosts work on.
    held_lane: usize,
    taken: u64,
    /// Where the last event was taken: a lane, or [`WHEEL`].
    source: usize,
}

/// What is not a lane.
const WHEEL: usize = LANES;

const fn head(time: u64, lane: usize) -> Head {
    time << LANE_BITS | lane as Head
}

impl EventQueue {
    /// One for so many classes of links, for as many of which as possible there is a lane, or a pair.
    pub(crate) fn new(reversed: bool, classes: usize, in_pairs: bool) -> Self {
        let ties = TieOrder::new(reversed);
        let (held_lane, in_use) = match in_pairs {
            true => (2 * classes.min(LINK_PAIRS), 2 * classes.min(LINK_PAIRS) + 2),
            false => (classes.min(LINK_LANES), classes.min(LINK_LANES) + 1),
        };
        Self {
            heads: [NOTHING; LANES],
            lanes: std::array::from_fn(|_| Lane { waiting: Ring::new(), tail: Key::new(0, 0) }),
            wheel: Wheel::new(),
            ties,
            in_use,
            in_pairs,
            held_lane: ties.of_lane(held_lane, in_use),
            taken: 0,
            source: WHEEL,
        }
    }

    /// An event that is due soon: so many places behind the last one, of those like it.
    #[inline(always)]
    pub(crate) fn ahead(&self, distance: usize) -> Option<Soon<'_>> {
        if self.source == WHEEL {
            return self.wheel.after(distance).map(|event| match event {
                Event::Packet(packet) => Soon::Packet(packet),
                Event::Held(packet) => Soon::Held(packet),
                Event::Timer(timer) => Soon::Timer(timer),
            });
        }
        let packet = &self.lanes[self.source].waiting.after(distance)?.packet;
        Some(if self.source == self.held_lane { Soon::Held(packet) } else { Soon::Packet(packet) })
    }

    /// Asks for the memory of one that [`ahead`](Self::ahead) will soon tell of.
    #[inline]
    pub(crate) fn prefetch(&self, distance: usize) {
        if self.source != WHEEL
            && let Some(entry) = self.lanes[self.source].waiting.after(distance)
        {
            prefetch_value(entry);
        }
    }

    /// How many events were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Where packets of the class of links with this number wait.
    pub(crate) fn places(&self, class: usize) -> Places {
        let place = |lane: usize| self.ties.of_lane(lane, self.in_use) as u8;
        if !self.in_pairs && class < LINK_LANES {
            Places { at_once: place(class), late: place(class) }
        } else if self.in_pairs && class < LINK_PAIRS {
            Places { at_once: place(2 * class), late: place(2 * class + 1) }
        } else {
            Places::NONE
        }
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
        if self.in_use <= FEW && !self.in_pairs {
            return least;
        }
        let least = least.min(e.min(f).min(g.min(h)));
        let pair = (least as usize % LANES) ^ 1;
        if self.heads[pair] ^ least < LANES as Head { self.lower_rank(least, pair) } else { least }
    }

    /// Two lanes of a pair, whose links stand in no order, have packets of one moment: the head of the lower rank.
    #[cold]
    fn lower_rank(&self, least: Head, pair: usize) -> Head {
        let rank = |lane: usize| self.lanes[lane].waiting.first().map(|first| first.rank);
        if rank(pair) < rank(least as usize % LANES) { self.heads[pair] } else { least }
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
        if let Some((key, Event::Packet(packet))) = self.take_from_wheel(least, until) {
            self.lanes[lane].waiting.push_front(Entry { time: key.time, rank: key.rank, packet });
            let first = head(key.time, lane);
            self.heads[lane] = first;
            return Some((lane, first + 1, 1));
        }
        if time > until.nanos() {
            return None;
        }
        self.heads[lane] = NOTHING;
        let others = self.least();
        self.heads[lane] = least;
        let of_pair = if self.in_pairs { self.heads[lane ^ 1] >> LANE_BITS } else { u64::MAX };
        let end = of_pair.min(self.wheel.bound());
        if end <= time {
            // Of the same nanosecond: after each packet its rank is looked at.
            return Some((lane, least + 1, 1));
        }
        Some((lane, others.min(head(end.min(until.nanos().saturating_add(1)), 0)), usize::MAX))
    }

    /// Takes the first entry of the wheel, if it is due by `until` and comes before the packet whose head is the
    /// `least`.
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

    /// Takes the next event, unless it lies after `until`; then the time has come to `until`. If it is about a packet,
    /// that is left in `packet`.
    #[inline(always)]
    pub(crate) fn next(&mut self, until: Instant, packet: &mut Packet) -> Option<(Instant, Due)> {
        let least = self.least();
        let (time, lane) = (least >> LANE_BITS, least as usize % LANES);
        if let Some((key, event)) = self.take_from_wheel(least, until) {
            self.taken += 1;
            self.source = WHEEL;
            let due = match event {
                Event::Packet(of_event) => {
                    *packet = of_event;
                    Due::Packet
                }
                Event::Held(of_event) => {
                    *packet = of_event;
                    Due::Held
                }
                Event::Timer(timer) => Due::Timer(timer),
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
        self.heads[lane] = queue.first().map_or(NOTHING, |next| head(next.time, lane));
        self.taken += 1;
        Some((Instant::from_nanos(time), if lane == self.held_lane { Due::Held } else { Due::Packet }))
    }
}

#[cfg(test)]
mod tests;
