//! WFQ: weighted fair queueing with a fluid reference system.
//!
//! A. Demers, S. Keshav, S. Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989; A. K.
//! Parekh, R. G. Gallager, "A Generalized Processor Sharing Approach to Flow Control in Integrated Services Networks:
//! The Single-Node Case", IEEE/ACM Transactions on Networking 1(3), 1993 (there called PGPS). The reference system
//! (GPS) serves all backlogged flows simultaneously, each at a rate proportional to its weight. The virtual time `V` of
//! the reference system increases at the link rate divided by the total weight of the flows that are backlogged in this
//! system. Each packet gets the finish tag `F = max(F of the previous packet, V(arrival)) + bytes / weight`, and the
//! packet with the smallest tag is sent first. The next packet to leave is therefore the packet that the reference
//! system would finish first, among the packets that have already arrived.
//!
//! `V` is computed with a heap of the flows that are backlogged in the reference system, so that the amortised cost per
//! packet is O(log flows). The heap contains lower bounds on finish times. A bound is updated only when it reaches the
//! top of the heap, so most packets do not change the heap.
//!
//! aqmlab's choices:
//! - A dropped packet is also removed from the reference system, except for the part of the packet that the reference
//!   system has already served. Otherwise, a flow that loses many packets would be charged for data that was never
//!   sent.
//! - A packet gets its tag when it becomes the head of its flow. The tag is computed from the value of `V` at the
//!   packet's arrival.
//! - When the link becomes idle, the reference system also becomes idle, even if a rounding error would keep it busy
//!   slightly longer.

use aqm_net::{ConfigError, Instant, Rate};

use super::heap::Heap;
use super::tags::{SequencedTag, Unit};
use super::{Head, Loss, Order, scheduler};

scheduler! {
    /// Weighted fair queueing: packets leave in the order in which a fluid system that serves all flows simultaneously
    /// would finish them.
    ///
    /// A dropped packet is also removed from the fluid system, except for the part of the packet that the fluid system
    /// has already served.
    pub struct Config {}
}

impl Config {
    fn order(&self, _unit: Unit, rate: Rate) -> Result<Wfq, ConfigError> {
        Ok(Wfq { reference: Reference::new(rate), sent: Vec::new(), waiting: Heap::new(), sequence: 0 })
    }
}

/// The order in which flows send, including the state of WFQ.
#[derive(Clone)]
struct Wfq {
    reference: Reference,
    /// The finish tag of the last packet sent by each flow.
    sent: Vec<f64>,
    /// Finish tags of the flows' first packets. Equal tags are sorted in the order in which the tags were assigned.
    waiting: Heap<SequencedTag>,
    sequence: u64,
}

impl Wfq {
    fn tag(&self, flow: u32, head: Head<f64>) -> f64 {
        let weight = self.reference.flows[flow as usize].weight;
        self.sent[flow as usize].max(head.stamp) + cost(head.bytes, weight)
    }
}

impl Order for Wfq {
    /// The virtual time `V` at the time of the packet's arrival.
    type Stamp = f64;
    const REMEMBERS: bool = true;

    fn on_new_flow(&mut self, flow: u32) {
        if self.sent.len() <= flow as usize {
            self.sent.resize(flow as usize + 1, 0.0);
        }
        self.sent[flow as usize] = 0.0;
        self.reference.on_new_flow(flow);
    }

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        // A flow that is backlogged in the reference system keeps its weight in this system.
        if !self.reference.is_backlogged(flow) {
            self.reference.flows[flow as usize].weight = weight;
        }
    }

    #[inline(always)]
    fn on_arrival(&mut self, flow: u32, bytes: u16, now: Instant) -> f64 {
        self.reference.advance(now);
        self.reference.add(flow, bytes);
        self.reference.virtual_time
    }

    fn next(&mut self, _head_bytes: impl Fn(u32) -> u16) -> u32 {
        self.waiting.first().expect("a flow is backlogged").1
    }

    fn on_sent(&mut self, flow: u32, _bytes: u16) {
        if let Some(sequence) = self.waiting.key(flow) {
            self.sent[flow as usize] = Tag(sequence.tag()).value();
        }
    }

    #[inline(never)]
    fn on_lost(&mut self, flow: u32, loss: Loss, now: Instant) {
        self.reference.advance(now);
        self.reference.remove_unserved(flow, loss);
    }

    fn on_head(&mut self, flow: u32, head: Head<f64>) {
        self.sequence += 1;
        let Tag(tag) = Tag::of(self.tag(flow, head));
        self.waiting.set(flow, SequencedTag::new(tag, self.sequence));
    }

    fn on_empty(&mut self, flow: u32) {
        self.waiting.remove(flow);
    }

    fn on_idle(&mut self) {
        self.reference.finish();
    }
}

/// The fluid system that serves all flows simultaneously.
#[derive(Clone)]
struct Reference {
    bytes_per_second: f64,
    /// The virtual time `V`, in bytes of a flow of weight 1.
    virtual_time: f64,
    updated: Instant,
    /// The total weight of the flows that are backlogged in the fluid system.
    weights: u64,
    /// The backlogged flows, sorted by a lower bound on `finish`.
    finishes: Heap<Tag>,
    /// The states of all flows, including flows that are not backlogged.
    flows: Vec<Fluid>,
}

/// The state of a flow in the reference system.
#[derive(Clone, Copy)]
struct Fluid {
    /// If the flow is backlogged: the virtual time at which the system will have served all of the flow's bytes.
    finish: f64,
    weight: u32,
}

impl Reference {
    fn new(rate: Rate) -> Self {
        Self {
            bytes_per_second: rate.bytes_per_second(),
            virtual_time: 0.0,
            updated: Instant::START,
            weights: 0,
            finishes: Heap::new(),
            flows: Vec::new(),
        }
    }

    fn on_new_flow(&mut self, flow: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Fluid { finish: 0.0, weight: 1 });
        }
        self.leave(flow);
    }

    /// Serves all flows up to `now`. When a flow's backlog becomes empty, the other flows are served faster from then
    /// on.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        let mut bytes = now.since(self.updated).seconds() * self.bytes_per_second;
        self.updated = now;
        while let Some((finish, flow)) = self.first() {
            let weights = self.weights as i64 as f64; // signed: one instruction
            let needed = (finish - self.virtual_time) * weights;
            if needed > bytes {
                self.virtual_time += bytes / weights;
                return;
            }
            bytes -= needed;
            self.virtual_time = finish;
            self.leave(flow);
        }
    }

    /// Returns the flow whose backlog is the next to become empty, and the virtual time when this happens.
    #[inline]
    fn first(&mut self) -> Option<(f64, u32)> {
        loop {
            let (bound, flow) = self.finishes.first()?;
            let finish = self.flows[flow as usize].finish;
            if bound.value() == finish {
                return Some((finish, flow));
            }
            self.finishes.set(flow, Tag::of(finish));
        }
    }

    /// Adds a packet to `flow`.
    #[inline]
    fn add(&mut self, flow: u32, bytes: u16) {
        let is_new = !self.is_backlogged(flow);
        let Fluid { finish, weight } = &mut self.flows[flow as usize];
        if is_new {
            self.weights += u64::from(*weight);
            *finish = self.virtual_time;
        }
        *finish += cost(bytes, *weight);
        if is_new {
            self.finishes.set(flow, Tag::of(*finish));
        }
    }

    /// Removes a packet of `flow`, except for the part of the packet that the system has already served. The packets of
    /// a flow are served in order.
    fn remove_unserved(&mut self, flow: u32, Loss { bytes, behind }: Loss) {
        if !self.is_backlogged(flow) {
            return;
        }
        let Fluid { finish, weight } = &mut self.flows[flow as usize];
        let weight = f64::from(*weight);
        let left = (*finish - self.virtual_time) * weight - behind as f64;
        *finish -= left.clamp(0.0, f64::from(bytes)) / weight;
        if *finish > self.virtual_time {
            self.finishes.set(flow, Tag::of(*finish));
        } else {
            self.leave(flow);
        }
    }

    /// Serves all flows until no flow is backlogged, so that the system becomes idle.
    fn finish(&mut self) {
        while let Some((finish, flow)) = self.first() {
            self.virtual_time = finish;
            self.leave(flow);
        }
    }

    /// Returns whether `flow` is backlogged in the reference system.
    fn is_backlogged(&self, flow: u32) -> bool {
        self.finishes.key(flow).is_some()
    }

    fn leave(&mut self, flow: u32) {
        if self.is_backlogged(flow) {
            self.finishes.remove(flow);
            self.weights -= u64::from(self.flows[flow as usize].weight);
        }
    }
}

/// Returns the increase of a flow's tag by a packet of this size.
fn cost(bytes: u16, weight: u32) -> f64 {
    f64::from(bytes) / f64::from(weight)
}

/// A virtual time that can be sorted: the bit patterns of non-negative floating-point numbers are in the same order as
/// the numbers themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tag(u64);

impl Tag {
    fn of(value: f64) -> Self {
        debug_assert!(value >= 0.0, "virtual time must not be negative");
        Self(value.to_bits())
    }

    fn value(self) -> f64 {
        f64::from_bits(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn reference() -> Reference {
        let mut reference = Reference::new(Rate::from_bps(8000));
        (0..3).for_each(|flow| reference.on_new_flow(flow));
        reference
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn virtual_time_increases_at_the_service_rate_of_a_flow_of_weight_one() {
        // The link sends a thousand bytes per second. Flow 1 becomes active when half of flow 0's data has been served.
        // The two flows share the link until flow 0 becomes empty at 1.5 s. After that, flow 1 uses the whole link for
        // half a second.
        let mut fluid = reference();
        fluid.add(0, 1000);
        fluid.advance(at(500));
        fluid.add(1, 1000);
        for (millis, virtual_time, weights) in
            [(500, 500.0, 2), (1000, 750.0, 2), (1501, 1001.0, 1), (2001, 1500.0, 0)]
        {
            fluid.advance(at(millis));
            assert!(near(fluid.virtual_time, virtual_time), "{millis} ms: {}", fluid.virtual_time);
            assert_eq!(fluid.weights, weights, "{millis} ms");
        }
    }

    #[test]
    fn a_flow_with_later_packets_finishes_with_its_last_packet() {
        // The backlog of flow 0 is 3000 bytes, although the flow's bound in the heap is 1000. The backlog of flow 1 is
        // 2000 bytes, so flow 1 becomes empty first.
        let mut fluid = reference();
        for (flow, bytes) in [(0, 1000), (0, 1000), (0, 1000), (1, 2000)] {
            fluid.add(flow, bytes);
        }
        for (millis, virtual_time, weights) in [(3999, 1999.5, 2), (4001, 2001.0, 1), (5001, 3000.0, 0)] {
            fluid.advance(at(millis));
            assert!(near(fluid.virtual_time, virtual_time), "{millis} ms: {}", fluid.virtual_time);
            assert_eq!(fluid.weights, weights, "{millis} ms");
        }
        (0..3).for_each(|_| fluid.add(0, 1000));
        fluid.finish();
        assert!(near(fluid.virtual_time, 6000.0) && !fluid.is_backlogged(0), "{}", fluid.virtual_time);
    }

    #[test]
    fn the_unserved_part_of_a_dropped_packet_leaves_the_fluid() {
        let finish =
            |fluid: &Reference, flow| fluid.is_backlogged(flow).then(|| fluid.flows[flow as usize].finish);
        let mut fluid = reference();
        fluid.flows[0].weight = 2;
        for _ in 0..3 {
            fluid.add(0, 600);
        }
        // At 1 s, the system has served a thousand bytes of flow 0: the first packet and 400 bytes of the second
        // packet.
        fluid.advance(at(1000));
        assert_eq!(finish(&fluid, 0), Some(900.0));
        fluid.remove_unserved(0, Loss { bytes: 600, behind: 1200 });
        assert_eq!(finish(&fluid, 0), Some(900.0), "the first packet was served");
        fluid.remove_unserved(0, Loss { bytes: 600, behind: 600 });
        assert!(near(finish(&fluid, 0).unwrap(), 800.0), "200 bytes of the second packet were left");
        fluid.remove_unserved(0, Loss { bytes: 600, behind: 0 });
        assert_eq!((finish(&fluid, 0), fluid.weights), (None, 0));
    }

    #[test]
    fn a_reused_number_has_no_state_of_the_previous_flow() {
        let mut fluid = reference();
        fluid.add(0, 1000);
        fluid.on_new_flow(0);
        assert_eq!((fluid.weights, fluid.is_backlogged(0)), (0, false));
    }
}
