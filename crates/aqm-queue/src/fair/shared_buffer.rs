//! The buffer shared by all flows, and the choice of the flow that loses a packet (the victim) when the buffer is full.
//!
//! B. Suter, T. V. Lakshman, D. Stiliadis, A. K. Choudhury, "Design Considerations for Supporting TCP with Per-Flow
//! Queueing", INFOCOM 1998: the victim is the longest queue, or a random queue among those above their share. Packets
//! are dropped from the front, so that a TCP sender learns of the drop earlier by the queueing delay.
//!
//! aqmlab's choices where the paper is silent:
//! - Queue lengths are compared in the unit of the limit, bytes or packets.
//! - A new packet is enqueued first and counts in the comparison. If its own flow's queue is among the longest, that
//!   flow is the victim.
//! - A flow's share is the number of queued packets divided by the number of backlogged flows, for either unit of the
//!   limit.
//! - Packets are dropped one at a time until the limit is respected. The victim is selected for each packet.

use aqm_net::{Length, Rng, choices};

use super::flows::Flows;
use super::longest::Longest;
use super::random_long::RandomLong;

choices! {
    /// The packet that is dropped when the shared buffer is full.
    pub enum DropFrom {
        /// The arriving packet, regardless of the queue lengths.
        Tail = "tail",
        /// The newest packet of the flow with the longest queue.
        LongestTail = "longest-tail",
        /// The oldest packet of the flow with the longest queue.
        LongestFront = "longest-front",
        /// The oldest packet of a random flow among those with at least the mean number of packets.
        RandomLong = "random-long",
    }
}

/// The limit for all flows together, and the search for the victim.
#[derive(Clone)]
pub(super) struct SharedBuffer {
    limit: Length,
    search: VictimSearch,
}

/// The queue lengths recorded for the search for a victim.
#[derive(Clone)]
enum VictimSearch {
    /// No search: the arriving packet is dropped.
    None,
    Longest(Longest),
    RandomLong(RandomLong),
}

impl SharedBuffer {
    /// Creates an empty buffer with `limit`.
    pub fn new(limit: Length, drop: DropFrom) -> Self {
        let search = match drop {
            DropFrom::Tail => VictimSearch::None,
            DropFrom::LongestTail | DropFrom::LongestFront => VictimSearch::Longest(Longest::new(limit)),
            DropFrom::RandomLong => VictimSearch::RandomLong(RandomLong::new()),
        };
        Self { limit, search }
    }

    /// Whether the backlog of all flows, plus `packets` packets with `bytes` bytes, is within the limit.
    pub fn fits<S: Copy>(&self, flows: &Flows<S>, packets: u64, bytes: u64) -> bool {
        let backlog = flows.backlog();
        match self.limit {
            Length::Packets(limit) => backlog.packets + packets <= limit,
            Length::Bytes(limit) => backlog.bytes + bytes <= limit,
        }
    }

    /// Records that the queue of `flow` has one packet more.
    #[inline(always)]
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        match &mut self.search {
            VictimSearch::None => {}
            VictimSearch::Longest(longest) => longest.on_grown(flow, flows),
            VictimSearch::RandomLong(random) => random.on_change(flow, flows.of(flow).packets),
        }
    }

    /// Records that the queue of `flow` has one packet less.
    pub fn on_shrunk<S: Copy>(&mut self, flow: u32, flows: &Flows<S>) {
        if let VictimSearch::RandomLong(random) = &mut self.search {
            random.on_change(flow, flows.of(flow).packets);
        }
    }

    /// The flow that loses a packet because a packet of flow `arriving` arrived.
    pub fn victim<S: Copy>(&mut self, arriving: u32, flows: &mut Flows<S>, rng: &mut Rng) -> u32 {
        match &mut self.search {
            VictimSearch::None => arriving,
            VictimSearch::Longest(longest) => {
                let longest_flow = longest.find(flows);
                let length = |flow| flows.of(flow).in_unit_of(self.limit);
                if length(arriving) == length(longest_flow) { arriving } else { longest_flow }
            }
            VictimSearch::RandomLong(random) => {
                let share = flows.backlog().packets.div_ceil(u64::from(flows.active()));
                random.pick(share, rng)
            }
        }
    }
}
