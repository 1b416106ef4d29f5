//! The world of a run: hosts, flows and workloads on a network, from the first to the last event of the run.

mod datagrams;
mod flows;
mod guests;
mod sampling;
mod streams;
mod traffic_context;

use std::collections::BTreeMap;
use std::sync::Arc;

use aqm_guest::Provider;
use aqm_net::level::Failure;
use aqm_net::watch::{StopRequest, Watch};
use aqm_net::{Instant, Packet, Rng, Span};
use aqm_queue::edge::LONG;
use aqm_tcp::CheckedConfig;
use aqm_traffic::Workload;

use crate::engine::event::Timer;
use crate::engine::event_queue::Upcoming;
use crate::engine::huge_pages::prefer_huge_pages;
use crate::engine::prefetch::{prefetch_part, prefetch_value};
use crate::hosts::conversation::ConversationState;
use crate::hosts::flow::{Ends, Exchanging, Flow};
use crate::hosts::host_delays::HostDelays;
use crate::hosts::pages::Pages;
use crate::hosts::side::Side;
use crate::network::payloads::{Contents, Payload};
use crate::network::transit::InTransit;
use crate::network::{HostEvent, NEAR, NEXT, Network};
use crate::results::measurement::{RunRecord, measure, qdiscs, schedule};
use crate::results::recorder::Recorder;
use crate::scenario::Scenario;
use crate::scenario::links::managed_numbers;
use crate::scenario::plan::Plan;
use crate::scenario::topology::Topology;
use crate::scenario::traffic::Traffic;
use traffic_context::Action;

/// A workload and the state of its flows.
struct WorkloadState {
    workload: Box<dyn Workload>,
    /// Slots of the datagram streams, by sending side and stream number.
    streams: [Vec<Option<u32>>; 2],
    /// Slots of the open conversations to which the workload may append exchanges, by conversation number.
    conversations: BTreeMap<u32, u32>,
    flows_opened: u64,
    /// Whether the senders of the workload's flows are sampled.
    sampled: bool,
    /// Whether the workload handles the arrival of its datagrams.
    observes_datagrams: bool,
}

/// A run in progress.
pub(crate) struct World<'a, N> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    net: N,
    transit: InTransit,
    /// TCP configuration, by workload.
    tcp: Vec<Arc<CheckedConfig>>,
    flows: Vec<Flow>,
    /// Time at which the sender received the acknowledgement of the whole transfer, by slot; `NEVER` before this time.
    /// The times are not stored in [`Flow`], because the size of [`Flow`] is limited.
    acknowledged: Vec<Instant>,
    /// Slots that are free.
    free: Vec<u32>,
    next_flow: u32,
    workloads: Vec<WorkloadState>,
    actions: Vec<Action>,
    pages: Pages,
    /// Whether the warm-up is over.
    measuring: bool,
    jitter: Rng,
    /// Whether any host has jitter, or any flow has an additional delay.
    hosts_take_time: bool,
    delays: HostDelays,
    /// Ring buffer of the flow ends that were prefetched for the events between `NEXT` and `NEAR` positions ahead of
    /// the current event.
    near: [Option<(u32, Side)>; NEAR - NEXT],
    turn: usize,
    /// Numbers of the managed links.
    managed: Vec<u32>,
    record: RunRecord,
    guests: &'static dyn Provider,
    /// The request to stop the run, for guests.
    stop: StopRequest,
    /// The error with which a workload ended the run.
    failure: Option<Failure>,
    /// End of the run; the start of the run after a failure, so that no further event is handled.
    end: Instant,
}

impl<'a, N: Network> World<'a, N> {
    pub(crate) fn new(plan: &'a Plan, net: N) -> Self {
        let scenario = &plan.scenario;
        let workloads = scenario.traffic.iter().zip(&plan.workloads).map(|(one, workload)| WorkloadState {
            workload: workload.clone(),
            streams: [Vec::new(), Vec::new()],
            conversations: BTreeMap::new(),
            flows_opened: 0,
            sampled: scenario.record.senders.contains(&one.name),
            observes_datagrams: one.config.observes_datagrams(),
        });
        // If each flow has its own host, all flows will eventually be open at the same time, so their memory is
        // reserved at the start.
        let flows = Vec::with_capacity(scenario.traffic.iter().map(|one| one.config.hosts() as usize).sum());
        prefer_huge_pages(&flows);
        Self {
            scenario,
            topology: &plan.topology,
            net,
            transit: InTransit::new(Recorder::of(scenario)),
            tcp: scenario.traffic.iter().map(|one| Arc::clone(&scenario.tcp_of(one).checked)).collect(),
            flows,
            acknowledged: Vec::new(),
            free: Vec::new(),
            next_flow: 0,
            workloads: workloads.collect(),
            actions: Vec::new(),
            pages: Pages::default(),
            measuring: false,
            jitter: scenario.chance().named("host/jitter", 0),
            hosts_take_time: !scenario.jitter.is_zero() || scenario.traffic.iter().any(Traffic::delays_flows),
            delays: HostDelays::default(),
            near: [None; NEAR - NEXT],
            turn: 0,
            managed: managed_numbers(&scenario.links),
            record: RunRecord::new(&scenario.record),
            guests: plan.guests,
            stop: StopRequest::default(),
            failure: None,
            end: Instant::START + scenario.duration,
        }
    }

    /// Executes the run to its end, unless `watch` stops the run or a workload fails.
    pub(crate) fn run(mut self, watch: &Watch) -> Result<RunRecord, Failure> {
        self.stop = watch.stop_request();
        schedule(&mut self.net, self.scenario);
        for position in 0..self.workloads.len() as u32 {
            self.call_workload(position, Instant::START, |workload, cx| workload.start(cx));
        }
        let (mut steps, mut packet) = (0, Packet::default());
        while let Some((now, event)) = self.net.next(self.end, &mut packet, &mut self.transit) {
            watch.check_at(steps, || now.nanos())?;
            steps += 1;
            self.step(now, event, &packet, watch);
        }
        let end = Instant::START + self.scenario.duration;
        for position in 0..self.workloads.len() as u32 {
            self.call_workload(position, end, |workload, cx| workload.on_end(cx));
        }
        if let Some(failure) = self.failure {
            // A guest that is called after the stop reports a failure.
            watch.check_now()?;
            return Err(failure);
        }
        watch.reach(end.nanos());
        Ok(self.finish(end))
    }

    /// Handles an event. Handlers of rare events are not inlined, so that the compiler can keep the state of the loop over
    /// all events in registers.
    fn step(&mut self, now: Instant, event: HostEvent, packet: &Packet, watch: &Watch) {
        if self.net.looks_ahead() {
            self.look_ahead();
        }
        match event {
            HostEvent::Arrived => self.on_arrival(packet, now),
            HostEvent::Processed => self.on_packet(packet, now),
            HostEvent::Timer(Timer::End(side, slot)) => self.on_end_timer(side, slot, now),
            HostEvent::Timer(Timer::Conversation(slot)) => self.on_conversation_timer(slot, now),
            HostEvent::Timer(Timer::Workload(position)) => self.on_workload_timer(position, now),
            HostEvent::Timer(Timer::WarmUp) => self.begin_measuring(now),
            HostEvent::Timer(Timer::Sample) => self.sample(now, watch),
        }
        if !self.transit.fates.is_empty() {
            self.apply_fates();
        }
    }

    /// Prefetches the data that the next events will access.
    #[inline(never)]
    fn look_ahead(&mut self) {
        let near = self.net.ahead(NEAR).and_then(|event| self.end_needed(event));
        if let Some((slot, side)) = near {
            for part in Flow::parts(side) {
                prefetch_part(&self.flows, slot as usize, part);
            }
        }
        let turn = self.turn % self.near.len();
        self.turn += 1;
        if let Some((slot, side)) = std::mem::replace(&mut self.near[turn], near) {
            let flow = &self.flows[slot as usize];
            self.net.prefetch_hop(flow.first_hop[side as usize]);
            if let Ends::Tcp(ends) = &flow.ends
                && let Some(state) = ends[side as usize].sending_state()
            {
                prefetch_value(state);
            }
        }
    }

    /// Returns the slot and the end of the flow that an event will access, if any. An arriving packet does not access
    /// its flow yet if the host will process the packet only later.
    #[inline(always)]
    fn end_needed(&self, event: Upcoming<'_>) -> Option<(u32, Side)> {
        match event {
            Upcoming::Packet(packet) if self.hosts_take_time => {
                self.delays.prefetch(self.transit.payloads.address(packet.id).0);
                None
            }
            Upcoming::Packet(packet) | Upcoming::Processed(packet) => {
                Some(self.transit.payloads.address(packet.id))
            }
            Upcoming::Timer(&Timer::End(side, slot)) => Some((slot, side)),
            Upcoming::Timer(_) => None,
        }
    }

    /// Handles a packet that arrives at its host. The host processes packets in order of arrival, and each packet takes
    /// some processing time.
    fn on_arrival(&mut self, packet: &Packet, now: Instant) {
        if !self.hosts_take_time {
            return self.on_packet(packet, now);
        }
        let (slot, side) = self.transit.payloads.address(packet.id);
        let jitter = self.scenario.jitter.nanos() as f64 * self.jitter.uniform();
        let processed_at = self.delays.processed_at((slot, side), now, Span::from_nanos(jitter as u64));
        self.net.hold(*packet, processed_at);
    }

    /// Handles a packet after its host has processed the packet.
    #[inline(never)]
    fn on_packet(&mut self, packet: &Packet, now: Instant) {
        self.transit.note_arrived(packet, now);
        let Payload { contents, slot, to } = self.transit.payloads.take(packet.id);
        let mut segment = match contents {
            Contents::Segment(segment) => segment,
            Contents::Datagram { number, sent } => {
                return self.on_datagram(packet, (slot, to), (number, sent), now);
            }
        };
        segment.ecn = packet.ecn;
        let flow = &mut self.flows[slot as usize];
        flow.in_flight -= 1;
        let goal = flow.goal;
        let Ends::Tcp(ends) = &mut flow.ends else { unreachable!("a segment belongs to a connection") };
        ends[to as usize].on_segment(&segment, now);
        if flow.exchanging == Exchanging::Streams {
            return self.on_stream_segment((to, slot), &{ segment }, packet.class == LONG, now);
        }
        if to == Side::Receiver {
            if packet.class == LONG {
                flow.long += 1;
            }
            let receiver = &mut ends[Side::Receiver as usize];
            let completed = flow.completed == Instant::NEVER && receiver.received() >= goal;
            let has_next = completed && flow.cold.as_ref().is_some_and(|cold| cold.has_next());
            if completed && !has_next {
                receiver.finish();
            }
            if flow.first_byte == Instant::NEVER && segment.len > 0 {
                flow.first_byte = now;
            }
            flow.pump::<false>((Side::Receiver, slot), now, &mut self.net, &mut self.transit);
            if completed {
                flow.completed = now;
                self.on_completion(slot, now);
                if has_next {
                    return self.begin_next_exchange(slot, now);
                }
                self.forget_number(slot);
                return self.retire_if_over(slot);
            }
        } else {
            let received = ends[Side::Sender as usize].received();
            if flow.exchanging == Exchanging::AwaitsRequest
                && Some(received) >= flow.transfer.request().map(u64::from)
            {
                flow.on_request(slot, now, &mut self.net);
            }
            if flow.completed != Instant::NEVER && flow.is_acknowledged() {
                let since = &mut self.acknowledged[slot as usize];
                *since = now.min(*since);
            }
            flow.pump::<false>((Side::Sender, slot), now, &mut self.net, &mut self.transit);
            if flow.sampled {
                self.sample_sender(slot, now);
                return self.retire_if_over(slot);
            }
        }
        if flow.is_over() {
            self.retire(slot);
        }
    }

    #[inline(never)]
    fn on_end_timer(&mut self, side: Side, slot: u32, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        if flow.is_due(side, slot, now, &mut self.net) {
            let Ends::Tcp(ends) = &mut flow.ends else { return };
            ends[side as usize].on_timer(now);
            flow.pump_seldom((side, slot), now, &mut self.net, &mut self.transit);
            let awaits = |flow: &Flow| match flow.multiplexing() {
                Some(state) => !state.is_over(),
                None => {
                    flow.completed == Instant::NEVER || flow.cold.as_ref().is_some_and(|cold| cold.has_next())
                }
            };
            let failed = flow.closed == now && awaits(flow);
            if side == Side::Sender && flow.sampled {
                self.sample_sender(slot, now);
            }
            if failed {
                self.on_failure(slot, now);
            }
        }
        self.retire_if_over(slot);
    }

    #[inline(never)]
    fn on_workload_timer(&mut self, position: u32, now: Instant) {
        self.call_workload(position, now, |workload, cx| workload.on_wake(cx));
    }

    #[inline(never)]
    fn on_conversation_timer(&mut self, slot: u32, now: Instant) {
        // Drops before this time belong to the previous exchange, so they are reported before the next exchange begins.
        self.catch_up(now);
        let flow = &mut self.flows[slot as usize];
        if flow.exchanging == Exchanging::Streams {
            return self.on_stream_timer(slot, now);
        }
        let side = flow.on_conversation_timer(now);
        flow.pump_seldom((side, slot), now, &mut self.net, &mut self.transit);
        self.retire_if_over(slot);
    }

    /// Handles the end of an exchange of a conversation that has, or may have, further exchanges.
    #[inline(never)]
    fn begin_next_exchange(&mut self, slot: u32, now: Instant) {
        self.catch_up(now);
        self.write_transfer_row(slot);
        self.begin_exchange(slot, now);
    }

    /// Begins the next exchange of a conversation. If no further exchange follows, the client closes the connection.
    fn begin_exchange(&mut self, slot: u32, now: Instant) {
        let flow = &mut self.flows[slot as usize];
        flow.begin_next_exchange(slot, now, &mut self.net);
        if flow.exchanging == Exchanging::AwaitsRequest {
            self.pages.open(flow.traffic, &flow.transfer.into(), now);
        } else if !flow.conversation().is_some_and(ConversationState::has_next) {
            self.hang_up(slot, now);
        }
    }

    /// Closes a conversation in which no response is pending.
    fn hang_up(&mut self, slot: u32, now: Instant) {
        self.forget_number(slot);
        let flow = &mut self.flows[slot as usize];
        if let Ends::Tcp(ends) = &mut flow.ends {
            ends[Side::Receiver as usize].finish();
        }
        flow.pump_seldom((Side::Receiver, slot), now, &mut self.net, &mut self.transit);
        self.retire_if_over(slot);
    }

    /// Removes the number of a conversation, so that the number is no longer valid.
    #[inline(never)]
    fn forget_number(&mut self, slot: u32) {
        let flow = &self.flows[slot as usize];
        if let Some(number) = flow.workload_number() {
            self.workloads[flow.traffic as usize].conversations.remove(&number);
        }
    }

    /// Handles the completion of a transfer, that is, the arrival of the last missing payload.
    #[inline(never)]
    fn on_completion(&mut self, slot: u32, now: Instant) {
        let flow = &self.flows[slot as usize];
        if flow.conversation().is_some_and(ConversationState::is_handshake) {
            return;
        }
        let (traffic, transfer) = (flow.traffic, flow.transfer.into());
        let number = flow.workload_number();
        if let Some(row) = self.pages.complete(traffic, &transfer, now) {
            self.record.write_page(row);
        }
        let Some(number) = number else {
            return self.call_workload(traffic, now, |workload, cx| workload.on_done(transfer, cx));
        };
        self.call_workload(traffic, now, |workload, cx| workload.on_response(number, cx));
    }

    fn finish(mut self, end: Instant) -> RunRecord {
        self.catch_up(end);
        self.record.after = measure(&mut self.net, end);
        self.record.qdiscs = qdiscs(&mut self.net, self.scenario, end);
        let mut idle = vec![false; self.flows.len()];
        for &slot in &self.free {
            idle[slot as usize] = true;
        }
        for slot in 0..self.flows.len() as u32 {
            if !idle[slot as usize] {
                self.write_rows(slot);
            }
        }
        let (calls, frames) = self.call_rows();
        let (probes, probe_intervals) = self.probe_rows();
        let (page_loads, page_objects) = self.page_rows();
        let (reports, report_names) = self.report_rows();
        self.write_guest_transfers();
        let mut record = self.record;
        (record.reports, record.report_names) = (reports, report_names);
        (record.page_loads, record.page_objects) = (page_loads, page_objects);
        (record.calls, record.frames) = (calls, frames);
        (record.probes, record.probe_intervals) = (probes, probe_intervals);
        self.pages.incomplete().for_each(|row| record.write_page(row));
        record.drops = self.transit.recorder.drops;
        record.packets = self.transit.recorder.packets;
        record.events = self.net.events();
        record.facts = self
            .workloads
            .iter()
            .map(|state| {
                let mut facts = Vec::new();
                state.workload.facts(&mut |name, value| facts.push((name, value)));
                facts
            })
            .collect();
        record
    }
}
