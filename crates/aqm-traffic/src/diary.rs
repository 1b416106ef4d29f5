//! A desk that only writes down what a workload asks for: what it would send over a network without
//! a network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aqm_net::{Ecn, Instant};

use crate::{Conversation, Desk, Transfer, Workload};

/// What a workload did, and when.
#[derive(Default)]
pub struct Diary {
    pub(crate) now: Instant,
    pub(crate) wakes: BinaryHeap<Reverse<Instant>>,
    /// Transfers it opened.
    pub opened: Vec<(Instant, Transfer)>,
    /// Conversations it opened.
    pub conversations: Vec<(Instant, Conversation)>,
    /// Datagrams it sent: flow, bytes on the wire, ECN.
    pub sent: Vec<(Instant, u32, u16, Ecn)>,
    /// Wake-ups carried out.
    pub woken: u64,
}

impl Desk for Diary {
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
    fn datagram(&mut self, flow: u32, bytes: u16, ecn: Ecn) {
        self.sent.push((self.now, flow, bytes, ecn));
    }
}

/// Runs a workload until it asks for nothing more. No transfer ever ends.
pub fn run(workload: &mut dyn Workload) -> Diary {
    let mut diary = Diary::default();
    workload.start(&mut diary);
    while let Some(Reverse(at)) = diary.wakes.pop() {
        diary.now = at;
        diary.woken += 1;
        workload.on_wake(&mut diary);
    }
    diary
}
