//! Which flow has the longest queue, found without looking at all of them.
//!
//! Ours: a heap of upper bounds, not of lengths. The bound of a queue is never below its length; it rises
//! when the queue grows beyond it, and falls to the length only when it comes to the top of the heap while a
//! victim is sought. So a queue that grows and shrinks costs nothing, and each bound that falls is matched by a
//! packet that left: O(log flows) a packet, amortised. Of queues that are equally long one is found, or the one
//! with the smallest number ([`First`]).

use std::cmp::Reverse;

use aqm_net::Length;

use super::flows::Flows;
use super::heap::Heap;

/// Which of several queues is found that are equally long.
pub(crate) trait Tie: Copy + Ord {
    /// Of those the least is found.
    fn of(flow: u32) -> Self;
}

/// Any of them.
impl Tie for () {
    fn of(_flow: u32) -> Self {}
}

/// The one with the smallest number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First(u32);

impl Tie for First {
    fn of(flow: u32) -> Self {
        Self(flow)
    }
}

/// Flows by an upper bound on the length of their queues.
#[derive(Clone)]
pub(crate) struct Longest<T = ()> {
    heap: Heap<(Reverse<u64>, T)>,
    unit: Length,
    /// How often the length of a queue was looked at.
    #[cfg(test)]
    looks: u64,
}

impl<T: Tie> Longest<T> {
    /// Of no flows; lengths are compared in the unit of `unit`.
    pub fn new(unit: Length) -> Self {
        Self {
            heap: Heap::new(),
            unit,
            #[cfg(test)]
            looks: 0,
        }
    }

    /// The queue of `flow` has grown.
    #[inline(always)]
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        let length = self.length(flow, flows);
        if *flows.bound(flow) < length {
            self.set(flow, length, flows);
        }
    }

    /// The flow with the longest queue; some queue is not empty.
    pub fn find<S: Copy>(&mut self, flows: &mut Flows<S>) -> u32 {
        loop {
            let ((Reverse(bound), _), flow) = self.heap.first().expect("some flow has packets");
            let length = self.length(flow, flows);
            if length == bound {
                return flow;
            }
            self.set(flow, length, flows);
        }
    }

    fn length<S: Copy>(&mut self, flow: u32, flows: &Flows<S>) -> u64 {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        flows.of(flow).in_unit_of(self.unit)
    }

    #[inline(never)]
    fn set<S: Copy>(&mut self, flow: u32, length: u64, flows: &mut Flows<S>) {
        *flows.bound(flow) = length;
        if length == 0 {
            self.heap.remove(flow);
        } else {
            self.heap.set(flow, (Reverse(length), T::of(flow)));
        }
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Packet, Streams};
    use proptest::prelude::*;

    use super::*;

    /// So many flows of which nothing waits; the number of a flow is its key.
    fn idle(flows: u32) -> Flows<()> {
        let mut idle = Flows::new(false);
        (0..flows).for_each(|key| assert_eq!(idle.number(key), (key, true)));
        idle
    }

    /// A packet more for `flow`, of which `longest` hears.
    fn grow<T: Tie>(longest: &mut Longest<T>, flows: &mut Flows<()>, flow: u32) {
        flows.push(flow, Packet { bytes: 100, ..Packet::default() }, ());
        longest.on_grown(flow, flows);
    }

    /// A packet less, if there is one, of which it does not.
    fn shrink(flows: &mut Flows<()>, flow: u32) {
        if flows.of(flow).packets > 0 {
            flows.take_front(flow);
        }
    }

    proptest! {
        #[test]
        fn the_flow_found_is_the_first_with_the_longest_queue(steps in prop::collection::vec((0_u32..9, 0_u64..9), 1..300)) {
            for unit in [Length::Packets(1), Length::Bytes(1)] {
                let (mut longest, mut flows) = (Longest::<First>::new(unit), idle(9));
                for &(flow, change) in &steps {
                    if change > 3 {
                        (0..change).for_each(|_| grow(&mut longest, &mut flows, flow));
                    } else {
                        (0..=4 * change).for_each(|_| shrink(&mut flows, flow));
                    }
                    let most = (0..9).map(|flow| flows.of(flow).packets).max().unwrap();
                    if change % 2 == 0 && most > 0 {
                        let first = (0..9).find(|flow| flows.of(*flow).packets == most).unwrap();
                        prop_assert_eq!(longest.find(&mut flows), first);
                    }
                }
            }
        }
    }

    #[test]
    fn finding_looks_at_few_queues_however_many_there_are() {
        for count in [10_u32, 1000, 100_000] {
            let (mut longest, mut flows) = (Longest::<()>::new(Length::Packets(1)), idle(count));
            let mut rng = Streams::new(1).named("longest", 0);
            let packets = 4 * u64::from(count.max(1000));
            for _ in 0..packets {
                let mut any = || rng.below(count.into()) as u32;
                let (flow, served) = (any(), any());
                grow(&mut longest, &mut flows, flow);
                // One is served, and one more is the victim of each third that comes.
                shrink(&mut flows, served);
                if rng.chance(0.3) && flows.of(flow).packets > 0 {
                    let found = longest.find(&mut flows);
                    shrink(&mut flows, found);
                }
            }
            assert!(longest.looks <= 3 * packets, "{count} flows: {} looks", longest.looks);
        }
    }
}
