//! PFQ: priority fair queueing.
//!
//! A. Kortebi, S. Oueslati, J. Roberts, "Cross-protect: Implicit Service Differentiation and Admission
//! Control", HPSR 2004; S. Oueslati, J. Roberts, "A New Direction for Quality of Service: Flow-Aware
//! Networking", NGI 2005. Start-time fair queueing in which a packet of a flow that is not in the list
//! of active flows goes before all others, behind those that came so before it. A flow stays in the list
//! while its finish tag is beyond the virtual time, also with nothing waiting: so a flow sends first
//! as long as it sends less than its fair share, and no flow gains by sending its packets one by one.
//!
//! Tags and weights are those of [`super::stfq`]. Ours: if the packet that goes first is dropped, the next
//! of its flow takes its place.

use aqm_net::{ConfigError, Instant, Rate};

use super::ring::Ring;
use super::stfq::Stfq;
use super::tags::Unit;
use super::{Head, Order, scheduler};

scheduler! {
    /// Priority fair queueing: flows that send less than their fair share go first; the others share as in
    /// start-time fair queueing.
    ///
    /// If the packet that goes first is dropped, the next of its flow takes its place.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Pfq, ConfigError> {
        Ok(Pfq { stfq: Stfq::new(unit), first: Ring::default() })
    }
}

/// The order of flows.
#[derive(Clone)]
struct Pfq {
    stfq: Stfq,
    /// Flows that go before all others.
    first: Ring,
}

impl Order for Pfq {
    type Stamp = ();
    const REMEMBERS: bool = true;

    fn on_new_flow(&mut self, flow: u32) {
        self.stfq.on_new_flow(flow);
    }

    fn on_arrival(&mut self, _flow: u32, _bytes: u16, _now: Instant) {}

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        if !self.stfq.is_ahead(flow) {
            self.first.push_back(flow, ());
        }
        self.stfq.on_backlogged(flow, weight);
    }

    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32 {
        self.first.front().unwrap_or_else(|| self.stfq.next(head_bytes))
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        self.first.remove(flow);
        self.stfq.on_sent(flow, bytes);
    }

    fn on_head(&mut self, flow: u32, head: Head<()>) {
        if !self.first.contains(flow) {
            self.stfq.on_head(flow, head);
        }
    }

    fn on_empty(&mut self, flow: u32) {
        self.first.remove(flow);
        self.stfq.on_empty(flow);
    }

    fn on_idle(&mut self) {
        self.stfq.on_idle();
    }
}
