//! WFQ: weighted fair queueing by the clock of a fluid reference.
//!
//! A. Demers, S. Keshav, S. Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM
//! 1989; A. K. Parekh, R. G. Gallager, "A Generalized Processor Sharing Approach to Flow Control in
//! Integrated Services Networks: The Single-Node Case", IEEE/ACM Transactions on Networking 1(3), 1993 (there
//! PGPS). The reference (GPS) serves all backlogged flows at once, each at a rate in proportion to its
//! weight; its virtual time `V` grows by the line's rate over the weights of the flows it has. A packet gets
//! the finish tag `F = max(F of the packet before, V(arrival)) + bytes / weight`; the smallest goes first. So
//! packets leave in the order in which the reference would finish them, as far as they have come.
//!
//! `V` is kept up with a heap of the flows in the reference, so a packet costs O(log flows), taken together. The heap
//! has lower bounds of when flows are finished: a bound is brought up to date when it comes first, so that most packets
//! cost it nothing.
//!
//! Ours:
//! - What is dropped leaves the reference too, as far as that has not served it. Otherwise a flow that
//!   loses much would pay for what nobody sent.
//! - A packet gets its tag when it becomes the first of its flow, from the `V` noted when it came.
//! - When the line falls idle the reference does: it may be a rounding behind.

use aqm_net::{ConfigError, Instant, Rate};

use super::heap::Heap;
use super::tags::{Turn, Unit};
use super::{Head, Loss, Order, scheduler};

scheduler! {
    /// Weighted fair queueing: packets leave in the order in which a fluid that serves all flows at once
    /// would finish them.
    ///
    /// A packet that is dropped leaves the fluid, too, as far as the fluid has not served it.
    pub struct Config {}
}

impl Config {
    fn order(&self, _unit: Unit, rate: Rate) -> Result<Wfq, ConfigError> {
        Ok(Wfq { reference: Reference::new(rate), sent: Vec::new(), waiting: Heap::new(), turn: 0 })
    }
}

/// The order of flows.
#[derive(Clone)]
struct Wfq {
    reference: Reference,
    /// The finish tag of the last packet that each flow has sent.
    sent: Vec<f64>,
    /// Tags of the first packets; of equal ones the older goes first.
    waiting: Heap<Turn>,
    turn: u64,
}

impl Wfq {
    fn tag(&self, flow: u32, head: Head<f64>) -> f64 {
        let weight = self.reference.flows[flow as usize].weight;
        self.sent[flow as usize].max(head.stamp) + cost(head.bytes, weight)
    }
}

impl Order for Wfq {
    /// `V` when the packet came.
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
        // A flow that the reference has not finished keeps its weight there.
        if !self.reference.has(flow) {
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
        self.waiting.first().expect("somebody is backlogged").1
    }

    fn on_sent(&mut self, flow: u32, _bytes: u16) {
        if let Some(turn) = self.waiting.key(flow) {
            self.sent[flow as usize] = Tag(turn.tag()).value();
        }
    }

    #[inline(never)]
    fn on_lost(&mut self, flow: u32, loss: Loss, now: Instant) {
        self.reference.advance(now);
        self.reference.take_back(flow, loss);
    }

    fn on_head(&mut self, flow: u32, head: Head<f64>) {
        self.turn += 1;
        let Tag(tag) = Tag::of(self.tag(flow, head));
        self.waiting.set(flow, Turn::new(tag, self.turn));
    }

    fn on_empty(&mut self, flow: u32) {
        self.waiting.remove(flow);
    }

    fn on_idle(&mut self) {
        self.reference.finish();
    }
}

/// The fluid that serves all flows at once.
#[derive(Clone)]
struct Reference {
    bytes_per_second: f64,
    /// `V`, in bytes of a flow of weight 1.
    virtual_time: f64,
    as_of: Instant,
    /// The weights of the flows it has, together.
    weights: u64,
    /// The flows it has, by a lower bound of `finish`.
    finishes: Heap<Tag>,
    /// Each flow, waiting or not.
    flows: Vec<Fluid>,
}

/// What the reference knows of a flow.
#[derive(Clone, Copy)]
struct Fluid {
    /// When, in virtual time, it will have finished it, if it has it.
    finish: f64,
    weight: u32,
}

impl Reference {
    fn new(rate: Rate) -> Self {
        Self {
            bytes_per_second: rate.bytes_per_second(),
            virtual_time: 0.0,
            as_of: Instant::START,
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

    /// Serves up to `now`: each flow until it is finished, then the others faster.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        let mut bytes = now.since(self.as_of).seconds() * self.bytes_per_second;
        self.as_of = now;
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

    /// The flow that is finished first, and when.
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

    /// `flow` gets a packet.
    #[inline]
    fn add(&mut self, flow: u32, bytes: u16) {
        let is_new = !self.has(flow);
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

    /// `flow` loses what is not served yet of a packet: it serves a flow's packets in order.
    fn take_back(&mut self, flow: u32, Loss { bytes, behind }: Loss) {
        if !self.has(flow) {
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

    /// Nothing is left to serve.
    fn finish(&mut self) {
        while let Some((finish, flow)) = self.first() {
            self.virtual_time = finish;
            self.leave(flow);
        }
    }

    /// Whether it has something of `flow` left to serve.
    fn has(&self, flow: u32) -> bool {
        self.finishes.key(flow).is_some()
    }

    fn leave(&mut self, flow: u32) {
        if self.has(flow) {
            self.finishes.remove(flow);
            self.weights -= u64::from(self.flows[flow as usize].weight);
        }
    }
}

/// What a packet adds to the tags of its flow.
fn cost(bytes: u16, weight: u32) -> f64 {
    f64::from(bytes) / f64::from(weight)
}

/// A virtual time that can be ordered: numbers that are not negative stand in the order of their bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tag(u64);

impl Tag {
    fn of(value: f64) -> Self {
        debug_assert!(value >= 0.0, "virtual time begins at zero");
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
    fn virtual_time_runs_as_fast_as_one_flow_of_weight_one_is_served() {
        // A thousand bytes a second. Flow 1 comes when flow 0 is half served; they share until flow 0 is
        // finished, at 1.5 s, and flow 1 has half a second of the line to itself.
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
    fn a_flow_that_gets_more_is_finished_when_all_of_it_is() {
        // Flow 0 has 3000 bytes, though the heap has a bound of 1000; flow 1 has 2000 and is finished first.
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
        assert!(near(fluid.virtual_time, 6000.0) && !fluid.has(0), "{}", fluid.virtual_time);
    }

    #[test]
    fn what_is_dropped_leaves_the_fluid_unless_it_was_served() {
        let finish = |fluid: &Reference, flow| fluid.has(flow).then(|| fluid.flows[flow as usize].finish);
        let mut fluid = reference();
        fluid.flows[0].weight = 2;
        for _ in 0..3 {
            fluid.add(0, 600);
        }
        // At 1 s a thousand bytes of flow 0 are served: the first packet, and 400 of the second.
        fluid.advance(at(1000));
        assert_eq!(finish(&fluid, 0), Some(900.0));
        fluid.take_back(0, Loss { bytes: 600, behind: 1200 });
        assert_eq!(finish(&fluid, 0), Some(900.0), "the first was served");
        fluid.take_back(0, Loss { bytes: 600, behind: 600 });
        assert!(near(finish(&fluid, 0).unwrap(), 800.0), "200 bytes of the second were left");
        fluid.take_back(0, Loss { bytes: 600, behind: 0 });
        assert_eq!((finish(&fluid, 0), fluid.weights), (None, 0));
    }

    #[test]
    fn a_number_used_again_brings_nothing_of_the_flow_before() {
        let mut fluid = reference();
        fluid.add(0, 1000);
        fluid.on_new_flow(0);
        assert_eq!((fluid.weights, fluid.has(0)), (0, false));
    }
}
