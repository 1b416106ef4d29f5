//! An exact timing wheel: whatever does not arrive in order of time waits here.
//!
//! A 64-ary hierarchy over the bits of a nanosecond clock (after Varghese & Lauck 1987): an entry
//! lies on the level of the highest six-bit digit in which its time differs from the wheel's base,
//! so each level below is earlier than each level above, and a bit per bucket finds the next one.
//! The cost of an entry does not depend on how many wait.

use crate::event::{Event, Key};

const LEVELS: usize = 11;
const BUCKETS: usize = 64;
const NONE: u32 = u32::MAX;

/// Entries in order of time, ties in order of rank, equal ranks in order of insertion.
pub(crate) struct Wheel {
    /// No entry is earlier than this; cheap to compare with.
    bound: u64,
    /// An entry that comes before all others, if it did so when it was added: a workload that sets its next timer
    /// as the last one expires never gets further.
    front: Option<(Key, Event)>,
    /// No entry of the buckets is earlier than this.
    base: u64,
    /// Nor than this.
    rest: u64,
    /// A bit for each level that has entries, and for each bucket of a level.
    levels: u16,
    occupied: [u64; LEVELS],
    buckets: Box<[[Bucket; BUCKETS]; LEVELS]>,
    nodes: Vec<Node>,
    free: u32,
}

#[derive(Clone, Copy)]
struct Bucket {
    head: u32,
    tail: u32,
}

struct Node {
    key: Key,
    next: u32,
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
            buckets: Box::new([[Bucket { head: NONE, tail: NONE }; BUCKETS]; LEVELS]),
            nodes: Vec::new(),
            free: NONE,
        }
    }

    /// Adds an entry, which must not lie before one that was already taken.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, event: Event) {
        debug_assert!(key.time >= self.base, "the past cannot be scheduled");
        self.bound = self.bound.min(key.time);
        let (key, event) = match &mut self.front {
            None if key.time < self.rest => {
                self.front = Some((key, event));
                return;
            }
            Some(front) if key < front.0 => std::mem::replace(front, (key, event)),
            _ => (key, event),
        };
        self.put_in_bucket(key, event);
    }

    fn put_in_bucket(&mut self, key: Key, event: Event) {
        let node = Node { key, next: NONE, event };
        let index = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        self.rest = self.rest.min(key.time);
        self.link(index, key.time);
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
            Some((key, _)) if key >= limit => return None,
            Some(_) => self.front.take(),
            None => {
                let found = self.search(limit);
                if found.is_some() {
                    self.rest = self.earliest_possible();
                }
                found
            }
        };
        self.bound = self.front.map_or(self.rest, |(key, _)| key.time.min(self.rest));
        found
    }

    /// When the first bucket with entries begins.
    fn earliest_possible(&self) -> u64 {
        if self.levels == 0 {
            return u64::MAX;
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let head = self.buckets[level][slot].head;
        self.nodes[head as usize].key.time >> (6 * level) << (6 * level)
    }

    fn search(&mut self, limit: Key) -> Option<(Key, Event)> {
        loop {
            if self.levels == 0 {
                self.rest = u64::MAX;
                return None;
            }
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let head = self.buckets[level][slot].head;
            if level == 0 {
                let time = self.nodes[head as usize].key.time;
                self.rest = time;
                return if time > limit.time { None } else { self.take_first_rank(slot, limit) };
            }
            let node = &self.nodes[head as usize];
            if node.next == NONE {
                let key = node.key;
                self.rest = key.time;
                if key >= limit {
                    return None;
                }
                self.base = key.time;
                self.empty(level, slot);
                return Some(self.release(head));
            }
            let start = node.key.time >> (6 * level) << (6 * level);
            self.rest = start;
            if start > limit.time {
                return None;
            }
            self.base = start;
            self.empty(level, slot);
            self.cascade(head);
        }
    }

    /// Distributes a list over the levels below, in its order.
    fn cascade(&mut self, mut index: u32) {
        while index != NONE {
            let next = self.nodes[index as usize].next;
            self.nodes[index as usize].next = NONE;
            self.link(index, self.nodes[index as usize].key.time);
            index = next;
        }
    }

    /// Of the entries of one nanosecond, takes the one of the lowest rank, if it is before `limit`.
    fn take_first_rank(&mut self, slot: usize, limit: Key) -> Option<(Key, Event)> {
        let bucket = self.buckets[0][slot];
        let (mut best, mut before_best, mut previous, mut index) = (bucket.head, NONE, NONE, bucket.head);
        while index != NONE {
            let node = &self.nodes[index as usize];
            if node.key.rank < self.nodes[best as usize].key.rank {
                (best, before_best) = (index, previous);
            }
            (previous, index) = (index, node.next);
        }
        let Node { key, next, .. } = self.nodes[best as usize];
        if key >= limit {
            return None;
        }
        self.base = key.time;
        if before_best == NONE {
            self.buckets[0][slot].head = next;
        } else {
            self.nodes[before_best as usize].next = next;
        }
        if next == NONE {
            self.buckets[0][slot].tail = before_best;
        }
        if self.buckets[0][slot].head == NONE {
            self.empty(0, slot);
        }
        Some(self.release(best))
    }

    fn link(&mut self, index: u32, time: u64) {
        let difference = time ^ self.base;
        let level = if difference == 0 { 0 } else { (63 - difference.leading_zeros() as usize) / 6 };
        let slot = (time >> (6 * level)) as usize % BUCKETS;
        let bucket = &mut self.buckets[level][slot];
        if bucket.head == NONE {
            bucket.head = index;
        } else {
            self.nodes[bucket.tail as usize].next = index;
        }
        bucket.tail = index;
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
    }

    fn empty(&mut self, level: usize, slot: usize) {
        self.buckets[level][slot] = Bucket { head: NONE, tail: NONE };
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    fn release(&mut self, index: u32) -> (Key, Event) {
        let node = &mut self.nodes[index as usize];
        node.next = self.free;
        self.free = index;
        (node.key, node.event)
    }
}
