//! Drop Tail: sends packets first in, first out, and drops arriving packets that do not fit into the buffer.
//!
//! The limit does not include the packet in transmission. (The limit of ns-2's DropTail includes this packet, so
//! `limit_ 225` in ns-2 corresponds to `224p`.)

use aqm_net::{Backlog, ConfigError, ConfigErrors, Length, Packet, Rate, parameters};
use serde_json::{Value, json};

use crate::fifo::Admission;
use crate::tc::Qdisc;
use crate::{Build, Context, Describe, Fifo, QueueDiscipline, Reason, Report, TestCases};

parameters! {
    /// Drop Tail: sends packets first in, first out, and drops arriving packets that do not fit into the buffer.
    pub struct Config {
        /// Maximum backlog, not counting the packet in transmission.
        pub limit: Length = Length::Packets(225), "SHRED talk, slide 17 (buffer of RED)";
        /// Rule that decides whether an arriving packet is admitted.
        pub admits: Admission = Admission::WhatFits, "Linux since 2.6, ns-3";
    }
}

impl Build for Config {
    fn build(&self, _rate: Rate) -> Result<Box<dyn QueueDiscipline>, ConfigErrors> {
        ConfigError::unless(self.limit.count() > 0, "limit", "must be at least 1p or 1B")?;
        Ok(Box::new(DropTail { fifo: Fifo::new(self.limit).with_admission(self.admits) }))
    }
}

impl Describe for Config {
    fn tc_options(&self, _rate: Rate) -> Option<Value> {
        let kind = if self.limit.in_bytes() { "bfifo" } else { "pfifo" };
        Some(json!({"kind": kind, "limit": self.limit.count()}))
    }

    fn tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        let kind = if self.limit.in_bytes() { "bfifo" } else { "pfifo" };
        let until_beyond = self.admits == Admission::UntilBeyond;
        let limited = Qdisc::new(kind).count("limit", self.limit.count());
        limited.limit_if(until_beyond, "admits", || "the kernel admits only what fits".to_owned()).finish()
    }
}

impl TestCases for Config {
    fn corners(&self) -> Vec<Value> {
        ["9p", "5001B"].map(|limit| json!({"limit": limit, "admits": "until-beyond"})).into()
    }
}

/// A Drop Tail queue.
#[derive(Clone)]
pub struct DropTail {
    fifo: Fifo,
}

impl QueueDiscipline for DropTail {
    fn enqueue(&mut self, packet: Packet, cx: &mut Context<'_>) {
        if self.fifo.has_room_for(&packet) {
            self.fifo.push(packet);
        } else {
            cx.drop(packet, Reason::Overflow);
        }
    }

    fn dequeue(&mut self, _cx: &mut Context<'_>) -> Option<Packet> {
        self.fifo.pop()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }
}

impl Report for DropTail {}
