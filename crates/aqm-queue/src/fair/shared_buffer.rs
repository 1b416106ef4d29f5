//! The buffer that all flows share. If the buffer is full, this module selects the flow that loses a packet (the
//! victim).
//!
//! B. Suter, T. V. Lakshman, D. Stiliadis, A. K. Choudhury, "Design Considerations for Supporting TCP with Per-Flow
//! Queueing", INFOCOM 1998: the victim is the flow with the longest queue, or a random flow among the flows whose
//! queues exceed their share. Packets are dropped from the front, so that a TCP sender detects the drop earlier: the
//! time saved is the queueing delay.
//!
//! aqmlab's choices where the paper is silent:
//! - Queue lengths are compared in the unit of the limit, bytes or packets.
//! - An arriving packet is enqueued before the lengths are compared. If the queue of this packet's flow is one of the
//!   longest queues, this flow is the victim.
//! - A flow's share is the number of queued packets divided by the number of backlogged flows, whether the limit is in
//!   packets or in bytes.
//! - Packets are dropped one at a time until the backlog is within the limit. Before each drop, this module selects the
//!   victim from the current queue lengths.

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
        /// The oldest packet of a flow that is drawn at random from the flows with at least the mean number of packets.
        RandomLong = "random-long",
    }
}

/// The shared buffer: its limit, and the data that are used to find the victim.
#[derive(Clone)]
pub(super) struct SharedBuffer {
    limit: Length,
    search: VictimSearch,
}

/// The queue lengths that are recorded in order to find the victim.
#[derive(Clone)]
enum VictimSearch {
    /// None: the arriving packet is dropped, so no search is needed.
    None,
    Longest(Longest),
    RandomLong(RandomLong),
}

impl SharedBuffer {
    /// Creates an empty buffer with this `limit`.
    pub fn new(limit: Length, drop: DropFrom) -> Self {
        let search = match drop {
            DropFrom::Tail => VictimSearch::None,
            DropFrom::LongestTail | DropFrom::LongestFront => VictimSearch::Longest(Longest::new(limit)),
            DropFrom::RandomLong => VictimSearch::RandomLong(RandomLong::new()),
        };
        Self { limit, search }
    }

    /// Returns whether the total backlog of all flows would be within the limit if `packets` packets with a total of
    /// `bytes` bytes were added.
    pub fn fits<S: Copy>(&self, flows: &Flows<S>, packets: u64, bytes: u64) -> bool {
        let backlog = flows.backlog();
        match self.limit {
            Length::Packets(limit) => backlog.packets + packets <= limit,
            Length::Bytes(limit) => backlog.bytes + bytes <= limit,
        }
    }

    /// Records that the queue of `flow` has grown by one packet.
    #[inline(always)]
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        match &mut self.search {
            VictimSearch::None => {}
            VictimSearch::Longest(longest) => longest.on_grown(flow, flows),
            VictimSearch::RandomLong(random) => random.on_change(flow, flows.of(flow).packets),
        }
    }

    /// Records that the queue of `flow` has shrunk by one packet.
    pub fn on_shrunk<S: Copy>(&mut self, flow: u32, flows: &Flows<S>) {
        if let VictimSearch::RandomLong(random) = &mut self.search {
            random.on_change(flow, flows.of(flow).packets);
        }
    }

    /// Returns the flow from which a packet must be dropped after a packet of the flow `arriving` has arrived.
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
