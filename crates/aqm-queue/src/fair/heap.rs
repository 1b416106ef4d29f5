//! A priority queue of flows: finds the flow with the smallest key, and changes the key of any flow in O(log flows)
//! time.
//!
//! The queue is a heap with four children per node (D. B. Johnson, "Priority Queues with Update and Finding Minimum
//! Spanning Trees", 1975), together with a table of each flow's position.

/// A heap of flow numbers. Each flow number has a key.
#[derive(Clone)]
pub(crate) struct Heap<K> {
    entries: Vec<(K, u32)>,
    /// The position of each flow in `entries`, or `ABSENT`.
    positions: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl<K: Copy + Ord> Heap<K> {
    /// Creates an empty heap.
    pub fn new() -> Self {
        Self { entries: Vec::new(), positions: Vec::new() }
    }

    /// Returns the smallest key and the flow that has this key.
    pub fn first(&self) -> Option<(K, u32)> {
        self.entries.first().copied()
    }

    /// Returns the key of `flow`, if the flow is in the heap.
    pub fn key(&self, flow: u32) -> Option<K> {
        match self.positions.get(flow as usize) {
            Some(&position) if position != ABSENT => Some(self.entries[position as usize].0),
            _ => None,
        }
    }

    /// Sets the key of `flow`. If the flow already has a key, the new key replaces the old key.
    #[inline(never)]
    pub fn set(&mut self, flow: u32, key: K) {
        if self.positions.len() <= flow as usize {
            self.positions.resize(flow as usize + 1, ABSENT);
        }
        let position = match self.positions[flow as usize] {
            ABSENT => {
                self.entries.push((key, flow));
                self.entries.len() - 1
            }
            position => position as usize,
        };
        self.settle(position, (key, flow));
    }

    /// Removes `flow` if the flow is in the heap.
    #[inline(never)]
    pub fn remove(&mut self, flow: u32) {
        let Some(&position) = self.positions.get(flow as usize).filter(|position| **position != ABSENT)
        else {
            return;
        };
        self.positions[flow as usize] = ABSENT;
        let last = self.entries.pop().expect("the flow is in the heap");
        if last.1 != flow {
            self.settle(position as usize, last);
        }
    }

    /// Inserts `entry` in its correct position in the heap, starting the search at the free position `position`.
    #[inline(always)]
    fn settle(&mut self, position: usize, entry: (K, u32)) {
        let risen = self.rise(position, entry.0);
        // If an entry has moved up, the entry is smaller than all entries below its new position, so the entry need not
        // move down.
        let settled = if risen < position { risen } else { self.sink(position, entry.0) };
        self.put(settled, entry);
    }

    /// Moves the free position up past entries larger than `key`.
    #[inline(always)]
    fn rise(&mut self, mut position: usize, key: K) -> usize {
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.entries[parent].0 <= key {
                break;
            }
            self.put(position, self.entries[parent]);
            position = parent;
        }
        position
    }

    /// Moves the free position down past entries smaller than `key`.
    #[inline(always)]
    fn sink(&mut self, mut position: usize, key: K) -> usize {
        while let Some((at, least)) = self.least_child(position)
            && least.0 < key
        {
            self.put(position, least);
            position = at;
        }
        position
    }

    /// Returns the smallest child of `position`, and the child's position. If several children are equally small,
    /// returns the first of these children.
    #[inline(always)]
    fn least_child(&self, position: usize) -> Option<(usize, (K, u32))> {
        let first = position * CHILDREN + 1;
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
    fn put(&mut self, position: usize, entry: (K, u32)) {
        self.entries[position] = entry;
        self.positions[entry.1 as usize] = position as u32;
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
        fn the_heap_behaves_like_a_plain_map(
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
    fn a_change_costs_at_most_a_few_comparisons_per_level() {
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
