//! An ACK filter in front of a queue: drops a queued acknowledgement if a later acknowledgement makes the queued
//! acknowledgement redundant.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018, section IV: on an asymmetric link with a fast data direction and a slow acknowledgement
//! direction, most acknowledgements are redundant. `ack_filter_rules.rs` determines which acknowledgements are
//! redundant, using the rules of CAKE in Linux 6.1.
//!
//! CAKE can search the queue of each flow, because these queues are part of CAKE. By contrast, the filter in this file
//! does not know the internal structure of the queue behind the filter, so the filter exchanges packets within the
//! queue. The latest acknowledgement replaces the previous acknowledgement of its flow, the previous acknowledgement
//! replaces the acknowledgement before that, and so on, until the redundant acknowledgement is replaced and dropped.
//! Acknowledgements therefore keep their order, and the queue does not detect the exchange: from the queue's point of
//! view, the latest acknowledgement never arrives, and no packet is dropped.
//!
//! The documentation of [`Config`], which is part of the reference, lists the differences from the sources and the
//! choices that aqmlab makes where the sources are silent.

use aqm_net::{ConfigError, ConfigErrors, Packet, Rate, choices};
use serde_json::{Value, json};

use crate::hash_index::HashIndex;
use crate::tc::{self, Qdisc};
use crate::wrappers::ack_filter_rules::redundant;
use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Acknowledgement, Context, Observer, Reason};

wrapper! {
    /// An ACK filter in front of a queue: drops a queued acknowledgement without data if a later acknowledgement makes
    /// the queued acknowledgement redundant.
    ///
    /// Because of the following restrictions, any queue discipline can be used behind the filter:
    ///
    /// - The filter considers only consecutive acknowledgements of a flow that the queue cannot distinguish (same size,
    ///   ECN bits, class, hosts and label), and only the last eight of these acknowledgements.
    /// - If an acknowledgement replaces another acknowledgement in the queue, the new acknowledgement takes over the
    ///   data that the queue recorded when the replaced acknowledgement arrived, such as the arrival time.
    pub struct Config {
        /// Condition under which an acknowledgement is dropped.
        pub mode: Mode = Mode::Conservative, "tc-cake: `ack-filter`";
    }
}

choices! {
    /// The condition under which an acknowledgement is dropped in favour of a later acknowledgement.
    pub enum Mode {
        /// An acknowledgement is dropped if another acknowledgement with the same effect remains in the queue, so that
        /// at least every second acknowledgement passes.
        Conservative = "conservative",
        /// An acknowledgement is dropped if a later acknowledgement makes it redundant.
        Aggressive = "aggressive",
    }
}

impl Config {
    fn wrapper(&self, _rate: Rate) -> Result<AckFilter, ConfigError> {
        Ok(AckFilter {
            aggressive: self.mode == Mode::Aggressive,
            runs: Vec::new(),
            free: Vec::new(),
            index: HashIndex::new(),
            ack_drops: 0,
        })
    }

    fn as_tc(&self, _rate: Rate) -> Result<Qdisc, ConfigErrors> {
        Err(tc::rejected("kind", "Linux has an ACK filter only in cake, so use `cake` with ack_filter"))
    }

    fn own_corners() -> Vec<Value> {
        vec![json!({"mode": "aggressive"})]
    }
}

/// The maximum number of acknowledgements per flow that are considered.
const MAX_RUN: usize = 8;

/// A run: the last queued packets of a flow, if they are consecutive acknowledgements.
#[derive(Clone, Copy, Default)]
struct Run {
    flow: u32,
    /// The slots of the acknowledgements in the queue, oldest acknowledgement first.
    slots: [u32; MAX_RUN],
    len: usize,
}

impl Run {
    fn slots(&self) -> &[u32] {
        &self.slots[..self.len]
    }

    fn push(&mut self, slot: u32) {
        self.slots[self.len] = slot;
        self.len += 1;
    }

    /// Removes `slot` from the run.
    fn remove(&mut self, slot: u32) {
        let at = self.slots().iter().position(|one| *one == slot).expect("the slot is in its run");
        self.slots.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

/// The number of the run to which a packet belongs, or `None` if the packet is not in a run.
type InRun = Option<u32>;

/// An ACK filter and its state.
#[derive(Clone)]
struct AckFilter {
    aggressive: bool,
    /// The runs, indexed by number.
    runs: Vec<Run>,
    free: Vec<u32>,
    /// The number of each flow's run.
    index: HashIndex,
    ack_drops: u64,
}

impl AckFilter {
    fn run_of(&self, flow: u32) -> Option<u32> {
        self.index.find(flow.into(), |run| self.runs[run as usize].flow == flow)
    }

    /// Starts a run for `flow`, which must not have a run.
    fn begin(&mut self, flow: u32) -> u32 {
        let run = Run { flow, ..Run::default() };
        let number = match self.free.pop() {
            Some(number) => {
                self.runs[number as usize] = run;
                number
            }
            None => {
                self.runs.push(run);
                self.runs.len() as u32 - 1
            }
        };
        self.index.insert(flow.into(), number);
        number
    }

    /// Removes the packet in this slot from its run.
    #[inline(never)]
    fn remove_from_run(&mut self, number: u32, slot: u32) {
        let run = &mut self.runs[number as usize];
        run.remove(slot);
        if run.len == 0 {
            self.end(number);
        }
    }

    /// Ends the run with this number.
    fn end(&mut self, number: u32) {
        self.index.remove(self.runs[number as usize].flow.into(), number);
        self.free.push(number);
    }

    /// Removes from `run` an acknowledgement that `packet` makes redundant; `newest` is the header of `packet`. All
    /// later acknowledgements move forward by one slot, and `packet` takes the last slot. Returns the removed packet,
    /// or `None` if no acknowledgement is redundant.
    fn replace_redundant(
        &self,
        run: &Run,
        (packet, newest): (Packet, &Acknowledgement),
        inside: &mut Inside<InRun>,
        observer: &dyn Observer,
    ) -> Option<Packet> {
        let slots = run.slots();
        let is_other = |slot: &u32| !is_alike(inside.packet(*slot), &packet);
        let first = slots.iter().rposition(is_other).map_or(0, |other| other + 1);
        let alike = (first..slots.len()).map(|at| (at, observer.acknowledgement(inside.packet(slots[at]))));
        let at = redundant(alike, newest, self.aggressive)?;
        // Each packet moves forward by one slot, starting with the packet in the last slot and ending with the packet
        // behind the redundant packet.
        Some(slots[at..].iter().rev().fold(packet, |later, slot| inside.exchange(*slot, later)))
    }
}

/// Returns whether the two packets are so similar that a queue cannot distinguish them.
fn is_alike(one: &Packet, other: &Packet) -> bool {
    let properties = |packet: &Packet| {
        (packet.bytes, packet.ecn, packet.class, packet.label, packet.source, packet.destination)
    };
    properties(one) == properties(other)
}

impl Wrapper for AckFilter {
    type Note = InRun;

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<InRun>, cx: &mut Context<'_>) {
        let newest = cx.observer.acknowledgement(&packet).filter(|newest| newest.bare);
        let run = self.run_of(packet.flow);
        let Some(newest) = newest else {
            if let Some(number) = run {
                self.runs[number as usize].slots().iter().for_each(|slot| *inside.note(*slot) = None);
                self.end(number);
            }
            inside.enqueue(packet, None, cx);
            return;
        };
        let number = run.unwrap_or_else(|| self.begin(packet.flow));
        let run = self.runs[number as usize];
        if let Some(redundant) = self.replace_redundant(&run, (packet, &newest), inside, cx.observer) {
            self.ack_drops += 1;
            return cx.drop(redundant, Reason::AckFilter);
        }
        if run.len == MAX_RUN {
            let oldest = run.slots[0];
            *inside.note(oldest) = None;
            self.runs[number as usize].remove(oldest);
        }
        let slot = inside.enqueue(packet, Some(number), cx);
        self.runs[number as usize].push(slot);
    }

    #[inline]
    fn on_removed(&mut self, slot: u32, run: InRun) {
        if let Some(number) = run {
            self.remove_from_run(number, slot);
        }
    }

    fn tc_statistics(&self) -> Value {
        json!({"ack_drops": self.ack_drops})
    }
}

#[cfg(test)]
mod tests {
    use aqm_net::{Instant, Rng, Streams};

    use super::*;
    use crate::{Build as _, QueueDiscipline};

    /// The headers of the packets, indexed by packet id, and the ids of the packets that the filter has dropped.
    #[derive(Default)]
    struct Ends {
        header: Vec<Option<Acknowledgement>>,
        filtered: Vec<u32>,
    }

    impl Observer for Ends {
        fn dropped(&mut self, packet: &Packet, why: Reason, _: Instant) {
            assert_eq!(why, Reason::AckFilter);
            self.filtered.push(packet.id);
        }
        fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
        fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
            self.header[packet.id as usize]
        }
    }

    struct Rig {
        queue: Box<dyn QueueDiscipline>,
        rng: Rng,
        ends: Ends,
    }

    impl Rig {
        fn new(mode: Mode) -> Self {
            let config = Config { mode, ..Config::default() };
            let queue = config.build(Rate::from_bps(10_000_000)).unwrap();
            Self { queue, rng: Streams::new(1).named("queue", 0), ends: Ends::default() }
        }

        /// Enqueues a packet of this flow and size. If `header` is set, the packet is an acknowledgement with this
        /// header.
        fn offer(&mut self, flow: u32, bytes: u16, header: Option<Acknowledgement>) {
            let id = self.ends.header.len() as u32;
            self.ends.header.push(header);
            let mut cx = Context { now: Instant::START, rng: &mut self.rng, observer: &mut self.ends };
            self.queue.enqueue(Packet { id, flow, bytes, ..Packet::default() }, &mut cx);
        }

        /// Enqueues acknowledgements of a single flow that have these acknowledgement numbers.
        fn acknowledge(&mut self, numbers: &[u64]) {
            numbers.iter().for_each(|&number| self.offer(0, 40, Some(ack(number))));
        }

        /// Dequeues all packets and returns their ids, in order.
        fn sent(&mut self) -> Vec<u32> {
            let mut cx = Context { now: Instant::START, rng: &mut self.rng, observer: &mut self.ends };
            std::iter::from_fn(|| self.queue.dequeue(&mut cx)).map(|packet| packet.id).collect()
        }
    }

    fn ack(number: u64) -> Acknowledgement {
        Acknowledgement { bare: true, number, ..Acknowledgement::default() }
    }

    #[test]
    fn of_the_queued_acknowledgements_the_last_or_the_last_two_remain() {
        for (mode, filtered, sent) in [
            (Mode::Conservative, &[0, 1, 2, 3, 4, 5, 6, 7][..], &[8, 9][..]),
            (Mode::Aggressive, &[0, 1, 2, 3, 4, 5, 6, 7, 8], &[9]),
        ] {
            let mut rig = Rig::new(mode);
            rig.acknowledge(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            assert_eq!(rig.queue.backlog().packets, sent.len() as u64);
            assert_eq!(rig.queue.tc_statistics(Instant::START), json!({"ack_drops": filtered.len()}));
            assert_eq!(rig.ends.filtered, filtered);
            assert_eq!(rig.sent(), sent);
        }
    }

    #[test]
    fn departed_packets_are_not_considered() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        assert_eq!(rig.sent(), [0]);
        rig.acknowledge(&[2, 3]);
        assert_eq!((rig.sent(), rig.ends.filtered), (vec![2], vec![1]));
    }

    #[test]
    fn the_latest_replaces_the_redundant_one_and_those_between_move_up() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        rig.offer(7, 40, Some(ack(1)));
        rig.acknowledge(&[2]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![2, 1], &[0][..]));
        // If two acknowledgements are duplicates, the first acknowledgement is redundant.
        let mut rig = Rig::new(Mode::Conservative);
        rig.acknowledge(&[1]);
        rig.offer(7, 40, None);
        rig.acknowledge(&[2]);
        rig.offer(7, 40, None);
        rig.acknowledge(&[3]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![2, 1, 4, 3], &[0][..]));
    }

    #[test]
    fn no_acknowledgement_overtakes_another_packet_of_its_flow() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        rig.offer(0, 1500, None);
        rig.acknowledge(&[2]);
        rig.offer(0, 40, Some(Acknowledgement { bare: false, ..ack(3) }));
        rig.acknowledge(&[4, 5]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![0, 1, 2, 3, 5], &[4][..]));
    }

    #[test]
    fn packets_that_the_queue_can_distinguish_are_kept() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.offer(0, 40, Some(ack(1)));
        rig.offer(0, 52, Some(ack(2)));
        rig.offer(0, 52, Some(ack(3)));
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![0, 2], &[1][..]));
    }

    #[test]
    fn duplicates_are_kept_and_only_the_last_are_considered() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1; 20]);
        assert!(rig.ends.filtered.is_empty());
        rig.acknowledge(&[2]);
        assert_eq!(rig.ends.filtered, [20 - MAX_RUN as u32], "the oldest acknowledgement considered");
        assert_eq!(rig.sent().len(), 20);
    }

    #[test]
    fn flows_without_queued_packets_are_forgotten() {
        let mut filter = Config::default().wrapper(Rate::from_bps(1)).unwrap();
        for flow in 0..1000 {
            let number = filter.begin(flow);
            filter.runs[number as usize].push(5);
            filter.on_removed(5, Some(number));
        }
        assert_eq!((filter.runs.len(), filter.index.len()), (1, 0));
    }
}
