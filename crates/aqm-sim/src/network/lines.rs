//! Lines without a queue discipline, and the packets that travel on any line.

use std::cmp::Reverse;

use aqm_net::{Instant, Pace, Packet, Span};

use crate::engine::event::rank_of_link;
use crate::engine::event_queue::{EventQueue, LINK_LANES, LINK_PAIRS, Places};
use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::prefetch;
use crate::network::first_link::FirstLink;
use crate::scenario::plan::Plan;
use crate::scenario::topology::{Hop, LinkClass};

/// Who knows when a link is free.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// The hop of the only route over it: an access line.
    Hop,
    /// The table of links between routers.
    Table,
    /// A port.
    Port(u32),
}

/// What the links of a [`LinkClass`] have in common: when a packet put on one arrives, and where it waits.
#[derive(Clone, Copy)]
pub(crate) struct LinkTiming {
    pace: Pace,
    delay: Span,
    pub(crate) owner: Owner,
    /// Where packets on it wait, in the event queue or at the [`FirstLink`] behind it.
    pub(crate) places: Places,
    /// The position of that first link, if there is one behind it.
    pub(crate) first_link: u16,
}

impl LinkTiming {
    /// When a packet that comes at `at` reaches the end of a link that sends in order whatever comes, and whether it
    /// has to wait for others; `free_at`, when the link is free, moves with it.
    #[inline(always)]
    pub(crate) fn reaches_end(&self, free_at: &mut Instant, packet: &Packet, at: Instant) -> (Instant, bool) {
        let waits = *free_at > at;
        *free_at = (*free_at).max(at).plus(self.pace.time_for(packet.bytes.into()));
        (free_at.plus(self.delay), waits)
    }
}

/// A [`Hop`] in a run, all that a packet needs there in one place: with very many flows the cost of a packet
/// is that of the cache lines it touches.
pub(crate) struct HopState {
    /// When the link is free, if it is an access line.
    pub(crate) free_at: Instant,
    pub(crate) link: u32,
    /// The index of its [`LinkTiming`].
    pub(crate) class: u16,
    pub(crate) end: End,
    /// One more than the position of the edge before it; 0 for none.
    pub(crate) edge: u8,
}

/// What is at the end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The host.
    Host,
    /// The access line of the host, to which packets come from this link only.
    AccessLine,
    /// A link between routers that looks itself after what comes to it.
    FirstLink,
    /// Any other link.
    Link,
}

/// Lines without a queue discipline, and the packets that travel on any.
pub(crate) struct Lines {
    pub(crate) event_queue: EventQueue,
    pub(crate) hops: Vec<HopState>,
    /// By class of links.
    pub(crate) timings: Vec<LinkTiming>,
    /// Whether there are so many routes that their hops do not stay in the cache: memory is asked for before it is
    /// needed.
    pub(crate) many: bool,
    /// Packets that have left a link and wait for their hops to come into the cache; when each reaches the end.
    departed: Vec<(Packet, Instant)>,
}

/// So many packets wait for their hops together.
const TOGETHER: usize = 16;

impl Lines {
    /// Those of a plan. `owners` and `watched` go by link between routers: who knows when it is free, and whether every
    /// packet has an event at its end.
    pub(crate) fn new(plan: &Plan, owners: &[Owner], watched: &[bool], first_links: &[FirstLink]) -> Self {
        let is_watched = |link: u32| watched.get(link as usize).is_some_and(|&watched| watched);
        let position = |link: u32| first_links.iter().position(|first_link| first_link.link == link);
        let end = |hop: &Hop, next: Option<&Hop>| match next {
            _ if hop.last => End::Host,
            Some(next) if next.last && !is_watched(hop.link) => End::AccessLine,
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
        let (mut weights, mut behind) = (vec![0_u64; classes.len()], vec![None; classes.len()]);
        for (number, hop) in states.iter().enumerate() {
            match hop.end {
                End::Host | End::Link => weights[usize::from(hop.class)] += 1,
                End::AccessLine => {}
                End::FirstLink => behind[usize::from(hop.class)] = position(states[number + 1].link),
            }
        }
        let many = plan.topology.has_many_routes();
        let busiest = busiest(&weights, if many { LINK_PAIRS } else { LINK_LANES });
        let event_queue = EventQueue::new(plan.scenario.reverse_ties, busiest.len(), many);
        let mut places = vec![Places::NONE; classes.len()];
        for (lane, class) in busiest.into_iter().enumerate() {
            places[class] = event_queue.places(lane);
        }
        let mut fed = vec![0; first_links.len()];
        for (place, position) in places.iter_mut().zip(&behind) {
            if let &Some(position) = position {
                *place = first_links[position].places(fed[position]);
                fed[position] += 1;
            }
        }
        let timing = |(number, class): (usize, &LinkClass)| LinkTiming {
            pace: class.rate.pace(),
            delay: class.delay,
            owner: owners.get(number).copied().unwrap_or(Owner::Hop),
            places: places[number],
            first_link: behind[number].unwrap_or(0) as u16,
        };
        Self {
            timings: classes.iter().enumerate().map(timing).collect(),
            event_queue,
            hops: states,
            many,
            departed: Vec::new(),
        }
    }

    /// As [`travel`](Self::travel), but the packet may wait for others, until [`travel_on`](Self::travel_on) is called.
    #[inline(always)]
    pub(crate) fn depart(&mut self, packet: Packet, there: Instant) {
        if self.many {
            self.wait_for_hop(packet, there);
        } else {
            self.travel(packet, there, false);
        }
    }

    #[inline(never)]
    fn wait_for_hop(&mut self, packet: Packet, there: Instant) {
        prefetch(&self.hops, packet.hop as usize);
        prefetch(&self.hops, packet.hop as usize + 1);
        self.departed.push((packet, there));
        if self.departed.len() == TOGETHER {
            self.travel_on();
        }
    }

    /// Packets that wait travel on.
    pub(crate) fn travel_on(&mut self) {
        for place in 0..self.departed.len() {
            let (packet, there) = self.departed[place];
            self.travel(packet, there, false);
        }
        self.departed.clear();
    }

    /// `packet` reaches the end of its link at `there`; `waited` if others were on its way. Packets come to an access
    /// line in the order in which they come to the link before it: when they leave it is known already, and one event
    /// is enough.
    #[inline(always)]
    pub(crate) fn travel(&mut self, mut packet: Packet, there: Instant, waited: bool) {
        let hop = &self.hops[packet.hop as usize];
        if hop.end != End::AccessLine {
            let place = self.timings[hop.class as usize].places.of(waited);
            return self.event_queue.put_packet(place, there, rank_of_link(hop.link), packet);
        }
        packet.hop += 1;
        let hop = &mut self.hops[packet.hop as usize];
        let timing = &self.timings[hop.class as usize];
        let (there, waits) = timing.reaches_end(&mut hop.free_at, &packet, there);
        self.event_queue.put_packet(timing.places.of(waits), there, rank_of_link(hop.link), packet);
    }
}

/// The classes that have lanes, at `most` so many, in their order: the busiest of those with any events.
fn busiest(weights: &[u64], most: usize) -> Vec<usize> {
    let mut busiest: Vec<usize> = (0..weights.len()).filter(|&class| weights[class] > 0).collect();
    busiest.sort_by_key(|&class| (Reverse(weights[class]), class));
    busiest.truncate(most);
    busiest.sort_unstable();
    busiest
}
