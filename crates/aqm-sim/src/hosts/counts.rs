//! What is counted about a flow.

use aqm_net::Span;

/// Datagrams that arrived.
#[derive(Clone, Copy, Default)]
pub(crate) struct Arrived {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// The sum of the times from their sending to their arrival.
    pub(crate) travelled: Span,
}

impl Arrived {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            count: self.count - before.count,
            bytes: self.bytes - before.bytes,
            travelled: self.travelled - before.travelled,
        }
    }

    /// The mean of those times, if any arrived.
    pub(crate) fn mean_delay_s(self) -> Option<f64> {
        (self.count > 0).then(|| self.travelled.seconds() / self.count as f64)
    }
}

/// What was counted about a flow from its opening to some moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Payload bytes that arrived in order, at most those of the transfer.
    pub(crate) delivered: u64,
    /// Packets sent in the direction of the data, and of those dropped and marked.
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Segments sent again.
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) fast_retransmits: u64,
    /// Packets that arrived at the receiver in the class of long flows.
    pub(crate) long: u64,
    /// Datagrams; none for a connection.
    pub(crate) arrived: Arrived,
}

impl Counted {
    /// What was counted after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            delivered: self.delivered - before.delivered,
            sent: self.sent - before.sent,
            dropped: self.dropped - before.dropped,
            marked: self.marked - before.marked,
            retransmitted: self.retransmitted - before.retransmitted,
            timeouts: self.timeouts - before.timeouts,
            fast_retransmits: self.fast_retransmits - before.fast_retransmits,
            long: self.long - before.long,
            arrived: self.arrived.since(before.arrived),
        }
    }
}
