//! Links that carry packets from host to host: one event for each packet and link.
//!
//! A link knows when it is free, and that is all it needs: the moment a packet is put on it, the
//! moment of its arrival is known. Only a link with a queue discipline owns a [`Port`], which
//! catches up whenever a packet arrives at it or from it.

use std::collections::BTreeSet;

use aqm_net::{Backlog, Instant, Pace, Packet, Span, Streams};
use aqm_queue::{Counters, Departure, Port, Ties};

use crate::agenda::{Agenda, Alarm, Event, rank_of_alarm, rank_of_link, rank_of_processing};
use crate::ledger::{Ledger, PacketEvent, gauge};
use crate::scenario::Scenario;
use crate::topology::{HOST, Line, Topology};

/// Something the hosts and workloads must hear of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A packet reached its host.
    Arrived(Packet),
    /// A host is through with a packet it was given to [`hold`](Network::hold).
    Processed(Packet),
    /// An alarm is due.
    Alarm(Alarm),
}

/// What one sees of a managed link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub(crate) counters: Counters,
    pub(crate) backlog: Backlog,
    pub(crate) average: Option<f64>,
    pub(crate) probability: Option<f64>,
}

/// What carries packets and keeps alarms. The hosts know no more of the engine than this, so the
/// plain engine of the tests can stand in for the fast one.
pub(crate) trait Network {
    /// Puts `packet` on the link it stands before.
    fn send(&mut self, packet: Packet, now: Instant, ledger: &mut Ledger);
    /// Keeps a packet that reached its host until the host is through with it.
    fn hold(&mut self, packet: Packet, until: Instant);
    /// Reports `alarm` at `at`; `flow` is the number of the flow it belongs to, if to one.
    fn alarm(&mut self, at: Instant, flow: u32, alarm: Alarm);
    /// Goes on to the next happening, unless it lies after `until`.
    fn next(&mut self, until: Instant, ledger: &mut Ledger) -> Option<(Instant, Happening)>;
    /// Lets every link send what it would have sent by `now`.
    fn catch_up(&mut self, now: Instant, ledger: &mut Ledger);
    /// The managed links, in the order of their numbers, up to date at `now`.
    fn look(&mut self, now: Instant) -> Vec<Look>;
    /// Events handled so far.
    fn events(&self) -> u64;
}

/// The number of a link's port, or that it has none.
const UNMANAGED: u32 = u32::MAX;

/// What links have in common: there may be four links for each flow, but only a few kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    pace: Pace,
    delay: Span,
    port: u32,
    lane: u8,
}

struct Managed {
    port: Port,
    link: u32,
    arrivals: u64,
    traced: bool,
}

/// The engine: lanes and a wheel, links that hold only when they are free.
pub(crate) struct Lazy {
    agenda: Agenda,
    /// By link: when it is free, and its kind.
    free_at: Vec<Instant>,
    kind_of: Vec<u16>,
    kinds: Vec<Kind>,
    managed: Vec<Managed>,
    hops: Vec<u32>,
}

impl Lazy {
    pub(crate) fn new(scenario: &Scenario, topology: &Topology) -> Self {
        let mut ports = vec![UNMANAGED; scenario.links.len()];
        let ties = if scenario.reverse_ties { Ties::ArrivalFirst } else { Ties::DepartureFirst };
        let mut managed = Vec::new();
        for (number, spec) in scenario.links.iter().enumerate() {
            let Some(queue) = &spec.queue else { continue };
            let discipline = queue.build(spec.rate).expect("the queue was built when the scenario was read");
            let rng = Streams::new(scenario.seed).named(&format!("queue/{}", spec.name), 0);
            ports[number] = managed.len() as u32;
            managed.push(Managed {
                port: Port::new(discipline, spec.rate, rng, ties),
                link: number as u32,
                arrivals: 0,
                traced: scenario.record.packets.contains(&spec.name),
            });
        }
        let kind = |(number, line): (usize, &Line)| Kind {
            pace: line.rate.pace(),
            delay: line.delay,
            port: ports.get(number).copied().unwrap_or(UNMANAGED),
            lane: line.lane,
        };
        let kinds: BTreeSet<Kind> = topology.lines.iter().enumerate().map(kind).collect();
        let kinds: Vec<Kind> = kinds.into_iter().collect();
        let place = |line| kinds.binary_search(&kind(line)).expect("every kind was listed") as u16;
        Self {
            agenda: Agenda::new(scenario.reverse_ties),
            free_at: vec![Instant::START; topology.lines.len()],
            kind_of: topology.lines.iter().enumerate().map(place).collect(),
            kinds,
            managed,
            hops: topology.hops.clone(),
        }
    }

    fn kind(&self, link: u32) -> Kind {
        self.kinds[self.kind_of[link as usize] as usize]
    }

    /// Puts `packet` on `link`, before which it stands.
    #[inline(always)]
    fn forward(&mut self, link: u32, packet: Packet, now: Instant, ledger: &mut Ledger) {
        let kind = &self.kinds[self.kind_of[link as usize] as usize];
        if kind.port != UNMANAGED {
            return self.offer(link, packet, now, ledger);
        }
        let free_at = &mut self.free_at[link as usize];
        *free_at = (*free_at).max(now) + kind.pace.time_for(packet.bytes.into());
        self.agenda.put_packet(kind.lane, *free_at + kind.delay, rank_of_link(link), packet);
    }

    /// Offers `packet` to the queue of a managed link.
    fn offer(&mut self, link: u32, packet: Packet, now: Instant, ledger: &mut Ledger) {
        let line = self.kind(link);
        let (delay, lane) = (line.delay, line.lane);
        let managed = &mut self.managed[line.port as usize];
        ledger.at(link, managed.arrivals);
        managed.arrivals += 1;
        if managed.traced {
            return self.offer_traced(link, packet, now, ledger);
        }
        let agenda = &mut self.agenda;
        managed.port.accept(packet, now, ledger, |departure| {
            agenda.put_packet(lane, departure.end + delay, rank_of_link(link), departure.packet);
        });
    }

    /// Lets the port of a managed link send what is due.
    fn serve(&mut self, link: u32, now: Instant, ledger: &mut Ledger) {
        let line = self.kind(link);
        let (delay, lane) = (line.delay, line.lane);
        let managed = &mut self.managed[line.port as usize];
        ledger.at(link, managed.arrivals);
        if managed.traced {
            return self.serve_traced(link, now, ledger);
        }
        let agenda = &mut self.agenda;
        managed.port.serve(now, ledger, |departure| {
            agenda.put_packet(lane, departure.end + delay, rank_of_link(link), departure.packet);
        });
    }

    /// A packet has left a managed link at its far end.
    fn leave(&mut self, link: u32, packet: &Packet, now: Instant, ledger: &mut Ledger) {
        self.serve(link, now, ledger);
        if self.managed[self.kind(link).port as usize].traced {
            ledger.trace(PacketEvent::Deliver, packet, now, None);
        }
    }

    #[cold]
    fn offer_traced(&mut self, link: u32, packet: Packet, now: Instant, ledger: &mut Ledger) {
        // Departures due by now come first, so that each row shows the queue as it was.
        self.serve_traced(link, now, ledger);
        let fallen = ledger.fallen.len();
        let mut departures = Vec::new();
        let port = self.kind(link).port;
        let managed = &mut self.managed[port as usize];
        managed.port.accept(packet, now, ledger, |departure| departures.push(departure));
        let dropped = ledger.fallen[fallen..].contains(&packet);
        // A packet that goes straight to the line has joined the queue for a moment.
        let in_service = departures.len();
        let event = if dropped { PacketEvent::Drop } else { PacketEvent::Enqueue };
        ledger.trace(event, &packet, now, Some((managed.port.discipline(), in_service)));
        self.depart_traced(link, &departures, ledger);
    }

    #[cold]
    fn serve_traced(&mut self, link: u32, now: Instant, ledger: &mut Ledger) {
        let mut departures = Vec::new();
        let port = self.kind(link).port;
        let managed = &mut self.managed[port as usize];
        managed.port.serve(now, ledger, |departure| departures.push(departure));
        self.depart_traced(link, &departures, ledger);
    }

    fn depart_traced(&mut self, link: u32, departures: &[Departure], ledger: &mut Ledger) {
        let line = self.kind(link);
        let queue = self.managed[line.port as usize].port.discipline();
        for (place, departure) in departures.iter().enumerate() {
            // The queue has already seen the departures that follow this one.
            let following = departures.len() - 1 - place;
            ledger.trace(PacketEvent::Start, &departure.packet, departure.start, Some((queue, following)));
            let at = departure.end + line.delay;
            self.agenda.put_packet(line.lane, at, rank_of_link(link), departure.packet);
        }
    }
}

impl Network for Lazy {
    #[inline]
    fn send(&mut self, packet: Packet, now: Instant, ledger: &mut Ledger) {
        self.forward(self.hops[packet.hop as usize], packet, now, ledger);
    }

    fn hold(&mut self, packet: Packet, until: Instant) {
        debug_assert_eq!(self.hops[packet.hop as usize], HOST);
        self.agenda.put_packet(crate::agenda::NO_LANE, until, rank_of_processing(packet.flow), packet);
    }

    fn alarm(&mut self, at: Instant, flow: u32, alarm: Alarm) {
        self.agenda.put_alarm(at, rank_of_alarm(alarm, flow), alarm);
    }

    #[inline]
    fn next(&mut self, until: Instant, ledger: &mut Ledger) -> Option<(Instant, Happening)> {
        loop {
            let (now, event) = self.agenda.next(until)?;
            let mut packet = match event {
                Event::Packet(packet) => packet,
                Event::Alarm(alarm) => return Some((now, Happening::Alarm(alarm))),
            };
            let link = self.hops[packet.hop as usize];
            if link == HOST {
                return Some((now, Happening::Processed(packet)));
            }
            if self.kind(link).port != UNMANAGED {
                self.leave(link, &packet, now, ledger);
            }
            packet.hop += 1;
            let next = self.hops[packet.hop as usize];
            if next == HOST {
                return Some((now, Happening::Arrived(packet)));
            }
            self.forward(next, packet, now, ledger);
        }
    }

    fn catch_up(&mut self, now: Instant, ledger: &mut Ledger) {
        for index in 0..self.managed.len() {
            self.serve(self.managed[index].link, now, ledger);
        }
    }

    fn look(&mut self, now: Instant) -> Vec<Look> {
        self.managed.iter_mut().map(|managed| look_at(&mut managed.port, now)).collect()
    }

    fn events(&self) -> u64 {
        self.agenda.taken()
    }
}

fn look_at(port: &mut Port, now: Instant) -> Look {
    let counters = port.counters(now);
    let queue = port.discipline();
    Look {
        counters,
        backlog: queue.backlog(),
        average: gauge(queue, "average"),
        probability: gauge(queue, "probability"),
    }
}
