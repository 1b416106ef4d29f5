//! The actions that a workload requests during one call.

use aqm_guest::{Guest, NoGuests, Origin, Provider as _};
use aqm_net::watch::StopRequest;
use aqm_net::{Ecn, Instant};
use aqm_traffic::{ConnectionState, Conversation, Exchange, TrafficContext, Transfer};

/// An action that a workload requests.
pub(super) enum Action {
    Wake(Instant),
    Open(Transfer),
    Converse(Conversation),
    Datagram { stream: u32, bytes: u16, ecn: Ecn },
}

/// The requests that a workload makes in one call, in order.
pub(super) struct Actions {
    pub(super) now: Instant,
    pub(super) all: Vec<Action>,
}

impl TrafficContext for Actions {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        self.all.push(Action::Wake(at));
    }
    fn open(&mut self, transfer: Transfer) {
        self.all.push(Action::Open(transfer));
    }
    fn converse(&mut self, conversation: Conversation) {
        self.all.push(Action::Converse(conversation));
    }
    // Plans whose workloads extend conversations, send datagrams in both directions or consist of guests are rejected
    // before the run starts.
    fn request(&mut self, _: u32, _: Exchange) {}
    fn finish(&mut self, _: u32) {}
    fn reset(&mut self, _: u32) {}
    fn connection(&self, _: u32) -> Option<ConnectionState> {
        None
    }
    fn datagram_back(&mut self, _: u32, _: u16, _: Ecn) {}
    fn report_window(&mut self, _: u32, _: u16) {}
    fn guest(&self, origin: &Origin<'_>) -> Result<Box<dyn Guest>, String> {
        NoGuests.guest(origin, &StopRequest::default())
    }
    fn fail(&mut self, _: String, _: String) {}
    fn datagram(&mut self, stream: u32, bytes: u16, ecn: Ecn) {
        self.all.push(Action::Datagram { stream, bytes, ecn });
    }
}
