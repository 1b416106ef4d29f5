//! Counts of a flow.

use aqm_net::Span;

/// Counts of received datagrams.
#[derive(Clone, Copy, Default)]
pub(crate) struct Received {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Sum of the one-way delays of all received datagrams.
    pub(crate) total_delay: Span,
}

impl Received {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            count: self.count - before.count,
            bytes: self.bytes - before.bytes,
            total_delay: self.total_delay - before.total_delay,
        }
    }

    /// Returns the mean one-way delay, or `None` if no datagram was received.
    pub(crate) fn mean_delay_s(self) -> Option<f64> {
        (self.count > 0).then(|| self.total_delay.seconds() / self.count as f64)
    }
}

/// Counts of a flow since the flow was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Payload bytes received in order; the number is at most the size of the transfer.
    pub(crate) delivered: u64,
    /// Number of packets sent in the direction in which the data travels.
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    /// Number of retransmitted segments.
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) fast_retransmits: u64,
    /// Number of packets of the class "long flows" that arrived at the receiver.
    pub(crate) long: u64,
    /// Counts of received datagrams; zero for a connection.
    pub(crate) received: Received,
}

impl Counted {
    /// Returns the differences between these counts and the earlier counts `before`.
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
            received: self.received.since(before.received),
        }
    }
}
