//! The events of a run, and the order of events at the same nanosecond.
//!
//! **The tie rule.** Packets precede timers. Packets at the ends of links are in the order of link numbers; packets
//! processed by hosts follow, in the order of flow numbers. Timers of flows are in the order of flow numbers, followed
//! by timers of workloads in the order of the scenario, the end of the warm-up, and the sampling timer. Ports whose
//! queues hold packets back are served last; a port serves its queue before a packet joins, and so resolves its own
//! ties. The rule does not depend on lanes and wheels, so every engine that follows the rule yields the same run.

use aqm_net::Packet;

use crate::hosts::side::Side;

/// Time of an event, and its rank among the events of the same nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) time: u64,
    pub(crate) rank: u32,
}

impl Key {
    pub(crate) const fn new(time: u64, rank: u32) -> Self {
        Self { time, rank }
    }
}

/// An event in the event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A packet reaches the end of its link.
    Packet(Packet),
    /// A host has processed a packet.
    Processed(Packet),
    /// A timer expires.
    Timer(Timer),
}

/// Owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// An end of the flow in this slot.
    End(Side, u32),
    /// The conversation of the flow in this slot: one of its ends acts next.
    Conversation(u32),
    /// The workload at this position.
    Workload(u32),
    /// The end of the warm-up, at which the measurement begins.
    WarmUp,
    /// The sampling of queues and edges.
    Sample,
}

const PROCESSING: u32 = 1 << 30;
const TIMERS: u32 = 1 << 31;
const WORKLOADS: u32 = TIMERS | 1 << 30;
/// The least rank of the timers whose order is never reversed.
pub(crate) const SAMPLERS: u32 = WORKLOADS | 1 << 29;

/// Returns the rank of a packet that arrives over `link`.
pub(crate) const fn rank_of_link(link: u32) -> u32 {
    link
}

/// Returns the rank of a packet of `flow` that a host has processed.
pub(crate) const fn rank_of_processing(flow: u32) -> u32 {
    PROCESSING | (flow & (PROCESSING - 1))
}

/// Returns the rank of a timer; `flow` is the number of the timer's flow.
pub(crate) const fn rank_of_timer(timer: Timer, flow: u32) -> u32 {
    match timer {
        Timer::End(..) | Timer::Conversation(_) => TIMERS | (flow & (PROCESSING - 1)),
        Timer::Workload(position) => WORKLOADS | position,
        Timer::WarmUp => SAMPLERS,
        Timer::Sample => SAMPLERS + 1,
    }
}
