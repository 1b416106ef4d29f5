//! Links that carry packets from host to host: one event for each packet and link, and none for the access
//! line at the end ([`End::AccessLine`]).
//!
//! A link knows when it is free, and that is all it needs: the moment a packet is put on it, the
//! moment of its arrival is known. Only a link with a queue discipline owns a [`Port`], which
//! catches up whenever a packet arrives at it, and otherwise just before the first packet that it has
//! not sent yet could reach the far end ([`Managed::serve_by`]).

use aqm_net::{Backlog, Instant, Pace, Packet, Span, Streams};
use aqm_queue::{Counters, Label, Port, QueueDiscipline, Ties};

use crate::edges::Edges;
use crate::event::{Event, Timer, rank_of_link, rank_of_timer};
use crate::event_queue::EventQueue;
use crate::links;
use crate::managed::Managed;
use crate::plan::Plan;
use crate::prefetch::prefetch;
use crate::recorder::PacketEvent;
use crate::topology::{Hop, LinkClass};
use crate::transit::InTransit;

/// Something that hosts and workloads are told of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostEvent {
    /// A packet reached its host.
    Arrived(Packet),
    /// A host has processed a packet that [`hold`](Network::hold) was given.
    Processed(Packet),
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
    /// Goes on to the next event for a host or a workload, unless it lies after `until`.
    fn next(&mut self, until: Instant, transit: &mut InTransit) -> Option<(Instant, HostEvent)>;
    /// Lets every link send what it would have sent by `now`.
    fn catch_up(&mut self, now: Instant, transit: &mut InTransit);
    /// The managed links, in the order of their numbers, up to date at `now`.
    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot>;
    /// The same as of the last time they caught up.
    fn glance(&self) -> Vec<LinkSnapshot>;
    /// The disciplines of the managed links, in the same order, as of the last time they caught up.
    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline>;
    /// The edges.
    fn edges(&mut self) -> &mut Edges;
    /// A packet that will soon arrive, if the last one says anything about the next ones.
    fn ahead(&self) -> Option<&Packet> {
        None
    }
    /// Events handled so far.
    fn events(&self) -> u64;
}

/// Who knows when a link is free.
#[derive(Clone, Copy)]
enum Owner {
    /// The hop of the only route over it: an access line.
    Hop,
    /// The table of links between routers.
    Table,
    /// A port.
    Port(u32),
}

/// What the links of a [`LinkClass`] have in common: when a packet put on one arrives, and where it waits.
#[derive(Clone, Copy)]
struct LinkTiming {
    pace: Pace,
    delay: Span,
    owner: Owner,
    /// Where packets on it wait in the event queue.
    place: u8,
}

/// A [`Hop`] in a run, all that a packet needs there in one place: with very many flows the cost of a packet
/// is that of the cache lines it touches.
struct HopState {
    /// When the link is free, if it is an access line.
    free_at: Instant,
    link: u32,
    /// The index of its [`LinkTiming`].
    class: u16,
    end: End,
    /// One more than the position of the edge before it; 0 for none.
    edge: u8,
}

/// What is at the end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The host.
    Host,
    /// The access line of the host, to which packets come from this link only.
    AccessLine,
    /// Any other link.
    Link,
}

/// Lines without a queue discipline, and the packets that travel on any.
struct Lines {
    event_queue: EventQueue,
    hops: Vec<HopState>,
    /// By class of links.
    timings: Vec<LinkTiming>,
    /// By link between routers: when it is free, if it has no port.
    free_at: Vec<Instant>,
}

/// The engine: lanes and a wheel for events, links that only know when they are free.
pub(crate) struct LaneNetwork {
    lines: Lines,
    managed: Vec<Managed>,
    /// No port need catch up before the events of this moment are over.
    serve_by: Instant,
    edges: Edges,
    /// Whether there are so many routes that they do not stay in the cache.
    many: bool,
}

/// With more routes than this, memory is asked for before it is needed.
pub(crate) const MANY_ROUTES: usize = 1000;

/// How many packets before their turn hops and payloads are asked for, and then flows, which
/// payloads name.
const FAR: usize = 12;
const NEAR: usize = 6;

impl Lines {
    /// `packet` reaches the end of its link at `there`. Packets come to an access line in the order in which they
    /// come to the link before it: when they leave it is known already, and one event is enough.
    #[inline(always)]
    fn travel(&mut self, mut packet: Packet, there: Instant) {
        let hop = &self.hops[packet.hop as usize];
        if hop.end != End::AccessLine {
            let place = self.timings[hop.class as usize].place;
            return self.event_queue.put_packet(place, there, rank_of_link(hop.link), packet);
        }
        packet.hop += 1;
        let hop = &mut self.hops[packet.hop as usize];
        let timing = &self.timings[hop.class as usize];
        hop.free_at = hop.free_at.max(there) + timing.pace.time_for(packet.bytes.into());
        self.event_queue.put_packet(timing.place, hop.free_at + timing.delay, rank_of_link(hop.link), packet);
    }
}

impl LaneNetwork {
    pub(crate) fn new(plan: &Plan) -> Self {
        let Plan { scenario, topology, edges, .. } = plan;
        let ties = if scenario.reverse_ties { Ties::ArrivalFirst } else { Ties::DepartureFirst };
        let mut managed = Vec::new();
        let mut owners = vec![Owner::Table; scenario.links.len()];
        for (number, spec, queue) in links::managed(&scenario.links) {
            let rng = Streams::new(scenario.seed).named(&format!("queue/{}", spec.name), 0);
            let port = Port::new(queue.prototype.clone(), spec.rate, rng, ties);
            let traced = scenario.record.packets.contains(&spec.name);
            owners[number] = Owner::Port(managed.len() as u32);
            managed.push(Managed::new(port, number as u32, spec.delay, traced));
        }
        let event_queue = EventQueue::new(scenario.reverse_ties);
        let timing = |(number, class): (usize, &LinkClass)| LinkTiming {
            pace: class.rate.pace(),
            delay: class.delay,
            owner: owners.get(number).copied().unwrap_or(Owner::Hop),
            place: event_queue.place(class.lane),
        };
        // Whoever records the packets of a link wants to hear when they leave it.
        let is_traced = |link: u32| match owners.get(link as usize) {
            Some(&Owner::Port(port)) => managed[port as usize].traced,
            _ => false,
        };
        let end = |hop: &Hop, next: Option<&Hop>| match next {
            _ if hop.last => End::Host,
            Some(next) if next.last && !is_traced(hop.link) => End::AccessLine,
            _ => End::Link,
        };
        let hops = &topology.hops;
        let state = |(place, hop): (usize, &Hop)| HopState {
            free_at: Instant::START,
            link: hop.link,
            class: hop.class,
            end: end(hop, hops.get(place + 1)),
            edge: hop.edge,
        };
        let lines = Lines {
            timings: topology.link_classes.iter().enumerate().map(timing).collect(),
            event_queue,
            hops: hops.iter().enumerate().map(state).collect(),
            free_at: vec![Instant::START; scenario.links.len()],
        };
        Self {
            lines,
            managed,
            serve_by: Instant::NEVER,
            edges: edges.clone(),
            many: topology.route_count() > MANY_ROUTES,
        }
    }

    /// Nothing is due before this moment.
    pub(crate) fn next_due(&self) -> Instant {
        self.lines.event_queue.next_due().min(self.serve_by)
    }

    /// Tells all queues what packets of a label say in their headers.
    pub(crate) fn tell_label(&mut self, number: u16, label: &Label) {
        self.managed.iter_mut().for_each(|managed| managed.port.on_label(number, label));
    }

    /// Puts `packet` on the link it stands before.
    #[inline(always)]
    fn forward(&mut self, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        let hop = &mut self.lines.hops[packet.hop as usize];
        if hop.edge != 0 {
            packet.class = self.edges.class_of(packet, hop.edge, now);
        }
        let timing = &self.lines.timings[hop.class as usize];
        let free_at = match timing.owner {
            Owner::Hop => &mut hop.free_at,
            Owner::Table => &mut self.lines.free_at[hop.link as usize],
            Owner::Port(port) => return self.offer(port, packet, now, transit),
        };
        *free_at = (*free_at).max(now) + timing.pace.time_for(packet.bytes.into());
        let there = *free_at + timing.delay;
        self.lines.travel(packet, there);
    }

    /// Offers `packet` to the queue of a managed link.
    fn offer(&mut self, port: u32, packet: Packet, now: Instant, transit: &mut InTransit) {
        let (managed, lines) = (&mut self.managed[port as usize], &mut self.lines);
        if managed.traced {
            managed.offer_traced(packet, now, transit, |packet, there| lines.travel(packet, there));
        } else {
            managed.offer(packet, now, transit, |packet, there| lines.travel(packet, there));
        }
        self.serve_by = self.serve_by.min(managed.serve_by());
    }

    /// Lets all ports send what is due.
    fn serve(&mut self, now: Instant, transit: &mut InTransit) {
        self.serve_by = Instant::NEVER;
        for managed in &mut self.managed {
            managed.serve(now, transit, |packet, there| self.lines.travel(packet, there));
            self.serve_by = self.serve_by.min(managed.serve_by());
        }
    }

    /// A packet whose link is recorded has left it at the far end. Rows of one instant are in the order of the
    /// rule, so the line takes its next packet first.
    #[cold]
    fn note_delivered(&mut self, port: u32, packet: &Packet, now: Instant, transit: &mut InTransit) {
        let managed = &mut self.managed[port as usize];
        managed.serve(now, transit, |packet, there| self.lines.travel(packet, there));
        managed.observer(transit).trace(PacketEvent::Deliver, packet, now);
    }
}

impl Network for LaneNetwork {
    #[inline]
    fn send(&mut self, packet: Packet, now: Instant, transit: &mut InTransit) {
        self.forward(packet, now, transit);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.lines.event_queue.put_held(until, packet);
    }

    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.lines.event_queue.put_timer(at, rank_of_timer(timer, flow), timer);
    }

    #[inline]
    fn next(&mut self, until: Instant, transit: &mut InTransit) -> Option<(Instant, HostEvent)> {
        loop {
            let Some((now, event)) = self.lines.event_queue.next(until.min(self.serve_by)) else {
                if until < self.serve_by {
                    return None;
                }
                self.serve(self.serve_by, transit);
                continue;
            };
            let mut packet = match event {
                Event::Packet(packet) => packet,
                Event::Held(packet) => return Some((now, HostEvent::Processed(packet))),
                Event::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
            };
            if self.many
                && let Some(far) = self.lines.event_queue.ahead(FAR)
            {
                prefetch(&self.lines.hops, far.hop as usize);
                transit.payloads.prefetch(far.id);
            }
            let hop = &self.lines.hops[packet.hop as usize];
            if hop.end == End::Host {
                return Some((now, HostEvent::Arrived(packet)));
            }
            if let Owner::Port(port) = self.lines.timings[hop.class as usize].owner
                && self.managed[port as usize].traced
            {
                self.note_delivered(port, &packet, now, transit);
            }
            packet.hop += 1;
            self.forward(packet, now, transit);
        }
    }

    fn catch_up(&mut self, now: Instant, transit: &mut InTransit) {
        self.serve(now, transit);
    }

    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot> {
        let snapshot = |Managed { port, .. }: &mut Managed| LinkSnapshot {
            counters: port.counters(now),
            backlog: port.discipline().backlog(),
        };
        self.managed.iter_mut().map(snapshot).collect()
    }

    fn glance(&self) -> Vec<LinkSnapshot> {
        let glance = |Managed { port, .. }: &Managed| LinkSnapshot {
            counters: *port.counted(),
            backlog: port.discipline().backlog(),
        };
        self.managed.iter().map(glance).collect()
    }

    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline> {
        self.managed.iter().map(|managed| managed.port.discipline())
    }

    fn edges(&mut self) -> &mut Edges {
        &mut self.edges
    }

    fn ahead(&self) -> Option<&Packet> {
        if self.many { self.lines.event_queue.ahead(NEAR) } else { None }
    }

    fn events(&self) -> u64 {
        self.lines.event_queue.taken()
    }
}
