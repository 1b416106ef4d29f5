//! What became so far of something that was asked for.

use aqm_net::Instant;
use aqm_traffic::Transfer;

use super::record::Asked;

/// Something that was asked for, and how far it is.
pub(super) struct Entry {
    pub(super) asked: Asked,
    /// Whether each of its exchanges is a transfer of its own to the workload.
    pub(super) is_conversation: bool,
    /// Exchanges that are over.
    pub(super) answered: usize,
}

impl Entry {
    /// The transfer that is under way, as the workload knows it: that of a conversation is its present exchange, and
    /// its request counts all that was requested so far.
    pub(super) fn present(&self) -> Transfer {
        let exchanges = &self.asked.exchanges;
        let Some(present) = exchanges.get(self.answered).filter(|_| self.is_conversation) else {
            return self.asked.transfer;
        };
        let requested = exchanges.iter().take(self.answered + 1).map(|one| one.request);
        let requested = requested.fold(0, u64::saturating_add);
        Transfer {
            bytes: present.response,
            request: Some(u32::try_from(requested).unwrap_or(u32::MAX)),
            ..self.asked.transfer
        }
    }

    /// Whether nothing follows: it has failed, or all has arrived and the kernel has told of its end. Of a stream of
    /// datagrams nothing says what follows but its workload.
    pub(super) fn is_over(&self) -> bool {
        let Asked { done, failed, tcp, transfer, .. } = &self.asked;
        transfer.page_objects == 0 || failed.is_some() || done.is_some() && tcp.is_some()
    }

    /// All of it has arrived, or of its present exchange, which is returned.
    pub(super) fn arrive(&mut self, first_byte: Option<Instant>, at: Instant) -> Transfer {
        let transfer = self.present();
        if let Some(present) = self.asked.exchanges.get_mut(self.answered) {
            (present.first_byte, present.done) = (first_byte, Some(at));
            self.answered += 1;
        }
        if self.answered == self.asked.exchanges.len() {
            self.asked.done = Some(at);
        }
        transfer
    }
}
