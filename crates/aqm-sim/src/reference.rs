//! The oracle: a plain engine with a sorted heap and an event for every transmission that ends, as
//! a textbook would write it. On scenarios without ties it must end in the same state as the fast
//! engine, bit for bit; where there are ties, both obey the same rule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use aqm_net::{Instant, Pace, Packet, Rng, Span};
use aqm_queue::{Acknowledgement, Context, Counters, Observer, QueueDiscipline, Reason};

use crate::edges::Edges;
use crate::event::{Timer, rank_of_link, rank_of_processing, rank_of_timer};
use crate::links;
use crate::managed::tell_hosts;
use crate::network::{HostEvent, LinkSnapshot, Network};
use crate::plan::Plan;
use crate::topology::{Hop, LinkClass};
use crate::transit::{InTransit, LinkObserver};

enum Event {
    LineFree(u32),
    /// The queue of a line that holds packets back may be ready.
    Ready(u32),
    AtEndOfLink(Packet),
    Processed(Packet),
    Timer(Timer),
}

/// The line is served before packets of the same instant arrive.
const LINES_FIRST: u32 = 0;
const THEN_THE_REST: u32 = 1;

enum Buffer {
    Endless(VecDeque<Packet>),
    Managed(Box<Managed>),
}

struct Managed {
    discipline: Box<dyn QueueDiscipline>,
    rng: Rng,
    counters: Counters,
    waiting: u64,
    changed_at: Instant,
    hosts: Vec<[u16; 2]>,
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
        let endless = |class: LinkClass| Link {
            buffer: Buffer::Endless(VecDeque::new()),
            pace: class.rate.pace(),
            delay: class.delay,
            busy: false,
        };
        let mut links: Vec<Link> = link_classes.into_iter().map(endless).collect();
        for (number, spec, queue) in links::managed(&scenario.links) {
            links[number].buffer = Buffer::Managed(Box::new(Managed {
                discipline: queue.prototype.clone(),
                rng: scenario.chance().named(&format!("queue/{}", spec.name), 0),
                counters: Counters::default(),
                waiting: 0,
                changed_at: Instant::START,
                hosts: topology.hosts_told_to(queue),
            }));
        }
        Self {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            links,
            hops: topology.hops().collect(),
            edges: edges.clone(),
        }
    }

    fn schedule(&mut self, at: Instant, phase: u32, rank: u32, event: Event) {
        self.heap.push(Reverse((at.nanos(), phase, rank, self.events.len())));
        self.events.push(Some(event));
    }

    fn put_on(&mut self, number: u32, mut packet: Packet, now: Instant, transit: &mut InTransit) {
        let link = &mut self.links[number as usize];
        match &mut link.buffer {
            Buffer::Endless(waiting) => waiting.push_back(packet),
            Buffer::Managed(managed) => {
                tell_hosts(&managed.hosts, &mut packet);
                let observer = transit.at_link(number, managed.counters.arrivals, false);
                managed.counters.arrivals += 1;
                managed.counters.arrived_bytes += u64::from(packet.bytes);
                managed.call(now, observer, |discipline, cx| discipline.enqueue(packet, cx));
            }
        }
        if !link.busy {
            self.transmit(number, now, transit);
        }
    }

    fn transmit(&mut self, number: u32, now: Instant, transit: &mut InTransit) {
        let link = &mut self.links[number as usize];
        let next = match &mut link.buffer {
            Buffer::Endless(waiting) => waiting.pop_front(),
            Buffer::Managed(managed) => {
                // An idle queue is not asked again before something waits.
                if !link.busy && managed.waiting == 0 {
                    return;
                }
                let observer = transit.at_link(number, managed.counters.arrivals, false);
                let next = managed.call(now, observer, |discipline, cx| discipline.dequeue(cx));
                let ready = managed.discipline.next_ready().filter(|_| next.is_none() && managed.waiting > 0);
                if let Some(at) = ready {
                    link.busy = false;
                    return self.schedule(at, LINES_FIRST, number, Event::Ready(number));
                }
                if let Some(packet) = next {
                    managed.counters.departures += 1;
                    managed.counters.departed_bytes += u64::from(packet.bytes);
                }
                next
            }
        };
        link.busy = next.is_some();
        if let Some(packet) = next {
            let end = now + link.pace.time_for(packet.bytes.into());
            let arrival = end + link.delay;
            self.schedule(end, LINES_FIRST, number, Event::LineFree(number));
            self.schedule(arrival, THEN_THE_REST, rank_of_link(number), Event::AtEndOfLink(packet));
        }
    }
}

impl Managed {
    fn call<R>(
        &mut self,
        now: Instant,
        observer: LinkObserver<'_>,
        act: impl FnOnce(&mut dyn QueueDiscipline, &mut Context<'_>) -> R,
    ) -> R {
        self.counters.packet_nanos +=
            u128::from(self.waiting) * u128::from(now.since(self.changed_at).nanos());
        self.changed_at = now;
        let mut tally = Tally { counters: &mut self.counters, observer };
        let mut cx = Context { now, rng: &mut self.rng, observer: &mut tally };
        let result = act(self.discipline.as_mut(), &mut cx);
        self.waiting = self.discipline.backlog().packets;
        result
    }
}

struct Tally<'a> {
    counters: &'a mut Counters,
    observer: LinkObserver<'a>,
}

impl Observer for Tally<'_> {
    fn dropped(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.counters.drops += 1;
        self.counters.drops_by_reason[why as usize] += 1;
        self.counters.dropped_bytes += u64::from(packet.bytes);
        self.observer.dropped(packet, why, now);
    }
    fn marked(&mut self, packet: &Packet, why: Reason, now: Instant) {
        self.counters.marks += 1;
        self.observer.marked(packet, why, now);
    }
    fn acknowledgement(&self, packet: &Packet) -> Option<Acknowledgement> {
        self.observer.acknowledgement(packet)
    }
}

impl Network for ReferenceNetwork {
    fn send(&mut self, packet: Packet, now: Instant, transit: &mut InTransit) {
        self.put_on(self.hops[packet.hop as usize].link, packet, now, transit);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        self.schedule(until, THEN_THE_REST, rank_of_processing(packet.flow), Event::Processed(packet));
    }

    fn set_timer(&mut self, at: Instant, flow: u32, timer: Timer) {
        self.schedule(at, THEN_THE_REST, rank_of_timer(timer, flow), Event::Timer(timer));
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
            match self.events[index].take().expect("an event happens once") {
                Event::LineFree(link) => self.transmit(link, now, transit),
                Event::Ready(link) if !self.links[link as usize].busy => self.transmit(link, now, transit),
                Event::Ready(_) => {}
                Event::Timer(timer) => return Some((now, HostEvent::Timer(timer))),
                Event::Processed(processed) => {
                    *packet = processed;
                    return Some((now, HostEvent::Processed));
                }
                Event::AtEndOfLink(mut arriving) => {
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
            managed.counters.packet_nanos +=
                u128::from(managed.waiting) * u128::from(now.since(managed.changed_at).nanos());
            managed.changed_at = now;
            let backlog = managed.discipline.backlog();
            snapshots.push(LinkSnapshot { counters: managed.counters, backlog });
        }
        snapshots
    }

    fn glance(&self) -> Vec<LinkSnapshot> {
        let managed = self.links.iter().filter_map(|link| match &link.buffer {
            Buffer::Managed(managed) => Some(managed.as_ref()),
            Buffer::Endless(_) => None,
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
            Buffer::Endless(_) => None,
        })
    }

    fn edges(&mut self) -> &mut Edges {
        &mut self.edges
    }

    fn events(&self) -> u64 {
        self.events.len() as u64
    }
}

mod tests;
