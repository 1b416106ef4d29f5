//! STFQ: start-time fair queueing.
//!
//! P. Goyal, H. M. Vin, H. Cheng, "Start-Time Fair Queueing: A Scheduling Algorithm for Integrated
//! Services Packet Switching Networks", SIGCOMM 1996. A packet gets the start tag
//! `S = max(v(arrival), F of the packet before)` and the finish tag `F = S + bytes / weight`; the smallest
//! start tag goes first. The virtual time `v` is the start tag of the packet on the line, and, once the
//! line is idle, the largest finish tag of any packet sent.
//!
//! Ours:
//! - A packet gets its tags when it becomes the first of its flow. For a backlogged flow that is the same:
//!   the finish tag of the packet before is never less than `v` while that packet waits or is sent.
//! - Of equal tags, the one given first goes first.
//! - The finish tag of an idle flow is remembered until 65,536 other flows have fallen idle since.

use aqm_net::{ConfigError, Instant, Rate};

use super::tags::{Tags, Unit};
use super::{Head, Order, scheduler};

scheduler! {
    /// Start-time fair queueing: the flow whose next packet would start first, in a virtual time that
    /// runs as fast as one flow is served, goes first.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Stfq, ConfigError> {
        Ok(Stfq::new(unit))
    }
}

/// The order of flows.
#[derive(Clone)]
pub(super) struct Stfq {
    unit: Unit,
    /// `v`.
    virtual_time: u64,
    /// The largest finish tag of a packet sent.
    last_finish: u64,
    flows: Vec<Flow>,
    waiting: Tags,
}

#[derive(Clone, Copy)]
struct Flow {
    /// The start tag of the first packet that waits, or the finish tag of the last one sent.
    tag: u64,
    weight: u32,
}

impl Stfq {
    pub fn new(unit: Unit) -> Self {
        Self { unit, virtual_time: 0, last_finish: 0, flows: Vec::new(), waiting: Tags::new() }
    }

    /// Whether `flow` has been served beyond the virtual time.
    pub fn is_ahead(&self, flow: u32) -> bool {
        self.flows[flow as usize].tag > self.virtual_time
    }
}

impl Order for Stfq {
    type Stamp = ();
    const REMEMBERS: bool = true;

    fn on_new_flow(&mut self, flow: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Flow { tag: 0, weight: 1 });
        }
        self.flows[flow as usize].tag = 0;
    }

    fn on_arrival(&mut self, _flow: u32, _bytes: u16, _now: Instant) {}

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        let tag = self.flows[flow as usize].tag.max(self.virtual_time);
        self.flows[flow as usize] = Flow { tag, weight };
    }

    fn next(&mut self, _head_bytes: impl Fn(u32) -> u16) -> u32 {
        self.waiting.first().expect("somebody is backlogged")
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        let Flow { tag, weight } = &mut self.flows[flow as usize];
        self.virtual_time = *tag;
        *tag = tag.saturating_add(self.unit.cost(bytes, *weight));
        self.last_finish = self.last_finish.max(*tag);
    }

    fn on_head(&mut self, flow: u32, _head: Head<()>) {
        self.waiting.set(flow, self.flows[flow as usize].tag);
    }

    fn on_empty(&mut self, flow: u32) {
        self.waiting.remove(flow);
    }

    fn on_idle(&mut self) {
        self.virtual_time = self.last_finish;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stfq() -> Stfq {
        let mut stfq = Stfq::new(Unit::of(&[1, 2]).unwrap());
        (0..3).for_each(|flow| stfq.on_new_flow(flow));
        stfq
    }

    fn come(stfq: &mut Stfq, flow: u32, weight: u32) {
        stfq.on_backlogged(flow, weight);
        stfq.on_head(flow, Head { bytes: 0, stamp: () });
    }

    /// Sends a packet of this size of the flow whose turn it is, which has more.
    fn send(stfq: &mut Stfq, bytes: u16) -> u32 {
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, bytes);
        stfq.on_head(flow, Head { bytes: 0, stamp: () });
        flow
    }

    #[test]
    fn a_flow_of_twice_the_weight_sends_twice_as_many_packets() {
        let mut stfq = stfq();
        come(&mut stfq, 0, 1);
        come(&mut stfq, 1, 2);
        // Start tags 0, 1000, 2000 and 0, 500, 1000; of equal ones the one given first.
        let order: Vec<u32> = (0..6).map(|_| send(&mut stfq, 1000)).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn a_new_flow_begins_at_the_packet_on_the_line_and_one_that_was_ahead_stays_there() {
        let mut stfq = stfq();
        come(&mut stfq, 0, 1);
        (0..5).for_each(|_| assert_eq!(send(&mut stfq, 1000), 0));
        come(&mut stfq, 1, 1);
        assert_eq!((stfq.virtual_time, stfq.flows[1].tag), (8000, 8000), "in half bytes");
        // Flow 1 empties with its packet, and comes back before the virtual time is at its finish tag.
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, 1000);
        stfq.on_empty(flow);
        assert_eq!(flow, 1);
        stfq.on_backlogged(1, 1);
        assert_eq!((stfq.virtual_time, stfq.flows[1].tag), (8000, 10_000));
    }

    #[test]
    fn once_the_line_is_idle_nobody_is_ahead() {
        let mut stfq = stfq();
        come(&mut stfq, 0, 1);
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, 1000);
        stfq.on_empty(flow);
        assert!(stfq.is_ahead(0));
        stfq.on_idle();
        assert!(!stfq.is_ahead(0));
    }
}
