//! A [`TrafficContext`] that records the actions of a workload without a network.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use aqm_guest::{Guest, NoGuests, Origin, Provider};
use aqm_net::watch::StopRequest;
use aqm_net::{Ecn, Instant};

use crate::{ConnectionState, Conversation, Exchange, TrafficContext, Transfer, Workload};

/// The recorded actions of a workload, with the time of each action.
pub struct RecordingContext {
    pub(crate) now: Instant,
    pub(crate) wakes: BinaryHeap<Reverse<Instant>>,
    /// Transfers that the workload opened.
    pub opened: Vec<(Instant, Transfer)>,
    /// Conversations that the workload opened.
    pub conversations: Vec<(Instant, Conversation)>,
    /// Exchanges that the workload added to conversations, with the number of each conversation.
    pub requests: Vec<(Instant, u32, Exchange)>,
    /// Numbers of the conversations that the workload finished.
    pub finished: Vec<(Instant, u32)>,
    /// Numbers of the conversations that the workload reset.
    pub resets: Vec<(Instant, u32)>,
    /// States of the connections, by number of the conversation.
    pub(crate) connections: BTreeMap<u32, ConnectionState>,
    /// Datagrams that the workload sent in the forward direction: time, flow, bytes on the wire, and ECN field.
    pub sent: Vec<(Instant, u32, u16, Ecn)>,
    /// Datagrams that the workload sent in the backward direction.
    pub sent_back: Vec<(Instant, u32, u16, Ecn)>,
    /// Congestion windows that the workload reported: time, flow and segments.
    pub windows: Vec<(Instant, u32, u16)>,
    /// Number of wake-ups that have been processed.
    pub woken: u64,
    /// Source of guests.
    pub(crate) guests: &'static dyn Provider,
    /// Messages and reports of the errors with which the workload ended the run.
    pub failures: Vec<(String, String)>,
}

impl Default for RecordingContext {
    fn default() -> Self {
        Self {
            now: Instant::START,
            wakes: BinaryHeap::new(),
            opened: Vec::new(),
            conversations: Vec::new(),
            requests: Vec::new(),
            finished: Vec::new(),
            resets: Vec::new(),
            connections: BTreeMap::new(),
            sent: Vec::new(),
            sent_back: Vec::new(),
            windows: Vec::new(),
            woken: 0,
            guests: &NoGuests,
            failures: Vec::new(),
        }
    }
}

impl TrafficContext for RecordingContext {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        debug_assert!(at >= self.now, "a workload requested a wake-up in the past");
        self.wakes.push(Reverse(at));
    }
    fn open(&mut self, transfer: Transfer) {
        self.opened.push((self.now, transfer));
    }
    fn converse(&mut self, conversation: Conversation) {
        self.conversations.push((self.now, conversation));
    }
    fn request(&mut self, number: u32, exchange: Exchange) {
        self.requests.push((self.now, number, exchange));
    }
    fn finish(&mut self, number: u32) {
        self.finished.push((self.now, number));
    }
    fn reset(&mut self, number: u32) {
        self.resets.push((self.now, number));
    }
    fn connection(&self, number: u32) -> Option<ConnectionState> {
        self.connections.get(&number).copied()
    }
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.sent.push((self.now, flow, bytes, ecn));
    }
    fn datagram_back(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.sent_back.push((self.now, flow, bytes, ecn));
    }
    fn report_window(&mut self, flow: u32, segments: u16) {
        self.windows.push((self.now, flow, segments));
    }
    fn guest(&self, origin: &Origin<'_>) -> Result<Box<dyn Guest>, String> {
        self.guests.guest(origin, &StopRequest::default())
    }
    fn fail(&mut self, message: String, report: String) {
        self.failures.push((message, report));
    }
}

/// Runs a workload until no requested wake-ups remain. In this run, transfers never complete.
pub fn run(workload: &mut dyn Workload) -> RecordingContext {
    let mut recording = RecordingContext::default();
    workload.start(&mut recording);
    while let Some(Reverse(at)) = recording.wakes.pop() {
        recording.now = at;
        recording.woken += 1;
        workload.on_wake(&mut recording);
    }
    recording
}
