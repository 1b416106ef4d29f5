//! What happens in a run, and the order of what happens at the same nanosecond.
//!
//! **The tie rule.** Packets come before timers; packets in the order of the numbers of the links they came
//! over, then packets that a host was still working on, by number of their flow; timers of flows by number
//! of the flow, then those of workloads by position in the scenario; then the end of the warm-up and the
//! samplers. Last are the ports whose queues held packets back: a port settles its own ties, because it
//! catches up before a packet joins its queue. The rule knows nothing of lanes and wheels, so every engine
//! that obeys it gives the same run.

use aqm_net::Packet;

use crate::hosts::side::Side;

/// When an event is due, and its place among those of the same nanosecond.
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

/// Something that happens: an entry of the event queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A packet reaches the end of its link.
    Packet(Packet),
    /// A host has processed a packet.
    Held(Packet),
    /// A timer expires.
    Timer(Timer),
}

/// Whose timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// An end of the flow in this slot.
    End(Side, u32),
    /// The conversation of the flow in this slot: one of its ends is to act.
    Conversation(u32),
    /// The workload at this position.
    Workload(u32),
    /// The warm-up is over and the measurement begins.
    WarmUp,
    /// Queues and edges are sampled.
    Sample,
}

const PROCESSING: u32 = 1 << 30;
const TIMERS: u32 = 1 << 31;
const WORKLOADS: u32 = TIMERS | 1 << 30;
/// The least rank of the timers whose order never turns round.
pub(crate) const SAMPLERS: u32 = WORKLOADS | 1 << 29;

/// The place among ties of a packet that comes over `link`.
pub(crate) const fn rank_of_link(link: u32) -> u32 {
    link
}

/// The place among ties of a packet of `flow` that a host has processed.
pub(crate) const fn rank_of_processing(flow: u32) -> u32 {
    PROCESSING | (flow & (PROCESSING - 1))
}

/// The place among ties of a timer: of the flow with this number, of a workload, of a sampler or of a port.
pub(crate) const fn rank_of_timer(timer: Timer, flow: u32) -> u32 {
    match timer {
        Timer::End(..) | Timer::Conversation(_) => TIMERS | (flow & (PROCESSING - 1)),
        Timer::Workload(position) => WORKLOADS | position,
        Timer::WarmUp => SAMPLERS,
        Timer::Sample => SAMPLERS + 1,
    }
}
