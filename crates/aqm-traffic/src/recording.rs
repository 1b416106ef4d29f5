//! A [`TrafficContext`] that only records what a workload asks for: what it would send over a network, without
//! a network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{Ecn, Instant};

use crate::{Conversation, Exchange, TrafficContext, Transfer, Workload};

/// What a workload did, and when.
#[derive(Default)]
pub struct RecordingContext {
    pub(crate) now: Instant,
    pub(crate) wakes: BinaryHeap<Reverse<Instant>>,
    /// Transfers it opened.
    pub opened: Vec<(Instant, Transfer)>,
    /// Conversations it opened.
    pub conversations: Vec<(Instant, Conversation)>,
    /// Exchanges it asked for beyond those, by the number of their conversation.
    pub asked: Vec<(Instant, u32, Exchange)>,
    /// Conversations it finished, by number.
    pub finished: Vec<(Instant, u32)>,
    /// Datagrams it sent: flow, bytes on the wire, ECN.
    pub sent: Vec<(Instant, u32, u16, Ecn)>,
    /// Those it sent the other way.
    pub sent_back: Vec<(Instant, u32, u16, Ecn)>,
    /// Wake-ups carried out.
    pub woken: u64,
}

impl TrafficContext for RecordingContext {
    fn now(&self) -> Instant {
        self.now
    }
    fn wake_at(&mut self, at: Instant) {
        debug_assert!(at >= self.now, "a workload asked for a moment that is past");
        self.wakes.push(Reverse(at));
    }
    fn open(&mut self, transfer: Transfer) {
        self.opened.push((self.now, transfer));
    }
    fn converse(&mut self, conversation: Conversation) {
        self.conversations.push((self.now, conversation));
    }
    fn ask(&mut self, number: u32, exchange: Exchange) {
        self.asked.push((self.now, number, exchange));
    }
    fn finish(&mut self, number: u32) {
        self.finished.push((self.now, number));
    }
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.sent.push((self.now, flow, bytes, ecn));
    }
    fn datagram_back(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.sent_back.push((self.now, flow, bytes, ecn));
    }
}

/// Runs a workload until it asks for nothing more. No transfer ever ends.
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
