//! A tin of CAKE: its queues, their order of service, and its counters.
//!
//! The scheduler is DRR++ with a third list. If a packet arrives in a queue that is not in any list, the queue becomes
//! *sparse*, joins the list of new queues and gets one quantum. A queue that has used its quantum and is not empty
//! becomes *bulk* and takes turns in the list of old queues. If the scheduler visits a queue and the queue is empty,
//! the queue moves to the list of *decaying* queues until COBALT's state for this queue has returned to the initial
//! state. Each search for a packet visits the head of the list of decaying queues once, so that COBALT's state decays
//! with time. If a packet arrives in a decaying queue, the queue becomes sparse again.
//!
//! A sparse queue that has used its quantum and is empty moves to the list of old queues, but is still counted as
//! sparse ([`Set::SparseWait`]).

use aqm_net::Rng;

use super::capacity::average;
use super::diffserv::Share;
use super::isolation::{Hosts, QUEUES, set};
use super::shaper::{Pace, Shaper, TinClock};
use crate::codel::cobalt_core::{Cobalt, PacketState, Times, Verdict};
use crate::fair::ring::Ring;
use crate::start::Start;
use crate::{Evidence, Reason};

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Set {
    /// The queue is not in any list.
    #[default]
    None,
    Sparse,
    SparseWait,
    Bulk,
    Decaying,
}

/// A queue of a tin. The packets of all queues are stored in one separate table.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub cobalt: Cobalt,
    pub deficit: i32,
    /// The hash of the packets for which the queue is reserved.
    tag: u32,
    /// The indices of the flow's source host and destination host in the tables of hosts.
    hosts: [u16; 2],
    set: Set,
}

/// The counters of a tin, as printed by `tc`.
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

/// Moving averages of the sojourn time, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Delays {
    pub average: u64,
    /// `peak` rises fast and falls slowly; `base` rises slowly and falls fast.
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

/// Number of queues in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowCounts {
    pub sparse: u32,
    pub bulk: u32,
    pub decaying: u32,
    pub unresponsive: u32,
}

/// Values of a tin that depend on the shaper rate.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub share: Share,
    pub pace: Pace,
    pub times: Times,
    pub flow_quantum: u16,
}

impl Rates {
    /// Computes the values of a tin with this `share`. A full packet is `mtu` bytes long. `target` and `interval` are
    /// COBALT's times, in nanoseconds.
    pub fn new(share: Share, mtu: u32, target: u64, interval: u64) -> Self {
        let pace = Pace::of(share.rate);
        let mtu_time = pace.time_for(mtu) as u64;
        let flow_quantum = if share.rate == 0 { 1514 } else { (share.rate >> 12).clamp(300, 1514) as u16 };
        Self { share, pace, times: Times::for_link(target, interval, mtu_time), flow_quantum }
    }
}

/// Converts the number of a queue to an index that requires no bounds check.
#[inline]
fn index(queue: u32) -> usize {
    (queue % QUEUES) as usize
}

#[derive(Clone)]
pub(super) struct Tin {
    pub rates: Rates,
    pub clock: TinClock,
    /// The tin's deficit, which is used if the shaper is off.
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
    /// Creates an empty tin. `counts` contains two flags: whether the bulk flows of source hosts are counted, and
    /// whether the bulk flows of destination hosts are counted.
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

    /// Returns whether any queue of the tin may contain a packet.
    #[inline]
    pub fn has_flows(&self) -> bool {
        self.flows.sparse + self.flows.bulk > 0
    }

    /// Decides whether to drop or mark a packet of `queue`.
    #[inline]
    pub fn judge(&mut self, queue: u32, packet: PacketState, now: i64, rng: &mut Rng) -> Verdict {
        self.queues[index(queue)].cobalt.decide(&self.rates.times, now, packet, || (rng.bits() >> 32) as u32)
    }

    /// Returns the numbers that led to the drop of a packet of `queue`.
    #[cold]
    pub fn evidence(&self, queue: u32, why: Reason) -> Evidence {
        self.queues[index(queue)].cobalt.evidence(why)
    }

    /// Charges `queue` for bytes that were sent, or that were dropped after they had crossed the link.
    #[inline]
    pub fn charge_queue(&mut self, queue: u32, bytes: u32) {
        // If the shaper is on, the tin's deficit is neither increased nor read.
        self.deficit = self.deficit.wrapping_sub(bytes as i32);
        self.queues[index(queue)].deficit -= bytes as i32;
    }

    /// Charges the clock of the tin and the clocks of the `shaper` for these bytes.
    #[inline]
    pub fn charge(&mut self, shaper: &mut Shaper, bytes: u32, now: i64, dropped: bool) {
        if !shaper.pace.is_unlimited() {
            self.clock.charge(self.rates.pace.time_for(bytes), now);
            shaper.charge(bytes, dropped);
        }
    }

    /// Returns the queue for packets with this flow hash, and with these hashes of the source host and the destination
    /// host.
    #[inline]
    pub fn queue_of(&mut self, flow: u32, host_hashes: impl FnOnce() -> [u32; 2]) -> u32 {
        let own = flow % QUEUES;
        let queue = &self.queues[index(own)];
        if queue.tag == flow && queue.set != Set::None { own } else { self.reserve(flow, host_hashes()) }
    }

    /// Reserves a queue for this flow and returns it. This function is called if the queue that the hash selects is not
    /// reserved for the flow.
    #[inline(never)]
    fn reserve(&mut self, flow: u32, host_hashes: [u32; 2]) -> u32 {
        let own = flow % QUEUES;
        let is_idle = |tin: &Self, queue: u32| tin.queues[index(queue)].set == Set::None;
        let reserved = set(flow).find(|&queue| self.queues[index(queue)].tag == flow);
        let (queue, is_new) = if let Some(queue) = reserved {
            self.counters.way_indirect_hits += u64::from(queue != own);
            (queue, is_idle(self, queue))
        } else if let Some(queue) = set(flow).find(|&queue| is_idle(self, queue)) {
            self.counters.way_misses += 1;
            (queue, true)
        } else {
            self.counters.way_collisions += 1;
            (own, true)
        };
        self.queues[index(queue)].tag = flow;
        if is_new {
            // A bulk queue that several flows share is attributed to the hosts of the flow that joined the queue last.
            let is_bulk = self.queues[index(queue)].set == Set::Bulk;
            if is_bulk {
                self.uncount_bulk(queue);
            }
            let [source, destination] = host_hashes;
            self.queues[index(queue)].hosts =
                [self.sources.index(source), self.destinations.index(destination)];
            if is_bulk {
                self.count_bulk(queue);
            }
        }
        queue
    }

    #[inline]
    fn count_bulk(&mut self, queue: u32) {
        let [source, destination] = self.queues[index(queue)].hosts;
        self.sources.count(source);
        self.destinations.count(destination);
    }

    #[inline]
    fn uncount_bulk(&mut self, queue: u32) {
        let [source, destination] = self.queues[index(queue)].hosts;
        self.sources.uncount(source);
        self.destinations.uncount(destination);
    }

    /// Returns the quantum of `queue`: a full quantum, divided by the number of bulk flows of the source host or the
    /// number of bulk flows of the destination host, whichever is larger. The result is rounded up or down at random.
    #[inline]
    fn quantum(&self, queue: u32, rng: &mut Rng) -> i32 {
        let [source, destination] = self.queues[index(queue)].hosts;
        let load = self.sources.bulk_flows(source).max(self.destinations.bulk_flows(destination)).max(1);
        let part = if load == 1 { 65_535 } else { 65_535 / u32::from(load) };
        let chance = (rng.bits() >> 48) as u32;
        ((u32::from(self.rates.flow_quantum) * part + chance) >> 16) as i32
    }

    /// Updates the state of `queue` after the arrival of a packet.
    #[inline]
    pub fn on_arrival(&mut self, queue: u32, rng: &mut Rng) {
        match self.queues[index(queue)].set {
            before @ (Set::None | Set::Decaying) => {
                if before == Set::Decaying {
                    self.flows.decaying -= 1;
                    self.decaying.remove(queue);
                }
                self.new.push_back(queue, ());
                self.flows.sparse += 1;
                let deficit = self.quantum(queue, rng);
                let queue = &mut self.queues[index(queue)];
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
        self.queues[index(queue)].set = Set::Bulk;
    }

    /// Returns the queue to serve next. Decaying queues are served before all other queues if `first` is true, and
    /// after all other queues otherwise.
    #[inline]
    pub fn turn(&self, first: bool) -> Option<u32> {
        let decaying = || self.decaying.front();
        let others = || self.new.front().or_else(|| self.old.front());
        if first { decaying().or_else(others) } else { others().or_else(decaying) }
    }

    /// Returns whether `queue`, the next queue in turn, has a positive deficit. If the deficit is not positive, the
    /// queue gets a quantum and waits for its next turn. `is_backlogged` is true if the queue contains a packet.
    #[inline]
    pub fn has_deficit(&mut self, queue: u32, is_backlogged: bool, rng: &mut Rng) -> bool {
        let Queue { deficit, set, .. } = self.queues[index(queue)];
        if deficit > 0 {
            return true;
        }
        if set == Set::Sparse {
            if is_backlogged {
                self.flows.sparse -= 1;
                self.become_bulk(queue);
            } else {
                self.queues[index(queue)].set = Set::SparseWait;
            }
        }
        self.queues[index(queue)].deficit += self.quantum(queue, rng);
        if self.old.front() == Some(queue) {
            self.old.rotate();
        } else {
            self.leave_list(queue, set);
            self.old.push_back(queue, ());
        }
        false
    }

    /// Updates the state of `queue`, which is the next queue in turn and is empty.
    pub fn on_empty(&mut self, queue: u32, now: i64) {
        let entry = &mut self.queues[index(queue)];
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

    /// Removes `queue` from the list of queues that are in the state `set`.
    fn leave_list(&mut self, queue: u32, set: Set) {
        match set {
            Set::None => {}
            Set::Sparse => self.new.remove(queue),
            Set::SparseWait | Set::Bulk => self.old.remove(queue),
            Set::Decaying => self.decaying.remove(queue),
        }
        let lists = [&self.new, &self.old, &self.decaying];
        debug_assert!(lists.iter().all(|list| !list.contains(queue)), "the queue is in another list");
    }

    /// Updates the counters after a packet of `queue` was dropped because the memory limit was exceeded.
    pub fn on_overflow(&mut self, queue: u32, now: i64) {
        let is_new = self.queues[index(queue)].cobalt.on_overflow(&self.rates.times, now);
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

    /// This test implements the specification with sets instead of lists. A flow keeps its queue while the queue is in
    /// use. Otherwise, the flow gets the first queue of its set that is not in use, beginning with the queue that its
    /// hash selects. If all queues of the set are in use, the flow shares the queue that its hash selects.
    #[test]
    fn queues_are_assigned_as_specified() {
        let mut rng = Streams::new(1).named("sets", 0);
        let mut tin = tin([true, true]);
        // For each queue: the flow that was last assigned to the queue, and whether the queue is in use.
        let mut model: BTreeMap<u32, (u32, bool)> = BTreeMap::new();
        let [mut indirect, mut misses, mut collisions] = [0, 0, 0];
        for _ in 0..200_000 {
            // The flows belong to four sets of queues, with about 16 flows per set.
            let flow = rng.below(32) as u32 + 1024 * rng.below(2) as u32 + 1;
            if rng.below(3) == 0 {
                // A queue that was in use becomes empty. COBALT is in its initial state, because no packet was dropped
                // or marked.
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

    /// A host's count always equals the number of bulk queues whose most recent packet was sent by or to this host.
    #[test]
    fn bulk_flows_of_hosts_are_counted_correctly_even_if_flows_share_queues() {
        let mut rng = Streams::new(2).named("hosts", 0);
        let mut tin = tin([true, true]);
        let mut is_backlogged: BTreeMap<u32, bool> = BTreeMap::new();
        for step in 0..100_000 {
            if rng.below(2) == 0 {
                let queue = queue_of(&mut tin, rng.below(40) as u32 + 1024 * rng.below(3) as u32);
                tin.on_arrival(queue, &mut rng);
                is_backlogged.insert(queue, true);
            } else if let Some(queue) = tin.turn(step % 2 == 0) {
                let has = is_backlogged.get(&queue).copied().unwrap_or(false);
                if tin.has_deficit(queue, has, &mut rng) {
                    if has && rng.below(4) > 0 {
                        tin.charge_queue(queue, rng.below(3000) as u32);
                        let remains = rng.below(2) == 0;
                        is_backlogged.insert(queue, remains);
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
                        for (of_host, path) in of_hosts.iter_mut().zip(queue.hosts) {
                            *of_host.entry(path).or_insert(0_u16) += 1;
                        }
                    }
                }
            }
            assert_eq!(tin.flows, counted, "step {step}");
            for (hosts, of_host) in [&tin.sources, &tin.destinations].into_iter().zip(of_hosts) {
                for path in 0..8 {
                    assert_eq!(
                        hosts.bulk_flows(path),
                        of_host.get(&path).copied().unwrap_or(0),
                        "step {step}"
                    );
                }
            }
        }
        assert!(tin.counters.way_collisions > 100, "{}", tin.counters.way_collisions);
        // This loop empties all queues.
        while let Some(queue) = tin.turn(false) {
            if tin.has_deficit(queue, false, &mut rng) {
                tin.on_empty(queue, i64::MAX);
            }
        }
        assert_eq!(tin.flows, FlowCounts::default());
        let left =
            |hosts: &Hosts| (0..QUEUES as u16).map(|path| u32::from(hosts.bulk_flows(path))).sum::<u32>();
        assert_eq!([&tin.sources, &tin.destinations].map(left), [0, 0]);
    }

    #[test]
    fn a_quantum_is_divided_by_the_flows_of_the_busier_host_and_rounded_at_random() {
        let mut rng = Streams::new(3).named("quantum", 0);
        let mut tin = tin([true, true]);
        let queue = queue_of(&mut tin, 1);
        let mean = |tin: &Tin, rng: &mut Rng| -> f64 {
            (0..20_000).map(|_| f64::from(tin.quantum(queue, rng))).sum::<f64>() / 20_000.0
        };
        assert!((mean(&tin, &mut rng) - 1514.0).abs() < 0.05);
        let [source, destination] = tin.queues[index(queue)].hosts;
        (0..3).for_each(|_| tin.sources.count(source));
        (0..11).for_each(|_| tin.destinations.count(destination));
        assert!((mean(&tin, &mut rng) - 1514.0 / 11.0).abs() < 0.05, "{}", mean(&tin, &mut rng));
    }

    #[test]
    fn a_shaped_tin_may_send_more_than_two_gigabytes() {
        let mut tin = tin([false, false]);
        (0..40_000).for_each(|_| {
            tin.queues[7].deficit = 0;
            tin.charge_queue(7, 65_535);
        });
        assert_eq!(tin.deficit, (-40_000_i64 * 65_535) as i32);
    }

    #[test]
    fn average_peak_and_base_delays_have_different_time_constants() {
        let mut delays = Delays::default();
        (0..10).for_each(|_| delays.add(1 << 20));
        assert!(delays.peak > 900_000 && delays.average < 50_000 && delays.base < 50_000);
        (0..5000).for_each(|_| delays.add(1 << 20));
        delays.add(0);
        assert!(delays.peak > 1_000_000 && delays.base < 800_000, "{} {}", delays.peak, delays.base);
    }

    #[test]
    fn quanta_and_targets_depend_on_the_rate() {
        let rates = |rate| Rates::new(Share { rate, quantum: 1 }, 1514, 5_000_000, 100_000_000);
        assert_eq!(
            [0, 1000, 1_250_000, 5_000_000, 125_000_000].map(|rate| rates(rate).flow_quantum),
            [1514, 300, 305, 1220, 1514]
        );
        let slow = rates(250_000).times;
        assert_eq!((slow.target, slow.interval, slow.mtu_time), (9_084_000, 104_084_000, 6_056_000));
    }
}
