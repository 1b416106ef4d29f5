//! Links without a queue discipline, and the packets in transmission on all links.

use std::cmp::Reverse;

use aqm_net::{Instant, Pace, Packet, Span};

use crate::engine::event::rank_of_link;
use crate::engine::event_queue::{EventQueue, LINK_LANES, LINK_PAIRS, LanePair};
use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::network::first_link::FirstLink;
use crate::scenario::plan::Plan;
use crate::scenario::topology::{Hop, LinkClass};

/// The place where the time at which a link becomes free is stored.
#[derive(Clone, Copy)]
pub(crate) enum FreeAt {
    /// The hop of the link's only route. The link is an access link.
    Hop,
    /// The table of links between routers.
    Table,
    /// The port with this index.
    Port(u32),
}

/// The properties that all links in a [`LinkClass`] have in common: the timing, and the lanes that contain the packets.
#[derive(Clone, Copy)]
pub(crate) struct LinkTiming {
    pace: Pace,
    delay: Span,
    pub(crate) free_at: FreeAt,
    /// Lanes of the packets, in the event queue or in the queue of the following [`FirstLink`].
    pub(crate) lanes: LanePair,
    /// Index of the following first link, if the next link is a first link.
    pub(crate) first_link: u16,
}

impl LinkTiming {
    /// Computes the transmission of a packet that arrives at `at` at a link with an unlimited queue. Returns the time
    /// at which the packet reaches the far end, and whether the packet has to wait for other packets. Also updates
    /// `free_at`, the time at which the link becomes free.
    #[inline(always)]
    pub(crate) fn forward(&self, free_at: &mut Instant, packet: &Packet, at: Instant) -> (Instant, bool) {
        let waits = *free_at > at;
        *free_at = (*free_at).max(at).plus(self.pace.time_for(packet.bytes.into()));
        (free_at.plus(self.delay), waits)
    }
}

/// The state of a [`Hop`] in a run. This structure contains all data that a packet needs at a hop, because cache misses
/// account for most of the cost of a packet if there are very many flows.
pub(crate) struct HopState {
    /// Time at which the link becomes free, if it is an access link.
    pub(crate) free_at: Instant,
    pub(crate) link: u32,
    /// Index of the link's [`LinkTiming`].
    pub(crate) class: u16,
    pub(crate) end: End,
    /// Position of the edge before the link plus one; 0 if the link has no edge.
    pub(crate) edge: u8,
}

/// The element of a route that follows a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The destination host.
    Host,
    /// The access link of the destination host. Packets can reach this access link only via the preceding link.
    AccessLink,
    /// A link between routers that collects its arrivals.
    FirstLink,
    /// Any other link, which needs an event for each packet.
    Link,
}

/// The links without a queue discipline, and the packets on all links.
pub(crate) struct UnmanagedLinks {
    pub(crate) event_queue: EventQueue,
    pub(crate) hops: Vec<HopState>,
    /// Properties of links, by class of links.
    pub(crate) timings: Vec<LinkTiming>,
    /// Whether the state of all hops is too large for the cache, in which case memory should be prefetched.
    pub(crate) many: bool,
    /// Packets that have departed from a link and wait until their hops have been prefetched, with their arrival times
    /// at the far end.
    departed: Vec<(Packet, Instant)>,
}

/// Number of packets whose hops are prefetched together.
const BATCH: usize = 16;

impl UnmanagedLinks {
    /// Creates the links of a plan. For each link between routers, `free_at` is the place where the time at which the
    /// link becomes free is stored, and `observed` is true if every packet needs an event at the link's far end.
    pub(crate) fn new(plan: &Plan, free_at: &[FreeAt], observed: &[bool], first_links: &[FirstLink]) -> Self {
        let is_observed = |link: u32| observed.get(link as usize).is_some_and(|&observed| observed);
        let position = |link: u32| first_links.iter().position(|first_link| first_link.link == link);
        let end = |hop: &Hop, next: Option<&Hop>| match next {
            _ if hop.last => End::Host,
            Some(next) if next.last && !is_observed(hop.link) => End::AccessLink,
            Some(next) if position(next.link).is_some() => End::FirstLink,
            _ => End::Link,
        };
        let mut states = Vec::with_capacity(plan.topology.hop_count());
        prefer_huge_pages(&states);
        let mut hops = plan.topology.hops().peekable();
        while let Some(hop) = hops.next() {
            states.push(HopState {
                free_at: Instant::START,
                link: hop.link,
                class: hop.class,
                end: end(&hop, hops.peek()),
                edge: hop.edge,
            });
        }
        let classes = &plan.topology.link_classes;
        let (mut weights, mut following) = (vec![0_u64; classes.len()], vec![None; classes.len()]);
        for (number, hop) in states.iter().enumerate() {
            match hop.end {
                End::Host | End::Link => weights[usize::from(hop.class)] += 1,
                End::AccessLink => {}
                End::FirstLink => following[usize::from(hop.class)] = position(states[number + 1].link),
            }
        }
        let many = plan.topology.has_many_routes();
        let busiest = busiest(&weights, if many { LINK_PAIRS } else { LINK_LANES });
        let event_queue = EventQueue::new(plan.scenario.reverse_ties, busiest.len(), many);
        let mut lanes = vec![LanePair::NONE; classes.len()];
        for (lane, class) in busiest.into_iter().enumerate() {
            lanes[class] = event_queue.lanes(lane);
        }
        let mut fed = vec![0; first_links.len()];
        for (lanes, position) in lanes.iter_mut().zip(&following) {
            if let &Some(position) = position {
                *lanes = first_links[position].lanes(fed[position]);
                fed[position] += 1;
            }
        }
        let timing = |(number, class): (usize, &LinkClass)| LinkTiming {
            pace: class.rate.pace(),
            delay: class.delay,
            free_at: free_at.get(number).copied().unwrap_or(FreeAt::Hop),
            lanes: lanes[number],
            first_link: following[number].unwrap_or(0) as u16,
        };
        Self {
            timings: classes.iter().enumerate().map(timing).collect(),
            event_queue,
            hops: states,
            many,
            departed: Vec::new(),
        }
    }

    /// Removes the time that packets need on access links. The classes of the links between routers precede the classes
    /// of access links; `between_routers` is the number of links between routers.
    pub(crate) fn skip_access_links(&mut self, between_routers: usize) {
        for timing in &mut self.timings[between_routers..] {
            (timing.pace, timing.delay) = (Pace::INSTANT, Span::ZERO);
        }
    }

    /// Does the same as [`travel`](Self::travel), but may keep the packet until [`travel_on`](Self::travel_on) is
    /// called, so that the hops of several packets are prefetched together.
    #[inline(always)]
    pub(crate) fn depart(&mut self, packet: Packet, arrival: Instant) {
        if self.many {
            self.wait_for_hop(packet, arrival);
        } else {
            self.travel(packet, arrival, false);
        }
    }

    #[inline(never)]
    fn wait_for_hop(&mut self, packet: Packet, arrival: Instant) {
        prefetch(&self.hops, packet.hop as usize);
        prefetch(&self.hops, packet.hop as usize + 1);
        self.departed.push((packet, arrival));
        if self.departed.len() == BATCH {
            self.travel_on();
        }
    }

    /// Forwards the packets that [`depart`](Self::depart) has kept.
    pub(crate) fn travel_on(&mut self) {
        for index in 0..self.departed.len() {
            let (packet, arrival) = self.departed[index];
            self.travel(packet, arrival, false);
        }
        self.departed.clear();
    }

    /// Handles a `packet` that reaches the far end of its link at `arrival`. `waited` is true if the packet waited for
    /// other packets. Packets reach the last access link of a route in the order in which they reach the preceding
    /// link. The departure times from the access link are therefore already known, and one event is sufficient for both
    /// links.
    #[inline(always)]
    pub(crate) fn travel(&mut self, mut packet: Packet, arrival: Instant, waited: bool) {
        let hop = &self.hops[packet.hop as usize];
        if hop.end != End::AccessLink {
            let lane = self.timings[hop.class as usize].lanes.lane(waited);
            return self.event_queue.put_packet(lane, arrival, rank_of_link(hop.link), packet);
        }
        packet.hop += 1;
        let hop = &mut self.hops[packet.hop as usize];
        let timing = &self.timings[hop.class as usize];
        let (arrival, waits) = timing.forward(&mut hop.free_at, &packet, arrival);
        self.event_queue.put_packet(timing.lanes.lane(waits), arrival, rank_of_link(hop.link), packet);
    }
}

/// Returns the classes that get lanes, in ascending order. At most `most` classes get lanes; these are the classes with
/// the largest numbers of events. `weights` contains the number of events for each class.
fn busiest(weights: &[u64], most: usize) -> Vec<usize> {
    let mut busiest: Vec<usize> = (0..weights.len()).filter(|&class| weights[class] > 0).collect();
    busiest.sort_by_key(|&class| (Reverse(weights[class]), class));
    busiest.truncate(most);
    busiest.sort_unstable();
    busiest
}
