//! A set of flows, sorted by their tags. Flows with equal tags are sorted by the order in which the tags were assigned.
//!
//! A tag is a virtual time, expressed in bytes divided by weight. Tags are counted in a fraction of a byte that is
//! chosen so that every increase of a tag is a whole number. Tags are therefore exact, and there are no rounding errors
//! that could accumulate. If all weights are 1, the unit is one byte.

use super::heap::Heap;

/// A set of flows, sorted by tag. With the finest allowed unit, the tag of a flow of weight 1 overflows after 18 TB.
#[derive(Clone)]
pub(super) struct Tags {
    heap: Heap<SequencedTag>,
    sequence: u64,
}

impl Tags {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self { heap: Heap::new(), sequence: 0 }
    }

    /// Returns the flow with the smallest tag.
    pub fn first(&self) -> Option<u32> {
        self.heap.first().map(|(_, flow)| flow)
    }

    /// Sets the tag of `flow`. A flow that already has this tag keeps its rank.
    pub fn set(&mut self, flow: u32, tag: u64) {
        if self.heap.key(flow).is_none_or(|old| old.tag() != tag) {
            self.sequence += 1;
            self.heap.set(flow, SequencedTag::new(tag, self.sequence));
        }
    }

    /// Removes `flow` if the flow is in the set.
    pub fn remove(&mut self, flow: u32) {
        self.heap.remove(flow);
    }
}

/// A tag and its sequence number, combined in one number because they are compared together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SequencedTag(u128);

impl SequencedTag {
    pub fn new(tag: u64, sequence: u64) -> Self {
        Self(u128::from(tag) << 64 | u128::from(sequence))
    }

    pub fn tag(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// The unit of tags: the increase of a tag per byte of a flow of weight 1.
#[derive(Clone, Copy)]
pub(super) struct Unit(u64);

impl Unit {
    /// The finest allowed unit, as a number of units per byte.
    pub const MAX: u64 = 1_000_000;

    /// Returns the unit in which all increases of tags are whole numbers for all `weights`, or `None` if this unit
    /// would be finer than allowed.
    pub fn of(weights: &[u64]) -> Option<Self> {
        let unit = weights.iter().try_fold(1_u64, |unit, weight| {
            let multiple = (unit / gcd(unit, *weight)).checked_mul(*weight)?;
            (multiple <= Self::MAX).then_some(multiple)
        });
        unit.map(Self)
    }

    /// Returns the increase of a tag after a packet of this size from a flow with this `weight`.
    pub fn cost(self, bytes: u16, weight: u32) -> u64 {
        u64::from(bytes) * (self.0 / u64::from(weight))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_tags_the_older_is_first_and_setting_the_same_tag_again_keeps_the_rank() {
        let mut tags = Tags::new();
        for (flow, tag) in [(3, 7), (1, 7), (2, 5), (3, 7)] {
            tags.set(flow, tag);
        }
        let order: Vec<u32> = std::iter::from_fn(|| {
            let first = tags.first()?;
            tags.remove(first);
            Some(first)
        })
        .collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn every_weight_divides_the_unit() {
        let unit = Unit::of(&[1, 2, 3, 10]).unwrap();
        assert_eq!([1, 2, 3, 10].map(|weight| unit.cost(1000, weight)), [30_000, 15_000, 10_000, 3000]);
        assert_eq!(Unit::of(&[]).unwrap().cost(1500, 1), 1500);
        assert!(Unit::of(&[997, 991, 983]).is_none());
        assert!(Unit::of(&[u64::MAX, 2]).is_none());
    }
}
