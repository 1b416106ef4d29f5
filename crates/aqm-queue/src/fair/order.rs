//! What a scheduler is asked, and what it is told.

use aqm_net::Instant;

/// The order in which flows send.
///
/// Flows have small numbers, used again after [`on_new_flow`](Self::on_new_flow). A flow that is not
/// backlogged has nothing waiting; its last packet may still be on the line.
pub(super) trait Order: Clone + Send + Sync + 'static {
    /// What is to be remembered of the moment a packet came.
    type Stamp: Copy + Send + Sync;
    /// Whether a flow that comes back soon after falling idle is to have its old number.
    const REMEMBERS: bool;

    /// This number stands from now on for a flow of which nothing is known.
    fn on_new_flow(&mut self, _flow: u32) {}

    /// `flow`, of which nothing waited, is about to get a packet.
    fn on_backlogged(&mut self, flow: u32, weight: u32);

    /// A packet comes that will be the last of `flow`, which is backlogged.
    fn on_arrival(&mut self, flow: u32, bytes: u16, now: Instant) -> Self::Stamp;

    /// This packet is the first of `flow` now: it came to an empty queue, or the one before it left.
    fn on_head(&mut self, _flow: u32, _head: Head<Self::Stamp>) {}

    /// The flow that sends next, given the size of the first packet of each; some flow is backlogged.
    fn next(&mut self, head_bytes: impl Fn(u32) -> u16) -> u32;

    /// `flow`, the one that [`next`](Self::next) said, sends a packet of this size.
    fn on_sent(&mut self, flow: u32, bytes: u16);

    /// `flow` has lost a packet that waited.
    fn on_lost(&mut self, _flow: u32, _loss: Loss, _now: Instant) {}

    /// Nothing of `flow` waits any more.
    fn on_empty(&mut self, flow: u32);

    /// The line has fallen idle.
    fn on_idle(&mut self) {}
}

/// The first packet of a flow.
#[derive(Clone, Copy)]
pub(super) struct Head<S> {
    pub bytes: u16,
    /// What the order noted when the packet came.
    pub stamp: S,
}

/// A packet that was dropped after it had joined its flow.
#[derive(Clone, Copy)]
pub(super) struct Loss {
    pub bytes: u16,
    /// The bytes of its flow that came after it; none if it was not the first.
    pub behind: u64,
}
