//! Soft state: something remembered for each flow, until the flow has been silent for long or room
//! runs short.
//!
//! Ours: the entries lie in a slab, strung on a list in the order of last use. So expiry and
//! eviction look at one end of the list only and cost O(1) for each entry they remove.

use aqm_net::{ConfigError, Instant};

use crate::hash_index::{HashIndex, MAX_ENTRIES, NONE};

/// What entries are found by.
pub trait Key: Copy + Eq {
    /// The same for equal keys, and spread over all 64 bits or their lowest.
    fn hash(self) -> u64;
}

impl Key for u64 {
    fn hash(self) -> u64 {
        self
    }
}

/// A `V` for each key, from its first use until it expires or is evicted.
///
/// Moments come in the order of time. Memory grows with use, up to what the bound needs, and is
/// kept.
#[derive(Clone)]
pub struct Table<V, K = u64> {
    index: HashIndex,
    entries: Vec<Entry<V, K>>,
    /// The first of a chain of entries not in use.
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
    /// Its neighbours in the order of last use; `older` is `UNUSED` if the entry is not in use.
    older: u32,
    newer: u32,
    value: V,
}

/// Where an entry's older neighbour would stand, if it is not in use.
const UNUSED: u32 = u32::MAX - 1;

impl<V: Default, K: Key> Table<V, K> {
    /// An empty table that never holds more than `max_flows` entries.
    ///
    /// # Errors
    /// If the bound is no bound, at the place `max_flows`.
    pub fn new(max_flows: u32) -> Result<Self, ConfigError> {
        if !(1..=MAX_ENTRIES).contains(&max_flows) {
            let problem = format!("must be between 1 and {MAX_ENTRIES}, is {max_flows}");
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

    /// How many entries there are.
    pub const fn len(&self) -> u32 {
        self.index.len()
    }

    /// Whether nothing is remembered.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries were removed for want of room so far.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// The key unused for longest, and when it was used last.
    pub fn oldest(&self) -> Option<(K, Instant)> {
        self.entries.get(self.oldest as usize).map(|entry| (entry.key, entry.last_used))
    }

    /// The value of `key`, which is used at `now`. A new key has the default value; if there is no
    /// room for it, the key unused for longest is evicted.
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

    /// Whether `key` is remembered.
    pub fn contains(&self, key: K) -> bool {
        self.find(key).is_some()
    }

    /// Forgets the key unused for longest, if it was last used before `horizon`: when that was, and its value.
    pub fn take_before(&mut self, horizon: Instant) -> Option<(Instant, V)> {
        let (_, last_used) = self.oldest().filter(|(_, last_used)| *last_used < horizon)?;
        let index = self.oldest;
        self.remove(index);
        Some((last_used, std::mem::take(&mut self.entries[index as usize].value)))
    }

    /// Forgets every key that was last used before `horizon`.
    pub fn expire_before(&mut self, horizon: Instant) {
        while self.take_before(horizon).is_some() {}
    }

    /// The values in use, in an order that means nothing: the slab's, which reads memory in a row.
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

    /// What the table must do, told plainly: value, last use and turn of use for each key.
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
            // Keys of one tag, and tags that share their home at both ends of the slots.
            3 => (prop_oneof![0_u32..3, u32::MAX - 2..=u32::MAX], 0_u32..4)
                .prop_map(|(high, low)| key_with_tag(high, low)),
        ];
        let touch = (key, 0_u64..20).prop_map(|(key, pause)| Step::Touch(key, pause));
        prop::collection::vec(prop_oneof![9 => touch, 1 => (0_u64..300).prop_map(Step::Expire)], 1..400)
    }

    proptest! {
        #[test]
        fn the_table_does_what_a_plain_model_does(steps in steps(), max in 1_u32..60) {
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
    fn the_key_unused_for_longest_goes_first() {
        let mut table = Table::<u32>::new(3).unwrap();
        for (at, key) in [(0, 1), (1, 2), (2, 3), (3, 1), (4, 4), (5, 5)] {
            *table.touch(key, Instant::from_nanos(at)) += 1;
        }
        assert_eq!((table.len(), table.evicted()), (3, 2));
        assert_eq!(table.oldest(), Some((1, Instant::from_nanos(3))));
        assert_eq!(*table.touch(1, Instant::from_nanos(6)), 2, "2 and 3 went, 1 stayed");
        assert_eq!([1, 2].map(|key| table.contains(key)), [true, false]);
        let [before, at] = [5, 4].map(Instant::from_nanos);
        assert_eq!(table.take_before(at), None);
        assert_eq!(table.take_before(before), Some((at, 1)), "the entry of 4");
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
    fn a_bound_that_is_none_is_refused() {
        for max in [0, MAX_ENTRIES + 1, u32::MAX] {
            assert_eq!(Table::<u32>::new(max).err().unwrap().place, "max_flows");
        }
        assert!(Table::<u32>::new(MAX_ENTRIES).is_ok());
    }
}
