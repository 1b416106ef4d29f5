//! The network, which transports packets between hosts. Each packet needs one event for each link, except for the last
//! access link ([`End::AccessLink`]), which needs no event.
//!
//! A link stores the time at which the link becomes free. When a packet is put on a link, the arrival time of the
//! packet is therefore known immediately. Only a link with a queue discipline has a [`Port`]. The port is served when a
//! packet arrives, and just before the next packet that the port will send could reach the far end
//! ([`Link::serve_by`]).

pub(crate) mod first_link;
pub(crate) mod managed;
pub(crate) mod payloads;
pub(crate) mod transit;
pub(crate) mod unmanaged;

use aqm_link::{Link, Port, Ties};
use aqm_net::{Backlog, Instant, Packet, Rate};
use aqm_queue::{Counters, Label, QueueDiscipline};

use crate::engine::event::{Timer, rank_of_timer};
use crate::engine::event_queue::{NextEvent, Upcoming};
use crate::engine::prefetch::prefetch;
use crate::network::first_link::FirstLink;
use crate::network::managed::Managed;
use crate::network::transit::InTransit;
use crate::network::unmanaged::{End, FreeAt, UnmanagedLinks};
use crate::results::recorder::PacketEvent;
use crate::scenario::edges::Edges;
use crate::scenario::links::{self, LinkSpec};
use crate::scenario::plan::Plan;

/// An event for hosts and workloads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostEvent {
    /// A packet arrived at its host.
    Arrived,
    /// A host has processed a packet that was passed to [`hold`](Network::hold).
    Processed,
    /// A timer expires.
    Timer(Timer),
}

/// The state of a managed link at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkSnapshot {
    pub(crate) counters: Counters,
    pub(crate) backlog: Backlog,
}

/// The operations of the network and the timers that hosts use. This trait is implemented both by the fast engine and
/// by the simple engine that the tests use.
pub(crate) trait Network {
    /// Puts `packet` on the link of its hop.
    fn send(&mut self, packet: Packet, now: Instant, transit: &mut InTransit);
    /// Keeps a packet that arrived at its host until the host has processed it.
    fn hold(&mut self, packet: Packet, until: Instant);
    /// Sets a `timer` that expires at `at`. `flow` is the number of the timer's flow, or 0 if the timer belongs to no
    /// flow.
    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer);
    /// Advances to the next event for a host or a workload, unless this event is later than `until`. If the event
    /// concerns a packet, the packet is stored in `packet`.
    fn next(
        &mut self,
        until: Instant,
        packet: &mut Packet,
        transit: &mut InTransit,
    ) -> Option<(Instant, HostEvent)>;
    /// Serves every link up to `now`.
    fn catch_up(&mut self, now: Instant, transit: &mut InTransit);
    /// Returns the state of the managed links at `now`, in the order of their numbers. The links must have been served
    /// up to `now`.
    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot>;
    /// Returns the state that each managed link had when the link was last served.
    fn glance(&self) -> Vec<LinkSnapshot>;
    /// Returns the disciplines of the managed links, in the order of link numbers. Each discipline is in the state that
    /// it had when its link was last served.
    fn disciplines(&self) -> impl Iterator<Item = &dyn QueueDiscipline>;
    /// Returns the rate at `now` of a managed link, or `None` if the rate does not vary. `position` is the position of
    /// the link in the order of managed links.
    fn rate_at(&self, _position: usize, _now: Instant) -> Option<Rate> {
        None
    }
    /// Returns the edges of the network.
    fn edges(&mut self) -> &mut Edges;
    /// Returns whether memory should be prefetched.
    fn looks_ahead(&self) -> bool {
        false
    }
    /// Returns an event in the near future: the event that is `distance` events after the current event.
    fn ahead(&self, _distance: usize) -> Option<Upcoming<'_>> {
        None
    }
    /// Prefetches the state of a hop from which a packet will soon be sent.
    fn prefetch_hop(&self, _hop: u32) {}
    /// Returns the number of events processed so far.
    fn events(&self) -> u64;
}

/// The fast engine. Events are stored in lanes and a timing wheel, and links without a queue discipline store only the
/// time at which the link becomes free.
pub(crate) struct LaneNetwork {
    links: UnmanagedLinks,
    managed: Vec<Managed>,
    first_links: Vec<FirstLink>,
    /// Time at which each link between routers becomes free, by link; not used for links with a port.
    free_at: Vec<Instant>,
    /// The latest time whose events may be processed before a link must be served.
    serve_by: Instant,
    edges: Edges,
}

/// Number of events by which packets are prefetched ahead of the current event. At shorter distances, the hops and
/// payloads of the packets, then the flows of the payloads, and finally the data of the flows are prefetched.
const FARTHEST: usize = 24;
const FAR: usize = 12;
pub(crate) const NEAR: usize = 7;
pub(crate) const NEXT: usize = 3;

impl LaneNetwork {
    /// Creates a network for a complete run. The links of this network are brought up to date only when their state is
    /// needed.
    pub(crate) fn new(plan: &Plan) -> Self {
        // If packet histories are recorded, all events of packets must be processed in order.
        if plan.scenario.record.histories.is_empty() {
            Self::with_first_links(plan, &first_link::access_classes(plan))
        } else {
            Self::in_order(plan)
        }
    }

    /// Creates a network that processes the events of all links in chronological order.
    pub(crate) fn in_order(plan: &Plan) -> Self {
        Self::with_first_links(plan, &vec![0; plan.scenario.links.len()])
    }

    /// Creates a network without access links, which processes the events of all links in chronological order. Packets
    /// enter the network at the routers ([`enter_at_router`](Self::enter_at_router)), and leave the network at the far
    /// end of their last link between routers.
    pub(crate) fn between_routers(plan: &Plan) -> Self {
        let mut network = Self::in_order(plan);
        network.links.skip_access_links(plan.scenario.links.len());
        network
    }

    /// Creates the network. `classes` contains, for each link, the number of classes of access links that lead to the
    /// link. A link for which this number is positive becomes a first link, unless the link's packets are recorded.
    fn with_first_links(plan: &Plan, classes: &[usize]) -> Self {
        let Plan { scenario, edges, .. } = plan;
        let ties = if scenario.reverse_ties { Ties::ArrivalFirst } else { Ties::DepartureFirst };
        let chance = scenario.chance();
        let mut managed = Vec::new();
        let mut free_at = vec![FreeAt::Table; scenario.links.len()];
        let mut traced = vec![false; scenario.links.len()];
        for (number, spec, queue) in links::managed(&scenario.links) {
            let rng = chance.named(&format!("queue/{}", spec.name), 0);
            let queue_of_run = queue.for_run(&spec.name, &chance);
            let port = Port::with_transmitter(queue_of_run, spec.transmitter(&chance), rng, ties);
            traced[number] = scenario.record.packets.contains(&spec.name);
            free_at[number] = FreeAt::Port(managed.len() as u32);
            let hosts = plan.topology.hosts_for_queue(queue);
            let link = Link::new(port, spec.channel(&chance));
            managed.push(Managed::new(link, number as u32, hosts, traced[number]));
        }
        let many = plan.topology.has_many_routes();
        let is_first = |&(number, _): &(usize, &LinkSpec)| classes[number] > 0 && !traced[number];
        let first_link = |(number, spec): (usize, &LinkSpec)| {
            FirstLink::new(number as u32, spec, classes[number], scenario.reverse_ties, many)
        };
        // If a link records packets at the far end, or may reorder packets, each packet needs an event at the far end.
        let observed = scenario.links.iter().zip(&traced).map(|(spec, &traced)| traced || spec.reorders());
        let observed: Vec<bool> = observed.collect();
        let first_links: Vec<FirstLink> =
            scenario.links.iter().enumerate().filter(is_first).map(first_link).collect();
        Self {
            links: UnmanagedLinks::new(plan, &free_at, &observed, &first_links),
            managed,
            first_links,
            free_at: vec![Instant::START; scenario.links.len()],
            serve_by: Instant::NEVER,
            edges: edges.clone(),
        }
    }

    /// Returns a time before which no event is due.
    pub(crate) fn next_due(&self) -> Instant {
        self.links.event_queue.next_due().min(self.serve_by)
    }

    /// Puts a `packet`, whose hop is the access link of its sender, on the link that follows the access link.
    #[inline]
    pub(crate) fn enter_at_router(&mut self, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        packet.hop += 1;
        self.forward(packet, now, transit);
    }

    /// Processes the transmissions that begin at or before `now`. The network must process the events of all links in
    /// chronological order ([`in_order`](Self::in_order)).
    pub(crate) fn settle(&mut self, now: Instant, transit: &mut InTransit) {
        debug_assert!(self.first_links.is_empty());
        let mut serve_by = Instant::NEVER;
        for managed in &mut self.managed {
            if managed.link.port.next_start().is_some_and(|start| start <= now) {
                managed.serve(now, transit, &mut self.links);
            }
            serve_by = serve_by.min(managed.link.serve_by());
        }
        self.links.travel_on();
        self.serve_by = serve_by;
    }

    /// Passes the headers of packets with the label `number` to all queues.
    pub(crate) fn announce_label(&mut self, number: u16, label: &Label) {
        self.managed.iter_mut().for_each(|managed| managed.link.port.on_label(number, label));
    }

    /// Puts `packet` on the link of its hop.
    fn forward(&mut self, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        let hop = &mut self.links.hops[packet.hop as usize];
        if hop.edge != 0 {
            packet.class = self.edges.class_of(packet, hop.edge, now);
        }
        let timing = &self.links.timings[hop.class as usize];
        let (arrival, waits) = match timing.free_at {
            FreeAt::Hop => timing.forward(&mut hop.free_at, &packet, now),
            // All packets of the link are in order, so one lane is sufficient.
            FreeAt::Table => (timing.forward(&mut self.free_at[hop.link as usize], &packet, now).0, false),
            FreeAt::Port(port) => return self.offer(port, packet, now, transit),
        };
        self.links.travel(packet, arrival, waits);
    }

    /// Offers `packet` to the queue of a managed link.
    fn offer(&mut self, port: u32, packet: Packet, now: Instant, transit: &mut InTransit) {
        let (managed, links) = (&mut self.managed[port as usize], &mut self.links);
        managed.offer(packet, now, transit, links);
        links.travel_on();
        self.serve_by = self.serve_by.min(managed.link.serve_by());
    }

    /// Prefetches the data that later events will access.
    #[inline(never)]
    fn look_far_ahead(&self, transit: &InTransit) {
        self.links.event_queue.prefetch(FARTHEST);
        match self.links.event_queue.ahead(FAR) {
            Some(Upcoming::Packet(packet)) => {
                prefetch(&self.links.hops, packet.hop as usize);
                transit.payloads.prefetch(packet.id);
            }
            Some(Upcoming::Processed(packet)) => transit.payloads.prefetch(packet.id),
            Some(Upcoming::Timer(_)) | None => {}
        }
    }

    /// Records that a packet has arrived at the far end of a link whose packets are recorded. Rows with equal times
    /// follow the order of the tie rule, so the transmitter takes its next packet before the arrival is recorded.
    #[cold]
    fn record_delivery(&mut self, port: u32, packet: &Packet, now: Instant, transit: &mut InTransit) {
        let managed = &mut self.managed[port as usize];
        managed.serve(now, transit, &mut self.links);
        self.links.travel_on();
        managed.observer(transit).trace(PacketEvent::Deliver, packet, now);
    }
}

impl Network for LaneNetwork {
    /// The first link of a route is the access link of the host, which has neither an edge nor a port.
    #[inline(always)]
    fn send(&mut self, mut packet: Packet, now: Instant, _: &mut InTransit) {
        let hop = &mut self.links.hops[packet.hop as usize];
        let timing = &self.links.timings[hop.class as usize];
        debug_assert!(hop.edge == 0 && matches!(timing.free_at, FreeAt::Hop));
        let (arrival, waits) = timing.forward(&mut hop.free_at, &packet, now);
        if hop.end != End::FirstLink {
            return self.links.travel(packet, arrival, waits);
        }
        packet.hop += 1;
        let first_link = &mut self.first_links[usize::from(timing.first_link)];
        let serve_by = first_link.put(timing.lanes.lane(waits), arrival, hop.link, packet);
        self.serve_by = self.serve_by.min(serve_by);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.links.event_queue.put_processed(until, packet);
    }

    #[inline]
    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.links.event_queue.put_timer(at, rank_of_timer(timer, flow), timer);
    }

    #[inline]
    fn next(
        &mut self,
        until: Instant,
        packet: &mut Packet,
        transit: &mut InTransit,
    ) -> Option<(Instant, HostEvent)> {
        loop {
            let Some((now, due)) = self.links.event_queue.next(until.min(self.serve_by), packet) else {
                if until < self.serve_by {
                    return None;
                }
                self.catch_up(self.serve_by, transit);
                continue;
            };
            if self.links.many {
                self.look_far_ahead(transit);
            }
            match due {
                NextEvent::Packet => {}
                NextEvent::Processed => return Some((now, HostEvent::Processed)),
                NextEvent::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
            }
            let hop = &self.links.hops[packet.hop as usize];
            if hop.end == End::Host {
                return Some((now, HostEvent::Arrived));
            }
            if let FreeAt::Port(port) = self.links.timings[hop.class as usize].free_at
                && self.managed[port as usize].traced
            {
                self.record_delivery(port, packet, now, transit);
            }
            packet.hop += 1;
            self.forward(*packet, now, transit);
        }
    }

    fn catch_up(&mut self, now: Instant, transit: &mut InTransit) {
        let Self { links, managed, first_links, free_at, .. } = self;
        let mut serve_by = Instant::NEVER;
        for first_link in first_links {
            let link = first_link.link as usize;
            let timing = links.timings[link];
            if let FreeAt::Port(port) = timing.free_at {
                let managed = &mut managed[port as usize];
                first_link.take(now, |at, packet| managed.offer(packet, at, transit, links));
            } else {
                let free_at = &mut free_at[link];
                first_link.take(now, |at, packet| {
                    let (arrival, _) = timing.forward(free_at, &packet, at);
                    links.depart(packet, arrival);
                });
            }
            serve_by = serve_by.min(first_link.serve_by());
        }
        for managed in managed {
            managed.serve(now, transit, links);
            serve_by = serve_by.min(managed.link.serve_by());
        }
        links.travel_on();
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

    fn rate_at(&self, position: usize, now: Instant) -> Option<Rate> {
        self.managed[position].link.port.rate_at(now)
    }

    fn edges(&mut self) -> &mut Edges {
        &mut self.edges
    }

    #[inline]
    fn looks_ahead(&self) -> bool {
        self.links.many
    }

    #[inline(always)]
    fn ahead(&self, distance: usize) -> Option<Upcoming<'_>> {
        self.links.event_queue.ahead(distance)
    }

    fn prefetch_hop(&self, hop: u32) {
        prefetch(&self.links.hops, hop as usize);
    }

    fn events(&self) -> u64 {
        self.links.event_queue.handled()
    }
}
