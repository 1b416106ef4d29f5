//! The current state of a request.

use aqm_net::Instant;
use aqm_traffic::Transfer;

use super::record::RequestRecord;

/// A request and its progress.
pub(super) struct Entry {
    pub(super) record: RequestRecord,
    /// Whether the request is a conversation. The workload treats each exchange of a conversation as a separate
    /// transfer.
    pub(super) is_conversation: bool,
    /// Number of completed exchanges.
    pub(super) responses: usize,
}

impl Entry {
    /// Returns the transfer in progress, from the workload's point of view. For a conversation, the transfer is the
    /// current exchange, and its request size is the sum of all request sizes so far.
    pub(super) fn current(&self) -> Transfer {
        let exchanges = &self.record.exchanges;
        let Some(current) = exchanges.get(self.responses).filter(|_| self.is_conversation) else {
            return self.record.transfer;
        };
        let requested = exchanges.iter().take(self.responses + 1).map(|one| one.request);
        let requested = requested.fold(0, u64::saturating_add);
        Transfer {
            bytes: current.response,
            request: Some(u32::try_from(requested).unwrap_or(u32::MAX)),
            ..self.record.transfer
        }
    }

    /// Returns whether the request is finished, which means that the request has failed, or that all data have arrived
    /// and the kernel's final state has been reported. A datagram stream is always considered finished, because only
    /// the workload knows when the stream ends.
    pub(super) fn is_over(&self) -> bool {
        let RequestRecord { completed, failed, tcp, transfer, .. } = &self.record;
        transfer.page_objects == 0 || failed.is_some() || completed.is_some() && tcp.is_some()
    }

    /// Records that all data of the request have arrived or, for a conversation, all data of the current exchange.
    /// Returns the completed transfer.
    pub(super) fn arrive(&mut self, first_byte: Option<Instant>, at: Instant) -> Transfer {
        let transfer = self.current();
        if let Some(current) = self.record.exchanges.get_mut(self.responses) {
            (current.first_byte, current.completed) = (first_byte, Some(at));
            self.responses += 1;
        }
        if self.responses == self.record.exchanges.len() {
            self.record.completed = Some(at);
        }
        transfer
    }
}
