//! An ACK filter before a queue: an acknowledgement that waits goes if a later one says all it says.
//!
//! T. Høiland-Jørgensen, D. Täht, J. Morton, "Piece of CAKE: A Comprehensive Queue Management Solution for Home
//! Gateways", IEEE LANMAN 2018, section IV: where a line carries the data of a connection quickly one way and its
//! acknowledgements slowly the other, most of these are redundant. Which ones: `ack_filter_rules.rs`, after Linux
//! 6.1's CAKE.
//!
//! CAKE looks through the queue of a flow, which is its own. This filter knows nothing of the queue behind it. The
//! latest acknowledgement takes the place of the one before it, that one the place of the one before, and so on
//! to the place of the redundant one, which is dropped. So acknowledgements keep their order, and the queue does
//! not notice: it holds a packet less than was offered to it, and none that it held is dropped.
//!
//! How it differs from its sources, and what it does where they are silent, stands in the documentation of
//! [`Config`], which the reference prints.

use aqm_net::{ConfigError, Packet, Rate, choices};
use serde_json::{Value, json};

use crate::hash_index::HashIndex;
use crate::wrappers::ack_filter_rules::redundant;
use crate::wrappers::wrapper::{Inside, Wrapper, wrapper};
use crate::{Acknowledgement, Context, Observer, Reason};

wrapper! {
    /// An ACK filter before a queue: an acknowledgement that waits and carries no data is dropped if a later one says
    /// all it says.
    ///
    /// What makes it possible before any queue:
    ///
    /// - Only acknowledgements among which no other packet of their flow came, and that the queue cannot tell apart
    ///   (the same size, ECN bits, class, hosts and label) are looked at, and the last eight of them at most.
    /// - What the queue noted when a packet came, such as the moment, stays with its place.
    pub struct Config {
        /// When an acknowledgement goes.
        pub mode: Mode = Mode::Conservative, "tc-cake: `ack-filter`";
    }
}

choices! {
    /// When an acknowledgement goes for a later one.
    pub enum Mode {
        /// If another one that would do still waits: at least every second one passes.
        Conservative = "conservative",
        /// Whenever a later one says all it says.
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

    fn own_corners() -> Vec<Value> {
        vec![json!({"mode": "aggressive"})]
    }
}

/// The most acknowledgements of a flow that are looked at.
const MOST: usize = 8;

/// The last packets of a flow that wait: acknowledgements among which no other packet of the flow came.
#[derive(Clone, Copy, Default)]
struct Run {
    flow: u32,
    /// Their places in the queue, the oldest first.
    places: [u32; MOST],
    len: usize,
}

impl Run {
    fn places(&self) -> &[u32] {
        &self.places[..self.len]
    }

    fn push(&mut self, place: u32) {
        self.places[self.len] = place;
        self.len += 1;
    }

    /// Takes out one of them.
    fn remove(&mut self, place: u32) {
        let at = self.places().iter().position(|one| *one == place).expect("it is in its run");
        self.places.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

/// The run that a packet is in, if it is in one.
type InRun = Option<u32>;

/// The running wrapper.
#[derive(Clone)]
struct AckFilter {
    aggressive: bool,
    /// The runs of flows that have one, by number.
    runs: Vec<Run>,
    free: Vec<u32>,
    /// The run of a flow.
    index: HashIndex,
    ack_drops: u64,
}

impl AckFilter {
    fn run_of(&self, flow: u32) -> Option<u32> {
        self.index.find(flow.into(), |run| self.runs[run as usize].flow == flow)
    }

    /// A run of its own for `flow`, which has none.
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

    /// The packet of this place, which is in a run, is gone.
    #[inline(never)]
    fn take_out(&mut self, number: u32, place: u32) {
        let run = &mut self.runs[number as usize];
        run.remove(place);
        if run.len == 0 {
            self.end(number);
        }
    }

    /// None of this run is looked at any more.
    fn end(&mut self, number: u32) {
        self.index.remove(self.runs[number as usize].flow.into(), number);
        self.free.push(number);
    }

    /// Puts `packet`, which says `newest`, into the place of one of the `run` that it makes redundant, all later ones
    /// move up, and returns what has lost its place; `None` if there is no such one.
    fn take_place(
        &self,
        run: &Run,
        (packet, newest): (Packet, &Acknowledgement),
        inside: &mut Inside<InRun>,
        observer: &dyn Observer,
    ) -> Option<Packet> {
        let places = run.places();
        let is_other = |place: &u32| !is_alike(inside.packet(*place), &packet);
        let first = places.iter().rposition(is_other).map_or(0, |other| other + 1);
        let alike = (first..places.len()).map(|at| (at, observer.acknowledgement(inside.packet(places[at]))));
        let at = redundant(alike, newest, self.aggressive)?;
        // From the last place to the redundant one's, each packet moves up.
        Some(places[at..].iter().rev().fold(packet, |later, place| inside.exchange(*place, later)))
    }
}

/// Whether a queue cannot tell one packet from the other.
fn is_alike(one: &Packet, other: &Packet) -> bool {
    let seen = |packet: &Packet| {
        (packet.bytes, packet.ecn, packet.class, packet.label, packet.source, packet.destination)
    };
    seen(one) == seen(other)
}

impl Wrapper for AckFilter {
    type Note = InRun;

    fn on_arrival(&mut self, packet: Packet, inside: &mut Inside<InRun>, cx: &mut Context<'_>) {
        let newest = cx.observer.acknowledgement(&packet).filter(|newest| newest.bare);
        let run = self.run_of(packet.flow);
        let Some(newest) = newest else {
            if let Some(number) = run {
                self.runs[number as usize].places().iter().for_each(|place| *inside.noted(*place) = None);
                self.end(number);
            }
            inside.enqueue(packet, None, cx);
            return;
        };
        let number = run.unwrap_or_else(|| self.begin(packet.flow));
        let run = self.runs[number as usize];
        if let Some(redundant) = self.take_place(&run, (packet, &newest), inside, cx.observer) {
            self.ack_drops += 1;
            return cx.drop(redundant, Reason::AckFilter);
        }
        if run.len == MOST {
            let oldest = run.places[0];
            *inside.noted(oldest) = None;
            self.runs[number as usize].remove(oldest);
        }
        let place = inside.enqueue(packet, Some(number), cx);
        self.runs[number as usize].push(place);
    }

    #[inline]
    fn on_gone(&mut self, place: u32, run: InRun) {
        if let Some(number) = run {
            self.take_out(number, place);
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

    /// What packets say, by id, and the ids of those that the filter has dropped.
    #[derive(Default)]
    struct Ends {
        says: Vec<Option<Acknowledgement>>,
        filtered: Vec<u32>,
    }

    impl Observer for Ends {
        fn dropped(&mut self, packet: &Packet, why: Reason, _: Instant) {
            assert_eq!(why, Reason::AckFilter);
            self.filtered.push(packet.id);
        }
        fn marked(&mut self, _: &Packet, _: Reason, _: Instant) {}
        fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
            self.says[packet.id as usize]
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

        /// A packet of this flow and size comes, and acknowledges this, if anything.
        fn offer(&mut self, flow: u32, bytes: u16, says: Option<Acknowledgement>) {
            let id = self.ends.says.len() as u32;
            self.ends.says.push(says);
            let mut cx = Context { now: Instant::START, rng: &mut self.rng, observer: &mut self.ends };
            self.queue.enqueue(Packet { id, flow, bytes, ..Packet::default() }, &mut cx);
        }

        /// Acknowledgements of these numbers come, of one flow.
        fn acknowledge(&mut self, numbers: &[u64]) {
            numbers.iter().for_each(|&number| self.offer(0, 40, Some(ack(number))));
        }

        /// The ids of the packets that leave, in order.
        fn sent(&mut self) -> Vec<u32> {
            let mut cx = Context { now: Instant::START, rng: &mut self.rng, observer: &mut self.ends };
            std::iter::from_fn(|| self.queue.dequeue(&mut cx)).map(|packet| packet.id).collect()
        }
    }

    fn ack(number: u64) -> Acknowledgement {
        Acknowledgement { bare: true, number, ..Acknowledgement::default() }
    }

    #[test]
    fn of_acknowledgements_that_wait_the_last_is_left_or_the_last_two() {
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
    fn what_has_left_is_not_looked_at() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        assert_eq!(rig.sent(), [0]);
        rig.acknowledge(&[2, 3]);
        assert_eq!((rig.sent(), rig.ends.filtered), (vec![2], vec![1]));
    }

    #[test]
    fn the_latest_has_the_place_of_the_needless_one_and_those_between_move_up() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        rig.offer(7, 40, Some(ack(1)));
        rig.acknowledge(&[2]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![2, 1], &[0][..]));
        // The first of two duplicates is that of which the newest tells nothing new.
        let mut rig = Rig::new(Mode::Conservative);
        rig.acknowledge(&[1]);
        rig.offer(7, 40, None);
        rig.acknowledge(&[2]);
        rig.offer(7, 40, None);
        rig.acknowledge(&[3]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![2, 1, 4, 3], &[0][..]));
    }

    #[test]
    fn nothing_goes_past_another_packet_of_its_flow() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1]);
        rig.offer(0, 1500, None);
        rig.acknowledge(&[2]);
        rig.offer(0, 40, Some(Acknowledgement { bare: false, ..ack(3) }));
        rig.acknowledge(&[4, 5]);
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![0, 1, 2, 3, 5], &[4][..]));
    }

    #[test]
    fn what_the_queue_could_tell_apart_stays() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.offer(0, 40, Some(ack(1)));
        rig.offer(0, 52, Some(ack(2)));
        rig.offer(0, 52, Some(ack(3)));
        assert_eq!((rig.sent(), &rig.ends.filtered[..]), (vec![0, 2], &[1][..]));
    }

    #[test]
    fn duplicates_stay_however_many_and_only_the_last_are_looked_at() {
        let mut rig = Rig::new(Mode::Aggressive);
        rig.acknowledge(&[1; 20]);
        assert!(rig.ends.filtered.is_empty());
        rig.acknowledge(&[2]);
        assert_eq!(rig.ends.filtered, [20 - MOST as u32], "the oldest that is looked at");
        assert_eq!(rig.sent().len(), 20);
    }

    #[test]
    fn flows_that_no_longer_wait_are_forgotten() {
        let mut filter = Config::default().wrapper(Rate::from_bps(1)).unwrap();
        for flow in 0..1000 {
            let number = filter.begin(flow);
            filter.runs[number as usize].push(5);
            filter.on_gone(5, Some(number));
        }
        assert_eq!((filter.runs.len(), filter.index.len()), (1, 0));
    }
}
