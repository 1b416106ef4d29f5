//! A tin of CAKE: its queues, whose turn it is, and what it has done.
//!
//! DRR++ with a third list. A queue that gets a packet and is in no list is *sparse* and joins the new ones, with a
//! quantum of credit. Once the credit is used it is *bulk*, if a packet of it still waits, and takes turns with the
//! old ones. A queue that was found empty stays for as long as its COBALT remembers anything, in the list of *decaying*
//! ones: the first of them is looked at once in each search, so that COBALT forgets in time. A decaying queue that
//! gets a packet is sparse again.
//!
//! A sparse queue that has used its credit and is empty waits among the old ones, but counts as sparse still
//! ([`Set::SparseWait`]).

use aqm_net::Rng;

use super::capacity::average;
use super::diffserv::Share;
use super::isolation::{Hosts, QUEUES, set};
use super::shaper::{Pace, Shaper, TinClock};
use crate::codel::cobalt_core::{Cobalt, PacketState, Times, Verdict};
use crate::fair::ring::Ring;
use crate::start::Start;

/// What a queue counts as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    /// It is in no list.
    #[default]
    None,
    Sparse,
    SparseWait,
    Bulk,
    Decaying,
}

/// A queue of a tin; its packets lie with those of all.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub cobalt: Cobalt,
    pub deficit: i32,
    /// The hash of the packets that it is reserved for.
    tag: u32,
    /// The places of the hosts that these come from and go to.
    hosts: [u16; 2],
    set: Set,
}

/// What tins count as `tc` shows it.
#[derive(Clone, Copy, Default)]
pub(super) struct Counters {
    pub packets: u64,
    pub bytes: u64,
    pub drops: u64,
    pub ecn_marks: u64,
    pub ack_drops: u64,
    pub way_indirect_hits: u64,
    pub way_misses: u64,
    pub way_collisions: u64,
    pub max_bytes: u16,
}

/// Moving averages of the time in queue, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Delays {
    pub average: u64,
    /// Quick to rise, slow to fall, and the other way round.
    pub peak: u64,
    pub base: u64,
}

impl Delays {
    #[inline]
    pub fn add(&mut self, delay: u64) {
        self.average = average(self.average, delay, 8);
        self.peak = average(self.peak, delay, if delay > self.peak { 2 } else { 8 });
        self.base = average(self.base, delay, if delay < self.base { 2 } else { 8 });
    }
}

/// Queues by what they count as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowCounts {
    pub sparse: u32,
    pub bulk: u32,
    pub decaying: u32,
    pub unresponsive: u32,
}

/// What follows from a rate.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub share: Share,
    pub pace: Pace,
    pub times: Times,
    pub flow_quantum: u16,
}

impl Rates {
    /// Those of a tin with this `share`, where a packet of full size has `mtu` bytes.
    pub fn new(share: Share, mtu: u32, target: u64, interval: u64) -> Self {
        let pace = Pace::of(share.rate);
        let mtu_time = pace.time_for(mtu) as u64;
        let flow_quantum = if share.rate == 0 { 1514 } else { (share.rate >> 12).clamp(300, 1514) as u16 };
        Self { share, pace, times: Times::for_link(target, interval, mtu_time), flow_quantum }
    }
}

/// The place of a queue; that it is one needs no check.
#[inline]
fn at(queue: u32) -> usize {
    (queue % QUEUES) as usize
}

#[derive(Clone)]
pub(super) struct Tin {
    pub rates: Rates,
    pub clock: TinClock,
    /// Its credit among the tins where no rate is set.
    pub deficit: i32,
    pub counters: Counters,
    pub delays: Delays,
    pub flows: FlowCounts,
    pub backlog_bytes: u64,
    queues: Box<[Queue; QUEUES as usize]>,
    sources: Hosts,
    destinations: Hosts,
    new: Ring,
    old: Ring,
    decaying: Ring,
}

impl Tin {
    /// An empty tin that counts the bulk flows of sources, and of destinations, or not.
    pub fn new(rates: Rates, counts: [bool; 2], start: Start) -> Self {
        let cobalt = if start.is_settled() { Cobalt::SETTLED } else { Cobalt::FRESH };
        let queue = Queue { cobalt, deficit: 0, tag: 0, hosts: [0; 2], set: Set::None };
        let [sources, destinations] = counts.map(Hosts::new);
        Self {
            rates,
            clock: TinClock::default(),
            deficit: 0,
            counters: Counters::default(),
            delays: Delays::default(),
            flows: FlowCounts::default(),
            backlog_bytes: 0,
            queues: Box::new(std::array::from_fn(|_| queue)),
            sources,
            destinations,
            new: Ring::default(),
            old: Ring::default(),
            decaying: Ring::default(),
        }
    }

    /// Whether a queue may have a packet.
    #[inline]
    pub fn has_flows(&self) -> bool {
        self.flows.sparse + self.flows.bulk > 0
    }

    /// What becomes of a packet of `queue`.
    #[inline]
    pub fn judge(&mut self, queue: u32, packet: PacketState, now: i64, rng: &mut Rng) -> Verdict {
        self.queues[at(queue)].cobalt.decide(&self.rates.times, now, packet, || (rng.bits() >> 32) as u32)
    }

    /// Bytes of `queue` have gone, or were dropped behind the line.
    #[inline]
    pub fn take_credit(&mut self, queue: u32, bytes: u32) {
        // Where a rate is set nobody gives a tin credit, nor asks for it.
        self.deficit = self.deficit.wrapping_sub(bytes as i32);
        self.queues[at(queue)].deficit -= bytes as i32;
    }

    /// Charges them to the clock of the tin and to those of the `shaper`.
    #[inline]
    pub fn charge(&mut self, shaper: &mut Shaper, bytes: u32, now: i64, dropped: bool) {
        if !shaper.pace.is_unlimited() {
            self.clock.charge(self.rates.pace.time_for(bytes), now);
            shaper.charge(bytes, dropped);
        }
    }

    /// The queue of packets with this hash, which come from and go to hosts with those.
    #[inline]
    pub fn queue_of(&mut self, flow: u32, host_hashes: impl FnOnce() -> [u32; 2]) -> u32 {
        let own = flow % QUEUES;
        let queue = &self.queues[at(own)];
        if queue.tag == flow && queue.set != Set::None { own } else { self.reserve(flow, host_hashes()) }
    }

    /// The same where its first choice is not simply there.
    #[inline(never)]
    fn reserve(&mut self, flow: u32, host_hashes: [u32; 2]) -> u32 {
        let own = flow % QUEUES;
        let is_idle = |tin: &Self, queue: u32| tin.queues[at(queue)].set == Set::None;
        let reserved = set(flow).find(|&queue| self.queues[at(queue)].tag == flow);
        let (queue, is_anew) = if let Some(queue) = reserved {
            self.counters.way_indirect_hits += u64::from(queue != own);
            (queue, is_idle(self, queue))
        } else if let Some(queue) = set(flow).find(|&queue| is_idle(self, queue)) {
            self.counters.way_misses += 1;
            (queue, true)
        } else {
            self.counters.way_collisions += 1;
            (own, true)
        };
        self.queues[at(queue)].tag = flow;
        if is_anew {
            // A bulk flow that others join counts for the host of the last of them.
            let is_bulk = self.queues[at(queue)].set == Set::Bulk;
            if is_bulk {
                self.uncount_bulk(queue);
            }
            let [source, destination] = host_hashes;
            self.queues[at(queue)].hosts = [self.sources.place(source), self.destinations.place(destination)];
            if is_bulk {
                self.count_bulk(queue);
            }
        }
        queue
    }

    #[inline]
    fn count_bulk(&mut self, queue: u32) {
        let [source, destination] = self.queues[at(queue)].hosts;
        self.sources.count(source);
        self.destinations.count(destination);
    }

    #[inline]
    fn uncount_bulk(&mut self, queue: u32) {
        let [source, destination] = self.queues[at(queue)].hosts;
        self.sources.uncount(source);
        self.destinations.uncount(destination);
    }

    /// The credit that `queue` gets for a turn: a whole quantum over the bulk flows of the host that has most of them,
    /// rounded by chance.
    #[inline]
    fn quantum(&self, queue: u32, rng: &mut Rng) -> i32 {
        let [source, destination] = self.queues[at(queue)].hosts;
        let load = self.sources.bulk_flows(source).max(self.destinations.bulk_flows(destination)).max(1);
        let part = if load == 1 { 65_535 } else { 65_535 / u32::from(load) };
        let chance = (rng.bits() >> 48) as u32;
        ((u32::from(self.rates.flow_quantum) * part + chance) >> 16) as i32
    }

    /// A packet has come to `queue`.
    #[inline]
    pub fn on_arrival(&mut self, queue: u32, rng: &mut Rng) {
        match self.queues[at(queue)].set {
            before @ (Set::None | Set::Decaying) => {
                if before == Set::Decaying {
                    self.flows.decaying -= 1;
                    self.decaying.remove(queue);
                }
                self.new.push_back(queue, ());
                self.flows.sparse += 1;
                let deficit = self.quantum(queue, rng);
                let queue = &mut self.queues[at(queue)];
                (queue.set, queue.deficit) = (Set::Sparse, deficit);
            }
            Set::SparseWait => {
                self.flows.sparse -= 1;
                self.become_bulk(queue);
            }
            Set::Sparse | Set::Bulk => {}
        }
    }

    fn become_bulk(&mut self, queue: u32) {
        self.flows.bulk += 1;
        self.count_bulk(queue);
        self.queues[at(queue)].set = Set::Bulk;
    }

    /// The queue whose turn it is; a decaying one only if they are `first`, or there is no other.
    #[inline]
    pub fn turn(&self, first: bool) -> Option<u32> {
        let decaying = || self.decaying.front();
        let others = || self.new.front().or_else(|| self.old.front());
        if first { decaying().or_else(others) } else { others().or_else(decaying) }
    }

    /// Whether `queue`, whose turn it is, has credit. If not, it gets some and waits for its next turn; `waits` says
    /// whether a packet of it does.
    #[inline]
    pub fn has_credit(&mut self, queue: u32, waits: bool, rng: &mut Rng) -> bool {
        let Queue { deficit, set, .. } = self.queues[at(queue)];
        if deficit > 0 {
            return true;
        }
        if set == Set::Sparse {
            if waits {
                self.flows.sparse -= 1;
                self.become_bulk(queue);
            } else {
                self.queues[at(queue)].set = Set::SparseWait;
            }
        }
        self.queues[at(queue)].deficit += self.quantum(queue, rng);
        if self.old.front() == Some(queue) {
            self.old.rotate();
        } else {
            self.leave_list(queue, set);
            self.old.push_back(queue, ());
        }
        false
    }

    /// `queue`, whose turn it is, has no packet.
    pub fn on_empty(&mut self, queue: u32, now: i64) {
        let entry = &mut self.queues[at(queue)];
        if entry.cobalt.on_empty(&self.rates.times, now) {
            self.flows.unresponsive -= 1;
        }
        let is_at_rest = entry.cobalt.is_at_rest(now);
        let before = std::mem::replace(&mut entry.set, if is_at_rest { Set::None } else { Set::Decaying });
        match before {
            Set::Sparse | Set::SparseWait => self.flows.sparse -= 1,
            Set::Bulk => {
                self.flows.bulk -= 1;
                self.uncount_bulk(queue);
            }
            Set::None | Set::Decaying => self.flows.decaying -= 1,
        }
        self.leave_list(queue, before);
        if !is_at_rest {
            self.flows.decaying += 1;
            self.decaying.push_back(queue, ());
        }
    }

    /// Takes `queue` out of the list where queues of this `set` are.
    fn leave_list(&mut self, queue: u32, set: Set) {
        match set {
            Set::None => {}
            Set::Sparse => self.new.remove(queue),
            Set::SparseWait | Set::Bulk => self.old.remove(queue),
            Set::Decaying => self.decaying.remove(queue),
        }
        let lists = [&self.new, &self.old, &self.decaying];
        debug_assert!(lists.iter().all(|list| !list.contains(queue)), "it was in another list");
    }

    /// A packet of `queue` was dropped because the buffer was full.
    pub fn on_overflow(&mut self, queue: u32, now: i64) {
        let is_new = self.queues[at(queue)].cobalt.on_overflow(&self.rates.times, now);
        self.flows.unresponsive += u32::from(is_new);
        self.counters.drops += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use aqm_net::Streams;

    use super::super::diffserv::Diffserv;
    use super::*;

    fn tin(counts: [bool; 2]) -> Tin {
        let share = Diffserv::BestEffort.shares(0)[0];
        Tin::new(Rates::new(share, 1514, 5_000_000, 100_000_000), counts, Start::Fresh)
    }

    fn queue_of(tin: &mut Tin, flow: u32) -> u32 {
        tin.queue_of(flow, || [flow % 7, flow % 5])
    }

    /// The description, in sets without an order: a flow keeps its queue while it is in use, and gets one that is not
    /// in use, its own first and then those behind it; or its own, with others, if there is none.
    #[test]
    fn queues_are_given_as_the_description_says() {
        let mut rng = Streams::new(1).named("sets", 0);
        let mut tin = tin([true, true]);
        // By queue: the flow that had it last, and whether it is in use.
        let mut model: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let [mut indirect, mut misses, mut collisions] = [0, 0, 0];
        for _ in 0..200_000 {
            // Flows of four sets, about 16 for each.
            let flow = rng.below(32) as u32 + 1024 * rng.below(2) as u32 + 1;
            if rng.below(3) == 0 {
                // A queue in use runs empty; at rest, since its COBALT has done nothing.
                let in_use: Vec<u32> =
                    model.iter().filter(|(_, one)| one.1).map(|(&queue, _)| queue).collect();
                if !in_use.is_empty() {
                    let queue = in_use[rng.below(in_use.len() as u64) as usize];
                    tin.on_empty(queue, 0);
                    model.get_mut(&queue).unwrap().1 = false;
                }
                continue;
            }
            let own = flow % 1024;
            let ways: Vec<u32> = (0..8).map(|way| own / 8 * 8 + (own + way) % 8).collect();
            let had = |queue: &u32| model.get(queue).is_some_and(|one| one.0 == flow);
            let is_free = |queue: &u32| model.get(queue).is_none_or(|one| !one.1);
            let expected =
                match (ways.iter().find(|queue| had(queue)), ways.iter().find(|queue| is_free(queue))) {
                    (Some(&queue), _) => {
                        indirect += u64::from(queue != own);
                        queue
                    }
                    (None, Some(&queue)) => {
                        misses += 1;
                        queue
                    }
                    (None, None) => {
                        collisions += 1;
                        own
                    }
                };
            let queue = queue_of(&mut tin, flow);
            assert_eq!(queue, expected);
            tin.on_arrival(queue, &mut rng);
            model.insert(queue, (flow, true));
        }
        let counters = tin.counters;
        let found = [counters.way_indirect_hits, counters.way_misses, counters.way_collisions];
        assert_eq!(found, [indirect, misses, collisions]);
        assert!(collisions > 1000 && misses > 1000, "{found:?}");
    }

    /// Whatever happens, the count of a host is that of the bulk queues whose last packet was its.
    #[test]
    fn bulk_flows_of_hosts_are_counted_right_even_where_flows_share_queues() {
        let mut rng = Streams::new(2).named("hosts", 0);
        let mut tin = tin([true, true]);
        let mut waits: BTreeMap<u32, bool> = BTreeMap::new();
        for step in 0..100_000 {
            if rng.below(2) == 0 {
                let queue = queue_of(&mut tin, rng.below(40) as u32 + 1024 * rng.below(3) as u32);
                tin.on_arrival(queue, &mut rng);
                waits.insert(queue, true);
            } else if let Some(queue) = tin.turn(step % 2 == 0) {
                let has = waits.get(&queue).copied().unwrap_or(false);
                if tin.has_credit(queue, has, &mut rng) {
                    if has && rng.below(4) > 0 {
                        tin.take_credit(queue, rng.below(3000) as u32);
                        let goes = rng.below(2) == 0;
                        waits.insert(queue, goes);
                    } else if !has {
                        tin.on_empty(queue, 0);
                    }
                }
            }
            let mut counted = FlowCounts { unresponsive: 0, ..FlowCounts::default() };
            let mut of_hosts = [BTreeMap::new(), BTreeMap::new()];
            for queue in tin.queues.iter() {
                match queue.set {
                    Set::None => {}
                    Set::Sparse | Set::SparseWait => counted.sparse += 1,
                    Set::Decaying => counted.decaying += 1,
                    Set::Bulk => {
                        counted.bulk += 1;
                        for (of_host, place) in of_hosts.iter_mut().zip(queue.hosts) {
                            *of_host.entry(place).or_insert(0_u16) += 1;
                        }
                    }
                }
            }
            assert_eq!(tin.flows, counted, "step {step}");
            for (hosts, of_host) in [&tin.sources, &tin.destinations].into_iter().zip(of_hosts) {
                for place in 0..8 {
                    assert_eq!(
                        hosts.bulk_flows(place),
                        of_host.get(&place).copied().unwrap_or(0),
                        "step {step}"
                    );
                }
            }
        }
        assert!(tin.counters.way_collisions > 100, "{}", tin.counters.way_collisions);
        // All leave.
        while let Some(queue) = tin.turn(false) {
            if tin.has_credit(queue, false, &mut rng) {
                tin.on_empty(queue, i64::MAX);
            }
        }
        assert_eq!(tin.flows, FlowCounts::default());
        let left =
            |hosts: &Hosts| (0..QUEUES as u16).map(|place| u32::from(hosts.bulk_flows(place))).sum::<u32>();
        assert_eq!([&tin.sources, &tin.destinations].map(left), [0, 0]);
    }

    #[test]
    fn a_quantum_is_divided_by_the_flows_of_the_busier_host_and_rounded_by_chance() {
        let mut rng = Streams::new(3).named("quantum", 0);
        let mut tin = tin([true, true]);
        let queue = queue_of(&mut tin, 1);
        let mean = |tin: &Tin, rng: &mut Rng| -> f64 {
            (0..20_000).map(|_| f64::from(tin.quantum(queue, rng))).sum::<f64>() / 20_000.0
        };
        assert!((mean(&tin, &mut rng) - 1514.0).abs() < 0.05);
        let [source, destination] = tin.queues[at(queue)].hosts;
        (0..3).for_each(|_| tin.sources.count(source));
        (0..11).for_each(|_| tin.destinations.count(destination));
        assert!((mean(&tin, &mut rng) - 1514.0 / 11.0).abs() < 0.05, "{}", mean(&tin, &mut rng));
    }

    #[test]
    fn a_shaped_tin_may_send_more_than_two_gigabytes() {
        let mut tin = tin([false, false]);
        (0..40_000).for_each(|_| {
            tin.queues[7].deficit = 0;
            tin.take_credit(7, 65_535);
        });
        assert_eq!(tin.deficit, (-40_000_i64 * 65_535) as i32);
    }

    #[test]
    fn delays_rise_and_fall_at_their_own_pace() {
        let mut delays = Delays::default();
        (0..10).for_each(|_| delays.add(1 << 20));
        assert!(delays.peak > 900_000 && delays.average < 50_000 && delays.base < 50_000);
        (0..5000).for_each(|_| delays.add(1 << 20));
        delays.add(0);
        assert!(delays.peak > 1_000_000 && delays.base < 800_000, "{} {}", delays.peak, delays.base);
    }

    #[test]
    fn a_rate_makes_turns_and_patience() {
        let rates = |rate| Rates::new(Share { rate, quantum: 1 }, 1514, 5_000_000, 100_000_000);
        assert_eq!(
            [0, 1000, 1_250_000, 5_000_000, 125_000_000].map(|rate| rates(rate).flow_quantum),
            [1514, 300, 305, 1220, 1514]
        );
        let slow = rates(250_000).times;
        assert_eq!((slow.target, slow.interval, slow.mtu_time), (9_084_000, 104_084_000, 6_056_000));
    }
}
