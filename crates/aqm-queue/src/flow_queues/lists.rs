//! The flow-queueing scheduler: a hash assigns flows to queues, queues take turns, and newly active queues are served
//! first.
//!
//! T. Høiland-Jørgensen, P. McKenney, D. Täht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet Scheduler and Active
//! Queue Management Algorithm", RFC 8290, sections 4.1 and 4.2, which describe the scheduler DRR++. The code follows
//! Linux 6.1's `sch_fq_codel` and `sch_fq_pie`, which share the scheduler:
//! - A hash assigns each packet to one of a fixed number of queues. Each queue keeps the state of its AQM even while it
//!   is empty.
//! - If a packet arrives at a queue that is not in any list, the queue joins the list of new queues, with a deficit of
//!   one quantum.
//! - The head of the list of new queues is served. If there are no new queues, the head of the list of old queues is
//!   served. A queue whose deficit is not positive gets a quantum and moves to the tail of the old list.
//! - Packets that are sent reduce the deficit. Packets that the AQM drops do not reduce the deficit.
//! - If the scheduler finds a new queue empty, the queue moves to the tail of the old list, so that it cannot starve
//!   the old queues by becoming new again. If the scheduler finds an old queue empty, the queue leaves the lists. If
//!   there are no old queues, an empty new queue also leaves the lists, because the scheduler would otherwise find it
//!   empty again at once.
//!
//! aqmlab's choices, where the sources are silent or refer to packet headers:
//! - The hash is computed from the packet's flow number and a salt. The salt is drawn from the queue's own random
//!   stream when the first packet arrives (`fair/classifier.rs`).
//! - The queue with the most bytes is found without scanning all queues (`fair/longest.rs`). The result is the same as
//!   that of the kernel's scan: if several queues have the most bytes, the queue with the smallest number is selected.

use aqm_net::{Backlog, ErrorCollector, Instant, Length, Packet, Rng, Size, parameters};
use serde_json::{Value, json};

use crate::fair::classifier::Classifier;
use crate::fair::flows::Flows;
use crate::fair::longest::{First, Longest};
use crate::fair::ring::Ring;
use crate::qdisc::truesize::truesize;
use crate::tc::Qdisc;

/// Maximum number of queues in the kernel.
const MAX_FLOWS: u32 = 65_536;

/// Maximum quantum in the kernel, in bytes.
const MAX_QUANTUM: u64 = 1 << 20;

parameters! {
    /// Parameters of the flow-queueing scheduler.
    pub struct Scheduler {
        /// Number of queues into which flows are hashed.
        pub flows: u32 = 1024, "RFC 8290, tc-fq_codel, tc-fq_pie";
        /// Quantum: bytes that a queue may send per turn.
        pub quantum: Size = Size::from_bytes(1514), "RFC 8290; Linux: psched_mtu, of Ethernet";
    }
}

impl Scheduler {
    /// Reports every invalid parameter; `least` is the minimum quantum in bytes.
    pub(super) fn check(&self, least: u64, errors: &mut ErrorCollector) {
        let problem = format_args!("must be from 1 to {MAX_FLOWS}");
        errors.check((1..=MAX_FLOWS).contains(&self.flows), "flows", problem);
        let problem = format_args!("must be from {least}B to {MAX_QUANTUM}B (got {})", self.quantum);
        errors.check((least..=MAX_QUANTUM).contains(&self.quantum.bytes()), "quantum", problem);
    }

    /// Adds the options of `tc`.
    pub(super) fn add_tc_options(&self, options: &mut Value) {
        options["flows"] = json!(self.flows);
        options["quantum"] = json!(self.quantum.bytes());
    }

    /// Adds the arguments of `tc`.
    pub(super) fn add_tc(&self, qdisc: Qdisc) -> Qdisc {
        qdisc.count("flows", self.flows.into()).count("quantum", self.quantum.bytes())
    }
}

/// The queues to which packets are assigned by a hash. Each packet is stored with a stamp of type `S`, for example its
/// arrival time. Each queue is stored with the state of its AQM, of type `A`.
#[derive(Clone)]
pub(crate) struct FlowQueues<S, A> {
    classifier: Classifier,
    flows: Flows<S>,
    slots: Vec<Slot<A>>,
    new: Ring,
    old: Ring,
    fattest: Longest<First>,
    quantum: i64,
    memory: u64,
    new_flow_count: u64,
}

#[derive(Clone)]
struct Slot<A> {
    deficit: i64,
    aqm: A,
}

impl<S: Copy, A: Clone> FlowQueues<S, A> {
    /// Creates empty queues, each with the AQM `aqm`. The parameters of the scheduler must have been checked.
    pub fn new(scheduler: &Scheduler, aqm: A) -> Self {
        let Scheduler { flows, quantum } = *scheduler;
        Self {
            classifier: Classifier::new(Some(flows), None).expect("the number of queues is positive"),
            flows: Flows::numbered(flows),
            slots: vec![Slot { deficit: 0, aqm }; flows as usize],
            new: Ring::default(),
            old: Ring::default(),
            fattest: Longest::new(Length::Bytes(0)),
            quantum: quantum.bytes() as i64,
            memory: 0,
            new_flow_count: 0,
        }
    }

    /// Returns the queue to which `packet` belongs. Only the call for the first packet uses `rng`.
    #[inline]
    pub fn classify(&mut self, packet: &Packet, rng: &mut Rng) -> u32 {
        self.classifier.renew_salt(Instant::START, rng);
        self.classifier.key(packet)
    }

    /// Appends `packet` to the queue `flow`, with its stamp.
    #[inline]
    pub fn push(&mut self, flow: u32, packet: Packet, stamp: S) {
        self.flows.push(flow, packet, stamp);
        self.memory += truesize(packet.bytes);
        self.fattest.on_grown(flow, &mut self.flows);
        if !self.new.contains(flow) && !self.old.contains(flow) {
            self.new.push_back(flow, ());
            self.slots[flow as usize].deficit = self.quantum;
            self.new_flow_count += 1;
        }
    }

    /// Removes the oldest packet of `flow` and returns it with its stamp.
    #[inline(always)]
    pub fn pop(&mut self, flow: u32) -> Option<(Packet, S)> {
        if self.flows.of(flow).packets == 0 {
            return None;
        }
        let (_, stamp) = self.flows.head(flow);
        let packet = self.flows.take_front(flow).packet;
        self.memory -= truesize(packet.bytes);
        Some((packet, stamp))
    }

    /// Returns the next packet. `take` removes a packet from the flow that is served, and returns `None` only if the
    /// flow is empty afterwards.
    #[inline]
    pub fn dequeue(&mut self, mut take: impl FnMut(&mut Self, u32) -> Option<Packet>) -> Option<Packet> {
        loop {
            let is_new = self.new.len() > 0;
            let flow = if is_new { self.new.front() } else { self.old.front() }?;
            if self.slots[flow as usize].deficit <= 0 {
                self.slots[flow as usize].deficit += self.quantum;
                self.end_turn(flow, is_new);
            } else if let Some(packet) = take(self, flow) {
                self.slots[flow as usize].deficit -= i64::from(packet.bytes);
                return Some(packet);
            } else if is_new && self.old.len() > 0 {
                self.end_turn(flow, true);
            } else {
                let list = if is_new { &mut self.new } else { &mut self.old };
                list.remove(flow);
            }
        }
    }

    /// Moves `flow`, the head of its list, to the tail of the old list.
    #[inline]
    fn end_turn(&mut self, flow: u32, is_new: bool) {
        if is_new {
            self.new.remove(flow);
            self.old.push_back(flow, ());
        } else {
            self.old.rotate();
        }
    }

    /// Returns the queue with the most bytes. If several queues have the most bytes, returns the queue with the
    /// smallest number. At least one queue must contain a packet.
    pub fn fattest(&mut self) -> u32 {
        self.fattest.find(&mut self.flows)
    }

    /// Returns the AQM state of `flow`.
    pub fn aqm(&mut self, flow: u32) -> &mut A {
        &mut self.slots[flow as usize].aqm
    }

    /// Returns the AQM states of all queues.
    pub fn aqms(&mut self) -> impl Iterator<Item = &mut A> {
        self.slots.iter_mut().map(|slot| &mut slot.aqm)
    }

    /// Returns the backlog of `flow`.
    pub fn of(&self, flow: u32) -> Backlog {
        self.flows.of(flow)
    }

    /// Returns the backlog of all queues together.
    pub fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    /// Returns the memory used by all queued packets, in bytes (`memory_used`).
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns how many times a queue has joined the list of new queues (`new_flow_count`).
    pub fn new_flow_count(&self) -> u64 {
        self.new_flow_count
    }

    /// Returns the number of queues in the list of new queues (`new_flows_len`).
    pub fn new_flows(&self) -> u32 {
        self.new.len()
    }

    /// Returns the number of queues in the list of old queues (`old_flows_len`).
    pub fn old_flows(&self) -> u32 {
        self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::Streams;

    use super::*;

    /// Two queues without an AQM, with one flow each and a quantum of 90 bytes.
    struct Two {
        queues: FlowQueues<(), ()>,
        numbers: [u32; 2],
    }

    impl Two {
        fn new() -> Self {
            let mut queues = FlowQueues::new(&Scheduler { flows: 2, quantum: Size::from_bytes(90) }, ());
            let mut rng = Streams::new(1).named("queue", 0);
            let numbers = [0, 1].map(|number| {
                let flows = (0..).map(|flow| Packet { flow, ..Packet::default() });
                flows
                    .map(|packet| (packet.flow, queues.classify(&packet, &mut rng)))
                    .find(|found| found.1 == number)
            });
            Self { queues, numbers: numbers.map(|found| found.expect("both queues are found").0) }
        }

        fn push(&mut self, queue: u32, bytes: u16) {
            let packet = Packet { flow: self.numbers[queue as usize], bytes, ..Packet::default() };
            let found = self.queues.classify(&packet, &mut Streams::new(2).named("queue", 0));
            assert_eq!(found, queue, "the salt is drawn once");
            self.queues.push(queue, packet, ());
        }

        /// Sends a packet. Returns the queue that sent the packet, the deficits of the two queues, and the lengths of
        /// the lists of new and old queues.
        fn send(&mut self) -> (Option<u32>, [i64; 2], [u32; 2]) {
            let sent = self.queues.dequeue(|queues, flow| queues.pop(flow).map(|(packet, ())| packet));
            let queue = sent.map(|packet| u32::from(packet.flow == self.numbers[1]));
            let deficits = [0, 1].map(|flow| self.queues.slots[flow].deficit);
            (queue, deficits, [self.queues.new_flows(), self.queues.old_flows()])
        }
    }

    /// The expected deficits are those of `fq-codel-queue-disc-test-suite.cc` of ns-3.
    #[test]
    fn deficits_grow_and_shrink_as_in_ns_3() {
        let mut two = Two::new();
        two.push(0, 120);
        assert_eq!(two.send(), (Some(0), [-30, 0], [1, 0]));
        for queue in [0, 0, 1, 1] {
            two.push(queue, 120);
        }
        assert_eq!(two.send(), (Some(1), [60, -30], [1, 1]));
        assert_eq!(two.send(), (Some(0), [-60, 60], [0, 2]));
        assert_eq!(two.send(), (Some(1), [30, -60], [0, 2]));
        assert_eq!(two.send(), (Some(0), [-90, 30], [0, 2]));
        assert_eq!(two.send(), (None, [90, 30], [0, 0]));
        assert_eq!(two.queues.new_flow_count(), 2);
    }

    #[test]
    fn a_queue_that_becomes_active_again_at_once_does_not_starve_the_others() {
        let mut two = Two::new();
        (0..20).for_each(|_| two.push(0, 60));
        let mut sent = [0, 0];
        for _ in 0..20 {
            if two.queues.of(1).packets == 0 {
                two.push(1, 60);
            }
            sent[two.send().0.expect("something waits") as usize] += 1;
        }
        assert!(sent[0] >= 9, "{sent:?}");
    }

    #[test]
    fn the_fattest_has_the_most_bytes_and_the_smallest_number() {
        let mut queues: FlowQueues<(), ()> = FlowQueues::new(&Scheduler::default(), ());
        for (flow, bytes) in [(700, 400), (300, 500), (9, 100), (700, 100), (9, 399)] {
            queues.push(flow, Packet { bytes, ..Packet::default() }, ());
        }
        assert_eq!(queues.fattest(), 300);
        queues.pop(300);
        assert_eq!(queues.fattest(), 700);
        queues.push(9, Packet { bytes: 1, ..Packet::default() }, ());
        assert_eq!((queues.fattest(), queues.of(9).bytes), (9, 500));
    }

    #[test]
    fn memory_is_counted_at_arrivals_and_departures() {
        let mut two = Two::new();
        two.push(0, 60);
        two.push(1, 1514);
        assert_eq!(two.queues.memory(), 768 + 2304);
        two.send();
        two.send();
        assert_eq!((two.queues.memory(), two.queues.backlog()), (0, Backlog::default()));
        assert_eq!(two.queues.pop(0), None);
    }
}
