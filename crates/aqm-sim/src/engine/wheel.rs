//! An exact timing wheel for events that are not added in chronological order.
//!
//! The wheel is a 64-ary hierarchy over the bits of a nanosecond clock (after Varghese & Lauck 1987). The level of an
//! entry is the highest six-bit digit in which the entry's time differs from the wheel's base. All entries of a level
//! are therefore earlier than the entries of higher levels, and a bit set with one bit for each bucket locates the next
//! bucket. If the first bucket has only a few entries, the entries are sorted and then removed in order. The cost per
//! entry does not depend on the number of entries in the wheel.

use crate::engine::event::{Event, Key};

const LEVELS: usize = 11;
const BUCKETS: usize = 64;

/// Maximum number of entries in a bucket that is sorted directly. The entries of a larger bucket are distributed over
/// the lower levels.
const MAX_SORTED: usize = 256;

/// A new entry is inserted into `next` only if `next` contains at most this many earlier entries. Otherwise, the new
/// entry is put into a bucket.
const MAX_PASSED: usize = 32;

/// Capacity above which an emptied bucket releases its memory.
const CAPACITY_KEPT: usize = 64;

/// The timing wheel. Entries are removed in chronological order. Entries with the same time are removed in the order of
/// their ranks, and entries with the same time and rank in the order of insertion.
pub(crate) struct Wheel {
    /// No entry is earlier than this time. The bound makes it cheap to check whether an entry may be due.
    bound: u64,
    /// The next entries in descending order of time, so that the earliest entry is last. All of these entries are
    /// earlier than `rest`.
    next: Vec<Entry>,
    /// No entry of the buckets is earlier than this time.
    rest: u64,
    /// No entry of the buckets is earlier than this time. The level of an entry is determined by comparing the entry's
    /// time with `base`.
    base: u64,
    /// Bit set with one bit for each level that has entries.
    levels: u16,
    occupied: [u64; LEVELS],
    /// The entries of a bucket are stored contiguously, because memory accesses account for most of an entry's cost if
    /// there are very many timers.
    buckets: Box<[[Vec<Entry>; BUCKETS]; LEVELS]>,
    /// Temporary storage for the entries of a bucket that is being distributed.
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

    /// Adds an entry. The entry must not precede an entry that has already been removed.
    #[inline(never)]
    pub(crate) fn push(&mut self, key: Key, event: Event) {
        let entry = Entry { key, event };
        if key.time < self.rest {
            // If a workload sets its next timer when the previous timer expires, this branch is always taken.
            if self.next.last().is_none_or(|first| key < first.key) {
                self.bound = key.time;
                return self.next.push(entry);
            }
            return self.insert_among_next(entry);
        }
        self.bound = self.bound.min(key.time);
        self.put_in_bucket(entry);
    }

    /// Adds an entry that is earlier than `rest` but later than the first entry.
    fn insert_among_next(&mut self, entry: Entry) {
        let index = self.next.partition_point(|other| other.key > entry.key);
        if self.next.len() - index <= MAX_PASSED {
            return self.next.insert(index, entry);
        }
        // Many entries precede the new entry, so all entries at the time of the new entry or later are moved to the
        // buckets.
        let later = self.next.partition_point(|other| other.key.time >= entry.key.time);
        let mut next = std::mem::take(&mut self.next);
        for other in next.drain(..later).rev() {
            self.put_in_bucket(other);
        }
        self.next = next;
        self.put_in_bucket(entry);
        self.rest = entry.key.time;
    }

    /// Returns whether an entry may be due at or before `time`.
    #[inline]
    pub(crate) fn may_precede(&self, time: u64) -> bool {
        self.bound <= time
    }

    /// Returns a time before which no entry is due.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// Returns the event `distance` positions after the first entry, if the event is already sorted.
    #[inline]
    pub(crate) fn after(&self, distance: usize) -> Option<&Event> {
        self.next.iter().nth_back(distance).map(|entry| &entry.event)
    }

    /// Removes and returns the earliest entry if this entry precedes `limit`. The wheel never advances beyond `limit`.
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

    /// Sorts the first entries of the buckets, if any of these entries may be due at or before `limit`.
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
            // The sort is stable, so entries of equal rank stay in the order in which they were inserted.
            self.next.sort_by_key(|entry| entry.key);
            self.next.reverse();
            self.rest = self.earliest_possible();
            return;
        }
    }

    /// Returns the first bucket that has entries. At least one bucket must have entries.
    fn first_bucket(&self) -> (usize, usize) {
        let level = self.levels.trailing_zeros() as usize;
        (level, self.occupied[level].trailing_zeros() as usize)
    }

    /// Returns the start of the time range of the first bucket that has entries.
    fn earliest_possible(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let (level, slot) = self.first_bucket();
        self.buckets[level][slot][0].key.time >> (6 * level) << (6 * level)
    }

    /// Distributes the entries of a bucket over the lower levels, without changing their order.
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
