//! Which flow has the longest queue, found without looking at all of them.
//!
//! Ours: a heap of bounds, not of lengths. A queue's bound is never below its length; it follows when
//! the queue grows beyond it, and is put right only when it comes to the top while somebody must pay.
//! So a queue that grows and shrinks costs nothing, and each bound put right is paid for by a packet
//! that left: O(log flows) a packet at worst, taken together.

use std::cmp::Reverse;

use super::heap::Heap;

/// Flows by a bound on the length of their queues.
#[derive(Clone)]
pub(super) struct Longest {
    heap: Heap<Reverse<u64>>,
}

/// The queues that are compared.
pub(super) trait Queues {
    /// How long the queue of `flow` is.
    fn length(&self, flow: u32) -> u64;
    /// The bound on it, kept beside it because most packets need no more than these two; zero at first.
    fn bound(&mut self, flow: u32) -> &mut u64;
}

impl Longest {
    /// Of no flows.
    pub fn new() -> Self {
        Self { heap: Heap::new() }
    }

    /// The queue of `flow` has grown.
    pub fn on_grown(&mut self, flow: u32, queues: &mut impl Queues) {
        let length = queues.length(flow);
        if *queues.bound(flow) < length {
            self.set(flow, length, queues);
        }
    }

    /// The flow with the longest queue; some queue is not empty.
    pub fn find(&mut self, queues: &mut impl Queues) -> u32 {
        loop {
            let (Reverse(bound), flow) = self.heap.first().expect("somebody waits");
            let length = queues.length(flow);
            if length == bound {
                return flow;
            }
            self.set(flow, length, queues);
        }
    }

    fn set(&mut self, flow: u32, length: u64, queues: &mut impl Queues) {
        *queues.bound(flow) = length;
        if length == 0 {
            self.heap.remove(flow);
        } else {
            self.heap.set(flow, Reverse(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use aqm_net::Streams;
    use proptest::prelude::*;

    use super::*;

    /// Lengths, bounds, and how often a length was looked at.
    struct Plain(Vec<u64>, Vec<u64>, Cell<u64>);

    impl Plain {
        fn of(flows: usize) -> Self {
            Self(vec![0; flows], vec![0; flows], Cell::new(0))
        }
    }

    impl Queues for Plain {
        fn length(&self, flow: u32) -> u64 {
            self.2.set(self.2.get() + 1);
            self.0[flow as usize]
        }
        fn bound(&mut self, flow: u32) -> &mut u64 {
            &mut self.1[flow as usize]
        }
    }

    proptest! {
        #[test]
        fn the_flow_found_has_the_longest_queue(steps in prop::collection::vec((0_usize..9, 0_u64..9), 1..300)) {
            let (mut longest, mut queues) = (Longest::new(), Plain::of(9));
            for (flow, change) in steps {
                if change > 3 {
                    queues.0[flow] += change;
                    longest.on_grown(flow as u32, &mut queues);
                } else {
                    queues.0[flow] = queues.0[flow].saturating_sub(4 * change + 1);
                }
                let most = *queues.0.iter().max().unwrap();
                if change % 2 == 0 && most > 0 {
                    let found = longest.find(&mut queues);
                    prop_assert_eq!(queues.0[found as usize], most);
                }
            }
        }
    }

    #[test]
    fn finding_looks_at_few_queues_however_many_there_are() {
        for flows in [10_usize, 1000, 100_000] {
            let (mut longest, mut queues) = (Longest::new(), Plain::of(flows));
            let mut rng = Streams::new(1).named("longest", 0);
            let packets = 4 * flows.max(1000) as u64;
            for _ in 0..packets {
                let mut any = || rng.below(flows as u64) as usize;
                let (flow, served) = (any(), any());
                queues.0[flow] += 1;
                longest.on_grown(flow as u32, &mut queues);
                // One is served, and one more pays for each third that comes.
                queues.0[served] = queues.0[served].saturating_sub(1);
                if rng.chance(0.3) && queues.0[flow] > 0 {
                    let found = longest.find(&mut queues);
                    queues.0[found as usize] -= 1;
                }
            }
            assert!(queues.2.get() <= 3 * packets, "{flows} flows: {} looks", queues.2.get());
        }
    }
}
