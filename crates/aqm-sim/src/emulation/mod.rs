//! The network of a plan between external hosts. Packets enter the network at times that an external clock determines,
//! pass through the same links, queues and edges as in a simulation, and leave the network.
//!
//! The owner of an [`Emulation`] reads the clock and stores the packets. For each packet, the owner passes the packet's
//! headers to [`Emulation::enter`], which returns a number for the packet. The owner advances time with
//! [`Emulation::advance`]. Every event that is due is processed as if at its exact time, even if `advance` is called
//! late. Therefore, the rates of links are exact and queues are called with the same times as in a simulation, although
//! packets are delivered slightly late. [`Emulation::next_due`] returns the time at which `advance` should be called
//! next.
//!
//! The emulation ignores `host.jitter`, because real hosts have their own processing times.

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

/// The contents of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Contents {
    /// A TCP segment. In each direction, the first byte has the sequence number zero.
    Segment(aqm_tcp::Segment),
    /// The last segment of an aborted connection.
    Reset,
    /// A datagram.
    Datagram,
}

/// The opening of a flow between the ends of a workload.
#[derive(Clone, Copy, Debug)]
pub struct FlowOpening {
    /// Position of the flow's workload in the scenario.
    pub traffic: u32,
    /// Index of the workload's host.
    pub host: u32,
    /// Whether the flow is a TCP connection.
    pub connection: bool,
    /// Additional delay between each end and its router, by [`Side`]. The delay applies to each packet in both
    /// directions.
    pub additional_delays: [Span; 2],
    /// Time at which the flow is opened.
    pub at: Instant,
}

/// A packet from a host.
#[derive(Clone, Copy, Debug)]
pub struct EnteringPacket {
    /// Number of the flow, as returned by [`Emulation::open_flow`].
    pub flow: u32,
    /// End of the flow to which the packet travels.
    pub to: Side,
    /// Contents of the packet.
    pub contents: Contents,
    /// Length of the IP packet in bytes, without the link header.
    pub bytes: u16,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Sender's window in segments; 0 if the packet does not contain a window.
    pub cwnd: u16,
    /// Number of the packet's label.
    pub label: u16,
}

/// A packet that arrives at its host.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The packet number that [`Emulation::enter`] returned. The emulation may reuse the number for another packet.
    pub id: u32,
    /// Position of the flow's workload.
    pub traffic: u32,
    /// Number of the flow.
    pub flow: u32,
    /// End of the flow at which the packet arrives.
    pub to: Side,
    /// ECN codepoint after the packet has passed all queues.
    pub ecn: Ecn,
    /// Time at which the packet is due at the host.
    pub due: Instant,
}

/// The dropping or marking of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fate {
    /// Number of the queue's link, as returned by [`Emulation::queues`].
    pub link: u32,
    /// Reason for dropping or marking the packet.
    pub why: Reason,
    /// Time at which the packet was dropped or marked.
    pub at: Instant,
    /// Value of the queue's gauge `average` at this time, if the queue has this gauge.
    pub average: Option<f64>,
}

/// The queue of a managed link.
#[derive(Clone, Copy, Debug)]
pub struct Queue<'a> {
    /// Number of the link.
    pub link: u32,
    /// Name of the link.
    pub name: &'a str,
    /// Unit of the queue's gauge `average`, if the queue has this gauge.
    pub average_unit: Option<&'static str>,
}

/// The external hosts, to which the network reports deliveries, drops and marks.
pub trait Hosts {
    /// Handles a packet that arrives at its host.
    fn deliver(&mut self, delivery: Delivery);

    /// Is called when the packet with the number `id` is dropped. The emulation may reuse the number for another
    /// packet. The destination of the packet was the end `to` of a flow of the workload at position `traffic`.
    fn dropped(&mut self, id: u32, traffic: u32, to: Side, fate: Fate);

    /// Is called when the packet with the number `id` is marked.
    fn marked(&mut self, id: u32, fate: Fate);
}

/// A transfer requested from a host, and the flow that carried it.
#[derive(Clone, Debug)]
pub struct CarriedTransfer {
    /// The requested transfer.
    pub transfer: Transfer,
    /// Number of the flow.
    pub flow: u32,
    /// Counts that are available only at the flow's ends.
    pub ends: EndCounts,
    /// The exchanges of a conversation in order, except for exchanges whose request was not sent; empty for other
    /// transfers.
    pub exchanges: Vec<CarriedExchange>,
}

/// A request and its response, with times measured by the client.
#[derive(Clone, Copy, Debug)]
pub struct CarriedExchange {
    /// Bytes of the response.
    pub response: u64,
    /// Time at which the client sent the request.
    pub requested_at: Instant,
    /// Time at which the client received the first byte of the response.
    pub first_byte: Option<Instant>,
    /// Time at which the client received the last byte of the response.
    pub completed: Option<Instant>,
}

/// The state of a flow's sender, as reported by its kernel.
#[derive(Clone, Copy, Debug)]
pub struct SenderState {
    /// Time of the report.
    pub at: Instant,
    /// Number of the flow.
    pub flow: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments, if it is set.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, if it is known.
    pub srtt: Option<Span>,
    /// Retransmission timeout.
    pub rto: Span,
}

/// The running network of a plan.
pub struct Emulation {
    plan: Plan,
    net: LaneNetwork,
    transit: InTransit,
    flows: Vec<HostFlow>,
    /// Number of flows opened, by workload.
    flows_opened: Vec<u64>,
    /// Numbers of the managed links.
    managed: Vec<u32>,
    /// The next unused label.
    next_label: u16,
    /// Number of bytes that the link header adds to each packet.
    link_header: u16,
    /// Whether hosts are connected to their routers by access links.
    has_access_links: bool,
    now: Instant,
    record: RunRecord,
}

impl Emulation {
    /// Returns the network of `plan`, which contains no packets at first. The workloads of the plan are not run.
    pub fn new(plan: &Plan) -> Self {
        Self::of_network(plan, LaneNetwork::in_order(plan), true)
    }

    /// Returns the network of `plan` without access links. A packet enters the network at the router of its sender, and
    /// leaves the network at the router of its receiver.
    pub fn between_routers(plan: &Plan) -> Self {
        Self::of_network(plan, LaneNetwork::between_routers(plan), false)
    }

    fn of_network(plan: &Plan, mut net: LaneNetwork, has_access_links: bool) -> Self {
        let scenario = &plan.scenario;
        schedule(&mut net, scenario);
        Self {
            net,
            transit: InTransit::new(Recorder::of(scenario)),
            flows: Vec::new(),
            flows_opened: vec![0; scenario.traffic.len()],
            managed: managed_numbers(&scenario.links),
            next_label: scenario.traffic.len() as u16,
            // Scenarios with longer headers are rejected.
            link_header: scenario.link_header.bytes() as u16,
            has_access_links,
            now: Instant::START,
            record: RunRecord::new(&plan.scenario.record),
            plan: plan.clone(),
        }
    }

    /// Returns the end of the run.
    pub fn end(&self) -> Instant {
        Instant::START + self.plan.scenario.duration
    }

    /// Opens a flow and returns the number of the flow.
    pub fn open_flow(&mut self, opening: &FlowOpening) -> u32 {
        let FlowOpening { traffic, host, additional_delays, .. } = *opening;
        let (scenario, position) = (&self.plan.scenario, traffic as usize);
        let one = &scenario.traffic[position];
        let extra_delay = one.extra_delay(scenario.seed, self.flows_opened[position]);
        // As in a simulation, the delays of both directions are applied together when a packet arrives.
        let extra_delay = additional_delays.map(|additional| extra_delay + additional.saturating_mul(2));
        self.flows_opened[position] += 1;
        // Programs may use any address, so `host` may exceed the number of hosts.
        let last = u32::try_from(one.config.hosts().saturating_sub(1)).unwrap_or(u32::MAX);
        let host = if one.config.own_hosts() { host.min(last) } else { 0 };
        let first_hop = self.plan.topology.routes[position].first_hops(host);
        let number = self.flows.len() as u32;
        self.flows.push(HostFlow::new(number, opening, first_hop, extra_delay));
        number
    }

    /// Returns the time at which a flow was opened.
    pub fn opened_at(&self, flow: u32) -> Instant {
        self.flows[flow as usize].opened
    }

    /// Returns the minimum round-trip time of all workloads without queueing delay, and the maximum transmission time
    /// of a packet of `bytes` bytes, including the link header. The maximum is taken over all managed links. If a link
    /// has a shaper, the transmission time is computed from the rate of the shaper.
    pub fn scales(&self, bytes: u64) -> [Span; 2] {
        let outlets =
            managed(&self.plan.scenario.links).map(|(_, link, queue)| queue.config.outlet(link.rate));
        let topology = &self.plan.topology;
        let slowest = outlets.min().unwrap_or(topology.slowest_managed());
        [topology.least_round_trip(), slowest.pace().time_for(bytes)]
    }

    /// Returns the number of packets that the first managed link has sent.
    pub fn forwarded(&self) -> u64 {
        self.net.glance().first().map_or(0, |snapshot| snapshot.counters.departures)
    }

    /// Returns a new label for packets of the workload at position `traffic` whose headers differ from the workload's
    /// own label. (The number of a workload's own label is the position of the workload.) Returns `None` if all numbers
    /// are in use.
    pub fn new_label(&mut self, traffic: u32, protocol: Protocol, port: u16, dscp: u8) -> Option<u16> {
        let number = self.next_label;
        self.next_label = number.checked_add(1)?;
        let workload = self.plan.scenario.traffic[traffic as usize].name.clone();
        self.net.announce_label(number, &Label { traffic: workload, protocol, port, dscp });
        self.transit.recorder.add_label(traffic);
        Some(number)
    }

    /// Adds a packet to the network at `now`, which must not be earlier than the time of any previous call. Returns the
    /// packet's number, which is valid until the packet is delivered or dropped.
    pub fn enter(&mut self, entering: EnteringPacket, now: Instant) -> u32 {
        debug_assert!(now >= self.now, "time does not decrease");
        self.now = now;
        let EnteringPacket { flow, to, contents, bytes, ecn, cwnd, label } = entering;
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
        if self.has_access_links {
            self.net.send(packet, now, &mut self.transit);
        } else {
            self.net.enter_at_router(packet, now, &mut self.transit);
        }
        id
    }

    /// Processes all events that are due at or before `now`.
    pub fn advance(&mut self, now: Instant, hosts: &mut impl Hosts) {
        let mut packet = Packet::default();
        while let Some((at, event)) = self.net.next(now, &mut packet, &mut self.transit) {
            // The marks of a packet are reported before the packet is delivered.
            self.apply_fates(hosts);
            match event {
                HostEvent::Arrived => self.arrive(packet, at, hosts),
                HostEvent::Processed => self.deliver(&packet, at, hosts),
                HostEvent::Timer(Timer::WarmUp) => self.begin_measuring(at),
                HostEvent::Timer(Timer::Sample) => self.sample(at),
                HostEvent::Timer(timer) => unreachable!("an emulation does not set {timer:?}"),
            }
        }
        self.apply_fates(hosts);
        self.now = self.now.max(now);
    }

    /// Processes all transmissions that begin at or before `now`, and reports the drops and marks at these times. All
    /// events up to `now` must have been processed. Without this method, a transmission is processed shortly before its
    /// packet could reach the far end of the link. The results do not depend on calls of this method.
    pub fn settle(&mut self, now: Instant, hosts: &mut impl Hosts) {
        self.net.settle(now, &mut self.transit);
        self.apply_fates(hosts);
    }

    /// Reports the drops and marks that calls of [`enter`](Self::enter) have caused, without advancing time.
    pub fn report(&mut self, hosts: &mut impl Hosts) {
        self.apply_fates(hosts);
    }

    /// Returns whether no packet is in transit and, for every connection, the connection is closed or all payload is
    /// acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.transit.payloads.is_empty() && self.flows.iter().all(HostFlow::is_quiet)
    }

    /// Returns the time of the next event, provided that no packet enters the network before this time. The returned
    /// time may be slightly earlier than the event; in this case, no event is due at the returned time.
    pub fn next_due(&self) -> Instant {
        self.net.next_due()
    }

    /// Returns the queues of the managed links.
    pub fn queues(&self) -> impl Iterator<Item = Queue<'_>> {
        let links = managed(&self.plan.scenario.links).zip(self.net.disciplines());
        links.map(|((number, link, _), queue)| Queue {
            link: number as u32,
            name: &link.name,
            average_unit: average(queue).and_then(|gauge| gauge.unit),
        })
    }

    /// Returns the state of the managed links at `now`.
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

    #[inline]
    fn apply_fates(&mut self, hosts: &mut impl Hosts) {
        if !self.transit.fates.is_empty() {
            self.apply_new_fates(hosts);
        }
    }

    fn apply_new_fates(&mut self, hosts: &mut impl Hosts) {
        let average_at = |link: u32| {
            let position = self.managed.iter().position(|&number| number == link)?;
            average(self.net.disciplines().nth(position)?).map(|gauge| gauge.value)
        };
        // Marks are reported before drops, because a packet that was marked at one link may have been dropped at the
        // next link.
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

/// Returns the gauge `average` of a queue, if the queue has this gauge.
fn average(queue: &dyn QueueDiscipline) -> Option<Gauge> {
    let mut average = None;
    queue.gauges(&mut |gauge| average = average.or((gauge.name == "average").then_some(gauge)));
    average
}
