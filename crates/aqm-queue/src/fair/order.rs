//! The interface of a fair scheduler.

use aqm_net::Instant;

/// The order in which flows send.
///
/// Flows have small numbers, which may be reused after [`on_new_flow`](Self::on_new_flow). A flow that is not
/// backlogged has an empty queue, but its last packet may still be in transmission.
pub(super) trait Order: Clone + Send + Sync + 'static {
    /// The data recorded when a packet arrives.
    type Stamp: Copy + Send + Sync;
    /// Whether a flow that becomes active again soon after it became idle gets its old number.
    const REMEMBERS: bool;

    /// Assigns this number to a new flow without any history.
    fn on_new_flow(&mut self, _flow: u32) {}

    /// Notifies that `flow`, whose queue is empty, is about to get a packet.
    fn on_backlogged(&mut self, flow: u32, weight: u32);

    /// Notifies that a packet is about to be appended to `flow`, which is backlogged. Returns the packet's stamp.
    fn on_arrival(&mut self, flow: u32, bytes: u16, now: Instant) -> Self::Stamp;

    /// Notifies that this packet is now the head of `flow`: it arrived at an empty queue, or the packet before it left.
    fn on_head(&mut self, _flow: u32, _head: Head<Self::Stamp>) {}

    /// Returns the flow that sends next. `head_bytes` returns the size of a flow's first packet. At least one flow is
    /// backlogged.
    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32;

    /// Notifies that `flow`, returned by [`next`](Self::next), sends a packet of this size.
    fn on_sent(&mut self, flow: u32, bytes: u16);

    /// Notifies that a queued packet of `flow` was dropped.
    fn on_lost(&mut self, _flow: u32, _loss: Loss, _now: Instant) {}

    /// Notifies that the queue of `flow` is empty.
    fn on_empty(&mut self, flow: u32);

    /// Notifies that the link has become idle.
    fn on_idle(&mut self) {}
}

/// The first packet of a flow.
#[derive(Clone, Copy)]
pub(super) struct Head<S> {
    pub bytes: u16,
    /// The stamp created at the packet's arrival.
    pub stamp: S,
}

/// A queued packet that was dropped.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    pub bytes: u16,
    /// The bytes queued behind the packet in its flow; 0 if the packet was not the head.
    pub behind: u64,
}
