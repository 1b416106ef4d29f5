//! An exact timing wheel: whatever does not arrive in order of time waits here.
//!
//! A 64-ary hierarchy over the bits of a nanosecond clock (after Varghese & Lauck 1987): an entry
//! lies on the level of the highest six-bit digit in which its time differs from the wheel's base,
//! so each level below is earlier than each level above, and a bit per bucket finds the next one.
//! The first bucket is sorted once it has few entries, and they leave in that order. The cost of an entry does not
//! depend on how many wait.

use crate::engine::event::{Event, Key};

const LEVELS: usize = 11;
const BUCKETS: usize = 64;

/// A bucket of at most so many entries is sorted; those of a larger one are distributed over the levels below.
const MOST_SORTED: usize = 256;

/// How many of those that come next an entry may follow if it is put among them.
const MOST_PASSED: usize = 32;

/// A bucket with more room than this gives it back when it is emptied.
const ROOM_KEPT: usize = 64;

/// Entries in order of time, ties in order of rank, equal ranks in order of insertion.
pub(crate) struct Wheel {
    /// No entry is earlier than this; cheap to compare with.
    bound: u64,
    /// The entries that come next, the first of them last. All are earlier than `rest`.
    next: Vec<Entry>,
    /// No entry of the buckets is earlier than this.
    rest: u64,
    /// Nor than this, with which their times are compared to find their level.
    base: u64,
    /// A bit for each level that has entries, and for each bucket of a level.
    levels: u16,
    occupied: [u64; LEVELS],
    /// Entries lie side by side, because with very many timers the cost of one is that of the memory it touches.
    buckets: Box<[[Vec<Entry>; BUCKETS]; LEVELS]>,
    /// Room for the entries of a bucket while they are distributed.
    room: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    event: Event,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            bound: u64::MAX,
            next: Vec::new(),
            rest: u64::MAX,
            base: 0,
            levels: 0,
            occupied: [0; LEVELS],
            buckets: Box::new(std::array::from_fn(|_| std::array::from_fn(|_| Vec::new()))),
            room: Vec::new(),
        }
    }

    /// Adds an entry, which must not lie before one that was already taken.
    #[inline(never)]
    pub(crate) fn push(&mut self, key: Key, event: Event) {
        let entry = Entry { key, event };
        if key.time < self.rest {
            // A workload that sets its next timer as the last one expires never gets further.
            if self.next.last().is_none_or(|first| key < first.key) {
                self.bound = key.time;
                return self.next.push(entry);
            }
            return self.put_among_next(entry);
        }
        self.bound = self.bound.min(key.time);
        self.put_in_bucket(entry);
    }

    /// An entry that comes after another one and before `rest`.
    fn put_among_next(&mut self, entry: Entry) {
        let place = self.next.partition_point(|other| other.key > entry.key);
        if self.next.len() - place <= MOST_PASSED {
            return self.next.insert(place, entry);
        }
        // Many come before it; whatever comes with it or later goes to the buckets.
        let later = self.next.partition_point(|other| other.key.time >= entry.key.time);
        let mut next = std::mem::take(&mut self.next);
        for other in next.drain(..later).rev() {
            self.put_in_bucket(other);
        }
        self.next = next;
        self.put_in_bucket(entry);
        self.rest = entry.key.time;
    }

    /// Whether an entry may be due at `time` or before.
    #[inline]
    pub(crate) fn may_precede(&self, time: u64) -> bool {
        self.bound <= time
    }

    /// No entry is earlier than this.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// What comes `distance` after the first entry, if it is known already.
    #[inline]
    pub(crate) fn after(&self, distance: usize) -> Option<&Event> {
        self.next.iter().nth_back(distance).map(|entry| &entry.event)
    }

    /// Takes the earliest entry if it comes before `limit`. The wheel never moves beyond `limit`.
    #[inline]
    pub(crate) fn pop_before(&mut self, limit: Key) -> Option<(Key, Event)> {
        if self.bound > limit.time {
            return None;
        }
        if self.next.is_empty() {
            self.find_next(limit.time);
        }
        let taken = self.next.pop_if(|first| first.key < limit);
        self.bound = self.next.last().map_or(self.rest, |first| first.key.time);
        taken.map(|entry| (entry.key, entry.event))
    }

    /// Sorts the first entries of the buckets, if any may be due at `limit` or before.
    #[inline(never)]
    fn find_next(&mut self, limit: u64) {
        self.rest = self.earliest_possible();
        while self.rest <= limit && self.levels != 0 {
            self.base = self.rest;
            let (level, slot) = self.first_bucket();
            let bucket = &mut self.buckets[level][slot];
            if level > 0 && bucket.len() > MOST_SORTED {
                self.cascade(level, slot);
                self.rest = self.earliest_possible();
                continue;
            }
            std::mem::swap(bucket, &mut self.next);
            if bucket.capacity() > ROOM_KEPT {
                *bucket = Vec::new();
            }
            self.note_empty(level, slot);
            // Those of equal rank stay in order of insertion.
            self.next.sort_by_key(|entry| entry.key);
            self.next.reverse();
            self.rest = self.earliest_possible();
            return;
        }
    }

    /// The first bucket with entries; there is one.
    fn first_bucket(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize;
        (level, self.occupied[level].trailing_zeros() as usize)
    }

    /// When the first bucket with entries begins.
    fn earliest_possible(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let (level, slot) = self.first_bucket();
        self.buckets[level][slot][0].key.time >> (6 * level) << (6 * level)
    }

    /// Distributes a bucket over the levels below, in its order.
    fn cascade(&mut self, level: usize, slot: usize) {
        let empty = std::mem::take(&mut self.room);
        let mut entries = std::mem::replace(&mut self.buckets[level][slot], empty);
        self.note_empty(level, slot);
        for &entry in &entries {
            self.put_in_bucket(entry);
        }
        if entries.capacity() <= ROOM_KEPT {
            entries.clear();
            self.room = entries;
        }
    }

    fn put_in_bucket(&mut self, entry: Entry) {
        debug_assert!(entry.key.time >= self.base, "the past cannot be scheduled");
        let difference = entry.key.time ^ self.base;
        let level = if difference == 0 { 0 } else { (63 - difference.leading_zeros() as usize) / 6 };
        let slot = (entry.key.time >> (6 * level)) as usize % BUCKETS;
        self.buckets[level][slot].push(entry);
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
    }

    fn note_empty(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}
