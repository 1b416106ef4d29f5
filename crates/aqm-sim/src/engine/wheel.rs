//! An exact timing wheel for events that are not added in order of time.
//!
//! The wheel is a 64-ary hierarchy over the bits of a nanosecond clock (after Varghese & Lauck 1987). An entry is
//! stored on the level of the highest six-bit digit in which its time differs from the wheel's base. Each level is
//! therefore earlier than the levels above, and one bit for each bucket locates the next bucket. The first bucket is
//! sorted once it has few entries, which then leave in this order. The cost of an entry does not depend on the number
//! of entries.

use crate::engine::event::{Event, Key};

const LEVELS: usize = 11;
const BUCKETS: usize = 64;

/// Maximum number of entries of a bucket that is sorted. The entries of a larger bucket are distributed over the levels
/// below.
const MAX_SORTED: usize = 256;

/// Number of following entries after which a new entry may be inserted among the next entries.
const MAX_PASSED: usize = 32;

/// Capacity above which an emptied bucket releases its memory.
const CAPACITY_KEPT: usize = 64;

/// Entries in order of time, ties in order of rank, equal ranks in order of insertion.
pub(crate) struct Wheel {
    /// No entry is earlier than this time. It is cheap to compare with.
    bound: u64,
    /// The next entries, with the earliest one last. All are earlier than `rest`.
    next: Vec<Entry>,
    /// No entry of the buckets is earlier than this time.
    rest: u64,
    /// No entry of the buckets is earlier than this time, with which their times are compared to determine their level.
    base: u64,
    /// A bit for each level with entries, and a bit for each bucket of a level.
    levels: u16,
    occupied: [u64; LEVELS],
    /// Entries are stored contiguously, because with very many timers the cost of an entry is the cost of its memory
    /// accesses.
    buckets: Box<[[Vec<Entry>; BUCKETS]; LEVELS]>,
    /// Storage for the entries of a bucket while they are distributed.
    spare: Vec<Entry>,
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
            spare: Vec::new(),
        }
    }

    /// Adds an entry, which must not precede an entry that was already taken.
    #[inline(never)]
    pub(crate) fn push(&mut self, key: Key, event: Event) {
        let entry = Entry { key, event };
        if key.time < self.rest {
            // A workload that sets its next timer when the last one expires always takes this path.
            if self.next.last().is_none_or(|first| key < first.key) {
                self.bound = key.time;
                return self.next.push(entry);
            }
            return self.insert_among_next(entry);
        }
        self.bound = self.bound.min(key.time);
        self.put_in_bucket(entry);
    }

    /// Adds an entry that follows another entry and precedes `rest`.
    fn insert_among_next(&mut self, entry: Entry) {
        let index = self.next.partition_point(|other| other.key > entry.key);
        if self.next.len() - index <= MAX_PASSED {
            return self.next.insert(index, entry);
        }
        // Many entries precede this one, so entries at its time or later are moved to the buckets.
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

    /// Returns a time before which no entry is due.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// Returns the event `distance` positions after the first entry, if it is already sorted.
    #[inline]
    pub(crate) fn after(&self, distance: usize) -> Option<&Event> {
        self.next.iter().nth_back(distance).map(|entry| &entry.event)
    }

    /// Takes the earliest entry if it precedes `limit`. The wheel never advances beyond `limit`.
    #[inline]
    pub(crate) fn pop_before(&mut self, limit: Key) -> Option<(Key, Event)> {
        if self.bound > limit.time {
            return None;
        }
        if self.next.is_empty() {
            self.find_next(limit.time);
        }
        let entry = self.next.pop_if(|first| first.key < limit);
        self.bound = self.next.last().map_or(self.rest, |first| first.key.time);
        entry.map(|entry| (entry.key, entry.event))
    }

    /// Sorts the first entries of the buckets, if any may be due at `limit` or before.
    #[inline(never)]
    fn find_next(&mut self, limit: u64) {
        self.rest = self.earliest_possible();
        while self.rest <= limit && self.levels != 0 {
            self.base = self.rest;
            let (level, slot) = self.first_bucket();
            let bucket = &mut self.buckets[level][slot];
            if level > 0 && bucket.len() > MAX_SORTED {
                self.cascade(level, slot);
                self.rest = self.earliest_possible();
                continue;
            }
            std::mem::swap(bucket, &mut self.next);
            if bucket.capacity() > CAPACITY_KEPT {
                *bucket = Vec::new();
            }
            self.note_empty(level, slot);
            // The sort is stable, so entries of equal rank stay in order of insertion.
            self.next.sort_by_key(|entry| entry.key);
            self.next.reverse();
            self.rest = self.earliest_possible();
            return;
        }
    }

    /// Returns the first bucket with entries; there must be one.
    fn first_bucket(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize;
        (level, self.occupied[level].trailing_zeros() as usize)
    }

    /// Returns the time at which the first bucket with entries begins.
    fn earliest_possible(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let (level, slot) = self.first_bucket();
        self.buckets[level][slot][0].key.time >> (6 * level) << (6 * level)
    }

    /// Distributes the entries of a bucket over the levels below, in order.
    fn cascade(&mut self, level: usize, slot: usize) {
        let empty = std::mem::take(&mut self.spare);
        let mut entries = std::mem::replace(&mut self.buckets[level][slot], empty);
        self.note_empty(level, slot);
        for &entry in &entries {
            self.put_in_bucket(entry);
        }
        if entries.capacity() <= CAPACITY_KEPT {
            entries.clear();
            self.spare = entries;
        }
    }

    fn put_in_bucket(&mut self, entry: Entry) {
        debug_assert!(entry.key.time >= self.base, "an event is in the past");
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
