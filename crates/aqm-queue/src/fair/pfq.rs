//! PFQ: priority fair queueing.
//!
//! A. Kortebi, S. Oueslati, J. Roberts, "Cross-protect: Implicit Service Differentiation and Admission Control", HPSR
//! 2004; S. Oueslati, J. Roberts, "A New Direction for Quality of Service: Flow-Aware Networking", NGI 2005. PFQ adds a
//! list of active flows to start-time fair queueing. If a packet belongs to a flow that is not in this list, the packet
//! has priority: it is sent before the packets of all listed flows, but after earlier packets with priority. A flow
//! stays in the list while the flow's finish tag exceeds the virtual time, even if the flow's queue is empty.
//! Therefore, a flow has priority as long as it sends less than its fair share, and a flow gains no advantage by
//! delaying each packet until the previous packet has been sent.
//!
//! Tags and weights are defined as in [`super::stfq`]. aqmlab's choice: if the packet with priority is dropped, the
//! next packet of its flow has priority instead.

use aqm_net::{ConfigError, Instant, Rate};

use super::ring::Ring;
use super::stfq::Stfq;
use super::tags::Unit;
use super::{Head, Order, scheduler};

scheduler! {
    /// Priority fair queueing: flows that send less than their fair share are served first.
    ///
    /// The other flows share the link as in start-time fair queueing.
    ///
    /// If the packet with priority is dropped, the next packet of its flow has priority instead.
    pub struct Config {}
}

impl Config {
    fn order(&self, unit: Unit, _rate: Rate) -> Result<Pfq, ConfigError> {
        Ok(Pfq { stfq: Stfq::new(unit), prioritised: Ring::default() })
    }
}

/// The order in which flows send, including the state of PFQ.
#[derive(Clone)]
struct Pfq {
    stfq: Stfq,
    /// Flows that have priority over all other flows.
    prioritised: Ring,
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
            self.prioritised.push_back(flow, ());
        }
        self.stfq.on_backlogged(flow, weight);
    }

    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32 {
        self.prioritised.front().unwrap_or_else(|| self.stfq.next(head_bytes))
    }

    fn on_sent(&mut self, flow: u32, bytes: u16) {
        self.prioritised.remove(flow);
        self.stfq.on_sent(flow, bytes);
    }

    fn on_head(&mut self, flow: u32, head: Head<()>) {
        if !self.prioritised.contains(flow) {
            self.stfq.on_head(flow, head);
        }
    }

    fn on_empty(&mut self, flow: u32) {
        self.prioritised.remove(flow);
        self.stfq.on_empty(flow);
    }

    fn on_idle(&mut self) {
        self.stfq.on_idle();
    }
}
