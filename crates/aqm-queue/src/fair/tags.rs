//! Flows in the order of their tags, those of one tag in the order in which they got it.
//!
//! A tag is a virtual time in bytes over weight. It is counted in parts of a byte that every weight
//! divides, so that tags are exact and no rounding adds up; in one part of a byte if all weights are 1.

use super::heap::Heap;

/// Flows by tag. A number is good for 18 TB of a flow of weight 1 at the finest unit allowed.
#[derive(Clone)]
pub(super) struct Tags {
    heap: Heap<Turn>,
    turn: u64,
}

impl Tags {
    /// No flows.
    pub fn new() -> Self {
        Self { heap: Heap::new(), turn: 0 }
    }

    /// The flow with the smallest tag.
    pub fn first(&self) -> Option<u32> {
        self.heap.first().map(|(_, flow)| flow)
    }

    /// Gives `flow` this tag; one that has it already keeps its place.
    pub fn set(&mut self, flow: u32, tag: u64) {
        if self.heap.key(flow).is_none_or(|old| old.tag() != tag) {
            self.turn += 1;
            self.heap.set(flow, Turn::new(tag, self.turn));
        }
    }

    /// Takes `flow` out, if it is there.
    pub fn remove(&mut self, flow: u32) {
        self.heap.remove(flow);
    }
}

/// A tag, and in which turn it was given: in one number, for they are compared together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(u128);

impl Turn {
    pub fn new(tag: u64, turn: u64) -> Self {
        Self(u128::from(tag) << 64 | u128::from(turn))
    }

    pub fn tag(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

/// How much a byte adds to a tag.
#[derive(Clone, Copy)]
pub(super) struct Unit(u64);

impl Unit {
    /// The finest unit that is allowed, in parts of a byte.
    pub const MOST: u64 = 1_000_000;

    /// The unit in which every one of `weights` divides a byte; nothing if it is too fine.
    pub fn of(weights: &[u64]) -> Option<Self> {
        let unit = weights.iter().try_fold(1_u64, |unit, weight| {
            let multiple = (unit / gcd(unit, *weight)).checked_mul(*weight)?;
            (multiple <= Self::MOST).then_some(multiple)
        });
        unit.map(Self)
    }

    /// What a packet of a flow of this `weight` adds.
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
    fn of_equal_tags_the_older_goes_first_and_a_tag_given_again_is_not_new() {
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
