//! A table of soft state: stores one value per flow until the flow has been silent for a long time, or until the flow
//! is evicted because the table is full.
//!
//! aqmlab's choice: the entries are stored in a slab and linked in the order of last use. Expiry and eviction therefore
//! read only one end of the list, and take O(1) time per removed entry.

use aqm_net::{ConfigError, Instant};

use crate::hash_index::{HashIndex, MAX_ENTRIES, NONE};

/// The key of an entry.
pub trait Key: Copy + Eq {
    /// Returns a hash of the key. Equal keys must have equal hashes. The entropy of the hash must be spread over all 64
    /// bits or concentrated in the lowest bits.
    fn hash(self) -> u64;
}

impl Key for u64 {
    fn hash(self) -> u64 {
        self
    }
}

/// A table with one value of type `V` per key. The value is stored from the first use of the key until the key expires
/// or is evicted.
///
/// The time must not decrease from one call to the next. The table's memory usage grows with the number of entries, up
/// to the maximum number of entries, and memory is not released.
#[derive(Clone)]
pub struct Table<V, K = u64> {
    index: HashIndex,
    entries: Vec<Entry<V, K>>,
    /// The head of the list of unused entries.
    unused: u32,
    oldest: u32,
    newest: u32,
    max: u32,
    evicted: u64,
}
#[derive(Clone)]
struct Entry<V, K> {
    key: K,
    last_used: Instant,
    /// The neighbours of the entry in the order of last use; `older` is `UNUSED` if the entry is not in use.
    older: u32,
    newer: u32,
    value: V,
}

/// The value of `older` in an unused entry.
const UNUSED: u32 = u32::MAX - 1;

impl<V: Default, K: Key> Table<V, K> {
    /// Creates an empty table with at most `max_flows` entries.
    ///
    /// # Errors
    /// Returns an error at the path `max_flows` if `max_flows` is 0 or too large.
    pub fn new(max_flows: u32) -> Result<Self, ConfigError> {
        if !(1..=MAX_ENTRIES).contains(&max_flows) {
            let problem = format!("must be from 1 to {MAX_ENTRIES} (got {max_flows})");
            return Err(ConfigError::at("max_flows", problem));
        }
        Ok(Self {
            index: HashIndex::new(),
            entries: Vec::new(),
            unused: NONE,
            oldest: NONE,
            newest: NONE,
            max: max_flows,
            evicted: 0,
        })
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> u32 {
        self.index.len()
    }

    /// Returns whether the table is empty.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries that have been evicted so far because the table was full.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the key that has been unused longest, and the time of its last use.
    pub fn oldest(&self) -> Option<(K, Instant)> {
        self.entries.get(self.oldest as usize).map(|entry| (entry.key, entry.last_used))
    }

    /// Returns the value of `key`, and sets the time of the key's last use to `now`. The value of a new key is the
    /// default value. If the table is full, the key that has been unused longest is evicted.
    pub fn touch(&mut self, key: K, now: Instant) -> &mut V {
        let index = match self.find(key) {
            Some(index) => {
                self.make_newest(index);
                index
            }
            None => self.insert(key),
        };
        let entry = &mut self.entries[index as usize];
        entry.last_used = now;
        &mut entry.value
    }

    /// Returns whether the table contains `key`.
    pub fn contains(&self, key: K) -> bool {
        self.find(key).is_some()
    }

    /// If the key that has been unused longest was last used before `horizon`, removes this key and returns the time of
    /// its last use and its value.
    pub fn take_before(&mut self, horizon: Instant) -> Option<(Instant, V)> {
        let (_, last_used) = self.oldest().filter(|(_, last_used)| *last_used < horizon)?;
        let index = self.oldest;
        self.remove(index);
        Some((last_used, std::mem::take(&mut self.entries[index as usize].value)))
    }

    /// Removes every key that was last used before `horizon`.
    pub fn expire_before(&mut self, horizon: Instant) {
        while self.take_before(horizon).is_some() {}
    }

    /// Returns the values of all entries in the order of the slab. This order is arbitrary, but the entries can be read
    /// quickly in this order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().filter(|entry| entry.older != UNUSED).map(|entry| &entry.value)
    }

    fn find(&self, key: K) -> Option<u32> {
        self.index.find(key.hash(), |entry| self.entries[entry as usize].key == key)
    }

    #[cold]
    fn insert(&mut self, key: K) -> u32 {
        if self.len() == self.max {
            self.remove(self.oldest);
            self.evicted += 1;
        }
        let entry = Entry { key, last_used: Instant::START, older: NONE, newer: NONE, value: V::default() };
        let index = if self.unused == NONE {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let index = self.unused;
            self.unused = self.entries[index as usize].newer;
            self.entries[index as usize] = entry;
            index
        };
        self.index.insert(key.hash(), index);
        self.link_newest(index);
        index
    }

    fn remove(&mut self, index: u32) {
        self.index.remove(self.entries[index as usize].key.hash(), index);
        self.unlink(index);
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer) = (UNUSED, self.unused);
        self.unused = index;
    }

    fn make_newest(&mut self, index: u32) {
        if index != self.newest {
            self.unlink(index);
            self.link_newest(index);
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { older, newer, .. } = self.entries[index as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        (entry.older, entry.newer) = (older, NONE);
        match older {
            NONE => self.oldest = index,
            _ => self.entries[older as usize].newer = index,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use aqm_net::Span;
    use proptest::prelude::*;

    use super::*;
    use crate::hash_index::FIRST_SLOTS;
    use crate::hash_index::tests::key_with_tag;

    /// The specification of the table. For each key, it contains the value, the time of the last use, and the position
    /// in the order of use.
    #[derive(Default)]
    struct Model {
        entries: BTreeMap<u64, (u32, Instant, u64)>,
        turn: u64,
        evicted: u64,
    }

    impl Model {
        fn oldest(&self) -> Option<(u64, Instant)> {
            self.entries.iter().min_by_key(|(_, e)| e.2).map(|(key, e)| (*key, e.1))
        }

        fn touch(&mut self, key: u64, now: Instant, max: usize) -> u32 {
            if !self.entries.contains_key(&key) && self.entries.len() == max {
                let (oldest, _) = self.oldest().unwrap();
                self.entries.remove(&oldest);
                self.evicted += 1;
            }
            self.turn += 1;
            let entry = self.entries.entry(key).or_default();
            *entry = (entry.0 + 1, now, self.turn);
            entry.0
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Touch(u64, u64),
        Expire(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = prop_oneof![
            3 => 0_u64..40,
            1 => any::<u64>(),
            // Some keys have equal tags, and some tags have the same home slot, at both ends of the table.
            3 => (prop_oneof![0_u32..3, u32::MAX - 2..=u32::MAX], 0_u32..4)
                .prop_map(|(high, low)| key_with_tag(high, low)),
        ];
        let touch = (key, 0_u64..20).prop_map(|(key, pause)| Step::Touch(key, pause));
        prop::collection::vec(prop_oneof![9 => touch, 1 => (0_u64..300).prop_map(Step::Expire)], 1..400)
    }

    proptest! {
        #[test]
        fn the_table_behaves_like_a_plain_model(steps in steps(), max in 1_u32..60) {
            let (mut table, mut model) = (Table::<u32>::new(max).unwrap(), Model::default());
            let mut now = Instant::from_nanos(1000);
            for step in steps {
                match step {
                    Step::Touch(key, pause) => {
                        now += Span::from_nanos(pause);
                        let value = table.touch(key, now);
                        *value += 1;
                        prop_assert_eq!(*value, model.touch(key, now, max as usize));
                    }
                    Step::Expire(age) => {
                        let horizon = Instant::from_nanos(now.nanos() - age);
                        table.expire_before(horizon);
                        model.entries.retain(|_, entry| entry.1 >= horizon);
                    }
                }
                prop_assert_eq!(table.oldest(), model.oldest());
                prop_assert_eq!(table.len() as usize, model.entries.len());
                prop_assert_eq!(table.evicted(), model.evicted);
                let mut values: Vec<u32> = table.values().copied().collect();
                let mut expected: Vec<u32> = model.entries.values().map(|e| e.0).collect();
                values.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(values, expected);
            }
        }
    }

    #[test]
    fn the_longest_unused_key_is_removed_first() {
        let mut table = Table::<u32>::new(3).unwrap();
        for (at, key) in [(0, 1), (1, 2), (2, 3), (3, 1), (4, 4), (5, 5)] {
            *table.touch(key, Instant::from_nanos(at)) += 1;
        }
        assert_eq!((table.len(), table.evicted()), (3, 2));
        assert_eq!(table.oldest(), Some((1, Instant::from_nanos(3))));
        assert_eq!(
            *table.touch(1, Instant::from_nanos(6)),
            2,
            "keys 2 and 3 were removed, and key 1 was not"
        );
        assert_eq!([1, 2].map(|key| table.contains(key)), [true, false]);
        let [before, at] = [5, 4].map(Instant::from_nanos);
        assert_eq!(table.take_before(at), None);
        assert_eq!(table.take_before(before), Some((at, 1)), "the entry used at 4");
    }

    #[test]
    fn memory_grows_with_use_and_stops_at_the_bound() {
        let mut table = Table::<u32>::new(1000).unwrap();
        assert_eq!((table.index.slots(), table.entries.capacity()), (FIRST_SLOTS, 0));
        for key in 0..100_000 {
            table.touch(key, Instant::from_nanos(key));
            assert!(table.index.slots() <= 4 * table.len() as usize + FIRST_SLOTS);
        }
        assert_eq!((table.index.slots(), table.entries.len()), (2048, 1000));
    }

    #[test]
    fn an_invalid_bound_is_rejected() {
        for max in [0, MAX_ENTRIES + 1, u32::MAX] {
            assert_eq!(Table::<u32>::new(max).err().unwrap().path, "max_flows");
        }
        assert!(Table::<u32>::new(MAX_ENTRIES).is_ok());
    }
}
