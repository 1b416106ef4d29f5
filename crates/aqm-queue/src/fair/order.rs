//! The interface that every fair scheduler implements.

use aqm_net::Instant;

/// The order in which flows send.
///
/// Each flow is identified by a small number. A number may be reused for another flow; a call of
/// [`on_new_flow`](Self::on_new_flow) then announces the other flow. The queue of a flow that is not backlogged is
/// empty, but the flow's last packet may still be in transmission.
pub(super) trait Order: Clone + Send + Sync + 'static {
    /// The data recorded when a packet arrives.
    type Stamp: Copy + Send + Sync;
    /// Whether a flow keeps its number if the flow becomes active again soon after it became idle.
    const REMEMBERS: bool;

    /// Notifies the scheduler that this number is now assigned to a new flow, which has no history.
    fn on_new_flow(&mut self, _flow: u32) {}

    /// Notifies the scheduler that a packet is about to be appended to `flow`, whose queue is empty.
    fn on_backlogged(&mut self, flow: u32, weight: u32);

    /// Notifies the scheduler that a packet is about to be appended to `flow`, which is backlogged. Returns the
    /// packet's stamp.
    fn on_arrival(&mut self, flow: u32, bytes: u16, now: Instant) -> Self::Stamp;

    /// Notifies the scheduler that this packet is now the head of `flow`, because the packet arrived at an empty queue,
    /// or because the previous head left.
    fn on_head(&mut self, _flow: u32, _head: Head<Self::Stamp>) {}

    /// Returns the flow that sends next. The function `head_bytes` returns the size of a flow's first packet. At least
    /// one flow must be backlogged.
    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32;

    /// Notifies the scheduler that `flow`, which [`next`](Self::next) has returned, sends a packet of this size.
    fn on_sent(&mut self, flow: u32, bytes: u16);

    /// Notifies the scheduler that a queued packet of `flow` was dropped.
    fn on_lost(&mut self, _flow: u32, _loss: Loss, _now: Instant) {}

    /// Notifies the scheduler that the queue of `flow` is empty.
    fn on_empty(&mut self, flow: u32);

    /// Notifies the scheduler that the link has become idle.
    fn on_idle(&mut self) {}
}

/// The first packet of a flow.
#[derive(Clone, Copy)]
pub(super) struct Head<S> {
    pub bytes: u16,
    /// The stamp that was created when the packet arrived.
    pub stamp: S,
}

/// A queued packet that was dropped.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    pub bytes: u16,
    /// If the packet was the head of its flow, the number of bytes queued behind the packet; otherwise 0.
    pub behind: u64,
}
