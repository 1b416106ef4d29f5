//! The reference engine, which is as simple as a textbook example: an event heap with an event for every end of a
//! transmission, every change of a rate and every delivery opportunity. In scenarios without ties, the final state of
//! the reference engine must be bit-identical to that of the fast engine. In scenarios with ties, both engines follow
//! the same tie rule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use aqm_net::{Instant, Pace, Packet, Span};
use aqm_queue::QueueDiscipline;

use crate::engine::event::{Timer, rank_of_link, rank_of_processing, rank_of_timer};
use crate::network::managed::write_hosts;
use crate::network::transit::InTransit;
use crate::network::{HostEvent, LinkSnapshot, Network};
use crate::scenario::edges::Edges;
use crate::scenario::links;
use crate::scenario::plan::Plan;
use crate::scenario::topology::{Hop, LinkClass};
use managed::{Agenda, Managed, TransmitterEvent};

enum Event {
    LinkFree(u32),
    /// An event of a managed link's transmitter.
    Transmitter(u32, TransmitterEvent),
    EndOfLink(Packet),
    Processed(Packet),
    Timer(Timer),
}

/// Rank of transmitter events. This is the lowest rank, because a transmitter takes its next packet before packets
/// arrive at the same instant.
const TRANSMITTERS_FIRST: u32 = 0;
const OTHERS: u32 = 1;
/// Number of distinct ranks that a transmitter's events at the same instant can have.
const ORDERS: u32 = 4;

enum Buffer {
    Unlimited(VecDeque<Packet>),
    Managed(Box<Managed>),
}

struct Link {
    buffer: Buffer,
    pace: Pace,
    delay: Span,
    busy: bool,
}

pub(crate) struct ReferenceNetwork {
    heap: BinaryHeap<Reverse<(u64, u32, u32, usize)>>,
    events: Vec<Option<Event>>,
    links: Vec<Link>,
    hops: Vec<Hop>,
    edges: Edges,
}

impl ReferenceNetwork {
    pub(crate) fn new(plan: &Plan) -> Self {
        let Plan { scenario, topology, edges, .. } = plan;
        let last = topology.hops().map(|hop| hop.link as usize).max().unwrap_or(0);
        let mut link_classes: Vec<LinkClass> =
            vec![topology.link_classes[0]; scenario.links.len().max(last + 1)];
        for hop in topology.hops() {
            link_classes[hop.link as usize] = topology.link_classes[hop.class as usize];
        }
        let unlimited = |class: LinkClass| Link {
            buffer: Buffer::Unlimited(VecDeque::new()),
            pace: class.rate.pace(),
            delay: class.delay,
            busy: false,
        };
        let mut links: Vec<Link> = link_classes.into_iter().map(unlimited).collect();
        for (number, spec, queue) in links::managed(&scenario.links) {
            links[number].buffer = Buffer::Managed(Box::new(Managed::new(plan, number, spec, queue)));
        }
        let mut network = Self {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            links,
            hops: topology.hops().collect(),
            edges: edges.clone(),
        };
        for number in 0..network.links.len() as u32 {
            network.at_managed(number, |managed, agenda| managed.begin(agenda));
        }
        network
    }

    fn schedule(&mut self, at: Instant, phase: u32, rank: u32, event: Event) {
        self.heap.push(Reverse((at.nanos(), phase, rank, self.events.len())));
        self.events.push(Some(event));
    }

    /// Calls a method of a managed link, and schedules the resulting events.
    fn at_managed(&mut self, number: u32, act: impl FnOnce(&mut Managed, &mut Agenda)) {
        let mut agenda = Agenda::new();
        if let Buffer::Managed(managed) = &mut self.links[number as usize].buffer {
            act(managed, &mut agenda);
        }
        for (at, event) in agenda {
            match event {
                TransmitterEvent::Arrival(packet) => {
                    self.schedule(at, OTHERS, rank_of_link(number), Event::EndOfLink(packet));
                }
                event => {
                    let rank = number * ORDERS + event.order();
                    self.schedule(at, TRANSMITTERS_FIRST, rank, Event::Transmitter(number, event));
                }
            }
        }
    }

    fn put_on(&mut self, number: u32, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        let link = &mut self.links[number as usize];
        match &mut link.buffer {
            Buffer::Unlimited(waiting) => {
                waiting.push_back(packet);
                if !link.busy {
                    self.transmit(number, now);
                }
            }
            Buffer::Managed(managed) => {
                write_hosts(&managed.hosts, &mut packet);
                self.at_managed(number, |managed, agenda| managed.put(packet, now, transit, agenda));
            }
        }
    }

    /// Starts the next transmission on a link without a queue discipline.
    fn transmit(&mut self, number: u32, now: Instant) {
        let link = &mut self.links[number as usize];
        let Buffer::Unlimited(waiting) = &mut link.buffer else { return };
        let next = waiting.pop_front();
        link.busy = next.is_some();
        if let Some(packet) = next {
            let end = now + link.pace.time_for(packet.bytes.into());
            let arrival = end + link.delay;
            self.schedule(end, TRANSMITTERS_FIRST, number * ORDERS, Event::LinkFree(number));
            self.schedule(arrival, OTHERS, rank_of_link(number), Event::EndOfLink(packet));
        }
    }
}

impl Network for ReferenceNetwork {
    fn send(&mut self, packet: Packet, now: Instant, transit: &mut InTransit) {
        self.put_on(self.hops[packet.hop as usize].link, packet, now, transit);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.schedule(until, OTHERS, rank_of_processing(packet.flow), Event::Processed(packet));
    }

    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.schedule(at, OTHERS, rank_of_timer(timer, flow), Event::Timer(timer));
    }

    fn next(
        &mut self,
        until: Instant,
        packet: &mut Packet,
        transit: &mut InTransit,
    ) -> Option<(Instant, HostEvent)> {
        while let Some(&Reverse((time, _, _, index))) = self.heap.peek() {
            if time > until.nanos() {
                return None;
            }
            self.heap.pop();
            let now = Instant::from_nanos(time);
            match self.events[index].take().expect("each event is handled once") {
                Event::LinkFree(link) => self.transmit(link, now),
                Event::Transmitter(link, event) => {
                    self.at_managed(link, |managed, agenda| managed.handle(event, now, transit, agenda));
                }
                Event::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
                Event::Processed(processed) => {
                    *packet = processed;
                    return Some((now, HostEvent::Processed));
                }
                Event::EndOfLink(mut arriving) => {
                    if self.hops[arriving.hop as usize].last {
                        *packet = arriving;
                        return Some((now, HostEvent::Arrived));
                    }
                    arriving.hop += 1;
                    let Hop { link, edge, .. } = self.hops[arriving.hop as usize];
                    if edge != 0 {
                        arriving.class = self.edges.class_of(arriving, edge, now);
                    }
                    self.put_on(link, arriving, now, transit);
                }
            }
        }
        None
    }

    fn catch_up(&mut self, _now: Instant, _transit: &mut InTransit) {}

    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot> {
        let mut snapshots = Vec::new();
        for link in &mut self.links {
            let Buffer::Managed(managed) = &mut link.buffer else { continue };
            managed.count_until(now);
            let backlog = managed.discipline.backlog();
            snapshots.push(LinkSnapshot { counters: managed.counters, backlog });
        }
        snapshots
    }

    fn glance(&self) -> Vec<LinkSnapshot> {
        let managed = self.links.iter().filter_map(|link| match &link.buffer {
            Buffer::Managed(managed) => Some(managed.as_ref()),
            Buffer::Unlimited(_) => None,
        });
        let glance = |managed: &Managed| LinkSnapshot {
            counters: managed.counters,
            backlog: managed.discipline.backlog(),
        };
        managed.map(glance).collect()
    }

    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
        self.links.iter().filter_map(|link| match &link.buffer {
            Buffer::Managed(managed) => Some(managed.discipline.as_ref()),
            Buffer::Unlimited(_) => None,
        })
    }

    fn edges(&mut self) -> &mut Edges {
        &mut self.edges
    }

    fn events(&self) -> u64 {
        self.events.len() as u64
    }
}

mod aggregate;
mod managed;
mod tests;
