//! Finds the flow with the longest queue without scanning all flows.
//!
//! aqmlab's choice: the heap contains upper bounds of the queue lengths instead of the lengths. A queue's bound is
//! never less than the queue's length. The bound rises when the queue grows beyond the bound, and is reduced to the
//! queue's length only when the queue reaches the top of the heap during a search. The heap therefore does not change
//! while a queue grows and shrinks below its bound. Each reduction of a bound corresponds to packets that have
//! departed, so the amortised cost per packet is O(log flows). If several queues are equally long, and no queue is
//! longer, the search returns any of these queues, or the queue with the smallest number ([`First`]).

use std::cmp::Reverse;

use aqm_net::Length;

use super::flows::Flows;
use super::heap::Heap;

/// The rule that selects one queue if several queues are the longest.
pub(crate) trait Tie: Copy + Ord {
    /// Returns the key of `flow`. If several flows have the longest queue, the search returns the flow with the
    /// smallest key.
    fn of(flow: u32) -> Self;
}

/// Selects any of the longest queues.
impl Tie for () {
    fn of(_flow: u32) -> Self {}
}

/// Selects the longest queue with the smallest number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First(u32);

impl Tie for First {
    fn of(flow: u32) -> Self {
        Self(flow)
    }
}

/// A heap of flows, sorted by upper bounds on their queue lengths.
#[derive(Clone)]
pub(crate) struct Longest<T = ()> {
    heap: Heap<(Reverse<u64>, T)>,
    unit: Length,
    /// Number of queue lengths that have been read.
    #[cfg(test)]
    reads: u64,
}

impl<T: Tie> Longest<T> {
    /// Creates a search structure without flows. Queue lengths are compared in the unit of `unit`.
    pub fn new(unit: Length) -> Self {
        Self {
            heap: Heap::new(),
            unit,
            #[cfg(test)]
            reads: 0,
        }
    }

    /// Updates the bound after the queue of `flow` has grown.
    #[inline(always)]
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        let length = self.length(flow, flows);
        if *flows.bound(flow) < length {
            self.set(flow, length, flows);
        }
    }

    /// Returns the flow with the longest queue. At least one queue must not be empty.
    pub fn find<S: Copy>(&mut self, flows: &mut Flows<S>) -> u32 {
        loop {
            let ((Reverse(bound), _), flow) = self.heap.first().expect("at least one flow has packets");
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
            self.reads += 1;
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

    /// Creates `flows` flows with empty queues. The number of each flow is also its key.
    fn idle(flows: u32) -> Flows<()> {
        let mut idle = Flows::new(false);
        (0..flows).for_each(|key| assert_eq!(idle.number(key), (key, true)));
        idle
    }

    /// Adds a packet to `flow` and notifies `longest`.
    fn grow<T: Tie>(longest: &mut Longest<T>, flows: &mut Flows<()>, flow: u32) {
        flows.push(flow, Packet { bytes: 100, ..Packet::default() }, ());
        longest.on_grown(flow, flows);
    }

    /// Removes a packet of `flow`, if there is one, without notifying `longest`.
    fn shrink(flows: &mut Flows<()>, flow: u32) {
        if flows.of(flow).packets > 0 {
            flows.take_front(flow);
        }
    }

    proptest! {
        #[test]
        fn the_search_finds_the_first_of_the_longest_queues(steps in prop::collection::vec((0_u32..9, 0_u64..9), 1..300)) {
            for unit in [Length::Packets(1), Length::Bytes(1)] {
                let (mut longest, mut flows) = (Longest::<First>::new(unit), idle(9));
                for &(flow, change) in &steps {
                    if change > 3 {
                        (0..change).for_each(|_| grow(&mut longest, &mut flows, flow));
                    } else {
                        (0..=4 * change).for_each(|_| shrink(&mut flows, flow));
                    }
                    let max = (0..9).map(|flow| flows.of(flow).packets).max().unwrap();
                    if change % 2 == 0 && max > 0 {
                        let first = (0..9).find(|flow| flows.of(*flow).packets == max).unwrap();
                        prop_assert_eq!(longest.find(&mut flows), first);
                    }
                }
            }
        }
    }

    #[test]
    fn the_search_reads_few_lengths_for_any_number_of_queues() {
        for count in [10_u32, 1000, 100_000] {
            let (mut longest, mut flows) = (Longest::<()>::new(Length::Packets(1)), idle(count));
            let mut rng = Streams::new(1).named("longest", 0);
            let packets = 4 * u64::from(count.max(1000));
            for _ in 0..packets {
                let mut any = || rng.below(count.into()) as u32;
                let (flow, served) = (any(), any());
                grow(&mut longest, &mut flows, flow);
                // One packet is served. At every third arrival, another packet is dropped.
                shrink(&mut flows, served);
                if rng.chance(0.3) && flows.of(flow).packets > 0 {
                    let found = longest.find(&mut flows);
                    shrink(&mut flows, found);
                }
            }
            assert!(longest.reads <= 3 * packets, "{count} flows: {} looks", longest.reads);
        }
    }
}
