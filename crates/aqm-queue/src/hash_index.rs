//! A hash table that maps each key to a small number: the index of the key's entry in a slab.
//!
//! The table uses open addressing with linear probing and multiplicative hashing, as in D. E. Knuth, "The Art of
//! Computer Programming", volume 3, section 6.4, algorithms L and R (deletion without tombstones).
//!
//! aqmlab's choice: a slot contains 32 bits of the key's hash as well as the entry's number. When a lookup compares a
//! key with the slot of a different key, the hashes therefore agree by chance only about once in four billion
//! comparisons. In addition, the table can grow without reading the entries, which contain the keys. The hash function
//! is fixed, so that runs are reproducible. If an adversary can choose the keys, the keys must first be hashed with a
//! secret.

/// A table that maps keys to entry numbers. The table has at most 2^30 entries.
#[derive(Clone)]
pub(crate) struct HashIndex {
    /// The slots. The number of slots is a power of two, and at most half of the slots are in use.
    slots: Vec<Slot>,
    /// Number of bits by which a tag must be shifted to the right to obtain the index of its home slot.
    shift: u32,
    len: u32,
}

/// A slot: the number of an entry, and part of its key's hash.
#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    entry: u32,
}

/// The entry number of an empty slot.
pub(crate) const NONE: u32 = u32::MAX;
/// Maximum number of entries: half the number of slots that 32 bits of the hash can distinguish.
pub(crate) const MAX_ENTRIES: u32 = 1 << 30;
const EMPTY: Slot = Slot { tag: 0, entry: NONE };
/// Initial number of slots.
pub(crate) const FIRST_SLOTS: usize = 16;

impl HashIndex {
    /// Creates an empty index.
    pub fn new() -> Self {
        Self { slots: vec![EMPTY; FIRST_SLOTS], shift: shift(FIRST_SLOTS), len: 0 }
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns the number of slots.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the entry of `key`. The function `has_key` must return whether the given entry has this key.
    pub fn find(&self, key: u64, has_key: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag(key);
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot.entry == NONE {
                return None;
            }
            if slot.tag == tag && has_key(slot.entry) {
                return Some(slot.entry);
            }
            at = self.after(at);
        }
    }

    /// Adds `entry` for `key`, which must not be in the table.
    pub fn insert(&mut self, key: u64, entry: u32) {
        if (self.len as usize + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.path(Slot { tag: tag(key), entry });
        self.len += 1;
    }

    /// Removes `entry`, which must be the entry of `key`.
    pub fn remove(&mut self, key: u64, entry: u32) {
        let mut hole = self.home(tag(key));
        while self.slots[hole].entry != entry {
            hole = self.after(hole);
        }
        // The following slots move up by one position, unless a slot would then precede its home slot.
        let mask = self.slots.len() - 1;
        let mut at = self.after(hole);
        while self.slots[at].entry != NONE {
            let from_home = at.wrapping_sub(self.home(self.slots[at].tag)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
    }

    fn home(&self, tag: u32) -> usize {
        (tag >> self.shift) as usize
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Stores `slot` in the first empty position, starting at the home slot of its tag.
    fn path(&mut self, slot: Slot) {
        let mut at = self.home(slot.tag);
        while self.slots[at].entry != NONE {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let twice = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; twice]);
        self.shift = shift(twice);
        for slot in old.into_iter().filter(|slot| slot.entry != NONE) {
            self.path(slot);
        }
    }
}

/// Returns the upper half of the key times (2^64 / golden ratio), modulo 2^64. This multiplication spreads neighbouring
/// keys over the table.
const fn tag(key: u64) -> u32 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

const fn shift(slots: usize) -> u32 {
    32 - slots.trailing_zeros()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a key whose hash has the upper half `high` and the lower half `low`. Keys with the same `high` have the
    /// same tag.
    pub(crate) fn key_with_tag(high: u32, low: u32) -> u64 {
        // Each step of Newton's method doubles the number of correct bits of the inverse modulo 2^64.
        let factor = 0x9e37_79b9_7f4a_7c15_u64;
        let inverse = (0..6).fold(factor, |x, _| x.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(x))));
        (u64::from(high) << 32 | u64::from(low)).wrapping_mul(inverse)
    }

    #[test]
    fn keys_built_for_a_tag_have_this_tag() {
        for (high, low) in [(0, 1), (7, 0), (u32::MAX, 3)] {
            assert_eq!(tag(key_with_tag(high, low)), high);
        }
        assert_ne!(key_with_tag(7, 0), key_with_tag(7, 1));
    }
}
