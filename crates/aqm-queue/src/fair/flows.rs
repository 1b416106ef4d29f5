//! A table of flows: assigns a number to each flow, and stores the packets of each flow in order of arrival.
//!
//! The packets of all flows are stored in one slab, in which the packets of each flow form a linked list. Therefore, no
//! memory needs to be allocated for each flow. Flow numbers are small and are reused. An idle flow loses its number
//! immediately or, if idle flows are remembered, when [`REMEMBERED`] other flows have become idle after this flow.
//! Memory usage is therefore bounded by the backlog plus a constant.

use aqm_net::{Backlog, Packet};

use super::ring::Ring;
use crate::hash_index::{HashIndex, NONE};

/// Maximum number of remembered idle flows. The value is aqmlab's choice, and is far greater than the number of flows
/// that are idle for less than a round.
pub(super) const REMEMBERED: u32 = 1 << 16;

/// The flows, indexed by number. Each packet is stored with a stamp of type `S`. The scheduler creates this stamp when
/// the packet arrives.
#[derive(Clone)]
pub(crate) struct Flows<S> {
    flows: Vec<Flow>,
    unused: Vec<u32>,
    index: HashIndex,
    nodes: Vec<Node<S>>,
    unused_nodes: u32,
    /// Idle flows that still have a number, starting with the flow that has been idle longest.
    idle: Ring,
    remembers: bool,
    active: u32,
    backlog: Backlog,
}

/// A flow: the first and last packets of its chain, and its backlog.
#[derive(Clone, Copy)]
struct Flow {
    bytes: u64,
    /// An upper bound on the queue length, which `longest.rs` uses.
    bound: u64,
    key: u32,
    packets: u32,
    head: u32,
    tail: u32,
}

impl Flow {
    fn empty(key: u32) -> Self {
        Self { bytes: 0, bound: 0, key, packets: 0, head: NONE, tail: NONE }
    }
}

#[derive(Clone)]
struct Node<S> {
    packet: Packet,
    before: u32,
    after: u32,
    stamp: S,
}

/// A removed packet, and whether it was the head of its flow.
pub(crate) struct Dequeued {
    pub packet: Packet,
    pub was_head: bool,
}

impl<S: Copy> Flows<S> {
    /// Creates an empty table. If `remembers` is true, idle flows keep their numbers for a while.
    pub fn new(remembers: bool) -> Self {
        Self {
            flows: Vec::new(),
            unused: Vec::new(),
            index: HashIndex::new(),
            nodes: Vec::new(),
            unused_nodes: NONE,
            idle: Ring::default(),
            remembers,
            active: 0,
            backlog: Backlog::default(),
        }
    }

    /// Creates a table with `count` flows. The numbers of these flows start at 0 and are permanent, and the flows have
    /// no keys.
    pub fn numbered(count: u32) -> Self {
        let flows = (0..count).map(Flow::empty).collect();
        Self { flows, ..Self::new(false) }
    }

    /// Returns the number of the flow with this key, and whether the number was assigned by this call.
    #[inline(always)]
    pub fn number(&mut self, key: u32) -> (u32, bool) {
        if let Some(flow) = self.index.find(u64::from(key), |flow| self.flows[flow as usize].key == key) {
            return (flow, false);
        }
        (self.assign_number(key), true)
    }

    /// Assigns a number to the flow with this key, which does not have a number yet.
    #[inline(never)]
    fn assign_number(&mut self, key: u32) -> u32 {
        let flow = match self.unused.pop() {
            Some(flow) => {
                self.flows[flow as usize].key = key;
                flow
            }
            None => {
                self.flows.push(Flow::empty(key));
                self.flows.len() as u32 - 1
            }
        };
        self.index.insert(u64::from(key), flow);
        flow
    }

    /// Returns the number of flow numbers that have been assigned so far, including the numbers of forgotten flows.
    pub fn numbers(&self) -> u32 {
        self.flows.len() as u32
    }

    /// Returns the number of flows that have at least one queued packet.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Returns the total backlog of all flows.
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Returns the backlog of `flow`.
    pub fn of(&self, flow: u32) -> Backlog {
        let flow = &self.flows[flow as usize];
        Backlog { packets: u64::from(flow.packets), bytes: flow.bytes }
    }

    /// Returns the upper bound that `longest.rs` maintains for the queue length of `flow`. The initial value is zero.
    pub fn bound(&mut self, flow: u32) -> &mut u64 {
        &mut self.flows[flow as usize].bound
    }

    /// Returns the first packet of `flow` and its stamp. The flow must have a packet.
    pub fn head(&self, flow: u32) -> (&Packet, S) {
        let node = &self.nodes[self.flows[flow as usize].head as usize];
        (&node.packet, node.stamp)
    }

    /// Returns a mutable reference to the first packet of `flow`, so that the packet can be marked. The flow must have
    /// a packet.
    pub fn head_mut(&mut self, flow: u32) -> &mut Packet {
        &mut self.nodes[self.flows[flow as usize].head as usize].packet
    }

    /// Returns the packets of `flow` and their stamps, oldest packet first.
    pub fn packets(&self, flow: u32) -> impl Iterator<Item = (&Packet, S)> {
        let node = |number: u32| self.nodes.get(number as usize);
        let first = node(self.flows[flow as usize].head);
        std::iter::successors(first, move |before| node(before.after)).map(|node| (&node.packet, node.stamp))
    }

    /// Appends `packet` to `flow`.
    #[inline(always)]
    pub fn push(&mut self, flow: u32, packet: Packet, stamp: S) {
        let entry = &mut self.flows[flow as usize];
        let node = Node { packet, before: entry.tail, after: NONE, stamp };
        let number = match self.unused_nodes {
            NONE => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
            number => {
                self.unused_nodes = self.nodes[number as usize].after;
                self.nodes[number as usize] = node;
                number
            }
        };
        let before = std::mem::replace(&mut entry.tail, number);
        entry.packets += 1;
        entry.bytes += u64::from(packet.bytes);
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(packet.bytes);
        if before == NONE {
            entry.head = number;
            self.active += 1;
            if self.remembers {
                self.idle.remove(flow);
            }
        } else {
            self.nodes[before as usize].after = number;
        }
    }

    /// Removes the oldest packet of `flow`, which must have a packet.
    #[inline(always)]
    pub fn take_front(&mut self, flow: u32) -> Dequeued {
        self.take(flow, self.flows[flow as usize].head)
    }

    /// Removes the oldest packet of `flow`, which must have a packet, and returns this packet and its stamp.
    #[inline(always)]
    pub fn take_front_stamped(&mut self, flow: u32) -> (Packet, S) {
        let head = self.flows[flow as usize].head;
        let stamp = self.nodes[head as usize].stamp;
        (self.take(flow, head).packet, stamp)
    }

    /// Removes the newest packet of `flow`, which must have a packet.
    #[inline(never)]
    pub fn take_back(&mut self, flow: u32) -> Dequeued {
        self.take(flow, self.flows[flow as usize].tail)
    }

    /// Removes the packet with this `id` from `flow`. The search is fast for packets near either end of the queue.
    #[inline(never)]
    pub fn take_id(&mut self, flow: u32, id: u32) -> Dequeued {
        let Flow { head, tail, .. } = self.flows[flow as usize];
        let mut at = if self.nodes[tail as usize].packet.id == id { tail } else { head };
        while self.nodes[at as usize].packet.id != id {
            at = self.nodes[at as usize].after;
        }
        self.take(flow, at)
    }

    /// Releases the number of `flow`, whose queue must be empty.
    pub fn retire(&mut self, flow: u32) {
        debug_assert_eq!(self.flows[flow as usize].packets, 0, "a flow with packets must not be retired");
        if !self.remembers {
            return self.forget(flow);
        }
        self.idle.remove(flow);
        self.idle.push_back(flow, ());
        if self.idle.len() > REMEMBERED {
            let oldest = self.idle.front().expect("there is an idle flow");
            self.idle.remove(oldest);
            self.forget(oldest);
        }
    }

    fn forget(&mut self, flow: u32) {
        self.index.remove(u64::from(self.flows[flow as usize].key), flow);
        self.unused.push(flow);
    }

    #[inline(always)]
    fn take(&mut self, flow: u32, number: u32) -> Dequeued {
        let node = &mut self.nodes[number as usize];
        let (packet, before) = (node.packet, node.before);
        let after = std::mem::replace(&mut node.after, self.unused_nodes);
        self.unused_nodes = number;
        let entry = &mut self.flows[flow as usize];
        match before {
            NONE => entry.head = after,
            before => self.nodes[before as usize].after = after,
        }
        match after {
            NONE => entry.tail = before,
            after => self.nodes[after as usize].before = before,
        }
        entry.packets -= 1;
        entry.bytes -= u64::from(packet.bytes);
        self.active -= u32::from(entry.packets == 0);
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(packet.bytes);
        Dequeued { packet, was_head: before == NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(id: u32) -> Packet {
        Packet { id, bytes: 100, ..Packet::default() }
    }

    #[test]
    fn packets_are_removed_from_the_front_the_back_and_the_middle() {
        let mut flows = Flows::new(false);
        let (flow, is_new) = flows.number(77);
        assert!(is_new);
        (0..5).for_each(|id| flows.push(flow, packet(id), id));
        assert_eq!((flows.take_id(flow, 2).packet.id, flows.take_id(flow, 4).packet.id), (2, 4));
        assert_eq!(flows.take_back(flow).packet.id, 3);
        assert_eq!((flows.head(flow).0.id, flows.head(flow).1), (0, 0));
        assert!(flows.packets(flow).map(|(packet, stamp)| (packet.id, stamp)).eq([(0, 0), (1, 1)]));
        let dequeued = flows.take_front(flow);
        assert_eq!((dequeued.packet.id, dequeued.was_head, flows.head(flow).1), (0, true, 1));
        assert_eq!(flows.of(flow), Backlog { packets: 1, bytes: 100 });
        assert_eq!(flows.backlog(), flows.of(flow));
    }

    #[test]
    fn memory_depends_on_the_backlog_and_not_on_the_number_of_past_flows() {
        let mut flows = Flows::new(false);
        for key in 0..100_000 {
            let (flow, is_new) = flows.number(key);
            assert!(is_new);
            flows.push(flow, packet(0), ());
            if key >= 10 {
                let (oldest, is_new) = flows.number(key - 10);
                assert!(!is_new);
                flows.take_front(oldest);
                flows.retire(oldest);
            }
        }
        assert_eq!((flows.active(), flows.numbers(), flows.nodes.len()), (10, 11, 11));
    }

    #[test]
    fn idle_flows_are_remembered_up_to_a_bound() {
        let mut flows = Flows::new(true);
        for key in 0..3 * REMEMBERED {
            let (flow, _) = flows.number(key);
            flows.push(flow, packet(0), ());
            flows.take_front(flow);
            flows.retire(flow);
        }
        assert_eq!(flows.numbers(), REMEMBERED + 1);
        assert!(!flows.number(2 * REMEMBERED).1, "the oldest remembered flow");
        assert!(flows.number(2 * REMEMBERED - 1).1, "the newest forgotten flow");
    }
}
