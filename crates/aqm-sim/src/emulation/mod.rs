//! The network of a plan between hosts outside: packets come in when somebody else's clock says so, pass the same
//! links, queues and edges as in a simulation, and go out again.
//!
//! Whoever holds an [`Emulation`] has the clock and the packets. It hands in what the headers of a packet say
//! ([`Emulation::enter`]), keeps the packet itself under the number it gets back, and lets time go on
//! ([`Emulation::advance`]): whatever is due by then happens at its own instant, however late that is found out. So
//! a line keeps its rate, and a queue sees the same moments as in a simulation, though packets are handed over a
//! little late. [`Emulation::next_due`] says when to come back.
//!
//! Hosts have no `host.jitter` here: real ones take their own time.

mod finish;
mod flow;
mod in_order;
#[cfg(test)]
mod tests;

use aqm_net::watch::View;
use aqm_net::{Ecn, Instant, Packet, Span};
use aqm_queue::{Gauge, Label, Protocol, QueueDiscipline, Reason};
use aqm_traffic::Transfer;

use crate::engine::event::Timer;
use crate::network::payloads::{Contents as Stored, Payload};
use crate::network::transit::{self, InTransit};
use crate::network::{HostEvent, LaneNetwork, Network};
use crate::results::measurement::{RunRecord, measure, sample, schedule, view};
use crate::results::recorder::Recorder;
use crate::scenario::links::{managed, managed_numbers};
use crate::scenario::plan::Plan;
use flow::HostFlow;

pub use crate::hosts::side::Side;
pub use flow::EndCounts;

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub enum Contents {
    /// A segment of TCP. Sequence numbers count from zero at the first byte of each direction.
    Segment(aqm_tcp::Segment),
    /// The last segment of a connection that is given up.
    Reset,
    /// A datagram.
    Datagram,
}

/// A flow between the ends of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The position of the workload.
    pub traffic: u32,
    /// Which of its hosts it is between.
    pub host: u32,
    /// Whether it is a connection of TCP.
    pub connection: bool,
    /// What each packet takes longer between each end, by [`Side`], and its router, in each direction.
    pub further_delays: [Span; 2],
    /// When it is opened.
    pub at: Instant,
}

/// A packet that comes from a host.
#[derive(Clone, Copy, Debug)]
pub struct Entering {
    /// Its flow, as [`Emulation::open_flow`] named it.
    pub flow: u32,
    /// The end of the flow that it travels to.
    pub to: Side,
    /// What it carries.
    pub contents: Contents,
    /// Bytes of IP; the header of the link comes on top.
    pub bytes: u16,
    /// ECN bits.
    pub ecn: Ecn,
    /// The sender's window in segments; 0 if the packet does not tell.
    pub cwnd: u16,
    /// The number of its label.
    pub label: u16,
}

/// A packet that reaches its host.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The number that [`Emulation::enter`] gave it; it is used again.
    pub id: u32,
    /// The position of the workload of its flow.
    pub traffic: u32,
    /// Its flow.
    pub flow: u32,
    /// The end of the flow where it is.
    pub to: Side,
    /// ECN bits, as the queues left them.
    pub ecn: Ecn,
    /// When it is due there.
    pub due: Instant,
}

/// What a queue did to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// The number of the link of the queue, by [`Emulation::queues`].
    pub link: u32,
    /// Why.
    pub why: Reason,
    /// When.
    pub at: Instant,
    /// The queue's gauge `average` then, if it has one.
    pub average: Option<f64>,
}

/// A queue that decides about packets.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    /// The number of its link.
    pub link: u32,
    /// The name of its link.
    pub name: &'a str,
    /// The unit of its gauge `average`, if it has one.
    pub average_unit: Option<&'static str>,
}

/// The hosts outside, as far as the network knows them.
pub trait Hosts {
    /// A packet reaches its host.
    fn deliver(&mut self, delivery: Delivery);

    /// A queue dropped the packet of this number, which is used again, on its way to this end of a flow of the workload
    /// at position `traffic`.
    fn dropped(&mut self, id: u32, traffic: u32, to: Side, fate: Fate);

    /// A queue marked the packet of this number.
    fn marked(&mut self, id: u32, fate: Fate);
}

/// A transfer that was asked of a host, and the flow that carried it.
#[derive(Clone, Debug)]
pub struct Carried {
    /// What was asked for.
    pub transfer: Transfer,
    /// The flow.
    pub flow: u32,
    /// What its ends have counted.
    pub ends: EndCounts,
    /// Of a conversation, the exchanges whose request was sent, in turn; empty for anything else.
    pub exchanges: Vec<CarriedExchange>,
}

/// A request and its response, as the client has seen them.
#[derive(Clone, Copy, Debug)]
pub struct CarriedExchange {
    /// Bytes of the response.
    pub response: u64,
    /// When the client sent the request.
    pub asked: Instant,
    /// When it had the first byte of the response.
    pub first_byte: Option<Instant>,
    /// When it had the last one.
    pub done: Option<Instant>,
}

/// The state of the sender of a flow, as its kernel tells it.
#[derive(Clone, Copy, Debug)]
pub struct SenderState {
    /// When.
    pub at: Instant,
    /// The flow.
    pub flow: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow-start threshold, in segments, if there is one yet.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, if there is one yet.
    pub srtt: Option<Span>,
    /// Retransmission timeout.
    pub rto: Span,
}

/// The network of a plan, running.
pub struct Emulation {
    plan: Plan,
    net: LaneNetwork,
    transit: InTransit,
    flows: Vec<HostFlow>,
    /// By workload.
    flows_opened: Vec<u64>,
    /// The numbers of the managed links.
    managed: Vec<u32>,
    /// The next label without a meaning.
    next_label: u16,
    /// What the link adds to each packet, in bytes.
    link_header: u16,
    now: Instant,
    record: RunRecord,
}

impl Emulation {
    /// The network of `plan`, idle. The workloads of the plan are somebody else's business.
    pub fn new(plan: &Plan) -> Self {
        let scenario = &plan.scenario;
        let mut net = LaneNetwork::in_order(plan);
        schedule(&mut net, scenario);
        Self {
            net,
            transit: InTransit::new(Recorder::of(scenario)),
            flows: Vec::new(),
            flows_opened: vec![0; scenario.traffic.len()],
            managed: managed_numbers(&scenario.links),
            next_label: scenario.traffic.len() as u16,
            // Scenarios with more are refused.
            link_header: scenario.link_header.bytes() as u16,
            now: Instant::START,
            record: RunRecord::new(&plan.scenario.record),
            plan: plan.clone(),
        }
    }

    /// When the run ends.
    pub fn end(&self) -> Instant {
        Instant::START + self.plan.scenario.duration
    }

    /// Opens a flow; returns its number.
    pub fn open_flow(&mut self, opening: &Opening) -> u32 {
        let Opening { traffic, host, further_delays, .. } = *opening;
        let (scenario, position) = (&self.plan.scenario, traffic as usize);
        let one = &scenario.traffic[position];
        let extra_delay = one.extra_delay(scenario.seed, self.flows_opened[position]);
        // Both ways at once, as in a simulation: when a packet arrives.
        let extra_delay = further_delays.map(|further| extra_delay + further.saturating_mul(2));
        self.flows_opened[position] += 1;
        // Programs may use any address.
        let last = u32::try_from(one.config.hosts().saturating_sub(1)).unwrap_or(u32::MAX);
        let host = if one.config.own_hosts() { host.min(last) } else { 0 };
        let first_hop = self.plan.topology.routes[position].first_hops(host);
        let number = self.flows.len() as u32;
        self.flows.push(HostFlow::new(number, opening, first_hop, extra_delay));
        number
    }

    /// When a flow was opened.
    pub fn opened_at(&self, flow: u32) -> Instant {
        self.flows[flow as usize].opened
    }

    /// The least time from a host to another and back without queues, of all workloads, and the longest that a full
    /// packet of `bytes` on the wire takes on a managed link, or at the rate of the shaper before it.
    pub fn scales(&self, bytes: u64) -> [Span; 2] {
        let outlets =
            managed(&self.plan.scenario.links).map(|(_, link, queue)| queue.config.outlet(link.rate));
        let topology = &self.plan.topology;
        let slowest = outlets.min().unwrap_or(topology.slowest_managed());
        [topology.least_round_trip(), slowest.pace().time_for(bytes)]
    }

    /// Packets that the first managed link has sent.
    pub fn forwarded(&self) -> u64 {
        self.net.glance().first().map_or(0, |snapshot| snapshot.counters.departures)
    }

    /// A label for packets of the workload at position `traffic` with headers that its own label, whose number is
    /// that position, does not describe; nothing if all numbers are taken.
    pub fn new_label(&mut self, traffic: u32, protocol: Protocol, port: u16, dscp: u8) -> Option<u16> {
        let number = self.next_label;
        self.next_label = number.checked_add(1)?;
        let workload = self.plan.scenario.traffic[traffic as usize].name.clone();
        self.net.tell_label(number, &Label { traffic: workload, protocol, port, dscp });
        self.transit.recorder.add_label(traffic);
        Some(number)
    }

    /// A packet enters the network at `now`, which must not lie before any moment it was told of; returns the
    /// packet's number, which is its own until it is delivered or dropped.
    pub fn enter(&mut self, entering: Entering, now: Instant) -> u32 {
        debug_assert!(now >= self.now, "time goes on");
        self.now = now;
        let Entering { flow, to, contents, bytes, ecn, cwnd, label } = entering;
        let bytes = bytes.saturating_add(self.link_header);
        let host_flow = &mut self.flows[flow as usize];
        let stored = match contents {
            Contents::Segment(mut segment) => {
                if host_flow.segment_enters(&segment, to) {
                    segment.flags = segment.flags.union(aqm_tcp::Flags::RETRANSMISSION);
                }
                Stored::Segment(segment)
            }
            Contents::Reset => {
                host_flow.reset(now);
                Stored::Segment(aqm_tcp::Segment { wire: bytes, ..aqm_tcp::Segment::default() })
            }
            Contents::Datagram => Stored::Datagram { number: host_flow.datagram_enters(to), sent: now },
        };
        let id = self.transit.payloads.put(Payload { contents: stored, slot: flow, to });
        let hop = host_flow.first_hop[to.other() as usize];
        let packet = Packet { id, flow, hop, bytes, cwnd, ecn, label, ..Packet::default() };
        self.transit.note_sent(&packet, now);
        self.net.send(packet, now, &mut self.transit);
        id
    }

    /// Lets all happen that is due by `now`.
    pub fn advance(&mut self, now: Instant, hosts: &mut impl Hosts) {
        let mut packet = Packet::default();
        while let Some((at, event)) = self.net.next(now, &mut packet, &mut self.transit) {
            // Before its host hears of a packet, somebody hears that it was marked.
            self.apply_fates(hosts);
            match event {
                HostEvent::Arrived => self.arrive(packet, at, hosts),
                HostEvent::Processed => self.deliver(&packet, at, hosts),
                HostEvent::Timer(Timer::WarmUp) => self.begin_measuring(at),
                HostEvent::Timer(Timer::Sample) => self.sample(at),
                HostEvent::Timer(timer) => unreachable!("nobody sets {timer:?}"),
            }
        }
        self.apply_fates(hosts);
        self.now = self.now.max(now);
    }

    /// Whether no packet is under way, and every connection has been told that its payload arrived, or is closed.
    pub fn is_quiet(&self) -> bool {
        self.transit.payloads.is_empty() && self.flows.iter().all(HostFlow::is_quiet)
    }

    /// No later than this something is due, if nothing enters before. It may be a little early: then nothing is due.
    pub fn next_due(&self) -> Instant {
        self.net.next_due()
    }

    /// The queues of the managed links.
    pub fn queues(&self) -> impl Iterator<Item = Queue<'_>> {
        let links = managed(&self.plan.scenario.links).zip(self.net.disciplines());
        links.map(|((number, link, _), queue)| Queue {
            link: number as u32,
            name: &link.name,
            average_unit: average(queue).and_then(|gauge| gauge.unit),
        })
    }

    /// What the managed links look like at `now`.
    pub fn view(&self, now: Instant) -> View {
        view(&self.net, &self.managed, &self.plan.scenario.links, now)
    }

    fn arrive(&mut self, packet: Packet, now: Instant, hosts: &mut impl Hosts) {
        let (slot, to) = self.transit.payloads.address(packet.id);
        let flow = &mut self.flows[slot as usize];
        let delay = flow.extra_delay[to as usize];
        let at = (now + delay).max(flow.delivered_at[to as usize]);
        flow.delivered_at[to as usize] = at;
        if at == now { self.deliver(&packet, now, hosts) } else { self.net.hold(packet, at) }
    }

    fn deliver(&mut self, packet: &Packet, now: Instant, hosts: &mut impl Hosts) {
        self.transit.note_arrived(packet, now);
        let Payload { contents, slot, to } = self.transit.payloads.take(packet.id);
        let flow = &mut self.flows[slot as usize];
        match contents {
            Stored::Segment(segment) => flow.segment_arrives(&segment, to, packet.class, now),
            Stored::Datagram { sent, .. } => flow.datagram_arrives(packet.bytes, sent, to, now),
        }
        let traffic = flow.traffic;
        hosts.deliver(Delivery { id: packet.id, traffic, flow: slot, to, ecn: packet.ecn, due: now });
    }

    fn apply_fates(&mut self, hosts: &mut impl Hosts) {
        let average_at = |link: u32| {
            let position = self.managed.iter().position(|&number| number == link)?;
            average(self.net.disciplines().nth(position)?).map(|gauge| gauge.value)
        };
        // Marks first: a packet that was marked at one link may have been dropped at the next.
        for transit::Fate { packet, slot, to, link, why, at } in self.transit.fates.marked.drain(..) {
            self.flows[slot as usize].packet_marked(to);
            hosts.marked(packet.id, Fate { link, why, at, average: average_at(link) });
        }
        for transit::Fate { packet, slot, to, link, why, at } in self.transit.fates.dropped.drain(..) {
            self.transit.payloads.take(packet.id);
            let flow = &mut self.flows[slot as usize];
            flow.packet_dropped(to);
            hosts.dropped(packet.id, flow.traffic, to, Fate { link, why, at, average: average_at(link) });
        }
    }

    fn begin_measuring(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        self.record.before = measure(&mut self.net, now);
        self.flows.iter_mut().for_each(HostFlow::begin_measuring);
    }

    fn sample(&mut self, now: Instant) {
        self.net.catch_up(now, &mut self.transit);
        sample(&mut self.net, &self.managed, &mut self.record, now);
        self.net.set_timer(now + self.plan.scenario.record.queue_every, 0, Timer::Sample);
    }
}

/// What a queue shows of its average length.
fn average(queue: &dyn QueueDiscipline) -> Option<Gauge> {
    let mut average = None;
    queue.gauges(&mut |gauge| average = average.or((gauge.name == "average").then_some(gauge)));
    average
}
