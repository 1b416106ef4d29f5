//! SCFQ: self-clocked fair queueing.
//!
//! S. J. Golestani, "A Self-Clocked Fair Queueing Scheme for Broadband Applications", INFOCOM 1994. A
//! packet gets the service tag `F = max(F of the packet before, v(arrival)) + bytes / weight`; the
//! smallest goes first. The virtual time `v` is the tag of the packet on the line, zero when it is idle.
//!
//! Ours:
//! - A packet gets its tag when it becomes the first of its flow. That is the same: while a packet waits
//!   or is sent its tag is at least `v`, and once it has been sent it is at most `v`. So an idle flow need not
//!   be remembered.
//! - Of equal tags, the one given first goes first.

use aqm_net::{ConfigError, Instant, Rate};

use super::tags::{Tags, Unit};
use super::{Head, Order, scheduler};

scheduler! {
    /// Self-clocked fair queueing: the flow whose next packet would finish first goes first, in a virtual
    /// time read off the packet on the line.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Scfq, ConfigError> {
        Ok(Scfq { unit, virtual_time: 0, flows: Vec::new(), waiting: Tags::new() })
    }
}

/// The order of flows.
#[derive(Clone)]
struct Scfq {
    unit: Unit,
    /// `v`.
    virtual_time: u64,
    flows: Vec<Flow>,
    waiting: Tags,
}

#[derive(Clone, Copy)]
struct Flow {
    /// Where the first packet begins: its tag without its own bytes.
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
        self.waiting.first().expect("somebody is backlogged")
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        let Flow { start, weight } = &mut self.flows[flow as usize];
        *start = start.saturating_add(self.unit.cost(bytes, *weight));
        // Below it only if a larger packet before this one was dropped.
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
    fn a_flow_that_comes_finishes_a_packet_after_the_one_on_the_line() {
        let config = Config::default();
        let mut scfq = config.order(Unit::of(&[1, 2]).unwrap(), Rate::from_bps(1)).unwrap();
        let come = |scfq: &mut Scfq, flow, weight, bytes| {
            scfq.on_new_flow(flow);
            scfq.on_backlogged(flow, weight);
            scfq.on_head(flow, Head { bytes, stamp: () });
        };
        come(&mut scfq, 0, 1, 1000);
        scfq.on_sent(0, 1000);
        scfq.on_head(0, Head { bytes: 1000, stamp: () });
        // Tags in half bytes: the line is at 2000, flow 0 next at 4000.
        come(&mut scfq, 1, 1, 1001);
        come(&mut scfq, 2, 2, 1999);
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
