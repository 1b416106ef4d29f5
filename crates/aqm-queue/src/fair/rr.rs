//! RR: round robin, in which flows take turns and send one packet per turn.
//!
//! J. Nagle, "On Packet Switches with Infinite Storage", RFC 970, 1985: each source has a queue, and the queues take
//! turns and send one packet per turn. The scheduler shares the link equally in packets per second. The shares in bytes
//! are equal only if all packets have the same size. With weights, a flow of weight `w` sends up to `w` packets per
//! turn (M. Katevenis, S. Sidiropoulos, C. Courcoubetis, "Weighted Round-Robin Cell Multiplexing in a General-Purpose
//! ATM Switch Chip", 1991).

use aqm_net::{ConfigError, Instant, Rate};

use super::ring::Ring;
use super::tags::Unit;
use super::{Order, scheduler};

scheduler! {
    /// Round robin: flows take turns and send one packet per turn, regardless of packet size.
    pub struct Config {}
}

impl Config {
    fn order(&self, _unit: Unit, _rate: Rate) -> Result<Rr, ConfigError> {
        Ok(Rr { turns: Ring::default(), sent: 0 })
    }
}

/// The order in which flows send, including the state of RR.
#[derive(Clone)]
struct Rr {
    /// Backlogged flows, each with its weight.
    turns: Ring<u32>,
    /// Number of packets that the current flow has sent in this turn.
    sent: u32,
}

impl Order for Rr {
    type Stamp = ();
    const REMEMBERS: bool = false;

    fn on_arrival(&mut self, _flow: u32, _bytes: u16, _now: Instant) {}

    fn on_backlogged(&mut self, flow: u32, weight: u32) {
        self.turns.push_back(flow, weight);
    }

    fn next(&mut self, _head_bytes: impl Fn(u32) -> u16) -> u32 {
        let flow = self.turns.front().expect("a flow is backlogged");
        if self.sent < *self.turns.value(flow) {
            return flow;
        }
        self.turns.rotate();
        self.sent = 0;
        self.turns.front().expect("a flow is backlogged")
    }

    fn on_sent(&mut self, _flow: u32, _bytes: u16) {
        self.sent += 1;
    }

    fn on_empty(&mut self, flow: u32) {
        if self.turns.front() == Some(flow) {
            self.sent = 0;
        }
        self.turns.remove(flow);
    }
}
