//! The flow with the smallest key, and any flow's key changed in O(log flows).
//!
//! A heap of four children to a node (D. B. Johnson, "Priority Queues with Update and Finding Minimum
//! Spanning Trees", 1975), with the place of each flow beside it.

/// Flows by number, each with a key.
#[derive(Clone)]
pub(crate) struct Heap<K> {
    entries: Vec<(K, u32)>,
    /// Where each flow stands among the entries, or `ABSENT`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl<K: Copy + Ord> Heap<K> {
    /// A heap of no flows.
    pub fn new() -> Self {
        Self { entries: Vec::new(), places: Vec::new() }
    }

    /// The smallest key, and whose it is.
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// The key of `flow`, if it has one.
    pub fn key(&self, flow: u32) -> Option<K> {
        match self.places.get(flow as usize) {
            Some(&place) if place != ABSENT => Some(self.entries[place as usize].0),
            _ => None,
        }
    }

    /// Gives `flow` this key in place of any it had.
    #[inline(never)]
    pub fn set(&mut self, flow: u32, key: K) {
        if self.places.len() <= flow as usize {
            self.places.resize(flow as usize + 1, ABSENT);
        }
        let place = match self.places[flow as usize] {
            ABSENT => {
                self.entries.push((key, flow));
                self.entries.len() - 1
            }
            place => place as usize,
        };
        self.settle(place, (key, flow));
    }

    /// Takes `flow` out, if it is there.
    #[inline(never)]
    pub fn remove(&mut self, flow: u32) {
        let Some(&place) = self.places.get(flow as usize).filter(|place| **place != ABSENT) else {
            return;
        };
        self.places[flow as usize] = ABSENT;
        let last = self.entries.pop().expect("the flow is an entry");
        if last.1 != flow {
            self.settle(place as usize, last);
        }
    }

    /// Puts `entry` where it belongs, given that `place` is free.
    #[inline(always)]
    fn settle(&mut self, place: usize, entry: (K, u32)) {
        let risen = self.rise(place, entry.0);
        // What it rose past is larger than it, and so is all below that.
        let settled = if risen < place { risen } else { self.sink(place, entry.0) };
        self.put(settled, entry);
    }

    /// Moves the free `place` up past what is larger than `key`.
    #[inline(always)]
    fn rise(&mut self, mut place: usize, key: K) -> usize {
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.entries[parent].0 <= key {
                break;
            }
            self.put(place, self.entries[parent]);
            place = parent;
        }
        place
    }

    /// Moves the free `place` down past what is smaller than `key`.
    #[inline(always)]
    fn sink(&mut self, mut place: usize, key: K) -> usize {
        while let Some((at, least)) = self.least_child(place)
            && least.0 < key
        {
            self.put(place, least);
            place = at;
        }
        place
    }

    /// The least entry right below `place`, of equal ones the first, and where it stands.
    #[inline(always)]
    fn least_child(&self, place: usize) -> Option<(usize, (K, u32))> {
        let first = place * CHILDREN + 1;
        let children = self.entries.get(first..)?;
        let less = |at: usize, than: usize| if children[at].0 < children[than].0 { at } else { than };
        let least = match children.len() {
            0 => return None,
            CHILDREN.. => less(less(3, 2), less(1, 0)),
            some => (1..some).fold(0, |least, at| less(at, least)),
        };
        Some((first + least, children[least]))
    }

    #[inline(always)]
    fn put(&mut self, place: usize, entry: (K, u32)) {
        self.entries[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::collections::BTreeMap;

    use aqm_net::Streams;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_heap_does_what_a_plain_map_does(
            steps in prop::collection::vec((0_u32..20, 0_u64..50, any::<bool>()), 1..300),
        ) {
            let (mut heap, mut plain) = (Heap::new(), BTreeMap::new());
            for (flow, key, removes) in steps {
                if removes {
                    heap.remove(flow);
                    plain.remove(&flow);
                } else {
                    heap.set(flow, key);
                    plain.insert(flow, key);
                }
                prop_assert_eq!(heap.first().map(|(key, _)| key), plain.values().min().copied());
                prop_assert!(heap.first().is_none_or(|(key, flow)| plain[&flow] == key));
                prop_assert!((0..20).all(|flow| heap.key(flow) == plain.get(&flow).copied()));
            }
        }
    }

    thread_local!(static COMPARISONS: Cell<u64> = const { Cell::new(0) });

    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Counted(u64);
    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.with(|count| count.set(count.get() + 1));
            self.0.cmp(&other.0)
        }
    }
    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn a_change_costs_at_most_a_few_comparisons_for_each_level() {
        let mut rng = Streams::new(1).named("heap", 0);
        for (flows, levels) in [(10_u32, 3), (1000, 6), (100_000, 10)] {
            let mut heap = Heap::new();
            (0..flows).for_each(|flow| heap.set(flow, Counted(rng.below(1 << 40))));
            for _ in 0..2000 {
                let before = COMPARISONS.with(Cell::get);
                heap.set(rng.below(u64::from(flows)) as u32, Counted(rng.below(1 << 40)));
                let comparisons = COMPARISONS.with(Cell::get) - before;
                assert!(comparisons <= 1 + (CHILDREN as u64) * levels, "{flows}: {comparisons}");
            }
        }
    }
}
