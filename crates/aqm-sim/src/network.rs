//! Links that carry packets from host to host: one event for each packet and link.
//!
//! A link knows when it is free, and that is all it needs: the moment a packet is put on it, the
//! moment of its arrival is known. Only a link with a queue discipline owns a [`Port`], which
//! catches up whenever a packet arrives at it or from it.

use aqm_net::{Backlog, Instant, Pace, Packet, Span, Streams};
use aqm_queue::{ClassCounters, Counters, Departure, Port, QueueDiscipline, Ties};

use crate::edges::{EdgeSnapshot, Edges};
use crate::event_queue::{Event, EventQueue, Timer, rank_of_link, rank_of_timer};
use crate::prefetch::prefetch;
use crate::recorder::{PacketEvent, Recorder, gauge};
use crate::scenario::Scenario;
use crate::topology::{self, Topology};

/// Something the hosts and workloads must hear of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostEvent {
    /// A packet reached its host.
    Arrived(Packet),
    /// A host is through with a packet it was given to [`hold`](Network::hold).
    Processed(Packet),
    /// An alarm is due.
    Timer(Timer),
}

/// What one sees of a managed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkSnapshot {
    pub(crate) counters: Counters,
    pub(crate) backlog: Backlog,
    pub(crate) average: Option<f64>,
    pub(crate) probability: Option<f64>,
    pub(crate) max_p: Option<f64>,
    pub(crate) active_flows: Option<f64>,
}

/// The service classes of a queue by name, and what each did.
pub(crate) type Classes = Vec<(String, ClassCounters)>;

/// What the service classes of a queue did.
pub(crate) fn classes_of(queue: &dyn QueueDiscipline, now: Instant) -> Classes {
    let mut classes = Vec::new();
    queue.classes(now, &mut |name, counters| classes.push((name.to_owned(), counters)));
    classes
}

/// What carries packets and keeps alarms. The hosts know no more of the engine than this, so the
/// plain engine of the tests can stand in for the fast one.
pub(crate) trait Network {
    /// Puts `packet` on the link it stands before.
    fn send(&mut self, packet: Packet, now: Instant, recorder: &mut Recorder);
    /// Keeps a packet that reached its host until the host is through with it.
    fn hold(&mut self, packet: Packet, until: Instant);
    /// Reports `timer` at `at`; `flow` is the number of the flow it belongs to, if to one.
    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer);
    /// Goes on to the next happening, unless it lies after `until`.
    fn next(&mut self, until: Instant, recorder: &mut Recorder) -> Option<(Instant, HostEvent)>;
    /// Lets every link send what it would have sent by `now`.
    fn catch_up(&mut self, now: Instant, recorder: &mut Recorder);
    /// The managed links, in the order of their numbers, up to date at `now`.
    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot>;
    /// The service classes of the managed links, in the same order, up to date at `now`.
    fn classes(&self, now: Instant) -> Vec<Classes>;
    /// The edges, in the order of the scenario, up to date at `now`.
    fn edge_snapshots(&mut self, now: Instant) -> Vec<EdgeSnapshot>;
    /// A packet that will soon happen, if the last one says anything about the next ones.
    fn ahead(&self) -> Option<&Packet> {
        None
    }
    /// Events handled so far.
    fn events(&self) -> u64;
}

/// Who knows when a link is free.
#[derive(Clone, Copy)]
enum Owner {
    /// The step of the only route over it: an access line.
    Hop,
    /// The table of links between routers.
    Table,
    /// A port.
    Port(u32),
}

/// What links have in common.
#[derive(Clone, Copy)]
struct LinkClass {
    pace: Pace,
    delay: Span,
    owner: Owner,
    /// Where packets on it wait in the agenda.
    place: u8,
}

/// A link on the way of a packet, all that is known of it in one place: with very many flows the cost
/// of a packet is that of the cache lines it touches.
struct Hop {
    free_at: Instant,
    link: u32,
    kind: u16,
    end: End,
    edge: u8,
}

/// What is at the end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The host.
    Host,
    /// The access line of the host, to which packets come from this link only; and this link has no port.
    AccessLine,
    /// Any other link.
    Link,
}

struct Managed {
    port: Port,
    link: u32,
    traced: bool,
    /// When its alarm goes off; `NEVER` without one.
    timer_at: Instant,
}

/// The engine: lanes and a wheel, links that hold only when they are free.
pub(crate) struct LaneNetwork {
    event_queue: EventQueue,
    hops: Vec<Hop>,
    link_classes: Vec<LinkClass>,
    /// By link between routers: when it is free, if it has no port.
    free_at: Vec<Instant>,
    managed: Vec<Managed>,
    edges: Edges,
    /// Whether there are so many routes that they do not stay in the cache.
    many: bool,
}

/// With more routes than this, memory is asked for before it is needed.
pub(crate) const MANY_ROUTES: usize = 1000;

/// How many packets before their turn routes and parcels are asked for, and then flows, which
/// parcels name.
const FAR: usize = 12;
const NEAR: usize = 6;

impl LaneNetwork {
    /// Takes the routes out of `topology`.
    pub(crate) fn new(scenario: &Scenario, topology: &mut Topology) -> Self {
        let ties = if scenario.reverse_ties { Ties::ArrivalFirst } else { Ties::DepartureFirst };
        let mut managed = Vec::new();
        let mut owners = vec![Owner::Table; scenario.links.len()];
        for (number, spec) in scenario.links.iter().enumerate() {
            let Some(discipline) = scenario.discipline(spec) else { continue };
            let rng = Streams::new(scenario.seed).named(&format!("queue/{}", spec.name), 0);
            owners[number] = Owner::Port(managed.len() as u32);
            managed.push(Managed {
                port: Port::new(discipline, spec.rate, rng, ties),
                link: number as u32,
                traced: scenario.record.packets.contains(&spec.name),
                timer_at: Instant::NEVER,
            });
        }
        let event_queue = EventQueue::new(scenario.reverse_ties);
        let kind = |(number, kind): (usize, &topology::LinkClass)| LinkClass {
            pace: kind.rate.pace(),
            delay: kind.delay,
            owner: owners.get(number).copied().unwrap_or(Owner::Hop),
            place: event_queue.place(kind.lane),
        };
        let end = |step: &topology::Hop, next: Option<&topology::Hop>| match next {
            _ if step.last => End::Host,
            Some(next) if next.last && matches!(owners.get(step.link as usize), Some(Owner::Table)) => {
                End::AccessLine
            }
            _ => End::Link,
        };
        let hops = std::mem::take(&mut topology.hops);
        let step = |(place, step): (usize, &topology::Hop)| Hop {
            free_at: Instant::START,
            link: step.link,
            kind: step.kind,
            end: end(step, hops.get(place + 1)),
            edge: step.edge,
        };
        Self {
            link_classes: topology.link_classes.iter().enumerate().map(kind).collect(),
            event_queue,
            hops: hops.iter().enumerate().map(step).collect(),
            free_at: vec![Instant::START; scenario.links.len()],
            managed,
            edges: Edges::new(&scenario.edges, scenario.seed),
            many: topology.route_count() > MANY_ROUTES,
        }
    }

    /// Puts `packet` on the link it stands before.
    #[inline(always)]
    fn forward(&mut self, mut packet: Packet, now: Instant, recorder: &mut Recorder) {
        let step = &mut self.hops[packet.hop as usize];
        if step.edge != 0 {
            packet.class = self.edges.class_of(packet, step.edge, now);
        }
        let kind = &self.link_classes[step.kind as usize];
        let free_at = match kind.owner {
            Owner::Hop => &mut step.free_at,
            Owner::Table => &mut self.free_at[step.link as usize],
            Owner::Port(port) => return self.offer(port, packet, now, recorder),
        };
        *free_at = (*free_at).max(now) + kind.pace.time_for(packet.bytes.into());
        let there = *free_at + kind.delay;
        if step.end != End::AccessLine {
            return self.event_queue.put_packet(kind.place, there, rank_of_link(step.link), packet);
        }
        // Packets come to the line behind in the order in which they come to this one: it is known already
        // when they leave it, and one event is enough.
        packet.hop += 1;
        let step = &mut self.hops[packet.hop as usize];
        let kind = &self.link_classes[step.kind as usize];
        step.free_at = step.free_at.max(there) + kind.pace.time_for(packet.bytes.into());
        self.event_queue.put_packet(kind.place, step.free_at + kind.delay, rank_of_link(step.link), packet);
    }

    /// Offers `packet` to the queue of a managed link.
    fn offer(&mut self, port: u32, packet: Packet, now: Instant, recorder: &mut Recorder) {
        let managed = &mut self.managed[port as usize];
        let link = managed.link;
        recorder.at(link, managed.port.arrivals(), managed.traced);
        if managed.traced {
            return self.offer_traced(port, packet, now, recorder);
        }
        let (kind, event_queue) = (&self.link_classes[link as usize], &mut self.event_queue);
        managed.port.accept(packet, now, recorder, |departure| {
            event_queue.put_packet(
                kind.place,
                departure.end + kind.delay,
                rank_of_link(link),
                departure.packet,
            );
        });
        managed.arm(port, event_queue);
    }

    /// Lets a port send what is due.
    fn serve(&mut self, port: u32, now: Instant, recorder: &mut Recorder) {
        let managed = &mut self.managed[port as usize];
        let link = managed.link;
        recorder.at(link, managed.port.arrivals(), managed.traced);
        if managed.traced {
            return self.serve_traced(port, now, recorder);
        }
        let (kind, event_queue) = (&self.link_classes[link as usize], &mut self.event_queue);
        managed.port.serve(now, recorder, |departure| {
            event_queue.put_packet(
                kind.place,
                departure.end + kind.delay,
                rank_of_link(link),
                departure.packet,
            );
        });
        managed.arm(port, event_queue);
    }

    /// A packet has left the link of a port at its far end.
    fn leave(&mut self, port: u32, packet: &Packet, now: Instant, recorder: &mut Recorder) {
        self.serve(port, now, recorder);
        if self.managed[port as usize].traced {
            recorder.trace(PacketEvent::Deliver, packet, now);
        }
    }

    #[cold]
    fn offer_traced(&mut self, port: u32, packet: Packet, now: Instant, recorder: &mut Recorder) {
        // What departs before it joins goes first, so that each row shows the queue as it was.
        let mut departures = Vec::new();
        self.managed[port as usize].port.serve_before(now, recorder, |departure| departures.push(departure));
        self.depart_traced(port, &departures, recorder);
        departures.clear();
        let (dropped, first) = (recorder.dropped.len(), recorder.packets.len());
        let managed = &mut self.managed[port as usize];
        managed.port.accept(packet, now, recorder, |departure| departures.push(departure));
        if !recorder.dropped[dropped..].contains(&packet) {
            recorder.trace(PacketEvent::Enqueue, &packet, now);
        }
        // A packet that goes straight to the line has joined the queue for a moment.
        recorder.snapshot(first, managed.port.discipline(), departures.len());
        self.depart_traced(port, &departures, recorder);
    }

    #[cold]
    fn serve_traced(&mut self, port: u32, now: Instant, recorder: &mut Recorder) {
        let mut departures = Vec::new();
        self.managed[port as usize].port.serve(now, recorder, |departure| departures.push(departure));
        self.depart_traced(port, &departures, recorder);
    }

    fn depart_traced(&mut self, port: u32, departures: &[Departure], recorder: &mut Recorder) {
        let managed = &self.managed[port as usize];
        let kind = &self.link_classes[managed.link as usize];
        for (place, departure) in departures.iter().enumerate() {
            // The queue has already seen the departures that follow this one.
            let first = recorder.packets.len();
            recorder.trace(PacketEvent::Start, &departure.packet, departure.start);
            recorder.snapshot(first, managed.port.discipline(), departures.len() - 1 - place);
            let at = departure.end + kind.delay;
            self.event_queue.put_packet(kind.place, at, rank_of_link(managed.link), departure.packet);
        }
        self.managed[port as usize].arm(port, &mut self.event_queue);
    }
}

impl Managed {
    /// Sees to it that the port is served when its queue, which holds back what waits, is ready.
    fn arm(&mut self, port: u32, event_queue: &mut EventQueue) {
        if let Some(at) = self.port.held_until()
            && at < self.timer_at
        {
            self.timer_at = at;
            let timer = Timer::Port(port);
            event_queue.put_timer(at, rank_of_timer(timer, 0), timer);
        }
    }
}

impl Network for LaneNetwork {
    #[inline]
    fn send(&mut self, packet: Packet, now: Instant, recorder: &mut Recorder) {
        self.forward(packet, now, recorder);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.event_queue.put_held(until, packet);
    }

    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.event_queue.put_timer(at, rank_of_timer(timer, flow), timer);
    }

    #[inline]
    fn next(&mut self, until: Instant, recorder: &mut Recorder) -> Option<(Instant, HostEvent)> {
        loop {
            let (now, event) = self.event_queue.next(until)?;
            let mut packet = match event {
                Event::Packet(packet) => packet,
                Event::Held(packet) => return Some((now, HostEvent::Processed(packet))),
                Event::Timer(Timer::Port(port)) => {
                    let timer_at = &mut self.managed[port as usize].timer_at;
                    if *timer_at == now {
                        *timer_at = Instant::NEVER;
                    }
                    self.serve(port, now, recorder);
                    continue;
                }
                Event::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
            };
            if self.many
                && let Some(far) = self.event_queue.ahead(FAR)
            {
                prefetch(&self.hops, far.hop as usize);
                recorder.payloads.prefetch(far.id);
            }
            let step = &self.hops[packet.hop as usize];
            if step.end == End::Host {
                return Some((now, HostEvent::Arrived(packet)));
            }
            if let Owner::Port(port) = self.link_classes[step.kind as usize].owner {
                self.leave(port, &packet, now, recorder);
            }
            packet.hop += 1;
            self.forward(packet, now, recorder);
        }
    }

    fn catch_up(&mut self, now: Instant, recorder: &mut Recorder) {
        for port in 0..self.managed.len() {
            self.serve(port as u32, now, recorder);
        }
    }

    fn snapshot(&mut self, now: Instant) -> Vec<LinkSnapshot> {
        self.managed.iter_mut().map(|managed| snapshot_of(&mut managed.port, now)).collect()
    }

    fn classes(&self, now: Instant) -> Vec<Classes> {
        self.managed.iter().map(|managed| classes_of(managed.port.discipline(), now)).collect()
    }

    fn edge_snapshots(&mut self, now: Instant) -> Vec<EdgeSnapshot> {
        self.edges.snapshot(now)
    }

    fn ahead(&self) -> Option<&Packet> {
        if self.many { self.event_queue.ahead(NEAR) } else { None }
    }

    fn events(&self) -> u64 {
        self.event_queue.taken()
    }
}

fn snapshot_of(port: &mut Port, now: Instant) -> LinkSnapshot {
    let counters = port.counters(now);
    let queue = port.discipline();
    LinkSnapshot {
        counters,
        backlog: queue.backlog(),
        average: gauge(queue, "average"),
        probability: gauge(queue, "probability"),
        max_p: gauge(queue, "max_p"),
        active_flows: gauge(queue, "active_flows"),
    }
}
