//! An exact timing wheel: whatever does not arrive in order of time waits here.
//!
//! A 64-ary hierarchy over the bits of a nanosecond clock (after Varghese & Lauck 1987): an entry
//! lies on the level of the highest six-bit digit in which its time differs from the wheel's base,
//! so each level below is earlier than each level above, and a bit per bucket finds the next one.
//! The cost of an entry does not depend on how many wait.

use crate::event::{Event, Key};

const LEVELS: usize = 11;
const BUCKETS: usize = 64;

/// A bucket with more room than this gives it back when it is emptied.
const ROOM_KEPT: usize = 64;

/// Entries in order of time, ties in order of rank, equal ranks in order of insertion.
pub(crate) struct Wheel {
    /// No entry is earlier than this; cheap to compare with.
    bound: u64,
    /// An entry that comes before all others, if it did so when it was added: a workload that sets its next timer
    /// as the last one expires never gets further.
    front: Option<Entry>,
    /// No entry of the buckets is earlier than this.
    base: u64,
    /// Nor than this.
    rest: u64,
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
            front: None,
            base: 0,
            rest: u64::MAX,
            levels: 0,
            occupied: [0; LEVELS],
            buckets: Box::new(std::array::from_fn(|_| std::array::from_fn(|_| Vec::new()))),
            room: Vec::new(),
        }
    }

    /// Adds an entry, which must not lie before one that was already taken.
    #[inline(never)]
    pub(crate) fn push(&mut self, key: Key, event: Event) {
        debug_assert!(key.time >= self.base, "the past cannot be scheduled");
        self.bound = self.bound.min(key.time);
        let entry = Entry { key, event };
        let entry = match &mut self.front {
            None if key.time < self.rest => {
                self.front = Some(entry);
                return;
            }
            Some(front) if key < front.key => std::mem::replace(front, entry),
            _ => entry,
        };
        self.rest = self.rest.min(entry.key.time);
        self.put_in_bucket(entry);
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

    /// Takes the earliest entry if it comes before `limit`. The wheel never moves beyond `limit`.
    #[inline]
    pub(crate) fn pop_before(&mut self, limit: Key) -> Option<(Key, Event)> {
        if self.bound > limit.time {
            return None;
        }
        let found = match self.front {
            Some(Entry { key, .. }) if key >= limit => return None,
            Some(_) => self.front.take(),
            None => self.search(limit),
        };
        self.bound = self.front.map_or(self.rest, |front| front.key.time.min(self.rest));
        found.map(|entry| (entry.key, entry.event))
    }

    fn search(&mut self, limit: Key) -> Option<Entry> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let bucket = &mut self.buckets[level][slot];
            // All entries of a bucket of the lowest level are of one nanosecond.
            let first = if level == 0 { first_rank(bucket) } else { 0 };
            let Entry { key, .. } = bucket[first];
            if level == 0 || bucket.len() == 1 {
                self.rest = key.time;
                if key >= limit {
                    return None;
                }
                self.base = key.time;
                let entry = bucket.remove(first);
                if bucket.is_empty() {
                    self.note_empty(level, slot);
                }
                self.rest = self.earliest_possible();
                return Some(entry);
            }
            let start = key.time >> (6 * level) << (6 * level);
            self.rest = start;
            if start > limit.time {
                return None;
            }
            self.base = start;
            self.cascade(level, slot);
        }
        self.rest = u64::MAX;
        None
    }

    /// When the first bucket with entries begins.
    fn earliest_possible(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].trailing_zeros() as usize;
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

/// The place of the first entry of the lowest rank.
fn first_rank(bucket: &[Entry]) -> usize {
    let mut first = 0;
    for (place, entry) in bucket.iter().enumerate() {
        if entry.key.rank < bucket[first].key.rank {
            first = place;
        }
    }
    first
}
