//! The buffer that all flows share, and the flow that loses a packet (the victim) when it is full.
//!
//! B. Suter, T. V. Lakshman, D. Stiliadis, A. K. Choudhury, "Design Considerations for Supporting TCP
//! with Per-Flow Queueing", INFOCOM 1998: the longest queue, or a random one of those beyond their
//! share; and from the front, which tells a TCP sender a queue's length earlier.
//!
//! Ours, where the paper is silent:
//! - Queues are compared in the unit of the limit, bytes or packets.
//! - A new packet joins first and then counts. If its own flow's queue is among the longest, that flow is the victim.
//! - A share is the packets that wait over the flows that have any, whatever the unit of the limit.
//! - Packets are dropped one at a time until the rest fits; each time the victim is chosen anew.

use aqm_net::{Length, Rng, choices};

use super::flows::Flows;
use super::longest::Longest;
use super::random_long::RandomLong;

choices! {
    /// Which packet goes when the shared buffer is full.
    pub enum DropFrom {
        /// The packet that arrives, whoever fills the buffer.
        Tail = "tail",
        /// The newest of the flow with the longest queue.
        LongestTail = "longest-tail",
        /// The oldest of the flow with the longest queue.
        LongestFront = "longest-front",
        /// The oldest of a flow picked at random among those with at least the mean number of packets.
        RandomLong = "random-long",
    }
}

/// The limit on all flows together, and what finds the victim.
#[derive(Clone)]
pub(super) struct SharedBuffer {
    limit: Length,
    search: VictimSearch,
}

/// What is kept of the lengths of queues to find a victim.
#[derive(Clone)]
enum VictimSearch {
    /// Nothing: the arriving packet is dropped.
    None,
    Longest(Longest),
    RandomLong(RandomLong),
}

impl SharedBuffer {
    /// An empty buffer for `limit`.
    pub fn new(limit: Length, drop: DropFrom) -> Self {
        let search = match drop {
            DropFrom::Tail => VictimSearch::None,
            DropFrom::LongestTail | DropFrom::LongestFront => VictimSearch::Longest(Longest::new(limit)),
            DropFrom::RandomLong => VictimSearch::RandomLong(RandomLong::new()),
        };
        Self { limit, search }
    }

    /// Whether what waits of all flows, with `packets` more of `bytes` bytes, is within the limit.
    pub fn fits<S: Copy>(&self, flows: &Flows<S>, packets: u64, bytes: u64) -> bool {
        let backlog = flows.backlog();
        match self.limit {
            Length::Packets(limit) => backlog.packets + packets <= limit,
            Length::Bytes(limit) => backlog.bytes + bytes <= limit,
        }
    }

    /// `flow` has one packet more.
    #[inline(always)]
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        match &mut self.search {
            VictimSearch::None => {}
            VictimSearch::Longest(longest) => longest.on_grown(flow, flows),
            VictimSearch::RandomLong(random) => random.on_change(flow, flows.of(flow).packets),
        }
    }

    /// `flow` has one packet less.
    pub fn on_shrunk<S: Copy>(&mut self, flow: u32, flows: &Flows<S>) {
        if let VictimSearch::RandomLong(random) = &mut self.search {
            random.on_change(flow, flows.of(flow).packets);
        }
    }

    /// The flow that loses a packet because one came to `arrived`.
    pub fn victim<S: Copy>(&mut self, arrived: u32, flows: &mut Flows<S>, rng: &mut Rng) -> u32 {
        match &mut self.search {
            VictimSearch::None => arrived,
            VictimSearch::Longest(longest) => {
                let found = longest.find(flows);
                let length = |flow| flows.of(flow).in_unit_of(self.limit);
                if length(arrived) == length(found) { arrived } else { found }
            }
            VictimSearch::RandomLong(random) => {
                let share = flows.backlog().packets.div_ceil(u64::from(flows.active()));
                random.pick(share, rng)
            }
        }
    }
}
