//! Who pays when the buffer that all flows share is full.
//!
//! B. Suter, T. V. Lakshman, D. Stiliadis, A. K. Choudhury, "Design Considerations for Supporting TCP
//! with Per-Flow Queueing", INFOCOM 1998: the longest queue, or a random one of those beyond their
//! share; and from the front, which tells a TCP sender a queue's length earlier.
//!
//! Ours, where the paper is silent:
//! - Queues are compared in the unit of the limit, bytes or packets.
//! - A new packet joins first and then counts. If its own flow's queue is among the longest, it pays.
//! - A share is the packets that wait over the flows that have any, whatever the unit of the limit.
//! - Packets go until the rest fits, one at a time, each from the flow that is due by then.

use aqm_net::{Length, Rng, choices};

use super::flows::Flows;
use super::long::Long;
use super::longest::{Longest, Queues};

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

/// The limit on what waits, and the book that tells who pays for it.
#[derive(Clone)]
pub(super) struct Room {
    limit: Length,
    book: Book,
}
#[derive(Clone)]
enum Book {
    None,
    Longest(Longest),
    Long(Long),
}

impl Room {
    /// Room for `limit`.
    pub fn new(limit: Length, drop: DropFrom) -> Self {
        let book = match drop {
            DropFrom::Tail => Book::None,
            DropFrom::LongestTail | DropFrom::LongestFront => Book::Longest(Longest::new()),
            DropFrom::RandomLong => Book::Long(Long::new()),
        };
        Self { limit, book }
    }

    /// Whether the flows, with `bytes` more in one `more` packet, fit.
    pub fn fits<S: Copy>(&self, flows: &Flows<S>, more: u64, bytes: u64) -> bool {
        let backlog = flows.backlog();
        match self.limit {
            Length::Packets(limit) => backlog.packets + more <= limit,
            Length::Bytes(limit) => backlog.bytes + bytes <= limit,
        }
    }

    /// `flow` has a packet more.
    pub fn on_grown<S: Copy>(&mut self, flow: u32, flows: &mut Flows<S>) {
        match &mut self.book {
            Book::None => {}
            Book::Longest(longest) => longest.on_grown(flow, &mut Measured { flows, unit: self.limit }),
            Book::Long(long) => long.on_change(flow, flows.of(flow).packets),
        }
    }

    /// `flow` has a packet less.
    pub fn on_shrunk<S: Copy>(&mut self, flow: u32, flows: &Flows<S>) {
        if let Book::Long(long) = &mut self.book {
            long.on_change(flow, flows.of(flow).packets);
        }
    }

    /// Who pays for a packet that came to `arrived`.
    pub fn payer<S: Copy>(&mut self, arrived: u32, flows: &mut Flows<S>, rng: &mut Rng) -> u32 {
        match &mut self.book {
            Book::None => arrived,
            Book::Longest(longest) => {
                let mut queues = Measured { flows, unit: self.limit };
                let found = longest.find(&mut queues);
                if queues.length(arrived) == queues.length(found) { arrived } else { found }
            }
            Book::Long(long) => {
                let share = flows.backlog().packets.div_ceil(u64::from(flows.active()));
                long.pick(share, rng)
            }
        }
    }
}

/// The queues of flows, in the unit of the limit.
struct Measured<'a, S> {
    flows: &'a mut Flows<S>,
    unit: Length,
}

impl<S: Copy> Queues for Measured<'_, S> {
    fn length(&self, flow: u32) -> u64 {
        self.flows.of(flow).in_unit_of(self.unit)
    }

    fn bound(&mut self, flow: u32) -> &mut u64 {
        self.flows.bound(flow)
    }
}
