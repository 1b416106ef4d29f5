//! Links that carry packets from host to host: one event for each packet and link, and none for the access
//! line at the end ([`End::AccessLine`]).
//!
//! A link knows when it is free, and that is all it needs: the moment a packet is put on it, the
//! moment of its arrival is known. Only a link with a queue discipline owns a [`Port`], which
//! catches up whenever a packet arrives at it, and otherwise just before the first packet that it has
//! not sent yet could reach the far end ([`Link::serve_by`]).

pub(crate) mod first_link;
pub(crate) mod lines;
pub(crate) mod managed;
pub(crate) mod payloads;
pub(crate) mod transit;

use aqm_link::{Link, Port, Ties};
use aqm_net::{Backlog, Instant, Packet, Rate};
use aqm_queue::{Counters, Label, QueueDiscipline};

use crate::engine::event::{Timer, rank_of_timer};
use crate::engine::event_queue::{Due, Soon};
use crate::engine::prefetch::prefetch;
use crate::network::first_link::FirstLink;
use crate::network::lines::{End, Lines, Owner};
use crate::network::managed::Managed;
use crate::network::transit::InTransit;
use crate::results::recorder::PacketEvent;
use crate::scenario::edges::Edges;
use crate::scenario::links::{self, LinkSpec};
use crate::scenario::plan::Plan;

/// Something that hosts and workloads are told of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostEvent {
    /// A packet reached its host.
    Arrived,
    /// A host has processed a packet that [`hold`](Network::hold) was given.
    Processed,
    /// A timer expires.
    Timer(Timer),
}

/// The state of a managed link at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkSnapshot {
    pub(crate) counters: Counters,
    pub(crate) backlog: Backlog,
}

/// What carries packets and keeps timers. The hosts know no more of the engine than this, so the
/// plain engine of the tests can stand in for the fast one.
pub(crate) trait Network {
    /// Puts `packet` on the link it stands before.
    fn send(&mut self, packet: Packet, now: Instant, transit: &mut InTransit);
    /// Keeps a packet that reached its host until the host has processed it.
    fn hold(&mut self, packet: Packet, until: Instant);
    /// Reports `timer` at `at`; `flow` is the number of the flow it belongs to, 0 if it belongs to none.
    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer);
    /// Goes on to the next event for a host or a workload, unless it lies after `until`. If it is about a packet, that
    /// is left in `packet`.
    fn next(
        &mut self,
        until: Instant,
        packet: &mut Packet,
        transit: &mut InTransit,
    ) -> Option<(Instant, HostEvent)>;
    /// Lets every link send what it would have sent by `now`.
    fn catch_up(&mut self, now: Instant, transit: &mut InTransit);
    /// The managed links, in the order of their numbers, up to date at `now`.
    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot>;
    /// The same as of the last time they caught up.
    fn glance(&self) -> Vec<LinkSnapshot>;
    /// The disciplines of the managed links, in the same order, as of the last time they caught up.
    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline>;
    /// The rate at `now` of the line of the managed link in this place of that order, if it is not always the same.
    fn rate_at(&self, _place: usize, _now: Instant) -> Option<Rate> {
        None
    }
    /// The edges.
    fn edges(&mut self) -> &mut Edges;
    /// Whether memory should be asked for before it is needed.
    fn looks_ahead(&self) -> bool {
        false
    }
    /// An event that comes after so many others.
    fn ahead(&self, _distance: usize) -> Option<Soon<'_>> {
        None
    }
    /// A packet will soon be sent from this hop.
    fn prefetch_hop(&self, _hop: u32) {}
    /// Events handled so far.
    fn events(&self) -> u64;
}

/// The engine: lanes and a wheel for events, links that only know when they are free.
pub(crate) struct LaneNetwork {
    lines: Lines,
    managed: Vec<Managed>,
    first_links: Vec<FirstLink>,
    /// By link between routers: when it is free, if it has no port.
    free_at: Vec<Instant>,
    /// No link need catch up before the events of this moment are over.
    serve_by: Instant,
    edges: Edges,
}

/// How many events before their turn packets are asked for; then hops and payloads, which packets name; then flows,
/// which payloads name; and then what flows name.
const FARTHEST: usize = 24;
const FAR: usize = 12;
pub(crate) const NEAR: usize = 7;
pub(crate) const NEXT: usize = 3;

impl LaneNetwork {
    /// One that is run from the first event to the last: its links need only be right when somebody looks.
    pub(crate) fn new(plan: &Plan) -> Self {
        // A history tells of each packet in the order of all events.
        if plan.scenario.record.histories.is_empty() {
            Self::with_first_links(plan, &first_link::classes_that_lead_to(plan))
        } else {
            Self::in_order(plan)
        }
    }

    /// One whose links do everything in the order of all events.
    pub(crate) fn in_order(plan: &Plan) -> Self {
        Self::with_first_links(plan, &vec![0; plan.scenario.links.len()])
    }

    /// Links to which any `classes` of access lines lead, by number, are first links unless their packets are recorded.
    fn with_first_links(plan: &Plan, classes: &[usize]) -> Self {
        let Plan { scenario, edges, .. } = plan;
        let ties = if scenario.reverse_ties { Ties::ArrivalFirst } else { Ties::DepartureFirst };
        let chance = scenario.chance();
        let mut managed = Vec::new();
        let mut owners = vec![Owner::Table; scenario.links.len()];
        let mut traced = vec![false; scenario.links.len()];
        for (number, spec, queue) in links::managed(&scenario.links) {
            let rng = chance.named(&format!("queue/{}", spec.name), 0);
            let queue_of_run = queue.for_run(&spec.name, &chance);
            let port = Port::with_transmitter(queue_of_run, spec.transmitter(&chance), rng, ties);
            traced[number] = scenario.record.packets.contains(&spec.name);
            owners[number] = Owner::Port(managed.len() as u32);
            let hosts = plan.topology.hosts_told_to(queue);
            let link = Link::new(port, spec.channel(&chance));
            managed.push(Managed::new(link, number as u32, hosts, traced[number]));
        }
        let many = plan.topology.has_many_routes();
        let gathers = |&(number, _): &(usize, &LinkSpec)| classes[number] > 0 && !traced[number];
        let first_link = |(number, spec): (usize, &LinkSpec)| {
            FirstLink::new(number as u32, spec, classes[number], scenario.reverse_ties, many)
        };
        // Whoever follows packets to the far end of a link, or finds them there in another order, wants an event.
        let watched = scenario.links.iter().zip(&traced).map(|(spec, &traced)| traced || spec.reorders());
        let watched: Vec<bool> = watched.collect();
        let first_links: Vec<FirstLink> =
            scenario.links.iter().enumerate().filter(gathers).map(first_link).collect();
        Self {
            lines: Lines::new(plan, &owners, &watched, &first_links),
            managed,
            first_links,
            free_at: vec![Instant::START; scenario.links.len()],
            serve_by: Instant::NEVER,
            edges: edges.clone(),
        }
    }

    /// Nothing is due before this moment.
    pub(crate) fn next_due(&self) -> Instant {
        self.lines.event_queue.next_due().min(self.serve_by)
    }

    /// Tells all queues what packets of a label say in their headers.
    pub(crate) fn tell_label(&mut self, number: u16, label: &Label) {
        self.managed.iter_mut().for_each(|managed| managed.link.port.on_label(number, label));
    }

    /// Puts `packet` on the link it stands before.
    fn forward(&mut self, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        let hop = &mut self.lines.hops[packet.hop as usize];
        if hop.edge != 0 {
            packet.class = self.edges.class_of(packet, hop.edge, now);
        }
        let timing = &self.lines.timings[hop.class as usize];
        let (there, waits) = match timing.owner {
            Owner::Hop => timing.reaches_end(&mut hop.free_at, &packet, now),
            // All packets of the link are in order.
            Owner::Table => (timing.reaches_end(&mut self.free_at[hop.link as usize], &packet, now).0, false),
            Owner::Port(port) => return self.offer(port, packet, now, transit),
        };
        self.lines.travel(packet, there, waits);
    }

    /// Offers `packet` to the queue of a managed link.
    fn offer(&mut self, port: u32, packet: Packet, now: Instant, transit: &mut InTransit) {
        let (managed, lines) = (&mut self.managed[port as usize], &mut self.lines);
        managed.offer(packet, now, transit, lines);
        lines.travel_on();
        self.serve_by = self.serve_by.min(managed.link.serve_by());
    }

    /// Asks for what events need that come later.
    #[inline(never)]
    fn look_far_ahead(&self, transit: &InTransit) {
        self.lines.event_queue.prefetch(FARTHEST);
        match self.lines.event_queue.ahead(FAR) {
            Some(Soon::Packet(packet)) => {
                prefetch(&self.lines.hops, packet.hop as usize);
                transit.payloads.prefetch(packet.id);
            }
            Some(Soon::Held(packet)) => transit.payloads.prefetch(packet.id),
            Some(Soon::Timer(_)) | None => {}
        }
    }

    /// A packet whose link is recorded has left it at the far end. Rows of one instant are in the order of the
    /// rule, so the line takes its next packet first.
    #[cold]
    fn note_delivered(&mut self, port: u32, packet: &Packet, now: Instant, transit: &mut InTransit) {
        let managed = &mut self.managed[port as usize];
        managed.serve(now, transit, &mut self.lines);
        self.lines.travel_on();
        managed.observer(transit).trace(PacketEvent::Deliver, packet, now);
    }
}

impl Network for LaneNetwork {
    /// The first link is the access line of the host: it has neither an edge nor a port.
    #[inline(always)]
    fn send(&mut self, mut packet: Packet, now: Instant, _: &mut InTransit) {
        let hop = &mut self.lines.hops[packet.hop as usize];
        let timing = &self.lines.timings[hop.class as usize];
        debug_assert!(hop.edge == 0 && matches!(timing.owner, Owner::Hop));
        let (there, waits) = timing.reaches_end(&mut hop.free_at, &packet, now);
        if hop.end != End::FirstLink {
            return self.lines.travel(packet, there, waits);
        }
        packet.hop += 1;
        let first_link = &mut self.first_links[usize::from(timing.first_link)];
        let serve_by = first_link.put(timing.places.of(waits), there, hop.link, packet);
        self.serve_by = self.serve_by.min(serve_by);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.lines.event_queue.put_held(until, packet);
    }

    #[inline]
    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.lines.event_queue.put_timer(at, rank_of_timer(timer, flow), timer);
    }

    #[inline]
    fn next(
        &mut self,
        until: Instant,
        packet: &mut Packet,
        transit: &mut InTransit,
    ) -> Option<(Instant, HostEvent)> {
        loop {
            let Some((now, due)) = self.lines.event_queue.next(until.min(self.serve_by), packet) else {
                if until < self.serve_by {
                    return None;
                }
                self.catch_up(self.serve_by, transit);
                continue;
            };
            if self.lines.many {
                self.look_far_ahead(transit);
            }
            match due {
                Due::Packet => {}
                Due::Held => return Some((now, HostEvent::Processed)),
                Due::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
            }
            let hop = &self.lines.hops[packet.hop as usize];
            if hop.end == End::Host {
                return Some((now, HostEvent::Arrived));
            }
            if let Owner::Port(port) = self.lines.timings[hop.class as usize].owner
                && self.managed[port as usize].traced
            {
                self.note_delivered(port, packet, now, transit);
            }
            packet.hop += 1;
            self.forward(*packet, now, transit);
        }
    }

    fn catch_up(&mut self, now: Instant, transit: &mut InTransit) {
        let Self { lines, managed, first_links, free_at, .. } = self;
        let mut serve_by = Instant::NEVER;
        for first_link in first_links {
            let link = first_link.link as usize;
            let timing = lines.timings[link];
            if let Owner::Port(port) = timing.owner {
                let managed = &mut managed[port as usize];
                first_link.take(now, |at, packet| managed.offer(packet, at, transit, lines));
            } else {
                let free_at = &mut free_at[link];
                first_link.take(now, |at, packet| {
                    let (there, _) = timing.reaches_end(free_at, &packet, at);
                    lines.depart(packet, there);
                });
            }
            serve_by = serve_by.min(first_link.serve_by());
        }
        for managed in managed {
            managed.serve(now, transit, lines);
            serve_by = serve_by.min(managed.link.serve_by());
        }
        lines.travel_on();
        self.serve_by = serve_by;
    }

    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot> {
        let snapshot = |managed: &Managed| LinkSnapshot {
            counters: managed.link.counters(now),
            backlog: managed.link.port.discipline().backlog(),
        };
        self.managed.iter().map(snapshot).collect()
    }

    fn glance(&self) -> Vec<LinkSnapshot> {
        let glance = |managed: &Managed| LinkSnapshot {
            counters: managed.link.counted(),
            backlog: managed.link.port.discipline().backlog(),
        };
        self.managed.iter().map(glance).collect()
    }

    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
        self.managed.iter().map(|managed| managed.link.port.discipline())
    }

    fn rate_at(&self, place: usize, now: Instant) -> Option<Rate> {
        self.managed[place].link.port.rate_at(now)
    }

    fn edges(&mut self) -> &mut Edges {
        &mut self.edges
    }

    #[inline]
    fn looks_ahead(&self) -> bool {
        self.lines.many
    }

    #[inline(always)]
    fn ahead(&self, distance: usize) -> Option<Soon<'_>> {
        self.lines.event_queue.ahead(distance)
    }

    fn prefetch_hop(&self, hop: u32) {
        prefetch(&self.lines.hops, hop as usize);
    }

    fn events(&self) -> u64 {
        self.lines.event_queue.taken()
    }
}
