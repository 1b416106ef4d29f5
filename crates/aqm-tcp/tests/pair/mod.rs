//! A sender and a receiver, a clock moved by hand, and a path that does as the test says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use aqm_net::{Instant, Span};
use aqm_tcp::{Flags, Receiver, Segment, Sender, Tcp};
use serde_json::Value;

/// A segment as it enters the path.
pub struct Sent {
    pub to_receiver: bool,
    pub segment: Segment,
    /// How often the same was sent before, in the same direction.
    pub before: u32,
}

/// The number of the segment that the data begins in, from 1; 0 is the SYN.
pub fn name(segment: &Segment, mss: u64) -> u64 {
    if segment.flags.has(Flags::SYN) { 0 } else { segment.seq / mss + 1 }
}

/// Both ends and everything on its way between them.
pub struct Pair {
    pub tcp: Arc<Tcp>,
    pub sender: Sender,
    pub receiver: Receiver,
    pub now: Instant,
    /// Everything that was sent: when, which way, what, and whether it was lost.
    pub log: Vec<String>,
    /// When data was sent for the first time.
    pub first_sent: Vec<Instant>,
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    segments: Vec<(bool, Segment)>,
    sent_before: BTreeMap<(bool, u8, u64), u32>,
}

/// Where a segment goes: the delays after which a copy arrives.
pub type Fate<'a> = &'a mut dyn FnMut(&Sent) -> Vec<Span>;

impl Pair {
    pub fn new(settings: Value, bytes: Option<u64>) -> Self {
        let tcp = Arc::new(aqm_tcp::read(settings).unwrap().build().unwrap());
        Self {
            sender: tcp.sender(bytes),
            receiver: tcp.receiver(bytes),
            tcp,
            now: Instant::START,
            log: Vec::new(),
            first_sent: Vec::new(),
            heap: BinaryHeap::new(),
            segments: Vec::new(),
            sent_before: BTreeMap::new(),
        }
    }

    /// Runs until nothing is left to happen, or `until`.
    pub fn run(&mut self, until: Instant, fate: Fate<'_>) {
        self.sender.open(self.now);
        self.drain(fate);
        while self.step(until, fate) {}
    }

    /// The next thing happens; false if there is none before `until`.
    pub fn step(&mut self, until: Instant, fate: Fate<'_>) -> bool {
        let arrival = self.heap.peek().map(|entry| entry.0.0);
        let timers = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        let Some(next) = timers.into_iter().chain([arrival]).flatten().min() else { return false };
        if next > until {
            return false;
        }
        self.now = next;
        if arrival == Some(next) {
            let Some(Reverse((_, _, id))) = self.heap.pop() else { return false };
            match self.segments[id] {
                (true, segment) => self.receiver.on_segment(&segment, next),
                (false, segment) => self.sender.on_segment(&segment, next),
            }
        } else {
            self.sender.on_timer(next);
            self.receiver.on_timer(next);
        }
        self.drain(fate);
        true
    }

    fn drain(&mut self, fate: Fate<'_>) {
        while let Some(segment) = self.sender.poll_transmit(self.now) {
            if segment.len > 0 && !segment.flags.has(Flags::RETRANSMISSION) {
                self.first_sent.push(self.now);
            }
            self.enter(true, segment, fate);
        }
        while let Some(segment) = self.receiver.poll_transmit(self.now) {
            self.enter(false, segment, fate);
        }
    }

    fn enter(&mut self, to_receiver: bool, segment: Segment, fate: Fate<'_>) {
        let kind = u8::from(segment.flags.has(Flags::SYN));
        let key = (to_receiver, kind, segment.seq.max(segment.ack));
        let before = self.sent_before.entry(key).or_insert(0);
        let sent = Sent { to_receiver, segment, before: *before };
        *before += 1;
        let copies = fate(&sent);
        let lost = if copies.is_empty() { " lost" } else { "" };
        let line = self.describe(&sent);
        self.log.push(format!("{:>5} {line}{lost}", self.now.nanos() / 1_000_000));
        for delay in copies {
            self.segments.push((to_receiver, segment));
            let id = self.segments.len() - 1;
            self.heap.push(Reverse((self.now + delay, id as u64, id)));
        }
    }

    fn describe(&self, sent: &Sent) -> String {
        let Segment { ack, flags, len, .. } = sent.segment;
        let mss = self.tcp.payload();
        let fin = if flags.has(Flags::FIN) { " FIN" } else { "" };
        let again = if flags.has(Flags::RETRANSMISSION) { " again" } else { "" };
        match (sent.to_receiver, flags.has(Flags::SYN)) {
            (true, true) => format!("> SYN{again}"),
            (true, false) if len == 0 => format!(">{fin}{again}"),
            (true, false) => format!("> {}{fin}{again}", name(&sent.segment, mss)),
            (false, true) => "< SYN-ACK".to_owned(),
            (false, false) => format!("< {}{fin}", ack.div_ceil(mss)),
        }
    }
}
