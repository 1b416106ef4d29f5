//! The events of a run, and the order of events that occur in the same nanosecond.
//!
//! **The tie rule.** Packets precede timers. Packets that reach the ends of links come first, in the order of link
//! numbers, followed by packets that hosts have processed, in the order of flow numbers. Among timers, the timers of
//! flows come first, in the order of flow numbers. The timers of workloads follow in the order of the scenario, then
//! the end of the warm-up, and then the sampling timer. Ports whose queues hold packets back are served last. A port
//! serves its queue before an arriving packet joins the queue, and therefore resolves its own ties. The rule does not
//! depend on how events are stored (in lanes and wheels), so all engines that follow the rule yield identical runs.

use aqm_net::Packet;

use crate::hosts::side::Side;

/// Time of an event, and the rank of the event among the events that occur in the same nanosecond.
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
    /// An end of the flow in this slot owns the timer.
    End(Side, u32),
    /// The conversation of the flow in this slot owns the timer. When the timer expires, one of the two ends performs
    /// the next action of the conversation.
    Conversation(u32),
    /// The workload at this position owns the timer.
    Workload(u32),
    /// The timer expires at the end of the warm-up, when the measurement interval begins.
    WarmUp,
    /// The timer starts the sampling of queues and edges.
    Sample,
}

const PROCESSING: u32 = 1 << 30;
const TIMERS: u32 = 1 << 31;
const WORKLOADS: u32 = TIMERS | 1 << 30;
/// The lowest rank of the timers whose order is never reversed.
pub(crate) const SAMPLERS: u32 = WORKLOADS | 1 << 29;

/// Returns the rank of a packet that arrives over `link`.
pub(crate) const fn rank_of_link(link: u32) -> u32 {
    link
}

/// Returns the rank of a packet of `flow` that a host has processed.
pub(crate) const fn rank_of_processing(flow: u32) -> u32 {
    PROCESSING | (flow & (PROCESSING - 1))
}

/// Returns the rank of a timer. `flow` is the number of the flow to which the timer belongs.
pub(crate) const fn rank_of_timer(timer: Timer, flow: u32) -> u32 {
    match timer {
        Timer::End(..) | Timer::Conversation(_) => TIMERS | (flow & (PROCESSING - 1)),
        Timer::Workload(position) => WORKLOADS | position,
        Timer::WarmUp => SAMPLERS,
        Timer::Sample => SAMPLERS + 1,
    }
}
