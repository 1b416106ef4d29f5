//! STFQ: start-time fair queueing.
//!
//! P. Goyal, H. M. Vin, H. Cheng, "Start-Time Fair Queueing: A Scheduling Algorithm for Integrated Services Packet
//! Switching Networks", SIGCOMM 1996. Each packet gets the start tag `S = max(v(arrival), F of the previous packet)`
//! and the finish tag `F = S + bytes / weight`, and the packet with the smallest start tag is sent first. The virtual
//! time `v` is the start tag of the packet in transmission. When the link becomes idle, `v` is the largest finish tag
//! of all packets sent.
//!
//! aqmlab's choices:
//! - A packet gets its tags when it becomes the head of its flow. For a backlogged flow, the tags are the same as at
//!   arrival, because the finish tag of the previous packet is never less than `v` while the previous packet is queued
//!   or in transmission.
//! - If several packets have equal tags, the packet that got its tag first is sent first.
//! - The finish tag of an idle flow is remembered until 65,536 other flows have become idle after this flow.

use aqm_net::{ConfigError, Instant, Rate};

use super::tags::{Tags, Unit};
use super::{Head, Order, scheduler};

scheduler! {
    /// Start-time fair queueing: the flow whose next packet would start first is served first, measured in a virtual
    /// time that increases at the service rate of one flow.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Stfq, ConfigError> {
        Ok(Stfq::new(unit))
    }
}

/// The order in which flows send, including the state of STFQ.
#[derive(Clone)]
pub(super) struct Stfq {
    unit: Unit,
    /// The virtual time `v`.
    virtual_time: u64,
    /// The largest finish tag of all packets sent.
    last_finish: u64,
    flows: Vec<Flow>,
    waiting: Tags,
}

#[derive(Clone, Copy)]
struct Flow {
    /// The start tag of the first queued packet, or the finish tag of the last packet sent.
    tag: u64,
    weight: u32,
}

impl Stfq {
    pub fn new(unit: Unit) -> Self {
        Self { unit, virtual_time: 0, last_finish: 0, flows: Vec::new(), waiting: Tags::new() }
    }

    /// Returns whether the flow's tag exceeds the virtual time.
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
        self.waiting.first().expect("a flow is backlogged")
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

    fn arrive(stfq: &mut Stfq, flow: u32, weight: u32) {
        stfq.on_backlogged(flow, weight);
        stfq.on_head(flow, Head { bytes: 0, stamp: () });
    }

    /// Sends a packet of this size from the current flow, which still has queued packets afterwards.
    fn send(stfq: &mut Stfq, bytes: u16) -> u32 {
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, bytes);
        stfq.on_head(flow, Head { bytes: 0, stamp: () });
        flow
    }

    #[test]
    fn a_flow_of_twice_the_weight_sends_twice_as_many_packets() {
        let mut stfq = stfq();
        arrive(&mut stfq, 0, 1);
        arrive(&mut stfq, 1, 2);
        // The start tags of flow 0's packets are 0, 1000 and 2000, and the start tags of flow 1's packets are 0, 500
        // and 1000. Of two packets with equal tags, the packet that got its tag first is sent first.
        let order: Vec<u32> = (0..6).map(|_| send(&mut stfq, 1000)).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn a_new_flow_starts_at_the_packet_in_transmission_and_a_flow_that_is_ahead_stays_ahead() {
        let mut stfq = stfq();
        arrive(&mut stfq, 0, 1);
        (0..5).for_each(|_| assert_eq!(send(&mut stfq, 1000), 0));
        arrive(&mut stfq, 1, 1);
        assert_eq!((stfq.virtual_time, stfq.flows[1].tag), (8000, 8000), "in half bytes");
        // Flow 1 sends its only packet, becomes empty, and becomes active again before the virtual time reaches the
        // packet's finish tag.
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, 1000);
        stfq.on_empty(flow);
        assert_eq!(flow, 1);
        stfq.on_backlogged(1, 1);
        assert_eq!((stfq.virtual_time, stfq.flows[1].tag), (8000, 10_000));
    }

    #[test]
    fn no_flow_is_ahead_when_the_link_is_idle() {
        let mut stfq = stfq();
        arrive(&mut stfq, 0, 1);
        let flow = stfq.next(|_| 0);
        stfq.on_sent(flow, 1000);
        stfq.on_empty(flow);
        assert!(stfq.is_ahead(0));
        stfq.on_idle();
        assert!(!stfq.is_ahead(0));
    }
}
