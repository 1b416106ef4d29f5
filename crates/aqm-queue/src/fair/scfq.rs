//! SCFQ: self-clocked fair queueing.
//!
//! S. J. Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", INFOCOM 1994. Each packet gets
//! the service tag `F = max(F of the previous packet, v(arrival)) + bytes / weight`, and the packet with the smallest
//! tag is sent first. The virtual time `v` is the tag of the packet in transmission, or zero if the link is idle.
//!
//! aqmlab's choices:
//! - A packet gets its tag when it becomes the head of its flow, not when it arrives. The two tags are equal, because
//!   the tag of a packet is at least `v` while the packet is queued or in transmission, and at most `v` after the
//!   transmission. For the same reason, idle flows need not be remembered.
//! - If several packets have equal tags, the packet that got its tag first is sent first.

use aqm_net::{ConfigError, Instant, Rate};

use super::tags::{Tags, Unit};
use super::{Head, Order, scheduler};

scheduler! {
    /// Self-clocked fair queueing: the flow whose next packet would finish first is served first, where the virtual
    /// time is the tag of the packet in transmission.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Scfq, ConfigError> {
        Ok(Scfq { unit, virtual_time: 0, flows: Vec::new(), waiting: Tags::new() })
    }
}

/// The order in which flows send, including the state of SCFQ.
#[derive(Clone)]
struct Scfq {
    unit: Unit,
    /// The virtual time `v`.
    virtual_time: u64,
    flows: Vec<Flow>,
    waiting: Tags,
}

#[derive(Clone, Copy)]
struct Flow {
    /// The service tag of the first packet, minus the contribution of this packet's own bytes.
    start: u64,
    weight: u32,
}

impl Order for Scfq {
    type Stamp = ();
    const REMEMBERS: bool = false;

    fn on_new_flow(&mut self, flow: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Flow { start: 0, weight: 1 });
        }
    }

    fn on_arrival(&mut self, _flow: u32, _bytes: u16, _now: Instant) {}

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        self.flows[flow as usize] = Flow { start: self.virtual_time, weight };
    }

    fn next(&mut self, _head_bytes: impl Fn(u32) -> u16) -> u32 {
        self.waiting.first().expect("a flow is backlogged")
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        let Flow { start, weight } = &mut self.flows[flow as usize];
        *start = start.saturating_add(self.unit.cost(bytes, *weight));
        // The tag is less than the virtual time only if a larger packet in front of this packet was dropped.
        self.virtual_time = self.virtual_time.max(*start);
    }

    fn on_head(&mut self, flow: u32, head: Head<()>) {
        let Flow { start, weight } = self.flows[flow as usize];
        self.waiting.set(flow, start.saturating_add(self.unit.cost(head.bytes, weight)));
    }

    fn on_empty(&mut self, flow: u32) {
        self.waiting.remove(flow);
    }

    fn on_idle(&mut self) {
        self.virtual_time = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newly_active_flow_finishes_one_packet_after_the_packet_in_transmission() {
        let config = Config::default();
        let mut scfq = config.order(Unit::of(&[1, 2]).unwrap(), Rate::from_bps(1)).unwrap();
        let arrive = |scfq: &mut Scfq, flow, weight, bytes| {
            scfq.on_new_flow(flow);
            scfq.on_backlogged(flow, weight);
            scfq.on_head(flow, Head { bytes, stamp: () });
        };
        arrive(&mut scfq, 0, 1, 1000);
        scfq.on_sent(0, 1000);
        scfq.on_head(0, Head { bytes: 1000, stamp: () });
        // The unit of tags is half a byte: the tag of the packet in transmission is 2000, and the tag of the next
        // packet of flow 0 is 4000.
        arrive(&mut scfq, 1, 1, 1001);
        arrive(&mut scfq, 2, 2, 1999);
        let order: Vec<u32> = (0..3)
            .map(|_| {
                let flow = scfq.next(|_| 0);
                scfq.on_sent(flow, [1000, 1001, 1999][flow as usize]);
                scfq.on_empty(flow);
                flow
            })
            .collect();
        assert_eq!((order, scfq.virtual_time), (vec![2, 0, 1], 4002));
    }
}
